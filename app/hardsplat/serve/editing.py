"""`hardsplat view --serve`: the result of a training, splats from a file, or a scene before its
training, in browsers, which can edit splats."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.stop import StopRequest
from hardsplat.edit.editor import MARKS, Editor
from hardsplat.gpu.probe import open_device
from hardsplat.raster.core.parameters import Parameters
from hardsplat.serve.door import address_of
from hardsplat.serve.server import Frames
from hardsplat.view.found import find, starts_of

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
                clicks = (LOOK, MARK, BRUSH)
                self._click = gui.add_dropdown("a click", clicks, initial_value=LOOK)
                self._radius = gui.add_slider("brush, px", 2, WIDEST, 1, 20)
                self._button("Select box", "with A and B in opposite corners", Editor.box)
                self._button("Select sphere", "around A, through B", Editor.sphere)
            with gui.add_folder("Splats"):
                self._button("Keep", "only what is selected", Editor.keep)
                self._button("Delete", "what is selected", Editor.delete, color="red")
                self._button("Undo", "the last action, or what is selected", Editor.undo)
            with gui.add_folder("Floor and scale"):
                self._button("Floor", "through A, B and C", Editor.floor)
                length = gui.add_number("A to B", 1.0, min=0.0, max=LONGEST, step=0.001)
                scale = lambda editor: editor.measure(float(length.value))  # noqa: E731
                self._button("Scale", "so that A and B are apart as said above", scale)
            with gui.add_folder("Path and files"):
                key = self._button("Keyframe", "of a camera path, from here")
                key.on_click(self._answering(lambda e: editor.key(self._camera(e))))
                saved = lambda e: "saved " + ", ".join(path.name for path in e.save())  # noqa: E731
                self._button("Save", "splats, their steps and the path, to new files", saved)

        scene.on_click()(self._answering(self._clicked))
        scene.on_rect_select(modifier="shift")(self._answering(self._framed))

    def _button(
        self, label: str, hint: str, does: Callable[[Editor], str] | None = None, **look: Any
    ) -> Any:
        button = self.buttons[label] = self._frames.server.gui.add_button(label, hint=hint, **look)
        if does:
            button.on_click(self._answering(lambda event: does(self._editor)))
        return button

    def _answering(self, does: Callable[[Any], str]) -> Callable[[Any], None]:
        """Does it at an event, and says in the page what came of it. All cameras move as splats
        do."""

        def answer(event: Any) -> None:
            with self._lock:  # viser has several threads
                moves = self._editor.moves
                try:
                    self._text.content = does(event) or HELP
                except UserError as error:
                    self._text.content = str(error)
                if self._editor.moves != moves:
                    self._frames.go_along(self._editor.moved)
                self._show_marks()

        return answer

    def _show_marks(self) -> None:
        for point in self._points:
            point.remove()
        scene, size = self._frames.server.scene, self._editor.reach / 100
        self._points = [
            scene.add_icosphere(
                f"/marks/{name}", position=tuple(mark), radius=size, color=MARKED, subdivisions=1
            )
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
        x, y = x * camera.width, y * camera.height
        if self._click.value == MARK:
            return self._editor.mark(camera, x, y)
        if self._click.value == BRUSH:
            radius = self._radius.value * camera.width / max(event.client.camera.image_width, 1)
            return self._editor.paint(camera, x, y, radius)
        return ""

    def _framed(self, event: Any) -> str:
        camera = self._camera(event)
        size = np.array([camera.width, camera.height])
        sides = np.concatenate([event.screen_min * size, event.screen_max * size])
        return self._editor.frame(camera, *sides.tolist())


def serve(
    target: str | Path, address: str = "", data_dir: str | Path | None = None, **asked
) -> None:
    """Shows it until Ctrl-C; see view.found.find. Raises UserError for bad input, and where
    the address cannot be had."""
    place = address_of(address)
    shown = find(target, data_dir, **asked)
    degree, editor, version = shown.gaussians.sh_degree, shown.editor, 0
    starts = starts_of(shown.scene, shown.gaussians)
    with StopRequest(b"") as stopping, ExitStack() as stack:
        gpu = open_device(shown.config.run.device)
        stack.callback(gpu.close)
        parameters = Parameters(gpu, len(shown.gaussians), degree)
        stack.callback(parameters.destroy)
        parameters.upload(shown.gaussians)
        title = f"{shown.title} - hardsplat"
        frames = Frames(gpu, place, title, shown.look, starts, busy=False)
        stack.callback(frames.close)
        text = frames.server.gui.add_markdown(f"{len(shown.gaussians):,} splats")
        EditPanel(frames, editor)
        print(f"view: {frames.door.url} (Ctrl-C ends)", flush=True)
        while not (frames.closed or stopping.asked):
            if editor.version != version:
                version = editor.version
                gpu.wait_idle()
                parameters.upload(editor.shown)
                text.content = f"{editor.count:,} splats"
            frames.turn(parameters, degree, version, wait=True)
