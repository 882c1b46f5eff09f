"""The image, the draws of the hardware rasterizer, and lists of fragments."""

from hardsplat.contract.layout import subsystem

# The draws of the hardware rasterizer: what blending carries per pixel.
DRAW = subsystem(
    "draw",
    "per-pixel state of draws",
    uses=("image",),
    buffers={
        "45 uvec4 blocks[segments][pixels]": "state of a draw of blocks, (D, T) a pixel: those of "
        "a block together, packed in the state format"
    },
    images={
        "46 layers": "`target` of each depth segment by itself, one below the other, nearest first",
        "47 state": "what blending carries per pixel: colour and transmittance; the canvases of "
        "depth segments one below the other",
        "48 unfinished": "depth: 1 where a block of a depth segment is still seen, 0 where those "
        "in front have finished its pixels",
    },
)

# Lists of fragments by block of pixels, in order of depth once they are sorted.
FRAGMENTS = subsystem(
    "fragments",
    "lists of fragments by block of pixels and depth segment",
    uses=("core",),
    constants={
        "uint NO_FRAGMENT = 0xFFFFFFFF": "behind the last fragment of a list, and the rank of no "
        "splat"
    },
    structs={
        "FragmentList": {
            "uint first": "its first fragment in `fragments`: the one that came last, and the "
            "nearest once they are in order",
            "float seen": "the largest transmittance of the block's pixels in front of the segment",
        },
        "Fragment": {
            "uint rank": "of its splat among the visible ones, nearest first",
            "uint next": "the fragment behind it in the list",
        },
    },
    buffers={
        "184 FragmentList fragment_lists[segments][pixels]": "a list for each block of each depth "
        "segment",
        "185 Fragment fragments[pairs]": "the fragments of all lists, as they came",
    },
)

# The sky: colours of directions behind all splats.
SKY = subsystem(
    "sky",
    "the sky behind the image",
    uses=("image", "splats"),
    buffers={
        "190 int sky_sums[texels][4]": "over the pixels of a step that see a texel, in fixed point "
        "and weighted by T: dL/d colour (3); 1, so how much of the texel is seen"
    },
)

# The rendered image and its gradient, which rasterizers and losses share.
IMAGE = subsystem(
    "image",
    "the rendered image and its gradient",
    uses=("core",),
    images={
        "40 target": "rendered colour without background, premultiplied, and final transmittance "
        "in alpha",
        "41 d_image": "dL/d(rgb) and T dL/dT of the final transmittance; a draw of blocks has s in "
        "alpha, its product with the finished pixel",
    },
)
