"""What a SPIR-V module declares: bindings and planes with their access and layout, workgroup
size, specialization constants (SPIR-V specification, unified1)."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

# Opcodes that declare, decorations, an execution mode, a dimension, and storage classes.
_NAME, _MEMBER_NAME, _EXECUTION_MODE, _DECORATE, _MEMBER_DECORATE = 5, 6, 16, 71, 72
_NUMBERS, _VECTOR, _IMAGE, _ARRAY, _RUNTIME_ARRAY, _STRUCT = (21, 22), 23, 25, 28, 29, 30
_POINTER, _CONSTANT, _FUNCTION, _VARIABLE = 32, 43, 54, 59
_TYPES = (*_NUMBERS, _VECTOR, _IMAGE, _ARRAY, _RUNTIME_ARRAY, _STRUCT, _POINTER)
_SPEC_ID, _STRIDE, _NON_WRITABLE, _NON_READABLE, _BINDING, _OFFSET = 1, 6, 24, 25, 33, 35
_LOCAL_SIZE, _SUBPASS = 17, 6
_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER, _PHYSICAL_STORAGE_BUFFER = 0, 2, 12, 5349
# of the reference types with which shaders open planes, see contract/glsl.py
PLANE_SUFFIX = "_plane"


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
    # LOCAL_SIZE: the one without a name, of local_size_x_id
    spec_ids: dict[str, int] = field(default_factory=dict)


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode()


class Module:
    """The declarations of a module, by id."""

    def __init__(self, spirv: bytes):
        words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
        if words[0] != 0x07230203:
            raise ValueError("not a SPIR-V module")
        self.names: dict[int, str] = {}
        self.decorations: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.member_names: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self.member_marks: defaultdict[int, set[int]] = defaultdict(set)
        self.member_offsets: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.types: dict[int, tuple[int, ...]] = {}
        self.constants: dict[int, int] = {}
        self.variables: list[tuple[int, int, int]] = []  # type of the pointer, id, storage class
        self.local_size = (1, 1, 1)
        at = 5
        while at < len(words):
            length, op = words[at] >> 16, words[at] & 0xFFFF
            if op == _FUNCTION:
                break  # what follows declares nothing, and is most of the module
            self._take(op, *words[at + 1 : at + length])
            at += length

    def _take(self, op: int, target: int, *args: int) -> None:
        if op == _NAME:
            self.names[target] = _text(args)
        elif op == _MEMBER_NAME:
            self.member_names[target][args[0]] = _text(args[1:])
        elif op == _EXECUTION_MODE and args[0] == _LOCAL_SIZE:
            self.local_size = args[1], args[2], args[3]
        elif op == _DECORATE:
            self.decorations[target][args[0]] = args[1] if len(args) > 1 else 1
        elif op == _MEMBER_DECORATE:
            self.member_marks[target].add(args[1])
            if args[1] == _OFFSET:
                self.member_offsets[target][args[0]] = args[2]
        elif op in _TYPES:
            self.types[target] = (op, *args)
        elif op == _CONSTANT:
            self.constants[args[0]] = args[1]
        elif op == _VARIABLE:
            self.variables.append((target, args[0], args[1]))

    def layout(self, kind: int, name: str = "", start: int = 0) -> tuple[tuple[str, int], ...]:
        """(innermost member, byte offset) of the 32-bit numbers of a value of this type that begins
        at `start`; of an array without a length, those of one element."""
        op, *args = self.types[kind]
        if op in _NUMBERS:
            return ((name, start),)
        if op == _VECTOR:
            return tuple((name, start + 4 * i) for i in range(args[1]))
        if op == _RUNTIME_ARRAY:
            return self.layout(args[0], name, start)
        if op == _ARRAY:
            stride, count = self.decorations[kind][_STRIDE], self.constants[args[1]]
            parts = [(args[0], name, start + i * stride) for i in range(count)]
        else:
            names, offsets = self.member_names[kind], self.member_offsets[kind]
            parts = [(a, names.get(i, name), start + offsets[i]) for i, a in enumerate(args)]
        return tuple(number for part in parts for number in self.layout(*part))


def reflect(spirv: bytes) -> Reflection:
    m = Module(spirv)
    out = Reflection(local_size=m.local_size)
    for target, decoration in m.decorations.items():
        if _SPEC_ID in decoration:
            out.spec_ids[m.names.get(target, "LOCAL_SIZE")] = decoration[_SPEC_ID]
    for pointer, variable, storage in m.variables:
        own = m.decorations.get(variable, {})
        if _BINDING in own and storage in (_STORAGE_BUFFER, _UNIFORM, _UNIFORM_CONSTANT):
            out.bindings[own[_BINDING]] = _binding(m, m.types[pointer][2], set(own), storage)
    for op, *args in m.types.values():
        if op == _POINTER and args[0] == _PHYSICAL_STORAGE_BUFFER:
            name, marks = m.names.get(args[1], ""), m.member_marks[args[1]]
            if name.endswith(PLANE_SUFFIX):
                access = _NON_READABLE not in marks, _NON_WRITABLE not in marks
                out.planes[name.removesuffix(PLANE_SUFFIX)] = access
    return out


def _binding(m: Module, pointee: int, own: set[int], storage: int) -> Binding:
    """pointee: id of the type that the variable points to. own: decorations of the variable."""
    layout: tuple[tuple[str, int], ...]
    if storage == _UNIFORM_CONSTANT:
        _, _, dim, _, _, _, sampled, *_ = m.types[pointee]
        kind = "input" if dim == _SUBPASS else "sampled" if sampled == 1 else "storage"
        marks = own if kind == "storage" else {_NON_WRITABLE}
        stride, layout = None, ()
    else:
        kind = "uniform" if storage == _UNIFORM else "buffer"
        marks, member = m.member_marks[pointee] | own, m.types[pointee][-1]
        if kind == "uniform":
            marks.add(_NON_WRITABLE)
        array = m.types[member][0] == _RUNTIME_ARRAY
        stride, layout = m.decorations[member][_STRIDE] if array else None, m.layout(member)
    reads, writes = _NON_READABLE not in marks, _NON_WRITABLE not in marks
    return Binding(kind, reads, writes, stride, layout)
