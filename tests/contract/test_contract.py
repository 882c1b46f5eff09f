"""The contract between host and shaders: unique numbers, layouts that the compiler agrees with,
subsystems that do not touch each other."""

import dataclasses
from itertools import chain

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.contract import glsl
from hardsplat.contract.layout import BufferSpec
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, PassError
from hardsplat.gpu.passes.pipelines import build
from tools import catalog


def specs():
    return list(chain(*((*s.buffers, *s.images) for s in contract.SUBSYSTEMS.values())))


def test_names_and_binding_numbers_are_unique():
    names, bindings = [s.name for s in specs()], [s.binding for s in specs()]
    assert len(set(names)) == len(names) and len(set(bindings)) == len(bindings)
    constants = list(chain(*(s.constants for s in contract.SUBSYSTEMS.values())))
    structs = list(chain(*(s.structs for s in contract.SUBSYSTEMS.values())))
    assert len(set(constants)) == len(constants) and len(set(structs)) == len(structs)


def test_indirect_commands_are_where_vulkan_reads_them():
    assert contract.indirect_offset("splat_groups") == 0
    assert contract.indirect_offset("draw") == 36


@pytest.mark.parametrize("name", glsl.headers())
def test_a_header_stands_alone_but_for_what_it_includes(name, monkeypatch, tmp_path):
    """Every header compiles, with all that it declares in use."""
    subsystem = contract.SUBSYSTEMS.get(name[9:-5])
    opened = [b for b in subsystem.buffers if b.axes] if subsystem else []
    uses = [f"UNIFORM_{b.name}" if b.uniform else f"BUFFER_{b.name}(readonly)" for b in opened]
    lines = [f'#include "{name}"', *uses, "layout(local_size_x = 1) in;", "void main() {}", ""]
    if "parameter_terms" in name:
        lines = ['#include "contract/trained.glsl"', "UNIFORM_planes", *lines]
    (tmp_path / "p.comp").write_text("\n".join(lines))
    (tmp_path / "loss").symlink_to(shader.SHADERS / "loss")
    (tmp_path / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", tmp_path)
    assert shader.compile_source(shader.ShaderSource.of("p.comp"))


def moved(spec: BufferSpec) -> str:
    """A shader that writes the last number of the last member, so that its layout is all there."""
    name = spec.name
    home = next(s.name for s in contract.SUBSYSTEMS.values() if spec in s.buffers)
    includes = f'#include "common.glsl"\n#include "contract/{home}.glsl"\nBUFFER_{name}(restrict)\n'
    return f"{includes}layout(local_size_x = 1) in;\nvoid main() {{ {name} = {name}; }}\n"


def test_layouts_are_compared(device: Device, monkeypatch, tmp_path):
    """A struct whose members the host has in another order is refused, though it has as many
    bytes."""
    (tmp_path / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", tmp_path)
    of = lambda name, pass_name: ComputePass(pass_name, f"{name}.comp", (name,), (name,))
    for name in ("camera", "frame", "step_settings", "refine_settings", "overlay"):
        (tmp_path / f"{name}.comp").write_text(moved(contract.BUFFERS[name]))
        build(device, of(name, name))
    fields = list(contract.STRUCTS["Camera"])
    fields[1:3] = fields[2], fields[1]  # vec3 position, vec2 focal
    monkeypatch.setitem(contract.STRUCTS, "Camera", tuple(fields))
    words = r"camera: Camera has \('focal', 48\) where the shader has \('position', 48\)"
    with pytest.raises(PassError, match=f"pass other, camera.comp: {words}"):
        build(device, of("camera", "other"))


def test_a_buffer_more_in_the_window_leaves_all_other_modules_as_they_are(monkeypatch):
    """Their source, as it is compiled, is the same to the byte."""
    sources = list(dict.fromkeys(catalog.sources()))
    before = {s: shader.expand(s) for s in sources}
    view = contract.SUBSYSTEMS["view"]
    more = BufferSpec(119, "cursor", "vec2", (1,), "where the mouse is", single=True)
    longer = dataclasses.replace(view, buffers=(*view.buffers, more))
    monkeypatch.setitem(contract.SUBSYSTEMS, "view", longer)
    changed = {s.path for s in sources if shader.expand(s) != before[s]}
    assert changed == {"picture/screen.comp", "picture/screen_fit.comp"}


def test_structs_have_no_padding():
    for name, fields in contract.STRUCTS.items():
        numbers = sum(np.dtype(contract.dtype(f.type)).itemsize * f.count for f in fields)
        assert contract.dtype(name).itemsize == numbers, name
