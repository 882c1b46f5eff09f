"""The last adjustments of a model: all poses, points and cameras by what fits most observations,
the simplest lens that explains them, and points that two photographs see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.mapping import Settings, fresh

_SWEEPS, _SWEEPS_OF_MANY = 50, 15  # most iterations of each adjustment
_SETTLED = 1e-6  # relative change of the cost at which they end
_ROUNDS = 3
_NO_WORSE = 0.01  # share that the cost may grow by where photographs show no distortion
# of a point; how many times the median of all the mean distance to them may be, over depth
_NEIGHBOURS, _STRAY = 5, 4.0
_TWO_VIEW_ANGLE = 3.0  # degrees between the two rays to a point that two photographs see


def refine(model: pycolmap.Reconstruction, settings: Settings) -> None:
    """Adjusts all poses, points and cameras with a Cauchy loss as wide as the median residual.

    The mappers' own adjustments are least squares: wrong matches that pass their filters pull on
    them.
    """
    for _ in range(_ROUNDS):
        if (width := _width(model)) is None:
            return
        pycolmap.bundle_adjustment(model, _options(width, settings))
    model.update_point_3d_errors()


def straighten(model: pycolmap.Reconstruction, settings: Settings) -> pycolmap.Reconstruction:
    """The model with cameras that do not distort, where those explain the photographs as well; else
    the model as it is. Its cameras are SIMPLE_RADIAL, or panoramas.

    Photographs of such cameras need not be undistorted. Distortion that is not there takes the
    focal length with it: one trades against the other.
    """
    if (width := _width(model)) is None:
        return model
    straight = pycolmap.Reconstruction(model)
    for camera in straight.cameras.values():
        if camera.model == pycolmap.CameraModelId.SIMPLE_RADIAL:
            camera.params = [*camera.params[:3], 0.0]
    options = _options(width, settings)
    options.refine_extra_params = False
    pycolmap.bundle_adjustment(straight, options)
    straight.update_point_3d_errors()
    return straight if _cost(straight, width) <= (1 + _NO_WORSE) * _cost(model, width) else model


def name_pinholes(model: pycolmap.Reconstruction) -> None:
    """Makes cameras SIMPLE_PINHOLE that are SIMPLE_RADIAL and do not distort. COLMAP's mappers want
    the models that the database has, so this comes after them."""
    for camera in model.cameras.values():
        if camera.model == pycolmap.CameraModelId.SIMPLE_RADIAL and camera.params[3] == 0:
            params = camera.params[:3]
            camera.model, camera.params = pycolmap.CameraModelId.SIMPLE_PINHOLE, params


def take_poses(
    model: pycolmap.Reconstruction, other: pycolmap.Reconstruction, settings: Settings
) -> None:
    """Gives the model the poses and cameras of another of the same photographs, and adjusts its
    points to them."""
    for number, camera in other.cameras.items():
        model.cameras[number].params = camera.params
    config = pycolmap.BundleAdjustmentConfig()
    for i, image in other.images.items():
        frame = model.frames[model.images[i].frame_id]
        frame.rig_from_world = image.cam_from_world()
        config.add_image(i)
        config.set_constant_rig_from_world_pose(frame.frame_id)
    for number in model.cameras:
        config.set_constant_cam_intrinsics(number)
    if (width := _width(model)) is not None:
        pycolmap.create_default_bundle_adjuster(_options(width, settings), config, model).solve()
        model.update_point_3d_errors()


def _width(model: pycolmap.Reconstruction) -> float | None:
    """The median residual, px; None of a model without points."""
    model.update_point_3d_errors()
    residuals = np.array([point.error for point in model.points3D.values()])
    return max(float(np.median(residuals)), 1e-3) if len(residuals) else None


def _cost(model: pycolmap.Reconstruction, width: float) -> float:
    """Cauchy's, from the mean residual of each point."""
    return sum(
        point.track.length() * np.log1p((point.error / width) ** 2)
        for point in model.points3D.values()
    )


def _options(width: float, settings: Settings) -> pycolmap.BundleAdjustmentOptions:
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = width
    solver = options.ceres.solver_options
    solver.max_num_iterations = _SWEEPS_OF_MANY if settings.many else _SWEEPS
    solver.function_tolerance, solver.num_threads = _SETTLED, settings.threads
    return options


def add_points(
    model: pycolmap.Reconstruction, database: Path, images: Path, work: Path, settings: Settings
) -> pycolmap.Reconstruction:
    """The model with points that two photographs alone see, its poses left as they are.

    Mappers leave them out, since they say little about poses; splats that begin from them cover
    what few photographs show. They may miss by half the error of the settings.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.extract_colors = False
    options.num_threads, options.random_seed = settings.threads, settings.seed
    error = settings.error / 2
    triangulation = options.triangulation
    triangulation.ignore_two_view_tracks = False
    triangulation.min_angle = options.mapper.filter_min_tri_angle = _TWO_VIEW_ANGLE
    options.mapper.filter_max_reproj_error = error
    triangulation.merge_max_reproj_error = triangulation.complete_max_reproj_error = error
    out = pycolmap.triangulate_points(model, database, images, fresh(work), False, options)
    for number in _strays(out):
        out.delete_point3D(number)
    return out


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
