"""The radix sort: keys, values and scratch."""

from hardsplat.contract.layout import BufferSpec, Constant, Subsystem

SORT = Subsystem(
    "sort",
    "keys and order of splats",
    constants={
        "NOT_VISIBLE": Constant(0xFFFFFFFF, "uint", "depth key of a culled splat"),
        "SORT_ROWS": Constant(4, "uint", "keys per thread of a sort block: 1024 keys a block"),
        "KEY_BITS": Constant(28, "uint", "bits of a key that is not NOT_VISIBLE"),
        "RADIX": Constant(256, "uint", "values of a digit, at most"),
    },
    buffers=(
        BufferSpec(20, "keys", "uint", ("splats",), "depth as ordered bits from the near plane on, or NOT_VISIBLE; then sort scratch"),
        BufferSpec(21, "keys_alt", "uint", ("splats",), "sort scratch"),
        BufferSpec(22, "order", "uint", ("splats",), "visible splats, nearest first"),
        BufferSpec(23, "order_alt", "uint", ("splats",), "sort scratch"),
        BufferSpec(24, "digit_counts", "uint", (2, 256, "sort blocks"), "keys per digit and block, then their running sums; for this digit and for the next"),
        BufferSpec(25, "digit_totals", "uint", (256,), "keys per digit"),
    ),
    uses=("core",),
)
