"""Runs on devices whose memory other programs take, and the host's memory for copies of them."""

import json
from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat.base.background import Background
from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.usage import MemoryBudget
from hardsplat.io.formats.checkpoint import newest
from hardsplat.step.photos import Photos
from hardsplat.train import run_training as train
from hardsplat.train.run import keeper
from hardsplat.train.run.held_out import HeldOut
from hardsplat.train.run.keeper import HostCopies
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session import store
from hardsplat.train.watchers.watch import Watcher
from tests.helpers.training import settings

GIB = 1 << 30


class Takes(Watcher):
    """Other programs take all but 10 MiB of the memory after steps 5, 10 and 20."""

    def __init__(self, device, monkeypatch):
        self.most = 4 * GIB
        monkeypatch.setattr(device, "memory_budget", lambda: MemoryBudget(GIB, self.most))

    def turn(self, run, wait=False):
        self.most = GIB + (10 << 20) if run.session.step in (5, 10, 20) else 4 * GIB


def test_a_run_is_saved_before_others_have_taken_all_memory(
    device, scene, tmp_path, monkeypatch, capfd
):
    """Once each time. It goes on with the memory that it has."""
    monkeypatch.setattr(keeper, "SECONDS", 0.0)
    monkeypatch.setattr(store, "MORE", 0)
    monkeypatch.setattr(store, "TIMES", 1.0)
    taking = Takes(device, monkeypatch)
    own = dict(batch_steps=5, deterministic=True, rasterizer="auto", strategy="mcmc")
    run = Trainer(settings(scene, tmp_path / "run", **own), [taking], device)
    metrics = run.train()
    out = capfd.readouterr().out
    assert metrics["steps"] == 30 and newest(tmp_path / "run").name == "ckpt_30.npz"
    assert out.count("10 MiB are left: step 10 is saved") == 1
    assert out.count("10 MiB are left: step 25 is saved") == 1
    assert out.count("other programs take the memory of") == 3
    grown = metrics["curve"]["splats"]
    assert out.count(f"growth stops at {grown[2]:,} splats: other programs take") == 1
    assert grown[0] < grown[2] == metrics["splats"]


@pytest.mark.parametrize("budget", [None, MemoryBudget(GIB, GIB + (100 << 20))])
def test_a_run_that_fills_the_memory_itself_is_left_alone(monkeypatch, budget):
    monkeypatch.setattr(keeper, "SECONDS", 0.0)
    device = SimpleNamespace(memory_budget=lambda: budget, memory_bytes=8 * GIB)
    background = SimpleNamespace(background=None)
    keeper.Keeper(SimpleNamespace(device=device), background, None, None).check_memory()


def test_fewer_photographs_are_in_flight_where_little_memory_is_free(device, monkeypatch):
    images = [np.zeros((40, 50, 3), np.uint8)] * 30
    size = images[0].size + 4
    cases = (100 * size, 10, "stream"), (10 * size, 2, "stream"), (0, 1, "stream"), (0, 1, "auto")
    for free, steps, mode in cases:
        monkeypatch.setattr(device, "memory_budget", lambda: MemoryBudget(0, free))
        photos = Photos(device, images, mode, ring=20)
        assert photos.streamed and photos.most_steps == steps
        assert photos.buffer.nbytes < (2 * steps + 1) * size
        photos.buffer.destroy()


def test_held_out_views_that_do_not_fit_cost_a_note(on_device, scene, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(HeldOut, "_measures", Mock(side_effect=OutOfMemory("no memory for it")))
    metrics = train(settings(scene, tmp_path / "run", max_steps=10, eval_steps=(5,)))
    assert metrics["steps"] == 10 and not metrics["evaluations"]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"] == 10
    assert capfd.readouterr().out.count("held-out views are not measured: no memory") == 2


@pytest.fixture
def background():
    made = Background(room=1 << 20)
    yield made
    made.close()


def made(copies, value, n=100):
    out = copies.begin()("means", (1, n, 3))
    out[:] = value
    copies.made()
    return out


def test_the_last_copy_stays_whole_and_memory_is_used_again(background):
    copies = HostCopies(background)
    first, second = made(copies, 1), made(copies, 2)
    assert (first == 1).all()
    third = made(copies, 3, n=90)
    assert np.shares_memory(first, third) and (second == 2).all()
    copies.begin()("means", (1, 100, 3))[:] = 9  # and fails
    copies.begin()("means", (1, 100, 3))[:] = 9
    assert (third == 3).all()


def test_what_a_file_is_written_of_stays_too(background):
    copies, file = HostCopies(background), Future()
    first = made(copies, 1)
    copies.written_by(file)
    made(copies, 2)
    third = made(copies, 3)
    assert (first == 1).all() and not np.shares_memory(first, third)
    file.set_result(None)
