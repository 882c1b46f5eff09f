"""Depth of photographs: what is known of it, and what the splats show of it."""

from hardsplat.contract.layout import BufferSpec, Field, Subsystem

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
        "KeptFrame": (Field("background", "vec3", "of the frame, while depth is drawn over black"),),
    },
    buffers=(
        BufferSpec(163, "depth_settings", "DepthSettings", (1,), "what the loss of depth goes by", single=True),
        BufferSpec(164, "disparities", "uint", ("photograph bytes",), "two float16 a word, at the places of `photos`: extent over depth, 0 where none is known"),
        BufferSpec(165, "depth_shares", "float", ("views",), "one over the pixels of each photograph whose disparity is known; 0 where there is none"),
        BufferSpec(166, "kept_colors", "vec3", ("splats",), "colours of visible splats, while depth stands in their place"),
        BufferSpec(167, "kept_frame", "KeptFrame", (1,), "what of the frame is something else while depth is drawn", single=True),
        BufferSpec(168, "d_depths", "float", ("splats",), "of visible splats: dL/d depth, per world unit"),
    ),
    uses=("image",),
)
