"""Whether verified matches fit the poses of a model. One of wrong poses may hold all photographs,
with a small error: it leaves out the points that would contradict them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pycolmap

from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.sfm.colmap.outcome import AGREES

_PARALLEL = np.radians(1)  # between rays, of which depths say nothing
SMALLEST_MODEL = 3  # photographs


def agreement(model: pycolmap.Reconstruction, path: Path, error: float) -> float:
    """The share of the matches between photographs with a pose that fit within `error` px, in front
    of both; 1 without any. A match weighs as many as its pair has: pairs that chance or a likeness
    makes have few. path: of the database. Panoramas are left out."""
    return _share(_pairs(model, path, error))


def drop_contradicted(model: pycolmap.Reconstruction, path: Path, error: float) -> None:
    """Takes their poses from photographs most of whose matches contradict them, the worst first. A
    model that as a whole does not agree stays as it is: what is left of it may be two parts, each
    right, that nothing connects. path, error: as in agreement."""
    pairs = _pairs(model, path, error)
    if _share(pairs) < AGREES:
        return
    while model.num_reg_images() > SMALLEST_MODEL:
        of_each = {n: (pairs[:, :2] == n).any(axis=1) for n in model.reg_image_ids()}
        shares = {n: _share(pairs[its]) for n, its in of_each.items()}
        worst = min(shares, key=shares.__getitem__)
        if shares[worst] >= 0.5:
            break
        model.deregister_frame(model.images[worst].frame_id)
        pairs = pairs[~of_each[worst]]


def _share(pairs: np.ndarray) -> float:
    fitting, count = pairs[:, 2:].T
    return float((fitting * count).sum() / (count * count).sum()) if len(pairs) else 1.0


def _pairs(model: pycolmap.Reconstruction, path: Path, error: float) -> np.ndarray:
    """(P, 4): two photographs, how many of their matches fit, and how many there are."""
    posed = {number: model.images[number] for number in model.reg_image_ids()}
    posed = {n: i for n, i in posed.items() if model.cameras[i.camera_id].model.name != PANORAMA}
    rows = []
    with pycolmap.Database.open(path) as database:
        spots = {n: database.read_keypoints(n)[:, :2] for n in posed}
        for number, geometry in zip(*database.read_two_view_geometries()):
            pair = pycolmap.pair_id_to_image_pair(number)
            if not (posed.keys() >= {*pair} and len(geometry.inlier_matches)):
                continue
            images = [posed[n] for n in pair]
            cameras = [model.cameras[image.camera_id] for image in images]
            chosen = zip(cameras, pair, geometry.inlier_matches.T)
            rays = [_rays(camera, spots[n][which]) for camera, n, which in chosen]
            both = images[1].cam_from_world() * images[0].cam_from_world().inverse()
            focal = sum(camera.mean_focal_length() for camera in cameras) / 2
            fits = _fit(rays[0], rays[1], both.matrix(), error / focal)
            rows.append((*pair, int(fits.sum()), len(fits)))
    return np.array(rows, np.int64).reshape(-1, 4)


def _rays(camera: pycolmap.Camera, spots: np.ndarray) -> np.ndarray:
    at = np.asarray(camera.cam_from_img(spots.astype(np.float64)), np.float64)
    return np.concatenate([at, np.ones((len(at), 1))], axis=1)


def _fit(a: np.ndarray, b: np.ndarray, pose: np.ndarray, error: float) -> np.ndarray:
    """(N,) bool: whether rays (N, 3) meet, as Sampson's distance tells, at a place before both
    cameras. pose: (3, 4) from the first camera to the second; error: at depth 1."""
    R, t = pose[:, :3], pose[:, 3] / max(float(np.linalg.norm(pose[:, 3])), 1e-12)
    turned = a @ R.T
    lines, back = np.cross(t, turned), np.cross(b, t) @ R  # epipolar, in the second and the first
    slope = np.hypot(np.hypot(lines[:, 0], lines[:, 1]), np.hypot(back[:, 0], back[:, 1]))
    near = np.abs((b * lines).sum(axis=1)) < error * np.maximum(slope, 1e-12)
    normal = np.cross(turned, b)
    depths = [-(np.cross(t, ray) * normal).sum(axis=1) for ray in (b, turned)]
    sizes = np.linalg.norm(turned, axis=1) * np.linalg.norm(b, axis=1)
    parallel = np.linalg.norm(normal, axis=1) < np.sin(_PARALLEL) * sizes
    return near & (((depths[0] > 0) & (depths[1] > 0)) | parallel)
