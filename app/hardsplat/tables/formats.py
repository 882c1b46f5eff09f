"""Formats of render targets, of the blending state and of Adam's moments."""

from dataclasses import dataclass

# Formats of render targets and of the blending state.


@dataclass(frozen=True)
class TargetFormat:
    vk: int  # VkFormat
    qualifier: str  # GLSL image format
    texel: str  # numpy dtype of a channel
    largest: float  # colours above it are clamped before blending
    packing: str  # file that fills <state> of a draw of blocks
    packed: int  # bytes per pixel there
    needs: tuple[str, ...]
    note: str
    blend_needs: tuple[str, ...] = ()  # besides, for the blending unit
    shifted: bool = False  # the blending unit blends differences of colours from the background
    # format of images, where it is another than that of the canvases which the blending unit blends
    # on
    resolved: str = ""


_HALVES = "draw/state_float16.glsl"

# fmt: off
FORMATS = {
    "unorm8": TargetFormat(37, "rgba8", "uint8", 1.0, _HALVES, 4, (),
                           "R8G8B8A8_UNORM: fastest blending, coarse gradients"),
    "unorm16": TargetFormat(91, "rgba16", "uint16", 1.0, _HALVES, 4,
                            ("extended_formats", "unorm16_images"),
                            "R16G16B16A16_UNORM: 16 bits, even steps over 0..1"),
    "float16": TargetFormat(97, "rgba16f", "float16", 6e4, _HALVES, 4, (),
                            "R16G16B16A16_SFLOAT: 11-bit mantissa, up to 65504; blends differences "
                            "from the background", shifted=True, resolved="float32"),
    "float32": TargetFormat(109, "rgba32f", "float32", 1e18, "draw/state_float32.glsl", 8, (),
                            "R32G32B32A32_SFLOAT: reference accuracy, slow blending",
                            blend_needs=("float32_blend",)),
}
# fmt: on


# How Adam's moments lie in memory: files that fill <moments>. `auto` takes the first that the
# device runs.


@dataclass(frozen=True)
class MomentFormat:
    slot: str
    nbytes: int  # of a number
    needs: tuple[str, ...]
    note: str


# fmt: off
MOMENT_FORMATS = {
    "bfloat16": MomentFormat("optim/moments_bfloat16.glsl", 2, ("storage_16bit",),
                             "half the memory, 8 bits of mantissa, stochastic rounding"),
    "float32": MomentFormat("optim/moments_float32.glsl", 4, (), "as computed"),
}
