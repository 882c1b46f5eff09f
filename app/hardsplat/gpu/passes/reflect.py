"""What a SPIR-V module declares: bindings and planes with their access and layout, workgroup
size, specialization constants (SPIR-V specification, unified1)."""

from __future__ import annotations

import functools
from collections import defaultdict
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
# What a type consists of: (member or "", its first byte, how many, bytes from one to the next, the
# shape of one); nothing for a number.
Shape = tuple[tuple[str, int, int, int, "Shape"], ...]


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


class Module:
    """The declarations of a module, by id."""

    def __init__(self, spirv: bytes):
        words = memoryview(spirv).cast("I")
        if words[0] != 0x07230203:
            raise ValueError("not a SPIR-V module")
        places = defaultdict(list)  # of instructions, words, by their opcode
        at = 5
        # what follows the first function declares nothing, and is most of the module
        while (op := (word := words[at]) & 0xFFFF) != _FUNCTION:
            places[op].append(at)
            at += word >> 16
        self._spirv = spirv
        # where they begin, bytes
        self._names = {words[at + 1]: 4 * at + 8 for at in places[_NAME]}
        self._member_names = {
            (words[at + 1], words[at + 2]): 4 * at + 12 for at in places[_MEMBER_NAME]
        }
        self.decorations: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for at in places[_DECORATE]:
            value = words[at + 3] if words[at] >> 16 > 3 else 1
            self.decorations[words[at + 1]][words[at + 2]] = value
        self.member_marks: defaultdict[int, set[int]] = defaultdict(set)
        self.member_offsets: dict[tuple[int, int], int] = {}  # by type and number
        for at in places[_MEMBER_DECORATE]:
            self.member_marks[words[at + 1]].add(words[at + 3])
            if words[at + 3] == _OFFSET:
                self.member_offsets[words[at + 1], words[at + 2]] = words[at + 4]
        self.types = {
            words[at + 1]: (op, *words[at + 2 : at + (words[at] >> 16)])
            for op in _TYPES
            for at in places[op]
        }
        self.constants = {words[at + 2]: words[at + 3] for at in places[_CONSTANT]}
        # type of the pointer, id, storage class
        self.variables = [(words[at + 1], words[at + 2], words[at + 3]) for at in places[_VARIABLE]]
        self.local_size = (1, 1, 1)
        for at in places[_EXECUTION_MODE]:
            if words[at + 2] == _LOCAL_SIZE:
                self.local_size = words[at + 3], words[at + 4], words[at + 5]

    def _text(self, start: int) -> str:
        return self._spirv[start : self._spirv.index(0, start)].decode()

    def name(self, target: int, default: str = "") -> str:
        return self._text(self._names[target]) if target in self._names else default

    def shape(self, kind: int) -> Shape:
        """That of a type; of an array without a length, that of an element."""
        op, *args = self.types[kind]
        if op in _NUMBERS:
            return ()
        if op == _VECTOR:
            return (("", 0, args[1], 4, ()),)
        if op == _RUNTIME_ARRAY:
            return self.shape(args[0])
        if op == _ARRAY:
            stride, count = self.decorations[kind][_STRIDE], self.constants[args[1]]
            return (("", 0, count, stride, self.shape(args[0])),)
        names, offsets = self._member_names, self.member_offsets
        return tuple(
            (self._text(names[kind, i]), offsets[kind, i], 1, 0, self.shape(member))
            for i, member in enumerate(args)
        )


@functools.cache
def _layout(shape: Shape) -> tuple[tuple[str, int], ...]:
    """(innermost member, byte offset) of the 32-bit numbers of a shape, in order; kept, since many
    modules have the same."""
    return tuple(
        (own or name, first + i * stride + at)
        for name, first, count, stride, of in shape
        for i in range(count)
        for own, at in _layout(of)
    ) or (("", 0),)


def reflect(spirv: bytes) -> Reflection:
    m = Module(spirv)
    out = Reflection(local_size=m.local_size)
    for target, decoration in m.decorations.items():
        if _SPEC_ID in decoration:
            out.spec_ids[m.name(target, "LOCAL_SIZE")] = decoration[_SPEC_ID]
    for pointer, variable, storage in m.variables:
        own = m.decorations.get(variable, {})
        if _BINDING in own and storage in (_STORAGE_BUFFER, _UNIFORM, _UNIFORM_CONSTANT):
            out.bindings[own[_BINDING]] = _binding(m, m.types[pointer][2], set(own), storage)
    for op, *args in m.types.values():
        if op == _POINTER and args[0] == _PHYSICAL_STORAGE_BUFFER:
            name, marks = m.name(args[1]), m.member_marks[args[1]]
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
        stride, layout = m.decorations[member][_STRIDE] if array else None, _layout(m.shape(member))
    reads, writes = _NON_READABLE not in marks, _NON_WRITABLE not in marks
    return Binding(kind, reads, writes, stride, layout)
