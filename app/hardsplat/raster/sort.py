"""GPU radix sort of one 32-bit depth key per visible splat; the count stays on the GPU.

Least significant digit first, 4 passes of 8 bits, each count / scan / scatter: Satish, Harris & Garland, "Designing Efficient Sorting
Algorithms for Manycore GPUs" (IPDPS 2009), in the reduce-then-scan order of Merrill & Grimshaw, "High Performance and Scalable Radix
Sorting" (Parallel Processing Letters 2011). Stable, so ties break by splat index; no assumption on subgroup size or forward progress.
The first pass reads all splats and drops the culled ones, which is the compaction.

Memory: 16 bytes a splat of keys and values, and 1 KiB of counts per 2048 splats (0.5 bytes a splat).
"""

from __future__ import annotations

from collections.abc import Mapping

from hardsplat import contract
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder

RADIX = contract.CONSTANTS["RADIX"]
BLOCK = contract.CONSTANTS["GROUP"] * contract.CONSTANTS["SORT_ROWS"]
_DIGITS = 4
_SWAP = {"keys": "keys_alt", "keys_alt": "keys", "order": "order_alt", "order_alt": "order"}


def digit_passes(
    name: str, digit: int, digits: int, bind: dict[str, str] | None = None, swapped: bool | None = None, keys: bool = False, command: Mapping[str, int] = {}, **spec
) -> list[ComputePass]:
    """The three passes of one digit of `digits`. bind: resources for the buffers of the sort. Even digits go from keys to keys_alt, odd ones back,
    unless `swapped` says it: after an even number the order is in `order`. keys: the sorted keys are wanted too.
    command: as of sort_passes."""
    swap = digit % 2 == 1 if swapped is None else swapped
    names = {name: (bind or {}).get(name, name) for name in (*_SWAP, "digit_counts")}
    named = {name: names[_SWAP.get(name, name) if swap else name] for name in names}
    bind = {name: actual for name, actual in named.items() if name != actual}
    spec = {"SHIFT": 8 * digit, **spec}
    reads = ("counts", "keys", "order", "digit_counts", "digit_totals")
    last = {**spec, **command, "LAST": digit == digits - 1 and not keys}
    return [
        ComputePass(f"{name} count {digit}", "sort/count.comp", reads=("counts", "keys"), writes=("digit_counts",), spec=spec, bind=bind),
        ComputePass(f"{name} scan {digit}", "sort/scan.comp", reads=("counts", "digit_counts"), writes=("digit_counts", "digit_totals"), spec=spec, bind=bind),
        ComputePass(f"{name} scatter {digit}", "sort/scatter.comp", reads, ("counts", "indirect", "keys_alt", "order_alt"), last, bind=bind),
    ]


def sort_passes(command: Mapping[str, int] = {}) -> list[ComputePass]:
    """command: the draw that the visible splats are for, see app/hardsplat/variants/shapes.py; by default a list of six vertices a splat."""
    sizes = ComputePass("sizes", "sort/sizes.comp", reads=("counts",), writes=("counts", "indirect"))
    return [sizes, *(p for digit in range(_DIGITS) for p in digit_passes("sort", digit, _DIGITS, FIRST=digit == 0, command={} if digit else command))]


SORT_PASSES = sort_passes()


def sort_bytes(splats: int) -> dict[str, int]:
    """Bytes of keys, order and scratch for so many splats, by buffer."""
    blocks = -(-splats // BLOCK)
    sizes = {"keys": splats, "keys_alt": splats, "order": splats, "order_alt": splats, "digit_counts": RADIX * blocks, "digit_totals": RADIX}
    return {name: n * contract.itemsize(name) for name, n in sizes.items()}


def record_sort(recorder: Recorder, run: Mapping[str, Pipeline], name: str = "sort", digits: int = _DIGITS, first: str = "splat_blocks", others: str = "visible_blocks") -> None:
    """keys (destroyed), counts, indirect.splat_blocks -> order[:visible], counts.visible, indirect.visible_blocks, indirect.draw.

    name, digits: of other passes than SORT_PASSES, whose work is in `first` for the first digit and `others` for the rest.
    """
    for digit in range(digits):
        blocks = others if digit else first
        recorder.run(run[f"{name} count {digit}"], indirect=blocks)
        recorder.run(run[f"{name} scan {digit}"], threads=(RADIX * contract.CONSTANTS["GROUP"],))
        recorder.run(run[f"{name} scatter {digit}"], indirect=blocks)
