"""What training takes on the device: bytes a splat, and bytes by purpose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hardsplat import contract
from hardsplat.tables import quantities
from hardsplat.tables.loss_terms import LOSS_TERMS

_BLOCK = contract.CONSTANTS["GROUP"] * contract.CONSTANTS["SORT_ROWS"]
# Elements a splat of the axes that grow with the splats.
_PER_SPLAT = {
    "splats": 1.0,
    "visible": 1.0,
    "sort blocks": 1.0 / _BLOCK,
    "groups": 1.0 / contract.CONSTANTS["GROUP"],
}
# Share of the splats that a view is taken to show where no view was drawn yet. Large scenes have
# 0.4 to 5 % (CLM, Zhao et al. 2025, arXiv 2511.04951).
SHOWN = 0.05
# What buffers and images are for; planes come to parameters, optimizer and gradients besides.
_PURPOSES = {
    "parameters": "blobs",
    "optimizer": "adam_blobs",
    "projected splats": "splats2d splats2d_minus splats2d_cover "
    "colors2d colors2d_minus colors2d_cover tile_splats tile_reaches",
    "sort": "keys keys_alt order order_alt digit_counts digit_totals working shown_bits shown_sums",
    "tiles": "scratch tile_spans tile_starts tile_order tile_changes tile_cursors pair_sums "
    "pair_tiles pair_tiles_alt pair_splats pair_splats_alt pair_digits pair_records "
    "pair_subgroups pair_keys checkpoints reaches bucket_tiles",
    "target": "target target_minus layers shown values palette screen",
    "state": "state blocks unfinished fragment_lists fragments",
    "gradients": "d_splats2d d_blobs seen d_colors directions d_image camera_sums kept_colors "
    "d_depths mean_steps splat_differences shares sky_sums",
    "loss": "ssim_grads loss_sums loss_differences exposure_sums disparities depth_shares "
    "depth_settings color_moments color_map",
    "photographs": "photos photographs",
    "mesh": "vertices uvs corners texels neighbours bends mesh_sums adam_vertices adam_texels ids "
    "ids_minus depth",
}
# What keeps a step's results, or what the host tells, for the steps after it, or is zero between
# them. The rest is scratch: every step writes it before it reads it.
KEPT = set(
    "frame counts indirect planes step_settings adam_settings refine_settings depth_settings "
    "rate_plans loss_terms views schedule history photos photographs disparities depth_shares "
    "grow_stats score_stats d_splats2d shares ticket_counts tile_changes turn model_counts "
    "model_indirect model_planes model_grow_stats model_score_stats sky_sums".split()
)
# Buffers of one kind of gradient only, see tables/gradients.py.
ANALYTIC = ("d_splats2d", "d_colors", "directions")
STOCHASTIC = (
    *(f"{name}{which}" for which in ("_minus", "_cover") for name in ("splats2d", "colors2d")),
    *("mean_steps", "splat_differences"),
)
# Of splats, without being trained; a strategy keeps one of them, or none.
STATISTICS = ("grow_stats", "score_stats")
# What densification marks all splats with, between steps.
MARKS = ("flags", "holes")


@dataclass(frozen=True)
class Need:
    """Bytes that one splat takes under a name. largest: in its largest allocation. addressed:
    shaders reach that by address, not by a descriptor. lives: of scratch that lies in one memory,
    the first and the last of the parts of a step in which it has something to keep."""

    total: float
    largest: float
    addressed: bool = False
    lives: tuple[int, int] | None = None


def needs(
    sh_degree: int, moment_bytes: int = 4, estimates: int = 0, without: tuple[str, ...] = ()
) -> dict[str, Need]:
    """What one splat takes in training, by name: planes, projection, sort, densification.

    moment_bytes: of a number of the Adam moments. estimates: pairs of perturbed images a step, 0
    with analytic gradients. without: buffers that are not there.
    """
    out = {}
    for q in quantities.of("splat"):
        planes, item = q.planes(sh_degree), 4 * q.width
        out[q.name] = Need(planes * item, item, True)
        out[q.moments] = Need(2 * planes * q.width * moment_bytes, q.width * moment_bytes, True)
        if q.gradient == "plane" and not estimates:
            out[q.d] = Need(planes * item, item, True)
    sizes = _PER_SPLAT | {
        "pairs of images": float(estimates),
        "terms": float(sum(term.of in quantities.values("splat") for term in LOSS_TERMS.values())),
    }
    rare = ("camera_sums", "kept_colors", "d_depths", "d_directions", "working")
    absent = {*rare, *without, *(ANALYTIC if estimates else STOCHASTIC)}
    for buffer in contract.BUFFERS.values():
        if buffer.name not in absent and set(buffer.axes) & _PER_SPLAT.keys():
            nbytes = contract.itemsize(buffer.name) * math.prod(
                a if isinstance(a, int) else sizes[a] for a in buffer.axes
            )
            out[buffer.name] = Need(nbytes, nbytes)
    return out


def averages(sh_degree: int) -> dict[str, Need]:
    """What one splat takes of the host's memory while splats are averaged, by name."""
    widths = {q.average: (q.planes(sh_degree), 4 * q.width) for q in quantities.of("splat")}
    return {name: Need(planes * item, item, True) for name, (planes, item) in widths.items()}


def packed(each: Mapping[str, Need], shown: float, out_of_core: bool) -> dict[str, Need]:
    """What one splat takes on the device where steps draw a working set, from what it takes where
    they draw all. shown: share of the splats that a view shows at most, which has all.

    out_of_core: quantities that spill are in the host's memory. They count for the size of the
    largest allocation alone.
    """
    kept, far = {*STATISTICS, "flag_sums"}, set[str]()
    for q in quantities.of("splat"):
        (far if q.spills and out_of_core else kept).update((q.name, q.moments))
    out = {}
    for name, need in each.items():
        largest = need.largest if name in kept | far else shown * need.largest
        out[name] = replace(need, total=(shown + (name in kept)) * need.total, largest=largest)
    return out | {name: replace(each[name], lives=None) for name in MARKS}


def host_bytes(each: Mapping[str, Need]) -> float:
    """Bytes that a splat takes in the host's memory, out of core."""
    far = [q for q in quantities.of("splat") if q.spills and q.name in each]
    return sum(each[name].total for q in far for name in (q.name, q.moments))


def bytes_per_splat(each: Mapping[str, Need]) -> float:
    """Bytes that a splat takes, of scratch in one memory as many as live at once at most."""
    return _scratch_bytes(each) + sum(need.total for need in each.values() if not need.lives)


def _scratch_bytes(each: Mapping[str, Need]) -> float:
    alive: defaultdict[int, float] = defaultdict(float)
    for need in each.values():
        for part in range(need.lives[0], need.lives[1] + 1) if need.lives else ():
            alive[part] += need.total
    return max(alive.values(), default=0.0)


def most_splats(
    each: Mapping[str, Need],
    memory_bytes: float,
    max_buffer: float,
    max_allocation: float,
    used: int = 0,
) -> int:
    """Splats that fit in a device's memory, of which a tenth stays free, beside `used` bytes of
    other things.

    max_buffer: bytes that a descriptor reaches; max_allocation: bytes of one allocation.
    """
    by_allocation = min(
        (max_allocation if need.addressed else max_buffer) / need.largest
        for need in each.values()
        if need.largest
    )
    free, scratch = 0.9 * memory_bytes - used, _scratch_bytes(each)
    one_memory = min(max_buffer, max_allocation) / scratch if scratch else math.inf
    by_memory = min(one_memory, free / bytes_per_splat(each))
    apart = free / sum(need.total for need in each.values())  # where one memory is too large
    return max(0, int(min(by_allocation, max(by_memory, apart))))


def scratch(names: Iterable[str]) -> set[str]:
    """Names of buffers and images whose contents no step may take from the one before."""
    found = set(names)
    # The photograph of a step is fetched in it, where `photographs` has all of them.
    return found - KEPT | (found & {"photos"} if "photographs" in found else set())


def purposes() -> dict[str, tuple[str, ...]]:
    """Names of buffers, images and planes by what they are for."""
    kinds = quantities.ORDER
    planes = {
        "parameters": tuple(name for kind in kinds for name in quantities.values(kind)),
        "optimizer": (
            *(name for kind in kinds for name in quantities.moments(kind)),
            *quantities.averages(),
        ),
        "gradients": tuple(n for kind in kinds for n in quantities.gradients(kind, stored=True)),
    }
    return {name: (*planes.get(name, ()), *words.split()) for name, words in _PURPOSES.items()}


PURPOSES = tuple(_PURPOSES)


def by_purpose(nbytes: Mapping[str, int]) -> dict[str, int]:
    """Bytes by purpose from bytes by name. Names that have no purpose are `other`."""
    out = {
        purpose: sum(nbytes.get(name, 0) for name in names) for purpose, names in purposes().items()
    }
    return out | {"other": sum(nbytes.values()) - sum(out.values())}
