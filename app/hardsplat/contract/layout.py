"""What a contract between host and shaders is made of, and how its types lie in memory.

Layout is GL_EXT_scalar_block_layout everywhere: `vec3` is 12 bytes, that is numpy `(N, 3) float32`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

# Axes of buffers: what they count, and what there must be less of where a buffer with such an axis
# does not fit. An axis that is a number is meant as it stands.
AXES = {
    "splats": ("splats that fit in the parameters", "splats"),
    "visible": ("splats that one view shows, at most all", "splats"),
    "model words": ("words of a bit for every splat of a model", "splats"),
    "model blocks": ("blocks of GROUP * SORT_ROWS splats of a model, and one more", "splats"),
    "sort blocks": ("blocks of GROUP * SORT_ROWS splats", "splats"),
    "groups": ("workgroups of GROUP splats, and one more", "splats"),
    "pairs": ("pairs of a tile or block and a splat that touches it", "splats"),
    "pair blocks": ("sort blocks of pairs", "splats"),
    "tiles": ("tiles of TILE x TILE pixels, and one more", "pixels"),
    "buckets": ("buckets of the splats of a tile", "splats"),
    "places": ("checkpoints of buckets", "splats"),
    "subgroups": ("subgroups that have the pixels of a tile", "pixels"),
    "pixels": ("pixels of the canvas", "pixels"),
    "segments": ("depth segments", ""),
    "pixel groups": ("workgroups over the pixels of the canvas", "pixels"),
    "photograph bytes": ("bytes of all photographs, or of a ring of them", "pixels"),
    "views": ("training views", ""),
    "steps": ("steps in the ring of HISTORY", ""),
    "pairs of images": ("pairs of perturbed images a step", ""),
    "planes": ("planes of trained quantities", ""),
    "terms": ("terms of the loss", ""),
    "blobs": ("2D Gaussians that fit in the buffers of an image fit", "blobs"),
    "gui corners": ("corners of the triangles of the window's interface", ""),
    "vertices": ("vertices of a mesh", ""),
    "triangles": ("triangles of a mesh", ""),
    "uvs": ("places in a texture", ""),
    "texels": ("texels of a texture", "texels"),
    "words": ("words of a test of the device", ""),
}


@dataclass(frozen=True)
class Constant:
    value: float
    type: str  # float, uint or int
    note: str


@dataclass(frozen=True)
class Member:
    """A member of a struct. count: elements of an array, 1 for none."""

    name: str
    type: str
    note: str
    count: int = 1


@dataclass(frozen=True)
class BufferSpec:
    """A storage buffer, or with `uniform` a uniform buffer.

    axes: of its elements, names of AXES or numbers. `single` ones hold one element, which shaders
    address as `name.field`; the others as `name[i]`.
    """

    binding: int
    name: str
    type: str
    axes: tuple[str | int, ...]
    note: str
    single: bool = False
    uniform: bool = False

    @property
    def grows_with(self) -> str:
        """What there must be less of where it does not fit, "" where it is always small."""
        return next((AXES[axis][1] for axis in self.axes if axis in AXES and AXES[axis][1]), "")


@dataclass(frozen=True)
class ImageSpec:
    """An image of 4 channels. Shaders open it as SAMPLED_ (texelFetch), STORE_, LOADSTORE_ in a
    named format, or INPUT_ (subpassLoad)."""

    binding: int
    name: str
    note: str


@dataclass(frozen=True)
class Subsystem:
    """What the passes of one part of the program share with its host code. `uses`: subsystems whose
    structs and constants it needs."""

    name: str
    note: str
    constants: Mapping[str, Constant] = field(default_factory=dict)
    structs: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    buffers: tuple[BufferSpec, ...] = ()
    images: tuple[ImageSpec, ...] = ()
    uses: tuple[str, ...] = ()


# A row of a table, as GLSL declares it: "uint GROUP = 256", "vec4 rows[3]", "20 uint keys[splats]".
_DECLARATION = re.compile(
    r"(?P<binding>\d+ )?(?P<uniform>uniform )?(?:(?P<type>\w+) )?(?P<name>\w+)"
    r"(?P<axes>(?:\[[^]]*\])*)(?: = (?P<value>\S+))?"
)


def subsystem(
    name: str,
    note: str,
    uses: tuple[str, ...] = (),
    constants: Mapping[str, str] = {},
    structs: Mapping[str, Mapping[str, str]] = {},
    buffers: Mapping[str, str] = {},
    images: Mapping[str, str] = {},
) -> Subsystem:
    """A subsystem from tables: declarations as GLSL has them, each with its note.

    constants: "uint GROUP = 256". structs: members, "vec4 rows[3]". buffers: with their bindings,
    "20 uint keys[splats]"; without brackets they hold one element. images: "40 target".
    """

    def rows(table: Mapping[str, str]) -> Iterator[tuple[str, str, list[str | int], re.Match, str]]:
        """(name, type, axes, all parts, note) of each."""
        for row, note in table.items():
            found = _DECLARATION.fullmatch(row)
            assert found, f"contract: {row!r} is no declaration"
            axes = [axis for axis in found["axes"][1:-1].split("][") if axis]
            sizes = [int(axis) if axis.isdecimal() else axis for axis in axes]
            yield found["name"], found["type"], sizes, found, note

    def member(name: str, kind: str, axes: list, note: str) -> Member:
        return Member(name, kind, note, axes[0] if axes else 1)

    def buffer(name: str, kind: str, axes: list, found: re.Match, note: str) -> BufferSpec:
        single, uniform = not found["axes"], bool(found["uniform"])
        shape = (1,) if single else tuple(axes)
        return BufferSpec(int(found["binding"]), name, kind, shape, note, single, uniform)

    return Subsystem(
        name,
        note,
        {
            n: Constant(float(m["value"]) if kind == "float" else int(m["value"], 0), kind, about)
            for n, kind, _, m, about in rows(constants)
        },
        {
            struct: tuple(member(n, kind, axes, about) for n, kind, axes, _, about in rows(members))
            for struct, members in structs.items()
        },
        tuple(buffer(*row) for row in rows(buffers)),
        tuple(ImageSpec(int(m["binding"]), n, about) for n, _, _, m, about in rows(images)),
        uses,
    )


_SCALARS = {"float": np.float32, "uint": np.uint32, "int": np.int32}


def dtype_of(glsl_type: str, structs: Mapping[str, tuple[Member, ...]]) -> np.dtype:
    """numpy dtype of a GLSL type, or of one of `structs`, in scalar layout."""
    if glsl_type in structs:
        members = [(f.name, dtype_of(f.type, structs), f.count) for f in structs[glsl_type]]
        return np.dtype(
            [(name, kind, (count,)) if count > 1 else (name, kind) for name, kind, count in members]
        )
    if glsl_type in _SCALARS:
        return np.dtype(_SCALARS[glsl_type])
    base = np.uint32 if glsl_type.startswith("u") else np.float32
    return np.dtype((base, (int(glsl_type[-1]),)))
