"""Exposure and colour of photographs in a training step: what the loss compares, and what their
numbers become.

The passes of the loss see `target` as its photograph was exposed, and leave the gradient by the
image as it was rendered. They also leave sums over the pixels of each workgroup, from which a pass
makes the gradients of the photograph's and the camera's numbers.

The splats are those of the mean photograph, see centred.py, so renders and files need none of this.
Measurements of held-out photographs, whose own exposure nothing can know, apply what cameras do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of, write_json
from hardsplat.gpu.passes.declared import ComputePass, Fill
from hardsplat.step.loss import tiles
from hardsplat.tables.photographs import EXPOSURES
from hardsplat.tables.quantities import Quantity
from hardsplat.train.features.feature import Feature, Found, Record, StepParts, When, one_group

if TYPE_CHECKING:
    from hardsplat.train.job.job import Job

EXPOSURES_FILE = "exposures.json"
# quantities of cameras, and their planes
COLORS = {"vignette_centre": 2, "vignette_falloff": 3, "response": 4}
FAINT = 1e-3  # below it powers are continued as lines


def seen_parts(
    slot: str, chain: str, trained: Sequence[Quantity], tiles: int = 1, spec: Mapping[str, int] = {}
) -> StepParts:
    """What lets the loss see images otherwise than they are rendered. slot, chain: files that fill
    <exposure> and <chain>. trained: the quantities that they read, and find gradients of. tiles: of
    the loss. spec: of the slot."""
    slots = {"seen": "photographs/exposure/seen.glsl", "exposure": slot}
    result = slots | {"result": "photographs/exposure/result.glsl"}
    reads = tuple(q.name for q in trained)
    gather = ComputePass(
        "expose gather",
        "photographs/exposure/gather.comp",
        reads=("camera", "frame", "exposure_sums", *reads),
        writes=tuple(q.d for q in trained),
        spec=spec,
        slots={"exposure": slot, "chain": chain},
    )
    fills = (
        Fill("loss ssim", slots, reads, spec=spec),
        Fill("loss gradient", result, reads, ("exposure_sums",), spec),
    )
    sums = contract.CONSTANTS["EXPOSURE_SUMS"] * tiles * contract.itemsize("exposure_sums")
    record: dict[When, Record] = {"compared": one_group(gather.name)}
    return StepParts([gather], fills, {"exposure_sums": sums}, record)


def exposure_parts(name: str, cameras: int = 2, tiles: int = 1) -> StepParts:
    """name: a variant of EXPOSURES that changes the image. cameras: how many there are; the only
    one has no response, which is kept at a mean of 0."""
    row = EXPOSURES[name]
    spec = {"RESPONDS": cameras > 1} if row.responds else {}
    return seen_parts(row.slot, row.chain, row.quantities, tiles, spec)


def save_exposures(
    path: Path, name: str, buffers: Mapping[str, np.ndarray], photographs: Sequence[str]
) -> None:
    """exposures.json: what was optimized of each photograph, by its name, and of each camera.
    Numbers are as trained, 0 where the image stays as it is.

    buffers: (planes, items, width) by quantity, as checkpoints have them. Raises UserError where
    the file cannot be written.
    """
    table: dict = {"exposure": name, "photographs": {p: {} for p in photographs}, "cameras": []}
    for q in EXPOSURES[name].quantities:
        n = buffers[q.name].shape[1]
        if q.of == "camera":
            table["cameras"] = table["cameras"] or [{} for _ in range(n)]
        items = list(table["photographs"].values()) if q.of == "photograph" else table["cameras"]
        for item, values in zip(items, buffers[q.name].transpose(1, 0, 2).tolist(), strict=True):
            item[q.name] = values if len(values) > 1 else values[0]
    write_json(path, table)


class CameraResponse:
    """What cameras do to an image, as training has found it, on the host: vignetting and response.
    planes: (planes, cameras, 4) of the quantities of COLORS that were trained, by name."""

    def __init__(self, planes: Mapping[str, np.ndarray]):
        self.planes = {name: np.asarray(values, np.float64) for name, values in planes.items()}

    @classmethod
    def load(cls, folder: Path) -> CameraResponse | None:
        """The cameras of folder/exposures.json; None where there is no such file, or it has none.
        Raises UserError for a damaged one."""
        path = folder / EXPOSURES_FILE
        try:
            cameras = json_of(path.read_text(encoding="utf-8"))["cameras"]
            planes = {
                name: np.array([camera[name] for camera in cameras], np.float64).transpose(1, 0, 2)
                for name in COLORS
                if cameras and name in cameras[0]
            }
            if "vignette_falloff" in planes and "vignette_centre" not in planes:
                raise ValueError
            for name, p in planes.items():
                if p.shape[::2] != (COLORS[name], 4) or not np.isfinite(p).all():
                    raise ValueError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"{path}: is not what a run found of its cameras; leave it out to "
                "measure without it"
            ) from None
        return cls(planes) if planes else None

    def __call__(self, number: int, image: np.ndarray) -> np.ndarray:
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


def _parts(job: Job) -> StepParts | None:
    name, cameras = job.config.exposure.exposure, job.items["camera"]
    return exposure_parts(name, cameras, tiles(*job.views.canvas)) if EXPOSURES[name].slot else None


def _save(found: Found) -> None:
    names = [found.scene.views[i].name for i in found.scene.train]
    save_exposures(
        found.folder / EXPOSURES_FILE, found.job.config.exposure.exposure, found.buffers, names
    )


FEATURE = Feature(
    "exposure",
    _parts,
    lambda: [exposure_parts(name) for name, row in EXPOSURES.items() if row.slot],
    save=_save,
)
