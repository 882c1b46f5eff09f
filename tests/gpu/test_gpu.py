"""The Vulkan layer: device choice, shaders and their errors, checked passes, memory, barriers,
validation, probe."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.gpu import probe
from hardsplat.gpu.commands import queries
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device import context, features, instance
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.gpu.device.instance import PhysicalDevice, ValidationError, choose
from hardsplat.gpu.device.queue import Fence, once, submit
from hardsplat.gpu.memory import buffer as memory
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes import declarations, shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, PassError
from hardsplat.gpu.passes.pipelines import build
from hardsplat.gpu.passes.reflect import reflect
from hardsplat.gpu.passes.shader import ShaderError, ShaderSource
from hardsplat.tables.hardware import ORDERINGS, QUADS
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS
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
def shaders(tmp_path, monkeypatch, session_device):
    """An empty shader folder beside the real includes, and empty caches. shaders("x.comp", text)
    writes one."""
    monkeypatch.setattr(session_device, "pipelines", {})
    folder = tmp_path / "shaders"
    folder.mkdir()
    (folder / "include").symlink_to(shader.SHADERS / "include")
    monkeypatch.setattr(shader, "SHADERS", folder)
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))

    def write(name: str, text: str) -> str:
        (folder / name).write_text(text.lstrip("\n"))
        return name

    return write


# ---- declarations against SPIR-V


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


def test_a_resource_that_was_not_given(device, shaders):
    pipeline = build(device, copy_pass(shaders))
    recorder = Recorder(device, {"order": Buffer(device, 64, "order")})
    with pytest.raises(KeyError, match="pass copy needs keys, which was not given"):
        recorder.run(pipeline, threads=(1,))
    recorder.end().destroy()


# ---- GLSL to SPIR-V


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


def test_a_slot_with_a_default_may_stay_empty(shaders):
    """A module without the file is the same as one that never heard of it."""
    slot = "#include <more>\n#ifndef FILLED_more\n#endif\nvoid main"
    shaders("copy.comp", COPY.replace("void main", slot))
    shaders("plain.comp", COPY)
    shaders("more.glsl", "#error it is in")
    compiled = lambda name, **slots: shader.compile_source(ShaderSource.of(name, slots))
    assert compiled("copy.comp", more="") == compiled("plain.comp")
    with pytest.raises(ShaderError, match="it is in"):
        compiled("copy.comp", more="more.glsl")


def test_a_file_enters_once(shaders):
    files = ("common.glsl", "contract/core.glsl", "common.glsl")
    shaders("p.comp", "".join(f'#include "{file}"\n' for file in files))
    assert shader.expand(ShaderSource.of("p.comp")).count("const float ALPHA_MIN") == 1


def test_a_file_of_no_stage():
    words = "p.glsl: the stage is the file's ending, one of comp, vert, geom, frag"
    with pytest.raises(ShaderError, match=words):
        _ = ShaderSource.of("p.glsl").stage


def test_compile_errors_point_at_our_file_and_line(shaders):
    shaders("part.glsl", "// fine\nfloat twice(float x) { return x * undeclared; }\n")
    text = '#include "part.glsl"\nlayout(local_size_x = 1) in;\nvoid main() {}\n'
    with pytest.raises(ShaderError) as error:
        shader.compile_source(ShaderSource.of(shaders("p.comp", text)))
    for words in ("p.comp does not compile", "part.glsl:2", "undeclared"):
        assert words in str(error.value)


def test_cached_shaders_need_no_compiler(shaders, monkeypatch):
    shaders("copy.comp", COPY)
    first = shader.compile_source(ShaderSource.of("copy.comp"))
    monkeypatch.setenv("PATH", "")
    assert shader.compile_source(ShaderSource.of("copy.comp")) == first
    with pytest.raises(UserError, match="no GLSL compiler: install glslang"):
        shader.compile_source(ShaderSource.of("copy.comp", macros={"OTHER": "1"}))


def test_a_home_that_cannot_be_written_costs_only_time(shaders, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "file"))
    assert (
        shader.compile_source(ShaderSource.of(shaders("copy.comp", COPY)))[:4]
        == b"\x03\x02\x23\x07"
    )


def test_pipelines_are_made_once(device, shaders):
    owner = copy_pass(shaders, spec={"ADD": 77})
    assert build(device, owner) is build(device, owner)


# ---- memory


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


def test_copies_together_around_the_pieces_of_staging(device, staging):
    sizes = (1, 16, 17, 200, 0, 33)
    buffers = [Buffer(device, 4 * max(words, 1), "keys") for words in sizes]
    data = [words_of(words) for words in sizes]
    memory.upload_all((buffer, 0, values) for buffer, values in zip(buffers, data))
    memory.upload_all([(buffers[3], 4 * 15, data[5]), (buffers[3], 4 * 100, data[1])])
    data[3][15:48], data[3][100:116] = data[5], data[1]
    out = [np.zeros_like(values) for values in data]
    memory.download_all(list(zip(buffers, out)))
    for got, values in zip(out, data):
        np.testing.assert_array_equal(got, values)
    memory.clear_all(buffers)
    assert not any(buffer.download(np.uint32).any() for buffer in buffers)
    for buffer in buffers:
        buffer.destroy()


def test_upload_beyond_the_end(device):
    buffer = Buffer(device, 64, "keys")
    with pytest.raises(ValueError, match="64 bytes at 4 do not fit in keys of 64 bytes"):
        buffer.upload(np.zeros(16, np.float32), offset=4)
    buffer.upload(np.zeros(0, np.float32), offset=64)
    buffer.destroy()


def test_images_survive_the_round_trip(device):
    image = Image(device, 7, 5, 109, np.float32, "target")
    texels = np.random.default_rng(0).normal(size=(5, 7, 4)).astype(np.float32)
    image.upload(texels)
    np.testing.assert_array_equal(image.download(), texels)
    with pytest.raises(ValueError, match=r"target is \(5, 7, 4\), got \(7, 5, 4\)"):
        image.upload(texels.transpose(1, 0, 2))
    image.destroy()


BOUND = [("splats2d", "splats"), ("ssim_grads", "pixels"), ("other", "")]


@pytest.mark.parametrize("name, grows_with", BOUND)
def test_a_buffer_larger_than_the_device_allows(device, name, grows_with):
    words = f"buffer {name} needs .* MiB, .* allows .* MiB in one$"
    with pytest.raises(OutOfMemory, match=words) as error:
        Buffer(device, device.max_buffer + 4, name)
    assert error.value.grows_with == grows_with


def test_an_image_larger_than_the_device_allows(device):
    most, sizes = device.max_image, [(device.max_image + 1, 1)]
    if most**2 * 16 > device.max_allocation:
        sizes.append((most, most))
    for size in sizes:
        with pytest.raises(OutOfMemory, match="larger than .* allows"):
            Image(device, *size, 109, np.float32, "target")


def test_an_image_format_that_the_device_has_not(device):
    words = "has no images of VkFormat 26 for target; choose another --format"
    with pytest.raises(UserError, match=words):  # R8G8B8_SSCALED, in nobody's use
        Image(device, 4, 4, 26, np.uint8, "target")


# ---- recorder


def test_dependent_passes_wait_for_each_other(device, shaders):
    """A chain of copies, each plus one, through four buffers, long enough to race if a barrier were
    missing."""
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


@pytest.mark.parametrize("read", ["stamps", "times", "fragments"])
def test_a_device_lost_while_its_clock_is_read_is_said_so(device, monkeypatch, read):
    def lost(*arguments):
        raise queries.vk.VkErrorDeviceLost

    recorder = Recorder(device, {}, timed=True, counted=True)
    for pool in (recorder._clock, recorder._invocations):
        pool.names.append("a pass")
    recorder.end()
    monkeypatch.setattr(queries.vk, "vkGetQueryPoolResults", lost)
    with pytest.raises(DeviceLost, match="stopped answering"):
        getattr(recorder, read)()
    monkeypatch.undo()
    recorder.destroy()


COUNT = """
#include "contract/sort.glsl"
layout(local_size_x = 1) in;
BUFFER_keys(restrict)
void main() { keys[0] += 1u; }
"""


def test_a_recording_runs_as_often_as_it_is_submitted(device, shaders):
    owner = ComputePass("count", shaders("count.comp", COUNT), reads=("keys",), writes=("keys",))
    keys = Buffer(device, 16, "keys")
    first, again = (Recorder(device, {"keys": keys}) for _ in range(2))
    first.fill("keys")
    for recorder in (first, again):
        recorder.run(build(device, owner), threads=(1,))
        recorder.end()
    fence = Fence(device)
    submit(device, [first, *[again] * 40], fence)
    fence.wait()
    assert keys.download(np.uint32, 1)[0] == 41
    assert first.times() == {}  # not timed
    for thing in (fence, first, again, keys):
        thing.destroy()


def test_an_interrupted_wait_leaves_nothing_in_flight(device, monkeypatch):
    """The command buffer, the fence and the buffers may be freed right after; the validation layer
    would say otherwise."""
    buffer = Buffer(device, 1 << 22, "keys")

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Fence, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            buffer.fill(1)
    with pytest.raises(ZeroDivisionError), once(device):
        _ = 1 / 0
    assert (buffer.download(np.uint32) == 1).all()
    buffer.destroy()


VERTEX = """
void main() {
    gl_Position = vec4(vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1) * 4.0 - 1.0, 0.0, 1.0);
}
"""
FRAGMENT = """
layout(location = 0) out vec4 c;
void main() { if (gl_FragCoord.x > 4.0) discard; c = vec4(gl_FragCoord.xy, 0.5, 1.0); }
"""


def test_a_draw_clears_and_covers_its_target(device, shaders):
    stages = shaders("v.vert", VERTEX), shaders("f.frag", FRAGMENT)
    target = Image(device, 8, 4, 109, np.float32, "target")
    into = dict(writes=("target",), attachment="target", format=109, clear=(0.25, 0.0, 0.0, 0.0))
    recorder = Recorder(device, {"target": target})
    recorder.run(build(device, DrawPass("d", *stages, **into)), threads=(3,), extent=(8, 4))
    recorder.end().run_once()
    pixels, centres = target.download(), [0.5, 1.5, 2.5, 3.5]
    assert (pixels[:, 4:] == (0.25, 0, 0, 0)).all()
    assert (pixels[:, :4, 0] == centres).all() and (pixels[:, 0, 1] == centres).all()
    recorder.destroy()
    target.destroy()


# ---- device


def test_device_choice():
    names = {"Radeon RX 9070": 0, "Radeon 780M": 1, "llvmpipe": 4}
    devices = [
        PhysicalDevice(None, name, "GPU", rank, (1, 3), "driver", 0, 64)
        for name, rank in names.items()
    ]
    for wanted, found in ((None, 0), ("", 0), ("0", 0), ("radeon", 0), ("2", 2), ("LLVM", 2)):
        assert choose(devices, wanted) is devices[found]
    assert choose(devices, "780m") is devices[1]
    there = "this machine has 0: Radeon RX 9070, 1: Radeon 780M, 2: llvmpipe"
    for wrong in ("3", "GeForce"):
        with pytest.raises(UserError, match=f"--device {wrong}: .*{there}"):
            choose(devices, wrong)
    with pytest.raises(UserError, match="no Vulkan device: install a GPU driver"):
        choose([], "0")


def test_validation_messages_become_exceptions(session_device):
    """Also when another instance was made since."""
    session_device.check_validation()
    instance.Instance(validation="1")
    vk, buffer = memory.vk, Buffer(session_device, 64, "keys")
    with pytest.raises(ValidationError, match="VUID-vkCmdCopyBuffer-srcOffset"):
        with once(session_device) as commands:
            beyond = vk.VkBufferCopy(srcOffset=64, dstOffset=0, size=4)
            vk.vkCmdCopyBuffer(commands, buffer.handle, buffer.handle, 1, [beyond])
    session_device.instance.messages.clear()
    session_device.wait_idle()
    buffer.destroy()


# ---- probe


@pytest.fixture
def own_capabilities(session_device, monkeypatch, tmp_path):
    """Capabilities that may be withdrawn, and an empty cache."""
    mine = context.capabilities.query(session_device.physical.handle)
    monkeypatch.setattr(session_device, "capabilities", mine)
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.delenv("HARDSPLAT_PROBE", raising=False)
    return mine


def test_probe_finds_this_device_sound_and_remembers_it(device, own_capabilities, monkeypatch):
    before = set(own_capabilities.names)
    assert probe.probe(device) == {}
    assert own_capabilities.names == before
    monkeypatch.setattr(probe, "measure", lambda device: pytest.fail("measured twice"))
    assert probe.probe(device) == {}


SUMS = (np.ones(9, np.float32), np.ones(9, np.float32))
WRONG = [
    ("float_atomics", "expected_sums", SUMS, "additions of 1 in compute shaders gave"),
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
    monkeypatch.setattr(probe, expectation, lambda: wrong)
    assert words in probe.probe(device)[name]
    assert name not in own_capabilities and words in own_capabilities.missing([name])[0]


def test_probe_can_be_switched_off_and_survives_a_damaged_file(
    device, own_capabilities, monkeypatch, tmp_path
):
    probe.probe(device)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"withdrawn": 3}')
    assert probe.probe(device) == {}
    monkeypatch.setattr(probe, "measure", lambda device: {"float_atomics": "made up"})
    path.unlink()
    monkeypatch.setenv("HARDSPLAT_PROBE", "0")
    assert probe.probe(device) == {} and "float_atomics" in own_capabilities


WAITING = [name for name, row in ORDERINGS.items() if not row.listed]
BACKWARD = [
    (reduction, ordering, atomics, quads)
    for reduction, ordering, atomics in itertools.product(REDUCTIONS, WAITING, ATOMICS)
    for quads in (QUADS if REDUCTIONS[reduction].quads else [None])
]


@pytest.mark.parametrize("reduction, ordering, atomics, quads", BACKWARD)
def test_backward_draws_compile_and_open_what_they_should(reduction, ordering, atomics, quads):
    """From SPIR-V alone, so also those that this device cannot run: interlock and full quads."""
    order, reduce = ORDERINGS[ordering], REDUCTIONS[reduction]
    slots = {"reduce": reduce.slot, "order": order.slot, "atomics": ATOMICS[atomics].slot}
    if quads:
        slots["quads"] = QUADS[quads].slot
    macros = {} if order.attachment else {"STATE_FORMAT": "rgba16f"}
    info = reflect(
        shader.compile_source(ShaderSource.of("draw/ordered/backward.frag", slots, macros))
    )
    opened = {contract.BINDINGS[binding]: b for binding, b in info.bindings.items()}
    assert set(opened) == {"d_image", "state", "d_splats2d"}
    assert opened["state"].kind == ("input" if order.attachment else "storage")
    assert opened["d_splats2d"].stride == 4
    assert {*reduce.spec, "SEGMENTS", "ABSOLUTE"} == set(info.spec_ids)


@pytest.mark.parametrize("owner", probe.PASSES, ids=lambda owner: owner.name)
def test_probe_passes_match_their_declaration(owner):
    modules = [(s.path, reflect(shader.compile_source(s))) for s in owner.sources()]
    declarations.check(owner, modules)


# ---- limits


def shared_bytes(spirv: bytes) -> int:
    """Bytes of the workgroup's variables in a module, from its types (SPIR-V specification,
    unified1)."""
    words, sizes, pointees, total, at = np.frombuffer(spirv, np.uint32), {}, {}, 0, 5
    while at < len(words):
        length, op = int(words[at]) >> 16, int(words[at]) & 0xFFFF
        a = [int(w) for w in words[at + 1 : at + length]]
        if op in (21, 22):  # int, float
            sizes[a[0]] = a[1] // 8
        elif op in (23, 24):  # vector, matrix: element and number
            sizes[a[0]] = sizes.get(a[1], 0) * a[2]
        elif op == 28:  # array: the number is a constant
            sizes[a[0]] = sizes.get(a[1], 0) * sizes.get(("constant", a[2]), 0)
        elif op == 30:
            sizes[a[0]] = sum(sizes.get(member, 0) for member in a[1:])
        elif op == 43:
            sizes["constant", a[1]] = a[2]
        elif op == 32:
            pointees[a[0]] = a[2]
        elif op == 59 and a[2] == 4:  # a variable in workgroup storage
            total += sizes[pointees[a[0]]]
        at += length
    return total


def test_required_limits_are_what_the_shaders_take():
    compute = list({source for source in catalog.sources() if source.stage == "comp"})
    modules = [shader.compile_source(source) for source in compute]
    infos = [reflect(module) for module in modules]
    taken = {"perturbing_buffers": 0, "gathering_buffers": 0, "storage_buffers": 0}
    for source, info in zip(compute, infos):
        kind = "storage"
        if source.path == "project/perturb.comp":
            kind = "perturbing"
        elif ("atomics", "tiled/records.glsl") in source.slots:
            kind = "gathering"
        buffers = sum(b.kind == "buffer" for b in info.bindings.values())
        taken[f"{kind}_buffers"] = max(taken[f"{kind}_buffers"], buffers)
    taken["shared_memory"] = max(map(shared_bytes, modules))
    taken["workgroup_threads"] = max(int(np.prod(info.local_size)) for info in infos)
    required = {name: wanted for name, (_, wanted, _) in features.LIMITS.items()}
    assert taken.keys() == required.keys()
    assert all(0.9 * required[name] <= taken[name] <= required[name] for name in taken), taken
