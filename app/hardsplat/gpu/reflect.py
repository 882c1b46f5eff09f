"""What a SPIR-V module says of itself: bindings with access, workgroup size, specialization constants (SPIR-V specification, unified1)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_NAME, _EXECUTION_MODE, _DECORATE, _MEMBER_DECORATE = 5, 16, 71, 72
_TYPE_IMAGE, _TYPE_STRUCT, _TYPE_POINTER, _TYPE_RUNTIME_ARRAY, _VARIABLE = 25, 30, 32, 29, 59
_CONSTANT, _SPEC_TRUE, _SPEC_FALSE, _SPEC_CONSTANT = 43, 48, 49, 50
_DEC_SPEC_ID, _DEC_ARRAY_STRIDE, _DEC_NON_WRITABLE, _DEC_NON_READABLE, _DEC_BINDING = 1, 6, 24, 25, 33
_MODE_LOCAL_SIZE = 17
_DIM_SUBPASS = 6
_STORAGE_BUFFER, _UNIFORM_CONSTANT = 12, 0


@dataclass(frozen=True)
class Binding:
    kind: str  # buffer | sampled | storage | input
    reads: bool
    writes: bool
    stride: int | None  # bytes between elements of a runtime array


@dataclass
class Reflection:
    bindings: dict[int, Binding] = field(default_factory=dict)
    local_size: tuple[int, int, int] = (1, 1, 1)
    spec_ids: dict[str, int] = field(default_factory=dict)  # LOCAL_SIZE: the one without a name, of local_size_x_id


def reflect(spirv: bytes) -> Reflection:
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    if words[0] != 0x07230203:
        raise ValueError("not a SPIR-V module")
    names: dict[int, str] = {}
    decorations: dict[int, dict[int, int]] = {}
    member_decorations: dict[int, set[int]] = {}
    types: dict[int, tuple] = {}
    variables: list[tuple[int, int, int]] = []
    out = Reflection()

    at = 5
    while at < len(words):
        length, op = words[at] >> 16, words[at] & 0xFFFF
        args = words[at + 1 : at + length]
        if op == _NAME:
            names[args[0]] = struct.pack(f"<{len(args) - 1}I", *args[1:]).split(b"\0")[0].decode()
        elif op == _EXECUTION_MODE and args[1] == _MODE_LOCAL_SIZE:
            out.local_size = tuple(args[2:5])
        elif op == _DECORATE:
            decorations.setdefault(args[0], {})[args[1]] = args[2] if len(args) > 2 else 1
        elif op == _MEMBER_DECORATE:
            member_decorations.setdefault(args[0], set()).add(args[2])
        elif op in (_TYPE_IMAGE, _TYPE_STRUCT, _TYPE_POINTER, _TYPE_RUNTIME_ARRAY):
            types[args[0]] = (op, *args[1:])
        elif op == _VARIABLE:
            variables.append((args[0], args[1], args[2]))
        at += length

    for target, decoration in decorations.items():
        if _DEC_SPEC_ID in decoration:
            out.spec_ids[names.get(target, "LOCAL_SIZE")] = decoration[_DEC_SPEC_ID]

    for pointer, variable, storage in variables:
        own = decorations.get(variable, {})
        if _DEC_BINDING not in own or storage not in (_STORAGE_BUFFER, _UNIFORM_CONSTANT):
            continue
        pointee = types[pointer][2]
        stride = None
        if storage == _STORAGE_BUFFER:
            kind = "buffer"
            marks = member_decorations.get(pointee, set()) | set(own)
            member = types[pointee][-1]
            if types.get(member, (None,))[0] == _TYPE_RUNTIME_ARRAY:
                stride = decorations[member][_DEC_ARRAY_STRIDE]
        else:
            _, _, dim, _, _, _, sampled, *_ = types[pointee]
            kind = "input" if dim == _DIM_SUBPASS else "sampled" if sampled == 1 else "storage"
            marks = set(own) if kind == "storage" else {_DEC_NON_WRITABLE}
        out.bindings[own[_DEC_BINDING]] = Binding(kind, _DEC_NON_READABLE not in marks, _DEC_NON_WRITABLE not in marks, stride)
    return out
