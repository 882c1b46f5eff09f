"""How the fragments of a pixel come in order: those that wait for each other fill <order>; others are listed, and put in order after the draw."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ordering:
    slot: str  # "" where fragments are listed
    attachment: bool  # the state is the draw's attachment, else a storage image
    section: str  # file that fills <section> of a draw of blocks
    section_needs: tuple[str, ...]  # for that
    needs: tuple[str, ...]
    note: str

    @property
    def listed(self) -> bool:
        return not self.slot


ORDERINGS = {
    "lists": Ordering(
        slot="",
        attachment=False,
        section="",
        section_needs=(),
        needs=(),
        note="on every device: fragments go into lists by block of pixels, which a compute pass sorts (Carpenter 1984; Yang et al. 2010)",
    ),
    "interlock": Ordering(
        slot="draw/ordered/order_interlock.glsl",
        attachment=False,
        section="draw/ordered/section_interlock.glsl",
        section_needs=(),
        needs=("interlock",),
        note="critical section in the fragment shader (VK_EXT_fragment_shader_interlock)",
    ),
    "raster_order": Ordering(
        slot="draw/ordered/order_raster.glsl",
        attachment=True,
        section="draw/ordered/section_sequential.glsl",
        section_needs=("sequential",),
        needs=("raster_order",),
        note="attachment read in draw order (VK_EXT_rasterization_order_attachment_access)",
    ),
}
