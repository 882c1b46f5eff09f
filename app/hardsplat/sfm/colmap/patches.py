"""Points of a model found again in photographs that features missed, so that poses stand on more:
by the patch around each, as the poses found so far expect it.

Small photographs have few features, two or three photographs share each, and their places are
uncertain to a tenth of a pixel, which a scene of splats shows. A patch follows the photograph with
the largest picture of its point. It is fitted to others by an affine map that makes the two
correlate most, from the map of the two poses for a patch that faces its photograph.

Source: Evangelidis and Psarakis, "Parametric Image Alignment Using Enhanced Correlation Coefficient
Maximization", PAMI 2008.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pycolmap

from hardsplat.io.media.images import read_pixels

RADIUS, FINER = 6, 2  # px of a patch to each side of its middle; samples of it in a px
POINTS = 100  # of the model for each photograph, at most
VIEWS = 12  # photographs that a point is looked for in
_ANGLE = 35.0  # degrees between two rays to a point, beyond which its patches look too different
_SCALE = 2.0  # the same, of sizes
_ALIKE = 0.95  # correlation of two patches of one point
_PLAIN = 2.0  # standard deviation, of 255, below which a patch shows nothing
_ENDS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)
_CHUNK = 256  # candidates that a thread fits at once
_MIDDLE = RADIUS * FINER


@dataclass(frozen=True)
class _Candidates:
    """Where points may be seen, N of them. point: indices; image: (N,) ids; at: (N, 2) px,
    expected; affine: (N, 2, 2) from the reference's pixels."""

    point: np.ndarray
    image: np.ndarray
    at: np.ndarray
    affine: np.ndarray


def found_again(model: pycolmap.Reconstruction, images: Path, error: float, pool: Executor):
    """A model with the poses, cameras and points of `model`, and with new points of as many
    photographs as show the patch of one of its points.

    error: px by which a patch may lie off where the poses expect it.
    """
    posed = {image.image_id: image for image in model.images.values() if image.has_pose}
    greys = dict(zip(posed, pool.map(lambda image: _grey(images / image.name), posed.values())))
    longest = sorted(model.points3D.items(), key=lambda item: (-item[1].track.length(), item[0]))
    points = [point for _, point in longest[: POINTS * len(posed)]]
    places = np.array([p.xyz for p in points]).reshape(-1, 3)
    home, seen_at = _references(model, posed, points, places)
    candidates = _candidates(posed, model.cameras, places, home, greys)
    patches = list(pool.map(lambda i, at: _patch(greys[i], at), home, seen_at))

    def fit(rows: range) -> list[tuple[int, int, np.ndarray]]:
        c, out = candidates, []
        for row in rows:
            k, image = int(c.point[row]), int(c.image[row])
            if (patch := patches[k]) is None:
                continue
            at = _fitted(patch, greys[image], c.at[row], c.affine[row], error)
            if at is not None:
                out.append((k, image, at))
        return out

    rows = range(len(candidates.point))
    tracks: dict[int, list] = {}
    for found in pool.map(fit, (rows[n : n + _CHUNK] for n in rows[::_CHUNK])):
        for k, image, at in found:
            tracks.setdefault(k, [(home[k], seen_at[k])]).append((image, at))
    more = [(places[k], track) for k, track in sorted(tracks.items()) if len(track) > 2]
    return _with_tracks(model, posed, more)


def _grey(path: Path) -> np.ndarray:
    rgb = np.ascontiguousarray(read_pixels(path)[..., :3])
    return cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32)


def _references(model, posed, points, places) -> tuple[list[int], np.ndarray]:
    """The ids of the photographs with the largest picture of each point, and (N, 2) where those see
    it, px."""
    matrices = {i: image.cam_from_world().matrix() for i, image in posed.items()}
    focal = {i: model.cameras[image.camera_id].mean_focal_length() for i, image in posed.items()}
    home, seen_at = [], []
    for point, place in zip(points, places):
        elements = [e for e in point.track.elements if e.image_id in posed]
        depths = [matrices[e.image_id][2] @ np.append(place, 1) for e in elements]
        sizes = [focal[e.image_id] / max(depth, 1e-9) for e, depth in zip(elements, depths)]
        best = elements[int(np.argmax(sizes))]
        home.append(best.image_id)
        seen_at.append(posed[best.image_id].points2D[best.point2D_idx].xy)
    return home, np.array(seen_at).reshape(-1, 2)


def _candidates(posed, cameras, places: np.ndarray, home: list[int], greys) -> _Candidates:
    """Photographs that should see a point from near its reference's direction, VIEWS of them spread
    over all."""
    homes = np.array(home)
    # each point, and what lies a pixel to its sides in its reference, at its depth
    crosses = np.zeros((len(places), 5, 3))
    sides = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])
    towards = np.zeros((len(places), 3))
    for i, image in posed.items():
        mine, matrix, camera = homes == i, image.cam_from_world().matrix(), cameras[image.camera_id]
        local = places[mine] @ matrix[:, :3].T + matrix[:, 3]
        pixels = (camera.img_from_cam(local)[:, None] + sides).reshape(-1, 2)
        rays = np.column_stack([camera.cam_from_img(pixels), np.ones(len(pixels))])
        rays = rays.reshape(-1, 5, 3)
        crosses[mine] = (rays * local[:, None, 2:] - matrix[:, 3]) @ matrix[:, :3]
        towards[mine] = _towards(places[mine], matrix)
    rows = []
    for j, image in posed.items():
        matrix, camera = image.cam_from_world().matrix(), cameras[image.camera_id]
        local = crosses @ matrix[:, :3].T + matrix[:, 3]
        front = (local[..., 2] > 1e-6).all(axis=1) & (homes != j)
        index = np.flatnonzero(front)
        if not len(index):
            continue
        at = camera.img_from_cam(local[index].reshape(-1, 3)).reshape(-1, 5, 2)
        affine = np.stack([at[:, 1] - at[:, 2], at[:, 3] - at[:, 4]], axis=-1) / 2
        scale = np.sqrt(np.abs(np.linalg.det(affine)))
        cosine = (towards[index] * _towards(places[index], matrix)).sum(axis=1)
        margin, size = RADIUS + 2, np.array(greys[j].shape[::-1])
        inside = ((at[:, 0] > margin) & (at[:, 0] < size - margin)).all(axis=1)
        good = inside & (cosine > np.cos(np.radians(_ANGLE)))
        good &= (scale > 1 / _SCALE) & (scale < _SCALE)
        rows.append((index[good], np.full(good.sum(), j), cosine[good], at[good, 0], affine[good]))
    if not rows:
        none = np.zeros(0, int)
        return _Candidates(none, none, np.zeros((0, 2)), np.zeros((0, 2, 2)))
    point, image_of, cosine, at, affine = (np.concatenate(column) for column in zip(*rows))
    order = np.lexsort((image_of, -cosine, point))
    count = np.bincount(point, minlength=len(places))
    rank = np.arange(len(point)) - (np.cumsum(count) - count)[point[order]]
    of = np.maximum(count, VIEWS)[point[order]]
    kept = order[rank * VIEWS // of != (rank - 1) * VIEWS // of]
    return _Candidates(point[kept], image_of[kept], at[kept], affine[kept])


def _towards(places: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(N, 3) directions from a camera to places."""
    rays = places + matrix[:, :3].T @ matrix[:, 3]
    return rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-12)


def _patch(grey: np.ndarray, at: np.ndarray) -> np.ndarray | None:
    """What is around a position, px; None where that is plain or the photograph ends."""
    if (at < RADIUS + 1).any() or (at > np.array(grey.shape[::-1]) - RADIUS - 1).any():
        return None
    x, y = at - 0.5 - RADIUS
    to, size = np.array([[1 / FINER, 0, x], [0, 1 / FINER, y]], np.float32), 2 * _MIDDLE + 1
    how = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    patch = cv2.warpAffine(grey, to, (size, size), flags=how, borderMode=cv2.BORDER_REFLECT)
    return patch if patch.std() >= _PLAIN else None


def _fitted(
    patch: np.ndarray, grey: np.ndarray, expected: np.ndarray, affine: np.ndarray, error: float
) -> np.ndarray | None:
    """Where the middle of the patch is in a photograph, px; None where it is not found within
    `error` px of where it is expected."""
    reach = int(np.ceil(_SCALE * 1.5 * RADIUS + error)) + 2
    first = np.maximum(np.floor(expected).astype(int) - reach, 0)
    x, y = first
    window = np.ascontiguousarray(grey[y : y + 2 * reach, x : x + 2 * reach])
    warp = np.zeros((2, 3), np.float32)
    warp[:, :2] = affine / FINER
    warp[:, 2] = expected - 0.5 - first - warp[:, :2] @ (_MIDDLE, _MIDDLE)
    try:
        # None: there is no mask, which the stub does not know
        how = cv2.MOTION_AFFINE, _ENDS, None, 1
        alike, warp = cv2.findTransformECC(patch, window, warp, *how)  # type: ignore[call-overload]
    except cv2.error:  # it does not converge
        return None
    at = warp[:, :2] @ (_MIDDLE, _MIDDLE) + warp[:, 2] + 0.5 + first
    found = alike >= _ALIKE and np.linalg.norm(at - expected) <= error
    return at.astype(np.float64) if found else None


def _with_tracks(
    model: pycolmap.Reconstruction, posed, more: list[tuple[np.ndarray, list]]
) -> pycolmap.Reconstruction:
    """The posed photographs of the model, with its points and those of (place, [(image id,
    px)])."""

    def seen_in(element) -> tuple[int, np.ndarray]:
        return element.image_id, posed[element.image_id].points2D[element.point2D_idx].xy

    own = [(p.xyz, [seen_in(e) for e in p.track.elements]) for p in model.points3D.values()]
    places: dict[int, list[np.ndarray]] = {i: [] for i in posed}
    points = []
    for xyz, seen in own + more:
        track = pycolmap.Track()
        for image, at in seen:
            track.add_element(image, len(places[image]))
            places[image].append(at)
        points.append((xyz, track))
    out = pycolmap.Reconstruction()
    for camera in model.cameras.values():
        out.add_camera_with_trivial_rig(camera)
    for i, image in posed.items():
        xy = np.array(places[i]).reshape(-1, 2)
        copy = pycolmap.Image(image.name, xy, image.camera_id, i)
        out.add_image_with_trivial_frame(copy, image.cam_from_world())
    for xyz, track in points:
        out.add_point3D(xyz, track, np.zeros(3, np.uint8))
    return out
