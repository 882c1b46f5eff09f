"""What browsers on `hardsplat train --serve` see and cost, with headless Chromium.

    python -m tools.serve_report scenes/courtyard see --out docs/images/serve.jpg    # two browsers
        at once, one of which is killed
    python -m tools.serve_report scenes/courtyard cost --windows 6 --seconds 15      # one idle
        browser that comes and goes

`see` prints how much the picture in each browser changes; its screenshot has both browsers side by
side, early above late. `cost` prints the processor time of the training process per step with and
without the browser. The clock on the wall would count the browser too, which uses the same cores
here. Batches while the browser comes or goes are left out.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

import hardsplat
from hardsplat.train.watchers.watch import Running, Watcher
from tools.devtools import Browser

PATIENCE = 120.0  # s
SIZES = ((640, 480), (480, 480))  # px of browsers


class Meter(Watcher):
    """Processor seconds and steps by the label that is set while they are done."""

    def __init__(self):
        self.step, self.label, self._last = 0, None, (None, 0.0, 0)
        self.spent: dict = {}  # label -> [seconds, steps]
        self.ended = False

    def batch(self, run: Running) -> None:
        now = self.label, time.process_time(), run.session.step
        if now[0] is not None and now[0] == self._last[0]:
            spent = self.spent.setdefault(now[0], [0.0, 0])
            spent[0] += now[1] - self._last[1]
            spent[1] += now[2] - self._last[2]
        self._last, self.step = now, now[2]

    def turn(self, run: Running, wait: bool = False) -> None:
        if self.ended:
            run.stop()


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came within {PATIENCE:.0f} s")
        time.sleep(0.05)


def difference(a: Image.Image, b: Image.Image) -> float:
    """Root mean square, of colours in 0..1."""
    return float(np.sqrt(np.mean((np.asarray(a, np.float64) - np.asarray(b)) ** 2)) / 255)


def see(server: hardsplat.Server, meter: Meter, out: Path, steps: list[int]) -> None:
    """Two browsers look on, the second from elsewhere, which is killed before the last picture.
    steps: between pictures."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        until(lambda: server.url)
        browsers = [Browser(Path(folder) / str(i), SIZES[i]) for i in range(2)]
        for browser in browsers:
            browser.open(server.url or "")
            browser.wait("document.body?.innerText.includes('Pause')", PATIENCE)
            browser.run(
                "document.querySelectorAll('.mantine-Notification-closeButton').forEach(x "
                "=> x.click())"
            )
        browsers[1].drag((100, 300), (320, 330))
        until(lambda: server.frames >= 8)
        pictures: list[list[Image.Image]] = []
        for i, step in enumerate([meter.step, *np.cumsum(steps) + meter.step]):
            until(lambda step=step: meter.step >= step)
            if i == len(steps):
                browsers.pop()._process.kill()
            pictures.append([browser.screenshot() for browser in browsers])
            moved = (
                ", ".join(f"{difference(a, b):.3f}" for a, b in zip(pictures[-2], pictures[-1]))
                if i
                else ""
            )
            print(
                f"step {meter.step}: {len(browsers)} browsers, {server.frames} frames, "
                f"root mean square change {moved}",
                flush=True,
            )
        whole = Image.new("RGB", (SIZES[0][0] + SIZES[1][0], 2 * SIZES[0][1]))
        for y, row in enumerate([pictures[0], pictures[-2]]):
            for x, picture in enumerate(row):
                whole.paste(picture, (x * SIZES[0][0], y * SIZES[0][1]))
        whole.save(out, quality=85)
        browsers[0].close()


def cost(
    server: hardsplat.Server, meter: Meter, windows: int, seconds: float, size: tuple[int, int]
) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Browser(Path(folder), size) as browser,
    ):
        until(lambda: server.url and meter.step > 20)
        more: list[float] = []
        for i in range(windows):
            for watched in (False, True):
                browser.open((server.url or "") if watched else "about:blank")
                until(lambda watched=watched: server.shown == watched)
                time.sleep(4)
                meter.label = i, watched
                time.sleep(seconds)
                meter.label = None
            alone, looked_on = (
                1000 * spent / steps
                for spent, steps in (meter.spent[i, watched] for watched in (False, True))
            )
            more.append(100 * (looked_on / alone - 1))
            print(
                f"| {i + 1} | {alone:.1f} ms | {looked_on:.1f} ms | {more[-1]:+.1f} % |", flush=True
            )
    print(
        f"mean {statistics.mean(more):+.1f} %, standard error "
        f"{statistics.stdev(more) / windows**0.5:.1f}; frames drawn: {server.frames}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene")
    parser.add_argument("what", choices=("see", "cost"))
    parser.add_argument("--out", type=Path, default=Path("serve.jpg"))
    parser.add_argument(
        "--steps",
        type=int,
        nargs="+",
        default=[150, 300, 50],
        help="of the training, between pictures of `see`",
    )
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--size", type=int, nargs=2, default=(640, 480))
    a = parser.parse_args()
    server, meter, failed = hardsplat.Server(0), Meter(), []

    def drive() -> None:
        try:
            if a.what == "see":
                see(server, meter, a.out, a.steps)
            else:
                cost(server, meter, a.windows, a.seconds, tuple(a.size))
        except Exception as error:
            failed.append(error)
        finally:
            meter.ended = True

    driver = threading.Thread(target=drive, daemon=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver.start()
        result = hardsplat.train(
            a.scene,
            preset="quick",
            max_steps=100_000,
            strategy="none" if a.what == "cost" else "adaptive",
            rasterizer="tiled",
            result_dir=Path(folder) / "run",
            quiet=True,
            watchers=[server, meter],
        )
        driver.join()
        print(f"the training ended at step {meter.step} with {result.psnr:.2f} dB")
    if failed:
        raise failed[0]


if __name__ == "__main__":
    main()
