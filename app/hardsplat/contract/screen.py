"""Numbers and images as colours, the window, images as tensors."""

from hardsplat.contract.layout import BufferSpec, Field, ImageSpec, Subsystem

# Pictures for people: depth, counts and images as colours.

PICTURE = Subsystem(
    "picture",
    "numbers and images as colours",
    structs={
        "Palette": (
            Field("low", "float", "number with the first colour"),
            Field("high", "float", "number with the last colour, above low"),
            Field("colors", "uint", "RGBA8 with red in the low byte", 256),
        )
    },
    buffers=(
        BufferSpec(100, "palette", "Palette", (1,), "how numbers become colours", single=True),
        BufferSpec(
            101,
            "values",
            "float",
            ("pixels",),
            "what a picture shows of every pixel of the canvas: depth in world units, "
            "opacity, count; 0 where there is nothing",
        ),
    ),
    images=(ImageSpec(102, "shown", "RGBA8 to be displayed or saved"),),
    uses=("image",),
)

# The window: text, photograph and picture on one screen.
VIEW = Subsystem(
    "view",
    "what lies where in the window",
    structs={
        "Overlay": (
            Field("size", "uvec2", "window, px"),
            Field("render", "uvec2", "its upper left part that shows splats, px"),
            Field("scale", "uint", "px of the window for a rendered one, each way"),
            Field("photo_at", "uvec2", "upper left corner of the photograph, px of the window"),
            Field("photo_size", "uvec2", "px; 0: none"),
            Field("photo_share", "float", "of the photograph where it lies over the render, 0..1"),
            Field(
                "frame_at",
                "uvec2",
                "upper left corner of what the photograph shows of the render, px of the window",
            ),
            Field("frame_size", "uvec2", "px, beyond which the render is darker; 0: nowhere"),
            Field("legend_at", "uvec2", "upper left corner of the palette, px of the window"),
            Field("legend_size", "uvec2", "px; 0: none"),
            Field("cell", "uvec2", "a character, px"),
            Field("grid", "uvec2", "columns and rows of characters"),
        )
    },
    buffers=(
        BufferSpec(110, "overlay", "Overlay", (1,), "what lies where in the window", single=True),
        BufferSpec(
            111,
            "glyphs",
            "uint",
            ("characters",),
            "font: coverage of the pixels of each character from the space on, a byte each",
        ),
        BufferSpec(112, "text", "uint", ("characters",), "character codes; 0: nothing here"),
    ),
    images=(ImageSpec(113, "screen", "RGBA8 of the whole window"),),
    uses=("picture", "loss"),
)

# Images as tensors of other libraries have them.
TENSORS = Subsystem(
    "tensors",
    "images as rows of numbers without gaps, in memory that other libraries read and write",
    buffers=(
        BufferSpec(
            180,
            "image_out",
            "float",
            (4, "pixels"),
            "of the camera's pixels: all colours without background, three a pixel, then "
            "all transmittances",
        ),
        BufferSpec(181, "d_image_in", "float", (3, "pixels"), "of the camera's pixels: dL/d(rgb)"),
    ),
    uses=("image",),
)
