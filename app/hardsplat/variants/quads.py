"""Whether the backward draw asks for full quads: files that fill <quads>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quads:
    slot: str
    needs: tuple[str, ...]
    note: str


QUADS = {
    "full": Quads("reduce/quads_full.glsl", ("quad_control", "maximal_reconvergence"), "full quads and reconvergence by declaration"),
    "plain": Quads("reduce/quads_plain.glsl", (), "as the device does it"),
}
