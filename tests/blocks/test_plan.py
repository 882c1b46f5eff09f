"""Plans of blocks: cuts, photographs of a block, plan.json, and what is joined."""

import itertools
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from hardsplat.blocks import cut
from hardsplat.blocks.cut import LEAST_SHARE, BlockBox, cut_grid, cut_into, cut_to_fit, whole
from hardsplat.blocks.join import join
from hardsplat.blocks.leaf import SLACK, may_show
from hardsplat.blocks.plan import MARGIN, BlockPlan, SceneBlock, load_plan
from hardsplat.blocks.planner import Wanted, photographs_of, shares
from hardsplat.blocks.polish import seams_of, sources_of
from hardsplat.io.formats import ply
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.camera import Camera
from hardsplat.model.framing import look_at
from hardsplat.model.region import OPEN
from tests.helpers.drawing import fresh_seed
from tests.helpers.splat_files import some_splats
from tests.helpers.spoiling import survives_values, takes_at_most
from tests.helpers.tables import refusal

K = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])


def looking(position, target=(0, 0, 0), up=(0, 0, 1)) -> Camera:
    w2c = look_at(np.array(position, float), np.array(target, float), np.array(up, float))
    return Camera(w2c, K, 64, 48)


def owners(boxes, places) -> np.ndarray:
    """(boxes, N) bool."""
    return np.array([box.holds(places) for box in boxes])


CUTS = {
    "5 blocks": lambda places: cut_into(places, 5),
    "3x2": lambda places: cut_grid(places, 3, 2),
    "1x4": lambda places: cut_grid(places, 1, 4),
    "to fit": lambda places: cut_to_fit(places, lambda n: n <= 300, 64),
}


@pytest.mark.parametrize("name", CUTS)
def test_each_place_lies_in_one_block(name):
    rng = np.random.default_rng(seed := fresh_seed())
    places = rng.normal(size=(2_000, 2)) * [5, 1] + rng.integers(0, 2, (2_000, 1)) * 9
    boxes = CUTS[name](places)
    far = np.concatenate([places, rng.uniform(-1e6, 1e6, (100, 2)), [box.low for box in boxes]])
    assert (owners(boxes, far).sum(axis=0) == 1).all(), seed
    counts = owners(boxes, places).sum(axis=1)
    if name == "to fit":
        assert counts.max() <= 300, seed
    else:
        assert len(boxes) == {"5 blocks": 5, "3x2": 6, "1x4": 4}[name]
    if "x" in name:
        assert counts.max() - counts.min() <= 2, (counts, seed)


def test_a_cut_leaves_a_third_of_the_length_on_either_side():
    places = np.concatenate([np.zeros((900, 2)), np.linspace([0, 0], [10, 1], 100)])
    low, high = cut.cut_in_two(whole(places), places)
    length = whole(places).size[0]
    assert low.size[0] == pytest.approx(LEAST_SHARE * length) and low.high[0] == high.low[0]


def test_up_is_across_the_plane_of_the_cameras():
    """Cameras on a ring that all look down by 30 degrees; the world lies on its side."""
    turns = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(500, 3)) * [1, 5, 0.5]
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    ring = [looking((4 * np.cos(t), 4 * np.sin(t), 2.3)) for t in turns]
    aside = np.block([[rotation.T, np.zeros((3, 1))], [0, 0, 0, 1]])
    cameras = [replace(camera, w2c=camera.w2c @ aside) for camera in ring]
    axes = cut.upright_axes(cameras, means @ rotation.T)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)
    assert axes[2] @ rotation[:, 2] == pytest.approx(1, abs=1e-6)
    assert abs(axes[0] @ rotation[:, 1]) > 0.99


def test_photographs_are_chosen_by_what_they_show():
    boxes = cut_grid(np.array([[-1.0, 0], [1, 0]] * 50), 2, 1)
    places = np.array([[-1.0, 0], [1, 0]])
    weights = [np.array(pair, np.float32) for pair in ((1, 0), (0.96, 0.04), (0.5, 0.5), (0, 2))]
    share = shares(boxes, places, weights)
    np.testing.assert_allclose(share, [[1, 0], [0.96, 0.04], [0.5, 0.5], [0, 1]], atol=1e-6)
    axes, cameras = np.eye(3)[:2], [looking((-1, y, 0), (9, y, 0)) for y in (-1, 0, 1, 2)]
    points = np.random.default_rng(0).uniform([0.5, -1, -1], [1.5, 1, 1], (400, 3))
    assert photographs_of(boxes[0], share[:, 0], cameras, axes, points) == [0, 1, 2]
    assert photographs_of(boxes[1], share[:, 1], cameras, axes, points) == [3, 2]
    inside = [*cameras[:1], looking((0.1, 0, 0), (9, 0, 0)), *cameras[2:]]
    assert photographs_of(boxes[1], share[:, 1], inside, axes, points) == [3, 2, 1]


def plan_of(*boxes: BlockBox) -> BlockPlan:
    block = lambda n: SceneBlock(f"block-{n}", boxes[n], ("a.jpg", "b.jpg"), 10, 20)
    return BlockPlan("scene", np.eye(3), tuple(map(block, range(len(boxes)))))


def halves(border: float) -> BlockPlan:
    low, high = (-OPEN, -OPEN), (OPEN, OPEN)
    return plan_of(BlockBox(low, (border, OPEN), (4, 2)), BlockBox((border, -OPEN), high, (3, 2)))


TWO = halves(1.0)
LEFT_BOX = asdict(TWO.blocks[0].box)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    TWO.save(tmp_path / "plan.json")
    read = load_plan(tmp_path / "plan.json", ["a.jpg", "b.jpg", "c.jpg"], "scene")
    assert read.blocks == TWO.blocks and (read.axes == TWO.axes).all()
    region = read.blocks[0].region(read.axes)
    assert region.low == (-OPEN,) * 3 and region.high == (1 + MARGIN * 4, OPEN, OPEN)


BROKEN = {
    "no JSON": (lambda t: "{", "not valid JSON"),
    "deep": (lambda t: "[" * 100_000, "not valid JSON"),
    "a huge cap": (lambda t: changed(t, cap=10**400), "not whole numbers"),
    "a huge box": (lambda t: changed(t, box={**LEFT_BOX, "low": [10**400, 0]}), "not a plan"),
    "huge axes": (lambda t: t | {"axes": [[10**400] * 3] * 3}, "not a plan"),
    "a list": (lambda t: [], "not a plan"),
    "another schema": (lambda t: t | {"schema": 9}, "its schema is 9"),
    "axes": (lambda t: t | {"axes": [[1, 0, 0]] * 3}, "not orthonormal"),
    "no axes": (lambda t: t | {"axes": "x"}, "not a plan"),
    "no blocks": (lambda t: t | {"blocks": []}, "has no blocks"),
    "nothing": (lambda t: {}, "a plan of blocks, 'schema' is missing"),
    "half a splat": (lambda t: changed(t, cap=1.5), "not whole numbers"),
    "a word": (lambda t: changed(t, photographs="a.jpg"), "its photographs are no list"),
    "ends the wrong way": (lambda t: changed(t, box={**LEFT_BOX, "low": [2, 0]}), "low end of its"),
    "a start elsewhere": (lambda t: changed(t, start="../plan.json"), "which is no file below"),
    "a name that leads elsewhere": (lambda t: changed(t, name="../x"), "its name"),
    "NaN": (lambda t: changed(t, box={**t["blocks"][0]["box"], "low": [float("nan"), 0]}), "box"),
    "no steps": (lambda t: changed(t, steps=0), "steps"),
    "one name twice": (lambda t: changed(t, name="block-1"), "one name"),
    "no photographs": (lambda t: changed(t, photographs=[]), "has no photographs"),
    "another scene": (lambda t: changed(t, photographs=["z.jpg"]), "no training photograph"),
    "an overlap": (lambda t: changed(t, box=t["blocks"][1]["box"]), "overlap"),
}


def changed(table: dict, **values) -> dict:
    first, *others = table["blocks"]
    return table | {"blocks": [first | values, *others]}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_plan_is_refused_in_a_line(tmp_path, what):
    TWO.save(path := tmp_path / "plan.json")
    spoil, words = BROKEN[what]
    table = spoil(json.loads(path.read_text()))
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    said = refusal(load_plan, path, ["a.jpg", "b.jpg"], "scene")
    assert words in said and str(path) in said


def test_damaged_values_are_refused_in_a_line(tmp_path):
    TWO.save(path := tmp_path / "plan.json")
    good = json.loads(path.read_text())
    survives_values(
        lambda: load_plan(path, ["a.jpg", "b.jpg"], "scene"), path, good, 400, path=path
    )


def test_an_overlap_is_found_among_thousands_of_blocks(tmp_path):
    """Each pair compared in Python would take minutes."""
    side, path = 64, tmp_path / "plan.json"
    places = itertools.product(map(float, range(side)), range(side))
    boxes = [BlockBox((x, y), (x + 1, y + 1), (1, 1)) for x, y in places]
    plan_of(*boxes).save(path)
    assert len(load_plan(path, ["a.jpg", "b.jpg"], "scene").blocks) == side**2
    wide = replace(boxes[1000], high=(boxes[1000].high[0] + 0.01, boxes[1000].high[1]))
    plan_of(*boxes[:1000], wide, *boxes[1001:]).save(path)
    words = f"blocks block-1000 and block-{1000 + side} overlap"
    assert words in refusal(load_plan, path, ["a.jpg", "b.jpg"], "scene")


@pytest.mark.parametrize("word", ["0", "2x", "x2", "-1", "2x0", "many", ""])
def test_numbers_of_blocks_are_checked(word):
    assert "auto, a number" in refusal(Wanted, word)


def records(*files) -> set[bytes]:
    """The bytes of each splat in files."""
    return {r.tobytes() for file in files for p in ply.Table(file, "vertex").pieces() for r in p}


def test_every_splat_comes_from_the_block_that_owns_it(tmp_path):
    """Both blocks have all splats, in colours of their own. Bits and header stay."""
    splats = some_splats(400, 1)
    border = float(np.median(splats.means[:, 0]))
    plan, files = halves(border), []
    for number in range(2):
        own = replace(splats, sh=np.full_like(splats.sh, number), check=False)
        files.append(tmp_path / f"{number}.ply")
        save_splats(files[-1], own, antialiased=True)
    assert join(plan, sources_of(plan, files, []), tmp_path / "out") == len(splats)
    joined = load_splats(tmp_path / "out/splats.ply")
    given, copied = records(*files), records(tmp_path / "out/splats.ply")
    assert len(joined) == len(splats) == len(given & copied)
    assert ply.is_antialiased(tmp_path / "out/splats.ply")
    assert (joined.sh[:, 0, 0] == (joined.means[:, 0] >= border)).all()
    both = np.sort(joined.means.view("f4,f4,f4"), axis=0)
    assert (both == np.sort(np.ascontiguousarray(splats.means).view("f4,f4,f4"), axis=0)).all()
    index = json.loads((tmp_path / "out/tiles.json").read_text())
    left = int((splats.means[:, 0] < border).sum())
    assert [row["splats"] for row in index["tiles"]] == [left, len(splats) - left]
    for row in index["tiles"]:
        tile = load_splats(tmp_path / "out" / row["file"])
        np.testing.assert_array_equal(tile.means.min(axis=0), np.float32(row["low"]))


def test_seams_lie_along_borders_and_own_their_splats(tmp_path):
    """Every splat comes once, from the first seam that holds it or else from its block."""
    rng = np.random.default_rng(seed := fresh_seed())
    splats = some_splats(3_000, 1)
    splats = replace(splats, means=rng.uniform(-1, 1, (3_000, 3)).astype(np.float32))
    boxes = cut_grid(splats.means[:, :2].astype(np.float64), 2, 2)
    plan = plan_of(*boxes)
    seams = seams_of(plan, 100, 4)
    assert len(seams) in (4, 5) and {s.belt.steps for s in seams} == {50}, seed
    assert all(seam.belt.photographs == ("a.jpg", "b.jpg") for seam in seams)
    files = [tmp_path / f"{n}.ply" for n in range(4 + len(seams))]
    for number, file in enumerate(files):
        save_splats(file, replace(splats, sh=np.full_like(splats.sh, number), check=False))
    sources = sources_of(plan, files[:4], list(zip(seams, files[4:])))
    assert join(plan, sources, tmp_path / "out") == len(splats), seed
    joined = load_splats(tmp_path / "out/splats.ply")
    places, owner = plan.places(joined.means), np.full(len(splats), -1)
    for number, box in enumerate(boxes):
        owner[box.holds(places)] = number
    for number, seam in reversed([*enumerate(seams, 4)]):
        owner[seam.belt.box.holds(places)] = number
    assert (joined.sh[:, 0, 0] == owner).all() and len(set(owner)) >= 8, seed
    first, second = seams[0].first, seams[0].second
    starts = seams[0].start({first: "f0", second: "f1"}, {first: "t0", second: "t1"})
    assert starts == [("t0", []), ("t1", []), ("f0", [first, second])]


def test_coarser_cuts_are_unions_of_finer_ones():
    """So the shares of a plan with fewer blocks are sums."""
    rng = np.random.default_rng(seed := fresh_seed())
    places = rng.normal(size=(3_000, 2)) * [5, 1]
    fine = cut_to_fit(places, lambda n: n <= 200, 64)
    for count in range(2, len(fine)):
        for box in cut_into(places, count):
            mine = box.holds(places)
            whole = [part for part in fine if mine[part.holds(places)].any()]
            assert all(mine[part.holds(places)].all() for part in whole), seed


def test_splats_that_a_camera_may_show():
    """Spheres of splats anywhere, against the formula for each splat and camera."""
    rng = np.random.default_rng(seed := fresh_seed())
    cameras = [looking(rng.normal(size=3) * 3, rng.normal(size=3)) for _ in range(5)]
    seen = 0
    for _ in range(40):
        splats = some_splats(60, 0)
        means = rng.normal(size=3) * 6 + rng.normal(size=(60, 3)) * rng.uniform(0.01, 2)
        splats = replace(splats, means=means.astype(np.float32))
        shown = np.zeros(60, bool)
        for camera in cameras:
            x, y, z = (means @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]).T
            near = (np.abs(x) <= SLACK * 32 / 50 * z) & (np.abs(y) <= SLACK * 24 / 50 * z)
            shown |= (z > 0) & near
        assert (may_show(splats, cameras) == shown).mean() > 0.99, seed
        seen += shown.sum()
    assert 0 < seen < 2_400, seed


def test_joining_takes_the_memory_of_some_pieces(tmp_path):
    """9 MB of Python's and numpy's memory were measured, where all splats take 64."""
    splats, file = some_splats(700_000, 1), tmp_path / "all.ply"
    save_splats(file, splats)
    border = float(np.median(splats.means[:, 0]))
    plan, total = halves(border), len(splats)
    del splats
    with takes_at_most(14e6):
        assert join(plan, sources_of(plan, [file, file], []), tmp_path / "out") == total
