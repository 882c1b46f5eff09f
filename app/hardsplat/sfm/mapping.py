"""Poses and points from verified matches: COLMAP's mappers, a robust last adjustment, colours, and the files of the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.sfm.features import colours_at
from hardsplat.sfm.matching import FEWEST

SMALLEST_MODEL = 3  # photographs
MODELS = 10  # tried where photographs do not connect
_TRIALS = 3000, 1.0  # RANSAC's most trials, and how many it takes over those it needs; with COLMAP's 10 000 and 3.0 it finds the same in thrice the time
_ANGLE = 16.0  # degrees, COLMAP's default
_SWEEPS, _SWEEPS_OF_MANY = 50, 15  # most iterations of each last adjustment
_SETTLED = 1e-6  # relative change of the cost at which they end
_TWO_VIEW_ANGLE = 3.0  # degrees between the two rays to a point that two photographs see
_MISSED = 3.0  # median residuals, beyond which an observation is dropped then
_MIN_ANGLE = 1.5  # degrees between the rays to a point, COLMAP's default


def two_view_geometry(cameras, points, matches: np.ndarray, error: float, seed: int) -> pycolmap.TwoViewGeometry:
    """The geometry of a pair, with the matches that fit it within `error` px. cameras: two pycolmap.Camera; points: two (N, 2) float64 of positions, px."""
    options = pycolmap.TwoViewGeometryOptions()
    options.min_num_inliers = FEWEST
    options.ransac.max_error, options.ransac.max_num_trials, options.ransac.dyn_num_trials_multiplier = error, *_TRIALS
    options.ransac.random_seed = seed
    return pycolmap.estimate_two_view_geometry(cameras[0], points[0], cameras[1], points[1], matches, options)


@dataclass(frozen=True)
class Solving:
    """What both mappers are told. error: px that a point may miss its features by, see plan.match_error."""

    error: float
    threads: int
    seed: int


def map_incrementally(
    database: Path,
    images: Path,
    work: Path,
    how: Solving,
    *,
    names: Sequence[str] = (),
    angle: float = _ANGLE,
    start: Path | None = None,
    many: bool = False,
    on_image: Callable[[], None] | None = None,
) -> list:
    """COLMAP's incremental mapper; the models that it finds, largest first.

    names: the photographs to map, by default all. angle: degrees, least one between the rays of the first pair.
    start: folder of a model to go on from. many: poses are all adjusted after 40 % more photographs instead of 10 %. on_image is called for each that got its pose.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.min_model_size, options.max_num_models = SMALLEST_MODEL, MODELS
    options.num_threads, options.random_seed = how.threads, how.seed
    options.extract_colors = False
    options.image_names = list(names)
    mapper, triangulation = options.mapper, options.triangulation
    mapper.random_seed = triangulation.random_seed = how.seed
    mapper.init_max_error = mapper.filter_max_reproj_error = how.error
    mapper.abs_pose_max_error = 3 * how.error
    mapper.init_min_tri_angle = angle
    triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = how.error
    if many:
        options.ba_global_frames_ratio = options.ba_global_points_ratio = 1.4
        options.ba_global_max_refinements = 2
    pycolmap.set_random_seed(how.seed)
    more: dict[str, Any] = {"input_path": start} if start else {}
    if on_image:
        more |= {"initial_image_pair_callback": on_image, "next_image_callback": on_image}
    models = pycolmap.incremental_mapping(database, images, _fresh(work), options, **more)
    return _largest_first(models)


def map_globally(database: Path, images: Path, work: Path, how: Solving) -> list:
    """COLMAP's global mapper (GLOMAP); the models that it finds. Focal lengths that EXIF did not tell are first estimated from pairs."""
    with pycolmap.Database.open(database) as opened:
        known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
    if not known:
        pycolmap.calibrate_view_graph(database)
    options = pycolmap.GlobalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.num_threads, options.random_seed = how.threads, how.seed
    retriangulation = options.mapper.retriangulation
    retriangulation.merge_max_reproj_error = retriangulation.complete_max_reproj_error = 4 * how.error
    return _largest_first(pycolmap.global_mapping(database, images, _fresh(work), options))


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _largest_first(models: dict) -> list:
    return sorted((m for m in models.values() if m.num_reg_images() >= SMALLEST_MODEL), key=lambda model: (-model.num_reg_images(), -model.num_points3D()))


def refine(model: pycolmap.Reconstruction, threads: int, many: bool) -> None:
    """Adjusts all poses, points and cameras with a Cauchy loss as wide as the median residual, drops observations that miss by thrice that, and adjusts again.

    The mappers' own adjustments are least squares: wrong matches that pass their filters pull on them. On courtyard this halves the error of the poses.
    many: fewer iterations, as each takes a second or more.
    """
    for _ in range(2):
        model.update_point_3d_errors()
        residuals = np.array([point.error for point in model.points3D.values()])
        if not len(residuals):
            return
        width = max(float(np.median(residuals)), 1e-3)
        options = pycolmap.BundleAdjustmentOptions()
        options.print_summary = False
        options.ceres.loss_function_type, options.ceres.loss_function_scale = pycolmap.LossFunctionType.CAUCHY, width
        solver = options.ceres.solver_options
        solver.max_num_iterations, solver.function_tolerance, solver.num_threads = _SWEEPS_OF_MANY if many else _SWEEPS, _SETTLED, threads
        pycolmap.bundle_adjustment(model, options)
        pycolmap.ObservationManager(model).filter_all_points3D(_MISSED * width, _MIN_ANGLE)
    model.update_point_3d_errors()


def add_points(model: pycolmap.Reconstruction, database: Path, images: Path, work: Path, how: Solving) -> pycolmap.Reconstruction:
    """The model with points that two photographs alone see, its poses left as they are.

    Mappers leave them out, since they say little about poses; splats that begin from them cover what few photographs show. how.error: px, the most that they may miss by.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.extract_colors = False
    options.num_threads, options.random_seed = how.threads, how.seed
    options.triangulation.ignore_two_view_tracks = False
    options.triangulation.min_angle = options.mapper.filter_min_tri_angle = _TWO_VIEW_ANGLE
    options.mapper.filter_max_reproj_error = how.error
    options.triangulation.merge_max_reproj_error = options.triangulation.complete_max_reproj_error = how.error
    return pycolmap.triangulate_points(model, database, images, _fresh(work), False, options)


def colour(model: pycolmap.Reconstruction, images: Path, pool: Executor) -> None:
    """Gives each point the mean colour of the pixels that it was seen in."""
    total: dict[int, np.ndarray] = {}

    def seen(image) -> tuple[list[int], np.ndarray]:
        observed = [(point.point3D_id, point.xy) for point in image.points2D if point.has_point3D()]
        if not observed:
            return [], np.zeros((0, 3))
        return [i for i, _ in observed], colours_at(images / image.name, np.array([xy for _, xy in observed]))

    for ids, colours in pool.map(seen, [image for image in model.images.values() if image.has_pose]):
        for point, rgb in zip(ids, colours.astype(np.float64)):
            total[point] = total.get(point, 0) + np.append(rgb, 1)
    for point, sums in total.items():
        model.points3D[point].color = np.rint(sums[:3] / sums[3]).astype(np.uint8)


def write_model(model: pycolmap.Reconstruction, scene: Path, work: Path) -> None:
    """Writes it as SCENE/sparse/0, in the place of the one there, which it replaces as a whole. Raises OSError."""
    target, new, old = scene / "sparse" / "0", _fresh(work / "new"), work / "old"
    model.write(new)
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(old, ignore_errors=True)
    if target.is_dir():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def describe(camera: pycolmap.Camera) -> str:
    """`camera 1: SIMPLE_RADIAL 800x533, f 826.9 px, 0.0044`: model, size, focal lengths and distortion."""
    focal = " ".join(f"{camera.params[i]:.1f}" for i in camera.focal_length_idxs())
    extra = " ".join(f"{camera.params[i]:.4f}" for i in camera.extra_params_idxs())
    return f"camera {camera.camera_id}: {camera.model.name} {camera.width}x{camera.height}, f {focal} px" + f", distortion {extra}" * bool(extra)
