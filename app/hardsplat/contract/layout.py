"""What a contract between host and shaders is made of, and how its types lie in memory.

Layout is GL_EXT_scalar_block_layout everywhere: `vec3` is 12 bytes, that is numpy `(N, 3) float32`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

# Axes of buffers. An axis that is a number is meant as it stands.
AXES = {
    "splats": "splats that the parameters have room for",
    "visible": "splats that one view shows, at most all",
    "sort blocks": "blocks of GROUP * SORT_ROWS splats",
    "groups": "workgroups of GROUP splats, and one more",
    "pairs": "pairs of a tile or block and a splat that touches it",
    "pair blocks": "sort blocks of pairs",
    "tiles": "tiles of TILE x TILE pixels, and one more",
    "buckets": "buckets of the splats of a tile",
    "subgroups": "subgroups that have the pixels of a tile",
    "pixels": "pixels of the canvas",
    "segments": "depth segments",
    "pixel groups": "workgroups over the pixels of the canvas",
    "photograph bytes": "bytes of all photographs, or of a ring of them",
    "views": "training views",
    "steps": "steps in the ring of HISTORY",
    "pairs of images": "pairs of perturbed images a step",
    "planes": "planes of trained quantities",
    "terms": "terms of the loss",
    "blobs": "2D Gaussians that an image fit has room for",
    "characters": "characters of the window's text and font",
    "vertices": "vertices of a mesh",
    "triangles": "triangles of a mesh",
    "uvs": "places in a texture",
    "texels": "texels of a texture",
    "words": "words of a test of the device",
}
# What there must be less of where a buffer with such an axis does not fit.
GROWS_WITH = {
    "splats": "splats",
    "visible": "splats",
    "sort blocks": "splats",
    "groups": "splats",
    "pairs": "splats",
    "pair blocks": "splats",
    "buckets": "splats",
    "pixels": "pixels",
    "pixel groups": "pixels",
    "tiles": "pixels",
    "subgroups": "pixels",
    "photograph bytes": "pixels",
    "blobs": "blobs",
    "texels": "texels",
}


@dataclass(frozen=True)
class Constant:
    value: float
    type: str  # float, uint or int
    note: str


@dataclass(frozen=True)
class Field:
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
        """A value of GROWS_WITH, "" where the buffer is always small."""
        return next((GROWS_WITH[axis] for axis in self.axes if axis in GROWS_WITH), "")


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
    structs: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)
    buffers: tuple[BufferSpec, ...] = ()
    images: tuple[ImageSpec, ...] = ()
    uses: tuple[str, ...] = ()


_SCALARS = {"float": np.float32, "uint": np.uint32, "int": np.int32}


def dtype_of(glsl_type: str, structs: Mapping[str, tuple[Field, ...]]) -> np.dtype:
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
