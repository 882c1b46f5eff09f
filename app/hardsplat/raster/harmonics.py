"""Splats for programs that know neither lobes of colour nor the 2D filter, on the device: spherical
harmonics, as hardsplat.model.lobes fits them in numpy, and opacities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
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

OPACITIES_PASS = ComputePass(
    "plain opacities",
    "project/plain_opacities.comp",
    reads=("means", "quats", "log_scales", "logit_opacities", "fit_settings", "onlookers"),
    writes=("plain_opacities",),
)


def fit_opacities(parameters: Parameters, n: int, cameras: Sequence[Camera]) -> np.ndarray:
    """(n,) float32 opacities with which n antialiased splats look most alike without the filter:
    their own times the mean compensation of the dilation over cameras that have their mean in the
    image, by the area there. No step may be in flight. Raises OutOfMemory."""
    views = _onlookers(cameras)
    elements = {"onlookers": len(views), "plain_opacities": n}
    with _recorded(parameters, elements, OPACITIES_PASS, n) as (own, recorder):
        own["onlookers"].upload(views)
        own["fit_settings"].upload(contract.struct("FitSettings", count=n, onlookers=len(views)))
        recorder.run_once()
        return own["plain_opacities"].download(np.float32, n)


def _onlookers(cameras: Sequence[Camera]) -> np.ndarray:
    chosen = [camera_data(camera) for camera in onlookers(cameras)]
    return np.array(chosen, contract.dtype("Camera"))


@contextmanager
def _recorded(
    parameters: Parameters, elements: dict[str, int], fit: ComputePass, threads: int
) -> Iterator[tuple[dict[str, Buffer], Recorder]]:
    """Buffers of so many elements and of settings, by name, and the pass recorded with them."""
    device = parameters.device
    own = allocate_all(device, contract.nbytes({"fit_settings": 1, **elements}))
    recorder = Recorder(device, {**parameters.all, **own})
    try:
        recorder.run(build(device, fit), (threads,))
        recorder.end()
        yield own, recorder
    finally:
        recorder.destroy()
        for buffer in own.values():
            buffer.destroy()


def fit_harmonics(
    parameters: Parameters, n: int, cameras: Sequence[Camera], sh_degree: int = DEGREE
) -> np.ndarray:
    """(n, (sh_degree + 1)^2, 3) SH that look most like the base colours and the lobes of the n
    splats, see hardsplat.model.lobes.without_lobes. No step may be in flight. Raises
    OutOfMemory."""
    views, directions = _onlookers(cameras), around()
    elements = {"onlookers": len(views), "around": len(directions)}
    elements["harmonics"] = min(n, PIECE) * contract.CONSTANTS["HARMONICS"]
    bands = (sh_degree + 1) ** 2
    out = np.empty((n, bands, 3), np.float32)
    settings = dict(bands=bands, onlookers=len(views), around=len(directions), share=SHARE)
    with _recorded(parameters, elements, HARMONICS_PASS, min(n, PIECE)) as (own, recorder):
        own["onlookers"].upload(views)
        own["around"].upload(directions)
        for first in range(0, n, PIECE):
            piece = out[first : first + PIECE]
            given = contract.struct("FitSettings", first=first, count=len(piece), **settings)
            own["fit_settings"].upload(given)
            recorder.run_once()
            own["harmonics"].copy_to(piece)
    return out
