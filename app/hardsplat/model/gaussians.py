"""A set of 3D Gaussians as plain arrays, with the activations and the initialization of the
original 3DGS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np

from hardsplat.base.parallel import in_blocks
from hardsplat.model.sky import Sky
from hardsplat.tables import quantities
from hardsplat.tables.quantities import Quantity

# quantities that the fields of Gaussians hold
OWN = ("means", "quats", "log_scales", "logit_opacities", "sh0", "shN")
FIELDS = ("means", "quats", "scales", "opacities", "sh")  # arrays of Gaussians
_BLOCK = 1 << 16  # splats whose numbers are converted at a time
# of OpenCV's trees the one that finds the nearest neighbours exactly; how many it is asked for
_EXACT_TREE, _CANDIDATES = 4, 6
SH_C0 = 0.28209479177387814  # Y_0^0: constant band of the real spherical harmonics


@dataclass
class Gaussians:
    """Splats in natural (activated) units, float32.

    means:     (N, 3) world units. quats:     (N, 4) rotation wxyz, need not be normalized. scales:
    (N, 3) linear standard deviations along the rotated axes, world units, >= 0. opacities: (N,) in
    0..1. sh:        (N, K, 3) spherical-harmonic colour coefficients, K = (degree + 1)^2 in 1, 4,
    9, 16. extra:     (planes, N, width) of further quantities of the trained table, by name, as
    they are trained. sky:       behind all of them, where there is one. Raises ValueError for other
    shapes and, where `check`, for values out of range or not finite.
    """

    means: np.ndarray
    quats: np.ndarray
    scales: np.ndarray
    opacities: np.ndarray
    sh: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)
    sky: Sky | None = None
    check: InitVar[bool] = True

    def __post_init__(self, check):
        n = np.shape(self.means)[0] if np.ndim(self.means) else 1
        wanted = {"means": (n, 3), "quats": (n, 4), "scales": (n, 3), "opacities": (n,)}
        for name, shape in wanted.items():
            value = _float32(getattr(self, name))
            if value.shape != shape:
                raise ValueError(f"{name} has shape {value.shape}, expected {shape}")
            setattr(self, name, value)
        self.sh = _float32(self.sh)
        if self.sh.shape not in [(n, k, 3) for k in (1, 4, 9, 16)]:
            raise ValueError(f"sh has shape {self.sh.shape}, expected ({n}, 1|4|9|16, 3)")
        self.extra = {name: np.asarray(v, np.float32) for name, v in self.extra.items()}
        self._check_extra(n)
        if check:
            for name in (*wanted, "sh"):
                self._refuse(name, ~np.isfinite(getattr(self, name)), "NaN or infinite")
            self._refuse("scales", self.scales < 0, "negative; scales are linear, not logarithms")
            outside = (self.opacities < 0) | (self.opacities > 1)
            self._refuse("opacities", outside, "not in 0..1; opacities are linear, not logits")

    def _check_extra(self, n: int) -> None:
        own = {q.name: q for q in quantities.of("splat") if q.name not in OWN}
        for name in self.extra:
            if name not in own:
                raise ValueError(f"extra has {name}; there are {', '.join(own)}")
            shape, wanted = np.shape(self.extra[name]), own[name].shape(n, self.sh_degree)
            if shape != wanted:
                raise ValueError(f"extra {name} has shape {shape}, expected {wanted}")

    def _refuse(self, name: str, bad: np.ndarray, what: str) -> None:
        if bad.any():
            splats = bad.reshape(len(bad), -1).any(axis=1)
            place = tuple(np.argwhere(bad)[0].tolist())
            value = f"{name}[{', '.join(map(str, place))}] = {getattr(self, name)[place]:g}"
            raise ValueError(f"{value} is {what} ({splats.sum()} such splats)")

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, which: slice | np.ndarray) -> Gaussians:
        """The splats at `which`, a slice, indices, or a mask, before the same sky."""

        def pick(values: np.ndarray, axis: int = 0) -> np.ndarray:
            if isinstance(which, np.ndarray) and which.dtype.kind in "iu":
                return np.take(values, which, axis)  # in a sixth of the time that brackets take
            return values[:, which] if axis else values[which]

        extra = {name: pick(values, 1) for name, values in self.extra.items()}
        fields: dict[str, Any] = {name: pick(getattr(self, name)) for name in FIELDS}
        return Gaussians(**fields, extra=extra, sky=self.sky, check=False)

    @classmethod
    def concatenate(cls, parts: Sequence[Gaussians]) -> Gaussians:
        """One set of all splats, without a sky where there are several. Raises ValueError where SH
        degrees or further quantities differ."""
        if len(parts) == 1:
            return parts[0]
        if any(part.extra.keys() != parts[0].extra.keys() for part in parts):
            raise ValueError("splats with different further quantities do not go together")
        fields: dict[str, Any]
        fields = {n: np.concatenate([getattr(part, n) for part in parts]) for n in FIELDS}
        names = parts[0].extra
        extra = {n: np.concatenate([part.extra[n] for part in parts], axis=1) for n in names}
        return cls(**fields, extra=extra, check=False)

    @property
    def sh_degree(self) -> int:
        return int(np.sqrt(self.sh.shape[1])) - 1

    @property
    def log_scales(self) -> np.ndarray:
        """(N, 3) the trained parameter behind `scales`: -inf for 0, which is a flat splat, NaN
        below, which is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.scales)

    @property
    def logit_opacities(self) -> np.ndarray:
        """(N,) the trained parameter behind `opacities`."""
        o = np.clip(self.opacities.astype(np.float64), 1e-7, 1 - 1e-7)
        return np.log(o / (1 - o)).astype(np.float32)

    def planes(self, sh_degree: int) -> dict[str, np.ndarray]:
        """(planes, N, width) float32 of every trained quantity of splats, by name, and of the
        texels of a sky. SH bands above those there are become zeros.

        A quantity that is not one of the fields begins at its first value, unless `extra` has it.
        """
        out = {"sky": self.sky.texels[None]} if self.sky else {}
        for q in quantities.of("splat"):
            if q.name == "sh0":
                out[q.name] = self.sh[:, :1].transpose(1, 0, 2)
            elif q.name == "shN":
                out[q.name] = np.zeros((q.planes(sh_degree), len(self), 3), np.float32)
                out[q.name][: self.sh.shape[1] - 1] = self.sh[:, 1:].transpose(1, 0, 2)
            elif q.name in self.extra:
                out[q.name] = self.extra[q.name]
            elif q.name in OWN:
                out[q.name] = getattr(self, q.name).reshape(1, len(self), q.width)
            else:
                out[q.name] = first_values(q, len(self), sh_degree)
        return out

    @classmethod
    def from_planes(cls, planes: Mapping[str, np.ndarray]) -> Gaussians:
        """From what `planes` returns; a sky may have no texels. Values are not checked: training
        may leave some that are not finite."""
        n, rest = planes["means"].shape[1], planes["shN"].shape[0]
        scales, opacities = activated(planes)
        sh = np.empty((n, 1 + rest, 3), np.float32)

        def fill(part: slice) -> None:
            sh[part, 0] = planes["sh0"][0, part]
            sh[part, 1:] = planes["shN"][:, part].transpose(1, 0, 2)

        in_blocks(n, _BLOCK, fill)
        out = cls(planes["means"][0], planes["quats"][0], scales, opacities, sh, check=False)
        other = {n: v for n, v in planes.items() if n not in (*OWN, "sky") and len(v)}
        out.extra, out.sky = other, Sky.of_planes(planes)
        return out

    @classmethod
    def from_points(
        cls, points: np.ndarray, colors: np.ndarray, sh_degree: int = 3, opacity: float = 0.1
    ) -> Gaussians:
        """Initial splats from SfM points, as in 3DGS (Kerbl et al. 2023, section 5.1).

        points (N, 3) world units; colors (N, 3) uint8. Isotropic; the scale is the root mean square
        distance to the 3 nearest neighbours, and not below that of 3DGS, or in scenes of small
        units a tenth of what is usual there.
        """
        points = np.asarray(points, np.float64)
        n = len(points)
        if n == 0:
            raise ValueError("the point cloud is empty: nothing to initialize splats from")
        if not np.isfinite(points).all():
            raise ValueError("the point cloud holds NaN or infinite numbers")
        squared = _squared_spacing(points)
        usual = float(np.median(squared))
        scale = np.sqrt(np.maximum(squared, min(1e-7, 0.01 * usual or 1e-7)))
        sh = np.zeros((n, (sh_degree + 1) ** 2, 3), np.float32)
        sh[:, 0] = (np.asarray(colors, np.float64) / 255 - 0.5) / SH_C0
        quats = np.tile(np.array([1, 0, 0, 0], np.float32), (n, 1))
        return cls(points, quats, np.repeat(scale[:, None], 3, 1), np.full(n, opacity), sh)


def _squared_spacing(points: np.ndarray) -> np.ndarray:
    """(N,) mean squared distance of points (N, 3) float64 to their 3 nearest neighbours, or to all
    where there are fewer; 1 for a lone point."""
    import cv2  # SciPy has such a tree too, and takes a third of a second to be imported

    n = len(points)
    if n == 1:
        return np.ones(1)
    middle = np.partition(points, n // 2, axis=0)[n // 2]
    # as float32, which is finest near the middle, and whose squares end at 1e38
    places = np.clip(points - middle, -1e18, 1e18).astype(np.float32)
    tree = cv2.flann_Index(places, {"algorithm": _EXACT_TREE})  # type: ignore[attr-defined]
    out = np.empty(n)

    def measure(part: slice) -> None:
        # more than are needed, since float32 takes neighbours as near as each other in any order
        near, _ = tree.knnSearch(places[part], min(_CANDIDATES, n), params={"checks": -1})
        away = ((points[near] - points[part, None]) ** 2).sum(axis=2)
        out[part] = np.sort(away, axis=1)[:, 1:4].mean(axis=1)  # the first is the point itself

    in_blocks(n, _BLOCK, measure)
    return out


def first_values(quantity: Quantity, items: int, sh_degree: int) -> np.ndarray:
    """(planes, items, width) float32 of new items, where nothing else says it."""
    return np.full(quantity.shape(items, sh_degree), quantity.first, np.float32)


def activated(planes: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """float32 scales (N, 3) and opacities (N,) of trained values (1, N, width) by name, computed in
    float64: beyond float32 a scale is infinite."""
    logs, logits = planes["log_scales"][0], planes["logit_opacities"][0, :, 0]
    scales, opacities = np.empty(logs.shape, np.float32), np.empty(len(logs), np.float32)

    def fill(part: slice) -> None:
        # NaN of files may be signalling ones
        with np.errstate(over="ignore", invalid="ignore"):
            scales[part] = np.exp(np.asarray(logs[part], np.float64))
            opacities[part] = logistic(np.asarray(logits[part], np.float64))

    in_blocks(len(logs), _BLOCK, fill)
    return scales, opacities


def logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) in the precision of x."""
    with np.errstate(over="ignore"):  # where the exponential is infinite, the outcome is 0
        return 1 / (1 + np.exp(-x))


def _float32(value) -> np.ndarray:
    with np.errstate(over="ignore"):  # then it is infinite, which is reported
        return np.ascontiguousarray(value, np.float32)
