"""Watchers of a run: what they are told, and what they may ask for."""

import json
import signal
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.io.formats.checkpoint import load
from hardsplat.train import run_training as train
from hardsplat.train.api import Progress
from hardsplat.train.run.keeper import Keeper
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.watch import Watcher
from tests.helpers.tables import refuses
from tests.helpers.training import settings


class Told(Watcher):
    """Writes down what it is told. ask: called in each turn."""

    def __init__(self, ask=lambda run: None):
        self.told, self.ask = [], ask

    def open(self, run):
        self.told.append(("open", run.session.step))

    def turn(self, run, wait=False):
        self.ask(run)

    def batch(self, run):
        self.told.append(("batch", run.log.steps[-1]))

    def measured(self, run, result, example):
        self.told.append(("measured", result["step"], example.name, example.image.shape))

    def close(self):
        self.told.append(("close",))


def test_watchers_are_told_in_order(on_device, scene, tmp_path):
    watchers = [Told(), Told()]
    train(settings(scene, tmp_path / "run", max_steps=10, eval_steps=(5,)), watchers)
    wanted = [("open", 0)]
    for step in (5, 10):
        wanted += [("batch", step), ("measured", step, "view_0000.jpg", (24, 32, 3))]
    assert watchers[0].told == [*wanted, ("close",)]
    assert watchers[1].told == watchers[0].told


def test_a_watcher_saves_looks_and_stops(on_device, scene, tmp_path):
    looked = []

    def ask(run):
        if run.session.step == 10 and not looked:
            run.save()
            saved = load(run.folder / "ckpts" / "ckpt_10.npz").step
            written = (run.folder / "splats.ply").is_file()
            looked.append((run.example().name, written, saved))
        if run.session.step == 20:
            run.stop()

    metrics = train(settings(scene, tmp_path / "run", batch_steps=5), [Told(ask)])
    assert looked == [("view_0000.jpg", True, 10)]
    assert metrics["steps"] == 20 and metrics["evaluations"][-1]["step"] == 20
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    assert load(tmp_path / "run" / "ckpts" / "ckpt_20.npz").step == 20
    resumed = train(settings(scene, tmp_path / "run", resume=True))
    assert resumed["steps"] == 30 and resumed["evaluations"][0]["step"] == 20


def test_what_is_saved_in_a_measurement_has_what_its_step_does(
    on_device, scene, tmp_path, monkeypatch
):
    done = []
    for owner, name in ((Session, "refine"), (Keeper, "save")):
        plain = getattr(owner, name)
        noted = lambda self, name=name, plain=plain: (done.append(name), plain(self))
        monkeypatch.setattr(owner, name, noted)

    def ask(run):
        if run.session.step == 10:
            run.save()

    train(settings(scene, tmp_path, max_steps=11, eval_steps=(10,)), [Told(ask)])
    assert done[:2] == ["refine", "save"] and load(tmp_path / "ckpts/ckpt_10.npz").step == 10


class Asks(Told):
    """Calls whatever a callback may, wherever it may."""

    def open(self, run):
        run.save()

    def turn(self, run, wait=False):
        self.told.append(("turn", run.session.step))
        if run.log.steps:
            progress = Progress(run)
            assert len(progress.gaussians()) > 0
            progress.save()
            if run.session.step == 20:
                progress.stop()
        run.example()

    def measured(self, run, result, example):
        run.save()
        Progress(run).gaussians()
        run.stop()


@pytest.mark.parametrize("followed", [False, True])
def test_a_signal_after_the_last_step_ends_what_follows(on_device, scene, tmp_path, followed):
    """The run itself is whole by then."""

    class Terminated(Watcher):
        def measured(self, run, result, example):
            signal.raise_signal(signal.SIGTERM)

    run, ended = settings(scene, tmp_path / "run", max_steps=10), pytest.raises(KeyboardInterrupt)
    with ended if followed else nullcontext() as error:
        assert train(run, [Terminated()], followed=followed)["steps"] == 10
    assert not followed or error.value.args == (signal.SIGTERM,)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"] == 10


@pytest.fixture
def within_a_minute():
    late = Mock(side_effect=TimeoutError("a training waits for itself"))
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("steps, ends", [(10, 10), (30, 20)])
def test_every_method_may_be_called_from_every_callback(
    on_device, within_a_minute, scene, tmp_path, steps, ends
):
    """Also from the measurement after the last step, whose checkpoint is being written."""
    asks = Asks()
    metrics = train(settings(scene, tmp_path / "run", max_steps=steps), [asks])
    assert metrics["steps"] == ends and asks.told.count(("turn", ends)) >= 2
    assert metrics["seconds"]["training"] < 60, "not the time since the machine was started"
    saved = load(tmp_path / "run" / "ckpts" / f"ckpt_{ends}.npz")
    assert saved.step == ends and saved.log["evaluations"][-1]["step"] == ends


class Fails(Watcher):
    """Raises in one of its methods, or where it is asked something."""

    title = "the broken one"

    def __init__(self, where):
        self.calls = []
        self.where = where

    def __getattribute__(self, name):
        if name in ("open", "turn", "batch", "measured", "close", "shown", "paused", "lingering"):
            self.calls.append(name)
            if name == self.where:
                raise ZeroDivisionError("it broke")
        return super().__getattribute__(name)


WHERE = ["open", "batch", "measured", "close", "paused"]


def test_what_a_watcher_raises_is_noted_once_and_training_goes_on(device, scene, tmp_path, capfd):
    """Each raises in another method; the others are called as before."""
    bad, last = [Fails(where) for where in WHERE], Told()
    own = dict(max_steps=10, eval_steps=(5,))
    run = Trainer(settings(scene, tmp_path / "run", **own), [*bad, last], device)
    metrics = run.train()
    run.close()
    assert metrics["steps"] == 10 and (tmp_path / "run" / "metrics.json").is_file()
    assert last.told[-1] == ("close",) and ("batch", 10) in last.told
    out, err = capfd.readouterr()
    note = "note: the broken one is switched off, and the training continues: it broke"
    assert out.count(note) == err.count("ZeroDivisionError: it broke") == len(bad)
    assert all(each.calls.count(each.where) == 1 for each in bad if each.where != "close")


@pytest.mark.parametrize("error", [DeviceLost("gone"), OutOfMemory("full")])
def test_a_lost_or_full_device_ends_the_run_with_everything_saved(device, scene, tmp_path, error):
    def ask(run):
        if run.session.step >= 5:
            raise error

    run = Trainer(settings(scene, tmp_path / "run"), [Told(ask)], device)
    refuses("is saved: continue with", run.train)
    run.close()
    run.close()
