"""Floaters that are put into a result are found and left out of what `hardsplat clean` writes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardsplat.export.clean import MAX_LOSS, clean, gather_evidence
from hardsplat.io.scenes.colmap import read_seen
from hardsplat.io.scenes.masks import kept
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.scenes.views import View
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from hardsplat.train import run_training as train
from tests.helpers.scenes import masked_scene
from tests.helpers.splat_files import points_of, result_of
from tests.helpers.tables import refuses
from tests.helpers.training import settings
from tests.oracle import psnr

PLANTED = 6


def splats_at(means, opacity: float, size: float) -> Gaussians:
    n = len(means)
    shapes = np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), size), np.full(n, opacity)
    return Gaussians(np.asarray(means), *shapes, np.ones((n, 1, 3)))


def test_what_points_say_of_splats(device):
    """Two cameras side by side see a point on a wall of splats, one of them through a floater."""
    K = np.array([[40.0, 0, 16.5], [0, 40.0, 12.5], [0, 0, 1]])
    w2c = [np.eye(4), np.eye(4)]
    w2c[1][0, 3] = -0.5
    views = [View(name, Camera(pose, K, 32, 24), Path()) for name, pose in zip("ab", w2c)]
    gaussians = splats_at([[0, 0, 4.0], [0, 0, 1.5], [0, 0, -3]], 0.6, 0.1)
    points, seen = np.array([[0.0, 0, 4.0]]), {"a": np.array([0]), "b": np.array([0])}
    with Renderer(device, "tiled") as renderer:
        found = gather_evidence(gaussians, views, points, seen, renderer, 0.2, True)
    wall, floater, behind = range(3)
    assert found.held[wall] > 0 == found.free[wall]
    assert found.free[floater] == pytest.approx(0.6, abs=0.02) and found.held[floater] == 0
    assert found.held[wall] == pytest.approx(0.4 * 0.6 + 0.6, abs=0.03)
    assert found.pixels[behind] == 0 and found.near[floater] == found.pixels[floater] > 0
    assert found.floats.tolist() == [False, True, True]


def test_what_hides_the_view_between_photographs_floats(device):
    """A third camera sees one of two splats in a blind spot of two photographs as large."""
    poses = [np.eye(4), np.eye(4), np.diag([-1.0, 1, -1, 1])]
    poses[0][0, 3], poses[1][0, 3], poses[2][:3, 3] = 1, -1, (0.1, 0, 0.6)
    K = np.array([[40.0, 0, 16], [0, 40.0, 12], [0, 0, 1]])
    views = [View(name, Camera(w2c, K, 32, 24), Path()) for name, w2c in zip("abc", poses)]
    gaussians = splats_at([[0.1, 0, 0.3], [0, 0, 0.1]], 0.6, 0.02)
    with Renderer(device, "tiled") as renderer:
        found = gather_evidence(gaussians, views, np.zeros((0, 3)), {}, renderer, 0.01, True)
    assert found.hiding.tolist() == found.floats.tolist() == [False, True]
    assert found.doubt[0] == 1 and found.doubt[1] == pytest.approx(0.5 / found.hides[1])


def test_what_masks_leave_out_is_not_measured(device, on_device, scene, tmp_path):
    mask = np.zeros((24, 32), np.uint8)
    mask[:, 16:] = 255
    folder = masked_scene(scene, tmp_path, mask)
    run = result_of(tmp_path / "run", points_of(scene), data_dir=folder)
    opened, found = load_scene(folder), []
    with Renderer(device, "tiled") as renderer:
        for view in (opened.views[i] for i in opened.train):
            image = np.clip(renderer.forward(points_of(scene), view.camera)[0], 0, 1)
            photo = view.load()
            counts = kept(photo)
            assert not counts.all()
            found.append(psnr(image, photo[..., :3] / 255, counts))
    assert clean(run).before == pytest.approx(np.mean(found), abs=1e-3)


def test_planted_floaters_go(on_device, outdoors, tmp_path):
    run = tmp_path / "run"
    train(settings(outdoors, run, max_steps=60, strategy="none", rasterizer="tiled"))
    own = load_splats(run / "splats.ply")
    scene = load_scene(outdoors)
    points, seen = read_seen(outdoors, scene.origin)
    places = [[0.0, 0.0, 300.0]]
    for i in scene.train[: PLANTED - 1]:
        eye, point = scene.views[i].camera.position, points[seen[scene.views[i].name][7]]
        places.append(eye + 0.35 * (point - eye))
    planted = splats_at(places, 0.7, 0.08)
    sh = np.zeros((PLANTED, own.sh.shape[1], 3), np.float32)
    sh[:, :1] = planted.sh
    everything = Gaussians.concatenate([own, replace(planted, sh=sh, check=False)])
    save_splats(run / "splats.ply", everything)
    before = (run / "splats.ply").read_bytes()
    done = clean(run)
    others = load_splats(done.path)
    assert (run / "splats.ply").read_bytes() == before and done.path == run / "clean.ply"
    assert len(others) == done.read - done.removed
    left = [p for p in planted.means if np.abs(others.means - p).max(axis=1).min() < 1e-5]
    assert not left, f"{len(left)} of {PLANTED} floaters are left"
    assert done.after >= done.before - MAX_LOSS and done.removed < 0.7 * done.read
    more = clean(run, overwrite=True, max_loss=10.0)
    assert more.removed >= done.removed and more.after >= more.before - 10
    refuses("--max-loss: expected a number", clean, run, overwrite=True, max_loss=-1.0)
    clean(run, tmp_path / "small.spz")
    assert (tmp_path / "small.spz").stat().st_size > 100
    refuses("clean.ply: exists", clean, run)
    refuses("small.spz", clean, run, tmp_path / "small.spz")
    refuses("would replace", clean, run, run / "splats.ply", overwrite=True)
    alone = tmp_path / "alone.ply"
    save_splats(alone, own)
    refuses("--data-dir", clean, alone)
