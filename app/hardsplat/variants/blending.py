"""How the forward draw blends."""

from dataclasses import dataclass

from hardsplat.variants.ordering import Ordering


@dataclass(frozen=True)
class Blending:
    fragment: str
    ordered: bool  # blends in a shader, front to back; else in fixed function, back to front
    needs: tuple[str, ...]
    note: str
    listed: bool = False  # in a compute shader, through lists of fragments; else through <order>
    block: str = "2x2"  # rows of BLOCKS and REDUCTIONS that `auto` begins with, the fastest of a backward draw on an H200
    reduction: str = "hybrid"

    def goes_with(self, ordering: Ordering) -> bool:
        return not self.ordered or self.listed == ordering.listed


BLENDINGS = {
    "fixed": Blending("draw/forward_fixed.frag", False, (), "the blending unit, back to front; every splat is blended"),
    "programmable": Blending("draw/ordered/forward_programmable.frag", True, (), "in the shader, front to back; finished pixels take no more splats"),
    "lists": Blending("draw/lists/blend.comp", True, (), "in float32 from lists of fragments, front to back, whatever the format; with --ordering lists", True, "4x2", "atomic"),
}
