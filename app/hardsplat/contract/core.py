"""What every pass knows: the camera, the frame, how many splats there are and how much work that
is; tests of the device."""

from hardsplat.contract.layout import subsystem

CORE = subsystem(
    "core",
    "camera, frame, counts and work sizes",
    constants={
        f"float ALPHA_MIN = {1 / 255}": "fragments fainter than one 8-bit step are skipped (Kerbl "
        "et al. 2023)",
        "float ALPHA_MAX = 0.99": "keeps 1 / (1 - alpha) finite in the backward pass (Kerbl et al. "
        "2023)",
        "float T_MIN = 0.0001": "a pixel is finished below this transmittance (Kerbl et al. 2023)",
        "uint GROUP = 256": "threads of a 1D workgroup",
        "uint TILE = 16": "side in pixels of a 2D workgroup",
        "uint MAX_GROUPS_X = 65535": "maxComputeWorkGroupCount guaranteed by Vulkan; larger "
        "dispatches fold into y",
        "uint LENS_PERSPECTIVE = 1": "radial and tangential distortion, COLMAP's FULL_OPENCV; 0 "
        "is a camera without distortion",
        "uint LENS_FISHEYE = 2": "equidistant, COLMAP's OPENCV_FISHEYE",
        "uint HISTORY = 4096": "steps kept in the rings of losses and of scheduled views",
    },
    structs={
        "Camera": {
            "vec4 world_to_camera[3]": "rows of [R | t]; OpenCV frame, world units",
            "vec3 position": "camera centre, world units",
            "vec2 focal": "px",
            "vec2 centre": "principal point, px from the top left corner",
            "uvec2 size": "image width and height, px",
            "uint photo": "first pixel of the photograph in `photos`",
            "uint number": "which of the scene's physical cameras took the photograph",
            "uint lens": "how it distorts, one of the LENS_ constants",
            "float reach": "squared (x, y) / z from which on nothing is drawn; of distorting "
            "lenses alone",
            "vec4 distortion[2]": "coefficients as OpenCV orders them: k1 k2 p1 p2, k3 k4 k5 k6; "
            "of fisheyes k1 k2 k3 k4",
        },
        "Frame": {
            "vec3 background": "colour behind everything, 0..1",
            "float near_plane": "splats nearer than this are culled, world units",
            "uint sh_degree": "highest SH band in use",
            "uint step": "training step, counted from 0",
            "uint view": "which of the training views is drawn",
            "uint camera": "which of the scene's physical cameras took its photograph",
            "float bias1": "Adam: 1 - beta1^n at update n, counted from 1",
            "float bias2": "Adam: 1 - beta2^n at update n",
            "uint seed": "seed of the run",
            "float shrunk": "by what share pictures show splats smaller, 1 as points; below 0 "
            "larger",
        },
        "Counts": {
            "uint splats": "splats alive",
            "uint capacity": "splats that fit in the parameters",
            "uint visible": "splats that passed the culling of this frame",
            "uint wanted": "splats that the last densification needs, more than capacity when "
            "it did not fit",
            "uint pairs": "pairs of tile or block and splat in this frame, as many as their "
            "buffers hold",
            "uint pairs_wanted": "pairs that this frame has, low word",
            "uint pairs_wanted_high": "the same, high word",
            "uint checkpoints": "checkpoints of buckets that this frame has, where those reached "
            "alone have one",
        },
        # Each member but `draw` is a VkDispatchIndirectCommand.
        "Indirect": {
            "uvec3 splat_groups": "GROUP splats a workgroup",
            "uvec3 splat_blocks": "sort blocks over all splats",
            "uvec3 visible_blocks": "sort blocks over visible splats",
            "uvec4 draw": "VkDrawIndirectCommand: all visible splats in the --shape",
            "uvec3 visible_groups": "GROUP visible splats a workgroup",
            "uvec3 pair_blocks": "sort blocks over the pairs of tile and splat, and one behind the "
            "last",
            "uvec3 buckets": "workgroups of the backward pass over all buckets of splats",
            "uvec3 unlisted_tiles": "tiles of a frame whose pairs do not fit the lists; else 0",
            "uvec3 planes": "x: planes of splats that this step moves; y, z: GROUP splats a "
            "workgroup",
        },
    },
    buffers={
        "1 Camera camera": "the view being drawn",
        "2 Frame frame": "what else a frame depends on",
        "3 Counts counts": "how many splats and pairs there are",
        "4 Indirect indirect": "work sizes, written on the GPU",
    },
)
