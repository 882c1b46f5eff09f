"""GPU radix sort of one depth key of 28 bits per visible splat; the count stays on the GPU.

Least significant digit first, 4 digits of 7 bits (Satish, Harris & Garland, "Designing Efficient
Sorting Algorithms for Manycore GPUs", IPDPS 2009). Stable, so ties break by splat index. The first
digit's passes read all splats and drop the culled ones, which is the compaction.

A digit is reduce, then scan, then scatter (Merrill & Grimshaw, "High Performance and Scalable Radix
Sorting", Parallel Processing Letters 2011). The scatter also counts the next digit, if that has
many values: atomics on few addresses wait for one another (63 us for 22 on an H200). So the last
digit, that of the exponent, has a pass that counts, as the first one has. No subgroups are assumed
unless `lanes` says how many they have.

Or, where SWEEPS is set and subgroups are wide, a digit is one pass, `sweep`, whose workgroups tell
each other their counts while they run. Digits of all keys are counted by the pass before. No
forward progress is assumed: a workgroup that waits too long counts for others. In chained look-back
(Merrill & Garland 2016) a block waits for the one before it. Where all blocks run at once, that
chain takes as long as the passes that it saves; here all tell first, in sums of 32 and 1024 blocks.

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
TOTALS = 8 * RADIX  # numbers of digit_totals
WIDE = 32  # lanes of a subgroup from which keys are ranked by ballots
SWEEPS = False  # a digit is one pass, with wide subgroups; off until a GPU has timed it
_DIGITS, BITS = 4, 7  # KEY_BITS in all
_COUNTED = 3  # digits below this one are counted by the scatter of the one before
_SWAP = {"keys": "keys_alt", "keys_alt": "keys", "order": "order_alt", "order_alt": "order"}


def digit_passes(
    name: str,
    digit: int,
    digits: int,
    bind: dict[str, str] | None = None,
    command: Mapping[str, int] = {},
    lanes: int = 0,
    bits: int = BITS,
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
    if sweeps(lanes):
        spec["SLOT"] = digit + (contract.CONSTANTS["PAIR_SLOT"] if spec.get("PAIRS") else 0)
    count, totals = ("digit_counts",), ("digit_counts", "digit_totals")
    last, slots = {**command, "LAST": digit == digits - 1}, {"arrived": arrived}
    if wide := lanes >= WIDE:
        last["SEGMENT"] = lanes
    following = {**spec, "NEXT": counts_next}
    moved = ("counts", "indirect", "keys_alt", "order_alt")
    if sweeps(lanes):
        told = {"told": "sort/told_totals.glsl"}
        passes = [
            ComputePass(
                f"{name} count {digit}", "sort/count.comp", ("counts", "keys", "digit_totals"),
                totals, spec, told,
            ),
            ComputePass(
                f"{name} sweep {digit}", "sort/sweep.comp",
                ("counts", "keys", "order", *totals, *noted), (*moved, *totals, *noted),
                {**spec, **last}, slots, full_subgroups=True,
            ),
        ]  # fmt: skip
        return [replace(p, bind=bind) for p in passes[counted or digit > 0 :]]
    passes = [
        ComputePass(
            f"{name} count {digit}", "sort/count.comp", ("counts", "keys"), count, spec,
            {"told": "sort/told_blocks.glsl"},
        ),
        ComputePass(
            f"{name} scan {digit}", "sort/scan.comp", ("counts", *count), totals, following
        ),
        ComputePass(
            f"{name} scatter {digit}", "sort/scatter.comp",
            ("counts", "keys", "order", *totals, *noted), (*moved, *count, *noted),
            {**following, **last},
            {"rank": f"sort/rank_{'ballots' if wide else 'masks'}.glsl", **slots},
            full_subgroups=wide,
        ),
    ]  # fmt: skip
    return [replace(p, bind=bind) for p in passes[counted:]]


def sweeps(lanes: int) -> bool:
    """Whether a digit is one pass. lanes: of a subgroup."""
    return SWEEPS and lanes >= WIDE


def sizes_pass(ready: bool = False) -> ComputePass:
    """Work sizes of a frame. ready: and digit_totals of the sort by depth, for sweeps."""
    slots, totals = ({"totals": "sort/no_totals.glsl"}, ("digit_totals",)) if ready else ({}, ())
    writes = ("counts", "indirect", *totals)
    return ComputePass(
        "sizes", "sort/sizes.comp", ("counts",), writes, slots=slots, apart=("indirect",)
    )


def sort_passes(command: Mapping[str, int] = {}, lanes: int = 0) -> list[ComputePass]:
    """command: the draw that the visible splats are for, see app/hardsplat/tables/hardware.py; by
    default a list of six vertices a splat.

    lanes: of a subgroup, on a device that can count ballots; 0 for any device."""
    passes = [sizes_pass(sweeps(lanes))]
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
    counts = {"digit_counts": 2 * RADIX * (-(-splats // BLOCK) + 1), "digit_totals": TOTALS}
    return contract.nbytes({**dict.fromkeys(keys, splats), **counts})


def record_sort(
    recorder: Recorder,
    run: Mapping[str, Pipeline],
    name: str = "sort",
    digits: int = _DIGITS,
    bits: int = BITS,
    first: str = "splat_blocks",
    others: str = "visible_blocks",
    counted: bool = False,
) -> None:
    """keys (destroyed), counts, indirect.splat_blocks -> order[:visible], counts.visible,
    indirect.visible_blocks, indirect.visible_groups, indirect.draw.

    name, digits, bits: of other passes than SORT_PASSES, whose work is in `first` for the first
    digit and `others` for the rest. counted: the first digit is.
    """
    for digit in range(digits):
        blocks = others if digit else first
        if f"{name} count {digit}" in run and not (counted and digit == 0):
            recorder.run(run[f"{name} count {digit}"], indirect=blocks)
        if f"{name} sweep {digit}" in run:
            recorder.run(run[f"{name} sweep {digit}"], indirect=blocks)
            continue
        recorder.run(run[f"{name} scan {digit}"], threads=(contract.CONSTANTS["GROUP"] << bits,))
        recorder.run(run[f"{name} scatter {digit}"], indirect=blocks)
