"""Pictures of the window, of a training in it, of the page, the report and the served view for the
guide, of a result with its scene, on a display without a screen (Xvfb) and in Chromium.

python -m tools.screenshots results/courtyard docs/images
"""

from __future__ import annotations

import argparse
import atexit
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.results.pictures import comparison
from hardsplat.settings.presets import SAVED_NAME, config_from_file
from hardsplat.view.gui import widgets
from hardsplat.view.viewer import Viewer
from tests.helpers.devtools import Browser
from tests.helpers.xvfb import Display

DESK, PHONE = (1280, 800), (390, 844)
LONGEST = 600.0  # s for one of them, on a slow device
FAREST = 2.0  # s after the last picture in which thumbnails come
MOST = 200_000  # bytes of a file
TILE, GAP = 480, 8  # px: height of what stands side by side, and what is between
# a mouse, which a browser without a screen has not
MOUSE = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4"
# what viser says of browsers without a GPU is closed
SERVED = """(document.querySelector('.mantine-Notification-closeButton')?.click(),
  window.drew ||= document.body.innerText.includes('drawing'),
  window.drew && !document.body.innerText.includes('drawing')
  && !document.querySelector('.mantine-Notification-closeButton'))"""
DRAWN = "document.querySelector('.hs')?.dataset.state === 'ready'"


@dataclass(frozen=True)
class Shot:
    """name: of the file. presses: buttons. change: what else there is to do. size: of the window.
    ready: whether the picture may be taken."""

    name: str
    presses: tuple[str, ...] = ()
    change: Callable[[Viewer], None] = lambda viewer: None
    size: tuple[int, int] = DESK
    ready: Callable[[Viewer], bool] = lambda viewer: viewer.idle


def _cameras(viewer: Viewer) -> None:
    viewer.inputs.go(len(viewer.inputs.points) // 4)


def _edit(viewer: Viewer) -> None:
    i = viewer.inputs
    i.cursor = 0.553 * i.window[0], 0.31 * i.window[1]
    i.mark()  # type: ignore[attr-defined]
    i.cursor = 0.553 * i.window[0], 0.40 * i.window[1]
    i.mark()  # type: ignore[attr-defined]
    i.act("sphere")  # type: ignore[attr-defined]


def _trained(viewer: Viewer) -> bool:
    """Whether there are curves; keeps the picture of the splats fresh, which is rare at rest."""
    viewer.inputs.touch()
    told = viewer.facts.training
    return told is not None and told.step > 0.6 * told.steps and len(told.held_out) > 0


SHOTS = (
    Shot("window.jpg"),
    Shot("window-phone.jpg", size=PHONE),
    Shot("window-phone-panels.jpg", ("Panels",), size=PHONE),
    Shot("window-cameras.jpg", ("Cameras", "beside"), _cameras),
    Shot("window-edit.jpg", ("none", "Edit"), _edit),
)
TRAINING = (Shot("train.jpg", ready=_trained),)


def save(picture: Image.Image, path: Path) -> None:
    """As JPEG of at most MOST bytes."""
    for quality in range(90, 30, -5):
        picture.save(path, quality=quality, optimize=True)
        if path.stat().st_size <= MOST:
            break
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def press(display: Display, name: str) -> None:
    x, y = widgets.PLACES[name]
    display.do("mousemove", round(x), round(y), "click", 1)


class Photographer:
    """Stands in for Viewer.turn: presses buttons, waits for what they show, keeps the display."""

    def __init__(self, display: Display, folder: Path, shots: tuple[Shot, ...]):
        self.display, self.folder = display, folder
        self._left, self._presses = list(shots), list(shots[0].presses)
        self._begun = self._rested = time.monotonic()
        self._wanted = 1

    @property
    def size(self) -> tuple[int, int]:
        return self._left[0].size if self._left else DESK

    def after(self, viewer: Viewer) -> None:
        """What to do after a turn of it."""
        now = time.monotonic()
        if not self._left:
            return
        shot = self._left[0]
        if now - self._begun > LONGEST:
            raise UserError(f"{shot.name}: took more than {LONGEST:.0f} s")
        i = viewer.inputs
        if viewer.pictures < self._wanted or not shot.ready(viewer) or i.note:
            self._rested = now
            return
        if now - self._rested < FAREST:
            return
        self._rested = now
        if self._presses:
            press(self.display, self._presses.pop(0))
            if not self._presses:
                shot.change(viewer)
            self._wanted = viewer.pictures
            return
        self._left = self._left[1:]
        seen = self.display.pixels()[: shot.size[1], : shot.size[0]]
        save(Image.fromarray(seen), self.folder / shot.name)
        if self._left:
            self._presses, self._begun = list(self._left[0].presses), now
        else:
            viewer.interface.ui.asked.add("stop")
            i.close()


@contextmanager
def photographed(folder: Path, shots: tuple[Shot, ...]) -> Iterator[None]:
    """Windows that the block opens are photographed."""
    import glfw

    turn, photographer = Viewer.turn, Photographer(screen(), folder, shots)

    def watched(viewer: Viewer, *arguments, **named) -> None:
        glfw.set_window_size(viewer.window.handle, *photographer.size)
        glfw.set_window_pos(viewer.window.handle, 0, 0)
        turn(viewer, *arguments, **named)
        if not viewer.closed:
            photographer.after(viewer)

    Viewer.turn = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        Viewer.turn = turn  # type: ignore[method-assign]


def fitting(result: Path, folder: Path) -> None:
    """A photograph of the result is fitted in a window."""
    import glfw

    from hardsplat.fit.config import FitConfig
    from hardsplat.fit.fitter import fit
    from hardsplat.view.fit_preview import FitPreview

    display, turn, config = screen(), FitPreview.turn, FitConfig(max_steps=400)
    left = ["fit.jpg"]

    def watched(preview: FitPreview, session, curve) -> None:
        if preview.viewer is not None:
            glfw.set_window_pos(preview.viewer.window.handle, 0, 0)
        turn(preview, session, curve)
        if left and session.step > 0.6 * config.max_steps:
            end = time.monotonic() + FAREST
            while time.monotonic() < end:
                turn(preview, session, curve)
            save(Image.fromarray(display.pixels()[: DESK[1]]), folder / left.pop())
            preview.viewer.asked.add("stop")

    photo = min((result / "renders").glob("*.photo.png"))
    FitPreview.turn = watched  # type: ignore[method-assign]
    try:
        with TemporaryDirectory() as files:
            fit(photo, replace(config, result_dir=Path(files) / "fit"), FitPreview(DESK))
    finally:
        FitPreview.turn = turn  # type: ignore[method-assign]


@cache
def screen() -> Display:
    """The display, which stays to the end of the process: GLFW keeps it."""
    files = TemporaryDirectory()
    display = Display(Path(files.name), *np.maximum(DESK, PHONE).tolist())
    os.environ["DISPLAY"] = display.name
    atexit.register(lambda: (display.stop(), files.cleanup()))
    return display


def window(result: Path, folder: Path) -> None:
    from hardsplat.view import show

    with photographed(folder, SHOTS):
        show.view(result)


def training(result: Path, folder: Path) -> None:
    """The run of the result begins again, in a window."""
    from hardsplat.train import run_training as train
    from hardsplat.view.preview import TrainingWindow

    with TemporaryDirectory() as files, photographed(folder, TRAINING):
        config = config_from_file(result / SAVED_NAME).changed(result_dir=Path(files), quiet=True)
        train(config, [TrainingWindow()])


def opened(url: str, ready: str, folder: Path, name: str, script: str = "") -> None:
    """Screenshots of a page on a desk and on a phone. ready: JavaScript. script: run before."""
    for size, end in ((DESK, ".jpg"), (PHONE, "-phone.jpg")):
        flags = ("--touch-events=enabled",) if size == PHONE else (MOUSE,)
        with TemporaryDirectory() as files, Browser(Path(files), size, flags) as browser:
            if size == PHONE:
                metrics = dict(width=size[0], height=size[1], deviceScaleFactor=1, mobile=True)
                browser.ask("Emulation.setDeviceMetricsOverride", **metrics)
                browser.ask("Emulation.setTouchEmulationEnabled", enabled=True)
            browser.open(url)
            browser.wait("document.readyState === 'complete'", LONGEST)
            if script:
                browser.run(script)
            browser.wait(ready, LONGEST)
            time.sleep(FAREST)
            save(browser.screenshot(), folder / f"{name}{end}")


def page(result: Path, folder: Path) -> None:
    from hardsplat.export.page import export

    with TemporaryDirectory() as files:
        written = export(result, Path(files) / "page.html")
        opened(written.path.as_uri(), DRAWN, folder, "page")
        keys = "document.querySelector('.hs-keys').click()"
        opened(written.path.as_uri(), DRAWN, folder, "page-help", keys)


def report(result: Path, folder: Path) -> None:
    opened((result / "report.html").absolute().as_uri(), DRAWN, folder, "report")


def served(result: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hardsplat", "view", str(result), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stdout or () if line.startswith("view: "))
            opened(line.split()[1], SERVED, folder, "serve")
        finally:
            process.terminate()


def together(result: Path, folder: Path) -> None:
    """For README: a held-out view, left half render, right half photograph; the window; the
    page. These two have been made."""
    name = min((result / "renders").glob("*.render.png")).name
    if (both := comparison(result, name.removesuffix(".render.png"))) is None:
        raise UserError(f"{result}: has no render beside its photograph")
    view, photo = both[0].copy(), both[1]
    middle = view.shape[1] // 2
    view[:, middle:] = photo[:, middle:]
    view[:, middle - 1 : middle + 1] = 255
    rows = [Image.fromarray(view), *(Image.open(folder / f"{n}.jpg") for n in ("window", "page"))]
    smooth = Image.Resampling.LANCZOS
    tiles = [i.resize((round(i.width * TILE / i.height), TILE), smooth) for i in rows]
    whole = Image.new("RGB", (sum(t.width for t in tiles) + 2 * GAP, TILE), "white")
    left = 0
    for tile in tiles:
        whole.paste(tile, (left, 0))
        left += tile.width + GAP
    save(whole, folder / "hardsplat.jpg")


KINDS = {f.__name__: f for f in (window, training, fitting, page, report, served, together)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="result folder of hardsplat train")
    parser.add_argument("folder", type=Path, help="for the pictures")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS), help="kinds")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    for kind in flags.only:
        KINDS[kind](flags.result, flags.folder)


if __name__ == "__main__":
    main()
