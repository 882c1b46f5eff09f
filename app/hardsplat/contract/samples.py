"""Order-free gradients: which splats the samples of a pixel see."""

from hardsplat.contract.layout import BufferSpec, Constant, ImageSpec, Subsystem

SAMPLES = Subsystem(
    "samples",
    "splats seen by samples",
    constants={
        "DEPTH_STEP": Constant(2.0**-30, "float", "depth from one splat to the next behind it: ranks below 2^24 are told apart, and the last is before the far plane"),
        "RANK_BITS": Constant(24, "uint", "bits of a rank"),
        "NOTHING": Constant(2**24 - 1, "uint", "the rank that a sample finds which accepts no splat"),
    },
    buffers=(
        BufferSpec(
            49,
            "sample_ranks",
            "uint",
            ("segments", "pixels"),
            "of each sample: the rank of the nearest splat of a depth segment that it accepts, block by block; before, NOTHING and "
            "above its bits the transmittance in front of the segment",
        ),
        BufferSpec(66, "sample_rank_vectors", "uvec4", ("segments", "pixels"), "sample_ranks, four at a time"),
        BufferSpec(64, "samples", "uvec4", ("segments", "pixels"), "what the samples of each pixel see of a depth segment and what is known of it, packed in the state format"),
    ),
    images=(
        ImageSpec(42, "sample_depths", "depth of what the samples see, the rank of the splat in steps"),
        ImageSpec(43, "nearest", "of each sample: 1 + the rank of the nearest splat that it accepts, 0 for the background", numbers=True),
        ImageSpec(44, "next", "of each sample: the same of the nearest behind that one", numbers=True),
    ),
    uses=("core",),
)
