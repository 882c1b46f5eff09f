"""Pictures of the window for the guide, of a result with its scene, on a display without a screen
(Xvfb): one of each panel.

python -m tools.window_pictures results/courtyard docs/images
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.view.gui import widgets
from hardsplat.view.viewer import Viewer
from tests.helpers.xvfb import Display

SIZE = 1280, 800
LONGEST = 300.0  # s for one of them, on a slow device
FAREST = 2.0  # s after the last picture in which thumbnails come


@dataclass(frozen=True)
class Shot:
    """name: of the file. presses: buttons. change: what else there is to do."""

    name: str
    presses: tuple[str, ...] = ()
    change: Callable[[Viewer], None] = lambda viewer: None


def _cameras(viewer: Viewer) -> None:
    viewer.inputs.go(len(viewer.inputs.points) // 4)


def _edit(viewer: Viewer) -> None:
    i = viewer.inputs
    i.cursor = 0.553 * i.window[0], 0.31 * i.window[1]
    i.mark()  # type: ignore[attr-defined]
    i.cursor = 0.553 * i.window[0], 0.40 * i.window[1]
    i.mark()  # type: ignore[attr-defined]
    i.sphere()  # type: ignore[attr-defined]


SHOTS = (
    Shot("window.jpg"),
    Shot("window-cameras.jpg", ("Cameras", "beside"), _cameras),
    Shot("window-target.jpg", ("none", "Target", "unorm8", "show it in place of the picture")),
    Shot("window-edit.jpg", ("show it in place of the picture", "As trained", "Edit"), _edit),
)


def press(display: Display, name: str) -> None:
    x, y = widgets.PLACES[name]
    display.do("mousemove", round(x), round(y), "click", 1)


class Photographer:
    """Stands in for Viewer.turn: presses buttons, waits for what they show, keeps the display."""

    def __init__(self, display: Display, folder: Path):
        self.display, self.folder = display, folder
        self._left, self._presses = list(SHOTS), list(SHOTS[0].presses)
        self._begun = self._rested = time.monotonic()
        self._wanted = 1

    def after(self, viewer: Viewer) -> None:
        """What to do after a turn of it."""
        now = time.monotonic()
        if now - self._begun > LONGEST:
            raise UserError(f"{self._left[0].name}: took more than {LONGEST:.0f} s")
        i = viewer.inputs
        if viewer.pictures < self._wanted or not viewer.idle or i.changed or i.note:
            self._rested = now
            return
        if now - self._rested < FAREST:
            return
        self._rested = now
        if self._presses:
            press(self.display, self._presses.pop(0))
            if not self._presses:
                self._left[0].change(viewer)
            self._wanted = viewer.pictures
            return
        shot, self._left = self._left[0], self._left[1:]
        Image.fromarray(self.display.pixels()).save(self.folder / shot.name, quality=82)
        print(self.folder / shot.name)
        if self._left:
            self._presses, self._begun = list(self._left[0].presses), now
        else:
            i.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="result folder of hardsplat train")
    parser.add_argument("folder", type=Path, help="for the pictures")
    flags = parser.parse_args()
    with TemporaryDirectory() as folder:
        display = Display(Path(folder), *SIZE)
        os.environ["DISPLAY"] = display.name
        try:
            take(display, flags.result, flags.folder)
        finally:
            display.stop()


def take(display: Display, result: Path, folder: Path) -> None:
    import glfw

    from hardsplat.view import show

    turn, photographer = Viewer.turn, Photographer(display, folder)

    def watched(viewer: Viewer, *arguments, **named) -> None:
        glfw.set_window_size(viewer.window.handle, *SIZE)
        glfw.set_window_pos(viewer.window.handle, 0, 0)
        turn(viewer, *arguments, **named)
        if not viewer.closed:
            photographer.after(viewer)

    Viewer.turn = watched  # type: ignore[method-assign]
    try:
        show.view(result)
    finally:
        Viewer.turn = turn  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
