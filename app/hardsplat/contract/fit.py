"""Image fits by 2D Gaussians."""

from hardsplat.contract.layout import BufferSpec, Constant, Subsystem

FIT = Subsystem(
    "fit",
    "2D Gaussians of an image fit",
    constants={
        "BLOB": Constant(9, "uint", "numbers of a 2D Gaussian, see blobs"),
        "RATE_CENTER": Constant(0, "uint", "rate_plans of an image fit: px"),
        "RATE_SCALES": Constant(1, "uint", "log px"),
        "RATE_ANGLE": Constant(2, "uint", "rad"),
        "RATE_COLOR": Constant(3, "uint", "0..1"),
        "RATE_OPACITY": Constant(4, "uint", "logit"),
    },
    buffers=(
        BufferSpec(
            120,
            "blobs",
            "float",
            (9, "blobs"),
            "planes of counts.capacity: centre (2, px), log standard deviations along both axes (2, log px), angle of the first (rad), color (3), logit opacity",
        ),
        BufferSpec(121, "d_blobs", "float", (9, "blobs"), "dL/d blobs"),
        BufferSpec(122, "adam_blobs", "float", (2, 9, "blobs"), "first moments, then second moments"),
    ),
    uses=("splats", "train"),
)
