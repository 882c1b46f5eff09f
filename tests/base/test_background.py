"""What a run does beside its training: order, bounded memory, errors, and the clock of parts."""

import re
import subprocess
import sys
import threading
import time
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat.base import background as module
from hardsplat.base.background import Background, outcome
from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import UserError
from hardsplat.io.scenes.views import View
from hardsplat.train import run_training as train
from tests.helpers.tables import refuses
from tests.helpers.training import settings


def test_tasks_of_a_line_keep_their_order_and_others_do_not_wait_for_them(monkeypatch):
    background, done, gate = Background(), [], threading.Event()
    background.do("first", lambda: (gate.wait(10), done.append(1)), line="files")
    background.do("second", lambda: done.append(2), line="files")
    background.do("beside", lambda: done.append(3)).result(timeout=10)
    assert done == [3]
    ticks = count()
    clock = lambda: (gate.set(), float(next(ticks)))[1]  # once it waits
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=clock))
    seconds = background.finish(quiet=True)
    assert done == [3, 1, 2]
    assert seconds.keys() == {"first", "second"} and 1 <= seconds["first"] <= seconds["second"]
    background.close()


def test_somebody_has_a_turn_while_tasks_are_waited_for():
    background, gate = Background(), threading.Event()
    task = background.do("a file", lambda: gate.wait(20))
    background.finish(quiet=True, turn=gate.set)
    assert task.result() is True
    background.close()


def test_no_wait_is_without_a_limit(monkeypatch):
    """A thread that hangs, on a disk that is gone for example, costs a UserError with its name."""
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    background, gate = Background(room=10), threading.Event()
    slow = background.do("splats.ply", lambda: gate.wait(20), nbytes=8)
    refuses("^the file: not done after 0 s", outcome, slow, "the file", 0.1)
    refuses("^splats.ply: not done after 0 s", background.do, "more", print, nbytes=8)
    refuses("^splats.ply: not done after 0 s", background.finish, quiet=True)
    gate.set()
    assert outcome(slow, "the file") is True
    with pytest.raises(TimeoutError, match="of the disk"):
        outcome(background.do("disk", _timed_out), "the file")
    background.close()


def _timed_out():
    raise TimeoutError("of the disk")


def test_memory_of_waiting_tasks_is_bounded():
    background, held, most = Background(room=100, workers=4), [0], [0]
    lock = threading.Lock()

    def work():
        time.sleep(0.01)
        with lock:
            held[0] -= 60

    for _ in range(5):
        with lock:
            held[0] += 60
        background.do("a", work, nbytes=60)
        with lock:
            most[0] = max(most[0], held[0])
    background.finish(quiet=True)
    assert most[0] <= 120  # one at work, one handed over
    background.do("larger than all the room", lambda: None, nbytes=1000).result(timeout=10)
    background.close()


def test_an_error_is_raised_once_after_the_others_are_done():
    background, done = Background(), []

    def fail():
        raise UserError("disk full")

    background.do("bad", fail).exception()
    refuses("disk full", background.check)
    background.check()
    background.do("bad", fail)
    background.do("good", lambda: (time.sleep(0.05), done.append(1)))
    refuses("disk full", background.finish, quiet=True)
    assert done == [1]
    background.close()


def test_parts_add_up(monkeypatch):
    now, compiled = [0.0], [0.0]
    monkeypatch.setattr("hardsplat.base.clock.time.perf_counter", lambda: now[0])
    parts = PhaseClock("imports", begun=-1.0)
    parts.compiling = lambda: compiled[0]

    def passes(seconds):
        now[0] += seconds

    passes(1)
    parts.begin("training")
    passes(5)
    with parts.within("measuring"):
        passes(2)
        with parts.within("files"):
            passes(1)
        compiled[0] += 0.5
        passes(1)
    passes(4)
    found = {"imports": 2.0, "training": 9.0, "measuring": 2.5, "files": 1.0, "compile": 0.5}
    assert parts.read() == found | {"total": 15.0}
    thread = threading.Thread(target=lambda: parts.within("other").__enter__())
    thread.start()  # of another thread: no part
    thread.join()
    assert "other" not in parts.read() and parts.total() == 15.0


def test_the_process_began_before_its_first_line():
    """Asked late it is another program's start: a script became this process after a minute."""
    lines = "import time", "from hardsplat.base import clock", "now = time.perf_counter()"

    def began(longest: float) -> tuple[float, float]:
        """When the process began, and its first line, on the clock that processes share."""
        own = f"clock.LONGEST_START = {longest}", "print(clock.process_began(), now)"
        command = [sys.executable, "-c", "; ".join([*lines, *own])]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return tuple(map(float, said.split()))

    before = time.perf_counter() - 0.02  # the system counts in hundredths
    start, line = began(longest=1e9)
    assert before <= start < line
    start, line = began(longest=0.0)
    assert line <= start


def test_a_run_reads_each_photograph_once(on_device, scene, tmp_path, monkeypatch, capfd):
    read, load = [], View.load
    monkeypatch.setattr(View, "load", lambda self: (read.append(self.name), load(self))[1])
    metrics = train(settings(scene, tmp_path, eval_steps=(10, 20)))
    assert len(read) == len(set(read)) > 0 and len(metrics["evaluations"]) == 3
    said = capfd.readouterr().out
    steps = re.findall(r"step (\d+): held-out PSNR", said)
    assert steps == ["10", "20"] and len(re.findall(r"PSNR .* held-out views", said)) == 1
    seconds = metrics["seconds"]["parts"]
    assert set("load device setup training measuring files total".split()) <= set(seconds)
    assert np.isclose(sum(seconds.values()) - seconds["total"], seconds["total"])
    assert 0 < metrics["seconds"]["training"] <= seconds["training"] + seconds["compile"]


def test_a_damaged_held_out_photograph_is_said_soon(on_device, scene, tmp_path, monkeypatch):
    load = View.load

    def damaged(self):
        if self.name == "view_0008.jpg":
            raise UserError("view_0008.jpg: not a readable image")
        return load(self)

    monkeypatch.setattr(View, "load", damaged)
    words = "view_0008.jpg: not a readable image .step"
    refuses(words, train, settings(scene, tmp_path, max_steps=60))
