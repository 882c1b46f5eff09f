"""What edits splats in the window of `hardsplat view`: tools of the mouse, keys, buttons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import Editor
from hardsplat.model.camera import Camera
from hardsplat.view.splats.inputs import LEFT, Inputs

SMALLEST, LARGEST = 2.0, 400.0  # px of the brush's radius
TOOLS = ("look", "mark", "brush", "rectangle")  # what left drags and clicks do


@dataclass(eq=False)
class EditInputs(Inputs):
    """Inputs that edit, too. editor: whose splats are shown; the caller uploads them where its
    version differs.

    tool: a row of TOOLS. radius: of the brush, px. corner: where a rectangle begins, px; None
    without one. name: of the file that is saved.
    """

    editor: Editor | None = None

    def __post_init__(self):
        super().__post_init__()
        self.tool, self.radius, self.name = "look", 20.0, "edited.ply"
        self.corner: tuple[float, float] | None = None

    @property
    def _camera(self) -> Camera:
        return self.controls.camera(*self.window)

    def _do(self, act: Callable[[Editor], str]) -> None:
        """Says what it returns, or why it makes no sense now."""
        assert self.editor is not None
        try:
            self.say(act(self.editor))
        except UserError as error:
            self.say(str(error))
        self.touch()

    # -- the mouse over the splats

    def on_press(self, button: int) -> None:
        if button != LEFT:
            return
        if self.tool == "mark":
            self.mark()
        elif self.tool == "brush":
            self._paint()
        elif self.tool == "rectangle":
            self.corner = self.cursor
            self.touch()

    def on_drag(self, button: int, dx: float, dy: float, shift: bool, height: int) -> None:
        if button != LEFT or shift or self.tool in ("look", "mark"):
            return super().on_drag(button, dx, dy, shift, height)
        if self.tool == "brush":
            self._paint()
        self.touch()

    def on_release(self, button: int) -> None:
        if button == LEFT and self.corner is not None:
            (x0, y0), (x1, y1), self.corner = self.corner, self.cursor, None
            if abs(x1 - x0) > 2 and abs(y1 - y0) > 2:
                self._do(lambda e: f"{e.frame(self._camera, x0, y0, x1, y1):,} splats selected")

    def _paint(self) -> None:
        dab = (*self.cursor, self.radius)
        self._do(lambda e: f"{e.paint(self._camera, [dab]):,} splats selected")

    # -- what keys and buttons do

    def use(self, tool: str) -> None:
        """Takes a tool, or lays it down."""
        self.tool = "look" if tool == self.tool else tool
        self.touch()

    def widen(self, times: float) -> None:
        self.radius = min(max(self.radius * times, SMALLEST), LARGEST)
        self.say(f"brush of {self.radius:.0f} px")

    def dismiss(self) -> None:
        super().dismiss()
        self.tool = "look"

    def mark(self) -> None:
        """Marks the point under the mouse."""

        def act(editor: Editor) -> str:
            editor.mark(self._camera, *self.cursor)
            return editor.newest

        self._do(act)

    def box(self) -> None:
        self._do(lambda e: f"{e.box():,} splats selected")

    def sphere(self) -> None:
        self._do(lambda e: f"{e.sphere():,} splats selected")

    def delete(self) -> None:
        self._do(lambda e: f"{e.delete():,} splats are left")

    def keep(self) -> None:
        self._do(lambda e: f"{e.keep():,} splats are left")

    def undo(self) -> None:
        def act(editor: Editor) -> str:
            if editor.undo():
                self._follow(editor)
            return "undone"

        self._do(act)

    def floor(self) -> None:
        def act(editor: Editor) -> str:
            editor.floor()
            return self._follow(editor)

        self._do(act)

    def measure(self, length: float) -> None:
        """Scales so that A and B are that far apart."""

        def act(editor: Editor) -> str:
            editor.measure(length)
            return self._follow(editor)

        self._do(act)

    def _follow(self, editor: Editor) -> str:
        """Moves the camera as the splats were moved."""
        self.controls.jump(editor.moved.camera(self._camera))
        return "moved"

    def keyframe(self) -> None:
        self._do(lambda e: f"keyframe {e.key(self._camera)}")

    def save(self) -> None:
        self._do(lambda e: "saved " + ", ".join(map(str, e.save(self.name))))
