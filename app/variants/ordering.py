"""How fragments of a pixel take turns: files that fill <order>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ordering:
    slot: str
    attachment: bool  # the state is the draw's attachment, else a storage image
    needs: tuple[str, ...]
    note: str


ORDERINGS = {
    "interlock": Ordering("order/interlock.glsl", False, ("interlock",), "critical section in the fragment shader (VK_EXT_fragment_shader_interlock)"),
    "raster_order": Ordering(
        "order/raster_order.glsl", True, ("raster_order",), "attachment read in draw order (VK_EXT_rasterization_order_attachment_access)"
    ),
}
