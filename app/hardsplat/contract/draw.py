"""The draws of the hardware rasterizer: what blending carries per pixel."""

from hardsplat.contract.layout import BufferSpec, ImageSpec, Subsystem

DRAW = Subsystem(
    "draw",
    "per-pixel state of draws",
    buffers=(BufferSpec(45, "blocks", "uvec4", ("segments", "pixels"), "state of a draw of blocks, (D, T) a pixel: those of a block together, packed in the state format"),),
    images=(
        ImageSpec(46, "layers", "`target` of each depth segment by itself, one below the other, nearest first"),
        ImageSpec(47, "state", "what blending carries per pixel: colour and transmittance; the canvases of depth segments one below the other"),
        ImageSpec(48, "unfinished", "depth: 1 where a block of a depth segment is still seen, 0 where those in front have finished its pixels"),
    ),
    uses=("image",),
)
