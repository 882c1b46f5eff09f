"""The Vulkan layer: devices, shaders and errors, passes, memory, barriers, validation, probe."""

import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.base.paths import SHADERS
from hardsplat.gpu import probe
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device import context, features, instance, usage
from hardsplat.gpu.device.instance import PhysicalDevice, ValidationError, choose
from hardsplat.gpu.device.queue import Fence, once
from hardsplat.gpu.memory import buffer as memory
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, PassError
from hardsplat.gpu.passes.pipelines import build
from hardsplat.gpu.passes.reflect import Module, reflect
from hardsplat.gpu.passes.shader import ShaderError, ShaderSource
from hardsplat.raster.backends import runnable_rasterizers
from hardsplat.raster.hardware.rasterizer import rows_of
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.rows import TiledOptions, TiledRows
from hardsplat.settings.train import TrainConfig
from tests.helpers.tables import refuses
from tools import catalog

COPY = """
#include "common.glsl"
#include "contract/sort.glsl"
layout(local_size_x = GROUP) in;
BUFFER_keys(readonly)
BUFFER_order(writeonly)
layout(constant_id = 0) const uint ADD = 0u;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < uint(keys.length())) order[i] = keys[i] + ADD;
}
"""


@pytest.fixture
def shaders(tmp_path, monkeypatch, module_device):
    """An empty shader folder beside the real includes. shaders("x.comp", text) writes one."""
    monkeypatch.setattr(module_device, "pipelines", {})
    folder = tmp_path / "shaders"
    folder.mkdir()
    (folder / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", folder)
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))

    def write(name: str, text: str) -> str:
        (folder / name).write_text(text.lstrip("\n"))
        return name

    return write


def copy_pass(shaders, text=COPY, **declared) -> ComputePass:
    declared = {"reads": ("keys",), "writes": ("order",), **declared}
    return ComputePass("copy", shaders("copy.comp", text), **declared)


WIDE = COPY.replace("= keys", "= uvec2(1) * keys").replace(
    "BUFFER_order(writeonly)",
    "layout(set = 0, binding = BINDING_order, scalar) writeonly buffer b { uvec2 order[]; };",
)
ALONE = """
layout(local_size_x = 1) in;
layout(set = 0, binding = %d) buffer b { uint x[]; };
void main() { x[0] = 1u; }
"""
STATE = contract.SPECS["state"].binding
OF = "pass copy, copy.comp: "
NOTHING = dict(reads=(), writes=())
REFUSED = [  # text, declarations, words of the message
    (COPY, dict(reads=()), ["pass copy", "copy.comp", "missing ['keys']"]),
    (COPY, dict(writes=("order", "order_alt")), [OF, "writes ['order', 'order_alt']", "extra ['o"]),
    (WIDE, {}, [OF + "order has 4 bytes an element, the shader 8"]),
    (ALONE % STATE, NOTHING, [OF + "state is in the contract as image, in the shader as buffer"]),
    (ALONE % 999, NOTHING, [OF + "binding 999 is not in the contract"]),
    (COPY, dict(spec={"AD": 1}), ["pass copy: no specialization constant AD; there are ['ADD']"]),
]


@pytest.mark.parametrize("text, declared, words", REFUSED)
def test_declarations_that_the_shader_does_not_keep(device, shaders, text, declared, words):
    with pytest.raises(PassError) as error:
        build(device, copy_pass(shaders, text, **declared))
    assert all(part in str(error.value) for part in words)


BROKEN = [  # text, slots, the error
    (
        '\n#include "common.glsl"\n#include "none.glsl"\n',
        {},
        "p.comp:2: include none.glsl is not in",
    ),
    ("#include <order>\n", {}, "p.comp:1: slot <order> was not filled; filled: none"),
    ("#include <order>\n", {"order": "empty.glsl", "reduce": "empty.glsl"}, "no #include <reduce>"),
]


@pytest.mark.parametrize("text, slots, words", BROKEN)
def test_includes_that_are_not_there_and_slots(shaders, text, slots, words):
    shaders("empty.glsl", "")
    with pytest.raises(ShaderError, match=words):
        shader.expand(ShaderSource.of(shaders("p.comp", text), slots))


def test_compile_errors_point_at_our_file_and_line(shaders):
    shaders("part.glsl", "// fine\nfloat twice(float x) { return x * undeclared; }\n")
    text = '#include "part.glsl"\nlayout(local_size_x = 1) in;\nvoid main() {}\n'
    with pytest.raises(ShaderError) as error:
        shader.compile_source(ShaderSource.of(shaders("p.comp", text)))
    for words in ("p.comp does not compile", "part.glsl:2", "undeclared"):
        assert words in str(error.value)


def test_compile_errors_show_the_lines_of_headers_that_no_file_has(shaders):
    text = 'const uint GROUP = 1u;\n#include "contract/core.glsl"\nvoid main() {}\n'
    with pytest.raises(ShaderError, match=r"contract/core.glsl:\d+: .*\n    const uint GROUP = "):
        shader.compile_source(ShaderSource.of(shaders("p.comp", text)))


def test_cached_shaders_need_no_compiler(shaders, monkeypatch):
    shaders("copy.comp", COPY)
    first = shader.compile_source(ShaderSource.of("copy.comp"))
    monkeypatch.setenv("PATH", "")
    assert shader.compile_source(ShaderSource.of("copy.comp")) == first
    words = "no GLSL compiler: install glslang"
    refuses(words, shader.compile_source, ShaderSource.of("copy.comp", macros={"OTHER": "1"}))
    monkeypatch.setattr(shader, "_FLAGS", (*shader._FLAGS, "-g"))
    refuses(words, shader.compile_source, ShaderSource.of("copy.comp"))


def test_a_file_is_read_once_a_process_and_what_it_was_has_another_key(shaders, monkeypatch):
    """Its modules and no others are compiled again by a process that finds it changed."""
    shaders("part.glsl", "const uint PART = 1u;\n")
    sources = [
        ShaderSource.of(shaders(f"{name}.comp", f"{head}{COPY}"))
        for name, head in (("with", '#include "part.glsl"\n'), ("without", ""))
    ]
    before = list(map(shader.key, sources))
    built = [shader.compile_source(source) for source in sources]
    shaders("part.glsl", "const uint PART = 2u;\n")
    assert list(map(shader.key, sources)) == before
    shader._file.cache_clear()  # as in another process
    after = list(map(shader.key, sources))
    assert after[0] != before[0] and after[1] == before[1]
    monkeypatch.setenv("PATH", "")
    refuses("no GLSL compiler: install glslang", shader.compile_source, sources[0])
    assert shader.compile_source(sources[1]) == built[1]


@pytest.fixture
def staging(device, monkeypatch):
    """Of 64 words, in 4 pieces."""
    buffer = Buffer(device, 256, "staging", host=True)
    monkeypatch.setattr(memory, "STAGING_BYTES", buffer.nbytes)
    monkeypatch.setattr(memory, "staging_of", lambda device: buffer)
    yield buffer
    buffer.destroy()


def words_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**32, n, dtype=np.uint32)


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("words", [1, 3, 63, 64, 65, 128, 129])
def test_upload_and_download_around_the_staging_chunk(device, staging, words, host):
    buffer = Buffer(device, 4 * words + 8, "keys", host=host)
    data = words_of(words)
    buffer.upload(data, offset=4)
    found = buffer.download(np.uint32, words + 2)
    np.testing.assert_array_equal(found, [memory.POISON, *data, memory.POISON])
    np.testing.assert_array_equal(buffer.download(np.uint32, words, offset=4), data)
    buffer.destroy()


def test_what_is_allocated_is_counted(device):
    """By kind and by name, until it is freed; the driver's count is no smaller."""
    usage, before = device.usage, device.usage.on_device
    was, named = Counter(usage.by_kind), Counter(usage.by_name)
    parts = [Buffer(device, 1 << 20, "keys"), Buffer(device, 1 << 16, "counted", host=True)]
    parts.append(Image(device, 64, 32, 109, np.float32, "target"))
    keys, counted, target = parts
    more = {"buffers": keys.allocated, "images": target.nbytes, "host": counted.allocated}
    assert usage.by_kind - was == Counter(more) and keys.allocated >= 1 << 20
    assert usage.on_device == before + keys.allocated + target.nbytes <= usage.peak
    assert (usage.by_name - named)["keys"] == keys.allocated
    budget = device.memory_budget()
    assert (budget is None) == ("memory_budget" not in device.capabilities)
    if budget:
        assert budget.used >= 0 and 0 < budget.most <= device.memory_bytes
        assert budget.free == max(budget.most - budget.used, 0)
    assert device.memory_peak()["allocated"] == usage.peak and usage.driver >= 0
    for part in parts:
        part.destroy()
    assert usage.by_kind == was and usage.by_name == named and usage.on_device == before
    usage.restart()
    peak = device.memory_peak()
    assert (peak["allocated"], peak["host"]) == (before, usage.by_kind["host"])
    assert peak["driver"] == (device.memory_budget().used or None if budget else None)


def test_the_budget_is_that_of_the_heap(device, own_capabilities, monkeypatch):
    """As a driver with VK_EXT_memory_budget fills it, which Mesa's software renderer does not."""
    vk, heap = usage.vk, device._heap

    def fill(physical, head):
        assert head.sType == vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
        more = vk.ffi.cast("VkPhysicalDeviceMemoryBudgetPropertiesEXT*", head.pNext)
        assert more.sType == vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
        more.heapUsage[heap], more.heapBudget[heap] = 3 << 30, 5 << 30

    own_capabilities.withdraw("memory_budget", "it")
    assert device.memory_budget() is None
    own_capabilities.names.add("memory_budget")
    lib = SimpleNamespace(vkGetPhysicalDeviceMemoryProperties2=fill)
    fake = SimpleNamespace(**{name: getattr(vk, name) for name in dir(vk) if "MEMORY" in name})
    monkeypatch.setattr(usage, "vk", fake)
    fake.ffi, fake.lib = vk.ffi, lib
    budget = device.memory_budget()
    assert (budget.used, budget.most, budget.free) == (3 << 30, 5 << 30, 2 << 30)
    assert usage.MemoryBudget(4, 3).free == 0


def test_the_driver_counts_at_the_peak(device, monkeypatch):
    """A large buffer that is freed before anybody asks."""
    counted = lambda self: usage.MemoryBudget(self.usage.on_device + 5, 1 << 40)
    monkeypatch.setattr(type(device), "memory_budget", counted)
    device.usage.restart()
    Buffer(device, 2 << 20, "keys").destroy()
    peak = device.memory_peak()
    assert peak["driver"] == peak["allocated"] + 5 > device.usage.on_device + (2 << 20)


BOUND = [("splats2d", "splats"), ("ssim_grads", "pixels"), ("other", "")]


@pytest.mark.parametrize("name, grows_with", BOUND)
def test_a_buffer_larger_than_the_device_allows(device, name, grows_with):
    words = f"buffer {name} needs .* MiB, .* allows .* MiB in one$"
    with pytest.raises(OutOfMemory, match=words) as error:
        Buffer(device, device.max_buffer + 4, name)
    assert error.value.grows_with == grows_with


def test_dependent_passes_wait_for_each_other(device, shaders):
    """Copies through four buffers, each plus one, long enough to race if a barrier were missing."""
    n, links = 1 << 16, 24
    ring = ("keys", "order", "keys_alt", "order_alt")
    resources = {name: Buffer(device, 4 * n, name) for name in ring}
    start = np.arange(n, dtype=np.uint32)
    resources["keys"].upload(start)
    recorder, owner = Recorder(device, resources, timed=True), copy_pass(shaders, spec={"ADD": 1})
    for link in range(links):
        bind = {"keys": ring[link % 4], "order": ring[(link + 1) % 4]}
        one = replace(owner, name=f"link {link}", bind=bind)
        recorder.run(build(device, one), threads=(n,))
    recorder.end().run_once()
    found = resources[ring[links % 4]].download(np.uint32)
    np.testing.assert_array_equal(found, start + links)

    times = recorder.times()
    assert list(times) == [f"link {link}" for link in range(links)]
    assert all(ms >= 0 for ms in times.values()) and sum(times.values()) > 0
    assert (np.diff(recorder.stamps()) >= 0).all()
    recorder.destroy()
    for buffer in resources.values():
        buffer.destroy()


def test_an_interrupted_wait_leaves_nothing_in_flight(device, monkeypatch):
    """Buffers, commands and fence may be freed right after, or validation complains."""
    buffer = Buffer(device, 1 << 22, "keys")
    with monkeypatch.context() as patch:
        patch.setattr(Fence, "wait", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            buffer.fill(1)
    with pytest.raises(ZeroDivisionError), once(device):
        _ = 1 / 0
    assert (buffer.download(np.uint32) == 1).all()
    buffer.destroy()


def test_device_choice():
    names = {"Radeon RX 9070": 0, "Radeon 780M": 1, "llvmpipe": 4}
    more = (1, 3), "driver", 0, 64
    devices = [PhysicalDevice(None, name, "GPU", rank, *more) for name, rank in names.items()]
    for wanted, found in ((None, 0), ("", 0), ("0", 0), ("radeon", 0), ("2", 2), ("LLVM", 2)):
        assert choose(devices, wanted) is devices[found]
    assert choose(devices, "780m") is devices[1]
    there = "this machine has 0: Radeon RX 9070, 1: Radeon 780M, 2: llvmpipe"
    for wrong in ("3", "GeForce"):
        refuses(f"--device {wrong}: .*{there}", choose, devices, wrong)
    refuses("no Vulkan device: install a GPU driver", choose, [], "0")


def test_validation_messages_become_exceptions(module_device):
    """Also when another instance was made since."""
    module_device.check_validation()
    instance.Instance(validation="1")
    vk, buffer = memory.vk, Buffer(module_device, 64, "keys")
    with pytest.raises(ValidationError, match="VUID-vkCmdCopyBuffer-srcOffset"):
        with once(module_device) as commands:
            beyond = vk.VkBufferCopy(srcOffset=64, dstOffset=0, size=4)
            vk.vkCmdCopyBuffer(commands, buffer.handle, buffer.handle, 1, [beyond])
    module_device.instance.messages.clear()
    module_device.wait_idle()
    buffer.destroy()


@pytest.fixture
def own_capabilities(module_device, monkeypatch, tmp_path):
    """Capabilities that may be withdrawn, and an empty cache."""
    mine = context.capabilities.query(module_device.physical.handle)
    monkeypatch.setattr(module_device, "capabilities", mine)
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.delenv("HARDSPLAT_PROBE", raising=False)
    return mine


def test_probe_finds_this_device_sound_and_remembers_it(device, own_capabilities, monkeypatch):
    before = set(own_capabilities.names)
    assert probe.probe(device) == {}
    assert own_capabilities.names == before
    monkeypatch.setattr(probe, "measure", lambda device: pytest.fail("measured twice"))
    assert probe.probe(device) == {}


SUMS = np.ones((2, 3, 9), np.float32)
GAVE = "9 additions of 1 to neighbouring addresses in compute shaders gave"
WRONG = [
    ("float_atomics", "expected_sums", SUMS, GAVE),
    ("swap_atomics", "expected_sums", SUMS, GAVE),
    ("raster_order", "expected_state", (1.0, float(probe.LAYERS), 0.0), "out of order"),
    ("raster_order", "expected_state", (1.0, 1.0, 0.0), "lost"),
    ("interlock", "expected_state", (1.0, 1.0, 0.0), "lost"),
]


@pytest.mark.parametrize("name, expectation, wrong, words", WRONG)
def test_probe_withdraws_what_does_not_do_what_it_says(
    device, own_capabilities, monkeypatch, name, expectation, wrong, words
):
    if name not in own_capabilities:
        pytest.skip(f"{device.name} has no {name}")
    if expectation == "expected_state":
        words += " in 4096 of 4096 pixels"
    monkeypatch.setattr(probe, expectation, lambda *sizes: wrong)
    assert words in probe.probe(device)[name]
    assert name not in own_capabilities and words in own_capabilities.missing([name])[0]


SUM = "uintBitsToFloat(expected) + value"


@pytest.mark.parametrize("wrong", [f"{SUM} + value", "value"], ids=["twice", "replaced"])
def test_wrong_sums_by_compare_and_swap_are_found(device, own_capabilities, shaders, wrong):
    """Additions that are made too often, or that do not keep what was there."""
    for folder in ("probe", "reduce", "draw/ordered"):
        (shader.SHADERS / folder).mkdir(parents=True)
        for file in (SHADERS / folder).iterdir():
            shaders(f"{folder}/{file.name}", file.read_text())
    text = (SHADERS / "reduce/atomics_cas.glsl").read_text()
    assert SUM in text
    shaders("reduce/atomics_cas.glsl", text.replace(SUM, wrong))
    found = probe.measure(device)
    assert set(found) == {"swap_atomics"}
    (why,) = found.values()
    wanted, gave = map(int, re.search(r"(\d+) additions of 1 to .* gave (\d+)", why).groups())
    assert gave < wanted if wrong == "value" else gave > wanted


def test_where_no_atomics_work_tiles_gather(device, own_capabilities, monkeypatch):
    """The hardware rasterizer then refuses, and `auto` takes tiles."""
    atomics = dict.fromkeys(("float_atomics", "swap_atomics"), "sums")
    monkeypatch.setattr(probe, "measure", lambda device: atomics)
    probe.probe(device)
    assert not own_capabilities.names & {*atomics, "float_sums"}
    assert TiledRows.first(device, TiledOptions()).names["tile_backward"] == "gather"
    config = TrainConfig()
    assert runnable_rasterizers(device, config.raster, config.gradient) == ["tiled"]
    words = "can run no float atomics .*native: sums; cas: sums"
    refuses(words, rows_of, device, HardwareOptions())


def test_the_probe_may_be_off_or_damaged(device, own_capabilities, monkeypatch, tmp_path):
    probe.probe(device)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"withdrawn": 3}')
    assert probe.probe(device) == {}
    monkeypatch.setattr(probe, "measure", lambda device: {"float_atomics": "made up"})
    path.unlink()
    monkeypatch.setenv("HARDSPLAT_PROBE", "0")
    assert probe.probe(device) == {} and "float_atomics" in own_capabilities


def shared_bytes(spirv: bytes) -> int:
    """Bytes of the workgroup's variables in a module (SPIR-V specification, unified1)."""
    module = Module(spirv)

    def size(kind: int) -> int:
        op, *args = module.types.get(kind, (0,))  # a bool takes none that is counted
        if op in (21, 22):  # int, float
            return args[0] // 8
        if op == 23:  # vector
            return size(args[0]) * args[1]
        if op == 28:  # array
            return size(args[0]) * module.constants.get(args[1], 0)
        return sum(map(size, args))

    pointers = [pointer for pointer, _, storage in module.variables if storage == 4]
    return sum(size(module.types[pointer][2]) for pointer in pointers)


def test_required_limits_are_what_the_shaders_take():
    compute = list({source for source in catalog.sources() if source.stage == "comp"})
    modules = [shader.compile_source(source) for source in compute]
    infos = [reflect(module) for module in modules]
    taken = {"perturbing_buffers": 0, "storage_buffers": 0}
    for source, info in zip(compute, infos):
        kind = "perturbing" if source.path == "project/perturb.comp" else "storage"
        buffers = sum(b.kind == "buffer" for b in info.bindings.values())
        taken[f"{kind}_buffers"] = max(taken[f"{kind}_buffers"], buffers)
    taken["shared_memory"] = max(map(shared_bytes, modules))
    taken["workgroup_threads"] = max(int(np.prod(info.local_size)) for info in infos)
    required = {name: wanted for name, (_, wanted, _) in features.LIMITS.items()}
    assert taken.keys() == required.keys()
    assert all(0.9 * required[name] <= taken[name] <= required[name] for name in taken), taken
