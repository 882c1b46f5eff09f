"""What cameras do to an image, as training has found it, on the host: vignetting and response of
shaders/photographs/exposure, for photographs whose own exposure nothing can know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of
from hardsplat.train.features.exposure import EXPOSURES_FILE

# quantities of cameras, and their planes
COLORS = {"vignette_centre": 2, "vignette_falloff": 3, "response": 4}
FAINT = 1e-3  # below it powers are continued as lines


class CameraResponse:
    """planes: (planes, cameras, 4) of the quantities of COLORS that were trained, by name."""

    def __init__(self, planes: Mapping[str, np.ndarray]):
        self.planes = {name: np.asarray(values, np.float64) for name, values in planes.items()}

    @classmethod
    def load(cls, folder: Path) -> CameraResponse:
        """Those of folder/exposures.json; none where there is no such file. Raises UserError for a
        damaged one."""
        path = folder / EXPOSURES_FILE
        try:
            cameras = json_of(path.read_text(encoding="utf-8"))["cameras"]
            planes = {
                name: np.array([camera[name] for camera in cameras], np.float64).transpose(1, 0, 2)
                for name in COLORS
                if cameras and name in cameras[0]
            }
            for name, p in planes.items():
                if p.shape[::2] != (COLORS[name], 4) or not np.isfinite(p).all():
                    raise ValueError
        except FileNotFoundError:
            return cls({})
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"{path}: is not what a run found of its cameras; leave it out to "
                "measure without it"
            ) from None
        return cls(planes)

    def __call__(self, image: np.ndarray, number: int) -> np.ndarray:
        """(H, W, 3) as camera `number` makes it, of an image without vignetting; cameras that were
        not trained leave it alone."""
        own = {
            name: values[:, number, :3] + values[:, number, 3:]
            for name, values in self.planes.items()
            if number < values.shape[1]
        }
        if "vignette_falloff" in own:
            height, width = image.shape[:2]
            x, y = ((np.arange(n) + 0.5 - n / 2) / max(width, height) for n in (width, height))
            cx, cy = own["vignette_centre"]
            r2 = (x[None, :, None] - cx) ** 2 + (y[:, None, None] - cy) ** 2
            a, b, c = own["vignette_falloff"]
            image = image * np.clip(1 + r2 * (a + r2 * (b + r2 * c)), 0, 1)
        if "response" in own and own["response"].any():
            image = _responded(np.clip(image, 0, 1), own["response"])
        return np.asarray(image, np.float32)


def _power(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    base = np.maximum(x, FAINT)
    return base**p * (x / base)


def _responded(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The curve of shaders/photographs/exposure/response.glsl. numbers: (4, 3) toe, shoulder,
    gamma, middle, as trained."""
    toe, shoulder = (0.3 + np.logaddexp(0, r + np.log(np.expm1(0.7))) for r in numbers[:2])
    gamma = 0.1 + np.logaddexp(0, numbers[2] + np.log(np.expm1(0.9)))
    middle = 0.05 + 0.9 / (1 + np.exp(-numbers[3]))
    a = shoulder * middle / (toe + (shoulder - toe) * middle)
    low = a * _power(x / middle, toe)
    high = 1 - (1 - a) * _power(np.maximum(1 - x, 0) / (1 - middle), shoulder)
    return _power(np.where(x <= middle, low, high), gamma)
