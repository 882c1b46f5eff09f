"""`hardsplat.fit`: a fit of 2D Gaussians to an image, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from hardsplat.base.callables import name_settings
from hardsplat.fit.config import FIT_FIELDS, FitConfig
from hardsplat.fit.fitter import fit as run
from hardsplat.fit.typed import FitSettings
from hardsplat.gpu.probe import open_device
from hardsplat.io.media.images import read_upright
from hardsplat.settings.option import check_known


@dataclass(frozen=True)
class Fitted:
    """What a fit left. folder: as `hardsplat fit` writes it. metrics: what its metrics.json
    holds."""

    folder: Path
    metrics: dict

    @cached_property
    def image(self) -> np.ndarray:
        """(H, W, 3) uint8, the reconstruction."""
        return read_upright(self.folder / "reconstruction.png")

    @property
    def psnr(self) -> float:
        """dB, of the reconstruction."""
        return self.metrics["psnr"]


def fit(image: str | Path, **settings: Unpack[FitSettings]) -> Fitted:
    """Fits 2D Gaussians to an image file, as `hardsplat fit` does, and returns what came of it.
    settings: the flags of that command.

    Raises UserError for bad input.
    """
    check_known(settings, {name: name for name in FIT_FIELDS})
    path = Path(image)
    folder = Path(settings.get("result_dir") or Path("results") / path.stem)
    given: dict[str, Any] = {**settings, "result_dir": folder}
    config = FitConfig(**given)
    device = open_device(config.device)
    try:
        return Fitted(folder, run(path, config, device=device))
    finally:
        device.close()


name_settings(fit, FitSettings.__annotations__, {n: f.default for n, f in FIT_FIELDS.items()})
