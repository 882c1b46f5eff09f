"""Draws, trains and fits by one variant at the smallest size, so that the doctor says of it that it
runs because it ran.

Each function returns the rows that took part, as `option row`, or raises UserError for what the
device refuses, and Unfit for numbers that are not finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hardsplat.fit.blobs import Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.gpu.device.context import Device
from hardsplat.raster.core import trial
from hardsplat.raster.renderer import Renderer
from hardsplat.settings.train import TrainConfig
from hardsplat.settings.typed_rasterizers import RasterizerName
from hardsplat.step.photos import Photos
from hardsplat.train import DeviceFacts, Facts, Session, Views, decide

SIZE = 32, 24  # px
STEPS = 2


class Unfit(Exception):
    """What came out is not finite."""


def _check(what: str, arrays: Iterable[np.ndarray]) -> None:
    if not all(np.isfinite(values).all() for values in arrays):
        raise Unfit(f"{what} are not finite")


def drawn(device: Device, rasterizer: RasterizerName, options: Mapping[str, str]) -> list[str]:
    """An image and its gradients."""
    gaussians, camera = trial.scene(*SIZE)
    given: dict[str, Any] = {**options}
    renderer = Renderer(device, rasterizer, **given)
    try:
        image, through = renderer.forward(gaussians, camera)
        _check("images", (image, through))
        _check("gradients", renderer.backward(np.ones_like(image)).values())
        names = renderer.raster.rows.names
    finally:
        renderer.close()
    return [f"rasterizer {rasterizer}", *(f"{option} {row}" for option, row in names.items())]


def trained(device: Device, options: Mapping[str, str]) -> list[str]:
    """Steps of a training on one photograph."""
    gaussians, camera = trial.scene(*SIZE)
    config = TrainConfig.of(strategy="none", max_steps=STEPS, sh_degree=0, **options)
    facts = Facts(Views([camera], SIZE, 1.0), DeviceFacts.of(device, config))
    photo = np.full((camera.height, camera.width, 3), 128, np.uint8)
    photos = Photos(device, [photo], "gpu", 2 * config.run.batch_steps)
    session = None
    try:
        session = Session(device, decide(config, facts), photos, lambda batch: None)
        session.start(gaussians)
        session.run(STEPS)
        session.drain()
        splats = session.store.gaussians()
        _check("splats", (splats.means, splats.scales, splats.opacities, splats.sh))
    finally:
        if session:
            session.destroy()
    return [f"{option} {row}" for option, row in options.items()]


def fitted(device: Device, rasterizer: str) -> list[str]:
    """Steps of an image fit."""
    width, height = SIZE
    photo = np.full((height, width, 3), 128, np.uint8)
    config = FitConfig(rasterizer=rasterizer, max_steps=STEPS)
    session = FitSession(device, config, photo, config.blobs_for(width * height))
    try:
        session.set(Blobs.scattered(8, photo.astype(np.float32) / 255, 0))
        for _ in range(STEPS):
            session.run(1)
        blobs, _ = session.get()
        _check("blobs", (blobs.planes, session.image()))
    finally:
        session.destroy()
    return [f"fit rasterizer {rasterizer}"]
