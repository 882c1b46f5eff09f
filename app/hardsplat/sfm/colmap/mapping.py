"""Poses and points from verified matches: attempts by COLMAP's mappers, and the files of the
model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.database import NAME

SMALLEST_MODEL = 3  # photographs
_WRONG = 0.1  # mean reprojection error over the longer side, from which a model is none


@dataclass(frozen=True)
class Settings:
    """Those of every mapping. error: px within which a match must fit."""

    error: float
    threads: int
    seed: int


@dataclass(frozen=True)
class Attempt:
    """A way to map. name: in a few words. mapper: as in SfmConfig. seed: added to that of the
    settings. mapping: of COLMAP's IncrementalMapperOptions, where it is not the default."""

    name: str
    mapper: str = "incremental"
    seed: int = 0
    mapping: Mapping[str, Any] = field(default_factory=dict)


_FORWARD = {"init_max_forward_motion": 1.0, "init_min_tri_angle": 4.0}
ATTEMPTS = (
    Attempt("COLMAP's defaults"),
    Attempt("global mapping", "global"),
    Attempt("first pairs of a walk forwards", mapping=_FORWARD),
    Attempt("other first pairs", seed=1),
    Attempt("first pairs at a wide angle", mapping={"init_min_tri_angle": 30.0}),
    Attempt("first pairs of few matches", mapping=_FORWARD | {"init_min_num_inliers": 40}),
)
GO_ON = Attempt("poses of fewer points", mapping={"abs_pose_min_num_inliers": 15})


def map_by(
    attempt: Attempt,
    database: Path,
    images: Path,
    work: Path,
    settings: Settings,
    on_image: Callable[[], None],
    start: pycolmap.Reconstruction | None = None,
) -> list[pycolmap.Reconstruction]:
    """The models that an attempt finds, most photographs first. on_image is called for each
    photograph with a new pose. start: a model to extend."""
    if attempt.mapper == "global":
        models = _globally(database, images, fresh(work), settings)
    else:
        options = _options(settings, settings.seed + attempt.seed)
        for name, value in attempt.mapping.items():
            setattr(options.mapper, name, value)
        more: dict[str, Any] = {"next_image_callback": on_image}
        if start is None:
            more["initial_image_pair_callback"] = on_image
        out = fresh(work)
        if start is not None:
            start.write(fresh(work / "start"))
            more["input_path"] = work / "start"
        models = pycolmap.incremental_mapping(database, images, out, options, **more)
    usable = [model for model in models.values() if is_sound(model)]
    return sorted(usable, key=rank)


def rank(model: pycolmap.Reconstruction) -> tuple[int, float]:
    """Less of a better model: that of most photographs, and of those the one that fits best."""
    return -model.num_reg_images(), model.compute_mean_reprojection_error()


def is_sound(model: pycolmap.Reconstruction) -> bool:
    """Whether it has photographs enough, points that are about where they are seen, and no number
    that is infinite or none: what mappers may make of cameras of which they know nothing."""
    if model.num_reg_images() < SMALLEST_MODEL or not model.num_points3D():
        return False
    poses = [image.cam_from_world().matrix() for image in model.images.values() if image.has_pose]
    cameras = [camera.params for camera in model.cameras.values()]
    points = np.array([point.xyz for point in model.points3D.values()])
    longest = max(max(camera.width, camera.height) for camera in model.cameras.values())
    fits = model.compute_mean_reprojection_error() < _WRONG * longest  # none is not
    return fits and all(np.isfinite(numbers).all() for numbers in (*poses, *cameras, points))


def _options(settings: Settings, seed: int) -> pycolmap.IncrementalPipelineOptions:
    options, error = pycolmap.IncrementalPipelineOptions(), settings.error
    options.min_model_size = SMALLEST_MODEL
    options.extract_colors = False
    options.num_threads, options.random_seed = settings.threads, seed
    mapper, triangulation = options.mapper, options.triangulation
    mapper.random_seed = triangulation.random_seed = seed
    mapper.init_max_error = mapper.filter_max_reproj_error = error
    mapper.abs_pose_max_error = 3 * error
    triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = error
    pycolmap.set_random_seed(seed)
    return options


def _globally(database: Path, images: Path, work: Path, settings: Settings) -> dict:
    """COLMAP's global mapper (GLOMAP), on a copy of the database, in which focal lengths that EXIF
    did not tell are first estimated from pairs."""
    copy = Path(shutil.copy(database, work / NAME))
    with pycolmap.Database.open(copy) as opened:
        known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
    if not known:
        pycolmap.calibrate_view_graph(copy)
    options = pycolmap.GlobalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.num_threads, options.random_seed = settings.threads, settings.seed
    return pycolmap.global_mapping(copy, images, work, options)


def add_points(
    model: pycolmap.Reconstruction, database: Path, images: Path, work: Path, settings: Settings
) -> pycolmap.Reconstruction:
    """The model with points that two photographs alone see, its poses left as they are.

    Mappers leave them out, since they say little about poses; splats that begin from them cover
    what few photographs show. They may miss by half the error of the settings.
    """
    options, error = _options(settings, settings.seed), settings.error / 2
    triangulation = options.triangulation
    triangulation.ignore_two_view_tracks = False
    triangulation.min_angle = options.mapper.filter_min_tri_angle = _TWO_VIEW_ANGLE
    options.mapper.filter_max_reproj_error = error
    triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = error
    out = pycolmap.triangulate_points(model, database, images, fresh(work), False, options)
    for number in _strays(out):
        out.delete_point3D(number)
    return out


_TWO_VIEW_ANGLE = 3.0  # degrees between the two rays to a point that two photographs see
# of a point; how many times the median of all the mean distance to them may be, over depth
_NEIGHBOURS, _STRAY = 5, 4.0


def _strays(model: pycolmap.Reconstruction) -> list[int]:
    """Ids of points that two photographs see and that lie far from all others, for their depth:
    mostly wrong matches that happen to meet, which become fog near cameras."""
    from scipy.spatial import KDTree

    numbers, points = list(model.points3D), list(model.points3D.values())
    if len(points) <= _NEIGHBOURS:
        return []
    centres = {i: image.projection_center() for i, image in model.images.items() if image.has_pose}

    def depth(point) -> float:
        seen_from = [centres[e.image_id] for e in point.track.elements]
        return np.mean([np.linalg.norm(point.xyz - centre) for centre in seen_from])

    places, depths = np.array([p.xyz for p in points]), np.array([depth(p) for p in points])
    apart = KDTree(places).query(places, k=_NEIGHBOURS + 1)[0][:, 1:].mean(axis=1) / depths
    far = apart > _STRAY * np.median(apart)
    seen_twice = [point.track.length() == 2 for point in points]
    return [number for number, *stray in zip(numbers, far, seen_twice) if all(stray)]


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


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
