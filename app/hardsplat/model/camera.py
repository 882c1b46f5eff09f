"""A camera, a pinhole or one that distorts. Frame: OpenCV, +x right, +y down, +z forward; units of
the scene; pixel centres at +0.5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index

import numpy as np

# how far beyond its farthest corner a distorting lens is followed, from the middle of the image
MARGIN = 1.3
# degrees from the axis at which it ends in any case: nothing is drawn that is not in front of the
# camera
STEEPEST = 89.0


@dataclass(frozen=True)
class Distortion:
    """Where a lens puts a ray, as OpenCV and COLMAP model it.

    fisheye: the equidistant model, with coefficients k1 k2 k3 k4, instead of the perspective one,
    with k1 k2 p1 p2 k3 k4 k5 k6. Raises ValueError for anything else.
    """

    fisheye: bool
    coefficients: tuple[float, ...]

    def __post_init__(self):
        kind, n = ("fisheye", 4) if self.fisheye else ("perspective", 8)
        if len(self.coefficients) != n or not np.isfinite(self.coefficients).all():
            raise ValueError(f"a {kind} lens has {n} finite coefficients, got {self.coefficients}")

    def __call__(self, ratio: np.ndarray) -> np.ndarray:
        """(N, 2) x / z and y / z of rays -> (N, 2) pixels from the principal point over the focal
        lengths."""
        u, s = np.asarray(ratio, np.float64), np.sum(np.square(ratio), axis=-1, keepdims=True)
        if self.fisheye:
            r = np.maximum(np.sqrt(s), 1e-12)
            angle = np.arctan(r)
            return u * (angle / r) * (1 + np.polyval([*self.coefficients[::-1], 0], angle**2))
        k1, k2, p1, p2, k3, k4, k5, k6 = self.coefficients
        radial = np.polyval([k3, k2, k1, 1], s) / np.polyval([k6, k5, k4, 1], s)
        q = np.array([p2, p1])
        return radial * u + s * q + 2 * (u @ q)[..., None] * u


@dataclass(frozen=True)
class Camera:
    """One view.

    w2c:    (4, 4) world to camera, rigid, world units.
    K:      (3, 3) intrinsics in pixels: [[fx, 0, cx], [0, fy, cy], [0, 0, 1]].
    width, height: image size in pixels.
    distortion: of its lens, None for a pinhole.
    Raises ValueError for anything else.
    """

    w2c: np.ndarray
    K: np.ndarray
    width: int
    height: int
    distortion: Distortion | None = None

    def __post_init__(self):
        object.__setattr__(self, "w2c", np.asarray(self.w2c, np.float64))
        object.__setattr__(self, "K", np.asarray(self.K, np.float64))
        if self.w2c.shape != (4, 4) or self.K.shape != (3, 3):
            got = f"{self.w2c.shape} and {self.K.shape}"
            raise ValueError(f"camera needs w2c (4, 4) and K (3, 3), got {got}")
        if not (np.isfinite(self.w2c).all() and np.isfinite(self.K).all()):
            raise ValueError("camera has a NaN or infinite number in its pose or intrinsics")
        if problem := _not_rigid(self.w2c):
            raise ValueError(f"camera needs a rigid w2c, {problem}")
        if not (self.K[0, 0] > 0 and self.K[1, 1] > 0):
            frame = "the frame is OpenCV: +y down, +z forward"
            got = f"{self.K[0, 0]:g} and {self.K[1, 1]:g} ({frame})"
            raise ValueError(f"camera needs positive focal lengths, got {got}")
        if self.K[0, 1] or self.K[1, 0] or self.K[2].tolist() != [0, 0, 1]:
            wanted = "K = [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], without skew"
            raise ValueError(f"camera needs {wanted}, got {self.K.tolist()}")
        for side in ("width", "height"):
            try:
                object.__setattr__(self, side, index(getattr(self, side)))
            except TypeError:
                value = getattr(self, side)
                raise ValueError(f"camera {side} {value!r} is not an integer") from None
        if self.width < 1 or self.height < 1:
            raise ValueError(f"camera image size must be positive, got {self.width}x{self.height}")

    @property
    def fov(self) -> float:
        """Vertical field of view, radians."""
        return float(2 * np.arctan(0.5 * self.height / self.K[1, 1]))

    @property
    def position(self) -> np.ndarray:
        """(3,) camera centre in world units."""
        return -self.w2c[:3, :3].T @ self.w2c[:3, 3]

    def resized(self, width: int, height: int) -> Camera:
        """Samples the view at another image size; focal lengths and centre scale with it."""
        scale = np.diag([width / self.width, height / self.height, 1.0])
        return Camera(self.w2c, scale @ self.K, width, height, self.distortion)

    @cached_property
    def reach(self) -> float:
        """Squared x / z and y / z up to which a distorting lens is followed: somewhat outside the
        image, and not so far that rays come back into it."""
        if not self.distortion:
            return float("inf")
        focal, centre = np.diag(self.K)[:2], self.K[:2, 2]
        w, h = self.width, self.height
        corners = (np.array([[0, 0], [w, 0], [0, h], [w, h]]) - centre) / focal
        farthest = MARGIN * np.linalg.norm(corners, axis=1).max()
        r = np.tan(np.radians(np.linspace(0, STEEPEST, 4096)))
        outward = self.distortion(np.stack([r, np.zeros_like(r)], axis=1))[:, 0]
        past = np.flatnonzero((np.diff(outward) <= 0) | (outward[1:] > farthest))
        return float(r[past[0] if len(past) else -1] ** 2)

    def projected(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a pinhole has (N, 3) points in world units: their pixels (N, 2), NaN for those that
        are not in front of it, and their depths (N,) in world units."""
        seen = points @ self.w2c[:3, :3].T + self.w2c[:3, 3]
        depths = seen[:, 2]
        return (seen @ self.K.T)[:, :2] / np.where(depths > 0, depths, np.nan)[:, None], depths

    def pixels(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which of (N, 3) points in world units its image holds, their pixels (2, M) as x and y,
        and their depths (M,) in world units."""
        seen = points @ self.w2c[:3, :3].T + self.w2c[:3, 3]
        which = np.flatnonzero(seen[:, 2] > 1e-6)
        ratio = seen[which, :2] / seen[which, 2:]
        near = np.sum(ratio**2, axis=1) < self.reach
        which, ratio = which[near], ratio[near]
        bent = self.distortion(ratio) if self.distortion else ratio
        at = np.floor(bent * [self.K[0, 0], self.K[1, 1]] + self.K[:2, 2])
        inside = ((at >= 0) & (at < [self.width, self.height])).all(axis=1)
        return which[inside], at[inside].astype(int).T, seen[which[inside], 2]


def intrinsics(fov: float, width: int, height: int) -> np.ndarray:
    """(3, 3) of square pixels seen straight on. fov: vertical, radians; width, height: px."""
    focal = 0.5 * height / np.tan(fov / 2)
    return np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])


def in_view(cameras: Sequence[Camera], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the image of each camera shows each of (N, 3) points in world units, as
    Camera.pixels finds it, and the depths there of those that it shows, (cameras, N) each."""
    if any(camera.distortion for camera in cameras):
        shape = len(cameras), len(points)
        inside, depths = np.zeros(shape, bool), np.zeros(shape)
        for i, camera in enumerate(cameras):
            which, _, depth = camera.pixels(points)
            inside[i, which], depths[i, which] = True, depth
        return inside, depths
    poses = np.stack([camera.w2c[:3] for camera in cameras])
    x, y, z = np.moveaxis(poses[:, :, :3] @ points.T + poses[:, :, 3:], 1, 0)
    rows = [(*np.diag(c.K)[:2], *c.K[:2, 2], c.width, c.height) for c in cameras]
    fx, fy, cx, cy, width, height = np.array(rows).T[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v = x / z * fx + cx, y / z * fy + cy
    return (z > 1e-6) & (u >= 0) & (u < width) & (v >= 0) & (v < height), z


def rotation_matrix(w, x, y, z) -> np.ndarray:
    """(3, 3) of a unit quaternion; (3, 3, N) of N of them, whose components are (N,) each."""
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.array(rows)


def quaternions(turns: np.ndarray) -> np.ndarray:
    """(N, 4) unit quaternions wxyz of rotations (N, 3, 3)."""
    n, at = len(turns), np.arange(3)
    # 4 q_i q_j; the row of the largest component loses nothing by rounding
    products = np.empty((n, 4, 4))
    products[:, 1:, 1:] = turns + turns.transpose(0, 2, 1)
    trace = np.trace(turns, axis1=1, axis2=2)
    products[:, 0, 0] = 1 + trace
    products[:, 1 + at, 1 + at] += 1 - trace[:, None]
    for k in at:
        i, j = (k + 1) % 3, (k + 2) % 3
        products[:, 0, 1 + k] = products[:, 1 + k, 0] = turns[:, j, i] - turns[:, i, j]
    largest = np.einsum("nii->ni", products).argmax(axis=1)
    rows = products[np.arange(n), largest]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _not_rigid(w2c: np.ndarray) -> str:
    """What keeps a (4, 4) matrix from being a rotation and a translation, within 1e-3; empty when
    nothing does."""
    if np.abs(w2c[3] - [0, 0, 0, 1]).max() > 1e-3:
        hint = "" if w2c[:3, 3].any() else "; it looks transposed"
        return f"its last row is {w2c[3].tolist()} instead of 0 0 0 1{hint}"
    R = w2c[:3, :3]
    if np.abs(R @ R.T - np.eye(3)).max() <= 1e-3:
        reflection = "its 3x3 is a reflection (determinant -1), not a rotation"
        return "" if np.linalg.det(R) > 0 else reflection
    sizes = np.linalg.svd(R, compute_uv=False)
    if sizes[0] - sizes[2] <= 1e-3 * sizes[0]:
        return f"its 3x3 is a rotation scaled by {sizes.mean():g}"
    return f"its 3x3 is no rotation: it stretches by {sizes[0]:g}, {sizes[1]:g} and {sizes[2]:g}"


_RINGS, _DIRECTIONS = 179, 120  # of the grid: half a degree apart, and three
_MARGIN = 2  # rings before one that folds, which lies between two
_BEYOND = 2.0  # times as far from the axis as the border of a picture: outside, with all chords


@dataclass(frozen=True)
class RayField:
    """limits: (D,) x / z and y / z of the farthest ray, by direction, from +x towards +y. rim:
    (D, 2) where these rays lie, px; outside the picture where it ends before they do.

    folded: rays that are farther out come back within the picture. steep: the picture goes on
    beyond the steepest rays that can be drawn.
    """

    limits: np.ndarray
    rim: np.ndarray
    folded: bool
    steep: bool

    @property
    def whole(self) -> bool:
        """Whether every pixel of the picture has a ray."""
        return not (self.folded or self.steep)

    def limit(self, rays: np.ndarray) -> np.ndarray:
        """(N,) length of the farthest ray in the direction of each of (N, 2)."""
        turns = np.arctan2(rays[:, 1], rays[:, 0]) / (2 * np.pi) * _DIRECTIONS
        return np.interp(turns, np.arange(_DIRECTIONS), self.limits, period=_DIRECTIONS)


def field_of(camera: Camera) -> RayField:
    """camera: one that distorts."""
    r = np.tan(np.radians(np.linspace(0, STEEPEST, _RINGS)))
    turn = np.linspace(0, 2 * np.pi, _DIRECTIONS, endpoint=False)
    rays = r[:, None, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    at = pixels_of(camera, rays)
    size = camera.width, camera.height
    with np.errstate(invalid="ignore"):
        outside = np.logical_not(((at >= 0) & (at <= size)).all(axis=-1))
        along, around = np.diff(at, axis=0), np.roll(at, -1, axis=1) - np.roll(at, 1, axis=1)
        bad = np.logical_not(_cross(along, around[1:]) > 0)  # where it is not finite, too
    leaves, folds = _first(outside), _first(bad) + 1
    ends, steep = leaves < folds, np.minimum(leaves, folds) >= _RINGS
    last = np.where(ends, leaves - 1, np.where(steep, _RINGS - 1, folds - _MARGIN)).clip(0)
    rim, centre = at[np.where(ends, leaves, last), np.arange(_DIRECTIONS)], camera.K[:2, 2]
    rim = np.where(ends[:, None], centre + _BEYOND * (rim - centre), rim)
    return RayField(r[last], rim, bool((~ends & ~steep).any()), bool(steep.any()))


def pixels_of(camera: Camera, rays: np.ndarray) -> np.ndarray:
    """(..., 2) px where a distorting camera puts rays (..., 2), x / z and y / z; not finite where
    its model is not."""
    assert camera.distortion
    with np.errstate(all="ignore"):
        bent = camera.distortion(rays.reshape(-1, 2)).reshape(rays.shape)
    return bent * np.diag(camera.K)[:2] + camera.K[:2, 2]


def is_regular(grid: np.ndarray) -> bool:
    """Whether a map that is sampled at a grid, (H, W, 2), does not fold: its Jacobian is positive
    everywhere."""
    with np.errstate(invalid="ignore"):
        return bool((_cross(np.diff(grid, axis=1)[:-1], np.diff(grid, axis=0)[:, :-1]) > 0).all())


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _first(wrong: np.ndarray) -> np.ndarray:
    """(D,) index of the first True of each column of (R, D), R without one."""
    return np.where(wrong.any(axis=0), wrong.argmax(axis=0), len(wrong))
