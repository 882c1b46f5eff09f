"""A browser that looks on: its camera, what it wants to see, and what it was sent."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.tables.pictures import PICTURES

TOUCH = 0.5  # s that a move of the camera lasts
LONGEST = 1920  # px of a picture's longer side


class Client:
    """handle: viser's. Its camera may change at any time, in another thread; `camera` makes one of
    what is known now."""

    def __init__(self, handle: Any, sh_degree: int):
        self.handle, self.sending, self.sent_at, self.moved_at = (
            handle,
            False,
            -np.inf,
            time.perf_counter(),
        )
        self.sent: tuple | None = None  # what the last picture was of
        with handle.gui.add_folder("View"):
            self._picture = handle.gui.add_dropdown(
                "picture", tuple(PICTURES), initial_value="image"
            )
            self._degree = handle.gui.add_slider(
                "SH degree",
                min=0,
                max=max(sh_degree, 1),
                step=1,
                initial_value=sh_degree,
                disabled=sh_degree == 0,
            )
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
        return min(self._degree.value, highest)

    def camera(self, scale: int = 1) -> Camera | None:
        """What it looks at, in pixels that are `scale` of its own wide; None while its window has
        no size."""
        seen = self.handle.camera
        try:
            width, height, fov = int(seen.image_width), int(seen.image_height), float(seen.fov)
            wxyz, position = (
                np.asarray(seen.wxyz, np.float64),
                np.asarray(seen.position, np.float64),
            )
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None  # nothing has arrived yet
        if (
            min(width, height) < 1
            or not 0.01 < fov < 3.1
            or not (np.isfinite(wxyz).all() and np.isfinite(position).all())
            or not wxyz.any()
        ):
            return None
        shrink = max(max(width, height) / LONGEST, 1.0) * scale
        width, height = max(1, round(width / shrink)), max(1, round(height / shrink))
        w2c = np.eye(4)
        w2c[:3, :3] = rotation(wxyz).T
        w2c[:3, 3] = -w2c[:3, :3] @ position
        focal = 0.5 * height / np.tan(fov / 2)
        return Camera(
            w2c, np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]), width, height
        )

    def jump(self, camera: Camera) -> None:
        """Has the browser look through a camera, as far as it can: in its middle, without roll."""
        with self.handle.atomic():
            self.handle.camera.wxyz = wxyz_of(camera.w2c[:3, :3].T)
            self.handle.camera.position = camera.position
            self.handle.camera.fov = fov_of(camera)

    def send(self, image: np.ndarray, quality: int) -> None:
        """image: (H, W, 3) uint8. Compresses it and hands it to viser."""
        self.handle.scene.set_background_image(image, format="jpeg", jpeg_quality=quality)
        self.handle.flush()


def rotation(wxyz: np.ndarray) -> np.ndarray:
    """(3, 3) of a quaternion of any length."""
    w, x, y, z = wxyz / np.linalg.norm(wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def wxyz_of(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a (3, 3) rotation, by its largest component."""
    m = np.array([np.trace(R), R[0, 0], R[1, 1], R[2, 2]])
    i = int(m.argmax())
    if i == 0:
        q = np.array([1 + m[0], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    else:
        a, b, c = i - 1, i % 3, (i + 1) % 3
        q = np.zeros(4)
        q[0] = R[c, b] - R[b, c]
        q[1 + a] = 1 + R[a, a] - R[b, b] - R[c, c]
        q[1 + b], q[1 + c] = R[b, a] + R[a, b], R[c, a] + R[a, c]
    return q / np.linalg.norm(q)


def fov_of(camera: Camera) -> float:
    """Vertical, radians."""
    return float(2 * np.arctan(0.5 * camera.height / camera.K[1, 1]))
