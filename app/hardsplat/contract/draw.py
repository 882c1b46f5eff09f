"""The image, the draws of the hardware rasterizer, and lists of fragments."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, ImageSpec, Subsystem

# The draws of the hardware rasterizer: what blending carries per pixel.

DRAW = Subsystem(
    "draw",
    "per-pixel state of draws",
    buffers=(
        BufferSpec(
            45,
            "blocks",
            "uvec4",
            ("segments", "pixels"),
            "state of a draw of blocks, (D, T) a pixel: those of a block together, "
            "packed in the state format",
        ),
    ),
    images=(
        ImageSpec(
            46,
            "layers",
            "`target` of each depth segment by itself, one below the other, nearest first",
        ),
        ImageSpec(
            47,
            "state",
            "what blending carries per pixel: colour and transmittance; the canvases of "
            "depth segments one below the other",
        ),
        ImageSpec(
            48,
            "unfinished",
            "depth: 1 where a block of a depth segment is still seen, 0 where those in "
            "front have finished its pixels",
        ),
    ),
    uses=("image",),
)

# Lists of fragments by block of pixels, in order of depth once they are sorted.
FRAGMENTS = Subsystem(
    "fragments",
    "lists of fragments by block of pixels and depth segment",
    constants={
        "NO_FRAGMENT": Constant(
            0xFFFFFFFF, "uint", "behind the last fragment of a list, and the rank of no splat"
        )
    },
    structs={
        "FragmentList": (
            Field(
                "first",
                "uint",
                "its first fragment in `fragments`: the one that came last, and the "
                "nearest once they are in order",
            ),
            Field(
                "seen",
                "float",
                "the largest transmittance of the block's pixels in front of the segment",
            ),
        ),
        "Fragment": (
            Field("rank", "uint", "of its splat among the visible ones, nearest first"),
            Field("next", "uint", "the fragment behind it in the list"),
        ),
    },
    buffers=(
        BufferSpec(
            184,
            "fragment_lists",
            "FragmentList",
            ("segments", "pixels"),
            "a list for each block of each depth segment",
        ),
        BufferSpec(
            185, "fragments", "Fragment", ("pairs",), "the fragments of all lists, as they came"
        ),
    ),
    uses=("core",),
)

# The rendered image and its gradient, which rasterizers and losses share.
IMAGE = Subsystem(
    "image",
    "the rendered image and its gradient",
    images=(
        ImageSpec(
            40,
            "target",
            "rendered colour without background, premultiplied, and final transmittance in alpha",
        ),
        ImageSpec(
            41,
            "d_image",
            "dL/d(rgb, unused); a draw of blocks has its product with the finished pixel in alpha",
        ),
    ),
    uses=("core",),
)
