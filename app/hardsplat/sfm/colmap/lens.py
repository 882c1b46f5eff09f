"""The last adjustment of a model: all poses, points and cameras by what fits most observations, and
the simplest lens that explains them."""

from __future__ import annotations

import numpy as np
import pycolmap

from hardsplat.sfm.colmap.mapping import is_sound

_SWEEPS, _SWEEPS_OF_MANY, _MANY = 50, 15, 100  # most iterations; of more than so many photographs
_SETTLED = 1e-6  # relative change of the cost at which they end
_SHARED = 10  # photographs of a camera from which they tell where its principal point is
_BETTER = 0.01  # share of the cost that a number more in the lens must save


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

    def adjust(before, principal: bool, straight: bool):
        after = pycolmap.Reconstruction(before)
        if straight:
            for camera in _radial(after):
                camera.params = [*camera.params[:3], 0.0]
        options = pycolmap.BundleAdjustmentOptions()
        options.print_summary = False
        options.refine_principal_point, options.refine_extra_params = principal, not straight
        options.ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
        options.ceres.loss_function_scale = width
        solver = options.ceres.solver_options
        solver.max_num_iterations = _SWEEPS_OF_MANY if model.num_images() > _MANY else _SWEEPS
        solver.function_tolerance, solver.num_threads = _SETTLED, threads
        pycolmap.bundle_adjustment(after, options)
        cost = float(np.log1p((_residuals(after) / width) ** 2).sum())
        return after, cost if is_sound(after) else np.inf

    best, cost = adjust(model, False, False)
    if not np.isfinite(cost):
        return model
    principal = False
    cameras = [c for c in best.cameras.values() if not _is_panorama(c)]
    if lens and cameras and best.num_reg_images() >= _SHARED * len(best.cameras):
        moved, less = adjust(best, True, False)
        if principal := less < (1 - _BETTER) * cost:
            best, cost = moved, less
    if lens and list(_radial(best)):
        straight, more = adjust(best, principal, True)
        if more <= (1 + _BETTER) * cost:
            best = straight
    return best


def _is_panorama(camera: pycolmap.Camera) -> bool:
    return camera.model == pycolmap.CameraModelId.EQUIRECTANGULAR


def _residuals(model: pycolmap.Reconstruction) -> np.ndarray:
    """px, the mean of each observation's point."""
    model.update_point_3d_errors()
    points = model.points3D.values()
    return np.repeat([p.error for p in points], [p.track.length() for p in points])


def _radial(model: pycolmap.Reconstruction):
    kind = pycolmap.CameraModelId.SIMPLE_RADIAL
    return (camera for camera in model.cameras.values() if camera.model == kind)


def name_pinholes(model: pycolmap.Reconstruction) -> None:
    """Makes cameras SIMPLE_PINHOLE that are SIMPLE_RADIAL and do not distort, so that photographs
    need not be undistorted. COLMAP wants the models that the database has before."""
    for camera in _radial(model):
        if camera.params[3] == 0:
            params = camera.params[:3]
            camera.model, camera.params = pycolmap.CameraModelId.SIMPLE_PINHOLE, params


def describe(camera: pycolmap.Camera) -> str:
    """`camera 1: SIMPLE_RADIAL 800x533, f 826.9, cx 400, cy 266.5, k 0.0044`: px but for k."""
    size = f"camera {camera.camera_id}: {camera.model.name} {camera.width}x{camera.height}"
    named = zip(camera.params_info.split(", "), camera.params)
    return size if _is_panorama(camera) else ", ".join([size, *(f"{n} {v:.5g}" for n, v in named)])
