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
