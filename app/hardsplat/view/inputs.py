"""What keys and mouse do: the camera, and what is shown of the splats. No window and no GPU is
needed for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import glfw
import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.tables.pictures import ANYWHERE
from hardsplat.view.controls import Controls

TURN = 0.004  # radians a px of the mouse
LONGEST = 0.2  # s of flight between two looks at the keys, however long a frame took
PHOTOS = ("none", "beside", "half over", "over")


@dataclass(frozen=True)
class Viewpoint:
    """A camera to jump to. photo: loads what it saw, as View.load() does; None where there is
    nothing."""

    name: str
    camera: Camera
    photo: Callable[[], np.ndarray] | None = None


HELP = (
    ("left drag", "orbit"),
    ("right drag", "look around"),
    ("middle or shift drag", "pan"),
    ("W S A D, E Q", "fly ahead, back, left, right, up, down"),
    ("shift; scroll", "fly four times as fast; flying speed"),
    ("arrow left, right", "previous, next camera"),
    ("arrow down, up", "ten cameras back, ten on"),
    ("Home", "the first view"),
    ("P", "photograph: beside, half over, over, none"),
    (f"1 - {len(ANYWHERE)}", ", ".join(ANYWHERE)),
    ("G", "one SH degree lower, after 0 all"),
    ("U", "level the horizon"),
    ("space", "pause the training, resume it"),
    ("C", "screenshot"),
    ("O", "text on, off"),
    ("F1", "these keys"),
    ("Esc", "close the window; a training continues"),
)
KEYS: dict[int, tuple[Any, ...]] = {
    glfw.KEY_LEFT: ("hop", -1),
    glfw.KEY_RIGHT: ("hop", 1),
    glfw.KEY_DOWN: ("hop", -10),
    glfw.KEY_UP: ("hop", 10),
    glfw.KEY_HOME: ("home",),
    glfw.KEY_P: ("next_photo",),
    glfw.KEY_G: ("next_degree",),
    glfw.KEY_U: ("level",),
    glfw.KEY_SPACE: ("pause",),
    glfw.KEY_C: ("capture",),
    glfw.KEY_O: ("toggle", "text"),
    glfw.KEY_F1: ("toggle", "help"),
    glfw.KEY_ESCAPE: ("close",),
    **{glfw.KEY_1 + i: ("show", name) for i, name in enumerate(ANYWHERE)},
}
FLIGHT = {  # key -> right, down, ahead
    glfw.KEY_W: (0, 0, 1),
    glfw.KEY_S: (0, 0, -1),
    glfw.KEY_A: (-1, 0, 0),
    glfw.KEY_D: (1, 0, 0),
    glfw.KEY_E: (0, -1, 0),
    glfw.KEY_Q: (0, 1, 0),
}


@dataclass(eq=False)
class Inputs:
    """controls: the camera. points: what can be jumped to; first: the one that `controls` start
    from, if there are any.

    point: the one whose camera is the present one, None once that moved. picture: a row of
    ANYWHERE. degree: highest SH band wanted, None for all.

    changed: something to be seen did, since the viewer cleared it. moved_at, touched_at: of
    time.perf_counter().
    """

    controls: Controls
    points: Sequence[Viewpoint] = ()
    first: int = 0
    can_pause: bool = False
    sh_degree: int = 3
    keys: ClassVar[Mapping[int, tuple[Any, ...]]] = KEYS
    help_rows: ClassVar[Sequence[tuple[str, str]]] = HELP

    def __post_init__(self):
        self._home = self.controls.camera(self.controls.lens.width, self.controls.lens.height)
        self._last = self.first
        self.point = self.first if self.points else None
        self.picture, self.photo = "image", "none"
        self.degree: int | None = None
        self.paused = self.help = self.capturing = self.closing = False
        self.text = self.changed = True
        self.note, self._noted_at = "", -np.inf
        self.touched_at = self.moved_at = -np.inf
        self._flown_at = time.perf_counter()
        # where the mouse is, px of a window of that size
        self.cursor, self.window = (0.0, 0.0), (1, 1)

    # -- from the window

    def on_cursor(self, x: float, y: float, size: tuple[int, int]) -> None:
        self.cursor, self.window = (x, y), (max(1, size[0]), max(1, size[1]))

    def on_key(self, key: int) -> None:
        if key in self.keys:
            name, *arguments = self.keys[key]
            getattr(self, name)(*arguments)
            self._touch()

    def on_drag(self, button: int, dx: float, dy: float, shift: bool, height: int) -> None:
        """The mouse moved by (dx, dy) px of a window that high, with the button down."""
        if button == glfw.MOUSE_BUTTON_MIDDLE or shift:
            self.controls.pan(dx, dy, height)
        else:
            turn = self.controls.orbit if button == glfw.MOUSE_BUTTON_LEFT else self.controls.look
            turn(dx * TURN, dy * TURN)
        self._move()

    def on_scroll(self, notches: float) -> None:
        self.controls.faster(notches)
        self.say(f"flying {self.controls.speed:.3g} units a second")
        self._touch()

    def fly(self, held: Callable[[int], bool], fast: bool) -> None:
        """Moves by the keys that are held down, for as long as it is since the last call."""
        now = time.perf_counter()
        seconds, self._flown_at = min(now - self._flown_at, LONGEST), now
        if keys := [axes for key, axes in FLIGHT.items() if held(key)]:
            right, down, ahead = np.sum(keys, axis=0)
            self.controls.fly(right, down, ahead, seconds * (4 if fast else 1))
            self._move()

    def _touch(self) -> None:
        self.touched_at, self.changed = time.perf_counter(), True

    def _move(self) -> None:
        self.point = None
        self._touch()
        self.moved_at = self.touched_at

    def say(self, note: str) -> None:
        self.note, self._noted_at, self.changed = note, time.perf_counter(), True

    def noted(self) -> str:
        """What was said in the last few seconds."""
        if self.note and time.perf_counter() - self._noted_at > 4:
            self.note, self.changed = "", True
        return self.note

    # -- what keys do

    def hop(self, by: int) -> None:
        """Jumps to the camera `by` places after the last one that was jumped to."""
        if self.points:
            self.point = self._last = (self._last + by) % len(self.points)
            self.controls.jump(self.points[self.point].camera)

    def home(self) -> None:
        self.controls.jump(self._home)
        self._last = self.first
        self.point = self.first if self.points else None

    def next_photo(self) -> None:
        self.photo = PHOTOS[(PHOTOS.index(self.photo) + 1) % len(PHOTOS)]
        if self.point is None or self.points[self.point].photo is None:
            self.say("photographs are shown at the cameras that took them: arrow keys")

    def next_degree(self) -> None:
        degree = self.sh_degree if self.degree is None else self.degree
        self.degree = degree - 1 if degree else None

    def level(self) -> None:
        self.controls.level()
        self.point = None

    def show(self, picture: str) -> None:
        self.picture = picture

    def pause(self) -> None:
        self.paused = not self.paused and self.can_pause

    def capture(self) -> None:
        self.capturing = True

    def toggle(self, name: str) -> None:
        setattr(self, name, not getattr(self, name))

    def close(self) -> None:
        self.closing = True
