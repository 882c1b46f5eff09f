"""LPIPS (Zhang et al. 2018), a learnt distance of images, by its authors' package: `hardsplat eval
--lpips`, extra `lpips`.

The package needs PyTorch and downloads the networks' weights when it is first used. Papers mean
different things by it, so a result names what it was.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError

VERSION = "0.1"  # of the linear layers


@dataclass(frozen=True)
class LpipsNetwork:
    """net: the network of the package. signed: images are given in -1..1, as the package wants
    them, not in 0..1. note: who reports it."""

    net: str
    signed: bool
    note: str


VARIANTS = {
    "alex": LpipsNetwork("alex", True, "AlexNet, as gsplat and nerfstudio report"),
    "vgg": LpipsNetwork("vgg", True, "VGG16, as the package wants it"),
    "vgg-3dgs": LpipsNetwork(
        "vgg", False, "VGG16 on images in 0..1, as Kerbl et al. 2023 and papers after it report"
    ),
}


class Lpips:
    """A variant of VARIANTS, ready to measure. Raises UserError where the package or its weights
    are missing."""

    def __init__(self, name: str):
        self.variant = VARIANTS[name]
        # what a result names it
        self.named = {"variant": name, "version": VERSION, "what": self.variant.note}
        try:
            lpips, torch = import_module("lpips"), import_module("torch")
        except ImportError as error:
            raise UserError(f"--lpips needs {error.name}: pip install 'hardsplat[lpips]'") from None
        except RuntimeError as error:  # of torchvision, where it was built for another PyTorch
            fit = "install a torchvision that was built for this torch"
            raise UserError(f"--lpips: lpips cannot be imported ({error}); {fit}") from None
        self._torch = torch
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torchvision, about its own arguments
                made = lpips.LPIPS(net=self.variant.net, version=VERSION, verbose=False)
                self._net: Any = made.eval()
        except Exception as error:  # it downloads weights: any error of networks and disks
            why = (str(error).splitlines() or [type(error).__name__])[0]
            failed = f"--lpips {name}: its weights could not be loaded ({why})"
            raise UserError(f"{failed}; the first use downloads them") from None

    def __call__(self, image: np.ndarray, photo: np.ndarray) -> float:
        """image: (H, W, 3) float, clamped to 0..1. photo: (H, W, 3) uint8. A single image on the
        CPU."""
        pair = [np.clip(image, 0, 1).astype(np.float32), photo.astype(np.float32) / 255]
        if self.variant.signed:
            pair = [2 * x - 1 for x in pair]
        planes = (np.ascontiguousarray(x.transpose(2, 0, 1)[None]) for x in pair)
        with self._torch.no_grad():
            return float(self._net(*map(self._torch.from_numpy, planes)))
