"""The contract between host and shaders: constants, structs, buffers and images, a subsystem a
module.

Each subsystem has a header, `#include "contract/<name>.glsl"`, which glsl.py writes from the tables
here whenever a shader is expanded. Binding numbers are explicit and unique, so a buffer more in one
subsystem leaves the compiled shaders of the others as they are.

A shader opens a resource with its access, `BUFFER_camera(readonly)`; a pass names what it reads and
writes; `gpu.pipelines.build` checks both against the SPIR-V.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from hardsplat.contract import core, fit, raster, splats, train
from hardsplat.contract.layout import BufferSpec, ImageSpec, Member, Subsystem, dtype_of

_MODULES = (core, splats, raster, train, fit)
_ROWS = (row for module in _MODULES for row in vars(module).values() if isinstance(row, Subsystem))
SUBSYSTEMS: dict[str, Subsystem] = {row.name: row for row in _ROWS}
_CONSTANTS = {n: c for s in SUBSYSTEMS.values() for n, c in s.constants.items()}
CONSTANTS: dict[str, int] = {n: int(c.value) for n, c in _CONSTANTS.items() if c.type != "float"}
FLOATS: dict[str, float] = {n: c.value for n, c in _CONSTANTS.items() if c.type == "float"}
STRUCTS: dict[str, tuple[Member, ...]] = {
    name: fields for s in SUBSYSTEMS.values() for name, fields in s.structs.items()
}
BUFFERS: dict[str, BufferSpec] = {b.name: b for s in SUBSYSTEMS.values() for b in s.buffers}
_IMAGES = {i.name: i for s in SUBSYSTEMS.values() for i in s.images}
SPECS: dict[str, BufferSpec | ImageSpec] = {**BUFFERS, **_IMAGES}
BINDINGS: dict[int, str] = {spec.binding: name for name, spec in SPECS.items()}


@functools.cache
def dtype(glsl_type: str) -> np.dtype:
    """numpy dtype of a GLSL type or of a struct of the contract, in scalar layout."""
    return dtype_of(glsl_type, STRUCTS)


def struct(type: str, **members: Any) -> np.ndarray:
    """A struct of the contract as an array of no dimensions; 0 where nothing is given."""
    data = np.zeros((), dtype(type))
    for name, value in members.items():
        data[name] = value
    return data


def itemsize(name: str) -> int:
    """Bytes of one element of a buffer."""
    return dtype(BUFFERS[name].type).itemsize


def nbytes(elements: Mapping[str, int]) -> dict[str, int]:
    """Bytes of so many elements, by buffer."""
    return {name: n * itemsize(name) for name, n in elements.items()}


@functools.cache
def layout(name: str) -> tuple[tuple[str, int], ...]:
    """(innermost member, byte offset) of all 32-bit numbers of one element of a buffer, in order;
    the member is "" where the element is no struct."""
    return tuple(_numbers(dtype(BUFFERS[name].type)))


def _numbers(kind: np.dtype) -> list[tuple[str, int]]:
    """The layout of a type."""
    if kind.fields:
        parts = ((name, offset, part) for name, (part, offset, *_) in kind.fields.items())
        return [(own or name, start + at) for name, start, of in parts for own, at in _numbers(of)]
    if kind.subdtype:
        base, _ = kind.subdtype
        starts, inner = range(0, kind.itemsize, base.itemsize), _numbers(base)
        return [(name, start + at) for start in starts for name, at in inner]
    return [("", 0)]


def indirect_offset(field: str) -> int:
    """Byte offset of a command in the `indirect` buffer."""
    commands: Mapping[str, Any] = dtype("Indirect").fields or {}
    return commands[field][1]
