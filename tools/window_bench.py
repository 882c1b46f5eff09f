"""Times how soon the window of `hardsplat view` answers the mouse while it draws splats.

    python -m tools.window_bench results/courtyard [--moves N] [--still]

On a display without a screen (Xvfb), in a window of 1280x800, pictures of the splats follow each
other without a break. The mouse moves onto a button of a panel and away from it in turn. An answer
lasts from before the move to the pixels of the display that show it. HARDSPLAT_DEVICE chooses the
device, --still leaves the first picture as it is.

Prints a line: milliseconds of answers, what a picture and a frame of the interface take, and the
load of the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.view.gui import widgets
from hardsplat.view.viewer import OPENED, Viewer
from tests.helpers.xvfb import Display

BUTTON = "depth"
ASIDE = 40  # px from its middle: to the left the mouse, to the right what is watched
PAUSE = 0.2, 0.3  # s between moves
SOON = 50.0  # ms within which answers ought to come
LONGEST = 5.0  # s for one


def answers(display: Display, viewer: Viewer, moves: int) -> np.ndarray:
    """Milliseconds of each answer. Raises UserError where none comes."""
    rng, out = np.random.default_rng(0), np.zeros(moves)
    x, y = (round(place) for place in widgets.PLACES[BUTTON])
    places = (x - ASIDE, y), (x - ASIDE, OPENED[1] - 40)
    mouse = subprocess.Popen(
        ["xdotool", "-"], stdin=subprocess.PIPE, text=True, bufsize=1,
        env=os.environ | {"DISPLAY": display.name},
    )  # fmt: skip
    assert mouse.stdin
    with mouse, mouse.stdin as told:
        looks = []
        for place in places:
            told.write("mousemove {} {}\n".format(*place))
            time.sleep(1)
            looks.append(display.pixel(x + ASIDE, y))
        if looks[0] == looks[1]:
            raise UserError(f"the button {BUTTON} looks the same under the mouse")
        for number in range(moves):
            time.sleep(rng.uniform(*PAUSE))
            begun = time.perf_counter()
            told.write("mousemove {} {}\n".format(*places[number % 2]))
            while display.pixel(x + ASIDE, y) != looks[number % 2]:
                if time.perf_counter() - begun > LONGEST:
                    raise UserError(f"no answer within {LONGEST:.0f} s")
                time.sleep(0.001)
            out[number] = 1e3 * (time.perf_counter() - begun)
    return out


def measured(result: Path, moves: int, still: bool) -> str:
    """The line of one window on the result."""
    import glfw

    from hardsplat.view import show

    turn, said = Viewer.turn, []
    threads: list[threading.Thread] = []

    def watch(viewer: Viewer) -> None:
        try:
            before, begun = (viewer.pictures, viewer.frames), time.perf_counter()
            ms = answers(display, viewer, moves)
            seconds = time.perf_counter() - begun
            pictures, frames = viewer.pictures - before[0], viewer.frames - before[1]
            low, high = np.quantile(ms, (0.5, 0.95))
            said.append(
                f"{moves} answers: median {low:.0f} ms, 95 % {high:.0f} ms, longest "
                f"{ms.max():.0f} ms, {np.mean(ms <= SOON):.0%} within {SOON:.0f} ms; "
                f"{pictures / seconds:.1f} pictures and {frames / seconds:.0f} frames a second; "
                f"load {os.getloadavg()[0]:.1f}"
            )
        except UserError as error:
            said.append(str(error))
        finally:
            viewer.inputs.close()

    def watched(viewer: Viewer, *arguments, **named) -> None:
        if not threads:
            glfw.set_window_pos(viewer.window.handle, 0, 0)
            glfw.set_window_size(viewer.window.handle, *OPENED)
        viewer.inputs.changed |= viewer.idle and not still
        turn(viewer, *arguments, **named)
        if not threads and viewer.pictures > 2 * (not still) and BUTTON in widgets.PLACES:
            threads.append(threading.Thread(target=watch, args=[viewer]))
            threads[0].start()

    with TemporaryDirectory() as files:
        display = Display(Path(files), *OPENED)
        os.environ["DISPLAY"] = display.name
        Viewer.turn = watched  # type: ignore[method-assign]
        try:
            show.view(result)
        finally:
            Viewer.turn = turn  # type: ignore[method-assign]
            display.stop()
    return said[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="result folder of hardsplat train")
    parser.add_argument("--moves", type=int, default=100, help="of the mouse (%(default)s)")
    parser.add_argument("--still", action="store_true", help="draws splats once")
    flags = parser.parse_args()
    print(measured(flags.result, flags.moves, flags.still))


if __name__ == "__main__":
    main()
