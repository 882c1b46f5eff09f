"""Workers of this machine: a thread for each device, whose children get that device."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hardsplat.study import workers


@pytest.fixture
def child(monkeypatch):
    """Children say their device and end with 0 when their standard input does, and those that were
    not asked after WAITS seconds, with 1. Returns the list of those that were started."""
    popen, together, started = workers.subprocess.Popen, threading.Barrier(2), []

    def start(command, **how):
        folder = Path(command[3])
        if folder.name in "ab":
            together.wait(30)  # so that both workers have a task
        if wait := WAITS[folder.name]:
            code = f"{SAYS}; sys.exit(not select.select([sys.stdin], [], [], {wait})[0])"
        else:
            code = SAYS
        started.append(popen([sys.executable, "-c", code, str(folder)], **how))
        return started[-1]

    monkeypatch.setattr(workers.subprocess, "Popen", start)
    return started


MODULE = "a.child"
SAYS = "import os, pathlib, select, sys; folder = pathlib.Path(sys.argv[1]); "
SAYS += "(folder / 'device').write_text(os.environ['HARDSPLAT_DEVICE'])"
WAITS = {"a": 0, "b": 0, "long": 60, "late": 60, "short": 0}


def work(folder: Path) -> int:
    time.sleep(0.5 * (folder.name == "late"))  # its child starts after the others are stopped
    return workers.run_child(MODULE, folder, None, show=False)


def folders(tmp_path, *names) -> list[tuple[Path]]:
    for name in names:
        (tmp_path / name).mkdir()
    return [(tmp_path / name,) for name in names]


def test_each_worker_has_its_device(child, tmp_path):
    tasks = folders(tmp_path, "a", "b")
    assert dict(workers.on_workers(work, tasks, ["3", "7"], None)) == {0: 0, 1: 0}
    assert {(folder / "device").read_text() for (folder,) in tasks} == {"3", "7"}


@pytest.mark.parametrize("name", ["long", "late"])
def test_children_end_when_no_one_waits_for_them(child, tmp_path, name):
    tasks = folders(tmp_path, "short", name)
    outcomes = workers.on_workers(work, tasks, ["0", "0"], None)
    assert next(outcomes) == (0, 0)
    outcomes.close()
    assert [each.returncode for each in child] == [0, 0] and not workers._running


def test_children_end_where_ctrl_c_comes_before_all_tasks_are_given(child, tmp_path):
    """Else the command would do all of them."""

    def tasks():
        yield from folders(tmp_path, "long")
        while not workers._running:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(workers.on_workers(work, tasks(), ["0"], None))
    assert not workers._running


def test_a_child_that_is_killed_after_it_was_asked_to_end_was_interrupted(child, tmp_path):
    """So that what it has saved is not made again."""
    ((folder,),) = folders(tmp_path, "long")
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(work, folder)
        while not workers._running:
            time.sleep(0.01)
        (started,) = workers._running
        workers.stop_children()
        started.kill()
        assert ended.result(30) == 130


def test_a_child_shows_its_progress_alone(monkeypatch, tmp_path, capfd):
    """Everything is in its log; a sweep has a line of its own for each run."""
    said = "note: a\\ncourt: 9 %, 4 of 44, 00:20, 03:19 to go, 20.2 dB\\nresult: b"
    popen, code = workers.subprocess.Popen, f'print("{said}")'
    start = lambda command, **how: popen([sys.executable, "-c", code], **how)
    monkeypatch.setattr(workers.subprocess, "Popen", start)
    assert workers.run_child(MODULE, tmp_path, None, show=True) == 0
    assert capfd.readouterr().err == "court: 9 %, 4 of 44, 00:20, 03:19 to go, 20.2 dB\n"
    assert "note: a" in (tmp_path / "log.txt").read_text()
