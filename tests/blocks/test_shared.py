"""Blocks share what the scaffold found, split on a full device, and are polished along seams."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.blocks import leaf
from hardsplat.blocks.plan import load_plan
from hardsplat.blocks.run import EPOCHS, BlockTraining
from hardsplat.blocks.scaffold import Scaffold
from hardsplat.cli import main
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats
from hardsplat.settings.presets import SAVED_NAME, config_from_file
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from tests.helpers.leaks import opens
from tests.helpers.tables import argv

FAST = "--max-steps 30 --sh-degree 1 --deterministic --cap-max 700 --refine-start-iter 5"
FAST += " --refine-every 5 --refine-stop-iter 25 --polish-steps 4 --quiet --blocks 2"
SOLVED = "--pose-opt --intrinsics-opt --pose-warm-up 1 --exposure affine --exposure-until 1"
SOLVED += " --opacity-decay 0.01"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch, on_device):
    """Blocks train in this process, which saves imports and is reached by patches."""
    run = lambda module, folder, device, show: leaf.work(folder, device, True)
    monkeypatch.setattr("hardsplat.blocks.tasks.run_child", run)


def train(scene, folder, more="", command="train") -> int:
    words = f"{command} {scene} {FAST} {more} --block-devices 0 --result-dir"
    return main([*argv(words), str(folder)])


@pytest.fixture(scope="module")
def planned_folder(scene, module_device, tmp_path_factory):
    """A folder with a scaffold and the plan of two blocks."""
    folder = tmp_path_factory.mktemp("blocks") / "planned"
    with opens(module_device):
        assert train(scene, folder, command="plan") == 0
    return folder


def test_a_block_that_fails_is_named_and_the_others_are_kept(
    scene, planned_folder, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out"
    shutil.copytree(planned_folder, out)

    def run(module, folder, device, show):
        return -9 if folder.name == "block-000" else leaf.work(folder, device, True)

    monkeypatch.setattr("hardsplat.blocks.tasks.run_child", run)
    assert train(scene, out) == 2
    said = capsys.readouterr().err
    assert "1 of 2 blocks failed, first block-000: " in said and "--resume continues" in said
    assert json.loads((out / "blocks/block-001/block.json").read_text())["status"] == "done"


@pytest.mark.parametrize("photographs", [60, 20_000])
def test_large_scenes_have_as_many_steps_and_splats_a_photograph(tmp_path, photographs):
    view = SimpleNamespace(camera=SimpleNamespace(width=4_000, height=3_000))
    train, points = range(photographs), np.zeros((0, 3))
    scene = SimpleNamespace(views=[view] * photographs, train=train, points=points)
    training = BlockTraining(TrainConfig.of(data_dir=tmp_path, blocks="auto"))
    training.__dict__["given"] = scene
    epochs = training.steps / photographs
    assert training.budget == 3_900 * photographs
    assert epochs == (EPOCHS if photographs > 150 else 300)
    named = BlockTraining(TrainConfig.of(data_dir=tmp_path, max_steps=900, early_stop=False))
    named.__dict__["given"] = scene
    assert named.steps == 900


def rows(folder, name: str) -> np.ndarray:
    """(planes, items, width) of a quantity in the newest checkpoint of a run."""
    path = checkpoints.newest(folder)
    assert path is not None
    return checkpoints.load(path).buffers[name]


def test_exposures_and_cameras_are_those_of_the_scaffold(scene, tmp_path, monkeypatch, capsys):
    """They are found once, by a scaffold that has fewer splats than the scene has points."""
    out = tmp_path / "out"
    monkeypatch.setattr("hardsplat.blocks.scaffold.SPLATS", (200, 2_000_000))
    monkeypatch.setattr("hardsplat.train.run.start.LARGE", 20)
    assert train(scene, out, SOLVED, "plan") == 0
    assert train(scene, out, SOLVED) == 0
    said = "".join(capsys.readouterr())
    assert "share --exposure affine, poses, intrinsics, --opacity-decay 0.01" in said
    assert said.count("pixels a side") == 1, "of a scaffold, blocks and a polish, too"
    assert said.splitlines()[-1] == f"look around in it: hardsplat view {out}"
    scaffold, loaded = Scaffold.of(out / "scaffold"), load_scene(scene)
    assert len(load_splats(scaffold.splats)) <= 233 < len(loaded.points)
    moved = scaffold.scene(loaded)
    found = {name: np.abs(values).max() for name, values in scaffold.found.items()}
    assert min(found["affine"], found["turn"], found["intrinsics"]) > 1e-5, found
    for before, after in zip(loaded.views, moved.views):
        same = np.array_equal(before.camera.w2c, after.camera.w2c)
        assert same is (before in loaded.held_out)
        assert not np.array_equal(before.camera.K, after.camera.K)
    names = [loaded.views[i].name for i in loaded.train]
    plan = load_plan(out / "plan.json", names, loaded.name)
    runs = [(out / "blocks" / b.name, b.photographs) for b in plan.blocks]
    for folder, photographs in [*runs, (out / "polish", names)]:
        own = config_from_file(folder / SAVED_NAME)
        assert (own.exposure.exposure_until, own.adam.opacity_decay) == (1, 0.01)
        mine = [i for i, name in enumerate(names) if name in photographs]
        for name, values in scaffold.found.items():
            part = scaffold.part(loaded, set(photographs), None).known
            if name == "affine":
                assert np.array_equal(part[name], values[:, mine]), (folder, name)
            if folder != out / "polish":
                assert not [*folder.glob("ckpts/*")] and not (folder / "start.ply").exists()
            elif name == "affine" or name not in ("turn", "shift", "intrinsics"):
                assert np.array_equal(rows(folder, name), values), (folder, name)
    assert not rows(folder, "turn").any() and not rows(folder, "intrinsics").any()
    for name in ("exposures.json", "intrinsics.json", "poses/transforms.json"):
        assert (out / name).read_bytes() == (out / "scaffold" / name).read_bytes()
    (measured,) = json.loads((out / "metrics.json").read_text())["evaluations"]
    assert measured["fitted_psnr"] > measured["psnr"] and measured["refined"]["psnr"] > 5
    shutil.copy(out / "scaffold/ckpts/ckpt_30.npz", tmp_path)
    shutil.rmtree(out / "scaffold/ckpts")
    assert train(scene, out, SOLVED) == 2
    assert "not a scaffold that is trained" in capsys.readouterr().err


def test_what_features_found_of_photographs_rests_in_blocks(scene, tmp_path, monkeypatch):
    beside = replace(quantities.QUANTITIES["exposure"], name="beside", chosen=None)
    monkeypatch.setitem(quantities.QUANTITIES, "beside", beside)
    loaded = load_scene(scene)
    names = [loaded.views[i].name for i in loaded.train]
    found = {n: np.arange(len(names))[None, :, None] for n in ("affine", "beside", "turn")}
    part = Scaffold(tmp_path, TrainConfig(), 0.0, 0.0, found).part(loaded, names[1:3], None)
    rows = {name: values.ravel().tolist() for name, values in part.known.items()}
    assert rows == {"affine": [1, 2], "beside": [1, 2]}


def test_a_polish_has_exposures_where_blocks_end_with_them(tmp_path):
    """Exposures that were asked for end in the blocks; those that `auto` found stay."""
    found = TrainConfig.of(data_dir=tmp_path, exposure="affine", pose_opt=True)
    scaffold = Scaffold(tmp_path, found, 0.01, 0.0, {})
    rows = ("affine", 0.6, "none"), ("affine", 1.0, "affine"), ("auto", 0.6, "affine")
    for asked, until, kept in rows:
        own = dict(exposure=asked, exposure_until=until)
        given = TrainConfig.of(data_dir=tmp_path, pose_opt=True, **own)
        assert scaffold.settings(given, ends=True).exposure.exposure == kept
        blocks = scaffold.settings(given)
        assert blocks.exposure.exposure == "affine" and not blocks.poses.pose_opt
        assert blocks.adam.opacity_decay == 0.01


def test_blocks_have_the_near_plane_of_the_whole_scene(tmp_path):
    """Which the scene chose, unless the user named one."""
    chosen = TrainConfig.of(data_dir=tmp_path, near_plane=1e-5)
    scaffold = Scaffold(tmp_path, chosen, 0.01, 0.0, {})
    for given, typed, near in ((0.01, (), 1e-5), (0.01, ("near_plane",), 0.01), (0.2, (), 0.2)):
        config = TrainConfig.of(data_dir=tmp_path, near_plane=given)
        blocks = scaffold.settings(replace(config, typed=frozenset(typed)))
        assert blocks.scene.near_plane == near


def test_a_block_that_fills_its_device_splits_and_seams_are_polished(
    scene, planned_folder, tmp_path, monkeypatch, capsys
):
    """On a device that is said to hold few splats."""
    out, most = tmp_path / "out", 1000
    shutil.copytree(planned_folder, out)
    planned = json.loads((out / "plan.json").read_text())
    planned["blocks"][0]["cap"] = 1_200
    (out / "plan.json").write_text(json.dumps(planned))
    monkeypatch.setattr("hardsplat.blocks.planner.FEWEST", 3)
    monkeypatch.setattr("hardsplat.blocks.planner.LEAST_INSIDE", 0.55)
    monkeypatch.setattr("hardsplat.blocks.run.FILLED", 0.0)
    monkeypatch.setattr("hardsplat.train.job.facts.most_splats", lambda *limits: most)
    assert train(scene, out) == 0
    said = "".join(capsys.readouterr())
    assert "block-000 fills its device at" in said and "block-000-0 and block-000-1" in said
    metrics = json.loads((out / "metrics.json").read_text())
    blocks = json.loads((out / "plan.json").read_text())["blocks"]
    assert metrics["blocks"].keys() == {b["name"] for b in blocks} and len(blocks) == 3
    assert all(b["status"] == "done" and b["splats"] <= most for b in metrics["blocks"].values())
    half = next(b for b in blocks if b["name"].startswith("block-000-"))
    assert half["start"].startswith("blocks/block-000") and (out / half["start"]).is_file()
    assert half["steps"] < planned["blocks"][0]["steps"]
    check_seams(out, metrics)
    assert train(scene, out) == 0  # nothing is left to train
    assert f"{len(blocks)} of {len(blocks)} blocks were trained" in "".join(capsys.readouterr())


def check_seams(out, metrics) -> None:
    """Splats of seams stay in their places, so each keeps its one owner, and are in the result."""
    assert metrics["polished"] == "seams"
    task = json.loads((out / "seams/seam-000/task.json").read_text())
    start, end = (load_splats(out / "seams/seam-000" / n) for n in ("start.ply", "splats.ply"))
    places = [np.sort(g.means.view("f4,f4,f4"), axis=0) for g in (start, end)]
    assert len(start) == len(end) and (places[0] == places[1]).all()
    assert not np.array_equal(np.sort(start.opacities), np.sort(end.opacities))
    joined = load_splats(out / "splats.ply")
    tiles = json.loads((out / "tiles.json").read_text())["tiles"]
    assert sum(row["splats"] for row in tiles) == metrics["splats"] == len(joined)
    belt, axes = task["block"]["box"], np.array(json.loads((out / "plan.json").read_text())["axes"])
    at = joined.means.astype(np.float64) @ axes[:2].T
    inside = ((at >= belt["low"]) & (at < belt["high"])).all(axis=1)
    polished = {tuple(row) for row in np.column_stack([end.means, end.opacities]).tolist()}
    rows = np.column_stack([joined.means, joined.opacities])[inside].tolist()
    assert rows and all(tuple(row) in polished for row in rows)
