"""Training runs from scene to run folder, and the session behind them."""

import json
import math
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.export.clean import NAME as CLEAN
from hardsplat.export.convert import convert
from hardsplat.export.lod import NAME as LOD
from hardsplat.export.page import NAME as PAGE
from hardsplat.gpu.memory import buffer
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.io.formats.checkpoint import path_of
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from hardsplat.mesh.build import NAME as MESH
from hardsplat.model.morton import order_by_rank
from hardsplat.raster.core.parameters import Parameters
from hardsplat.render.paths import AROUND, VIEWS
from hardsplat.report import charts
from hardsplat.results.metrics import decibels
from hardsplat.settings.presets import config_from_file, load_config
from hardsplat.step.photos import Photos
from hardsplat.step.runner import LONGEST_BATCH
from hardsplat.study.compare import NAME as COMPARISON
from hardsplat.tables.formats import MOMENT_FORMATS
from hardsplat.train import run_training as train
from hardsplat.train.job.facts import Views, fitting
from hardsplat.train.measure.command import evaluate_run
from hardsplat.train.measure.measure import (
    Asked,
    Evaluator,
    RepeatedEvaluator,
    evaluation_frame,
    measure_all,
)
from hardsplat.train.run.outcome import besides_training
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session.session import Session
from hardsplat.train.strategies.strategy import RESET_OPACITY
from hardsplat.train.watchers.log import Log
from tests.helpers.leaks import opens
from tests.helpers.tables import COMMON, refuses
from tests.helpers.training import (
    job_of,
    open_session,
    resumed_exactly,
    same_state,
    settings,
    splats_of,
)

# For runs so short that the published rates hardly move anything.
EXACT = dict(rasterizer="tiled", deterministic=True)
FAST = {"opacities_lr": 0.1, "sh0_lr": 0.01, "scales_lr": 0.01}


def test_ctrl_c_while_photographs_are_read_leaves_no_folder(
    on_device, scene, tmp_path, monkeypatch
):
    def interrupted(self, quiet):
        assert (there / "result").is_dir()
        raise KeyboardInterrupt(2)

    monkeypatch.setattr(PhotographLoader, "training", interrupted)
    there = tmp_path / "new" / "folders"
    with pytest.raises(KeyboardInterrupt):
        Trainer(settings(scene, there / "result"))
    assert tmp_path.is_dir() and not (tmp_path / "new").exists()
    (there / "result").mkdir(parents=True)  # not of the run, which leaves it
    with pytest.raises(KeyboardInterrupt):
        Trainer(settings(scene, there / "result"))
    assert (there / "result").is_dir()


def test_ctrl_c_before_the_first_step_leaves_a_run_to_continue(
    on_device, scene, tmp_path, monkeypatch, capfd
):
    save = Trainer._save_settings
    monkeypatch.setattr(Trainer, "_save_settings", lambda run: save(run) or os.kill(os.getpid(), 2))
    for followed in (True, False):  # a command of several trainings says itself how to continue
        with pytest.raises(KeyboardInterrupt):
            train(settings(scene, tmp_path, max_steps=3), followed=followed)
        assert ("continue with" in capfd.readouterr().out) is not followed
    monkeypatch.undo()
    assert train(load_config(None, {"data_dir": tmp_path, "resume": True}))["steps"] == 3
    (tmp_path / "ckpts/ckpt_0.npz").unlink()
    (tmp_path / "ckpts/ckpt_3.npz").unlink()  # as of a run that was killed before its first one
    again = "no checkpoint to resume from; begin again: hardsplat train --config .*config.toml"
    resumed = load_config(None, {"data_dir": tmp_path, "resume": True})
    refuses(again, train, resumed)


@pytest.fixture(scope="module")
def run(module_device, scene, tmp_path_factory):
    """(config, metrics) of a run of 80 steps that densifies, in its folder."""
    with opens(module_device):
        out, own = tmp_path_factory.mktemp("run"), dict(checkpoint_every=50, refine_every=20)
        own |= dict(max_steps=80, eval_steps=(10, 40), save_steps=(40,))
        config = settings(scene, out, **own, **FAST)
        return config, train(config)


@pytest.mark.parametrize("large", [True, False])
def test_large_files_of_a_finished_run_are_synced_after_its_end(
    on_device, scene, tmp_path, monkeypatch, large
):
    """So that the prompt does not wait for the disk; small ones are synced as they are written."""
    later, synced, sync = [], [], os.fsync
    monkeypatch.setattr("hardsplat.train.run.files.sync_later", lambda *files: later.extend(files))
    monkeypatch.setattr("hardsplat.train.run.files.LATE", 0 if large else 1 << 30)
    named = lambda file: os.path.basename(os.readlink(f"/proc/self/fd/{file}"))
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(named(file)) or sync(file))
    metrics = train(settings(scene, tmp_path, max_steps=5))
    waited = metrics["seconds"]["files"]
    files = {"splats", "checkpoint", "viewer", "report", "renders", "photographs", "learnt"}
    assert waited.keys() <= files
    names = ["splats.ply", "metrics.json", tmp_path.name, "ckpt_5.npz", "ckpts"]
    assert [file.name for file in later] == names * large
    assert all(file.exists() for file in later)
    of_run = [name for name in synced if name.startswith(("splats.ply", "metrics.json."))]
    assert bool(of_run) != large, synced


def test_the_log_names_every_second_besides_training():
    parts = {"imports": 1.02, "device": 0.01, "training": 9.0, "compile": 1.13, "files": 2.4}
    seconds = {"parts": parts | {"total": 13.56}, "files": {"splats": 2.3, "report": 0.0}}
    words = "imports 1.0 s, compile 1.1 s, files 2.4 s (splats 2.3)"
    assert besides_training(seconds) == words
    assert besides_training({"parts": {"load": 0.2, "total": 0.2}, "files": {}}) == "load 0.2 s"


def test_a_run_learns_and_says_what_it_did(run):
    _, m = run
    losses, evaluations = m["curve"]["loss"], m["evaluations"]
    # 0.60 to 0.63 in nine orders of the first splats
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
    first, *later = (e["psnr"] for e in evaluations)
    # 1.9 to 3.6 there; one of them alone depends on the few splats before the two held-out cameras.
    assert max(later) > first + 1 and m["splats"] > 300
    assert m["steps"] == 80 and m["curve"]["step"] == list(range(5, 81, 5))
    assert {len(column) for column in m["curve"].values()} == {16}
    assert [e["step"] for e in evaluations] == [10, 40, 80]
    seconds = [0, *(e["training_seconds"] for e in evaluations)]
    assert (np.diff(seconds) > 0).all() and seconds[-1] <= m["seconds"]["training"]
    assert m["steps_per_second"] == pytest.approx(80 / m["seconds"]["training"])
    stages, memory = m["stage_ms"], m["memory_bytes"]
    names = "begin step,project,draw,loss ssim,draw backward,project backward,end step"
    assert {*names.split(",")} <= stages.keys() and min(stages.values()) >= 0
    assert m["step_ms"] == pytest.approx(sum(stages.values())) and 0 <= m["gpu_idle"] < 1
    names = "format blending reduction ordering atomics quads block shape segments"
    assert {*m["variants"]} == {*names.split()} and m["variants"]["format"] == "float16"
    # SH degree 1: 23 floats a splat; Adam keeps two moments of each.
    assert memory["parameters"] >= m["splats"] * 23 * 4
    assert memory["optimizer"] == 2 * memory["parameters"]
    assert memory["photographs"] == 7 * 32 * 24 * 3 + 4  # a word more, for the last pixel
    assert m["memory_peak"]["allocated"] >= sum(memory.values()) - memory["photographs"]
    assert m["memory_peak"]["driver"] is None or m["memory_peak"]["driver"] > 0
    # Nothing of the other rasterizer, nor of mesh fits.
    assert {purpose for purpose, size in memory.items() if not size} == {"tiles", "mesh"}


def test_the_run_folder_is_complete(run, scene):
    config, metrics = run
    folder = config.run.result_dir
    assert config_from_file(folder / "config.toml") == config
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    with Image.open(folder / "loss.png") as picture:
        assert picture.width > 400
    assert (folder / "loss.png").read_bytes() == charts.png(charts.curves(metrics))
    assert len(load_splats(folder / "splats.ply")) == metrics["splats"]
    assert len(load_splats(folder / "splats_40.ply")) == metrics["evaluations"][1]["splats"]
    assert sorted(p.name for p in folder.glob("ckpts/*")) == ["ckpt_50.npz", "ckpt_80.npz"]
    names = {f"view_000{i}.jpg.{part}.png" for i in (0, 8) for part in ("photo", "render")}
    assert {p.name for p in folder.glob("renders/*")} == names
    with Image.open(folder / "renders/view_0000.jpg.photo.png") as picture:
        photo = np.asarray(picture)
    assert np.array_equal(photo, load_scene(scene).views[0].load())


def test_antialiased_runs_say_so_and_are_measured_twice(on_device, reports, scene, tmp_path, capfd):
    own = settings(scene, tmp_path / "run", antialiased=True, rasterizer="tiled", pose_opt=True)
    metrics = train(own)
    ply, bold = tmp_path / "run/splats.ply", tmp_path / "a/bold.ply"
    assert is_antialiased(ply) and b"SplatRenderMode" in ply.read_bytes()[:2000]
    last = metrics["evaluations"][-1]
    assert abs(last["psnr_antialiased"] - last["psnr"]) > 0.2
    assert "psnr_antialiased" in last["refined"]
    again = evaluate_run(str(tmp_path / "run"))
    for name in ("psnr", "ssim", "psnr_antialiased", "ssim_antialiased"):
        assert again[name] == pytest.approx(last[name], abs=1e-3), name
    # what others read of the file
    save_splats(bold, load_splats(ply))
    alone = evaluate_run(str(bold), str(scene))
    assert "psnr_antialiased" not in alone
    assert alone["psnr"] == pytest.approx(last["psnr"], abs=0.05)  # hardware, float16
    shown = f"{last['psnr']:.2f} dB ({last['psnr_antialiased']:.2f} with the 2D filter)"
    assert decibels(last) == shown
    report = (tmp_path / "run/report.html").read_text()
    assert all(f"<b>{last[n]:.2f} dB</b>" in report for n in ("psnr", "psnr_antialiased"))
    checkpoint, file = path_of(tmp_path / "run", 30), tmp_path / "a/checkpoint.ply"
    convert(checkpoint, file, quiet=True)  # which has no flag of its own
    assert is_antialiased(file)
    # runs go on with the filter that they began with
    words = "made with --antialiased, this run has --no-antialiased; add --config"
    refuses(words, train, settings(scene, tmp_path / "b", ckpt=checkpoint, max_steps=31))
    capfd.readouterr()
    train(settings(scene, tmp_path / "c", init=tmp_path / "run", max_steps=1, strategy="none"))
    assert "were trained with --antialiased and go on without it" in capfd.readouterr().out
    go_on = load_config(None, {"data_dir": tmp_path / "run", "resume": True, "max_steps": 31})
    assert go_on.raster.antialiased and train(go_on)["steps"] == 31


def test_photographs_train_alike_wherever_they_are(device, mixed):
    """Bit for bit, at odd and different sizes, over more steps than the ring has places."""
    states = []
    for images in ("gpu", "host", "stream"):
        own = dict(data_factor=2, rasterizer="tiled", deterministic=True, batch_steps=2)
        session = open_session(device, settings(mixed, images=images, **own))
        assert session.photos.streamed == (images == "stream")
        for _ in range(5):
            session.run(2)
        states.append(session.snapshot())
    assert same_state(*states[:2]) and same_state(*states[1:])


RESUMED = {  # what a run trains -> its settings, and what has numbers at its end
    "cameras": (dict(exposure="affine", pose_opt=True, intrinsics_opt=True), "affine intrinsics"),
    "ppisp": (dict(exposure="ppisp", pose_opt=True, depth_lambda=0.1), "white_balance turn"),
    "sky": (dict(background="sphere", strategy="none"), "sky adam_sky"),
    "working": (dict(out_of_core="on", moments="bfloat16", sh_degree=2), "shN"),
}


@pytest.mark.parametrize("trained", RESUMED)
def test_deterministic_runs_resume_exactly(device, scene, outdoors, tmp_path, trained):
    changes, names = RESUMED[trained]
    warm_ups = dict.fromkeys(("ppisp_warm_up", "pose_warm_up", "sh_degree_interval"), 3)
    config = settings(outdoors if trained == "sky" else scene, **warm_ups | changes, **EXACT)
    end = resumed_exactly(device, config, tmp_path)
    assert all(end.buffers[name].any() for name in names.split())


def test_a_step_takes_what_its_device_says(device, scene):
    """However late the host looks: here at two batches that ended long ago."""
    session = open_session(device, settings(scene, strategy="none"), ended := [])
    for _ in range(2):
        session.run(4)
    device.wait_idle()
    session.drain()
    assert [len(batch.records) for batch in ended] == [4, 4]
    begin, end = ended[-1].busy
    assert session.runner.step_seconds == pytest.approx((end - begin) / 4e9) != 0


def test_deterministic_runs_do_not_depend_on_the_clock(on_device, scene, tmp_path, monkeypatch):
    """Nor on when room for pairs is made, nor on how often the state is copied."""
    monkeypatch.setattr("hardsplat.raster.tiled.rasterizer.FEWEST_PAIRS", 1)
    monkeypatch.setattr("hardsplat.raster.tiled.rasterizer.PAIRS_PER_SPLAT", 1)
    monkeypatch.setattr("hardsplat.train.run.trainer.BATCH_SECONDS", 1.0)
    left = []
    clock = "hardsplat.step.runner.StepRunner.step_seconds"
    for seconds, copies in ((1e-6, math.inf), (0.4, 0.0)):
        frozen = property(lambda self, seconds=seconds: seconds, lambda self, measured: None)
        monkeypatch.setattr(clock, frozen, raising=False)
        monkeypatch.setattr("hardsplat.train.run.keeper.SNAPSHOT_SECONDS", copies)
        folder = tmp_path / str(seconds)
        own = dict(deterministic=True, rasterizer="auto", init_scale=3.0, grow_grad2d=1e-5)
        metrics = train(settings(scene, folder, **own))
        assert metrics["clipped_steps"] > 0 and metrics["splats"] > 300
        assert metrics["variants"]["tile_backward"] == "gather"
        left.append((folder / "splats.ply").read_bytes())
    assert left[0] == left[1]


# what commands make of a run by default, and what they do not
MADE = [PAGE, COMPARISON, MESH, CLEAN, f"{LOD}/lod-meta.json", "splats.spz"]
MADE += [*(f"{name}/a.jpg.png" for name in VIEWS), *(f"{name}.mp4" for name in AROUND), "walk.mp4"]
MADE += ["ckpt_5_orbit.mp4", "splats_5/page.html", "walk/frame_00000.png", "mesh.mtl"]
MADE += ["edited_2.ply", "edited_2.ply.edit.json", "mine.ply", "mine.ply.edit.json"]
MADE += ["mine/eval.json", "clean/eval.json"]
MADE += ["camera_path.json", "screenshot_001.png"]
MINE = ["notes.txt", "other.ply", "old/x.png", "masks/a.png"]


def test_a_new_run_moves_an_earlier_one_aside(on_device, reports, scene, tmp_path, capfd):
    """With all that was made of it, as pages of it would show other splats than those beside."""
    for seed in (0, 1, 2):
        train(settings(scene, tmp_path, max_steps=10 + seed, save_steps=(5,), seed=seed))
        if seed == 0:
            evaluate_run(str(tmp_path))
            for name in (*MADE, *MINE):
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).touch()
        note = f"note: the earlier run in {tmp_path} is now in {tmp_path / f'earlier_{seed}'}\n"
        assert (note in capfd.readouterr().out) is (seed > 0)
    own = "ckpts config.toml loss.png metrics.json metrics.jsonl renders report.html splats.ply"
    own = {*own.split(), "splats_5.ply"}
    earlier = tmp_path / "earlier_1"
    mine = {name.split("/")[0] for name in MINE}
    assert {p.name for p in tmp_path.iterdir()} == own | mine | {"earlier_1", "earlier_2"}
    made = {name.split("/")[0] for name in MADE}
    assert {p.name for p in earlier.iterdir()} == own | made | {"eval"}
    checkpoints = sorted(p.name for p in tmp_path.glob("**/*.npz"))
    assert checkpoints == ["ckpt_10.npz", "ckpt_11.npz", "ckpt_12.npz"]
    resumed = {"data_dir": earlier, "resume": True, "max_steps": 15}
    assert train(load_config(None, resumed))["steps"] == 15
    # It goes on with this run, whose files stay.
    train(settings(scene, tmp_path, max_steps=15, ckpt=tmp_path / "ckpts/ckpt_12.npz"))
    assert not (tmp_path / "earlier_3").exists() and (tmp_path / "ckpts/ckpt_12.npz").is_file()


def test_the_saved_splats_measure_as_in_training(run, on_device, tmp_path, capsys):
    config, metrics = run
    out, trained, copied = tmp_path / "new/folder", config.scene.data_dir, tmp_path / "copied"
    table = evaluate_run(str(config.run.result_dir), str(trained), str(out))
    last = metrics["evaluations"][-1]
    assert table["psnr"] == pytest.approx(last["psnr"], abs=0.02)
    assert table["ssim"] == pytest.approx(last["ssim"], abs=1e-3)
    assert json.loads((out / "eval.json").read_text()) == table
    assert (out / "renders/view_0008.jpg.render.png").is_file()
    assert "note:" not in capsys.readouterr().out
    # What is there stays, be it of a training.
    (out / "renders/mine").write_text("mine")
    shutil.copytree(trained, copied)
    other = evaluate_run(str(config.run.result_dir), str(copied), str(out))
    moved = f"note: the earlier measurements in {out} are now in {out / 'earlier_1'}\n"
    note = f"note: the run was trained on {trained}, and is measured on {copied}\n"
    assert note + moved in capsys.readouterr().out and other["scene"] == str(copied)
    assert json.loads((out / "earlier_1/eval.json").read_text()) == table
    assert (out / "earlier_1/renders/mine").is_file() and not (out / "renders/mine").exists()
    alone = tmp_path / "alone.ply"
    alone.write_bytes((config.run.result_dir / "splats.ply").read_bytes())
    found = evaluate_run(str(alone), data_dir=str(trained))
    assert found["psnr"] == pytest.approx(table["psnr"], abs=1e-4)


def test_splats_of_a_file_to_start_from(device, scene, tmp_path):
    """Of every format, in neighbourly order, with the run's SH degree; all can still learn."""
    splats = splats_of(settings(scene, sh_degree=2), load_scene(scene))
    splats.opacities[:2], splats.sh[:, 1:] = (0, 1), 0.25
    for name in ("run/splats.ply", "a.spz", "a.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_splats(tmp_path / name, splats)
        own = dict(init=tmp_path / name, sh_degree=1, init_type="random")
        given = splats_of(settings(scene, **own), load_scene(scene))
        assert given.sh.shape == (len(splats), 4, 3)
        assert given.sh[:, 1:] == pytest.approx(0.25, abs=1 / 64)
        means = np.sort(splats.means, axis=0)
        assert np.sort(given.means, axis=0) == pytest.approx(means, abs=0.02)
        # There, steps make some equal.
        assert name == "a.spz" or (np.diff(order_by_rank(given.means)) == 1).all()
        assert given.opacities.min() >= 1e-3 and given.opacities.max() <= 1 - 1e-3
    own = dict(init=tmp_path / "run", max_steps=1, sh_degree=3, strategy="none")
    metrics = train(settings(scene, tmp_path / "run", **own))
    assert metrics["splats"] == len(splats) and (tmp_path / "run/earlier_1/splats.ply").is_file()
    words = r"none\.ply: not found"
    refuses(words, train, settings(scene, tmp_path / "other", init=tmp_path / "none.ply"))


def test_stages_are_means_of_what_was_timed_late():
    log = Log(stages=[{"a": 100.0}, {"a": 100.0}, {"a": 1.0, "b": 2.0}, {"a": 4.0}])
    assert log.stage_means() == {"a": 2.5, "b": 2.0} and Log().stage_means() == {}


def test_opacities_are_reset(on_device, scene, tmp_path):
    own = dict(max_steps=21, checkpoint_every=20, reset_every=20, init_opa=0.5)
    config = settings(scene, tmp_path, refine_start_iter=1000, refine_stop_iter=100, **own)
    train(config)
    # Checkpoints come after the reset of their step.
    with np.load(tmp_path / "ckpts/ckpt_20.npz") as state:
        opacities = 1 / (1 + np.exp(-state["logit_opacities"]))
        assert opacities.max() <= RESET_OPACITY * (1 + 1e-6)
        assert not state["adam_logit_opacities"].any() and state["adam_means"].any()


def test_views_of_different_sizes(device, mixed):
    session = open_session(device, settings(mixed))
    scene = load_scene(mixed)
    session.run(5)
    session.drain()
    sizes = set()
    frame = evaluation_frame(session.job.config.scene, session.job.config.model.sh_degree)
    evaluator = Evaluator(session.raster)
    for m in measure_all([evaluator], scene.views[:4], frame, quiet=True):
        sizes.add(m.image.shape)
        assert m.image.shape == m.photo.shape
        error = np.mean((np.clip(m.image, 0, 1) - m.photo.astype(np.float64) / 255) ** 2)
        assert m.psnr == pytest.approx(-10 * math.log10(error), abs=1e-3)
    evaluator.destroy()
    assert sizes == {(16, 32, 3), (24, 20, 3)}


def test_an_evaluator_follows_the_lists_of_its_rasterizer(device, scene):
    """It has recorded with buffers that are gone by then."""
    session = open_session(device, settings(scene, rasterizer="tiled"))
    session.run(5)
    session.drain()
    evaluator = Evaluator(session.raster)
    view, photo = session.job.views.cameras[0], np.zeros((24, 32, 3), np.uint8)
    frame = evaluation_frame(session.job.config.scene, 1)
    before = evaluator.measure("", view, photo, frame, Asked(fitted=True, halves=True))
    session.raster.reserve_pairs(2 * session.raster.pair_capacity)
    after = evaluator.measure("", view, photo, frame, Asked(fitted=True, halves=True))
    evaluator.destroy()
    for name in ("psnr", "ssim", "fitted_psnr", "fitted_ssim", "half_psnr"):
        assert getattr(before, name) == getattr(after, name), name
    assert np.array_equal(before.target, after.target)


@pytest.mark.parametrize("most", [1, 3, 9])
def test_views_that_are_measured_together(device, mixed, most):
    """As one by one, also where lists have room for none of them. most: by one submission."""
    session = open_session(device, settings(mixed, rasterizer="tiled"))
    views = load_scene(mixed).views[:4]
    session.run(5)
    session.drain()
    frame = evaluation_frame(session.job.config.scene, 1)
    asked = Asked(pictures=False, gain=True, halves=True)
    single = Evaluator(session.raster)
    alone = list(measure_all([single], views, frame, True, asked))
    session.raster.least_pairs = 0
    session.raster.reserve_pairs(1, 1, give_back=True)
    evaluator = RepeatedEvaluator(session.raster, views, [v.load() for v in views])
    for _ in range(2):
        together = evaluator.measure_again(session.raster, frame, asked, most)
        for a, b in zip(alone, together, strict=True):
            for name in ("name", "psnr", "ssim", "fitted_psnr", "half_psnr"):
                assert getattr(a, name) == getattr(b, name), name
    for each in (single, evaluator):
        each.destroy()


def test_batches_are_as_short_as_one_buffer_asks_for(on_device, scene, tmp_path, monkeypatch):
    """And the splats are those of any other batches."""
    rings = []

    class Small(Photos):
        def __init__(self, device, images, mode, ring, fetches):
            with monkeypatch.context() as patch:
                if rings:
                    patch.setattr(device, "max_buffer", 7 * images[0].size)
                super().__init__(device, images, mode, ring, fetches)
            rings.append(self.most_steps)

    monkeypatch.setattr("hardsplat.train.run.trainer.Photos", Small)
    for name in ("any", "short"):
        run = dict(max_steps=12, batch_steps=10, images="stream", deterministic=True)
        train(settings(scene, tmp_path / name, **run | {"rasterizer": "auto"}))
    assert rings == [10, 3]
    first, second = (tmp_path / name / "splats.ply" for name in ("any", "short"))
    assert first.read_bytes() == second.read_bytes()


def test_two_batches_are_no_longer_than_the_ring_of_views(device, scene):
    session = open_session(device, settings(scene, strategy="none", batch_steps=10_000))
    assert session.batch_steps == LONGEST_BATCH


def test_photographs_too_large(device, monkeypatch):
    images = [np.zeros((8, 16, 3), np.uint8)] * 4
    monkeypatch.setattr(device, "max_buffer", 4 * 8 * 16 * 3)
    refuses("--images gpu: .*use --images stream", Photos, device, images, "gpu", ring=2)
    fitted = Photos(device, images, "stream", ring=100)
    assert fitted.most_steps == 1
    fitted.buffer.destroy()
    words = "two photographs do not fit in one buffer"
    refuses(words, Photos, device, [np.zeros((40, 40, 3), np.uint8)] * 2, "stream", ring=4)
    places = Photos(device, images, "stream", ring=2)
    # One for each step that may be in flight.
    assert len({places.place(step, 0) for step in range(2)}) == 2
    places.buffer.destroy()
    automatic = Photos(device, images, "auto", ring=2)
    assert automatic.streamed
    automatic.buffer.destroy()


@pytest.mark.parametrize(
    "changes", [{}, {"gradient": "stochastic", "strategy": "none"}], ids=["analytic", "stochastic"]
)
def test_nothing_is_left_where_memory_gives_out(device, scene, leaves_nothing, changes):
    """The photographs neither, which are the session's."""
    views, photo = [v.camera for v in load_scene(scene).views[:2]], np.zeros((24, 32, 3), np.uint8)

    def make():
        photos = Photos(device, [photo] * 2, "gpu", 2)
        job = job_of(device, settings(scene, **changes), Views(views, (32, 24), 1.0))
        return Session(device, job, photos, print)

    assert leaves_nothing(make) == 14


def test_memory_of_moments(device, scene, monkeypatch):
    """bfloat16 halves them. The largest plane, that of quaternions, bounds the splats."""
    buffer.staging_of(device)  # which is larger, whoever needs it first
    most = 25_000
    monkeypatch.setattr(device, "max_allocation", 16 * most + 15)
    for moments, times in (("float32", 2), ("bfloat16", 1)):
        session = open_session(device, settings(scene, sh_degree=3, moments=moments))
        used = session.memory()
        assert used["optimizer"] == pytest.approx(times * used["parameters"], rel=0.01)
        assert used["parameters"] > 0
        assert fitting(device, session.job.config, "hardware", session.photos.device_bytes) == most
        session._grow(10 * most)
        assert session.store.parameters.capacity == most


@pytest.mark.parametrize("moments", MOMENT_FORMATS)
def test_growth_keeps_splats_and_moments(device, moments):
    names = (*COMMON, *(f"adam_{name}" for name in COMMON), "grow_stats")
    parameters = Parameters(device, 100, 1, moments, "written", statistics=("grow_stats",))
    rng = np.random.default_rng(0)
    before = {}
    for name in names:
        whole = rng.integers(0, 256, parameters.read(name, 90).shape)  # which bfloat16 has too
        before[name] = whole.astype(np.float32)
        parameters.write(name, before[name])
    for capacity in (101, 257, 1000, 90):
        parameters.resize(capacity, 90)
        assert parameters.capacity == capacity
        for name in names:
            assert np.array_equal(parameters.read(name, 90), before[name]), name
    parameters.destroy()


@pytest.fixture
def little_memory(monkeypatch):
    """little_memory(name, limit): a buffer of this name has at most `limit` bytes."""

    def restrict(name, limit):
        def init(self, device, nbytes, label, *, made=Buffer.__init__, **how):
            if label == name and nbytes > limit:
                raise OutOfMemory(f"out of memory: {name}")
            made(self, device, nbytes, label, **how)

        monkeypatch.setattr(Buffer, "__init__", init)

    return restrict


BUFFERS = {"adam_shN": 12, "holes": 4, "d_splats2d": 4 * contract.CONSTANTS["GRADIENT_STRIDE"]}


@pytest.mark.parametrize("name, each", BUFFERS.items())
def test_growth_ends_with_memory(on_device, scene, tmp_path, capfd, little_memory, name, each):
    """The run ends with what fits, and says so once."""
    little_memory(name, 400 * each)
    metrics = train(settings(scene, tmp_path, max_steps=25))
    assert metrics["steps"] == 25 and 300 < metrics["splats"] <= 400
    out = capfd.readouterr().out
    assert out.count("note: growth stops") == 1
    assert f"growth stops at 375 splats: out of memory: {name}" in out


def test_the_first_splats_do_not_fit(on_device, scene, tmp_path, little_memory):
    little_memory("splats2d", 1000)
    refuses("^300 splats do not fit: out of memory: splats2d$", train, settings(scene, tmp_path))
    for n, why in ((500, "out of memory: splats2d"), (4_000_000_000, ".*")):
        with pytest.raises(OutOfMemory, match=f"^{n:,} splats do not fit: {why}$") as error:
            train(settings(scene, tmp_path, init_type="random", init_num_pts=n))
        assert error.value.grows_with == "random splats"


def test_cap_max(on_device, scene, tmp_path, capfd):
    metrics = train(settings(scene, tmp_path, max_steps=40, cap_max=420))
    assert max(metrics["curve"]["splats"]) == 420 == metrics["splats"]
    assert capfd.readouterr().out.count("note: growth stops at 420 splats: --cap-max is 420\n") == 1
    # of a preset too: fewer points are taken than the scene has, and nothing is refused
    metrics = train(settings(scene, tmp_path / "few", max_steps=2, cap_max=120))
    assert metrics["splats"] == 120
    assert "note: starting from 120 of the scene's 300 points" in capfd.readouterr().out
    own = dict(max_steps=2, cap_max=90, init_type="random")
    assert train(settings(scene, tmp_path / "random", **own))["splats"] == 90
    given = tmp_path / "splats.ply"
    words = "begins with 420 splats, more than --cap-max 299: raise"
    refuses(words, train, settings(scene, tmp_path / "more", cap_max=299, init=given))


def test_a_run_that_ends_on_a_refinement_ends_on_whole_splats(on_device, scene, tmp_path):
    """The last step neither densifies nor resets; measurements precede refinement."""
    own = dict(max_steps=30, eval_steps=(29,), refine_every=15, reset_every=30)
    metrics = train(settings(scene, tmp_path, **own))
    before, after = metrics["evaluations"][-2:]
    assert (before["step"], after["step"]) == (29, 30)
    assert after["psnr"] > before["psnr"] - 0.5
