"""The headers that shaders include: a subsystem's constants, structs and resources, and the planes of what is trained, as GLSL."""

from __future__ import annotations

from collections.abc import Iterator

from hardsplat import trained
from hardsplat.contract import SUBSYSTEMS
from hardsplat.contract.layout import BufferSpec, ImageSpec, Subsystem

FOLDER = "contract/"  # of the names that shaders include
TRAINED = "trained"  # the header of planes, which belongs to no subsystem
_EXTENSIONS = ("GL_EXT_scalar_block_layout", "GL_EXT_samplerless_texture_functions", "GL_EXT_buffer_reference", "GL_EXT_buffer_reference_uvec2")


def headers() -> list[str]:
    """Names of all headers."""
    return [f"{FOLDER}{name}.glsl" for name in (*SUBSYSTEMS, TRAINED)]


def header(name: str) -> str:
    """The text of a header by the name that shaders include. Raises KeyError for another name."""
    subsystem = name.removeprefix(FOLDER).removesuffix(".glsl")
    lines = _planes() if subsystem == TRAINED else _lines(SUBSYSTEMS[subsystem])
    return "\n".join(lines) + "\n"


def _lines(subsystem: Subsystem) -> Iterator[str]:
    yield f"// {subsystem.name}: {subsystem.note}. Written by hardsplat.contract.glsl."
    yield from (f"#extension {name} : require" for name in _EXTENSIONS[:2])
    yield from (f'#include "{FOLDER}{used}.glsl"' for used in subsystem.uses)
    for name, constant in subsystem.constants.items():
        yield f"const {constant.type} {name} = {_literal(constant.value, constant.type)};  // {constant.note}"
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
        yield f"#define BUFFER_{b.name}(access) {place} access buffer {b.name}_block {{ {member} }};"


def _image(i: ImageSpec) -> Iterator[str]:
    yield f"// {i.name}: {i.note}"
    yield f"#define SAMPLED_{i.name} layout(set = 0, binding = {i.binding}) uniform texture2D {i.name};"
    yield f"#define STORE_{i.name} layout(set = 0, binding = {i.binding}) uniform writeonly image2D {i.name};"
    yield f"#define LOADSTORE_{i.name}(format) layout(set = 0, binding = {i.binding}, format) uniform coherent image2D {i.name};"
    yield f"#define INPUT_{i.name} layout(set = 0, binding = {i.binding}, input_attachment_index = 0) uniform subpassInput {i.name};"


def _planes() -> Iterator[str]:
    """Numbers of planes and quantities, and for each quantity what opens it by its name and access."""
    yield "// trained: planes of what is trained, by address. Written by hardsplat.contract.glsl from hardsplat.trained."
    yield from (f"#extension {name} : require" for name in _EXTENSIONS)
    yield f'#include "{FOLDER}splats.glsl"'
    yield from (f"const uint {name} = {number}u;" for name, number in trained.GRADIENTS.items())
    for place in trained.places():
        q, item = place.quantity, ("float", "vec2", "vec3", "vec4")[place.quantity.width - 1]
        yield f"const uint QUANTITY_{q.name} = {place.index}u, PLANE_{q.name} = {place.plane}u, NUMBER_{q.name} = {place.number}u;"
        several = trained.most_planes(q) > 1
        given, plane = ("plane_, item_", f"PLANE_{q.name} + (plane_)") if several else ("item_", f"PLANE_{q.name}")
        for kind, name, address in (("VALUE", q.name, "value"), ("GRADIENT", f"d_{q.name}", "gradient")):
            yield (
                f"#define {kind}_{q.name}(access) layout(buffer_reference, scalar, buffer_reference_align = 4) access buffer {name}_plane {{ {item} at[]; }};"
            )
            yield f"#define {name}({given}) {name}_plane(planes.at[{plane}].{address}).at[item_]"
