"""Which splats every tile has, nearest first: two ways to list them.

In order: splats are sorted by depth once, pairs are listed in that order, and a stable sort of them
by tile alone keeps it. It drops the farthest pairs where not all fit, and knows a pair
by the rank of its splat, which gathered gradients need. Local: pairs of tile and splat go to their
tiles in any order, and every tile sorts its own by depth in shared memory. Four passes, for devices
with narrow subgroups: a CPU takes 22 ms a step for 31, an H200 43 us more than in order
(docs/results/speed.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.projection import Projection
from hardsplat.raster.core.sort import BLOCK, RADIX, WIDE, digit_passes, record_sort
from hardsplat.tables.gradients import TileBackward

GROUP, TILE = contract.CONSTANTS["GROUP"], contract.CONSTANTS["TILE"]
_PACKED = ("tile_splats", "tile_reaches")
COUNTED = (*_PACKED, "tile_spans", "pair_sums")  # what splats in order are packed into, and counted
_BY_TILE = {"keys": "pair_tiles", "order": "pair_splats"}
_SORTED = {f"{name}{alt}": f"{by}{alt}" for name, by in _BY_TILE.items() for alt in ("", "_alt")}
_SORTED["digit_counts"] = "pair_digits"


def grid(width: int, height: int) -> tuple[int, int]:
    """Tiles that cover a canvas, across and down."""
    return -(-width // TILE), -(-height // TILE)


def digits(tiles: int) -> tuple[int, int]:
    """How many digits sort tile numbers, and their bits: as few digits of at most 7 bits as there
    can be, alike in length. 8 bits take 27 KiB of shared memory."""
    length = max(1, (tiles - 1).bit_length())
    n = -(-length // 7)
    return n, -(-length // n)


def is_local(row: TileBackward, lanes: int) -> bool:
    """Whether tiles sort their own splats: where that is faster, and nothing needs the rank of a
    splat. lanes: of a subgroup."""
    return lanes < WIDE and not row.gathers


def count_pass(in_order: bool = True, lists: bool = True) -> ComputePass:
    """Packs splats for the tiles and counts their pairs. lists: else it packs splats again whose
    lists are there."""
    reads = ("camera", "counts", "splats2d", "colors2d")
    if in_order:
        return ComputePass("tile count", "tiled/lists/count.comp", (*reads, "order"), COUNTED)
    name, spec = ("tile count", {}) if lists else ("tile pack", {"LISTS": False})
    writes = (*_PACKED, "tile_changes", "counts")
    more = ("keys", "tile_changes")
    return ComputePass(name, "tiled/lists/local_count.comp", (*reads, *more), writes, spec)


def list_passes(
    in_order: bool, tiles: int, share: Mapping[str, int], lanes: int, whole: bool = False
) -> list[ComputePass]:
    """From packed splats to tile_starts, pair_splats and tile_order. tiles: of the canvas. share:
    specialization constants of buckets. lanes: of a subgroup. whole: lists have all pairs or
    none."""
    if in_order:
        reads, writes = ("camera", "counts", "pair_sums"), ("counts", "indirect")
        spec = {**share, "WHOLE": whole}
        total = ComputePass("tile sum", "tiled/lists/sum.comp", reads, (*writes, "pair_sums"), spec)
        return [total, *sorted_lists(tiles, lanes)]
    starts = ("tile_starts", "tile_cursors", "tile_order", "tile_changes", "counts", "indirect")
    return [
        ComputePass(
            "tile starts",
            "tiled/lists/local_starts.comp",
            ("camera", "counts", "tile_changes", "tile_starts"),
            starts,
            share,
        ),
        ComputePass(
            "tile emit",
            "tiled/lists/local_emit.comp",
            ("camera", "counts", "keys", *_PACKED, "tile_starts", "tile_cursors"),
            ("tile_cursors", "pair_keys"),
        ),
        ComputePass(
            "tile sort",
            "tiled/lists/local_sort.comp",
            ("camera", "tile_starts", "tile_order", "pair_keys"),
            ("pair_keys", "pair_splats"),
            {"LANES": lanes},
            full_subgroups=True,
        ),
        count_pass(in_order, lists=False),
    ]


def sorted_lists(tiles: int, lanes: int) -> list[ComputePass]:
    """Pairs of all splats, nearest first, sorted by the digits of their tiles, of which a canvas
    has so many."""
    n, bits = digits(tiles)
    # the last digit leaves its result in pair_splats
    other = {"pair_splats": "pair_splats_alt"} if n % 2 else {}
    emit = ComputePass(
        "tile emit",
        "tiled/lists/emit.comp",
        ("camera", "counts", *COUNTED),
        ("pair_tiles", "pair_splats", "digit_counts", "tile_starts"),
        {"BITS": bits},
        bind={"digit_counts": "pair_digits", **other},
        full_subgroups=True,
    )
    last: dict[str, Any] = {"arrived": "tiled/lists/arrived_starts.glsl", "noted": ("tile_starts",)}
    passes = [emit]
    for digit in range(n):
        more = last if digit == n - 1 else {}
        passes += digit_passes(
            "tile sort", digit, n, bind=_SORTED, counted=digit == 0, lanes=lanes, bits=bits,
            PAIRS=True, **more,
        )  # fmt: skip
    reads, writes = ("camera", "counts", "tile_starts"), ("tile_starts", "tile_order")
    return [*passes, ComputePass("tile order", "tiled/lists/order.comp", reads, writes)]


def counted_bytes(capacity: int) -> dict[str, int]:
    """Bytes of COUNTED, by buffer."""
    sums = {"pair_sums": -(-capacity // GROUP) + 1}
    return contract.nbytes({**dict.fromkeys(COUNTED, capacity), **sums})


def splat_bytes(in_order: bool, capacity: int, width: int, height: int) -> dict[str, int]:
    """Bytes of what depends on the splats and the tiles, by buffer."""
    across, down = grid(width, height)
    tiles = across * down
    sizes = {"tile_starts": tiles + 1, "tile_order": tiles}
    if in_order:
        return contract.nbytes(sizes) | counted_bytes(capacity)
    sizes |= dict.fromkeys(_PACKED, capacity)
    return contract.nbytes({**sizes, "tile_changes": (across + 1) * down, "tile_cursors": tiles})


def pair_bytes(in_order: bool, pairs: int) -> dict[str, int]:
    """Bytes of so many pairs, by buffer."""
    if not in_order:
        return contract.nbytes({"pair_splats": pairs, "pair_keys": pairs})
    sizes = dict.fromkeys(("pair_splats", "pair_tiles", "pair_tiles_alt", "pair_splats_alt"), pairs)
    return contract.nbytes({**sizes, "pair_digits": 2 * RADIX * (pairs // BLOCK + 1)})


def most_pairs(in_order: bool, reach: int) -> int:
    """Pairs whose buffers a descriptor of so many bytes reaches."""
    return reach // contract.itemsize("pair_splats" if in_order else "pair_keys")


def record_counts(
    recorder: Recorder, run: Mapping[str, Pipeline], projection: Projection, count: str
) -> None:
    """Projected splats -> how many pairs there are, and where those of each splat or tile begin.
    count: the pass that packs the splats."""
    recorder.run(run[count], indirect="visible_groups" if projection.in_order else "splat_groups")
    recorder.run(run["tile sum" if projection.in_order else "tile starts"], threads=(GROUP,))


def record_lists(
    recorder: Recorder, run: Mapping[str, Pipeline], projection: Projection, tiles: int
) -> None:
    """What record_counts leaves -> the tiles' lists."""
    if not projection.in_order:
        recorder.run(run["tile emit"], indirect="splat_groups")
        recorder.run(run["tile sort"], threads=(tiles * GROUP,))
        return
    recorder.run(run["tile emit"], indirect="pair_blocks")
    record_sort(recorder, run, "tile sort", *digits(tiles), "pair_blocks", "pair_blocks")
    recorder.run(run["tile order"], threads=(GROUP,))


def record_packed(
    recorder: Recorder, run: Mapping[str, Pipeline], projection: Projection, image: str = ""
) -> None:
    """Splats whose colours alone are others than those that were listed, or those of another
    image."""
    in_order = projection.in_order
    packs = run[f"tile count{image}" if in_order else "tile pack"]
    recorder.run(packs, indirect="visible_groups" if in_order else "splat_groups")
