"""THE contract between host and shaders: constants and structs (app/hardsplat/structs.py), and the table of buffers and images.

`tools/gen_contract.py` writes `shaders/include/contract.glsl` from these tables; a test fails when that file is stale.
Layout is GL_EXT_scalar_block_layout everywhere: `vec3` is 12 bytes, that is numpy `(N, 3) float32`.

A shader opens a resource with its access, `BUFFER_means(readonly)`; a pass names what it reads and writes; `build()` checks both.
Shapes: N splats, C capacity in splats, K SH coefficients, B capacity in blobs, P pixels of the canvas, V training views, G workgroups; others by their words.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardsplat.structs import CONSTANTS, STRUCTS, Field, dtype

__all__ = ["CONSTANTS", "STRUCTS", "Field", "dtype"]  # read from here


@dataclass(frozen=True)
class BufferRow:
    """`single` rows hold one element and are addressed as `name.field`; the others as `name[i]`."""

    name: str
    type: str
    shape: str
    note: str
    single: bool = False

    @property
    def streamed(self) -> bool:
        """Shaders may open it as FOURS_ too, four floats an element: rows that Adam goes through in the order of memory."""
        return self.name in (*PARAMETERS, *MOMENTS, *PARAMETER_GRADIENTS)


@dataclass(frozen=True)
class ImageRow:
    """An image of 4 channels. Shaders open it as SAMPLED_ (texelFetch), STORE_, LOADSTORE_ in a named format, or INPUT_ (subpassLoad)."""

    name: str
    note: str


BUFFERS: tuple[BufferRow, ...] = (
    # parameters
    BufferRow("means", "vec3", "N", "world units"),
    BufferRow("quats", "vec4", "N", "rotation wxyz, not normalized"),
    BufferRow("log_scales", "vec3", "N", "log of world units"),
    BufferRow("logit_opacities", "float", "N", "logit of 0..1"),
    BufferRow("sh", "vec3", "K, S", "colour coefficients, plane k at k * stride"),
    # per frame
    BufferRow("camera", "Camera", "1", "the view being drawn", single=True),
    BufferRow("frame", "Frame", "1", "what else a frame depends on", single=True),
    BufferRow("counts", "Counts", "1", "", single=True),
    BufferRow("indirect", "Indirect", "1", "work sizes, written on the GPU", single=True),
    # projection and sort
    BufferRow("splats2d", "Splat2D", "N", "projected splats; culled rows are stale"),
    BufferRow(
        "d_splats2d",
        "float",
        f"N, {CONSTANTS['GRADIENT_STRIDE'][0]}",
        "sums over pixels of w, w t, w dy, w t^2, w t dy, w dy^2 with w = dL/d opacity, t = dx + k dy; then dL/d color (3)",
    ),
    BufferRow("splats2d_minus", "Splat2D", "N", "stochastic gradients: the splats perturbed against their signs; those along them are in splats2d"),
    BufferRow("splats2d_cover", "Splat2D", "N", "stochastic gradients: unperturbed but for the opacity, with which alpha >= 1/255 holds both perturbed ones; color unused"),
    BufferRow("mean_steps", "float", "N", "stochastic gradients, where visible: what a mean moves by along each axis, world units"),
    BufferRow("splat_differences", "float", "estimates, S", "stochastic gradients: sums of loss_differences over the pixels of a splat, for each pair of images"),
    BufferRow("seen", "uint", "N", "1 where a splat is visible in this frame, + 2, 4, 8 where its red, green, blue is above 0; else 0"),
    BufferRow(
        "d_geometry",
        "float",
        f"{CONSTANTS['GEOMETRY'][0]}, S",
        "where visible: forward, at SH degrees above 0, d color/d direction of red, green and blue (9); then dL/d mean (3), quat (4), log scale (3), logit (1)",
    ),
    BufferRow("d_colors", "vec3", "2, S", "where visible: dL/d color, 0 where that was cut off; then the direction to the splat. Times the basis it is dL/d sh"),
    BufferRow("keys", "uint", "N", "depth as ordered bits, or NOT_VISIBLE; then sort scratch"),
    BufferRow("keys_alt", "uint", "N", "sort scratch"),
    BufferRow("order", "uint", "N", "visible splats, nearest first"),
    BufferRow("order_alt", "uint", "N", "sort scratch"),
    BufferRow("digit_counts", "uint", "RADIX, blocks", "keys per digit and block, then their running sums"),
    BufferRow("digit_totals", "uint", "RADIX", "keys per digit"),
    # tiles
    BufferRow("tile_splats", "TileSplat", "visible", "visible splats, nearest first, as the tiles take them"),
    BufferRow("pair_sums", "uint", "visible blocks + 1", "pairs of each sort block of visible splats, then of all blocks before it; behind the last their sum"),
    BufferRow("pair_tiles", "uint", "pairs", "tile of every pair of tile and splat, by tile, then depth"),
    BufferRow("pair_tiles_alt", "uint", "pairs", "sort scratch"),
    BufferRow("pair_splats", "uint", "pairs", "rank of the splat of every pair, an index into tile_splats"),
    BufferRow("pair_splats_alt", "uint", "pairs", "sort scratch"),
    BufferRow("pair_records", "float", f"pairs, subgroups, {CONSTANTS['GRADIENTS'][0]}", "what a subgroup of the backward pass adds to d_splats2d, by pair"),
    BufferRow("pair_subgroups", "uint", "pairs", "bit s: the record of subgroup s is of this frame"),
    BufferRow("pair_digits", "uint", "RADIX, pair blocks", "digit_counts of the sort of pairs"),
    BufferRow("tile_starts", "uint", "tiles + 1", "first pair of every tile, then their number"),
    BufferRow("tile_order", "uint", "tiles", "tiles as workgroups take them: those with most pairs first"),
    BufferRow("checkpoints", "vec4", "buckets, TILE^2", "colour and T of every pixel of a tile in front of a bucket of its splats"),
    BufferRow("reaches", "uint", "tiles, subgroups", "buckets that a subgroup of the forward pass visited before its pixels were finished"),
    BufferRow("blocks", "uvec4", "segments, P", "state of a draw of blocks, (D, T) a pixel: those of a block together, packed in the state format"),
    # pictures
    BufferRow("palette", "Palette", "1", "how numbers become colours", single=True),
    BufferRow("values", "float", "P", "what a picture shows of every pixel of the canvas: depth in world units, opacity, count; 0 where there is nothing"),
    # the window
    BufferRow("overlay", "Overlay", "1", "what lies where in the window", single=True),
    BufferRow("glyphs", "uint", "characters * cell / 4", "font: coverage of the pixels of each character from the space on, a byte each"),
    BufferRow("text", "uint", "rows, columns", "character codes; 0: nothing here"),
    # gradients, for the Python API
    BufferRow("d_means", "vec3", "N", "dL/d means"),
    BufferRow("d_quats", "vec4", "N", "dL/d quats"),
    BufferRow("d_log_scales", "vec3", "N", "dL/d log_scales"),
    BufferRow("d_logit_opacities", "float", "N", "dL/d logit_opacities"),
    BufferRow("d_sh", "vec3", "K, S", "dL/d sh"),
    # training
    BufferRow("hyper", "Hyper", "1", "settings of the run", single=True),
    BufferRow("views", "Camera", "V", "training cameras"),
    BufferRow("schedule", "uvec2", "HISTORY", "(view, first element of its photograph) of step s at s % HISTORY"),
    BufferRow("photos", "uint", "sum of image sizes", "photographs, rows of camera.size.x: RGBA8 with red in the low byte, colour times alpha; in training RGB8 where that says all"),
    BufferRow("ssim_grads", "float", "3, 3, P", "per channel dSSIM/d(E[x], E[x^2], E[xy]), nine planes of camera.size"),
    BufferRow("loss_differences", "float", "P", "stochastic gradients: loss of a pixel with the signs less that against them, rows of camera.size.x; to gather by rows, running sums along each"),
    BufferRow("loss_sums", "vec3", "G", "(L1, SSIM, squared error) summed over a workgroup, row by row over the tiles of camera.size"),
    BufferRow("history", "StepRecord", "HISTORY", "results of step s at s % HISTORY"),
    BufferRow("adam_means", "vec3", "2, S", "first and second moments"),
    BufferRow("adam_quats", "vec4", "2, S", "first and second moments"),
    BufferRow("adam_log_scales", "vec3", "2, S", "first and second moments"),
    BufferRow("adam_logit_opacities", "float", "2, S", "first and second moments"),
    BufferRow("adam_sh", "vec3", "K, 2, S", "first and second moments"),
    BufferRow("grow_stats", "GrowStat", "N", "densification statistics since the last densification"),
    BufferRow("flags", "uint", "C", "densify: 2 * rank within its workgroup, + 1 where a splat grows or lives; MCMC: see mcmc/weigh.comp"),
    BufferRow("flag_sums", "uint", "G + 1", "densify: flagged splats per workgroup, then those of all before; the last is the total"),
    BufferRow("holes", "uint", "C", "densify: rows to fill when dead splats are compacted"),
    BufferRow(
        "blobs",
        "float",
        "BLOB, B",
        "image fits: 2D Gaussians in planes of counts.capacity: centre (2, px), log standard deviations along both axes (2, log px), angle of the first (rad), color (3), logit opacity",
    ),
    BufferRow("d_blobs", "float", "BLOB, B", "dL/d blobs"),
    BufferRow("adam_blobs", "float", "2, BLOB, B", "first moments, then second moments"),
    BufferRow("copies", "uint", "rows of holes", "MCMC, in the memory of holes: how many copies of a splat are to be made"),
    # meshes: M vertices, F triangles, U places in the texture, X texels
    BufferRow("mesh", "Mesh", "1", "what a mesh and its fit are made of", single=True),
    BufferRow("vertices", "vec3", "M", "world units"),
    BufferRow("uvs", "vec2", "U", "places in the texture, 0..1, v down"),
    BufferRow("corners", "uvec2", "3 F", "vertex and uv of every corner of a triangle"),
    BufferRow("texels", "vec3", "X", "albedo, rows from the top"),
    BufferRow("neighbours", "uint", "M + 1 + 2 E", "where every vertex's neighbours begin in this buffer, and where the last ones end; then the neighbours"),
    BufferRow("bends", "vec3", "M", "a vertex minus the mean of its neighbours"),
    BufferRow("mesh_sums", "float", "M + 3 X", "loss of the + image minus that of the - image, over the pixels that saw a vertex, or a texel's channel"),
    BufferRow("adam_vertices", "vec3", "2, M", "first and second moments"),
    BufferRow("adam_texels", "vec3", "2, X", "first and second moments"),
    BufferRow("mesh_losses", "vec4", "G", "summed over a workgroup: loss, squared error, pixels in both silhouettes, in either"),
    BufferRow("mesh_history", "MeshRecord", "HISTORY", "results of step s at s % HISTORY"),
)

IMAGES: tuple[ImageRow, ...] = (
    ImageRow("target", "rendered colour without background, premultiplied, and final transmittance in alpha"),
    ImageRow("target_minus", "the same of the splats perturbed against their signs, for stochastic gradients"),
    ImageRow("layers", "the same of each depth segment by itself, one below the other, nearest first"),
    ImageRow("state", "what blending carries per pixel: colour and transmittance; the canvases of depth segments one below the other"),
    ImageRow("shown", "RGBA8 to be displayed or saved"),
    ImageRow("screen", "RGBA8 of the whole window"),
    ImageRow("d_image", "dL/d(rgb, unused); a draw of blocks has its product with the finished pixel in alpha"),
    ImageRow("ids", "of the mesh, moved by +: uv, depth, and 1 + the number of the triangle; 0 where there is none"),
    ImageRow("ids_minus", "the same, moved by -"),
    ImageRow("depth", "near plane over depth"),
)

BINDINGS: dict[str, int] = {row.name: i for i, row in enumerate((*BUFFERS, *IMAGES))}
ROWS: dict[str, BufferRow | ImageRow] = {row.name: row for row in (*BUFFERS, *IMAGES)}

# Rows of what is trained, and of what follows it name by name.
PARAMETERS = ("means", "quats", "log_scales", "logit_opacities", "sh")
MOMENTS = tuple(f"adam_{name}" for name in PARAMETERS)
PARAMETER_GRADIENTS = tuple(f"d_{name}" for name in PARAMETERS)

def itemsize(name: str, moment_bytes: int = 4) -> int:
    """Bytes of one element of a buffer row. moment_bytes: of a number in the rows of MOMENTS, see app/hardsplat/variants/moments.py."""
    size = dtype(ROWS[name].type).itemsize
    return size // 4 * moment_bytes if name in MOMENTS else size


def strides(name: str) -> set[int]:
    """Bytes from one element of a buffer row to the next, in all the ways that shaders may open it."""
    widths = (4, 2) if name in MOMENTS else (4,)
    return {itemsize(name, width) for width in widths} | {4 * width for width in widths if ROWS[name].streamed}


def plane_stride(capacity: int) -> int:
    """The contract's S: rows from one plane to the next, so that each begins at a vec4 whatever its rows are."""
    return -(-capacity // 4) * 4


def indirect_offset(field: str) -> int:
    """Byte offset of a command in the `indirect` buffer."""
    return dtype("Indirect").fields[field][1]
