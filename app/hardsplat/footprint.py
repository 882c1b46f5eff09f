"""What the buffers of the contract take: bytes a splat, and bytes by purpose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hardsplat import contract


# Rows of one kind of gradient only, see app/hardsplat/variants/gradients.py.
ANALYTIC = ("d_splats2d", "d_geometry", "d_colors")
STOCHASTIC = ("splats2d_minus", "splats2d_cover", "mean_steps", "splat_differences")


def bytes_per_splat(sh_degree: int, moment_bytes: int = 4, estimates: int = 0) -> dict[str, float]:
    """Bytes that one splat takes in training, by row: parameters, Adam moments, projection, sort, densification.

    estimates: pairs of perturbed images a step, 0 with analytic gradients.
    """
    block = contract.CONSTANTS["GROUP"][0] * contract.CONSTANTS["SORT_ROWS"][0]
    sizes = {"N": 1, "C": 1, "S": 1, "K": (sh_degree + 1) ** 2, "RADIX": contract.CONSTANTS["RADIX"][0], "blocks": 1 / block, "estimates": estimates}
    absent = (*contract.PARAMETER_GRADIENTS, *(ANALYTIC if estimates else STOCHASTIC))
    out = {}
    for row in contract.BUFFERS:
        axes = row.shape.split(", ")
        if row.name not in absent and {"N", "C", "S", "blocks"} & set(axes):
            out[row.name] = contract.itemsize(row.name, moment_bytes) * float(np.prod([sizes.get(a) or int(a) for a in axes]))
    return out


def most_splats(each: Mapping[str, float], memory_bytes: int, max_buffer: int, used: int = 0) -> int:
    """Splats that fit in a device's memory, of which a tenth stays free, beside `used` bytes of other things. each: bytes a splat, by row."""
    by_memory = int(0.9 * memory_bytes - used) // sum(each.values())
    return max(0, int(min(max_buffer // max(each.values()), by_memory)) // 4 * 4)  # planes take a multiple of 4, see contract.plane_stride


# What memory is for; `by_purpose` adds up what is in use. Rows in none of these are "other".
PURPOSES: dict[str, tuple[str, ...]] = {
    "parameters": (*contract.PARAMETERS, "blobs"),
    "optimizer": (*contract.MOMENTS, "adam_blobs"),
    "projected splats": ("splats2d", "splats2d_minus", "splats2d_cover"),
    "sort": ("keys", "keys_alt", "order", "order_alt", "digit_counts", "digit_totals"),
    "tiles": (
        *("tile_splats", "pair_sums", "tile_starts", "tile_order", "checkpoints", "reaches"),
        *("pair_tiles", "pair_tiles_alt", "pair_splats", "pair_splats_alt", "pair_digits", "pair_records", "pair_subgroups"),
    ),
    "target": ("target", "target_minus", "layers", "shown", "values", "palette", "screen", "overlay", "glyphs", "text"),
    "state": ("state", "blocks"),
    "gradients": ("d_splats2d", "d_blobs", "seen", "d_geometry", "d_colors", "d_image", "mean_steps", "splat_differences", *contract.PARAMETER_GRADIENTS),
    "loss": ("ssim_grads", "loss_sums", "loss_differences"),
    "photographs": ("photos",),
    "mesh": ("vertices", "uvs", "corners", "texels", "neighbours", "bends", "mesh_sums", "adam_vertices", "adam_texels", "ids", "ids_minus", "depth"),
}


def by_purpose(nbytes: dict[str, int]) -> dict[str, int]:
    """Bytes by purpose from bytes by row."""
    out = {purpose: sum(nbytes.get(name, 0) for name in names) for purpose, names in PURPOSES.items()}
    return out | {"other": sum(nbytes.values()) - sum(out.values())}
