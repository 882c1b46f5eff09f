"""Pictures for people: depth, counts and images as colours."""

from hardsplat.contract.layout import BufferSpec, Field, ImageSpec, Subsystem

PICTURE = Subsystem(
    "picture",
    "numbers and images as colours",
    structs={
        "Palette": (
            Field("low", "float", "number with the first colour"),
            Field("high", "float", "number with the last colour, above low"),
            Field("colors", "uint", "RGBA8 with red in the low byte", 256),
        ),
    },
    buffers=(
        BufferSpec(100, "palette", "Palette", (1,), "how numbers become colours", single=True),
        BufferSpec(101, "values", "float", ("pixels",), "what a picture shows of every pixel of the canvas: depth in world units, opacity, count; 0 where there is nothing"),
    ),
    images=(ImageSpec(102, "shown", "RGBA8 to be displayed or saved"),),
    uses=("image",),
)
