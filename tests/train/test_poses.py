"""Gradients of poses against central differences of the oracle, and runs with poses."""

import json
import shutil

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.io.scenes.poses import save_poses
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import frame_data
from hardsplat.train.features.poses import MOST_SHIFT, MOST_TURN, moved, refined
from hardsplat.train.measure.measure import Evaluator
from tests.helpers.tables import refuses
from tests.helpers.training import OneStep, frozen, open_session, partly_outside, settings
from tests.oracle.differences import central

WAYS = [
    dict(block="1x1", state_format="float32"),
    dict(antialiased=True, state_format="float32"),
    dict(rasterizer="tiled"),
    dict(rasterizer="tiled", tile_backward="gather", antialiased=True),
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_gradients_against_central_differences(device, options):
    """By turn and shift at refined poses; conventions are the oracle's."""
    rng, s = np.random.default_rng(7), partly_outside()
    base = Camera(s["w2c"], s["K"], 48, 32)
    cameras = [base, refined(base, np.array([0.02, -0.01, 0.03]), np.array([0.05, 0.02, -0.04]))]
    values = {"turn": rng.normal(0, 0.2, (2, 3)), "shift": rng.normal(0, 0.05, (2, 3))}
    own = {"rasterizer": "hardware", "pose_opt": True, "pose_warm_up": 1, **options}
    step = OneStep(device, s, own, cameras, values)
    camera, at = cameras[step.view], np.concatenate([step.before[name] for name in values])
    found = np.concatenate([step.gradient(name)[step.view] for name in values])
    moved, there = step.struct("Camera"), refined(camera, at[:3], at[3:])
    assert np.abs(moved["world_to_camera"] - there.w2c[:3]).max() < 1e-6
    assert np.abs(moved["position"] - there.position).max() < 1e-5
    filtered = options.get("antialiased", False)
    loss = lambda v: step.loss(refined(camera, v[:3], v[3:]), antialiased=filtered)
    # Steps so small that no fragment comes or goes at alpha = 1/255.
    wanted = central(loss, at, 1e-7)
    assert np.abs(found - wanted).max() < 3e-5 * np.abs(wanted).max(), (found, wanted)


def test_poses_are_found_against_splats_that_stay(device, scene):
    """Of photographs of splats, from where they were not taken."""
    rates = dict(pose_lr=3e-3, pose_warm_up=1)
    config = settings(scene, strategy="none", max_steps=150, pose_opt=True, batch_steps=50, **rates)
    first = settings(scene, strategy="none", max_steps=120, batch_steps=60)
    session = open_session(device, first)
    for _ in range(2):
        session.run(60)
    trained, rng = session.store.gaussians(), np.random.default_rng(0)
    cameras = session.job.views.cameras[:3]
    size, extent = (session.width, session.height), session.job.views.extent
    evaluator = Evaluator(session.raster)
    blank, frame = np.zeros((*size[::-1], 3), np.uint8), frame_data(1, (0, 0, 0), 0.2)
    images = [evaluator.measure("", c, blank, frame).image for c in cameras]
    evaluator.destroy()
    photos = [np.clip(np.round(255 * image), 0, 255).astype(np.uint8) for image in images]
    wrong = [refined(c, *rng.normal(0, 0.02, (2, 3))) for c in cameras]
    session = frozen(device, config, wrong, photos, size, extent)
    session.start(trained)
    for _ in range(3):
        session.run(50)
    found = moved(wrong, session.snapshot().buffers)
    assert np.array_equal(session.store.gaussians().means, trained.means)
    off = lambda each: np.mean([np.abs(a.w2c - b.w2c)[:3].max() for a, b in zip(cameras, each)])
    assert off(found) < 0.25 * off(wrong)


@pytest.mark.parametrize("rasterizer, rate", [("hardware", 0.02), ("tiled", 1e-3)])
def test_the_mean_of_all_poses_stays_where_it_is(device, scene, rasterizer, rate):
    """No camera leaves its limits, and the moments of the photograph seen alone change."""
    rates = dict(pose_lr=rate, pose_warm_up=1)
    config = settings(scene, strategy="none", pose_opt=True, rasterizer=rasterizer, **rates)
    session = open_session(device, config)
    to_world = np.stack([c.w2c[:3, :3].T for c in session.job.views.cameras])
    before, compared = session.snapshot().buffers, set()
    for step in range(6):
        session.run(1)
        after = session.snapshot().buffers
        view = session.resources["frame"].download(contract.dtype("Frame"))[0]["view"]
        for name, most in (("turn", MOST_TURN), ("shift", MOST_SHIFT * session.job.views.extent)):
            changed = np.any(after[f"adam_{name}"] != before[f"adam_{name}"], axis=(0, 1, 3))
            assert np.flatnonzero(changed).tolist() == [view]
            lengths = np.linalg.norm(after[name][0], axis=1)
            assert lengths.max() <= most * 1.0001
            if lengths.max() < 0.99 * most:  # a camera at its limit does without its share
                moves = after[name][0].astype(np.float64)
                mean = np.einsum("nij,nj->i", to_world, moves) / len(to_world)
                assert np.abs(mean).max() < 1e-6 * max(lengths.max(), 1), (step, name)
                compared.add(name)
        before = after
    assert after["turn"].any() and after["shift"].any()
    assert rate == 0.02 or compared == {"turn", "shift"}


def test_refined_poses_are_scenes_again(scene, tmp_path):
    """As a COLMAP model, and as transforms.json: the same cameras, photographs and points."""
    given = load_scene(scene)
    rng = np.random.default_rng(2)
    cameras = [refined(v.camera, *rng.normal(0, 0.02, (2, 3))) for v in given.views]
    save_poses(tmp_path / "poses", given, cameras, scene)
    for name in ("colmap", "transforms"):
        (tmp_path / name).mkdir()
        shutil.copytree(scene / "images", tmp_path / name / "images")
    shutil.copytree(tmp_path / "poses" / "sparse", tmp_path / "colmap" / "sparse")
    shutil.copy(tmp_path / "poses" / "transforms.json", tmp_path / "transforms")
    for name in ("colmap", "transforms"):
        found = load_scene(tmp_path / name)
        assert [v.path.name for v in found.views] == [v.path.name for v in given.views]
        for view, camera in zip(found.views, cameras):
            assert np.abs(view.camera.w2c - camera.w2c).max() < 1e-9
            assert np.allclose(view.camera.K, camera.K)
        assert (found.train, found.test) == (given.train, given.test)
    assert np.allclose(load_scene(tmp_path / "colmap").points, given.points)
    model = shutil.copytree(tmp_path / "poses/sparse", tmp_path / "transforms/sparse") / "0"
    words = f"cameras are from {model}; rename that to use transforms.json instead"
    assert words in load_scene(tmp_path / "transforms").notes


def test_poses_of_photographs_in_memory(tmp_path):
    camera = Camera(np.eye(4), [[30.0, 0, 16], [0, 31.0, 12], [0, 0, 1]], 32, 24)
    other = refined(camera, np.array([0.1, 0, 0]), np.array([0, 0.5, 0]))
    photos = [np.zeros((24, 32, 3), np.uint8)] * 2
    scene = Scene.of_images([camera, other], photos, names=["a.png", "b.png"], test_every=0)
    save_poses(tmp_path, scene, [camera, other])
    frames = json.loads((tmp_path / "transforms.json").read_text())["frames"]
    assert [f["file_path"] for f in frames] == ["a.png", "b.png"] and frames[1]["fl_y"] == 31.0
    (tmp_path / "file").touch()
    refuses("cannot write", save_poses, tmp_path / "file", scene, [camera, other])
