"""Cells of the canvas that take turns in the backward draw give the gradients of one draw in depth order."""

import numpy as np
import pytest

from hardsplat.api import Renderer
from hardsplat.errors import UserError
from hardsplat.raster import cells, hardware
from hardsplat.raster.cells import Grid
from hardsplat.variants.blocks import BLOCKS
from hardsplat.variants.cells import CELLS
from hardsplat.variants.formats import FORMATS
from tests.drawing import PARAMETERS, compare, gaussians_of
from tests.goldens import random_scene, relative_l2
from tests.test_hardware import TOLERANCE, in_range

SIZE = (171, 139)  # 3 x 3 cells of 64 px, no multiple of a block
UPRIGHT = "box"  # runs anywhere


@pytest.mark.parametrize("format", FORMATS)
def test_cells_agree_with_the_oracle(device, format):
    seed = 5
    scene = in_range(random_scene(seed, 300, *SIZE, 1, overlap=12))
    image_limit, gradient_limit = TOLERANCE[format]
    for side, segments in (("64", 1), ("64", 3), ("16", 2)):
        with Renderer(device, format=format, shape=UPRIGHT, cells=side, segments=segments) as renderer:
            image, gradients = compare(renderer, scene)
            times = renderer.times()
        assert "cell turns" in times
        assert image <= image_limit and max(gradients.values()) <= gradient_limit, f"{side}, {segments} segments, seed {seed}: {image}, {gradients}"


@pytest.mark.parametrize("block", BLOCKS)
def test_splats_over_many_cells(device, block):
    """Large and thin splats, which are drawn once for every cell, and splats of less than a pixel at the edges of cells."""
    for options in (dict(n=30, overlap=150), dict(n=60, anisotropy=200), dict(n=400, overlap=0.5)):
        with Renderer(device, format="float32", shape=UPRIGHT, block=block, cells="64", segments=2) as renderer:
            image, gradients = compare(renderer, random_scene(5, width=SIZE[0], height=SIZE[1], sh_degree=1, **options))
        assert image <= 1e-4 and max(gradients.values()) <= 1e-3, f"{block}, {options}: {image}, {gradients}"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_splats_than_lists(device, n):
    with Renderer(device, format="float32", shape=UPRIGHT, cells="64", segments=8) as renderer:
        image, gradients = compare(renderer, random_scene(5, n, *SIZE, 1, overlap=2))
    assert image <= 1e-4 and max(gradients.values()) <= 1e-3, (image, gradients)


def test_every_list_is_in_order_and_drawn_once(device):
    scene = random_scene(3, 700, *SIZE, 0, overlap=8)
    gaussians, camera = gaussians_of(scene)
    with Renderer(device, shape=UPRIGHT, cells="64", segments=4) as renderer:
        renderer.forward(gaussians, camera)
        grid, resources = renderer.raster.lists, renderer.resources
        pairs = int(renderer.parameters.counts["pairs"])
        assert pairs == int(renderer.parameters.counts["pairs_wanted"]) > 700
        turns = resources["cell_turns"].download(np.uint32, 2 * pairs).reshape(-1, 2)
        lists = resources["cell_lists"].download(np.uint32).reshape(-1, 3)
    assert len(set(map(tuple, turns.tolist()))) == pairs
    for number in range(grid.lists):
        ranks, (length, _, _) = turns[turns[:, 1] == number, 0], lists[number]
        assert len(ranks) == length and (np.diff(ranks.astype(int)) > 0).all(), number
        if length > 2:  # spread over the whole draw: no gap is more than twice as long as they all are
            gaps = np.diff(np.flatnonzero(turns[:, 1] == number))
            assert gaps.max() <= 3 * pairs / length + grid.lists, number


def test_pairs_without_room_are_the_farthest_and_room_is_made(device, monkeypatch):
    """Who asks for more room than there is gets it. Without it the nearest splats have their gradients all the same."""
    scene = random_scene(3, 300, *SIZE, 0, overlap=60)
    monkeypatch.setattr(cells, "FIRST_ROOM", 1)
    with Renderer(device, format="float32", shape=UPRIGHT, cells="64") as renderer:
        _, gradients = compare(renderer, scene)  # forward() makes room
        gaussians, camera = gaussians_of(scene)
        renderer.forward(gaussians, camera)
        wanted = renderer.backward(scene["weight"])
        assert renderer.raster.room >= int(renderer.parameters.counts["pairs_wanted"])
        assert max(gradients.values()) <= 1e-3, gradients
    monkeypatch.setattr(hardware.HardwareRasterizer, "make_room", lambda self, wanted=None: False)
    with Renderer(device, format="float32", shape=UPRIGHT, cells="64") as renderer:
        renderer.forward(gaussians, camera)
        cut = renderer.backward(scene["weight"])
        assert 0 < int(renderer.parameters.counts["pairs"]) <= renderer.raster.room < int(renderer.parameters.counts["pairs_wanted"])
    near = np.argsort(gaussians.means @ camera.w2c[2, :3])[:2]
    for name in PARAMETERS:
        assert relative_l2(cut[name][near], wanted[name][near]) < 1e-4 and 1e-3 < relative_l2(cut[name], wanted[name]) < 1.5, name


def test_shapes_that_cannot_be_cut(device):
    with pytest.raises(UserError, match=r"--cells 64: splats of --shape quad cannot be cut at cells; use --shape rectangle or box, or --cells none"):
        Renderer(device, shape="quad", cells="64")


def test_large_canvases_have_larger_cells():
    rows = type("Rows", (), {"cells": CELLS["64"]})()
    assert Grid.of(rows, 800, 533, 16) == Grid(64, 13, 9, 16)
    large = Grid.of(rows, 20_000, 10_000, 16)
    assert large.lists <= 4096 and large.across * large.side >= 20_000
