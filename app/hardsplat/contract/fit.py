"""Fits of images by 2D Gaussians, and of textured triangle meshes."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, ImageSpec, Subsystem

# Image fits by 2D Gaussians.

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
            "planes of counts.capacity: centre (2, px), log standard deviations along "
            "both axes (2, log px), angle of the first (rad), color (3), logit opacity",
        ),
        BufferSpec(121, "d_blobs", "float", (9, "blobs"), "dL/d blobs"),
        BufferSpec(
            122, "adam_blobs", "float", (2, 9, "blobs"), "first moments, then second moments"
        ),
    ),
    uses=("splats", "train"),
)

# Fits of textured triangle meshes.
MESH = Subsystem(
    "mesh",
    "a mesh, its texture and the estimates of their gradients",
    constants={
        "RATE_VERTICES": Constant(0, "uint", "rate_plans of a mesh fit: world units"),
        "RATE_TEXELS": Constant(1, "uint", "0..1"),
        "RATE_SHARE": Constant(2, "uint", "1 at first, then as the others fall"),
    },
    structs={
        "Mesh": (
            Field("vertices", "uint", "vertices"),
            Field("texture", "uvec2", "width and height of the texture, texels"),
            Field(
                "vertex_step",
                "float",
                "size of the first perturbation of a coordinate, world units",
            ),
            Field("texel_step", "float", "size of the first perturbation of a texel's channel"),
            Field(
                "last_share",
                "float",
                "share of both that is left at max_steps, reached exponentially",
            ),
            Field("max_steps", "uint", "length of the schedule"),
            Field(
                "alpha_weight",
                "float",
                "weight of the silhouette in a pixel's loss; a colour channel has 1",
            ),
            Field(
                "smoothing",
                "float",
                "share of the squared Laplacian that the first step takes away; falls "
                "with the learning rate",
            ),
        ),
        "MeshRecord": (
            Field("loss", "float", "mean of a pixel, of the two perturbed images"),
            Field("mse", "float", "mean squared error of a channel"),
            Field("iou", "float", "of the silhouettes, from halfway"),
        ),
    },
    buffers=(
        BufferSpec(130, "mesh", "Mesh", (1,), "what a mesh and its fit are made of", single=True),
        BufferSpec(131, "vertices", "vec3", ("vertices",), "world units"),
        BufferSpec(132, "uvs", "vec2", ("uvs",), "places in the texture, 0..1, v down"),
        BufferSpec(
            133, "corners", "uvec2", (3, "triangles"), "vertex and uv of every corner of a triangle"
        ),
        BufferSpec(134, "texels", "vec3", ("texels",), "albedo, rows from the top"),
        BufferSpec(
            135,
            "neighbours",
            "uint",
            ("vertices",),
            "where every vertex's neighbours begin in this buffer, and where the last "
            "ones end; then the neighbours",
        ),
        BufferSpec(
            136, "bends", "vec3", ("vertices",), "a vertex minus the mean of its neighbours"
        ),
        BufferSpec(
            137,
            "mesh_sums",
            "float",
            ("texels",),
            "loss of the + image minus that of the - image, over the pixels that saw a "
            "vertex, then a texel's channel",
        ),
        BufferSpec(138, "adam_vertices", "vec3", (2, "vertices"), "first and second moments"),
        BufferSpec(139, "adam_texels", "vec3", (2, "texels"), "first and second moments"),
        BufferSpec(
            140,
            "mesh_losses",
            "vec4",
            ("pixel groups",),
            "summed over a workgroup: loss, squared error, pixels in both silhouettes, in either",
        ),
        BufferSpec(
            141, "mesh_history", "MeshRecord", ("steps",), "results of step s at s % HISTORY"
        ),
    ),
    images=(
        ImageSpec(
            142,
            "ids",
            "of the mesh, moved by +: uv, depth, and 1 + the number of the triangle; 0 "
            "where there is none",
        ),
        ImageSpec(143, "ids_minus", "`ids` of the mesh moved by -"),
        ImageSpec(144, "depth", "near plane over depth"),
    ),
    uses=("loss", "train"),
)
