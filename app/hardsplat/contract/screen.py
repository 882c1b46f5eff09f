"""Numbers and images as colours, the window, images as tensors."""

from hardsplat.contract.layout import subsystem

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

# The window: text, photograph and picture on one screen.
VIEW = subsystem(
    "view",
    "what lies where in the window",
    uses=("picture", "loss"),
    structs={
        "Overlay": {
            "uvec2 size": "window, px",
            "uvec2 render": "its upper left part that shows splats, px",
            "uint scale": "px of the window for a rendered one, each way",
            "uvec2 photo_at": "upper left corner of the photograph, px of the window",
            "uvec2 photo_size": "px; 0: none",
            "float photo_share": "of the photograph where it lies over the render, 0..1",
            "uvec2 frame_at": "upper left corner of what the photograph shows of the render, px of "
            "the window",
            "uvec2 frame_size": "px, beyond which the render is darker; 0: nowhere",
            "uvec2 legend_at": "upper left corner of the palette, px of the window",
            "uvec2 legend_size": "px; 0: none",
            "uvec2 cell": "a character, px",
            "uvec2 grid": "columns and rows of characters",
        }
    },
    buffers={
        "110 Overlay overlay": "what lies where in the window",
        "111 uint glyphs[characters]": "font: coverage of the pixels of each character from the "
        "space on, a byte each",
        "112 uint text[characters]": "character codes; 0: nothing here",
    },
    images={"113 screen": "RGBA8 of the whole window"},
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
