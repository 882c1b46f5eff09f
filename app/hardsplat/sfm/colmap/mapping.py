"""Poses and points from verified matches: COLMAP's mappers, colours, and the files of the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.database import is_panorama
from hardsplat.sfm.colmap.features import colours_at
from hardsplat.sfm.colmap.matching import FEWEST

SMALLEST_MODEL = 3  # photographs
MODELS = 10  # tried where photographs do not connect
# RANSAC's most trials, and how many it takes over those it needs; with COLMAP's 10 000 and 3.0 it
# finds the same in thrice the time
_TRIALS = 3000, 1.0
_ANGLE = 16.0  # degrees, COLMAP's default


@dataclass(frozen=True)
class Settings:
    """Settings of every mapping. error: px, see plan.match_error. many: all poses are adjusted less
    often, since there are many photographs."""

    error: float
    threads: int
    seed: int
    many: bool = False


def two_view_geometry(
    cameras, points, matches: np.ndarray, error: float, seed: int
) -> pycolmap.TwoViewGeometry:
    """The geometry of a pair, with the matches that fit it within `error` px. cameras: two
    pycolmap.Camera; points: two (N, 2) float64 of positions, px."""
    options = pycolmap.TwoViewGeometryOptions()
    options.min_num_inliers = FEWEST
    ransac = options.ransac
    ransac.max_num_trials, ransac.dyn_num_trials_multiplier = _TRIALS
    ransac.max_error, ransac.random_seed = error, seed
    return pycolmap.estimate_two_view_geometry(
        cameras[0], points[0], cameras[1], points[1], matches, options
    )


def map_incrementally(
    database: Path,
    images: Path,
    work: Path,
    settings: Settings,
    *,
    names: Sequence[str] = (),
    angle: float = _ANGLE,
    start: Path | None = None,
    fewest: int = 30,
    on_image: Callable[[], None] | None = None,
) -> list:
    """COLMAP's incremental mapper; the models that it finds, largest first.

    names: the photographs to map, by default all. angle: degrees, least one of the first pair's
    rays. start: folder of a model to extend. fewest: points that a new pose must explain. on_image
    is called for each photograph with a new pose. Poses of many are all adjusted after 40 % more
    photographs instead of 10 %.
    """
    error, threads, seed = settings.error, settings.threads, settings.seed
    options = pycolmap.IncrementalPipelineOptions()
    options.min_model_size, options.max_num_models = SMALLEST_MODEL, MODELS
    options.num_threads, options.random_seed = threads, seed
    options.extract_colors = False
    options.image_names = list(names)
    mapper, triangulation = options.mapper, options.triangulation
    mapper.random_seed = triangulation.random_seed = seed
    mapper.init_max_error = mapper.filter_max_reproj_error = error
    mapper.abs_pose_max_error = 3 * error
    mapper.init_min_tri_angle, mapper.abs_pose_min_num_inliers = angle, fewest
    triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = error
    if settings.many:
        options.ba_global_frames_ratio = options.ba_global_points_ratio = 1.4
        options.ba_global_max_refinements = 2
    pycolmap.set_random_seed(seed)
    more: dict[str, Any] = {"input_path": start} if start else {}
    if on_image:
        more |= {"initial_image_pair_callback": on_image, "next_image_callback": on_image}
    models = pycolmap.incremental_mapping(database, images, fresh(work), options, **more)
    return _largest_first(models)


def map_globally(database: Path, images: Path, work: Path, settings: Settings) -> list:
    """COLMAP's global mapper (GLOMAP); the models that it finds. Focal lengths that EXIF did not
    tell are first estimated from pairs."""
    with pycolmap.Database.open(database) as opened:
        known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
    if not known:
        pycolmap.calibrate_view_graph(database)
    options = pycolmap.GlobalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.num_threads, options.random_seed = settings.threads, settings.seed
    retriangulation, error = options.mapper.retriangulation, 4 * settings.error
    retriangulation.merge_max_reproj_error = retriangulation.complete_max_reproj_error = error
    return _largest_first(pycolmap.global_mapping(database, images, fresh(work), options))


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _largest_first(models: dict) -> list:
    large = [m for m in models.values() if m.num_reg_images() >= SMALLEST_MODEL]
    return sorted(large, key=lambda model: (-model.num_reg_images(), -model.num_points3D()))


def colour(model: pycolmap.Reconstruction, images: Path, pool: Executor) -> None:
    """Gives each point the mean colour of the pixels that it was seen in."""
    total: dict[int, np.ndarray] = {}

    def seen(image) -> tuple[list[int], np.ndarray]:
        observed = [(point.point3D_id, point.xy) for point in image.points2D if point.has_point3D()]
        if not observed:
            return [], np.zeros((0, 3))
        ids, places = zip(*observed)
        return list(ids), colours_at(images / image.name, np.array(places))

    posed = [image for image in model.images.values() if image.has_pose]
    for ids, colours in pool.map(seen, posed):
        for point, rgb in zip(ids, colours.astype(np.float64)):
            total[point] = total.get(point, 0) + np.append(rgb, 1)
    for point, sums in total.items():
        model.points3D[point].color = np.rint(sums[:3] / sums[3]).astype(np.uint8)


def write_model(model: pycolmap.Reconstruction, scene: Path, work: Path) -> None:
    """Writes it as SCENE/sparse/0; one that is there is replaced as a whole. Raises OSError."""
    target, new, old = scene / "sparse" / "0", fresh(work / "new"), work / "old"
    model.write(new)
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(old, ignore_errors=True)
    if target.is_dir():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def describe(camera: pycolmap.Camera) -> str:
    """`camera 1: SIMPLE_RADIAL 800x533, f 826.9 px, 0.0044`: model, size, focal lengths and
    distortion."""
    focal = " ".join(f"{camera.params[i]:.1f}" for i in camera.focal_length_idxs())
    if is_panorama(camera):
        return f"camera {camera.camera_id}: {camera.model.name} {camera.width}x{camera.height}"
    extra = " ".join(f"{camera.params[i]:.4f}" for i in camera.extra_params_idxs())
    what = f"{camera.model.name} {camera.width}x{camera.height}, f {focal} px"
    return f"camera {camera.camera_id}: {what}" + f", distortion {extra}" * bool(extra)
