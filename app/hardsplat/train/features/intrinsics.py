"""Refinement of intrinsics in a training step, and the cameras that result from it.

A camera has three numbers: the logarithm of what both focal lengths are multiplied by, and the
shift of its principal point in units of the focal lengths that the scene says. They mean the same
at every size of its photographs. All of them 0 is the camera of the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of, write_json
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.train.features.feature import Feature, Found, StepParts, one_group
from hardsplat.train.features.poses import save_cameras

if TYPE_CHECKING:  # the build of a wheel, which lists the passes, has no readers of pictures
    from hardsplat.io.scenes.views import View

INTRINSICS_FILE = "intrinsics.json"
_BEGIN = ComputePass(
    "intrinsics begin",
    "photographs/intrinsics_begin.comp",
    reads=("camera", "frame", "intrinsics"),
    writes=("camera",),
)
_GATHER = ComputePass(
    "intrinsics gather",
    "photographs/intrinsics_gather.comp",
    reads=("camera", "frame", "counts", "camera_sums", "intrinsics"),
    writes=("d_intrinsics",),
)
_PARTS = StepParts(
    [_BEGIN, _GATHER],
    record={"begun": one_group("intrinsics begin"), "gradients": one_group("intrinsics gather")},
)


def check_lenses(views: Sequence[View]) -> None:
    """UserError where photographs are undistorted on load: what is refined then is no number of
    their lens."""
    if face := next((view for view in views if view.is_part), None):
        what = f"{face.group} is a panorama, which has no intrinsics to refine"
        raise UserError(f"--intrinsics-opt: {what}: leave it out")
    if bent := next((view for view in views if view.lens), None):
        raise UserError(
            f"--intrinsics-opt: {bent.name} is undistorted on load, and what is refined "
            "belongs to its lens: add --no-undistort"
        )


def save_intrinsics(folder: Path, changes: np.ndarray) -> None:
    """folder/intrinsics.json. changes: (cameras, 3). Raises UserError where it cannot be
    written."""
    rows = np.asarray(changes, np.float64).tolist()
    write_json(
        folder / INTRINSICS_FILE, {"cameras": [{"log_focal": c[0], "centre": c[1:]} for c in rows]}
    )


def load_intrinsics(folder: Path) -> np.ndarray:
    """(cameras, 3) from folder/intrinsics.json. Raises UserError for a file that is missing or
    damaged."""
    path = folder / INTRINSICS_FILE
    try:
        cameras = json_of(path.read_text(encoding="utf-8"))["cameras"]
        found = np.array([[c["log_focal"], *c["centre"]] for c in cameras], np.float64)
        if found.shape[1:] != (3,) or not np.abs(found).max() <= 10:  # so NaN fails too
            raise ValueError
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; the run that refined intrinsics has left it "
            "in the folder of its splats"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: is not the intrinsics of a run; train again, or give --config "
            "without intrinsics_opt"
        ) from None
    return found


def _save(found: Found) -> None:
    save_intrinsics(found.folder, found.buffers["intrinsics"][0])
    if not found.job.config.poses.pose_opt:  # which leaves cameras with both
        save_cameras(found)


FEATURE = Feature(
    "intrinsics",
    lambda job: _PARTS if job.config.intrinsics.intrinsics_opt else None,
    lambda: [_PARTS],
    save=_save,
)
