"""Fits of images by 2D Gaussians, and of textured triangle meshes."""

from hardsplat.contract.layout import subsystem

# Image fits by 2D Gaussians.
FIT = subsystem(
    "fit",
    "2D Gaussians of an image fit",
    uses=("splats", "train"),
    constants={
        "uint BLOB = 9": "numbers of a 2D Gaussian, see blobs",
        "uint RATE_CENTER = 0": "rate_plans of an image fit: px",
        "uint RATE_SCALES = 1": "log px",
        "uint RATE_ANGLE = 2": "rad",
        "uint RATE_COLOR = 3": "0..1",
        "uint RATE_OPACITY = 4": "logit",
    },
    buffers={
        "120 float blobs[9][blobs]": "planes of counts.capacity: centre (2, px), log standard "
        "deviations along both axes (2, log px), angle of the first (rad), color (3), logit "
        "opacity",
        "121 float d_blobs[9][blobs]": "dL/d blobs",
        "122 float adam_blobs[2][9][blobs]": "first moments, then second moments",
    },
)

# Fits of textured triangle meshes.
MESH = subsystem(
    "mesh",
    "a mesh, its texture and the estimates of their gradients",
    uses=("loss", "train"),
    constants={
        "uint RATE_VERTICES = 0": "rate_plans of a mesh fit: world units",
        "uint RATE_TEXELS = 1": "0..1",
        "uint RATE_SHARE = 2": "1 at first, then as the others fall",
    },
    structs={
        "Mesh": {
            "uint vertices": "vertices",
            "uvec2 texture": "width and height of the texture, texels",
            "float vertex_step": "size of the first perturbation of a coordinate, world units",
            "float texel_step": "size of the first perturbation of a texel's channel",
            "float last_share": "share of both that is left at max_steps, reached exponentially",
            "uint max_steps": "length of the schedule",
            "float alpha_weight": "weight of the silhouette in a pixel's loss; a colour channel "
            "has 1",
            "float smoothing": "share of the squared Laplacian that the first step takes away; "
            "falls with the learning rate",
        },
        "MeshRecord": {
            "float loss": "mean of a pixel, of the two perturbed images",
            "float mse": "mean squared error of a channel",
            "float iou": "of the silhouettes, from halfway",
        },
    },
    buffers={
        "130 Mesh mesh": "what a mesh and its fit are made of",
        "131 vec3 vertices[vertices]": "world units",
        "132 vec2 uvs[uvs]": "places in the texture, 0..1, v down",
        "133 uvec2 corners[3][triangles]": "vertex and uv of every corner of a triangle",
        "134 vec3 texels[texels]": "albedo, rows from the top",
        "135 uint neighbours[vertices]": "where every vertex's neighbours begin in this buffer, "
        "and where the last ones end; then the neighbours",
        "136 vec3 bends[vertices]": "a vertex minus the mean of its neighbours",
        "137 float mesh_sums[texels]": "loss of the + image minus that of the - image, over the "
        "pixels that saw a vertex, then a texel's channel",
        "138 vec3 adam_vertices[2][vertices]": "first and second moments",
        "139 vec3 adam_texels[2][texels]": "first and second moments",
        "140 vec4 mesh_losses[pixel groups]": "summed over a workgroup: loss, squared error, "
        "pixels in both silhouettes, in either",
        "141 MeshRecord mesh_history[steps]": "results of step s at s % HISTORY",
    },
    images={
        "142 ids": "of the mesh, moved by +: uv, depth, and 1 + the number of the triangle; 0 "
        "where there is none",
        "143 ids_minus": "`ids` of the mesh moved by -",
        "144 depth": "near plane over depth",
    },
)
