"""Poses and points from verified matches: attempts by COLMAP's mappers; at the end all is adjusted
to what fits most observations, with the simplest lens that explains them, and points are added."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.sfm.colmap.agreement import SMALLEST_MODEL, agreement, drop_contradicted
from hardsplat.sfm.colmap.outcome import AGREES

_WRONG = 0.1  # mean reprojection error over the longer side, from which a model is none
_FORWARD = {"init_max_forward_motion": 1.0, "init_min_tri_angle": 4.0}
GLOBAL, OTHERS, GO_ON = "global mapping", "other first pairs", "poses of fewer points"
STRONG = "pairs of many matches"
_GO_ON = {"abs_pose_min_num_inliers": 15}
# by name: what is not the default of COLMAP's IncrementalMapperOptions
ATTEMPTS: dict[str, Mapping[str, Any]] = {
    "COLMAP's defaults": {},
    GLOBAL: {},
    STRONG: _GO_ON,
    "first pairs of a walk forwards": _FORWARD,
    OTHERS: {},
    "first pairs at a wide angle": {"init_min_tri_angle": 30.0},
    "first pairs of few matches": _FORWARD | {"init_min_num_inliers": 40},
}
_CONTRADICTED = 0.25  # what a photograph counts in a model that matches contradict
_STRONG = 30  # matches of a pair that STRONG uses: fewer may be chance or a likeness
_TWO_VIEW_ANGLE = 3.0  # degrees between the two rays to a point that two photographs see
# of a point; how many times the median of all the mean distance to them may be, over depth
_NEIGHBOURS, _STRAY = 5, 4.0

_SWEEPS, _SWEEPS_OF_MANY, _MANY = 50, 15, 100  # most iterations; of more than so many photographs
_SETTLED = 1e-6  # relative change of the cost at which they end
_SHARED = 10  # photographs of a camera from which they tell where its principal point is
_BETTER = 0.01  # share of the cost that a number more in the lens must save


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
        """The models that an attempt finds, without photographs that matches contradict. on_image
        is called for each photograph with a new pose. start: a model that GO_ON extends."""
        shutil.rmtree(self.work, ignore_errors=True)
        (out := self.work / "out").mkdir(parents=True)
        if attempt == GLOBAL:
            models = self._globally(out)
        else:
            changed = ATTEMPTS.get(attempt, _GO_ON)
            options = self._options(self.error, self.seed + (attempt == OTHERS), changed)
            if attempt == STRONG:
                options.min_num_matches = _STRONG
            more: dict[str, Any] = {"next_image_callback": on_image}
            if start is None:
                more["initial_image_pair_callback"] = on_image
            else:
                (more.setdefault("input_path", self.work / "start")).mkdir()
                start.write(more["input_path"])
            models = pycolmap.incremental_mapping(self.database, self.images, out, options, **more)
        found = list(filter(is_sound, models.values()))
        for model in found:
            drop_contradicted(model, self.database, self.error)
        return found

    def rank(self, model: pycolmap.Reconstruction) -> tuple[float, float, bool]:
        """Less of a better model: that of most photographs, which count less where matches
        contradict it, and of those the one that fits best. At last whether they do."""
        contradicted = agreement(model, self.database, self.error) < AGREES
        count = model.num_reg_images() * (_CONTRADICTED if contradicted else 1)
        return -count, model.compute_mean_reprojection_error(), contradicted

    def _options(
        self, error: float, seed: int, mapper: Mapping[str, Any], **triangulation: Any
    ) -> pycolmap.IncrementalPipelineOptions:
        pycolmap.set_random_seed(seed)
        seeded: dict[str, Any] = dict(random_seed=seed)
        errors = dict(init_max_error=error, filter_max_reproj_error=error)
        merged = dict(merge_max_reproj_error=error, complete_max_reproj_error=error)
        how = seeded | dict(min_model_size=SMALLEST_MODEL, extract_colors=False)
        # poses from matches without points: what chance or a likeness matched places them
        how["structure_less_registration_fallback"] = False
        how |= dict(num_threads=self.threads, triangulation=seeded | merged | triangulation)
        how["mapper"] = seeded | errors | dict(abs_pose_max_error=3 * error) | dict(mapper)
        return pycolmap.IncrementalPipelineOptions(how)

    def _globally(self, out: Path) -> dict[int, pycolmap.Reconstruction]:
        """COLMAP's global mapper (GLOMAP), on a copy of the database, in which focal lengths that
        EXIF did not tell are first estimated from pairs."""
        copy = Path(shutil.copy(self.database, self.work))
        with pycolmap.Database.open(copy) as opened:
            known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
        if not known:
            pycolmap.calibrate_view_graph(copy)
        how = dict(min_model_size=SMALLEST_MODEL, num_threads=self.threads, random_seed=self.seed)
        return pycolmap.global_mapping(copy, self.images, out, pycolmap.GlobalPipelineOptions(how))

    def with_more_points(self, model: pycolmap.Reconstruction) -> pycolmap.Reconstruction:
        """The model with points that two photographs alone see, its poses left as they are.

        Mappers leave them out, since they say little about poses; splats that begin from them cover
        what few photographs show. They may miss by half the error of others.
        """
        pairs = dict(ignore_two_view_tracks=False, min_angle=_TWO_VIEW_ANGLE)
        mapper = dict(filter_min_tri_angle=_TWO_VIEW_ANGLE)
        options = self._options(self.error / 2, self.seed, mapper, **pairs)
        where = self.database, self.images, self.work / "out"
        out = pycolmap.triangulate_points(model, *where, False, options)
        for number in _strays(out):
            out.delete_point3D(number)
        return out


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
    seen_from = [[centres[e.image_id] for e in point.track.elements] for point in points]
    places = np.array([point.xyz for point in points])
    depths = [np.linalg.norm(p - c, axis=1).mean() for p, c in zip(places, seen_from)]
    apart = KDTree(places).query(places, k=_NEIGHBOURS + 1)[0][:, 1:].mean(axis=1) / depths
    far = apart > _STRAY * np.median(apart)
    return [n for n, c, stray in zip(numbers, seen_from, far) if stray and len(c) == 2]


def adjusted(model: pycolmap.Reconstruction, threads: int, lens: bool) -> pycolmap.Reconstruction:
    """A model with all poses, points and cameras adjusted with a Cauchy loss as wide as the median
    residual: mappers' own adjustments are least squares, on which wrong matches pull.

    lens: principal points are found as well where photographs tell them, and distortion is left out
    where they show none. Distortion that is not there takes the focal length with it, and a
    principal point beside the middle turns all poses.
    """
    if not is_sound(model):
        return model
    width = max(float(np.median(_residuals(model))), 1e-3)
    sweeps = _SWEEPS_OF_MANY if model.num_images() > _MANY else _SWEEPS
    solver = dict(max_num_iterations=sweeps, function_tolerance=_SETTLED, num_threads=threads)
    loss = dict(loss_function_type=pycolmap.LossFunctionType.CAUCHY, loss_function_scale=width)
    ceres = loss | dict(solver_options=solver)

    def adjust(before, principal: bool, straight: bool):
        after = pycolmap.Reconstruction(before)
        for camera in _radial(after) if straight else ():
            camera.params = [*camera.params[:3], 0.0]
        refined = dict(refine_principal_point=principal, refine_extra_params=not straight)
        how = refined | dict(print_summary=False, ceres=ceres)
        pycolmap.bundle_adjustment(after, pycolmap.BundleAdjustmentOptions(how))
        cost = float(np.log1p((_residuals(after) / width) ** 2).sum())
        return after, cost if is_sound(after) else np.inf

    best, cost = adjust(model, False, False)
    if not np.isfinite(cost):
        return model
    principal, radial = False, list(_radial(best))
    plain = any(camera.model.name != PANORAMA for camera in best.cameras.values())
    if lens and plain and best.num_reg_images() >= _SHARED * len(best.cameras):
        moved, less = adjust(best, True, False)
        if principal := less < (1 - _BETTER) * cost:
            best, cost = moved, less
    if lens and radial:
        straight, more = adjust(best, principal, True)
        if more <= (1 + _BETTER) * cost:
            best = straight
    return best


def _residuals(model: pycolmap.Reconstruction) -> np.ndarray:
    """px, the mean of each observation's point."""
    model.update_point_3d_errors()
    points = model.points3D.values()
    return np.repeat([p.error for p in points], [p.track.length() for p in points])


def _radial(model: pycolmap.Reconstruction):
    return (camera for camera in model.cameras.values() if camera.model.name == "SIMPLE_RADIAL")


def name_pinholes(model: pycolmap.Reconstruction) -> None:
    """Makes cameras SIMPLE_PINHOLE that are SIMPLE_RADIAL and do not distort, so that photographs
    need not be undistorted. COLMAP wants the models that the database has before."""
    for camera in _radial(model):
        if camera.params[3] == 0:
            params = camera.params[:3]
            camera.model, camera.params = pycolmap.CameraModelId.SIMPLE_PINHOLE, params
