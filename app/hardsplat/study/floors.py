"""The bytes that a stage must move once, from the sizes in the contract: over the device's copy bandwidth, the least time it could take.

N splats, V visible, K SH coefficients, P pixels; every number that a stage must read or write counts once, scratch of ours does not:
  project           reads N rows of parameters without sh, V rows of sh; writes N keys and opacities (culled or not), V projected splats
  sort              reads N keys; V pairs of key and value are written by the first of 4 digits and read and written by the others, of
                    which the last writes values alone
  loss              reads target and photograph, writes d_image, of P pixels
  project backward  reads and writes N rows of parameters and both Adam moments; reads V projected splats and N opacities, reads and
                    clears V rows of 2D gradients, reads and writes V statistics of densification
The draws have no such floor: they are bound by fragments.
"""

from __future__ import annotations

from hardsplat.contract import CONSTANTS, dtype, itemsize

_GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")
_WORD = 4


def floor_bytes(splats: int, visible: float, sh_planes: int, pixels: float, target_bytes: int, moment_bytes: int = 4) -> dict[str, float]:
    """Bytes by stage. target_bytes: of a pixel of the target; moment_bytes: of a number of the Adam moments."""
    geometry, sh, splat2d = sum(itemsize(name) for name in _GEOMETRY), sh_planes * itemsize("sh"), itemsize("splats2d")
    pair = itemsize("keys") + itemsize("order")
    return {
        "project": splats * (geometry + itemsize("keys") + _WORD) + visible * (sh + splat2d),
        "sort": splats * itemsize("keys") + visible * (7 * pair - itemsize("keys")),
        "loss": pixels * (target_bytes + itemsize("photos") + 4 * _WORD),
        "project backward": splats * (2 * (1 + 2 * moment_bytes / _WORD) * (geometry + sh) + _WORD)
        + visible * (splat2d + 2 * CONSTANTS["GRADIENTS"][0] * itemsize("d_splats2d") + 2 * dtype("GrowStat").itemsize),
    }
