"""The tiled rasterizer: lists against a count, backward rows against oracle and gsplat."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.memory.allocation import POISON
from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.core.rasterizer import pairs_wanted
from hardsplat.raster.core.resolve import runnable
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.raster.tiled import rasterizer
from hardsplat.tables.gradients import ATOMICS, TILE_BACKWARDS
from tests.helpers.drawing import agrees, clear_scene, fresh_seed, splats_of
from tests.helpers.goldens import random_scene, scene_of
from tests.oracle import render
from tests.oracle.render import ALPHA_MIN

TILE = contract.CONSTANTS["TILE"]


def listing(monkeypatch, local: bool) -> None:
    """Lists of tiles are sorted by each tile, where `local`, or made in order."""
    monkeypatch.setattr(rasterizer, "is_local", lambda row, lanes: local)


def little_room(monkeypatch, fewest: int, each: int, grows=True) -> None:
    """Makes room for so many pairs at first; `each`: for a splat."""
    monkeypatch.setattr(rasterizer, "FEWEST_PAIRS", fewest)
    monkeypatch.setattr(rasterizer, "PAIRS_PER_SPLAT", each)
    if not grows:
        monkeypatch.setattr(rasterizer.TiledRasterizer, "reserve_pairs", lambda self: False)


def poisoned_lists(renderer: Renderer, tiles: int = 0) -> list[np.ndarray]:
    """The lists of a second run of the frame, which must not need what the first one left."""
    names = "tile_starts tile_order tile_spans tile_reaches pair_sums pair_digits"
    for name in f"{names} pair_tiles pair_tiles_alt pair_splats pair_splats_alt".split():
        renderer.resources[name].fill(POISON)
    renderer._forward.run_once()
    return lists(renderer, tiles)


def facing(mean, sigma, angle, opacity=0.8, size=(64, 64), focal=100.0) -> dict:
    """Splats at these pixels, with sigma along and across `angle`, 2 before a camera."""
    rng, z = np.random.default_rng(0), 2.0
    mean, sigma, angle = (np.asarray(a, float) for a in (mean, sigma, angle))
    n, (width, height), zero = len(angle), size, np.zeros(len(angle))
    scene = dict(
        means=np.c_[(mean - np.array([width, height]) / 2) * z / focal, np.full(n, z)],
        quats=np.c_[np.cos(angle / 2), zero, zero, np.sin(angle / 2)],
        scales=np.c_[sigma, sigma[:, 1]] * z / focal,
        opacities=np.full(n, opacity),
        sh=rng.normal(0, 1, (n, 1, 3)),
        w2c=np.eye(4),
        K=np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]),
        weight=rng.normal(size=(height, width, 3)),
    )
    scene = {k: v.astype(np.float32) for k, v in scene.items()}
    return scene | dict(width=width, height=height, sh_degree=0)


def strewn(rng, mean, low, high, **options) -> dict:
    """Splats at these pixels, of any angle; standard deviations of e^low to e^high px."""
    n = len(mean)
    return facing(mean, np.exp(rng.uniform(low, high, (n, 2))), rng.uniform(0, np.pi, n), **options)


DEEP = dict(overlap=80, opacity=(0.6, 0.95))
SCENES = [
    (None, 200, (61, 47), dict(overlap=12)),
    (1, 200, (61, 47), dict(overlap=12)),
    (1, 100, (7, 5), DEEP),
    (1, 150, (320, 272), dict(overlap=3)),
    (1, 200, (64, 33), DEEP),
    (1, 40, (64, 33), dict(anisotropy=200)),
]


@pytest.mark.parametrize("row", TILE_BACKWARDS)
def test_every_row_agrees_with_the_oracle(device, row):
    """On canvases that are no multiple of a tile, smaller than one, and with more tiles than one
    digit sorts; with deep overlap that finishes pixels.

    The first scene is fresh, and has room for one fragment that rounding moves across alpha =
    1/255: 3e-3 of a gradient, in one scene of a hundred."""
    if row not in runnable(device, TILE_BACKWARDS):
        pytest.skip(f"lacks {device.capabilities.missing(TILE_BACKWARDS[row].needs)}")
    for seed, n, size, options in SCENES:
        for atomics in runnable(device, ATOMICS)[: 2 if size == (61, 47) else 1]:
            with Renderer(device, "tiled", tile_backward=row, atomics=atomics) as renderer:
                scene = clear_scene(n, *size, 2, seed=seed, **options)
                limits = 1e-4, 1e-3 if seed else 1e-2
                agrees(renderer, scene, limits, (row, size, atomics))


@pytest.mark.parametrize("threshold", [1, 32])
@pytest.mark.parametrize("row", [name for name, row in TILE_BACKWARDS.items() if row.threshold])
def test_thresholds(device, row, threshold):
    scene = clear_scene(100, 40, 40, 0, seed=1, overlap=8)
    with Renderer(device, "tiled", tile_backward=row, tile_threshold=threshold) as renderer:
        agrees(renderer, scene, what=(row, threshold))


def test_nothing_to_draw(device):
    camera = Camera(np.eye(4), np.array([[40.0, 0, 16], [0, 40, 16], [0, 0, 1]]), 32, 32)
    scene = splats_of(random_scene(0, 5, 32, 32, 1))[0]
    empty = Gaussians(*(np.zeros((0, *v)) for v in ((3,), (4,), (3,), (), (1, 3))))
    behind = replace(scene, means=np.tile([0, 0, -2.0], (5, 1)))
    for row in runnable(device, TILE_BACKWARDS):
        with Renderer(device, "tiled", tile_backward=row) as renderer:
            for gaussians in (empty, behind):
                image, T = renderer.forward(gaussians, camera, background=(0.25, 0.5, 1.0))
                assert np.allclose(image, (0.25, 0.5, 1.0)) and np.all(T == 1)
                assert all(not g.any() for g in renderer.backward(np.ones((32, 32, 3))).values())


def lists(renderer: Renderer, tiles: int = 0) -> list[np.ndarray]:
    """Returns the splats of every tile of the image, by default of the canvas, as listed."""
    tiles = tiles or renderer.raster.tiles
    starts = renderer.resources["tile_starts"].download(np.uint32, tiles + 1)
    assert starts[0] == 0 and (np.diff(starts.astype(int)) >= 0).all()
    assert starts[-1] == renderer.parameters.counts["pairs"]
    splats = renderer.resources["tile_reaches"].download(contract.dtype("TileReach"))["splat"]
    ranks = renderer.resources["pair_splats"].download(np.uint32, int(starts[-1]))
    return [splats[ranks[a:b]] for a, b in itertools.pairwise(starts)]


LISTS = [((61, 47), True), ((210, 70), True), ((210, 70), False), ((16, 16), False)]


@pytest.mark.parametrize("size, local", LISTS)
def test_tiles_list_exactly_the_splats_that_touch_them(device, monkeypatch, size, local):
    """A splat with a pixel in a tile is listed there; nearest first, each once."""
    listing(monkeypatch, local)
    rng = np.random.default_rng(seed := fresh_seed())
    n = 300
    mean = rng.uniform(-30, 30, (n, 2)) + rng.uniform(0, 1, (n, 2)) * size
    scene = strewn(rng, mean, np.log(0.2), np.log(40), size=size)
    scene["means"] *= rng.uniform(0.8, 1.25, (n, 1)).astype(np.float32)
    gaussians, camera = splats_of(scene)
    with Renderer(device, "tiled") as renderer:
        renderer.forward(gaussians, camera)
        listed = lists(renderer)
    p = render(**scene_of(scene), near=0.01).projection
    visible, across = set(np.flatnonzero(p.visible)), -(-size[0] // TILE)

    def alpha(i, x, y, scale=1.0):
        dx, dy = x - p.mean2d[i, 0], y - p.mean2d[i, 1]
        A, B, C = p.conic[i] * scale
        falloff = np.exp(-0.5 * (A * dx * dx + C * dy * dy) - B * dx * dy)
        return (scene["opacities"][i] * falloff).max()

    for tile, splats in enumerate(listed):
        corner = TILE * np.array([tile % across, tile // across]) + 0.5
        x, y = np.meshgrid(*(np.arange(TILE) + corner[:, None]))
        fine = np.meshgrid(*(np.linspace(-0.05, TILE - 0.95, 160) + corner[:, None]))
        assert len(set(splats)) == len(splats)
        assert (np.diff(p.depth[splats]) >= 0).all(), (tile, seed)
        for i in visible - set(splats):
            assert alpha(i, x, y) < ALPHA_MIN * 1.001, (tile, i, seed)
        for i in splats:  # the fine raster may miss a thin ellipse by half its step
            if min(p.extent[i]) > 2:
                assert alpha(i, *fine, scale=0.97) >= ALPHA_MIN, (tile, i, seed)


WIDE = (700, 210)  # px: more tiles across and down than a packed splat has, or one digit sorts


def scattered(n: int, seed: int) -> dict:
    """Splats of all sizes on the left of WIDE px; five touch more tiles than 16 bytes list."""
    rng = np.random.default_rng(seed)
    mean, sigma = rng.uniform(-40, (350, 250), (n, 2)), np.exp(rng.uniform(-1, 3, (n, 2)))
    angle = rng.uniform(0, np.pi, n)
    # Two with too many rows, one with too many columns, and two that begin too far to the right
    # or left of the row before.
    mean[:5], sigma[:5] = (350, 100), ((3, 200), (40, 60), (400, 3), (400, 0.5), (400, 0.5))
    angle[:5] = 0, 0, 0, 0.05, -0.05
    mean[5::7, 0], sigma[5::7] = TILE * rng.integers(1, 20, len(mean[5::7])), 0.1
    scene = facing(mean, sigma, angle, size=WIDE)
    scene["opacities"][5::7] = 1.1 * ALPHA_MIN  # between the pixel centres of two tiles
    depths = rng.choice(rng.uniform(0.8, 1.25, n // 2), (n, 1))  # some equally far
    scene["means"] *= depths.astype(np.float32)
    return scene


def spans(renderer: Renderer) -> dict[int, list[int] | None]:
    """The tiles of every splat as packed, None where they do not fit."""
    visible, across = renderer.parameters.counts["visible"], -(-WIDE[0] // TILE)
    reaches = renderer.resources["tile_reaches"].download(contract.dtype("TileReach"))
    packed = renderer.resources["tile_spans"].download(np.uint32, 4 * visible).reshape(-1, 4)
    found: dict[int, list[int] | None] = {}
    for splat, (at, *codes) in zip(reaches["splat"][:visible].tolist(), packed.tolist()):
        x, tiles = at & 0xFFFF, []
        for row in range(9):
            code = codes[row // 3] >> 10 * (row % 3) & 1023
            x += (code >> 5) - 16
            tiles += [((at >> 16) + row) * across + x + i for i in range(code & 31)]
            if code == 0:  # rows behind the last one
                break
        found[splat] = None if at == 0xFFFFFFFF else tiles
    return found


def test_lists_in_order_are_those_of_tiles_that_sort_their_own(device, monkeypatch):
    """Splats are packed with the tiles that list them, or not at all, in changing numbers."""
    seed = fresh_seed()
    frames = [splats_of(scattered(n, seed + n)) for n in (3000, 40, 500)]
    behind = replace(frames[0][0], means=-np.abs(frames[0][0].means))
    frames[1:1] = [(behind, frames[0][1])]
    frames.append(frames[0])
    listed = {True: [], False: []}
    for local, found in listed.items():
        listing(monkeypatch, local)
        with Renderer(device, "tiled") as renderer:
            for i, (gaussians, camera) in enumerate(frames):
                renderer.forward(gaussians, camera)
                found.append(lists(renderer) if local else poisoned_lists(renderer))
                if local or i == 1:
                    continue
                touched: dict[int, list[int]] = {}
                for tile, splats in enumerate(found[-1]):
                    for splat in splats.tolist():
                        touched.setdefault(splat, []).append(tile)
                packed = spans(renderer)
                for splat, tiles in packed.items():
                    assert tiles is None or tiles == touched.get(splat, []), seed
                assert all(packed[splat] is None for splat in range(5)), seed
                assert len([tiles for tiles in packed.values() if tiles]) > len(packed) / 2
                assert [] in packed.values()
    for i, (own, in_order) in enumerate(zip(*listed.values(), strict=True)):
        for tile, pair in enumerate(zip(in_order, own, strict=True)):
            np.testing.assert_array_equal(*pair, err_msg=f"frame {i}, tile {tile}, seed {seed}")
    pairs = np.array([[len(splats) for splats in frame] for frame in listed[False]])
    assert not pairs[1].any() and (pairs.min(1) == 0).all()  # tiles without pairs
    assert pairs[0].sum() > 4 * 1024  # several blocks of the sort


@pytest.mark.parametrize("row", ["reduce-scatter", "gather"])
def test_pairs_that_do_not_fit(device, monkeypatch, row):
    """The farthest, or whole tiles, are counted and dropped within the buffers. Room is made."""
    listing(monkeypatch, row != "gather")
    scene = clear_scene(200, 61, 47, 0, seed=1, overlap=12)
    gaussians, camera = splats_of(scene)
    with Renderer(device, "tiled", tile_backward=row) as renderer:
        image, _ = renderer.forward(gaussians, camera)
        wanted, full = int(renderer.parameters.counts["pairs_wanted"]), lists(renderer)
    little_room(monkeypatch, 1, 1)
    renderer = Renderer(device, "tiled", tile_backward=row)
    with monkeypatch.context() as patch:
        little_room(patch, 1, 1, grows=False)
        renderer.forward(gaussians, camera)
        assert all(np.isfinite(g).all() for g in renderer.backward(scene["weight"]).values())
    counts, room = renderer.parameters.counts, renderer.raster.pair_capacity
    assert 0 < counts["pairs"] <= room < wanted == counts["pairs_wanted"], scene["seed"]
    assert counts["pairs"] == room or row != "gather"
    for few, all_of_them in zip(lists(renderer), full):
        np.testing.assert_array_equal(few, all_of_them[: len(few)])
        assert row == "gather" or len(few) in (0, len(all_of_them))
    np.testing.assert_array_equal(renderer.forward(gaussians, camera)[0], image)
    assert renderer.raster.pair_capacity >= wanted
    agrees(renderer, scene, what="after growth")
    renderer.close()


def test_more_pairs_than_32_bits_count(device, caplog, monkeypatch):
    """The nearest splats fit and are drawn; the log says that others are not."""
    n, side, room = 1 << 20, 1024, 1 << 17
    monkeypatch.setattr(rasterizer, "most_pairs", lambda in_order, reach: room)
    little_room(monkeypatch, room, 0)
    means = np.column_stack([np.zeros((n, 2)), np.linspace(4, 5, n)])
    rest = np.full((n, 3), 30.0), np.full(n, 0.9), np.ones((n, 1, 3))
    gaussians = Gaussians(means, np.tile([1.0, 0, 0, 0], (n, 1)), *rest)
    K = np.array([[side, 0, side / 2], [0, side, side / 2], [0, 0, 1.0]])
    with Renderer(device, "tiled") as renderer:
        image, T = renderer.forward(gaussians, Camera(np.eye(4), K, side, side))
        wanted = pairs_wanted(renderer.parameters.counts)
        assert wanted == n * (side // TILE) ** 2 == 1 << 32 > renderer.raster.pair_capacity
    np.testing.assert_allclose(image, 0.5 + SH_C0, atol=2e-4)
    assert T.max() < 1e-4
    assert "the farthest are not drawn" in caplog.text
