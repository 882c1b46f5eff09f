"""The part of the served page that edits splats: `hardsplat view --serve`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import MARKS, Editor
from hardsplat.serve.clients import uuid_of
from hardsplat.serve.messages import number, one_of
from hardsplat.serve.server import Frames

LOOK, MARK, BRUSH = "looks around", "marks a point", "brushes"
WIDEST = 400  # px of the brush's radius
LONGEST = 1e6  # of a length between two points
MARKED = (255, 80, 0)  # colour of marks
HELP = "Shift and drag selects a rectangle. Marks are A, B, C, the newest last."


class EditPanel:
    """Buttons, clicks and drags that change `editor`. The thread that has the GPU uploads its
    splats where its version differs."""

    def __init__(self, frames: Frames, editor: Editor):
        self._frames, self._editor, self._points = frames, editor, list[Any]()
        self.buttons: dict[str, Any] = {}
        self._lock = threading.Lock()
        gui, scene = frames.server.gui, frames.server.scene
        with gui.add_folder("Edit", expand_by_default=False):
            self._text = gui.add_markdown(HELP)
            with gui.add_folder("Select"):
                self._click = gui.add_dropdown("a click", (LOOK, MARK, BRUSH), initial_value=LOOK)
                self._radius = gui.add_slider("brush, px", 2, WIDEST, 1, 20)
                self._button("Select box", "with A and B in opposite corners", self._box)
                self._button("Select sphere", "around A, through B", self._sphere)
            with gui.add_folder("Splats"):
                self._button("Keep", "only what is selected", self._keep)
                self._button("Delete", "what is selected", self._delete, color="red")
                self._button("Undo", "the last action, or what is selected", self._undo)
            with gui.add_folder("Floor and scale"):
                self._button("Floor", "through A, B and C", self._floor)
                self._length = gui.add_number("A to B", 1.0, min=0.0, max=LONGEST, step=0.001)
                self._button("Scale", "so that A and B are apart as said above", self._scale)
            with gui.add_folder("Path and files"):
                self._button("Keyframe", "of a camera path, from here", self._key)
                self._button("Save", "splats, their steps and the path, to new files", self._save)
        elements = frames.door.elements
        elements[uuid_of(self._click)] = one_of(LOOK, MARK, BRUSH)
        elements[uuid_of(self._radius)] = number(2, WIDEST)
        elements[uuid_of(self._length)] = number(0, LONGEST)
        scene.on_click()(lambda event: self._answer(self._clicked, event))
        scene.on_rect_select(modifier="shift")(lambda event: self._answer(self._framed, event))

    def _button(self, label: str, hint: str, does: Callable[[Any], str], **look: Any) -> None:
        button = self.buttons[label] = self._frames.server.gui.add_button(label, hint=hint, **look)
        button.on_click(lambda event: self._answer(does, event))
        self._frames.door.elements[uuid_of(button)] = one_of(True)

    def _answer(self, does: Callable[[Any], str], event: Any) -> None:
        """Does it, and says in the page what came of it."""
        with self._lock:  # viser has several threads
            try:
                self._text.content = does(event) or HELP
            except UserError as error:
                self._text.content = str(error)
            self._show_marks()

    def _show_marks(self) -> None:
        for point in self._points:
            point.remove()
        scene, size = self._frames.server.scene, self._editor.reach / 100
        how = dict(radius=size, color=MARKED, subdivisions=1)
        self._points = [
            scene.add_icosphere(f"/marks/{name}", position=tuple(mark), **how)
            for name, mark in zip(MARKS, self._editor.marks)
        ]

    def _camera(self, event: Any):
        camera = self._frames.camera_of(event.client_id)
        if camera is None:
            raise UserError("this page has no camera yet")
        return camera

    # -- clicks and drags; places come as shares of the picture

    def _clicked(self, event: Any) -> str:
        camera, (x, y) = self._camera(event), event.screen_pos
        at = x * camera.width, y * camera.height
        if self._click.value == MARK:
            self._editor.mark(camera, *at)
            return self._editor.newest
        if self._click.value == BRUSH:
            radius = self._radius.value * camera.width / max(event.client.camera.image_width, 1)
            return f"{self._editor.paint(camera, [(*at, radius)])} splats are selected"
        return ""

    def _framed(self, event: Any) -> str:
        camera = self._camera(event)
        size = np.array([camera.width, camera.height])
        sides = np.concatenate([event.screen_min * size, event.screen_max * size])
        return f"{self._editor.frame(camera, *sides.tolist())} splats are selected"

    # -- buttons

    def _box(self, event: Any) -> str:
        return f"{self._editor.box()} splats are selected"

    def _sphere(self, event: Any) -> str:
        return f"{self._editor.sphere()} splats are selected"

    def _delete(self, event: Any) -> str:
        return f"{self._editor.delete()} splats are left"

    def _keep(self, event: Any) -> str:
        return f"{self._editor.keep()} splats are left"

    def _undo(self, event: Any) -> str:
        return self._follow() if self._editor.undo() else ""

    def _floor(self, event: Any) -> str:
        self._editor.floor()
        return self._follow()

    def _scale(self, event: Any) -> str:
        self._editor.measure(float(self._length.value))
        return self._follow()

    def _follow(self) -> str:
        """Moves all cameras as the splats were moved."""
        for client in self._frames.clients:
            if (camera := client.camera()) is not None:
                client.jump(self._editor.moved.camera(camera))
        return f"{self._editor.count} splats"

    def _key(self, event: Any) -> str:
        return f"keyframe {self._editor.key(self._camera(event))}"

    def _save(self, event: Any) -> str:
        return "saved " + ", ".join(path.name for path in self._editor.save())
