"""A model at other sizes, so that variants can be compared by scene size."""

from __future__ import annotations

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.model.gaussians import Gaussians

LARGEST_MULTIPLE = 100  # of the model; a larger number counts splats


def count_of(amount: float, splats: int) -> int:
    """Splats meant by `--splats amount` for a model of `splats`."""
    if not 0 < amount < 2**32:
        raise UserError(
            f"--splats {amount:g}: expected a number above 0: up to {LARGEST_MULTIPLE} as "
            "a multiple of the model, else a number of splats"
        )
    return max(1, round(amount * splats if amount <= LARGEST_MULTIPLE else amount))


def resized(gaussians: Gaussians, count: int, seed: int = 0) -> Gaussians:
    """`count` splats of a model: a random subset, a smaller one part of every larger one of the
    same seed, in the model's order.

    Above the model's size the rest are copies, whole models first, their means moved by a normal of
    the splat's mean scale. Neither is a trained scene: subsets have holes, copies are opaquer, so
    compare variants at one size rather than sizes of one variant.
    """
    n = len(gaussians)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(n)
    whole, rest = divmod(count, n)
    indices = np.concatenate([np.arange(whole * n) % n, np.sort(chosen[:rest])])
    out = gaussians[indices]
    jitter = rng.standard_normal((max(count - n, 0), 3), np.float32)
    out.means[n:] += jitter * out.scales[n:].mean(axis=1, keepdims=True)
    return out
