"""What photographs and cameras have: poses, exposure, depth."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

# Refinement of poses and intrinsics: what a photograph's camera gets from the splats.

POSE = Subsystem(
    "pose",
    "gradients of cameras",
    buffers=(
        BufferSpec(
            162,
            "camera_sums",
            "float",
            ("groups", 9),
            "over the visible splats of a workgroup: dL/d shift of all splats (3) and "
            "turn of them about the camera (3), world frame; dL/d log focal length, dL/d "
            "centre (2)",
        ),
    ),
    uses=("core",),
)

# Exposure and colour of photographs: what the loss compares instead of the rendered image.
EXPOSURE = Subsystem(
    "exposure",
    "exposure and colour of photographs",
    constants={
        "EXPOSURE_SUMS": Constant(
            52,
            "uint",
            "numbers that a workgroup sums for the gradient of exposure at most, in "
            "whole rounds of shaders/photographs/exposure/sum_all.glsl",
        )
    },
    buffers=(
        BufferSpec(
            160,
            "exposure_sums",
            "float",
            ("pixel groups", 52),
            "gradients of exposure and colour, summed over a workgroup; row by row over "
            "the tiles of camera.size",
        ),
    ),
    uses=("image",),
)

# Depth of photographs: what is known of it, and what the splats show of it.
DEPTH = Subsystem(
    "depth",
    "depth of photographs",
    structs={
        "DepthSettings": (
            Field("weight", "float", "of the mean absolute difference of disparities at step 0"),
            Field("last", "float", "at step `until`, reached exponentially"),
            Field("until", "uint", "steps"),
            Field("extent", "float", "disparities are the scene's extent, world units, over depth"),
        ),
        "KeptFrame": (
            Field("background", "vec3", "of the frame, while depth is drawn over black"),
        ),
    },
    buffers=(
        BufferSpec(
            163,
            "depth_settings",
            "DepthSettings",
            (1,),
            "what the loss of depth goes by",
            single=True,
        ),
        BufferSpec(
            164,
            "disparities",
            "uint",
            ("photograph bytes",),
            "two float16 a word, at the places of `photos`: extent over depth, 0 where "
            "none is known",
        ),
        BufferSpec(
            165,
            "depth_shares",
            "float",
            ("views",),
            "one over the pixels of each photograph whose disparity is known; 0 where "
            "there is none",
        ),
        BufferSpec(
            166,
            "kept_colors",
            "vec3",
            ("splats",),
            "colours of visible splats, while depth stands in their place",
        ),
        BufferSpec(
            167,
            "kept_frame",
            "KeptFrame",
            (1,),
            "what of the frame is something else while depth is drawn",
            single=True,
        ),
        BufferSpec(
            168, "d_depths", "float", ("splats",), "of visible splats: dL/d depth, per world unit"
        ),
    ),
    uses=("image",),
)
