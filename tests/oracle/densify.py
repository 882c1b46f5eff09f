"""Adaptive density control of 3DGS (Kerbl et al. 2023, section 5; Inria `densify_and_prune`)."""

import numpy as np

from . import quat


def densify(
    params,
    moments,
    grad_sum,
    visible_count,
    max_radius,
    extent,
    normals,
    grad_threshold=2e-4,
    percent_dense=0.01,
    min_opacity=0.005,
    prune_large=False,
    max_screen_radius=20.0,
):
    """Clone small and split large splats where the image-space gradient is high, then prune.

    params: of splats, linear scales, opacities in 0..1. moments: any arrays with N rows; those of
    new splats are zero. grad_sum: (N,) sums over visible_count views of the gradient in NDC.
    max_radius: (N,) px. extent: of the scene. normals: [i, k] places child k of splat i if it is
    split. prune_large: also by screen and world size. Returns (params, moments, is_new (M,) bool,
    source (M,) row of the input), in any order.

    A new splat has no screen radius yet, so only its world size can prune it. (Inria's code clears
    all radii just before the test, which disables it; the published intent is kept here.)
    """
    n = len(grad_sum)
    grad = np.where(visible_count > 0, grad_sum / np.maximum(visible_count, 1), 0)
    large = params["scales"].max(axis=1) > percent_dense * extent
    clone = np.flatnonzero((grad >= grad_threshold) & ~large)
    split = np.flatnonzero((grad >= grad_threshold) & large)
    kept = np.setdiff1d(np.arange(n), split)

    source = np.concatenate([kept, clone, split, split])
    is_new = np.arange(len(source)) >= len(kept)
    out = {name: value[source].copy() for name, value in params.items()}
    children = slice(len(kept) + len(clone), None)
    axes = quat.to_matrix(params["quats"][split]) * params["scales"][split][:, None, :]
    out["means"][children] += np.concatenate(
        [np.einsum("nij,nj->ni", axes, normals[split, k]) for k in (0, 1)]
    )
    out["scales"][children] /= 1.6  # 0.8 x the number of children

    prune = out["opacities"] < min_opacity
    if prune_large:
        prune |= ~is_new & (max_radius[source] > max_screen_radius)
        prune |= out["scales"].max(axis=1) > 0.1 * extent
    keep = ~prune
    is_new = is_new[keep]
    out_moments = {name: value[source[keep]].copy() for name, value in moments.items()}
    for value in out_moments.values():
        value[is_new] = 0
    return {name: value[keep] for name, value in out.items()}, out_moments, is_new, source[keep]
