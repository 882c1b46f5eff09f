"""The headers that shaders include: a subsystem's constants, structs and resources, and the planes
of what is trained, as GLSL."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from hardsplat.contract import SUBSYSTEMS
from hardsplat.contract.layout import Subsystem
from hardsplat.tables import quantities
from hardsplat.tables.loss_terms import LOSS_TERMS, ordered, pixel_terms
from hardsplat.tables.quantities import Of

FOLDER = "contract/"  # of the names that shaders include
# Headers that were requested, and the tables that they were written from.
_WRITTEN: dict[str, Any] = {}
_EXTENSIONS = tuple(
    f"#extension GL_EXT_{name} : require"
    for name in (
        *("scalar_block_layout", "samplerless_texture_functions"),
        *("buffer_reference", "buffer_reference_uvec2"),
    )
)


def is_header(name: str) -> bool:
    subsystem = name.removeprefix(FOLDER).removesuffix(".glsl")
    return name.startswith(FOLDER) and (subsystem in SUBSYSTEMS or subsystem in _TABLES)


def header(name: str) -> str:
    """The text of a header by the name that shaders include. Raises KeyError for another name."""
    written_from = [*SUBSYSTEMS.values(), *quantities.QUANTITIES.values(), *LOSS_TERMS.values()]
    if written_from != _WRITTEN.get("from"):  # the tables have changed, or this is the first header
        _WRITTEN.clear()
        _WRITTEN["from"] = written_from
    if name not in _WRITTEN:
        subsystem = name.removeprefix(FOLDER).removesuffix(".glsl")
        lines = _TABLES[subsystem]() if subsystem in _TABLES else _lines(SUBSYSTEMS[subsystem])
        _WRITTEN[name] = "\n".join(lines) + "\n"
    return _WRITTEN[name]


def _lines(subsystem: Subsystem) -> Iterator[str]:
    yield f"// {subsystem.name}: {subsystem.note}. Written by hardsplat.contract.glsl."
    yield from _EXTENSIONS[:2]
    yield from (f'#include "{FOLDER}{used}.glsl"' for used in subsystem.uses)
    for name, c in subsystem.constants.items():
        value = repr(float(c.value)) if c.type == "float" else str(c.value)
        yield f"const {c.type} {name} = {value}{'u' * (c.type == 'uint')};  // {c.note}"
    for name, fields in subsystem.structs.items():
        yield f"struct {name} {{"
        for f in fields:
            array = f"[{f.count}]" if f.count > 1 else ""
            yield f"    {f.type} {f.name}{array};" + (f"  // {f.note}" if f.note else "")
        yield "};"
    for b in subsystem.buffers:
        yield f"// {b.name} [{', '.join(map(str, b.axes))}]: {b.note}"
        yield f"#define BINDING_{b.name} {b.binding}"
        kind, access, block = (
            (f"UNIFORM_{b.name}", "", "uniform")
            if b.uniform
            else (f"BUFFER_{b.name}(access)", "access ", "buffer")
        )
        place = f"layout(set = 0, binding = BINDING_{b.name}, scalar) {access}{block}"
        member = f"{b.type} {b.name}{'' if b.single else '[]'};"
        yield f"#define {kind} {place} {b.name}_block {{ {member} }};"
    for image in subsystem.images:
        i, place = image.name, f"layout(set = 0, binding = {image.binding}"
        yield f"// {i}: {image.note}"
        yield f"#define SAMPLED_{i} {place}) uniform texture2D {i};"
        yield f"#define STORE_{i} {place}) uniform writeonly image2D {i};"
        yield f"#define LOADSTORE_{i}(format) {place}, format) uniform coherent image2D {i};"
        yield f"#define INPUT_{i} {place}, input_attachment_index = 0) uniform subpassInput {i};"


def _planes() -> Iterator[str]:
    """Numbers of planes and quantities, and for each quantity what opens it by its name and
    access."""
    yield (
        "// trained: planes of what is trained, by address. Written by "
        "hardsplat.contract.glsl from hardsplat.tables.quantities."
    )
    yield from _EXTENSIONS
    yield f'#include "{FOLDER}splats.glsl"'
    yield from (f"const uint {name} = {number}u;" for name, number in quantities.GRADIENTS.items())
    for offsets in quantities.offsets():
        q, item = offsets.quantity, ("float", "vec2", "vec3", "vec4")[offsets.quantity.width - 1]
        yield (
            f"const uint QUANTITY_{q.name} = {offsets.index}u, "
            f"PLANE_{q.name} = {offsets.first_plane}u, NUMBER_{q.name} = {offsets.first_number}u;"
        )
        given, plane = "item_", f"PLANE_{q.name}"
        if quantities.most_planes(q) > 1:
            given, plane = f"plane_, {given}", f"{plane} + (plane_)"
        for kind, name, address in (("VALUE", q.name, "value"), ("GRADIENT", q.d, "gradient")):
            layout = "layout(buffer_reference, scalar, buffer_reference_align = 4)"
            block = f"buffer {name}_plane {{ {item} at[]; }}"
            yield f"#define {kind}_{q.name}(access) {layout} access {block};"
            yield f"#define {name}({given}) {name}_plane(planes.at[{plane}].{address}).at[item_]"


def _term_numbers() -> Iterator[str]:
    names = pixel_terms()
    yield (
        "// term_numbers: the terms of the loss that pixels have. Written by "
        "hardsplat.contract.glsl from hardsplat.tables.loss_terms."
    )
    yield f"const uint PIXEL_TERMS = {len(names)}u;"
    for i, name in enumerate(names):
        yield f"const uint TERM_{name} = {i}u;  // {LOSS_TERMS[name].note}"


def _pixel_terms() -> Iterator[str]:
    names = pixel_terms()
    yield "// pixel_terms: the terms of the loss at a pixel."
    yield f'#include "{FOLDER}loss.glsl"'
    yield f'#include "{FOLDER}term_numbers.glsl"'
    yield '#include "loss/compared.glsl"'
    yield "// Bits of the terms that have a weight; others are not computed."
    yield "layout(constant_id = 10) const uint WEIGHED = ~0u;"
    yield "bool weighed(uint term) { return (WEIGHED >> term & 1u) > 0u; }"
    yield from (f'#include "{LOSS_TERMS[name].slot}"' for name in names)
    yield "float[PIXEL_TERMS] pixel_terms(Compared c) {"
    yield "    float values[PIXEL_TERMS];"
    for name in names:
        yield f"    values[TERM_{name}] = weighed(TERM_{name}) ? {name}_of(c) : 0.0;"
    yield "    return values;"
    yield "}"


def _d_pixel_terms() -> Iterator[str]:
    """The weighted sum of their derivatives, and of their differences."""
    names = pixel_terms()
    yield f'#include "{FOLDER}pixel_terms.glsl"'
    yield "UNIFORM_loss_terms"
    for returned, function, of in (
        ("vec3", "d_pixel_terms", "d_{}_of"),
        ("float", "pixel_terms_difference", "{}_difference"),
    ):
        yield f"{returned} {function}(Compared c) {{"
        yield f"    {returned} sum = {returned}(0.0);"
        for name in names:
            value = f"loss_terms.weight[TERM_{name}] * {of.format(name)}(c)"
            yield f"    if (weighed(TERM_{name})) sum += {value};"
        yield "    return sum;"
        yield "}"


def _parameter_terms(kind: Of) -> Iterator[str]:
    """The terms of the loss that quantities of one kind have: values and derivatives of four
    numbers of a plane, weighted and unweighted."""
    numbered = [
        (i, name, LOSS_TERMS[name])
        for i, name in enumerate(ordered())
        if LOSS_TERMS[name].of in quantities.values(kind)
    ]
    yield (
        f"// parameter_terms_{kind}: the terms of the loss that a {kind} has. Written by "
        "hardsplat.contract.glsl from hardsplat.tables.loss_terms."
    )
    yield f'#include "{FOLDER}loss.glsl"'
    slots = dict.fromkeys(term.slot for _, _, term in numbered)
    yield from (f'#include "{slot}"' for slot in slots)
    first, end = (numbered[0][0], numbered[-1][0] + 1) if numbered else (0, 0)
    yield f"const uint FIRST_PARAMETER_TERM = {first}u, PARAMETER_TERMS_END = {end}u;"
    yield "UNIFORM_loss_terms"
    yield (
        "// The share of a number of the plane in dL/d parameter. A weight of 0 is not "
        "multiplied: what it weighs may be infinite."
    )
    weighted = [
        f"plane.quantity == QUANTITY_{term.of} && loss_terms.weight[{i}u] != 0.0"
        for i, _, term in numbered
    ]
    yield "vec4 d_parameter_terms(Plane plane, vec4 p, uint items) {"
    yield "    vec4 d = vec4(0.0);"
    for (i, name, term), condition in zip(numbered, weighted):
        share = f"loss_terms.weight[{i}u] / (float(plane.width) * float(items))"
        yield f"    if ({condition}) d += {share} * d_{term.named(name)}_of(p);"
    yield "    return d;"
    yield "}"
    yield "// Whether term t is one of this plane's quantity and has a weight."
    yield "bool has_term(Plane plane, uint t) {"
    conditions = [f"t == {i}u && {each}" for (i, _, _), each in zip(numbered, weighted)]
    yield f"    return {' || '.join(conditions) or 'false'};"
    yield "}"
    yield "vec4 term_value(uint t, vec4 p) {"
    yield from (
        f"    if (t == {i}u) return {term.named(name)}_of(p);" for i, name, term in numbered
    )
    yield "    return vec4(0.0);"
    yield "}"


_TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "trained": _planes,
    "term_numbers": _term_numbers,
    "pixel_terms": _pixel_terms,
    "d_pixel_terms": _d_pixel_terms,
    **{
        f"parameter_terms_{kind}": functools.partial(_parameter_terms, kind)
        for kind in quantities.ORDER
    },
}
