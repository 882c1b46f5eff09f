"""Progress: a bar on a terminal, a line now and then elsewhere."""

import importlib
import io
import sys
from itertools import pairwise

import pytest
from tqdm import TMonitor

from hardsplat.base import progress
from hardsplat.base.progress import Bar


class Stream(io.StringIO):
    def __init__(self, terminal: bool):
        super().__init__()
        self.isatty = lambda: terminal


def stream(monkeypatch, terminal: bool) -> Stream:
    """Replaces stderr within a test: pytest changes it between fixtures and the test."""
    out = Stream(terminal)
    monkeypatch.setattr(progress.sys, "stderr", out)
    return out


def test_a_pipe_gets_whole_lines(monkeypatch):
    out = stream(monkeypatch, terminal=False)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with Bar(total=4, desc="bonsai", bar_format="{bar}", disable=False) as bar:
        for _ in range(4):
            bar.set_postfix_str("20.0 dB", refresh=False)
            bar.update()
    text = out.getvalue()
    assert "\r" not in text and "\x1b" not in text and text.endswith("\n")
    assert all(line.startswith("bonsai: ") for line in text.splitlines())
    assert "bonsai: 50 %, 2 of 4" in text and text.count("100 %, 4 of 4") >= 1 and "20.0 dB" in text


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("even", [False, True])
def test_only_what_goes_on_evenly_foretells_its_end(monkeypatch, terminal, even):
    out = stream(monkeypatch, terminal)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with Bar(total=4, desc="poses", even=even, mininterval=0, disable=False) as bar:
        bar.set_postfix_str("COLMAP's defaults", refresh=False)
        bar.update(2)
    text = out.getvalue()
    assert "50" in text and "COLMAP's defaults" in text
    assert (("<" if terminal else " to go") in text) == even


def test_lines_keep_their_distance(monkeypatch):
    """The fault: tqdm's own thread printed a line, and the next update another one."""
    out, now, at = stream(monkeypatch, terminal=False), [0.0], []
    out.write = lambda text: at.append(now[0])

    class Waits:
        """What that thread waits with: a second passes, and every 23rd ends with an update."""

        def wait(self, _seconds):
            now[0] += 1
            if now[0] % 23 == 0:
                bar.update(50)

        def is_set(self):
            return now[0] >= 230

        set = is_set

    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr(Bar, "monitor_interval", 0)  # no thread beside this one
    monkeypatch.setattr(TMonitor, "_test", {"time": lambda: now[0], "Event": Waits})
    monkeypatch.setattr(TMonitor, "start", lambda self: None)
    with Bar(total=1000, desc="bonsai", disable=False) as bar:
        TMonitor(Bar, 1).run()
        before_the_end = at[:]
    assert len(before_the_end) > 5
    assert all(b - a >= progress.SECONDS for a, b in pairwise(before_the_end))


def test_short_work_says_nothing_into_a_pipe(monkeypatch):
    out = stream(monkeypatch, terminal=False)
    assert list(Bar(range(50), desc="measuring", leave=False, disable=False)) == list(range(50))
    assert out.getvalue() == ""


def test_notebooks_get_widgets(monkeypatch):
    """Bars are tqdm's own for the place where they run."""
    import tqdm.auto
    import tqdm.notebook

    try:
        monkeypatch.setitem(sys.modules, "ipykernel", object())
        monkeypatch.setattr(tqdm.auto, "tqdm", tqdm.notebook.tqdm)
        assert issubclass(importlib.reload(progress).Bar, tqdm.notebook.tqdm)
    finally:
        monkeypatch.undo()
        assert not issubclass(importlib.reload(progress).Bar, tqdm.notebook.tqdm)
