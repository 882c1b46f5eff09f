"""A pass is data: a shader, what it reads and writes, constants. hardsplat.gpu.passes.pipelines
checks it against the SPIR-V and makes its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from hardsplat.gpu.passes.shader import ShaderSource


class PassError(Exception):
    """A pass and its shader disagree; the message names pass, shader, resource, expected and
    actual."""


@dataclass(frozen=True)
class _Pass:
    """What passes have in common: data, equal where they are built alike."""

    def key(self) -> tuple:
        """What a device keeps the pipeline under."""
        values = (getattr(self, f.name) for f in fields(self))
        frozen = (tuple(sorted(v.items())) if isinstance(v, Mapping) else v for v in values)
        return type(self).__name__, *frozen


@dataclass(frozen=True)
class ComputePass(_Pass):
    """One compute shader. `bind` binds another resource instead of one of the contract:
    {"keys": "keys_alt"}.

    reads, writes: names of the contract, and of the trained table: `means`, `adam_means`,
    `d_means`. disjoint: those of `writes` of which this pass leaves other parts than any pass that
    names them here too, so that these may run at once.

    full_subgroups: the shader counts on subgroups of the device's size without idle lanes, which
    some drivers give only on request. subgroup: another size of subgroups, of
    device.subgroup_sizes; 0 for the usual one.
    """

    name: str
    shader: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    spec: Mapping[str, int | float] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)
    disjoint: tuple[str, ...] = ()
    full_subgroups: bool = False
    subgroup: int = 0

    def sources(self) -> list[ShaderSource]:
        return [ShaderSource.of(self.shader, self.slots)]


@dataclass(frozen=True)
class Fill:
    """What a part of a program adds to the passes of a name: files for their slots, and what these
    read, write, and take as constants and bindings."""

    name: str
    slots: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    spec: Mapping[str, int | float] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)
    disjoint: tuple[str, ...] = ()


def filled(passes: Iterable[ComputePass], fills: Sequence[Fill]) -> list[ComputePass]:
    """The passes, each with the fills of its name."""
    out = []
    for p in passes:
        for f in (f for f in fills if f.name == p.name):
            p = replace(
                p,
                reads=(*p.reads, *f.reads),
                writes=(*p.writes, *f.writes),
                spec={**p.spec, **f.spec},
                slots={**p.slots, **f.slots},
                bind={**p.bind, **f.bind},
                disjoint=(*p.disjoint, *f.disjoint),
            )
        out.append(p)
    return out


@dataclass(frozen=True)
class DepthTest:
    """What a draw tests gl_Position.z / w against. image: a DepthImage. passes: `less`, `less or
    equal` or `greater` than what is there.

    clear: the value before the draw, None to keep what is there. writes: fragments that pass leave
    their depth.
    """

    image: str
    passes: str
    clear: float | None = None
    writes: bool = True


@dataclass(frozen=True)
class DrawPass(_Pass):
    """One draw without vertex buffers.

    geometry: a shader between the vertices and the fragments. outline: slots of the later of the
    two. topology: a row of TOPOLOGIES in graphics.py. rectangle: a triangle fills its bounding box
    (VK_NV_fill_rectangle).

    attachment: image drawn to, None for shaders that only store. clear: its value before, None to
    keep what is there. blend: a row of hardsplat.tables.hardware. in_order: the fragment shader
    reads the attachment as input, in rasterization order. depth: what it tests depth against.
    """

    name: str
    vertex: str
    fragment: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    attachment: str | None = None
    format: int = 0
    clear: tuple[float, float, float, float] | None = None
    blend: bool = False
    in_order: bool = False
    depth: DepthTest | None = None
    geometry: str | None = None
    outline: Mapping[str, str] = field(default_factory=dict)
    topology: str = "triangles"
    rectangle: bool = False
    spec: Mapping[str, int | float] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)

    def sources(self) -> list[ShaderSource]:
        last = ShaderSource.of(self.geometry or self.vertex, self.outline)
        return [
            *([ShaderSource.of(self.vertex)] if self.geometry else []),
            last,
            ShaderSource.of(self.fragment, self.slots, self.macros),
        ]


@dataclass
class Pipeline:
    """A built pass, alive as long as its device. `descriptors`: (binding, descriptor type, resource
    name)."""

    owner: ComputePass | DrawPass
    handle: object
    layout: object
    set_layout: object
    descriptors: list[tuple[int, int, str]]
    local_size: tuple[int, int, int]
    render_pass: object = None

    def _bound(self, names: Iterable[str]) -> set[str]:
        return {self.owner.bind.get(name, name) for name in names}

    @property
    def reads(self) -> set[str]:
        return self._bound(self.owner.reads)

    @property
    def writes(self) -> set[str]:
        return self._bound(self.owner.writes)

    @property
    def disjoint(self) -> set[str]:
        return self._bound(getattr(self.owner, "disjoint", ()))
