"""Memory of the sort against that of the canonical tile rasterizer (Kerbl et al. 2023), which sorts
one pair per splat and 16x16 tile.

Pairs of a view are counted on the CPU from its projected visible splats, over the tiles of the
image, in two ways.

- rectangle: the tiles of Inria's getRect, a square of ceil(3 sigma) px around the mean, sigma^2 the
  larger eigenvalue of the 2D covariance.
- ellipse: the tiles that the axis-aligned box of the ellipse alpha >= 1/255 meets, half sides
  sqrt(2 ln(255 opacity) cov_xx | cov_yy) px, as opacity-aware tile rasterizers do.

Only splats that this project draws are counted. Inria's code also keeps those fainter than 1/255,
so its own count is never lower.

A pair has a 64-bit key and a 32-bit value, each in an unsorted and a sorted array: 24 bytes. CUB's
DeviceRadixSort::SortPairs takes copies of both as temporary storage when it may not overwrite its
input: 12 more, which Inria's binning buffer also holds. The look-back counters of CUB (below 1 byte
a pair) are left out. Ours are keys and values, temporaries of both, histograms: for the visible
splats of the view as the paper counts, and as allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsplat import contract
from hardsplat.raster.core.sort import sort_bytes

TILE = 16  # px, of the canonical rasterizer
PAIR_BYTES = 2 * (8 + 4)
TEMPORARY_BYTES = 8 + 4
PUBLISHED_SHARE = 0.0267  # Yuan & He 2025, abstract
_ALPHA_MIN = contract.FLOATS["ALPHA_MIN"]


def covariances(splats: np.ndarray) -> np.ndarray:
    """(M, 3) float64 2D covariance (xx, xy, yy) px^2, dilation included, of M Splat2D structs."""
    a, k, c = splats["conic"].astype(np.float64).T
    return np.stack([1 / a + k * k / c, -k / c, 1 / c], axis=1)


def rectangle(splats: np.ndarray, opacities: np.ndarray, width: int, height: int) -> np.ndarray:
    """(M,) tiles of each splat's 3-sigma rectangle on an image of width x height px."""
    xx, xy, yy = covariances(splats).T
    middle, det = (xx + yy) / 2, xx * yy - xy * xy
    radius = np.ceil(3 * np.sqrt(middle + np.sqrt(np.maximum(0.1, middle * middle - det))))
    mean = splats["mean"].astype(np.float64) - 0.5  # there, pixel centres are integers
    first = np.floor((mean - radius[:, None]) / TILE)
    end = np.floor((mean + radius[:, None] + TILE - 1) / TILE)
    return _clipped(first, end, width, height)


def ellipse(splats: np.ndarray, opacities: np.ndarray, width: int, height: int) -> np.ndarray:
    """(M,) tiles of the box of each splat's ellipse alpha >= 1/255 on an image of width x height
    px."""
    bound = 2 * np.log(np.maximum(opacities.astype(np.float64) / _ALPHA_MIN, 1))
    half = np.sqrt(bound[:, None] * covariances(splats)[:, [0, 2]])
    mean = splats["mean"].astype(np.float64)
    return _clipped(
        np.floor((mean - half) / TILE), np.floor((mean + half) / TILE) + 1, width, height
    )


def _clipped(first: np.ndarray, end: np.ndarray, width: int, height: int) -> np.ndarray:
    grid = np.array([-(-width // TILE), -(-height // TILE)])
    return np.prod(np.clip(end, 0, grid) - np.clip(first, 0, grid), axis=1).astype(np.int64)


COUNTS = {"rectangle": rectangle, "ellipse": ellipse}


@dataclass
class ViewPairs:
    """Visible splats of a view, and its (tile, splat) pairs by way of counting."""

    visible: int
    pairs: dict[str, int]

    @classmethod
    def of(cls, splats: np.ndarray, opacities: np.ndarray, width: int, height: int) -> ViewPairs:
        """splats: (M,) Splat2D structs of the visible ones; opacities (M,)."""
        counted = {
            name: int(count(splats, opacities, width, height).sum())
            for name, count in COUNTS.items()
        }
        return cls(len(splats), counted)


def sort_memory(views: Sequence[ViewPairs], allocated: int) -> dict:
    """Bytes of the sort and of the tile path, means over views, and their ratios. allocated: bytes
    of our sort's buffers."""
    ours = float(np.mean([sum(sort_bytes(v.visible).values()) for v in views]))
    pairs = {name: float(np.mean([v.pairs[name] for v in views])) for name in COUNTS}

    def share(part: float, each: int) -> dict[str, float | None]:
        return {name: part / (each * n) if n else None for name, n in pairs.items()}

    whole = PAIR_BYTES + TEMPORARY_BYTES
    return {
        "visible": float(np.mean([v.visible for v in views])),
        "bytes": ours,
        "allocated": allocated,
        "pairs": pairs,
        "tile_bytes": {name: whole * n for name, n in pairs.items()},
        "share": share(ours, whole),
        "share_without_temporaries": share(ours, PAIR_BYTES),
        "share_allocated": share(allocated, whole),
        "published_share": PUBLISHED_SHARE,
    }
