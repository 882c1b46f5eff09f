"""Formats of render targets and of the blending state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
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
    resolved: str = ""  # format of images, where it is another than that of the canvases which the blending unit blends on


_HALVES = "draw/state_float16.glsl"

FORMATS = {
    "unorm8": Format(37, "rgba8", "uint8", 1.0, _HALVES, 4, (), "R8G8B8A8_UNORM: fastest blending, coarse gradients"),
    "unorm16": Format(91, "rgba16", "uint16", 1.0, _HALVES, 4, ("extended_formats", "unorm16_images"), "R16G16B16A16_UNORM: 16 bits, even steps over 0..1"),
    "float16": Format(
        97, "rgba16f", "float16", 6e4, _HALVES, 4, (), "R16G16B16A16_SFLOAT: 11-bit mantissa, up to 65504; blends differences from the background", shifted=True, resolved="float32"
    ),
    "float32": Format(109, "rgba32f", "float32", 1e18, "draw/state_float32.glsl", 8, (), "R32G32B32A32_SFLOAT: reference accuracy, slow blending", ("float32_blend",)),
}
