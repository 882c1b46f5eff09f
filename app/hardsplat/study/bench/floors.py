"""Bytes that a stage must move once; over the copy bandwidth, the least time it could take.

There are N splats, V visible ones and P pixels. Every number that a stage must read or write counts
once, scratch of ours does not. The draws have no such floor: they are bound by fragments.

- project: reads N rows of parameters without sh, V rows of sh; writes N keys and marks of what is
  visible, V projected splats.
- sort: reads N keys. V pairs of key and value are written by the first of 4 digits, and read and
  written by the others; the last writes values alone.
- loss: reads target and photograph, writes d_image, of P pixels.
- project backward: reads V projected splats and N marks, reads and clears V rows of 2D
  gradients, reads and writes V statistics of densification.
- optimizer: reads and writes N rows of parameters and of both Adam moments.
"""

from __future__ import annotations

from hardsplat.contract import CONSTANTS, dtype, itemsize
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.tables import quantities

_WORD = 4


def floor_bytes(
    splats: int,
    visible: float,
    sh_degree: int,
    pixels: float,
    target_bytes: int,
    moment_bytes: int = 4,
) -> dict[str, float]:
    """Bytes by stage. target_bytes: of a pixel of the target; moment_bytes: of a number of the Adam
    moments."""
    geometry = _WORD * sum(quantities.QUANTITIES[name].width for name in GEOMETRY)
    everything = _WORD * quantities.numbers(sh_degree)
    splat2d = itemsize("splats2d") + itemsize("colors2d")
    pair = itemsize("keys") + itemsize("order")
    return {
        "project": splats * (geometry + itemsize("keys") + _WORD)
        + visible * (everything - geometry + splat2d),
        "sort": splats * itemsize("keys") + visible * (7 * pair - itemsize("keys")),
        "loss": pixels * (target_bytes + itemsize("photos") + 4 * _WORD),
        "project backward": splats * _WORD
        + visible
        * (
            splat2d
            + 2 * CONSTANTS["GRADIENTS"] * itemsize("d_splats2d")
            + 2 * dtype("GrowStat").itemsize
        ),
        "optimizer": splats * 2 * (1 + 2 * moment_bytes / _WORD) * everything,
    }
