"""What photographs and cameras have: poses, exposure, depth."""

from hardsplat.contract.layout import subsystem

# Refinement of poses and intrinsics: what a photograph's camera gets from the splats.
POSE = subsystem(
    "pose",
    "gradients of cameras",
    uses=("core",),
    buffers={
        "162 float camera_sums[groups][9]": "over the visible splats of a workgroup: dL/d shift of "
        "all splats (3) and turn of them about the camera (3), world frame; dL/d log focal "
        "length, dL/d centre (2)"
    },
)

# Exposure and colour of photographs: what the loss compares instead of the rendered image.
EXPOSURE = subsystem(
    "exposure",
    "exposure and colour of photographs",
    uses=("image",),
    constants={
        "uint EXPOSURE_SUMS = 52": "numbers that a workgroup sums for the gradient of exposure at "
        "most, in whole rounds of shaders/photographs/exposure/sum_all.glsl"
    },
    buffers={
        "160 float exposure_sums[pixel groups][52]": "gradients of exposure and colour, summed "
        "over a workgroup; row by row over the tiles of camera.size"
    },
)

# Depth of photographs: what is known of it, and what the splats show of it.
DEPTH = subsystem(
    "depth",
    "depth of photographs",
    uses=("image",),
    structs={
        "DepthSettings": {
            "float weight": "of the mean absolute difference of disparities at step 0",
            "float last": "at step `until`, reached exponentially",
            "uint until": "steps",
            "float extent": "disparities are the scene's extent, world units, over depth",
        },
        "KeptFrame": {"vec3 background": "of the frame, while depth is drawn over black"},
    },
    buffers={
        "163 DepthSettings depth_settings": "settings of the loss of depth",
        "164 uint disparities[photograph bytes]": "two float16 a word, at the places of `photos`: "
        "extent over depth, 0 where none is known",
        "165 float depth_shares[views]": "one over the pixels of each photograph whose disparity "
        "is known; 0 where there is none",
        "166 vec3 kept_colors[splats]": "colours of visible splats, while depth stands in their "
        "place",
        "167 KeptFrame kept_frame": "what of the frame is something else while depth is drawn",
        "168 float d_depths[splats]": "of visible splats: dL/d depth, per world unit",
    },
)
