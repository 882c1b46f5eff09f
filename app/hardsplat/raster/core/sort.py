"""GPU radix sort of one depth key of 28 bits per visible splat; the count stays on the GPU.

Least significant digit first, 4 digits of 7 bits, each scan / scatter (Satish, Harris & Garland,
"Designing Efficient Sorting Algorithms for Manycore GPUs", IPDPS 2009). The order is reduce, then
scan (Merrill & Grimshaw, "High Performance and Scalable Radix Sorting", Parallel Processing Letters
2011). The pass that orders keys by one digit also counts the next one, if that has many values.
Atomics on few addresses wait for one another (63 us for 22 on an H200). So the last digit, that of
the exponent, has a pass that counts, as the first one has.
Stable, so ties break by splat index; no assumption on forward progress, and none on subgroups
unless `lanes` says how many they have. The first digit's passes read all splats and drop the culled
ones, which is the compaction.

Memory: 16 bytes a splat of keys and values, and 2 KiB of counts per 1024 splats (2 bytes a splat).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, Pipeline

RADIX = contract.CONSTANTS["RADIX"]
BLOCK = contract.CONSTANTS["GROUP"] * contract.CONSTANTS["SORT_ROWS"]
WIDE = 32  # lanes of a subgroup from which keys are ranked by ballots
_DIGITS, _BITS = 4, 7  # KEY_BITS in all
_COUNTED = 3  # digits below this one are counted by the scatter of the one before
_SWAP = {"keys": "keys_alt", "keys_alt": "keys", "order": "order_alt", "order_alt": "order"}


def digit_passes(
    name: str,
    digit: int,
    digits: int,
    bind: dict[str, str] | None = None,
    command: Mapping[str, int] = {},
    lanes: int = 0,
    bits: int = _BITS,
    counted: bool = False,
    counts_next: bool = False,
    arrived: str = "",
    noted: tuple[str, ...] = (),
    **spec: int,
) -> list[ComputePass]:
    """The passes of one of `digits` digits of so many bits. bind: resources for the buffers of the
    sort. Even digits go from keys to keys_alt, odd ones back; the last one leaves the order in
    `order`. counted: another pass counted this digit. counts_next: its last pass counts the next
    one. command, lanes: as of sort_passes. arrived: what notes in the buffers `noted` where keys
    went, if anything does."""
    names = {each: (bind or {}).get(each, each) for each in (*_SWAP, "digit_counts")}
    turned = {"keys": digit % 2 == 1, "order": (digits - digit) % 2 == 1}
    named = {
        each: names[_SWAP[each] if each in _SWAP and turned[each.removesuffix("_alt")] else each]
        for each in names
    }
    bind = {each: actual for each, actual in named.items() if each != actual}
    spec = {"SHIFT": bits * digit, "BITS": bits, "TURN": digit % 2, **spec}
    following, wide = {**spec, "NEXT": counts_next}, lanes >= WIDE
    count, totals = ("digit_counts",), ("digit_counts", "digit_totals")
    passes = [
        ComputePass(f"{name} count {digit}", "sort/count.comp", ("counts", "keys"), count, spec),
        ComputePass(
            f"{name} scan {digit}", "sort/scan.comp", ("counts", *count), totals, following
        ),
        ComputePass(
            f"{name} scatter {digit}",
            "sort/scatter.comp",
            ("counts", "keys", "order", *totals, *noted),
            ("counts", "indirect", "keys_alt", "order_alt", *count, *noted),
            {
                **following,
                **command,
                "LAST": digit == digits - 1,
                **({"SEGMENT": lanes} if wide else {}),
            },
            {"rank": f"sort/rank_{'ballots' if wide else 'masks'}.glsl", "arrived": arrived},
            full_subgroups=wide,
        ),
    ]
    return [replace(p, bind=bind) for p in passes[counted:]]


def sort_passes(command: Mapping[str, int] = {}, lanes: int = 0) -> list[ComputePass]:
    """command: the draw that the visible splats are for, see app/hardsplat/tables/hardware.py; by
    default a list of six vertices a splat.

    lanes: of a subgroup, on a device that can count ballots; 0 for any device."""
    reads, writes = ("counts",), ("counts", "indirect")
    sizes = ComputePass("sizes", "sort/sizes.comp", reads, writes, disjoint=("indirect",))
    passes = [sizes]
    for d in range(_DIGITS):
        passes += digit_passes(
            "sort",
            d,
            _DIGITS,
            command={} if d else command,
            lanes=lanes,
            counted=0 < d < _COUNTED,
            counts_next=d + 1 < _COUNTED,
            FIRST=d == 0,
        )
    return passes


def ranking_lanes(device: Device) -> int:
    """`lanes` of sort_passes on this device."""
    return device.subgroup_size if "subgroup_tiles" in device.capabilities else 0


SORT_PASSES = sort_passes()


def sort_bytes(splats: int) -> dict[str, int]:
    """Bytes of keys, order and scratch for so many splats, by buffer."""
    keys = ("keys", "keys_alt", "order", "order_alt")
    counts = {"digit_counts": 2 * RADIX * -(-splats // BLOCK), "digit_totals": RADIX}
    return contract.nbytes({**dict.fromkeys(keys, splats), **counts})


def record_sort(
    recorder: Recorder,
    run: Mapping[str, Pipeline],
    name: str = "sort",
    digits: int = _DIGITS,
    bits: int = _BITS,
    first: str = "splat_blocks",
    others: str = "visible_blocks",
) -> None:
    """keys (destroyed), counts, indirect.splat_blocks -> order[:visible], counts.visible,
    indirect.visible_blocks, indirect.visible_groups, indirect.draw.

    name, digits, bits: of other passes than SORT_PASSES, whose work is in `first` for the first
    digit and `others` for the rest.
    """
    for digit in range(digits):
        blocks = others if digit else first
        if f"{name} count {digit}" in run:
            recorder.run(run[f"{name} count {digit}"], indirect=blocks)
        recorder.run(run[f"{name} scan {digit}"], threads=(contract.CONSTANTS["GROUP"] << bits,))
        recorder.run(run[f"{name} scatter {digit}"], indirect=blocks)
