"""Photographs of a run that threads read, put where steps read them, and free."""

import threading
import time

import pytest

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.views import View
from hardsplat.train.run import trainer
from hardsplat.train.run.trainer import Trainer
from tests.helpers.training import open_session, settings


def test_one_that_cannot_be_read_is_named_before_the_others_are_read(
    device, scene, tmp_path, monkeypatch
):
    ended, until, first, late = threading.Event(), time.monotonic() + 5, threading.Event(), []

    def load(view):
        if not first.is_set():
            first.set()
            raise UserError("not a readable image")
        if not ended.wait(until - time.monotonic()):
            late.append(view.name)
        raise UserError("no longer wanted")

    class Told(Trainer):
        def close(self):
            ended.set()
            super().close()

    monkeypatch.setattr(View, "load", load)
    with pytest.raises(UserError, match="not a readable image"):
        Told(settings(scene, tmp_path / "run"), device=device)
    assert not late


def test_those_of_a_run_that_never_begins_are_freed(device, scene, tmp_path, monkeypatch):
    held = device.usage.by_name

    def refuse(device, job):
        until = time.monotonic() + 10
        while not held["photos"] and time.monotonic() < until:
            time.sleep(0.01)
        assert held["photos"]
        raise UserError("a pipeline that the device refuses")

    assert not held["photos"]
    monkeypatch.setattr(trainer, "build_ahead", refuse)
    with pytest.raises(UserError, match="refuses"):
        Trainer(settings(scene, tmp_path / "run"), device=device)
    assert not held["photos"]


def test_a_thread_may_free_them_after_their_session(device, scene, tmp_path):
    session = open_session(device, settings(scene, tmp_path / "run"))
    assert device.usage.by_name["photos"]
    session.drop_photos()
    assert not device.usage.by_name["photos"]
    session.destroy()
    session.drop_photos()
