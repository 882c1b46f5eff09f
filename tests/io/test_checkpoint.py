"""Checkpoints, resuming, and what a run saves when it is interrupted or its device fails."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.cli import main
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.gpu.device.queue import Fence
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.settings.presets import load_config
from hardsplat.step import runner
from hardsplat.train import run_training as train
from hardsplat.train.run import keeper
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session import drawing
from tests.helpers.leaks import opens
from tests.helpers.splat_files import some_splats
from tests.helpers.spoiling import takes_at_most
from tests.helpers.tables import refuses
from tests.helpers.training import settings
from tests.io.test_formats_hostile import array, zipped

pytestmark = pytest.mark.usefixtures("on_device")
ROOT = Path(__file__).parents[2]


def resumed(folder, **changes):
    return load_config(None, {"data_dir": folder, "resume": True, **changes})


@pytest.fixture(scope="module")
def halfway(module_device, scene, tmp_path_factory) -> Path:
    """The folder of a run that did 20 steps."""
    out = tmp_path_factory.mktemp("halfway")
    with opens(module_device):
        train(settings(scene, out, max_steps=20, eval_steps=(10,)))
    return out


@pytest.fixture
def copied(halfway, tmp_path) -> Path:
    """A copy of its settings and checkpoint, to go on from."""
    (tmp_path / "ckpts").mkdir()
    config = (halfway / "config.toml").read_text().replace(str(halfway), str(tmp_path))
    (tmp_path / "config.toml").write_text(config)
    shutil.copy(halfway / "ckpts/ckpt_20.npz", tmp_path / "ckpts")
    return tmp_path


def saved(folder) -> list[int]:
    """The steps of its checkpoints."""
    return sorted(int(path.stem.removeprefix("ckpt_")) for path in folder.glob("ckpts/*.npz"))


def evaluated(metrics) -> list[int]:
    return [e["step"] for e in metrics["evaluations"]]


def test_the_newest_is_the_one_written_last(tmp_path):
    """Not the one with the most steps, which may be left from an earlier run in the folder."""
    assert checkpoints.newest(tmp_path) is None
    (tmp_path / "ckpts").mkdir()
    for when, name in enumerate(("900.npz", "40.npz", "30.npz", "x.npz", "50.npz.7.part")):
        path = tmp_path / "ckpts" / f"ckpt_{name}"
        path.touch()
        os.utime(path, (when, when))
    assert checkpoints.newest(tmp_path).name == "ckpt_30.npz"


def _flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _changed(**arrays):
    def change(path):
        with np.load(path) as data:
            np.savez(path, **{**data, **arrays})

    return change


def _means(n):
    return _changed(means=np.zeros((1, n, 3), np.float32))


UNUSABLE = "not a usable checkpoint"
OTHER_MEANS = r"adam_means is float32 .* expected float32 \(2, 1, 7, 3\)"
DAMAGE = [
    (lambda path: np.savez(path, weights=np.zeros(3)), "version is not a file in the archive"),
    (lambda path: path.write_bytes(path.read_bytes()[:-2000]), UNUSABLE),
    (_flipped, UNUSABLE),
    (lambda path: path.write_text(""), UNUSABLE),
    (lambda path: path.write_text("hello"), rf"{UNUSABLE} \(another kind of file, or cut short\)"),
    (lambda path: np.save(path.open("wb"), np.zeros(3)), UNUSABLE),
    (_changed(version=1), "checkpoint version 1, this hardsplat reads 5"),
    (_changed(log="{"), UNUSABLE),
    (_changed(log='{"steps": ["a"]}'), "its log is not that of a run"),
    (_changed(log='{"evaluations": [{"step": 1}]}'), UNUSABLE),
    (_changed(log="[]"), UNUSABLE),
    (_changed(step=-5), "step -5 of SH degree 1"),
    (_changed(sh_degree=7), "step 20 of SH degree 7"),
    (_means(7), OTHER_MEANS),
    (_means(0), "means is float32"),
    (_changed(sh0=np.zeros((1, 300, 3))), "sh0 is float64"),
    (_changed(lobe_axes=np.zeros((2, 300, 3))), "has lobes of colour, .* splats.ply: --init FILE"),
]


@pytest.mark.parametrize("damage, message", DAMAGE)
def test_damaged_checkpoints(error_of, copied, scene, damage, message):
    path, out = copied / "ckpts/ckpt_20.npz", copied / "out"
    damage(path)
    flags = ("--ckpt", path, "--result-dir", out, "--sh-degree", "1")
    error = error_of("train", scene, *flags)
    assert error.startswith(str(path)) and re.search(message, error)
    assert not out.exists()


@pytest.mark.parametrize("name", ["adam_shN", "something"])
def test_a_checkpoint_that_expands_without_end(error_of, scene, tmp_path, name):
    """`train --ckpt` and `--resume` take no memory for it."""
    bomb = tmp_path / "ckpts/ckpt_5.npz"
    checkpoints.save(bomb, Checkpoint.initial(some_splats(6, 1), 1))
    with zipfile.ZipFile(bomb) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[f"{name}.npy"] = array((16 << 20,), bytes(64 << 20))
    bomb.write_bytes(zipped(**members))
    for words in (f"--ckpt {bomb} --result-dir {tmp_path}/o", f"--resume --result-dir {tmp_path}"):
        with takes_at_most(32 << 20):
            error = error_of("train", scene, words)
        assert error.startswith(str(bomb)) and "a decompression bomb" in error


def test_checkpoints_that_do_not_fit_the_run(error_of, copied, scene, tmp_path):
    ckpt, out = copied / "ckpts/ckpt_20.npz", ("--result-dir", tmp_path / "o")
    other = f"{ckpt}: made with --sh-degree 1, this run has 2"
    preset = f"; add --config {copied / 'config.toml'}"
    done = f"{ckpt}: has 20 steps already, of 10; continue with more --max-steps"
    for argv, words in (
        ((copied, "--resume", "--sh-degree", "2"), other),
        ((scene, "--ckpt", ckpt, "--sh-degree", "2", *out), other + preset),
        ((copied, "--resume", "--max-steps", "10"), done),
    ):
        assert error_of("train", *argv) == words
    none = tmp_path / "none.npz"
    assert "no such checkpoint" in error_of("train", scene, "--ckpt", none, *out)
    assert "no checkpoint to resume from" in error_of("train", scene, "--resume", *out)


def test_resume(on_device, halfway, copied):
    metrics = train(resumed(copied, max_steps=40))
    assert metrics["steps"] == 40 and metrics["curve"]["step"] == list(range(5, 41, 5))
    assert evaluated(metrics) == [10, 20, 40]
    assert checkpoints.newest(copied).name == "ckpt_40.npz"
    before = checkpoints.load(halfway / "ckpts/ckpt_20.npz").log
    assert metrics["curve"]["loss"][:4] == before["losses"]
    assert metrics["seconds"]["training"] > before["training_seconds"]
    assert "resume = false" in (copied / "config.toml").read_text()


def test_what_a_killed_run_did_not_finish_is_made_by_resuming_it(
    on_device, reports, copied, error_of
):
    """The last checkpoint is there, and neither splats, measurements nor report."""
    metrics = train(resumed(copied))
    assert metrics["steps"] == 20 and evaluated(metrics) == [10, 20]
    for name in ("splats.ply", "metrics.json", "report.html", "loss.png"):
        assert (copied / name).is_file()
    assert list(copied.glob("renders/*.render.png"))
    ckpt = copied / "ckpts/ckpt_20.npz"
    done = f"{ckpt}: has 20 steps already, of 20; continue with more --max-steps"
    assert error_of("train", copied, "--resume") == done


def test_the_newest_two_checkpoints_stay_and_those_of_save_steps(on_device, scene, tmp_path):
    train(settings(scene, tmp_path, checkpoint_every=5, save_steps=(10,)))
    assert saved(tmp_path) == [10, 25, 30]


def test_a_folder_is_one_runs_at_a_time(on_device, scene, tmp_path, error_of):
    run, lock = Trainer(settings(scene, tmp_path)), tmp_path / ".lock"
    error = error_of("train", scene, "--result-dir", tmp_path, "--max-steps", "2")
    assert error.startswith(f"{tmp_path} is in use by process {os.getpid()} on ")
    assert error.endswith("; wait for its end, end it, or choose another --result-dir")
    run.close()
    assert not lock.exists()
    lock.write_text("process 1, which was killed")
    assert train(settings(scene, tmp_path, max_steps=2))["steps"] == 2 and not lock.exists()


def started(scene, out, *flags):
    """The real command in training, its second batch shown by the bar."""
    program = "from hardsplat import cli; from hardsplat.base import progress; "
    program += "progress.SECONDS = 0; cli.run()"
    argv = [sys.executable, "-c", program, "train", scene, "--result-dir", out]
    argv += ["--max-steps", "1000000", "--strategy", "none", *flags]
    environment = {**os.environ, "HARDSPLAT_VALIDATION": "0", "HARDSPLAT_POISON": "0"}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = subprocess.Popen(argv, cwd=ROOT, env=environment, **pipes)
    read_until(run, "k splats")
    return run


def read_until(run, words) -> None:
    shown = ""
    while words not in shown:
        text = run.stderr.read(1)
        assert text, f"ended without {words!r}: {shown}"
        shown += text


INTERRUPTS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]


@pytest.mark.parametrize("number, code, word", INTERRUPTS)
def test_ctrl_c_saves_and_its_command_goes_on(scene, tmp_path, on_device, number, code, word):
    out = tmp_path / "a run"
    run = started(scene, out, "--batch-steps", "10", "--sh-degree", "1")
    run.send_signal(number)
    text, errors = run.communicate(timeout=60)
    assert run.returncode == code and "Traceback" not in errors
    assert errors.endswith(f"hardsplat: {word}\n")
    saves = r"interrupted at step (\d+): checkpoint and splats.ply saved"
    step = int(re.search(rf"{saves}; continue with hardsplat train '{out}' --resume\n$", text)[1])
    assert (out / "splats.ply").is_file() and saved(out) == [step]
    assert main(["train", str(out), "--resume", "--max-steps", str(step + 5), "--quiet"]) == 0
    assert saved(out)[-1] == step + 5


LOST = DeviceLost("the GPU stopped answering")
_wait = Fence.wait


def wait_in_vain(fence):
    _wait(fence)  # this device is well in truth, and must not free what is in use
    raise LOST


def fails(patch, error, after=3):
    """Only the first `after` batches are submitted; a lost device waits for none either."""
    left, submit = iter(range(after)), runner.submit

    def broken(device, commands, fence=None):
        if fence is not None and next(left, None) is None:
            if error is LOST:
                patch.setattr(Fence, "wait", wait_in_vain)
            raise error
        submit(device, commands, fence)

    for module in (runner, drawing):
        patch.setattr(module, "submit", broken)


LOST_AT = [({}, 3600, 0), ({"checkpoint_every": 10}, 3600, 10), ({"checkpoint_every": 10}, 0, 15)]


@pytest.mark.parametrize("run, seconds, step", LOST_AT)
def test_a_lost_device_leaves_a_copy(on_device, scene, tmp_path, monkeypatch, run, seconds, step):
    """HostCopies are taken of the first state, as time passes, and with each checkpoint."""
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "SNAPSHOT_SECONDS", seconds)
        fails(patch, LOST)
        with pytest.raises(UserError) as error:
            train(settings(scene, tmp_path, **run))
    on_device.wait_idle()
    assert saved(tmp_path) == sorted({step, *range(10, step + 1, 10)})
    state = checkpoints.load(checkpoints.newest(tmp_path))
    saves = f"(step 15); step {step} with {state.splats} splats is saved"
    words = f"the GPU stopped answering {saves}: continue with hardsplat train {tmp_path} --resume"
    assert str(error.value) == words
    assert state.step == step and state.log.get("steps", []) == list(range(5, step + 1, 5))
    assert state.buffers["adam_means"].any() == (step > 0)
    assert train(resumed(tmp_path))["curve"]["step"] == [5, 10, 15, 20, 25, 30]


def test_out_of_memory_while_running(on_device, scene, tmp_path, monkeypatch):
    fails(monkeypatch, OutOfMemory("the GPU ran out of memory"))
    with pytest.raises(UserError) as error:
        train(settings(scene, tmp_path))
    n = checkpoints.load(tmp_path / "ckpts/ckpt_15.npz").splats
    goes_on = f"continue with hardsplat train {tmp_path} --resume --cap-max {n}"
    assert str(error.value).endswith(f"(step 15); step 15 with {n:,} splats is saved: {goes_on}")


def test_a_full_disk_at_the_end_still_saves_the_training(on_device, scene, tmp_path, monkeypatch):
    def full(path, *_):
        raise UserError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr("hardsplat.io.model.save_planes", full)
    words = "No space left on device .step 30.; step 30 with .* is saved"
    refuses(words, train, settings(scene, tmp_path))
    assert saved(tmp_path) == [30]
