"""What edits splats in the window of `hardsplat view`: tools of the mouse, keys, buttons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import Editor
from hardsplat.edit.steps import Similarity
from hardsplat.model.camera import Camera
from hardsplat.view.splats.inputs import LEFT, Inputs

SMALLEST, LARGEST = 2.0, 400.0  # px of the brush's radius
# px at 96 dpi: length of an arrow, of the shortest that can be taken, and how near that takes it
ARROW, SHORTEST, GRIP = 64.0, 12.0, 8.0
TOOLS = ("look", "mark", "brush", "rectangle")  # what left drags and clicks do


@dataclass(frozen=True)
class Arrow:
    """At a mark, by its index, along axis 0, 1 or 2 of the world, from `foot` to `tip`, px."""

    mark: int
    axis: int
    foot: tuple[float, float]
    tip: tuple[float, float]


@dataclass(eq=False)
class EditInputs(Inputs):
    """Inputs that edit, too. editor: whose splats are shown; the caller uploads them where its
    version differs.

    tool: a row of TOOLS. radius: of the brush, px. corner: where a rectangle begins, px; None
    without one. name: of the file that is saved. scale: of the screen where marks have arrows, 0
    where they have none. held: the arrow that is dragged.
    """

    editor: Editor = field(kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        self.tool, self.radius, self.name = "look", 20.0, "edited.ply"
        self.corner: tuple[float, float] | None = None
        self.scale, self.held = 0.0, None  # type: float, Arrow | None
        self._shape: Callable[[Editor], str] | None = None  # that was selected between marks

    @property
    def _camera(self) -> Camera:
        return self.controls.camera(*self.window)

    def _do(self, act: Callable[[Editor], str]) -> None:
        """Says what it returns, or why it makes no sense now. Cameras move as splats do."""
        moves = self.editor.moves
        try:
            self.say(act(self.editor))
        except UserError as error:
            self.say(str(error))
        if self.editor.moves != moves:
            self._go_along(self.editor.moved)
        self.touch()

    def _go_along(self, moved: Similarity) -> None:
        camera, c = self._camera, self.controls
        self.points = [replace(p, camera=moved.camera(p.camera)) for p in self.points]
        self._home = moved.camera(self._home)
        c.up, c.centre = moved.rotation @ c.up, moved.points(c.centre[None])[0]
        c.jump(moved.camera(camera))

    # -- the mouse over the splats

    def on_press(self, button: int) -> None:
        if button != LEFT:
            return
        self.held = self.under(self.cursor)
        if self.held is not None:
            self.touch()
        elif self.tool == "mark":
            self.mark()
        elif self.tool == "brush":
            self._paint()
        elif self.tool == "rectangle":
            self.corner = self.cursor
            self.touch()

    def on_drag(self, button: int, dx: float, dy: float, shift: bool, height: int) -> None:
        if button == LEFT and self.held is not None:
            return self._pull(self.held, dx, dy)
        if button != LEFT or shift or self.tool in ("look", "mark"):
            return super().on_drag(button, dx, dy, shift, height)
        if self.tool == "brush":
            self._paint()
        self.touch()

    def on_release(self, button: int) -> None:
        if button == LEFT and self.held is not None:
            self.held, selects = None, self._shape
            if selects and self.editor.selecting:
                self._do(selects)
            return
        if button == LEFT and self.corner is not None:
            (x0, y0), (x1, y1), self.corner = self.corner, self.cursor, None
            if abs(x1 - x0) > 2 and abs(y1 - y0) > 2:
                self._do(lambda e: e.frame(self._camera, x0, y0, x1, y1))

    def _paint(self) -> None:
        self._do(lambda e: e.paint(self._camera, *self.cursor, self.radius))

    # -- arrows at marks

    def arrows(self) -> list[Arrow]:
        """Those of marks in front of the camera, but for axes that it looks along."""
        if not self.scale:
            return []
        camera, found = self._camera, []
        for mark, place in enumerate(self.editor.marks):
            axes = np.concatenate([np.zeros((1, 3)), np.eye(3)])
            places, depths = camera.projected(place + axes * self._length(camera, place))
            if (depths <= 0).any():
                continue
            foot, *tips = places.tolist()
            for axis, tip in enumerate(tips):
                if np.hypot(tip[0] - foot[0], tip[1] - foot[1]) > SHORTEST * self.scale:
                    found.append(Arrow(mark, axis, tuple(foot), tuple(tip)))
        return found

    def _length(self, camera: Camera, place: np.ndarray) -> float:
        """World units of ARROW px at a place."""
        _, (depth,) = camera.projected(place[None])
        return max(float(depth), 1e-6) * ARROW * self.scale / float(camera.K[0, 0])

    def under(self, cursor: tuple[float, float], arrows: list[Arrow] | None = None) -> Arrow | None:
        """The arrow that a place in px is on; its foot, the mark, belongs to none. arrows: the
        present ones, where the caller has them."""
        near, found = GRIP * self.scale, None
        for arrow in self.arrows() if arrows is None else arrows:
            foot, way = np.array(arrow.foot), np.subtract(arrow.tip, arrow.foot)
            share = np.clip((cursor - foot) @ way / (way @ way), 0.25, 1.2)
            away = float(np.linalg.norm(cursor - foot - share * way))
            if away < near:
                near, found = away, arrow
        return found

    def _pull(self, arrow: Arrow, dx: float, dy: float) -> None:
        """Moves a mark along its axis by what the mouse went along the arrow."""
        way = np.subtract(arrow.tip, arrow.foot)
        place = self.editor.marks[arrow.mark]
        by = float(np.array([dx, dy]) @ way / (way @ way)) * self._length(self._camera, place)
        self.editor.marks[arrow.mark] = place + by * np.eye(3)[arrow.axis]
        self.say(self.editor.newest)
        self.touch()

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
        self._do(lambda e: e.mark(self._camera, *self.cursor))

    def act(self, name: str) -> None:
        """Does what the editor has by this name: box, sphere, delete, keep, undo or floor."""
        act = getattr(Editor, name)
        if name in ("box", "sphere"):
            self._shape = act
        self._do(act)

    def measure(self, length: float) -> None:
        """Scales so that A and B are that far apart."""
        self._do(lambda e: e.measure(length))

    def keyframe(self) -> None:
        self._do(lambda e: e.key(self._camera))

    def save(self) -> None:
        self._do(lambda e: "saved " + ", ".join(map(str, e.save(self.name))))
