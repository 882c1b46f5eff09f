"""What the window shows of the splats, and what keys, mouse and panels do to that. No window and no
GPU is needed for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.tables.keys import FLIGHT, actions
from hardsplat.view.splats.controls import Controls

TURN = 0.004  # radians a px of the mouse
NOTCH = 0.12  # logarithm of the distance that a notch of the wheel goes
LONGEST = 0.2  # s of flight between two looks at the keys, however long a frame took
PHOTOS = ("none", "beside", "half over", "over")
LEFT, RIGHT, MIDDLE = 0, 1, 2  # buttons of the mouse
# pictures that are an image with something done to it
DRAWN_AS = {"points": "image", "error": "image"}


@dataclass(frozen=True)
class Viewpoint:
    """A camera to jump to. photo: loads what it saw, as View.load() does; None where there is
    nothing. held_out: no training sees it."""

    name: str
    camera: Camera
    photo: Callable[[], np.ndarray] | None = None
    held_out: bool = False


@dataclass(frozen=True)
class Tuning:
    """How splats are drawn where that differs from their own way. None: as they were trained.

    splat_scale: times their own size. degree: highest SH band, None for all.
    """

    background: tuple[float, float, float] | None = None
    near_plane: float | None = None
    splat_scale: float = 1.0
    degree: int | None = None
    format: str | None = None
    blending: str | None = None


@dataclass(eq=False)
class Inputs:
    """controls: the camera. points: what can be jumped to; first: the one that `controls` start
    from, if there are any. parts: of the table of keys that this window has.

    point: the one whose camera is the present one, None once that moved. picture: a row of SHOWN.
    share: of a photograph that lies over the render.

    panels: whether they are shown; None: where they have room beside the splats, which `room` says.

    changed: something to be seen did, since the viewer cleared it. moved_at, touched_at: of
    time.perf_counter().
    """

    controls: Controls
    points: Sequence[Viewpoint] = ()
    first: int = 0
    can_pause: bool = False
    sh_degree: int = 3
    parts: tuple[str, ...] = ()

    def __post_init__(self):
        self.keys = actions(*self.parts, *["training"] * self.can_pause)
        self._home = self.controls.camera(self.controls.lens.width, self.controls.lens.height)
        self._last = self.first
        self.point = self.first if self.points else None
        self.picture, self.photo, self.share = "image", "none", 1.0
        self.tuning = Tuning()
        self.paused = self.help = self.capturing = self.closing = self.full = False
        self.browsing = self.frustums = False
        self.steps = 0  # to be made although there is a pause
        self.panels: bool | None = None
        self.room = self.numbers = self.changed = True
        self.note, self._noted_at = "", -np.inf
        self.touched_at = self.moved_at = -np.inf
        self._flown_at = time.perf_counter()
        # where the mouse is, and what shows splats, px
        self.cursor, self.window = (0.0, 0.0), (1, 1)

    # -- from the window

    def on_key(self, code: str) -> None:
        """code: as hardsplat.tables.keys names it, with "Control+" before it where that is held."""
        if code in self.keys:
            name, *arguments = self.keys[code]
            getattr(self, name)(*arguments)
            self.touch()

    def on_press(self, button: int) -> None:
        """A button of the mouse went down over the splats."""

    def on_release(self, button: int) -> None:
        """It went up again, wherever the mouse is now."""

    def on_drag(self, button: int, dx: float, dy: float, shift: bool, height: int) -> None:
        """The mouse moved by (dx, dy) px of a picture that high, with the button down."""
        if button == MIDDLE or shift:
            self.controls.pan(dx, dy, height)
        else:
            turn = self.controls.orbit if button == LEFT else self.controls.look
            turn(dx * TURN, dy * TURN)
        self._move()

    def on_scroll(self, notches: float) -> None:
        self.controls.dolly(float(np.exp(-NOTCH * notches)))
        self._move()

    def fly(self, held: Callable[[str], bool], fast: bool) -> None:
        """Moves by the keys that are held down, for as long as it is since the last call."""
        now = time.perf_counter()
        seconds, self._flown_at = min(now - self._flown_at, LONGEST), now
        if keys := [axes for code, axes in FLIGHT.items() if held(code)]:
            right, down, ahead = np.sum(keys, axis=0)
            self.controls.fly(right, down, ahead, seconds * (4 if fast else 1))
            self._move()

    def touch(self) -> None:
        self.touched_at, self.changed = time.perf_counter(), True

    def _move(self) -> None:
        self.point = None
        self.touch()
        self.moved_at = self.touched_at

    def say(self, note: str) -> None:
        self.note, self._noted_at, self.changed = note, time.perf_counter(), True

    def noted(self) -> str:
        """What was said in the last few seconds."""
        if self.note and time.perf_counter() - self._noted_at > 4:
            self.note, self.changed = "", True
        return self.note

    # -- what keys and panels do

    def hop(self, by: int) -> None:
        """Jumps to the camera `by` places after the last one that was jumped to."""
        if self.points:
            self.go((self._last + by) % len(self.points))

    def go(self, point: int) -> None:
        self.point = self._last = point
        self.controls.jump(self.points[point].camera)
        self.touch()

    def home(self) -> None:
        self.controls.jump(self._home)
        self._last = self.first
        self.point = self.first if self.points else None

    def next_photo(self) -> None:
        self.photo = PHOTOS[(PHOTOS.index(self.photo) + 1) % len(PHOTOS)]
        self.share = 0.5 if self.photo == "half over" else 1.0
        if self.point is None or self.points[self.point].photo is None:
            self.say("photographs are shown at the cameras that took them: arrow keys")

    def next_degree(self) -> None:
        degree = self.sh_degree if self.tuning.degree is None else self.tuning.degree
        self.tune(degree=degree - 1 if degree else None)

    def tune(self, **changes) -> None:
        self.tuning = replace(self.tuning, **changes)
        self.touch()

    def face(self, forward: np.ndarray) -> None:
        """Looks along a direction (3,) at what is in the middle now."""
        self.controls.face(forward)
        self._move()

    def level(self) -> None:
        self.controls.level()
        self.point = None

    def show(self, picture: str) -> None:
        self.picture = picture
        self.touch()

    def pause(self) -> None:
        self.paused = not self.paused and self.can_pause

    def step(self) -> None:
        """One step of the training, and a pause after it."""
        if self.can_pause:
            self.paused, self.steps = True, 1

    def capture(self) -> None:
        self.capturing = True

    def browse(self) -> None:
        self.browsing = True

    def toggle(self, name: str) -> None:
        setattr(self, name, not getattr(self, name))

    @property
    def panelled(self) -> bool:
        return self.room if self.panels is None else self.panels

    def switch(self) -> None:
        """Shows the panels, or puts them away."""
        self.panels = not self.panelled

    def dismiss(self) -> None:
        """Puts away what lies over the splats."""
        self.help = self.browsing = self.full = False

    def close(self) -> None:
        self.closing = True
