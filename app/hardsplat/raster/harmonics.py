"""Spherical harmonics fitted to lobes of colour on the device, as hardsplat.model.lobes does it in
numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.model.camera import Camera
from hardsplat.model.lobes import DEGREE, SHARE, around, onlookers
from hardsplat.raster.core.frame import camera_data
from hardsplat.raster.core.parameters import Parameters

PIECE = 1 << 16  # splats that are fitted at a time, 12 MB of harmonics

HARMONICS_PASS = ComputePass(
    "fit harmonics",
    "project/harmonics.comp",
    reads=("means", "sh0", "lobe_colors", "lobe_axes", "fit_settings", "onlookers", "around"),
    writes=("harmonics",),
)


def fit_harmonics(
    parameters: Parameters, n: int, cameras: Sequence[Camera], sh_degree: int = DEGREE
) -> np.ndarray:
    """(n, (sh_degree + 1)^2, 3) SH that look most like the base colours and the lobes of the n
    splats, see hardsplat.model.lobes.without_lobes. No step may be in flight. Raises
    OutOfMemory."""
    device, chosen, directions = parameters.device, onlookers(cameras), around()
    views = np.array([camera_data(camera) for camera in chosen], contract.dtype("Camera"))
    elements = {"onlookers": len(chosen), "around": len(directions), "fit_settings": 1}
    elements["harmonics"] = min(n, PIECE) * contract.CONSTANTS["HARMONICS"]
    bands = (sh_degree + 1) ** 2
    own = allocate_all(device, contract.nbytes(elements))
    recorder = Recorder(device, {**parameters.all, **own})
    out = np.empty((n, bands, 3), np.float32)
    settings = dict(bands=bands, onlookers=len(chosen), around=len(directions), share=SHARE)
    try:
        own["onlookers"].upload(views)
        own["around"].upload(directions)
        recorder.run(build(device, HARMONICS_PASS), (min(n, PIECE),))
        recorder.end()
        for first in range(0, n, PIECE):
            piece = out[first : first + PIECE]
            given = contract.struct("FitSettings", first=first, count=len(piece), **settings)
            own["fit_settings"].upload(given)
            recorder.run_once()
            own["harmonics"].copy_to(piece)
    finally:
        recorder.destroy()
        for buffer in own.values():
            buffer.destroy()
    return out
