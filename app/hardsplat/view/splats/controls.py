"""The camera that mouse and keys move: orbit, look around, pan, fly, jump to a photograph's. Pure
numpy.

Frame: OpenCV, as app/hardsplat/model/camera.py; the rows of the rotation are right, down and
forward in world coordinates.
"""

from __future__ import annotations

import numpy as np

from hardsplat.model.camera import Camera
from hardsplat.model.framing import unit

STEEPEST = np.radians(89.0)  # elevation; at the pole there is no right and left


def fitted(camera: Camera, width: int, height: int) -> Camera:
    """The camera whose image has the whole of this one's, undistorted and centred, in a frame of
    width x height px; more is seen at two sides."""
    scale = min(width / camera.width, height / camera.height)
    K = np.diag([scale, scale, 1.0]) @ camera.K
    K[:2, 2] += (np.array([width, height]) - scale * np.array([camera.width, camera.height])) / 2
    return Camera(camera.w2c, K, width, height)


def placed(camera: Camera, width: int, height: int) -> tuple[int, int, int, int]:
    """(x, y, width, height) in whole px of this camera's image within that of `fitted`."""
    scale = min(width / camera.width, height / camera.height)
    w, h = max(1, round(scale * camera.width)), max(1, round(scale * camera.height))
    return max(0, (width - w) // 2), max(0, (height - h) // 2), w, h


class Controls:
    """start: the first view, whose lens stays until another is jumped to. up: (3,), where horizons
    are level. centre: (3,) the middle of the scene. What is orbited lies straight ahead, as far
    away as that.

    Angles in radians, lengths in world units. Dragging to the right turns the view to the right, or
    the scene around its middle.
    """

    def __init__(self, start: Camera, up, centre):
        self.up, self.centre = unit(np.asarray(up, np.float64)), np.asarray(centre, np.float64)
        self.jump(start)
        self.speed = self.distance / 2  # world units a second

    def jump(self, camera: Camera) -> None:
        """Exactly to where that camera is, tilted as it was held."""
        self.lens, self.rotation, self.position = camera, camera.w2c[:3, :3].copy(), camera.position
        ahead = float(self.forward @ (self.centre - self.position))
        away = float(np.linalg.norm(self.centre - self.position))
        self.distance = max(ahead, 0.1 * away, 1e-3)  # of the pivot

    @property
    def forward(self) -> np.ndarray:
        return self.rotation[2]

    @property
    def pivot(self) -> np.ndarray:
        return self.position + self.distance * self.forward

    def aim(self, forward) -> None:
        """Looks along `forward` with a level horizon."""
        forward = unit(np.asarray(forward, np.float64))
        right = np.cross(forward, self.up)
        right = unit(right) if np.linalg.norm(right) > 1e-6 else self.rotation[0]
        self.rotation = np.stack([right, np.cross(forward, right), forward])

    def look(self, right: float, down: float) -> None:
        """Turns on the spot."""
        elevation = np.arcsin(np.clip(self.forward @ self.up, -1, 1))
        level = self.forward - np.sin(elevation) * self.up
        if np.linalg.norm(level) < 1e-6:
            # straight up or down: the upper edge of the image tells where ahead is
            level = -self.rotation[1] * np.sign(-elevation)
            level = level - (level @ self.up) * self.up
        level, elevation = unit(level), np.clip(elevation - down, -STEEPEST, STEEPEST)
        level = np.cos(right) * level + np.sin(right) * np.cross(level, self.up)
        self.aim(np.cos(elevation) * level + np.sin(elevation) * self.up)

    def orbit(self, right: float, down: float) -> None:
        """Turns around the pivot."""
        pivot = self.pivot
        self.look(right, down)
        self.position = pivot - self.distance * self.forward

    def face(self, forward) -> None:
        """Looks along `forward` at the pivot, with a level horizon."""
        pivot = self.pivot
        self.aim(forward)
        self.position = pivot - self.distance * self.forward

    def pan(self, right: float, down: float, height: int) -> None:
        """Moves sideways so that the pivot follows the mouse by as many px of an image of that
        height."""
        scale = self.distance / self.camera(height, height).K[1, 1]
        self.position = self.position - scale * (right * self.rotation[0] + down * self.rotation[1])

    def fly(self, right: float, down: float, ahead: float, seconds: float) -> None:
        """Moves along the axes of the camera at `speed`."""
        way = np.array([right, down, ahead]) @ self.rotation
        self.position = self.position + self.speed * seconds * way

    def dolly(self, share: float) -> None:
        """Toward the pivot, which stays: `share` of the distance to it is left."""
        pivot = self.pivot
        self.distance = max(self.distance * share, 1e-4 * self.speed)
        self.position = pivot - self.distance * self.forward

    @property
    def fov(self) -> float:
        """Vertical angle of the lens, degrees."""
        return float(np.degrees(2 * np.arctan(self.lens.height / 2 / self.lens.K[1, 1])))

    def widen(self, fov: float) -> None:
        """Gives the lens another vertical angle, degrees."""
        focal = self.lens.height / 2 / np.tan(np.radians(fov) / 2)
        K = self.lens.K.copy()
        K[:2, :2] *= focal / K[1, 1]
        self.lens = Camera(self.lens.w2c, K, self.lens.width, self.lens.height)

    def level(self) -> None:
        self.aim(self.forward)

    def camera(self, width: int, height: int) -> Camera:
        """What is seen, as an image of width x height px."""
        w2c = np.eye(4)
        w2c[:3, :3], w2c[:3, 3] = self.rotation, -self.rotation @ self.position
        return fitted(Camera(w2c, self.lens.K, self.lens.width, self.lens.height), width, height)
