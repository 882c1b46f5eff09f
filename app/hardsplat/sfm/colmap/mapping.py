"""Poses and points from verified matches: attempts by COLMAP's mappers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.database import NAME

SMALLEST_MODEL = 3  # photographs
_WRONG = 0.1  # mean reprojection error over the longer side, from which a model is none
_FORWARD = {"init_max_forward_motion": 1.0, "init_min_tri_angle": 4.0}
GLOBAL, OTHERS, GO_ON = "global mapping", "other first pairs", "poses of fewer points"
# by name: what is not the default of COLMAP's IncrementalMapperOptions
ATTEMPTS: dict[str, Mapping[str, Any]] = {
    "COLMAP's defaults": {},
    GLOBAL: {},
    "first pairs of a walk forwards": _FORWARD,
    OTHERS: {},
    "first pairs at a wide angle": {"init_min_tri_angle": 30.0},
    "first pairs of few matches": _FORWARD | {"init_min_num_inliers": 40},
}
_GO_ON = {"abs_pose_min_num_inliers": 15}
_TWO_VIEW_ANGLE = 3.0  # degrees between the two rays to a point that two photographs see
# of a point; how many times the median of all the mean distance to them may be, over depth
_NEIGHBOURS, _STRAY = 5, 4.0


@dataclass(frozen=True)
class Mapper:
    """COLMAP's mappers on a database. work: a folder for what they write. error: px within which a
    match must fit."""

    database: Path
    images: Path
    work: Path
    error: float
    threads: int
    seed: int

    def run(
        self,
        attempt: str,
        on_image: Callable[[], None],
        start: pycolmap.Reconstruction | None = None,
    ) -> list[pycolmap.Reconstruction]:
        """The models that an attempt finds, the best first. on_image is called for each photograph
        with a new pose. start: a model that GO_ON extends."""
        shutil.rmtree(self.work, ignore_errors=True)
        (out := self.work / "out").mkdir(parents=True)
        if attempt == GLOBAL:
            models = self._globally(out)
        else:
            options = self._options(self.error, self.seed + (attempt == OTHERS))
            for name, value in ATTEMPTS.get(attempt, _GO_ON).items():
                setattr(options.mapper, name, value)
            more: dict[str, Any] = {"next_image_callback": on_image}
            if start is None:
                more["initial_image_pair_callback"] = on_image
            else:
                (more.setdefault("input_path", self.work / "start")).mkdir()
                start.write(more["input_path"])
            models = pycolmap.incremental_mapping(self.database, self.images, out, options, **more)
        return sorted(filter(is_sound, models.values()), key=rank)

    def _options(self, error: float, seed: int) -> pycolmap.IncrementalPipelineOptions:
        options = pycolmap.IncrementalPipelineOptions()
        options.min_model_size, options.extract_colors = SMALLEST_MODEL, False
        options.num_threads = self.threads
        mapper, triangulation = options.mapper, options.triangulation
        options.random_seed = mapper.random_seed = triangulation.random_seed = seed
        mapper.init_max_error = mapper.filter_max_reproj_error = error
        mapper.abs_pose_max_error = 3 * error
        triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = error
        pycolmap.set_random_seed(seed)
        return options

    def _globally(self, out: Path) -> dict[int, pycolmap.Reconstruction]:
        """COLMAP's global mapper (GLOMAP), on a copy of the database, in which focal lengths that
        EXIF did not tell are first estimated from pairs."""
        copy = Path(shutil.copy(self.database, self.work / NAME))
        with pycolmap.Database.open(copy) as opened:
            known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
        if not known:
            pycolmap.calibrate_view_graph(copy)
        options = pycolmap.GlobalPipelineOptions()
        options.min_model_size = SMALLEST_MODEL
        options.num_threads, options.random_seed = self.threads, self.seed
        return pycolmap.global_mapping(copy, self.images, out, options)

    def with_more_points(self, model: pycolmap.Reconstruction) -> pycolmap.Reconstruction:
        """The model with points that two photographs alone see, its poses left as they are.

        Mappers leave them out, since they say little about poses; splats that begin from them cover
        what few photographs show. They may miss by half the error of others.
        """
        options = self._options(self.error / 2, self.seed)
        options.triangulation.ignore_two_view_tracks = False
        options.triangulation.min_angle = options.mapper.filter_min_tri_angle = _TWO_VIEW_ANGLE
        where = self.database, self.images, self.work / "out"
        out = pycolmap.triangulate_points(model, *where, False, options)
        for number in _strays(out):
            out.delete_point3D(number)
        return out


def rank(model: pycolmap.Reconstruction) -> tuple[int, float]:
    """Less of a better model: that of most photographs, and of those the one that fits best."""
    return -model.num_reg_images(), model.compute_mean_reprojection_error()


def is_sound(model: pycolmap.Reconstruction) -> bool:
    """Whether it has photographs enough, points that are about where they are seen, and no number
    that is infinite or none: what mappers may make of cameras of which they know nothing."""
    if model.num_reg_images() < SMALLEST_MODEL or not model.num_points3D():
        return False
    numbers = [image.cam_from_world().matrix() for image in model.images.values() if image.has_pose]
    numbers += [camera.params for camera in model.cameras.values()]
    numbers += [np.array([point.xyz for point in model.points3D.values()])]
    longest = max(max(camera.width, camera.height) for camera in model.cameras.values())
    fits = model.compute_mean_reprojection_error() < _WRONG * longest  # none is not
    return fits and all(np.isfinite(some).all() for some in numbers)


def _strays(model: pycolmap.Reconstruction) -> list[int]:
    """Ids of points that two photographs see and that lie far from all others, for their depth:
    mostly wrong matches that happen to meet, which become fog near cameras."""
    from scipy.spatial import KDTree

    numbers, points = list(model.points3D), list(model.points3D.values())
    if len(points) <= _NEIGHBOURS:
        return []
    centres = {i: model.images[i].projection_center() for i in model.reg_image_ids()}

    def depth(point) -> float:
        seen_from = [centres[e.image_id] for e in point.track.elements]
        return np.mean([np.linalg.norm(point.xyz - centre) for centre in seen_from])

    places, depths = np.array([p.xyz for p in points]), np.array([depth(p) for p in points])
    apart = KDTree(places).query(places, k=_NEIGHBOURS + 1)[0][:, 1:].mean(axis=1) / depths
    far = apart > _STRAY * np.median(apart)
    return [n for n, p, stray in zip(numbers, points, far) if stray and p.track.length() == 2]
