"""Levels of detail and tiles on a device, under a budget of splats."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.export.levels import write_levels
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.base import in_memory
from hardsplat.io.media.images import read_pixels
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.renderer import Renderer
from hardsplat.render import streaming
from hardsplat.render.streaming import SLOT, Sight, StreamedSplats, choose_levels, in_view, tree_of
from tests.helpers.splat_files import some_splats
from tests.helpers.tables import refusal
from tests.oracle import psnr

NEAR = 0.1


def camera(x=0.0, z=7.0) -> Camera:
    w2c = np.eye(4)
    w2c[0, 3], w2c[2, 3] = x, z
    return Camera(w2c, [[80, 0, 48], [0, 80, 32], [0, 0, 1]], 96, 64)


@pytest.fixture(scope="module")
def splats():
    return some_splats(4000, 1, size=0.08)


@pytest.fixture(scope="module")
def lod(tmp_path_factory, splats):
    folder = tmp_path_factory.mktemp("lod")
    stream = in_memory(splats)
    write_levels(stream, folder, folder, leaf=600, chunk=1200, coarsest=300, quiet=True)
    return folder


@pytest.fixture(scope="module")
def tree(lod):
    return streamed_sog.read_tree(lod / streamed_sog.NAME)


@contextmanager
def streamed(tree, device, budget=None):
    """(splats of a tree on the device, their parameters)."""
    scene = StreamedSplats(tree, device, NEAR, budget)
    parameters = Parameters(device, scene.capacity, scene.sh_degree)
    scene.begin(parameters)
    yield scene, parameters
    parameters.destroy()
    scene.close()


def test_levels_follow_camera_and_budget(tree):
    place = tree.bounds, tree.count, tree.errors
    sight, most = Sight.of(camera(), NEAR), int(tree.count[:, 0].sum())
    assert (choose_levels(*place, sight, most) == 0).all()
    least = int(tree.count[:, -1].sum())
    assert (choose_levels(*place, sight, least) == tree.levels - 1).all()
    for budget in (10, least, 800, 1500, 3000):
        chosen = choose_levels(*place, sight, budget)
        used = tree.count[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]].sum()
        assert used <= budget and (budget < least or used > 0.6 * budget)
    away = Sight.of(camera(x=-9.0, z=1.0), NEAR)
    seen = in_view(tree.bounds, away)
    assert not seen.all()
    chosen = choose_levels(*place, away, most)
    assert (chosen[~seen] == tree.levels - 1).all() and (chosen[seen] == 0).all()


def test_what_is_on_the_device_is_what_was_chosen(tree, device):
    views = camera(), camera(x=-3.0, z=2.0), camera(z=30.0), camera(x=3.0, z=2.0), camera()
    with streamed(tree, device, 1500) as (scene, parameters):
        for view in views:
            scene.show(parameters, view)
            assert not scene.show(parameters, view) and scene.count <= 1500
            there = parameters.download()
            there = there[there.opacities > 1e-6]
            wanted = []
            for leaf, level in enumerate(scene.shown):
                chunk = load_splats(tree.files[tree.file[leaf, level]])
                first = tree.first[leaf, level]
                wanted.append(chunk.means[first : first + tree.count[leaf, level]])
            wanted = np.concatenate(wanted)
            assert len(there) == len(wanted) == scene.count
            order = lambda means: means[np.lexsort(means.T)]
            np.testing.assert_array_equal(order(there.means), order(wanted))
        assert sum(map(len, scene._slots)) + len(scene._free) == scene.capacity // SLOT


def test_without_waiting_it_begins_coarse_and_ends_the_same(tree, device):
    with streamed(tree, device) as (scene, parameters):
        assert scene.count == 0 and scene.budget == scene.total == 4000
        levels = []
        for _ in range(1000):
            scene.show(parameters, camera(), wait=False)
            levels.append(scene.shown.copy())
            if (scene.shown == 0).all():
                break
            for future in list(scene._loading.values()):
                future.result()
    assert (levels[-1] == 0).all() and any((shown == tree.levels - 1).any() for shown in levels)


def drawn(words, folder) -> np.ndarray:
    assert main(["render", *map(str, words), "--output", f"{folder}", "--quiet"]) == 0
    return read_pixels(folder / "frame_00000.png")[..., :3] / 255


def test_render_draws_levels(lod, splats, tmp_path, on_device):
    save_splats(tmp_path / "a.ply", splats)
    keys = tmp_path / "keys.json"
    key = {"w2c": camera().w2c.tolist(), "fov": 43.6}
    keys.write_text(json.dumps({"keyframes": [key], "width": 96, "height": 64}))
    look = "--path", keys, "--background", "black"
    whole = drawn([tmp_path / "a.ply", *look], tmp_path / "whole")
    fine = drawn([lod, *look], tmp_path / "fine")
    coarse = drawn([lod, *look, "--max-splats", 600], tmp_path / "coarse")
    assert psnr(fine, whole) > 25 and psnr(coarse, whole) < psnr(fine, whole)


def test_tiles_of_a_joined_scene(tmp_path, splats, device, monkeypatch):
    """Where the scene is larger than the device, tiles in view are drawn, the nearest first."""
    (tmp_path / "tiles").mkdir()
    rows = []
    for name, which in (("left", splats.means[:, 0] < 0), ("right", splats.means[:, 0] >= 0)):
        part = splats[which]
        save_splats(tmp_path / "tiles" / f"{name}.ply", part)
        low, high = part.means.min(axis=0).tolist(), part.means.max(axis=0).tolist()
        rows.append(dict(file=f"tiles/{name}.ply", splats=len(part), low=low, high=high))
    save_splats(tmp_path / "splats.ply", splats)
    (tmp_path / "tiles.json").write_text(json.dumps({"axes": [], "tiles": rows}))
    file = tmp_path / "splats.ply"
    assert tree_of(file, None, device) is None
    monkeypatch.setattr(streaming, "device_budget", lambda *_: 3000)
    with streamed(tree_of(file, None, device), device) as (scene, parameters):
        for x, shown, row in ((6.0, [0, -1], rows[0]), (-6.0, [-1, 0], rows[1])):
            scene.show(parameters, camera(x=x, z=6.0))
            assert scene.shown.tolist() == shown and scene.count == row["splats"]
        with Renderer(device, "tiled") as renderer:
            there = parameters.download()
            image, _ = renderer.forward(there[there.opacities > 1e-6], camera(), near=NEAR)
            right, _ = renderer.forward(splats[splats.means[:, 0] >= 0], camera(), near=NEAR)
        np.testing.assert_allclose(image, right, atol=2e-3)
    rows[0]["file"] = "../a.ply"
    (tmp_path / "tiles.json").write_text(json.dumps({"tiles": rows}))
    assert "tiles.json: truncated or damaged: it names a file elsewhere" in refusal(
        tree_of, file, None, device
    )


def test_a_budget_takes_levels(tmp_path, splats, error_of):
    save_splats(tmp_path / "a.ply", splats)
    said = error_of("render", f"{tmp_path / 'a.ply'} --max-splats 100")
    assert "has no levels of detail; write them first: hardsplat lod" in said
