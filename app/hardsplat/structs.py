"""Constants and structs of the contract between host and shaders, see app/hardsplat/contract.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# name -> (value, GLSL type, comment). The numbers of the published method; see the numerical conventions in docs/ARCHITECTURE.md.
CONSTANTS = {
    "ALPHA_MIN": (1.0 / 255.0, "float", "fragments fainter than one 8-bit step are skipped (Kerbl et al. 2023)"),
    "ALPHA_MAX": (0.99, "float", "keeps 1 / (1 - alpha) finite in the backward pass (Kerbl et al. 2023)"),
    "T_MIN": (1e-4, "float", "a pixel is finished below this transmittance (Kerbl et al. 2023)"),
    "DILATION": (0.3, "float", "px^2 added to the diagonal of the 2D covariance (Zwicker et al. 2001 low-pass, value of Kerbl et al.)"),
    "FRUSTUM_SLACK": (0.3, "float", "the Jacobian is evaluated at most this share of the half field of view outside the image"),
    "QUAD_MARGIN": (0.02, "float", "px by which a splat's outline lies outside the ellipse: the rasterizer snaps corners to 1/256 px, the fragment test decides"),
    "NOT_VISIBLE": (0xFFFFFFFF, "uint", "depth key of a culled splat"),
    "GROUP": (256, "uint", "threads of a 1D workgroup"),
    "TILE": (16, "uint", "side in pixels of a 2D workgroup"),
    "SORT_ROWS": (8, "uint", "keys per thread of a sort block: 2048 keys a block"),
    "RADIX": (256, "uint", "8-bit digits, 4 passes over a 32-bit key"),
    "MESH_SPLATS": (32, "uint", "splats a mesh workgroup, one a thread: 128 vertices and 64 triangles, below every limit Vulkan guarantees"),
    "MAX_GROUPS_X": (65535, "uint", "maxComputeWorkGroupCount guaranteed by Vulkan; larger dispatches fold into y"),
    "GRADIENTS": (9, "uint", "numbers a splat's fragments add up in the backward draw, see d_splats2d"),
    "GRADIENT_STRIDE": (9, "uint", "floats from a splat's nine to the next one's; 16 would align them to 64 bytes"),
    "BLOB": (9, "uint", "numbers of a 2D Gaussian of an image fit, see blobs"),
    "GEOMETRY": (11, "uint", "planes of d_geometry"),
    "SSIM_RADIUS": (5, "int", "11x11 window, sigma 1.5 (Wang et al. 2004)"),
    "IGNORED": (0x00FFFFFF, "uint", "word of `photos` where a mask takes the pixel out of loss and metrics: no premultiplied colour has it"),
    "HISTORY": (4096, "uint", "steps kept in the ring of losses, and of scheduled views"),
}


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    note: str
    count: int = 1


STRUCTS: dict[str, tuple[Field, ...]] = {
    "Camera": (
        Field("world_to_camera", "vec4", "rows of [R | t]; OpenCV frame, world units", 3),
        Field("position", "vec3", "camera centre, world units"),
        Field("focal", "vec2", "px"),
        Field("centre", "vec2", "principal point, px from the top left corner"),
        Field("size", "uvec2", "image width and height, px"),
        Field("photo", "uint", "first pixel of the photograph in `photos`"),
    ),
    "Frame": (
        Field("background", "vec3", "colour behind everything, 0..1"),
        Field("near_plane", "float", "splats nearer than this are culled, world units"),
        Field("sh_degree", "uint", "highest SH band in use"),
        Field("sh_rests", "uint", "1 where this step leaves the bands above 0 as they are"),
        Field("step", "uint", "training step, counted from 0"),
        Field("lr_means", "float", "learning rate of this step, times the scene extent"),
        Field("bias1", "float", "Adam 1 - beta1^(step+1)"),
        Field("bias2", "float", "Adam 1 - beta2^(step+1)"),
        Field("seed", "uint", "of the run, for the signs of stochastic gradients"),
    ),
    "Hyper": (
        Field("seed", "uint", "seed of every random draw"),
        Field("background_mode", "uint", "0 black, 1 white, 2 random per step"),
        Field("near_plane", "float", "world units"),
        Field("max_sh_degree", "uint", ""),
        Field("sh_degree_interval", "uint", "steps between raising the SH degree"),
        Field("shN_every", "uint", "steps from one that moves the higher SH bands to the next"),
        Field("max_steps", "uint", "length of the learning-rate schedule"),
        Field("lr_means", "float", "initial, times the scene extent"),
        Field("lr_means_final", "float", "final, times the scene extent"),
        Field("lr_quats", "float", ""),
        Field("lr_scales", "float", ""),
        Field("lr_opacities", "float", ""),
        Field("lr_sh0", "float", ""),
        Field("lr_shN", "float", ""),
        Field("beta1", "float", ""),
        Field("beta2", "float", ""),
        Field("eps", "float", ""),
        Field("ssim_lambda", "float", "weight of D-SSIM in the loss"),
        Field("extent", "float", "scene radius, world units"),
        Field("grow_grad2d", "float", "mean gradient above which a splat is cloned or split, NDC units"),
        Field("grow_scale3d", "float", "clone below, split above this scale, share of extent"),
        Field("prune_opa", "float", "opacity below which a splat is pruned"),
        Field("prune_scale3d", "float", "scale above which a splat is pruned after the first reset, share of extent"),
        Field("prune_screen", "float", "screen radius above which a splat is pruned after the first reset, px"),
        Field("reset_every", "uint", "steps between opacity resets"),
        Field("reset_opa", "float", "opacity ceiling after a reset"),
        Field("min_opacity", "float", "MCMC: opacity at which a splat is dead, and the least that sharing leaves"),
        Field("noise_lr", "float", "MCMC: noise of the means over their learning rate, per squared extent"),
        Field("opacity_reg", "float", "weight of the mean opacity in the loss"),
        Field("scale_reg", "float", "weight of the mean scale in the loss"),
    ),
    "Counts": (
        Field("splats", "uint", "N, splats alive"),
        Field("capacity", "uint", "C, splats the parameter buffers hold"),
        Field("stride", "uint", "S, rows from a plane of sh or of moments to the next: C, rounded up so that planes begin at a vec4"),
        Field("visible", "uint", "splats that passed the culling of this frame"),
        Field("wanted", "uint", "splats the last densification asked for, more than capacity when it did not fit"),
        Field("pairs", "uint", "pairs of tile and splat in this frame, as many as their buffers hold"),
        Field("pairs_wanted", "uint", "pairs that this frame asked for"),
    ),
    # Each row but `draw` is a VkDispatchIndirectCommand.
    "Indirect": (
        Field("splat_groups", "uvec3", "GROUP splats a workgroup"),
        Field("splat_blocks", "uvec3", "sort blocks over all splats"),
        Field("visible_blocks", "uvec3", "sort blocks over visible splats"),
        Field("draw", "uvec4", "VkDrawIndirectCommand, or VkDrawMeshTasksIndirectCommandEXT: all visible splats in the --shape"),
        Field("pair_blocks", "uvec3", "sort blocks over the pairs of tile and splat"),
        Field("pair_groups", "uvec3", "GROUP pairs a workgroup, one of them behind the last"),
        Field("buckets", "uvec3", "workgroups of the backward pass over all buckets of splats"),
        Field("sink", "uvec3", "x: geometry, then one for each SH plane to be handed over; y, z: GROUP splats a workgroup"),
    ),
    "Splat2D": (
        Field("mean", "vec2", "px"),
        Field("conic", "vec3", "inverse 2D covariance in completed squares (A px^-2, k, c px^-2): A (dx + k dy)^2 + c dy^2"),
        Field("color", "vec3", "max(SH + 0.5, 0)"),
        Field("opacity", "float", "0..1"),
        Field("axis1", "vec2", "first half axis of the quad alpha >= 1/255, px"),
        Field("axis2", "vec2", "second half axis, px"),
    ),
    # 48 bytes: three loads of 16. In depth order, so that what follows the sort reads neighbours.
    "TileSplat": (
        Field("mean_conic", "vec4", "mean, px; A and k of the conic"),
        Field("conic_color", "vec4", "c of the conic; color"),
        Field("opacity", "float", "0..1"),
        Field("cutoff", "float", "d^T cov^-1 d at alpha = 1/255"),
        Field("splat", "uint", "its row in splats2d"),
        Field("first", "uint", "pairs of tile and splat that others of its sort block have before it"),
    ),
    "GrowStat": (
        Field("grad", "float", "sum of |d_mean2d| in NDC units over the views that saw the splat"),
        Field("views", "float", "number of those views"),
        Field("radius", "float", "largest 3-sigma screen radius seen, px"),
    ),
    "Palette": (
        Field("low", "float", "number with the first colour"),
        Field("high", "float", "number with the last colour, above low"),
        Field("colors", "uint", "RGBA8 with red in the low byte", 256),
    ),
    "Overlay": (
        Field("size", "uvec2", "window, px"),
        Field("render", "uvec2", "its upper left part that shows splats, px"),
        Field("scale", "uint", "px of the window for a rendered one, each way"),
        Field("photo_at", "uvec2", "upper left corner of the photograph, px of the window"),
        Field("photo_size", "uvec2", "px; 0: none"),
        Field("photo_share", "float", "of the photograph where it lies over the render, 0..1"),
        Field("cell", "uvec2", "a character, px"),
        Field("grid", "uvec2", "columns and rows of characters"),
    ),
    "StepRecord": (
        Field("l1", "float", "mean absolute error"),
        Field("ssim", "float", "mean SSIM, zero-padded"),
        Field("mse", "float", "mean squared error"),
        Field("visible", "uint", ""),
        Field("splats", "uint", ""),
        Field("pairs", "uint", "pairs of tile and splat that the step asked for"),
    ),
    "Mesh": (
        Field("vertices", "uint", "M"),
        Field("texture", "uvec2", "width and height of the texture, texels"),
        Field("vertex_step", "float", "size of the first perturbation of a coordinate, world units"),
        Field("texel_step", "float", "of a texel's channel"),
        Field("last_share", "float", "share of both that is left at max_steps, reached exponentially"),
        Field("lr_texels", "float", "initial"),
        Field("alpha_weight", "float", "weight of the silhouette in a pixel's loss; a colour channel has 1"),
        Field("smoothing", "float", "share of the squared Laplacian that the first step takes away; falls with the learning rate"),
    ),
    "MeshRecord": (
        Field("loss", "float", "mean of a pixel, of the two perturbed images"),
        Field("mse", "float", "mean squared error of a channel"),
        Field("iou", "float", "of the silhouettes, from halfway"),
    ),
}

_SCALARS = {"float": np.float32, "uint": np.uint32, "int": np.int32}


def dtype(glsl_type: str) -> np.dtype:
    """numpy dtype of a GLSL type or struct of the contract, scalar layout."""
    if glsl_type in STRUCTS:
        return np.dtype([(f.name, dtype(f.type), (f.count,)) if f.count > 1 else (f.name, dtype(f.type)) for f in STRUCTS[glsl_type]])
    if glsl_type in _SCALARS:
        return np.dtype(_SCALARS[glsl_type])
    base = np.uint32 if glsl_type.startswith("u") else np.float32
    return np.dtype((base, (int(glsl_type[-1]),)))
