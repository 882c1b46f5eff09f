"""How the forward draw blends."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Blending:
    fragment: str
    ordered: bool  # blends in the shader through <order>, front to back; else in fixed function, back to front
    needs: tuple[str, ...]
    note: str


BLENDINGS = {
    "fixed": Blending("draw/forward_fixed.frag", False, (), "the blending unit, back to front; every splat is blended"),
    "programmable": Blending("draw/forward_programmable.frag", True, (), "in the shader, front to back; finished pixels take no more splats"),
}
