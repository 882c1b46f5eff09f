"""What rasterizers hand from pass to pass: the image, draws and their fragments, the sort, lists by
tile, the sky."""

from hardsplat.contract.layout import subsystem

# The draws of the hardware rasterizer: what blending carries per pixel.
DRAW = subsystem(
    "draw",
    "per-pixel state of draws",
    uses=("image",),
    buffers={
        "45 uvec4 blocks[segments][pixels]": "state of a draw of blocks, (D, T) a pixel: those of "
        "a block together, packed in the state format"
    },
    images={
        "46 layers": "`target` of each depth segment by itself, one below the other, nearest first",
        "47 state": "what blending carries per pixel: colour and transmittance; the canvases of "
        "depth segments one below the other",
        "48 unfinished": "depth: 1 where a block of a depth segment is still seen, 0 where those "
        "in front have finished its pixels",
    },
)

# Lists of fragments by block of pixels, in order of depth once they are sorted.
FRAGMENTS = subsystem(
    "fragments",
    "lists of fragments by block of pixels and depth segment",
    uses=("core",),
    constants={
        "uint NO_FRAGMENT = 0xFFFFFFFF": "behind the last fragment of a list, and the rank of no "
        "splat"
    },
    structs={
        "FragmentList": {
            "uint first": "its first fragment in `fragments`: the one that came last, and the "
            "nearest once they are in order",
            "float seen": "the largest transmittance of the block's pixels in front of the segment",
        },
        "Fragment": {
            "uint rank": "of its splat among the visible ones, nearest first",
            "uint next": "the fragment behind it in the list",
        },
    },
    buffers={
        "184 FragmentList fragment_lists[segments][pixels]": "a list for each block of each depth "
        "segment",
        "185 Fragment fragments[pairs]": "the fragments of all lists, as they came",
    },
)

# The sky: colours of directions behind all splats.
SKY = subsystem(
    "sky",
    "the sky behind the image",
    uses=("image", "splats"),
    buffers={
        "190 int sky_sums[texels][4]": "over the pixels of a step that see a texel, in fixed point "
        "and weighted by T: dL/d colour (3); 1, so how much of the texel is seen"
    },
)

# The rendered image and its gradient, which rasterizers and losses share.
IMAGE = subsystem(
    "image",
    "the rendered image and its gradient",
    uses=("core",),
    images={
        "40 target": "rendered colour without background, premultiplied, and final transmittance "
        "in alpha",
        "41 d_image": "dL/d(rgb) and T dL/dT of the final transmittance; a draw of blocks has s in "
        "alpha, its product with the finished pixel",
    },
)


# The tiled rasterizer: pairs of tile and splat, and what its backward pass restarts from.
TILES = subsystem(
    "tiles",
    "lists of splats by tile",
    uses=("splats", "sort"),
    constants={
        "uint NO_TILE = 0xFFFFFFFF": "of a bucket that the backward pass leaves out",
        "uint NO_PLACE = 0xFFFFFFFF": "of a bucket whose checkpoint did not fit",
    },
    structs={
        # Visible splats in depth order, in loads of 16 bytes, so that what follows the sort reads
        # neighbours. Two structs, since a buffer of both would pass the largest allocation of
        # common drivers (4 GiB) at fewer than 100 million splats.
        "TileSplat": {
            "vec4 mean_conic": "mean, px; A and k of the conic, A for exponents of base 2",
            "vec4 conic_color": "c of the conic, like A; color",
        },
        "TileReach": {
            "float peak": "exponent of base 2 of the opacity",
            "float cutoff": "what is subtracted from it at alpha = 1/255",
            "uint splat": "its index in splats2d",
            "uint first": "pairs of tile and splat that others of its group have before it; where "
            "tiles sort their own its depth key",
        },
    },
    buffers={
        "50 TileSplat tile_splats[visible]": "visible splats as the tiles take them: nearest "
        "first, or, where tiles sort their own, as in splats2d",
        "51 TileReach tile_reaches[visible]": "the rest of them",
        "186 uvec4 tile_spans[visible]": "the tiles that they touch, where lists are in order; see "
        "shaders/tiled/lists/spans.glsl",
        "52 uint pair_sums[groups]": "pairs of each GROUP visible splats, then of all before them; "
        "behind the last their sum",
        "53 uint pair_tiles[pairs]": "tile of every pair of tile and splat, by depth; then sort "
        "scratch",
        "54 uint pair_tiles_alt[pairs]": "sort scratch",
        "55 uint pair_splats[pairs]": "rank of the splat of every pair, an index into tile_splats",
        "56 uint pair_splats_alt[pairs]": "sort scratch",
        "57 float pair_records[pairs][subgroups][9]": "what a subgroup of the backward pass adds "
        "to d_splats2d, by pair",
        "58 uint pair_subgroups[pairs]": "bit s: the record of subgroup s is of this frame",
        "59 uint pair_digits[2][256][pair blocks]": "digit_counts of the sort of pairs",
        "60 uint tile_starts[tiles]": "first pair of every tile, then their number",
        "61 uint tile_order[tiles]": "tiles as workgroups take them: those with most pairs first",
        "62 vec4 checkpoints[places][256]": "colour and T of every pixel of a tile in front of a "
        "bucket of its splats",
        "63 uint reaches[tiles][subgroups]": "buckets that a subgroup of the forward pass visited "
        "before its pixels were finished",
        "182 uvec2 bucket_tiles[buckets]": "tile of every bucket of splats, NO_TILE where its "
        "pixels are finished before it or it has no splats; and where its checkpoint is",
        "118 int tile_changes[tiles]": "along each row of tiles, and a place behind it: splats "
        "that begin there less those that end; zero between frames",
        "116 uint tile_cursors[tiles]": "where the next pair of a tile goes",
        "117 uvec2 pair_keys[pairs]": "splat and depth key of every pair, by tile",
    },
)

# The radix sort: keys, values and scratch.
SORT = subsystem(
    "sort",
    "keys and order of splats",
    uses=("core",),
    constants={
        "uint NOT_VISIBLE = 0xFFFFFFFF": "depth key of a culled splat",
        "uint SORT_ROWS = 4": "keys per thread of a sort block: 1024 keys a block",
        "uint KEY_BITS = 28": "bits of a key that is not NOT_VISIBLE",
        "uint RADIX = 256": "values of a digit, at most",
    },
    buffers={
        "20 uint keys[splats]": "depth as ordered bits from the near plane on, or NOT_VISIBLE; "
        "then sort scratch",
        "21 uint keys_alt[splats]": "sort scratch",
        "22 uint order[splats]": "visible splats, nearest first",
        "23 uint order_alt[splats]": "sort scratch",
        "24 uint digit_counts[2][256][sort blocks]": "keys per digit and block, then their running "
        "sums; for this digit and for the next",
        "25 uint digit_totals[256]": "keys per digit",
    },
)


# Pictures for people: depth, counts and images as colours.
PICTURE = subsystem(
    "picture",
    "numbers and images as colours",
    uses=("image",),
    structs={
        "Palette": {
            "float low": "number with the first colour",
            "float high": "number with the last colour, above low",
            "uint colors[256]": "RGBA8 with red in the low byte",
        }
    },
    buffers={
        "100 Palette palette": "how numbers become colours",
        "101 float values[pixels]": "what a picture shows of every pixel of the canvas: depth in "
        "world units, opacity, count; 0 where there is nothing",
    },
    images={"102 shown": "RGBA8 to be displayed or saved"},
)

# The window: a picture of splats or of a fit, and the interface over it.
VIEW = subsystem(
    "view",
    "the window: what its interface is drawn from",
    uses=("image", "picture"),
    constants={
        "uint FILLED_ATLAS = 1": "characters, lines and plain areas, thumbnails",
        "uint FILLED_THUMBS = 2": "those of them that are thumbnails",
        "uint FILLED_PHOTO = 3": "a photograph, or how two renders differ",
        "uint FILLED_ERROR = 4": "the difference of the scene from the photograph",
        "uint PICTURE_CORNERS = 12": "corners of FILLED_PHOTO and FILLED_ERROR, which are drawn "
        "first",
    },
    structs={
        "Window": {
            "uvec2 size": "px",
            "uvec2 scene": "what is in use of the scene's picture, px",
            "uint scene_scale": "px of the window for one of the scene's, each way",
            "float louder": "what differences are multiplied by",
        },
        "GuiVertex": {
            "vec2 at": "px of the window",
            "vec2 uv": "of the texture, 0..1",
            "uint color": "RGBA8 with red in the low byte, which multiplies the texture",
        },
        "GuiCommand": {
            "vec4 clip": "left, top, right and bottom, px of the window",
            "vec4 part": "of the image that the texture is: its size, its corner, 0..1",
            "uint filling": "one of the FILLED_ constants",
        },
    },
    buffers={
        "110 Window window_shown": "what the window shows",
        "111 GuiVertex gui_vertices[gui corners]": "of triangles",
        "112 uvec2 gui_corners[gui corners]": "vertex and command of each corner, three a triangle",
        "103 GuiCommand gui_commands[gui corners]": "what triangles have, and their frame",
    },
    images={
        "113 screen": "RGBA8 of the whole window",
        "104 gui_atlas": "FILLED_ATLAS",
        "105 gui_scene": "what was drawn of the splats",
        "106 gui_photo": "FILLED_PHOTO",
    },
)

# Images as tensors of other libraries have them.
TENSORS = subsystem(
    "tensors",
    "images as rows of numbers without gaps, in memory that other libraries read and write",
    uses=("image",),
    buffers={
        "180 float image_out[4][pixels]": "of the camera's pixels: all colours without background, "
        "three a pixel, then all transmittances",
        "181 float d_image_in[4][pixels]": "the gradients of image_out, laid out as it is",
    },
)
