"""What every pass knows: the camera, the frame, how many splats there are and how much work that
is."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem

CORE = Subsystem(
    "core",
    "camera, frame, counts and work sizes",
    constants={
        "ALPHA_MIN": Constant(
            1.0 / 255.0,
            "float",
            "fragments fainter than one 8-bit step are skipped (Kerbl et al. 2023)",
        ),
        "ALPHA_MAX": Constant(
            0.99, "float", "keeps 1 / (1 - alpha) finite in the backward pass (Kerbl et al. 2023)"
        ),
        "T_MIN": Constant(
            1e-4, "float", "a pixel is finished below this transmittance (Kerbl et al. 2023)"
        ),
        "GROUP": Constant(256, "uint", "threads of a 1D workgroup"),
        "TILE": Constant(16, "uint", "side in pixels of a 2D workgroup"),
        "MAX_GROUPS_X": Constant(
            65535,
            "uint",
            "maxComputeWorkGroupCount guaranteed by Vulkan; larger dispatches fold into y",
        ),
        "LENS_PINHOLE": Constant(0, "uint", "a camera without distortion"),
        "LENS_PERSPECTIVE": Constant(
            1, "uint", "radial and tangential distortion, COLMAP's FULL_OPENCV"
        ),
        "LENS_FISHEYE": Constant(2, "uint", "equidistant, COLMAP's OPENCV_FISHEYE"),
        "HISTORY": Constant(
            4096, "uint", "steps kept in the rings of losses and of scheduled views"
        ),
    },
    structs={
        "Camera": (
            Field("world_to_camera", "vec4", "rows of [R | t]; OpenCV frame, world units", 3),
            Field("position", "vec3", "camera centre, world units"),
            Field("focal", "vec2", "px"),
            Field("centre", "vec2", "principal point, px from the top left corner"),
            Field("size", "uvec2", "image width and height, px"),
            Field("photo", "uint", "first pixel of the photograph in `photos`"),
            Field("number", "uint", "which of the scene's physical cameras took the photograph"),
            Field("lens", "uint", "how it distorts, one of the LENS_ constants"),
            Field(
                "reach",
                "float",
                "squared (x, y) / z from which on nothing is drawn; of distorting lenses alone",
            ),
            Field(
                "distortion",
                "vec4",
                "coefficients as OpenCV orders them: k1 k2 p1 p2, k3 k4 k5 k6; of "
                "fisheyes k1 k2 k3 k4",
                2,
            ),
        ),
        "Frame": (
            Field("background", "vec3", "colour behind everything, 0..1"),
            Field("near_plane", "float", "splats nearer than this are culled, world units"),
            Field("sh_degree", "uint", "highest SH band in use"),
            Field("step", "uint", "training step, counted from 0"),
            Field("view", "uint", "which of the training views is drawn"),
            Field("camera", "uint", "which of the scene's physical cameras took its photograph"),
            Field("bias1", "float", "Adam: 1 - beta1^n at update n, counted from 1"),
            Field("bias2", "float", "Adam: 1 - beta2^n at update n"),
            Field("seed", "uint", "seed of the run"),
        ),
        "Counts": (
            Field("splats", "uint", "splats alive"),
            Field("capacity", "uint", "splats that the parameters have room for"),
            Field("visible", "uint", "splats that passed the culling of this frame"),
            Field(
                "wanted",
                "uint",
                "splats that the last densification asked for, more than capacity when "
                "it did not fit",
            ),
            Field(
                "pairs",
                "uint",
                "pairs of tile or block and splat in this frame, as many as their buffers hold",
            ),
            Field("pairs_wanted", "uint", "pairs that this frame asked for, low word"),
            Field("pairs_wanted_high", "uint", "the same, high word"),
        ),
        # Each member but `draw` is a VkDispatchIndirectCommand.
        "Indirect": (
            Field("splat_groups", "uvec3", "GROUP splats a workgroup"),
            Field("splat_blocks", "uvec3", "sort blocks over all splats"),
            Field("visible_blocks", "uvec3", "sort blocks over visible splats"),
            Field("draw", "uvec4", "VkDrawIndirectCommand: all visible splats in the --shape"),
            Field("visible_groups", "uvec3", "GROUP visible splats a workgroup"),
            Field(
                "pair_blocks",
                "uvec3",
                "sort blocks over the pairs of tile and splat, and one behind the last",
            ),
            Field("buckets", "uvec3", "workgroups of the backward pass over all buckets of splats"),
            Field(
                "planes",
                "uvec3",
                "x: planes of splats that this step moves; y, z: GROUP splats a workgroup",
            ),
        ),
    },
    buffers=(
        BufferSpec(1, "camera", "Camera", (1,), "the view being drawn", single=True),
        BufferSpec(2, "frame", "Frame", (1,), "what else a frame depends on", single=True),
        BufferSpec(3, "counts", "Counts", (1,), "how many splats and pairs there are", single=True),
        BufferSpec(4, "indirect", "Indirect", (1,), "work sizes, written on the GPU", single=True),
    ),
)
