"""The contract between host and shaders: unique numbers, layouts that the compiler agrees with."""

from itertools import chain

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.contract.layout import BufferSpec
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, PassError
from hardsplat.gpu.passes.pipelines import build


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


def moved(spec: BufferSpec) -> str:
    """A shader that writes the last number of the last member, so that its layout is all there."""
    name = spec.name
    home = next(s.name for s in contract.SUBSYSTEMS.values() if spec in s.buffers)
    includes = f'#include "common.glsl"\n#include "contract/{home}.glsl"\nBUFFER_{name}(restrict)\n'
    return f"{includes}layout(local_size_x = 1) in;\nvoid main() {{ {name} = {name}; }}\n"


def test_layouts_are_compared(device: Device, monkeypatch, tmp_path):
    """A struct whose members have another order is refused, though it has as many bytes."""
    (tmp_path / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", tmp_path)
    of = lambda name, pass_name: ComputePass(pass_name, f"{name}.comp", (name,), (name,))
    for name in ("camera", "frame", "step_settings", "refine_settings", "window_shown"):
        (tmp_path / f"{name}.comp").write_text(moved(contract.BUFFERS[name]))
        build(device, of(name, name))
    for kept in ("dtype", "layout"):
        monkeypatch.setattr(contract, kept, getattr(contract, kept).__wrapped__)
    fields = list(contract.STRUCTS["Camera"])
    fields[1:3] = fields[2], fields[1]  # vec3 position, vec2 focal
    monkeypatch.setitem(contract.STRUCTS, "Camera", tuple(fields))
    words = r"camera: Camera has \('focal', 48\) where the shader has \('position', 48\)"
    with pytest.raises(PassError, match=f"pass other, camera.comp: {words}"):
        build(device, of("camera", "other"))


def test_structs_have_no_padding():
    for name, fields in contract.STRUCTS.items():
        numbers = sum(np.dtype(contract.dtype(f.type)).itemsize * f.count for f in fields)
        assert contract.dtype(name).itemsize == numbers, name
