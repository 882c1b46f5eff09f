"""The headers that shaders include: a subsystem's constants, structs and resources, and the planes
of what is trained, as GLSL."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from hardsplat.contract import SUBSYSTEMS
from hardsplat.contract.layout import BufferSpec, ImageSpec, Subsystem
from hardsplat.tables import quantities
from hardsplat.tables.loss_terms import LOSS_TERMS, ordered, pixel_terms
from hardsplat.tables.quantity import Of

FOLDER = "contract/"  # of the names that shaders include
_EXTENSIONS = (
    "GL_EXT_scalar_block_layout",
    "GL_EXT_samplerless_texture_functions",
    "GL_EXT_buffer_reference",
    "GL_EXT_buffer_reference_uvec2",
)


def headers() -> list[str]:
    """Names of all headers."""
    return [f"{FOLDER}{name}.glsl" for name in (*SUBSYSTEMS, *_TABLES)]


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


_WRITTEN: dict[
    str, Any
] = {}  # headers that were asked for, and the tables that they were written from


def _lines(subsystem: Subsystem) -> Iterator[str]:
    yield f"// {subsystem.name}: {subsystem.note}. Written by hardsplat.contract.glsl."
    yield from (f"#extension {name} : require" for name in _EXTENSIONS[:2])
    yield from (f'#include "{FOLDER}{used}.glsl"' for used in subsystem.uses)
    for name, constant in subsystem.constants.items():
        yield (
            f"const {constant.type} {name} = {_literal(constant.value, constant.type)};  // "
            f"{constant.note}"
        )
    for name, fields in subsystem.structs.items():
        yield f"struct {name} {{"
        for f in fields:
            array = f"[{f.count}]" if f.count > 1 else ""
            yield f"    {f.type} {f.name}{array};" + (f"  // {f.note}" if f.note else "")
        yield "};"
    for buffer in subsystem.buffers:
        yield from _buffer(buffer)
    for image in subsystem.images:
        yield from _image(image)


def _literal(value: float, glsl_type: str) -> str:
    if glsl_type == "float":
        return repr(float(value))
    return f"{value}u" if glsl_type == "uint" else str(value)


def _buffer(b: BufferSpec) -> Iterator[str]:
    yield f"// {b.name} [{', '.join(map(str, b.axes))}]: {b.note}"
    member = f"{b.type} {b.name};" if b.single else f"{b.type} {b.name}[];"
    place = f"layout(set = 0, binding = BINDING_{b.name}, scalar)"
    yield f"#define BINDING_{b.name} {b.binding}"
    if b.uniform:
        yield f"#define UNIFORM_{b.name} {place} uniform {b.name}_block {{ {member} }};"
    else:
        yield (
            f"#define BUFFER_{b.name}(access) {place} access buffer {b.name}_block {{ {member} }};"
        )


def _image(i: ImageSpec) -> Iterator[str]:
    yield f"// {i.name}: {i.note}"
    yield (
        f"#define SAMPLED_{i.name} layout(set = 0, binding = {i.binding}) uniform texture2D "
        f"{i.name};"
    )
    yield (
        f"#define STORE_{i.name} layout(set = 0, binding = {i.binding}) uniform writeonly "
        f"image2D {i.name};"
    )
    yield (
        f"#define LOADSTORE_{i.name}(format) layout(set = 0, binding = {i.binding}, format) "
        f"uniform coherent image2D {i.name};"
    )
    yield (
        f"#define INPUT_{i.name} layout(set = 0, binding = {i.binding}, "
        f"input_attachment_index = 0) uniform subpassInput {i.name};"
    )


def _planes() -> Iterator[str]:
    """Numbers of planes and quantities, and for each quantity what opens it by its name and
    access."""
    yield (
        "// trained: planes of what is trained, by address. Written by "
        "hardsplat.contract.glsl from hardsplat.tables.quantities."
    )
    yield from (f"#extension {name} : require" for name in _EXTENSIONS)
    yield f'#include "{FOLDER}splats.glsl"'
    yield from (f"const uint {name} = {number}u;" for name, number in quantities.GRADIENTS.items())
    for place in quantities.places():
        q, item = place.quantity, ("float", "vec2", "vec3", "vec4")[place.quantity.width - 1]
        yield (
            f"const uint QUANTITY_{q.name} = {place.index}u, PLANE_{q.name} = {place.plane}u, "
            f"NUMBER_{q.name} = {place.number}u;"
        )
        several = quantities.most_planes(q) > 1
        given, plane = (
            ("plane_, item_", f"PLANE_{q.name} + (plane_)")
            if several
            else ("item_", f"PLANE_{q.name}")
        )
        for kind, name, address in (
            ("VALUE", q.name, "value"),
            ("GRADIENT", f"d_{q.name}", "gradient"),
        ):
            yield (
                f"#define {kind}_{q.name}(access) layout(buffer_reference, scalar, "
                f"buffer_reference_align = 4) access buffer {name}_plane {{ {item} at[]; "
                f"}};"
            )
            yield f"#define {name}({given}) {name}_plane(planes.at[{plane}].{address}).at[item_]"


def _pixel_terms() -> Iterator[str]:
    """The values of the loss's terms at a pixel."""
    names = pixel_terms()
    yield (
        "// pixel_terms: the terms of the loss at a pixel. Written by "
        "hardsplat.contract.glsl from hardsplat.tables.loss_terms."
    )
    yield f'#include "{FOLDER}loss.glsl"'
    yield '#include "loss/compared.glsl"'
    yield f"const uint PIXEL_TERMS = {len(names)}u;"
    for i, name in enumerate(names):
        yield f"const uint TERM_{name} = {i}u;  // {LOSS_TERMS[name].note}"
        yield f'#include "{LOSS_TERMS[name].slot}"'
    yield (
        f"float[PIXEL_TERMS] pixel_terms(Compared c) {{ return "
        f"float[]({', '.join(f'{name}_of(c)' for name in names)}); }}"
    )


def _d_pixel_terms() -> Iterator[str]:
    """The weighted sum of their derivatives, and of their differences."""
    names = pixel_terms()
    yield f'#include "{FOLDER}pixel_terms.glsl"'
    yield "UNIFORM_loss_terms"
    for returned, function, of in (
        ("vec3", "d_pixel_terms", "d_{}_of"),
        ("float", "pixel_terms_difference", "{}_difference"),
    ):
        total = " + ".join(
            f"loss_terms.weight[TERM_{name}] * {of.format(name)}(c)" for name in names
        )
        yield f"{returned} {function}(Compared c) {{ return {total}; }}"


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
    yield from (
        f'#include "{slot}"' for slot in dict.fromkeys(term.slot for _, _, term in numbered)
    )
    first, end = (numbered[0][0], numbered[-1][0] + 1) if numbered else (0, 0)
    yield f"const uint FIRST_PARAMETER_TERM = {first}u, PARAMETER_TERMS_END = {end}u;"
    yield "UNIFORM_loss_terms"
    yield (
        "// The share of a number of the plane in dL/d parameter. A weight of 0 is not "
        "multiplied: what it weighs may be infinite."
    )
    yield "vec4 d_parameter_terms(Plane plane, vec4 p, uint items) {"
    yield "    vec4 d = vec4(0.0);"
    for i, name, term in numbered:
        share = f"loss_terms.weight[{i}u] / (float(plane.width) * float(items))"
        yield (
            f"    if (plane.quantity == QUANTITY_{term.of} && loss_terms.weight[{i}u] != 0.0) "
            f"d += {share} * d_{term.named(name)}_of(p);"
        )
    yield "    return d;"
    yield "}"
    yield "// Whether term t is one of this plane's quantity and has a weight."
    yield "bool has_term(Plane plane, uint t) {"
    conditions = [
        f"t == {i}u && plane.quantity == QUANTITY_{term.of} && loss_terms.weight[{i}u] != 0.0"
        for i, _, term in numbered
    ]
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
    "pixel_terms": _pixel_terms,
    "d_pixel_terms": _d_pixel_terms,
    **{
        f"parameter_terms_{kind}": functools.partial(_parameter_terms, kind)
        for kind in quantities.ORDER
    },
}
