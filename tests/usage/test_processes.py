"""Commands as processes of their own, as a shell starts them: what goes on until it is ended, what
continues a run or starts processes itself, and windows."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

from hardsplat.io.splats import load_splats
from tests.helpers.offered import offered
from tests.helpers.xvfb import NEEDS_DISPLAY
from tests.usage.cases import CLEARED, STEPS

PATIENCE = 120  # s


def own(**more: str) -> dict[str, str]:
    """The environment without a display, but for what is given."""
    return {name: value for name, value in os.environ.items() if name not in CLEARED} | more


def command(*words) -> list[str]:
    return [sys.executable, "-m", "hardsplat", *map(str, words)]


def ended(*words, **more: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    how = dict(capture_output=True, text=True, timeout=PATIENCE, env=own(**more))
    done = subprocess.run(command(*words), **how)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def result(small, tmp_path_factory):
    """A result with its report, trained by a process."""
    folder = tmp_path_factory.mktemp("processes") / "result"
    code, said = ended("train", small, "--max-steps", STEPS, "--quiet", "--result-dir", folder)
    assert code == 0, said
    assert (folder / "report.html").read_text().lower().startswith("<!doctype html")
    assert np.isfinite(load_splats(folder / "splats.ply").means).all()
    return folder


def test_goes_on(result, small, start):
    """Resumed for more steps, and from a named checkpoint."""
    assert start("train", result, "--resume", "--max-steps", STEPS + 4, "--quiet") is None
    assert json.loads((result / "metrics.json").read_text())["steps"] == STEPS + 4
    newest = max((result / "ckpts").iterdir())
    how = ("--max-steps", STEPS + 8, "--quiet", "--result-dir", "further")
    assert start("train", small, "--ckpt", newest, *how) is None


def test_a_served_result(result):
    """Browsers get a page until Ctrl-C."""
    with subprocess.Popen(
        command("view", result, "--serve", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=own(),
    ) as process:
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if found := re.search(r"http://\S+", line):
                    # the token of the address becomes a cookie
                    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
                    with browser.open(found[0], timeout=PATIENCE) as answer:
                        assert answer.status == 200
                    process.send_signal(signal.SIGINT)
                    break
            assert process.wait(PATIENCE) in (0, 130), lines
            lines += process.stdout
        finally:
            process.kill()
    assert not any("Traceback" in line for line in lines), lines


WINDOWS = ("view RESULT", f"train SCENE --max-steps {STEPS} --result-dir OUT --view")


@NEEDS_DISPLAY
@pytest.mark.parametrize("line", WINDOWS)
def test_a_window(result, small, screenless, tmp_path, line):
    """It shows the splats, goes on after the last step, and ends with Ctrl-C."""
    given = {"RESULT": result, "SCENE": small, "OUT": tmp_path / "out"}
    words, before = [given.get(word, word) for word in line.split()], screenless.pixels()
    with open(tmp_path / "said", "w+") as said:
        how = dict(stdout=said, stderr=subprocess.STDOUT, env=own(DISPLAY=screenless.name))
        with subprocess.Popen(command(*words), **how) as process:
            try:
                until = time.monotonic() + PATIENCE
                done = lambda: "--view" not in words or (given["OUT"] / "report.html").is_file()
                while not done() or np.mean(screenless.pixels() != before) < 0.1:
                    assert process.poll() is None and time.monotonic() < until
                    time.sleep(0.1)
                process.send_signal(signal.SIGINT)
                code = process.wait(PATIENCE)
            finally:
                process.kill()
        said.seek(0)
        text = said.read()
        assert code in (0, 130) and "Traceback" not in text and "error" not in text, text


def test_no_window_without_a_display(result, start):
    """What windows show and do is tested in tests/view."""
    code, said = ended("view", result)
    assert code == 2 and said.startswith("hardsplat: error: no window: "), said
    for item in (item for some in offered("view").values() for item in some):
        assert start("view", result, *item).startswith("no window: "), item
