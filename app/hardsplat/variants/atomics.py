"""How gradients are added to memory: files that fill <atomics>."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Atomics:
    slot: str
    needs: tuple[str, ...]
    note: str


ATOMICS = {
    "native": Atomics("reduce/atomics_native.glsl", ("float_atomics",), "float atomic add of the device"),
    "cas": Atomics("reduce/atomics_cas.glsl", (), "compare and swap: runs everywhere, slower where splats are contended"),
}
