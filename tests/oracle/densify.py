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

    params:        dict of means (N, 3), quats (N, 4), scales (N, 3; linear), opacities (N,; in
    0..1), sh (N, K, 3). moments:       dict of optimizer state, any arrays with N rows; rows of new
    splats are zero. grad_sum:      (N,) sum over the views of |d_mean2d * (0.5 W, 0.5 H)|, d_mean2d
    per pixel: the gradient in NDC. visible_count: (N,) number of views summed. max_radius:    (N,)
    largest screen radius seen, pixels. extent:        scene extent, world units. normals:       (N,
    2, 3) standard normals; [i, k] places child k of splat i if it is split. prune_large:   also
    prune by screen and world size (the original does so after the first opacity reset).

    Returns (params, moments, is_new (M,) bool, source (M,) row of the input it came from), rows in
    no particular order.

    A new splat has no screen radius yet, so only its world size can prune it. (In Inria's code
    adding splats clears all radii just before the test, which disables the screen test; the
    published intent is kept here.)
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
