"""Where incremental mapping starts: a small model of photographs that overlap much, of which it is
known that it is right.

A pair of photographs alone does not tell a scene from its inside-out twin, nor the focal length
from the depth. COLMAP's mapper takes the first pair that passes its limits; where that goes wrong,
all photographs are added to a wrong model without a complaint. What tells is how many of the
verified matches the model explains: 0.9 and more in a right one, 0.4 in a wrong one of the same
reprojection error. So a few starts are tried, until one explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.outcome import groups

_CONFIG = pycolmap.TwoViewGeometryConfiguration
_STILL = _CONFIG.PANORAMIC, _CONFIG.PLANAR_OR_PANORAMIC
GOOD = 0.85  # share of explained matches that needs no other try
_MEMBERS = 16  # photographs in a start
_FEWEST = 4  # of them that must have a pose
# tries: which of the best connected photographs is in the middle; least angle between the rays of
# the first pair, degrees; focal length over the longer side, where unknown
_TRIES = (
    *((0, 8, None), (0, 8, 0.7), (1, 8, None), (0, 4, None)),
    *((0, 16, None), (1, 8, 0.7), (2, 8, None), (0, 8, 2.0)),
)


@dataclass
class Matches:
    """Verified matches. ids: of the images; pairs: (P, 2) indices into ids; matches: for each pair
    (M, 2) feature numbers; inliers: (P,) how many. still: pairs, as tuples, that may have been
    taken from one point: a plane or a turn explains all of their matches."""

    ids: list[int]
    pairs: np.ndarray
    matches: list[np.ndarray]
    still: set[tuple[int, int]] = field(default_factory=set)

    @property
    def inliers(self) -> np.ndarray:
        return np.array([len(m) for m in self.matches], np.int64)


def read_matches(database: pycolmap.Database, ids: Sequence[int]) -> Matches:
    """Verified matches of the images with these ids."""
    index = {image: i for i, image in enumerate(ids)}
    pairs, matches, still = [], [], set()
    for number, geometry in zip(*database.read_two_view_geometries()):
        a, b = pycolmap.pair_id_to_image_pair(number)
        if len(geometry.inlier_matches) and a in index and b in index:
            pairs.append((index[a], index[b]))
            matches.append(geometry.inlier_matches)
            if geometry.config in _STILL:
                still.add((min(pairs[-1]), max(pairs[-1])))
    return Matches(list(ids), np.array(pairs, np.int64).reshape(-1, 2), matches, still)


def read_alike(database: pycolmap.Database, ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """How many features of two images look alike, verified or not, by pairs of indices into ids,
    the smaller first."""
    index, out = {image: i for i, image in enumerate(ids)}, {}
    for number, count in zip(*database.read_num_matches()):
        a, b = (index.get(image) for image in pycolmap.pair_id_to_image_pair(number))
        if count and a is not None and b is not None:
            out[min(a, b), max(a, b)] = int(count)
    return out


def explained(model: pycolmap.Reconstruction, matches: Matches) -> float:
    """Share of the verified matches between photographs of the model whose two features see one
    point of it."""
    points = {}
    for image in model.images.values():
        if image.has_pose:
            ids = [p.point3D_id if p.has_point3D() else -1 for p in image.points2D]
            points[image.image_id] = np.array(ids, np.int64)
    right = total = 0
    for (i, j), matched in zip(matches.pairs, matches.matches):
        a, b = points.get(matches.ids[i]), points.get(matches.ids[j])
        if a is not None and b is not None:
            right += int(((a[matched[:, 0]] == b[matched[:, 1]]) & (a[matched[:, 0]] >= 0)).sum())
            total += len(matched)
    return right / max(total, 1)


def members(matches: Matches, rank: int) -> list[int]:
    """Indices of photographs for a start: the one with the `rank`-th most matches, in the largest
    group, and those that share most with what is taken so far."""
    count = len(matches.ids)
    group = groups(count, matches.pairs)
    weights = np.zeros((count, count), np.int64)
    weights[tuple(matches.pairs.T)] = weights[tuple(matches.pairs.T[::-1])] = matches.inliers
    total = np.where(group == np.bincount(group).argmax(), weights.sum(axis=1), -1)
    chosen = [int(np.argsort(-total, kind="stable")[min(rank, count - 1)])]
    shared = weights[chosen[0]].copy()
    while len(chosen) < _MEMBERS:
        shared[chosen] = 0
        best = int(shared.argmax())
        if not shared[best]:
            break
        chosen.append(best)
        shared += weights[best]
    return chosen


def find_start(
    database: Path, matches: Matches, folder: Path, run: Callable[..., list], progress
) -> tuple[Path, float] | None:
    """The folder of the best small model and the share of matches that it explains; None where no
    try gave one.

    run(folder, names=, angle=): maps the photographs with these names, the first pair at this
    angle, and returns the models. Focal lengths in the database stay as the try has them.
    progress(tries) is called before each.
    """
    best, best_focal = None, None
    for number, (rank, angle, focal) in enumerate(_TRIES):
        if best and best[1] >= GOOD:
            break
        progress(number)
        with pycolmap.Database.open(database) as opened:
            names = [opened.read_image(matches.ids[i]).name for i in members(matches, rank)]
            _set_focal(opened, focal or 1.2)
        for model in run(folder / str(number), names=names, angle=angle)[:1]:
            share = explained(model, matches)
            score = share * min(1.0, model.num_reg_images() / len(names))
            enough = model.num_reg_images() >= min(_FEWEST, len(names))
            if enough and (best is None or score > best[1]):
                target = folder / f"model{number}"
                target.mkdir(parents=True, exist_ok=True)
                model.write(target)
                best, best_focal = (target, score), focal
    with pycolmap.Database.open(database) as opened:
        _set_focal(opened, best_focal or 1.2)
    return best


def _set_focal(database: pycolmap.Database, factor: float) -> None:
    """First focal length, over the longer side, of the cameras of which it is unknown."""
    for camera in database.read_all_cameras():
        if not camera.has_prior_focal_length:
            params = np.array(camera.params)
            params[list(camera.focal_length_idxs())] = factor * max(camera.width, camera.height)
            if not np.array_equal(params, camera.params):
                camera.params = params.tolist()
                database.update_camera(camera)
