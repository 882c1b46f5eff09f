"""What a SPIR-V module says of itself: bindings and planes with their access and layout, workgroup
size, specialization constants (SPIR-V specification, unified1)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_NAME, _MEMBER_NAME, _EXECUTION_MODE, _DECORATE, _MEMBER_DECORATE = 5, 6, 16, 71, 72
(
    _TYPE_INT,
    _TYPE_FLOAT,
    _TYPE_VECTOR,
    _TYPE_IMAGE,
    _TYPE_ARRAY,
    _TYPE_RUNTIME_ARRAY,
    _TYPE_STRUCT,
    _TYPE_POINTER,
) = 21, 22, 23, 25, 28, 29, 30, 32
_CONSTANT, _FUNCTION, _VARIABLE = 43, 54, 59
_DEC_SPEC_ID, _DEC_ARRAY_STRIDE, _DEC_NON_WRITABLE, _DEC_NON_READABLE, _DEC_BINDING, _DEC_OFFSET = (
    1,
    6,
    24,
    25,
    33,
    35,
)
_MODE_LOCAL_SIZE = 17
_DIM_SUBPASS = 6
_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER, _PHYSICAL_STORAGE_BUFFER = 0, 2, 12, 5349
_KINDS = {_STORAGE_BUFFER: "buffer", _UNIFORM: "uniform"}
PLANE_SUFFIX = (
    "_plane"  # of the reference types with which shaders open planes, see contract/glsl.py
)


@dataclass(frozen=True)
class Binding:
    """How a shader opens a resource. stride: bytes between elements of a runtime array. layout:
    member and byte offset of every number of an element, in order."""

    kind: str  # buffer | uniform | sampled | storage | input
    reads: bool
    writes: bool
    stride: int | None
    layout: tuple[tuple[str, int], ...] = ()


@dataclass
class Reflection:
    """planes: by the name that a shader opens them with, whether it reads and writes them."""

    bindings: dict[int, Binding] = field(default_factory=dict)
    planes: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    local_size: tuple[int, int, int] = (1, 1, 1)
    spec_ids: dict[str, int] = field(
        default_factory=dict
    )  # LOCAL_SIZE: the one without a name, of local_size_x_id


def _text(words: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode()


class _Module:
    """The declarations of a module, by id."""

    def __init__(self, spirv: bytes):
        words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
        if words[0] != 0x07230203:
            raise ValueError("not a SPIR-V module")
        self.names: dict[int, str] = {}
        self.decorations: dict[int, dict[int, int]] = {}
        self.member_names: dict[int, dict[int, str]] = {}
        self.member_marks: dict[int, set[int]] = {}
        self.member_offsets: dict[int, dict[int, int]] = {}
        self.types: dict[int, tuple[int, ...]] = {}
        self.constants: dict[int, int] = {}
        self.variables: list[tuple[int, int, int]] = []  # type of the pointer, id, storage class
        self.local_size = (1, 1, 1)
        at = 5
        while at < len(words):
            length, op = words[at] >> 16, words[at] & 0xFFFF
            if op == _FUNCTION:
                break  # what follows declares nothing, and is most of the module
            self._take(op, words[at + 1 : at + length])
            at += length

    def _take(self, op: int, args: tuple[int, ...]) -> None:
        if op == _NAME:
            self.names[args[0]] = _text(args[1:])
        elif op == _MEMBER_NAME:
            self.member_names.setdefault(args[0], {})[args[1]] = _text(args[2:])
        elif op == _EXECUTION_MODE and args[1] == _MODE_LOCAL_SIZE:
            x, y, z = args[2:5]
            self.local_size = x, y, z
        elif op == _DECORATE:
            self.decorations.setdefault(args[0], {})[args[1]] = args[2] if len(args) > 2 else 1
        elif op == _MEMBER_DECORATE:
            self.member_marks.setdefault(args[0], set()).add(args[2])
            if args[2] == _DEC_OFFSET:
                self.member_offsets.setdefault(args[0], {})[args[1]] = args[3]
        elif op in (
            _TYPE_INT,
            _TYPE_FLOAT,
            _TYPE_VECTOR,
            _TYPE_IMAGE,
            _TYPE_ARRAY,
            _TYPE_RUNTIME_ARRAY,
            _TYPE_STRUCT,
            _TYPE_POINTER,
        ):
            self.types[args[0]] = (op, *args[1:])
        elif op == _CONSTANT:
            self.constants[args[1]] = args[2]
        elif op == _VARIABLE:
            self.variables.append((args[0], args[1], args[2]))

    def layout(self, kind: int, name: str = "", start: int = 0) -> tuple[tuple[str, int], ...]:
        """(innermost member, byte offset) of the 32-bit numbers of a value of this type that begins
        at `start`; of an array without a length, those of one element."""
        op, *args = self.types[kind]
        if op in (_TYPE_INT, _TYPE_FLOAT):
            return ((name, start),)
        if op == _TYPE_VECTOR:
            return tuple((name, start + 4 * i) for i in range(args[1]))
        if op == _TYPE_RUNTIME_ARRAY:
            return self.layout(args[0], name, start)
        if op == _TYPE_ARRAY:
            stride = self.decorations[kind][_DEC_ARRAY_STRIDE]
            return tuple(
                n
                for i in range(self.constants[args[1]])
                for n in self.layout(args[0], name, start + i * stride)
            )
        names, offsets = self.member_names.get(kind, {}), self.member_offsets[kind]
        return tuple(
            n
            for i, member in enumerate(args)
            for n in self.layout(member, names.get(i, name), start + offsets[i])
        )


def reflect(spirv: bytes) -> Reflection:
    m = _Module(spirv)
    out = Reflection(local_size=m.local_size)
    for target, decoration in m.decorations.items():
        if _DEC_SPEC_ID in decoration:
            out.spec_ids[m.names.get(target, "LOCAL_SIZE")] = decoration[_DEC_SPEC_ID]
    for pointer, variable, storage in m.variables:
        own = m.decorations.get(variable, {})
        if _DEC_BINDING in own and storage in (_STORAGE_BUFFER, _UNIFORM, _UNIFORM_CONSTANT):
            out.bindings[own[_DEC_BINDING]] = _binding(m, m.types[pointer][2], set(own), storage)
    for op, *args in m.types.values():
        if (
            op == _TYPE_POINTER
            and args[0] == _PHYSICAL_STORAGE_BUFFER
            and m.names.get(args[1], "").endswith(PLANE_SUFFIX)
        ):
            marks = m.member_marks.get(args[1], set())
            out.planes[m.names[args[1]].removesuffix(PLANE_SUFFIX)] = (
                _DEC_NON_READABLE not in marks,
                _DEC_NON_WRITABLE not in marks,
            )
    return out


def _binding(m: _Module, pointee: int, own: set[int], storage: int) -> Binding:
    """pointee: id of the type that the variable points to. own: decorations of the variable."""
    if storage != _UNIFORM_CONSTANT:
        marks = m.member_marks.get(pointee, set()) | own
        member = m.types[pointee][-1]
        array = m.types[member][0] == _TYPE_RUNTIME_ARRAY
        writes = storage == _STORAGE_BUFFER and _DEC_NON_WRITABLE not in marks
        stride = m.decorations[member][_DEC_ARRAY_STRIDE] if array else None
        return Binding(
            _KINDS[storage], _DEC_NON_READABLE not in marks, writes, stride, m.layout(member)
        )
    _, _, dim, _, _, _, sampled, *_ = m.types[pointee]
    kind = "input" if dim == _DIM_SUBPASS else "sampled" if sampled == 1 else "storage"
    marks = own if kind == "storage" else {_DEC_NON_WRITABLE}
    return Binding(kind, _DEC_NON_READABLE not in marks, _DEC_NON_WRITABLE not in marks, None)
