"""The sort, and the lists of the tiled rasterizer."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

# The tiled rasterizer: pairs of tile and splat, and what its backward pass restarts from.

TILES = Subsystem(
    "tiles",
    "lists of splats by tile",
    constants={
        "NO_TILE": Constant(0xFFFFFFFF, "uint", "of a bucket that the backward pass leaves out")
    },
    structs={
        # Visible splats in depth order, in loads of 16 bytes, so that what follows the sort reads
        # neighbours. Two structs, since a buffer of both would pass the largest allocation of
        # common drivers (4 GiB) at fewer than 100 million splats.
        "TileSplat": (
            Field(
                "mean_conic", "vec4", "mean, px; A and k of the conic, A for exponents of base 2"
            ),
            Field("conic_color", "vec4", "c of the conic, like A; color"),
        ),
        "TileReach": (
            Field("peak", "float", "exponent of base 2 of the opacity"),
            Field("cutoff", "float", "what is subtracted from it at alpha = 1/255"),
            Field("splat", "uint", "its index in splats2d"),
            Field(
                "first",
                "uint",
                "pairs of tile and splat that others of its group have before it; where "
                "tiles sort their own its depth key",
            ),
        ),
    },
    buffers=(
        BufferSpec(
            50,
            "tile_splats",
            "TileSplat",
            ("visible",),
            "visible splats as the tiles take them: nearest first, or, where tiles sort "
            "their own, as in splats2d",
        ),
        BufferSpec(51, "tile_reaches", "TileReach", ("visible",), "the rest of them"),
        BufferSpec(
            186,
            "tile_spans",
            "uvec4",
            ("visible",),
            "the tiles that they touch, where lists are in order; see "
            "shaders/tiled/lists/spans.glsl",
        ),
        BufferSpec(
            52,
            "pair_sums",
            "uint",
            ("groups",),
            "pairs of each GROUP visible splats, then of all before them; behind the "
            "last their sum",
        ),
        BufferSpec(
            53,
            "pair_tiles",
            "uint",
            ("pairs",),
            "tile of every pair of tile and splat, by depth; then sort scratch",
        ),
        BufferSpec(54, "pair_tiles_alt", "uint", ("pairs",), "sort scratch"),
        BufferSpec(
            55,
            "pair_splats",
            "uint",
            ("pairs",),
            "rank of the splat of every pair, an index into tile_splats",
        ),
        BufferSpec(56, "pair_splats_alt", "uint", ("pairs",), "sort scratch"),
        BufferSpec(
            57,
            "pair_records",
            "float",
            ("pairs", "subgroups", 9),
            "what a subgroup of the backward pass adds to d_splats2d, by pair",
        ),
        BufferSpec(
            58,
            "pair_subgroups",
            "uint",
            ("pairs",),
            "bit s: the record of subgroup s is of this frame",
        ),
        BufferSpec(
            59, "pair_digits", "uint", (2, 256, "pair blocks"), "digit_counts of the sort of pairs"
        ),
        BufferSpec(
            60, "tile_starts", "uint", ("tiles",), "first pair of every tile, then their number"
        ),
        BufferSpec(
            61,
            "tile_order",
            "uint",
            ("tiles",),
            "tiles as workgroups take them: those with most pairs first",
        ),
        BufferSpec(
            62,
            "checkpoints",
            "vec4",
            ("buckets", 256),
            "colour and T of every pixel of a tile in front of a bucket of its splats",
        ),
        BufferSpec(
            63,
            "reaches",
            "uint",
            ("tiles", "subgroups"),
            "buckets that a subgroup of the forward pass visited before its pixels were finished",
        ),
        BufferSpec(
            182,
            "bucket_tiles",
            "uint",
            ("buckets",),
            "tile of every bucket of splats; NO_TILE where its pixels are finished "
            "before it, or it has no splats",
        ),
        BufferSpec(
            118,
            "tile_changes",
            "int",
            ("tiles",),
            "along each row of tiles, and a place behind it: splats that begin there "
            "less those that end; zero between frames",
        ),
        BufferSpec(116, "tile_cursors", "uint", ("tiles",), "where the next pair of a tile goes"),
        BufferSpec(
            117, "pair_keys", "uvec2", ("pairs",), "splat and depth key of every pair, by tile"
        ),
    ),
    uses=("splats", "sort"),
)

# The radix sort: keys, values and scratch.
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
        BufferSpec(
            20,
            "keys",
            "uint",
            ("splats",),
            "depth as ordered bits from the near plane on, or NOT_VISIBLE; then sort scratch",
        ),
        BufferSpec(21, "keys_alt", "uint", ("splats",), "sort scratch"),
        BufferSpec(22, "order", "uint", ("splats",), "visible splats, nearest first"),
        BufferSpec(23, "order_alt", "uint", ("splats",), "sort scratch"),
        BufferSpec(
            24,
            "digit_counts",
            "uint",
            (2, 256, "sort blocks"),
            "keys per digit and block, then their running sums; for this digit and for the next",
        ),
        BufferSpec(25, "digit_totals", "uint", (256,), "keys per digit"),
    ),
    uses=("core",),
)
