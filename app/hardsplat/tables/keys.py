"""What mouse and keys do, in the window and in the page of `hardsplat export`: one table for both.

A key is named by its place on the keyboard as browsers do (KeyboardEvent.code).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Keys:
    """keys: what people read. codes: the action of each key, and its arguments. page: browsers
    have it too. part: of the window that has it, "" for all of it. touch: it takes no keys, so that
    phones have it."""

    keys: str
    note: str
    codes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    page: bool = False
    part: str = ""
    touch: bool = False


# held down: right, down, ahead
FLIGHT = {
    "KeyW": (0, 0, 1),
    "KeyS": (0, 0, -1),
    "KeyA": (-1, 0, 0),
    "KeyD": (1, 0, 0),
    "KeyE": (0, -1, 0),
    "KeyQ": (0, 1, 0),
}
SHOWN = ("image", "depth", "median", "alpha", "count", "outlines", "points", "error")

# fmt: off
TABLE = (
    Keys("drag", "turn around the scene", page=True, touch=True),
    Keys("wheel, pinch", "go closer or away", page=True, touch=True),
    Keys("shift drag, two fingers", "move sideways", page=True, touch=True),
    Keys("right drag", "look around", page=True),
    Keys("W A S D, E Q", "fly, up and down; with shift faster", page=True),
    Keys("arrows, Home", "next, previous, first camera", page=True,
         codes={"ArrowRight": ("hop", 1), "ArrowLeft": ("hop", -1), "Home": ("home",)}),
    Keys("up, down", "ten cameras back, ten on",
         codes={"ArrowUp": ("hop", -10), "ArrowDown": ("hop", 10)}),
    Keys("U", "level the horizon", page=True, codes={"KeyU": ("level",)}),
    Keys("F, P, I, H", "full screen, save a picture, numbers, this help", page=True,
         codes={"KeyF": ("toggle", "full"), "KeyP": ("capture",), "KeyI": ("toggle", "numbers"),
                "KeyH": ("toggle", "help"), "Escape": ("dismiss",)}),
    Keys("Tab", "the panels, on and off", codes={"Tab": ("switch",)}),
    Keys("O", "photograph: beside, half over, over, none", codes={"KeyO": ("next_photo",)}),
    Keys(f"1 - {len(SHOWN)}", ", ".join(SHOWN),
         codes={f"Digit{i + 1}": ("show", name) for i, name in enumerate(SHOWN)}),
    Keys("G", "one degree of colour lower, after 0 all", codes={"KeyG": ("next_degree",)}),
    Keys("Ctrl O", "open a file or a folder", part="opening", codes={"Control+KeyO": ("browse",)}),
    Keys("Ctrl Q", "close the window; a training continues", codes={"Control+KeyQ": ("close",)}),
    Keys("space, N", "pause or resume the training, one step", part="training",
         codes={"Space": ("pause",), "KeyN": ("step",)}),
    Keys("M", "mark the point under the mouse, as A, B, C", part="edit", codes={"KeyM": ("mark",)}),
    Keys("B, V", "select the box from A to B, the sphere around A through B", part="edit",
         codes={"KeyB": ("act", "box"), "KeyV": ("act", "sphere")}),
    Keys("T, R", "brush and rectangle, on and off: drag selects", part="edit",
         codes={"KeyT": ("use", "brush"), "KeyR": ("use", "rectangle")}),
    Keys("[ ]", "a smaller brush, a larger one", part="edit",
         codes={"BracketLeft": ("widen", 1 / 1.2), "BracketRight": ("widen", 1.2)}),
    Keys("X, K, Z", "delete what is selected, keep only that, undo", part="edit",
         codes={"KeyX": ("act", "delete"), "Delete": ("act", "delete"), "KeyK": ("act", "keep"),
                "KeyZ": ("act", "undo"), "Control+KeyZ": ("act", "undo")}),
    Keys("L", "make A, B, C the floor", part="edit", codes={"KeyL": ("act", "floor")}),
    Keys("J", "keyframe of a camera path", part="edit", codes={"KeyJ": ("keyframe",)}),
    Keys("Enter", "save: edited splats, their steps, the camera path", part="edit",
         codes={"Enter": ("save",), "Control+KeyS": ("save",)}),
)
# fmt: on


def rows(*parts: str, page: bool = False) -> list[Keys]:
    """Rows of the page, or of the window with these parts."""
    if page:
        return [row for row in TABLE if row.page]
    return [row for row in TABLE if not row.part or row.part in parts]


def actions(*parts: str, page: bool = False) -> dict[str, tuple[Any, ...]]:
    """Action and arguments by key, of the same rows."""
    return {code: what for row in rows(*parts, page=page) for code, what in row.codes.items()}
