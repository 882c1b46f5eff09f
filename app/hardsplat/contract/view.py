"""The window: text, photograph and picture on one screen."""

from hardsplat.contract.layout import BufferSpec, Field, ImageSpec, Subsystem

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
            Field("frame_at", "uvec2", "upper left corner of what the photograph shows of the render, px of the window"),
            Field("frame_size", "uvec2", "px, beyond which the render is darker; 0: nowhere"),
            Field("legend_at", "uvec2", "upper left corner of the palette, px of the window"),
            Field("legend_size", "uvec2", "px; 0: none"),
            Field("cell", "uvec2", "a character, px"),
            Field("grid", "uvec2", "columns and rows of characters"),
        ),
    },
    buffers=(
        BufferSpec(110, "overlay", "Overlay", (1,), "what lies where in the window", single=True),
        BufferSpec(111, "glyphs", "uint", ("characters",), "font: coverage of the pixels of each character from the space on, a byte each"),
        BufferSpec(112, "text", "uint", ("characters",), "character codes; 0: nothing here"),
    ),
    images=(ImageSpec(113, "screen", "RGBA8 of the whole window"),),
    uses=("picture", "loss"),
)
