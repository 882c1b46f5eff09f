"""Keys and mouse that edit splats in the window of `hardsplat view`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import glfw

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import Editor
from hardsplat.model.camera import Camera
from hardsplat.view.inputs import HELP, KEYS, Inputs

SMALLEST, LARGEST = 2.0, 400.0  # px of the brush's radius
EDIT_HELP = (
    ("M", "mark the point under the mouse, as A, B, C"),
    ("B, V", "select the box from A to B, the sphere around A through B"),
    ("T", "brush on, off: left drag selects, scroll sets its radius"),
    ("X, K", "delete what is selected, keep only that"),
    ("Z", "undo"),
    ("F, L", "make A, B, C the floor; scale so that A to B is 1"),
    ("J", "keyframe of a camera path"),
    ("Enter", "save: edited splats, their steps, the camera path"),
)
EDIT_KEYS: dict[int, tuple[Any, ...]] = {
    glfw.KEY_M: ("mark",),
    glfw.KEY_B: ("box",),
    glfw.KEY_V: ("sphere",),
    glfw.KEY_T: ("toggle", "brush"),
    glfw.KEY_X: ("delete",),
    glfw.KEY_K: ("keep",),
    glfw.KEY_Z: ("undo",),
    glfw.KEY_F: ("floor",),
    glfw.KEY_L: ("measure", 1.0),
    glfw.KEY_J: ("keyframe",),
    glfw.KEY_ENTER: ("save",),
}


@dataclass(eq=False)
class EditInputs(Inputs):
    """Inputs that edit, too. editor: whose splats are shown; the caller uploads them where its
    version differs."""

    editor: Editor | None = None
    keys: ClassVar[Mapping[int, tuple[Any, ...]]] = {**KEYS, **EDIT_KEYS}
    help_rows: ClassVar[Sequence[tuple[str, str]]] = (*HELP[:-2], *EDIT_HELP, *HELP[-2:])

    def __post_init__(self):
        super().__post_init__()
        self.brush, self.radius = False, 20.0

    def on_key(self, key: int) -> None:
        if key not in EDIT_KEYS or key == glfw.KEY_T:
            super().on_key(key)
            if key == glfw.KEY_T:
                self.say(f"brush of {self.radius:.0f} px" if self.brush else "no brush")
            return
        name, *arguments = EDIT_KEYS[key]
        try:
            self.say(str(getattr(self, f"_{name}")(self.editor, *arguments)))
        except UserError as error:
            self.say(str(error))
        self._touch()

    def on_drag(self, button: int, dx: float, dy: float, shift: bool, height: int) -> None:
        if not (self.brush and button == glfw.MOUSE_BUTTON_LEFT and not shift):
            return super().on_drag(button, dx, dy, shift, height)
        assert self.editor is not None
        self.say(
            f"{self.editor.paint(self._camera, [(*self.cursor, self.radius)])} splats selected"
        )
        self._touch()

    def on_scroll(self, notches: float) -> None:
        if not self.brush:
            return super().on_scroll(notches)
        self.radius = min(max(self.radius * 1.2**notches, SMALLEST), LARGEST)
        self.say(f"brush of {self.radius:.0f} px")
        self._touch()

    @property
    def _camera(self) -> Camera:
        return self.controls.camera(*self.window)

    # -- what keys do, and say

    def _mark(self, editor: Editor) -> str:
        editor.mark(self._camera, *self.cursor)
        return editor.newest

    def _box(self, editor: Editor) -> str:
        return f"{editor.box()} splats selected"

    def _sphere(self, editor: Editor) -> str:
        return f"{editor.sphere()} splats selected"

    def _delete(self, editor: Editor) -> str:
        return f"{editor.delete()} splats are left"

    def _keep(self, editor: Editor) -> str:
        return f"{editor.keep()} splats are left"

    def _undo(self, editor: Editor) -> str:
        if editor.undo():
            self._follow(editor)
        return "undone"

    def _floor(self, editor: Editor) -> str:
        editor.floor()
        return self._follow(editor)

    def _measure(self, editor: Editor, length: float) -> str:
        editor.measure(length)
        return self._follow(editor)

    def _follow(self, editor: Editor) -> str:
        """Moves the camera as the splats were moved."""
        self.controls.jump(editor.moved.camera(self._camera))
        return "moved"

    def _keyframe(self, editor: Editor) -> str:
        return f"keyframe {editor.key(self._camera)}"

    def _save(self, editor: Editor) -> str:
        return "saved " + ", ".join(map(str, editor.save()))
