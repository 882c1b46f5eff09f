"""A browser that is connected: its camera, what it wants to see, and what it was sent."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from scipy.spatial.transform import Rotation

from hardsplat.model.camera import Camera
from hardsplat.render.paths import intrinsics
from hardsplat.tables.pictures import ANYWHERE

TOUCH = 0.5  # s that a move of the camera lasts
LONGEST = 1920  # px of a picture's longer side


class Client:
    """handle: viser's. elements: of the door, to which this browser's are added. Its camera may
    change at any time, in another thread; `camera` makes one of what is known now."""

    def __init__(self, handle: Any, sh_degree: int, elements: dict[str, Any]):
        self.handle, self.sending, self.sent_at = handle, False, -np.inf
        self.moved_at = time.perf_counter()
        self.sent: tuple | None = None  # what the last picture was of
        # until the first picture is there
        self._waiting = handle.add_notification(
            "drawing ...", "The first picture comes.", loading=True, with_close_button=False
        )
        with handle.gui.add_folder("View"):
            gui, most = handle.gui, max(sh_degree, 1)
            self._picture = gui.add_dropdown("picture", ANYWHERE, initial_value="image")
            disabled = sh_degree == 0
            self._degree = gui.add_slider("SH degree", 0, most, 1, sh_degree, disabled=disabled)
        self.elements = {uuid_of(self._picture): Literal[ANYWHERE]}
        self.elements[uuid_of(self._degree)] = Annotated[int, Meta(ge=0, le=most)]
        elements |= self.elements
        handle.camera.on_update(self._moved)

    def _moved(self, _: Any) -> None:
        self.moved_at = time.perf_counter()

    @property
    def moving(self) -> bool:
        return time.perf_counter() - self.moved_at < TOUCH

    @property
    def picture(self) -> str:
        return self._picture.value

    def degree(self, highest: int) -> int:
        return max(0, min(self._degree.value, highest))

    def camera(self, scale: int = 1) -> Camera | None:
        """What it looks at, in pixels that are `scale` of its own wide; None while its window has
        no size."""
        seen = self.handle.camera
        try:
            width, height, fov = int(seen.image_width), int(seen.image_height), float(seen.fov)
            wxyz = np.asarray(seen.wxyz, np.float64)
            position = np.asarray(seen.position, np.float64)
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None  # nothing has arrived yet
        finite = np.isfinite(wxyz).all() and np.isfinite(position).all() and wxyz.any()
        if min(width, height) < 1 or not 0.01 < fov < 3.1 or not finite:
            return None
        shrink = max(max(width, height) / LONGEST, 1.0) * scale
        width, height = max(1, round(width / shrink)), max(1, round(height / shrink))
        w2c = np.eye(4)
        w2c[:3, :3] = rotation(wxyz).T
        w2c[:3, 3] = -w2c[:3, :3] @ position
        return Camera(w2c, intrinsics(fov, width, height), width, height)

    def jump(self, camera: Camera) -> None:
        """Has the browser look through a camera, as far as it can: in its middle, without roll."""
        # viser raises ValueError where rounding leaves no distance to what the browser looks at
        with suppress(ValueError), self.handle.atomic():
            self.handle.camera.wxyz = wxyz_of(camera.w2c[:3, :3].T)
            self.handle.camera.position = camera.position
            self.handle.camera.fov = camera.fov

    def send(self, image: np.ndarray, quality: int) -> None:
        """image: (H, W, 3) uint8. Compresses it and hands it to viser."""
        self.handle.scene.set_background_image(image, format="jpeg", jpeg_quality=quality)
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        self.handle.flush()


def uuid_of(element: Any) -> str:
    """viser's name for a GUI element in messages, for which it has nothing public."""
    return element._impl.uuid


def rotation(wxyz: np.ndarray) -> np.ndarray:
    """(3, 3) of a quaternion of any length."""
    return Rotation.from_quat(np.roll(wxyz / np.linalg.norm(wxyz), -1)).as_matrix()


def wxyz_of(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a (3, 3) rotation."""
    return np.roll(Rotation.from_matrix(R).as_quat(), 1)
