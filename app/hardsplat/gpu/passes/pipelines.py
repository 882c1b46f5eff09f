"""Pipelines of passes: built by threads, checked against what their passes declare, kept as long as
their device."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import vulkan as vk

from hardsplat import contract
from hardsplat.base.files import replacing
from hardsplat.gpu.device.cache import cache_file
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, PassError, Pipeline
from hardsplat.gpu.passes.descriptors import KINDS
from hardsplat.gpu.passes.graphics import graphics_pipeline, render_pass_of
from hardsplat.gpu.passes.reflect import Binding, Reflection, reflect
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.tables import quantities

# What shaders open to go through planes of any quantity: which names those may have.
ANY_PLANES = {
    "any_value": quantities.values,
    "any_moment": quantities.moments,
    "any_average": quantities.averages,
    "any_gradient": lambda kind: quantities.gradients(kind, stored=True),
}


def check(owner: ComputePass | DrawPass, stages: list[tuple[str, Reflection]]) -> dict[int, str]:
    """Compares declaration and SPIR-V; returns descriptor kinds by binding."""
    kinds: dict[int, str] = {}
    reads: set[str] = set()
    writes: set[str] = set()
    for path, info in stages:
        where = f"pass {owner.name}, {path}:"
        for binding, b in info.bindings.items():
            name = contract.BINDINGS.get(binding)
            if name is None:
                raise PassError(f"{where} binding {binding} is not in the contract")
            _check_layout(f"{where} {name}", name, b)
            if (other := kinds.setdefault(binding, b.kind)) != b.kind:
                both = f"{name} is {other} in one stage and {b.kind} in {path}"
                raise PassError(f"pass {owner.name}: {both}")
            if name != "planes":  # holds addresses: what a pass reads and writes are the planes
                reads |= {name} if b.reads else set()
                writes |= {name} if b.writes else set()
        for opened, (read, written) in info.planes.items():
            if not (names := _planes(opened)):
                what = f"{opened} is not a trained quantity, nor its gradient"
                raise PassError(f"{where} {what}")
            reads |= _opened(names, owner.reads) if read else set()
            writes |= _opened(names, owner.writes) if written else set()
    if isinstance(owner, DrawPass):
        also_read, also_written = _attached(owner)
        reads |= also_read
        writes |= also_written
    for what, actual in (("reads", reads), ("writes", writes)):
        if (declared := set(getattr(owner, what))) != actual:
            paths = " + ".join(path for path, _ in stages)
            raise PassError(
                f"pass {owner.name}, {paths}: declared {what} {sorted(declared)}, the "
                f"shader {what} {sorted(actual)}"
                f" (missing {sorted(actual - declared)}, extra {sorted(declared - actual)})"
            )
    known = set().union(*(info.spec_ids for _, info in stages))
    for name in owner.spec:
        if name not in known:
            there = f"there are {sorted(known) or 'none'}"
            raise PassError(f"pass {owner.name}: no specialization constant {name}; {there}")
    return kinds


def _planes(opened: str) -> set[str]:
    """The names that a shader may mean by what it opened, none where the trained table has not
    got it."""
    if opened in ANY_PLANES:
        return {name for kind in quantities.ORDER for name in ANY_PLANES[opened](kind)}
    return {opened} & set().union(*map(_planes, ANY_PLANES))


def _opened(names: set[str], declared: tuple[str, ...]) -> set[str]:
    """What a shader reads or writes of planes with one of `names`: those that are declared where
    it goes through any of several."""
    return names if len(names) == 1 else names & set(declared)


def _attached(owner: DrawPass) -> tuple[set[str], set[str]]:
    """What a draw reads and writes by its attachments."""
    reads, writes = set(), set()
    if owner.attachment:
        aliases = (name for name, actual in owner.bind.items() if actual == owner.attachment)
        writes.add(alias := next(aliases, owner.attachment))
        if owner.blend or owner.clear is None:
            reads.add(alias)
    if depth := owner.depth:
        reads |= {depth.image} if depth.clear is None else set()
        writes |= {depth.image} if depth.writes else set()
    return reads, writes


def _check_layout(where: str, name: str, b: Binding) -> None:
    """Compares how a shader opens a resource with the contract. Raises PassError that begins with
    `where`."""
    spec = contract.BUFFERS.get(name)  # None for an image
    expected_kind = "image" if spec is None else "uniform" if spec.uniform else "buffer"
    if (b.kind if b.kind in ("buffer", "uniform") else "image") != expected_kind:
        raise PassError(f"{where} is in the contract as {expected_kind}, in the shader as {b.kind}")
    if spec is None:
        return
    size = contract.itemsize(name)
    if b.stride not in (None, size):
        raise PassError(f"{where} has {size} bytes an element, the shader {b.stride}")
    expected = contract.layout(name)
    if b.layout != expected:
        differ = (pair for pair in zip(expected, b.layout) if pair[0] != pair[1])
        ours, theirs = next(differ, (len(expected), len(b.layout)))
        what = f"{spec.type} has {ours} where the shader has {theirs}"
        raise PassError(f"{where}: {what} (member, byte)")


def pipeline_cache(device: Device):
    """The cache of this device: read at the first call, written when the device closes or the
    process ends."""
    return device.shared("pipeline cache", partial(_open, device))


def _path(device: Device) -> Path:
    return cache_file("pipelines", device.name, device.physical.driver).with_suffix(".bin")


def _open(device: Device) -> Any:
    path = _path(device)
    initial = path.read_bytes() if path.is_file() else b""
    data = vk.ffi.new("char[]", initial) if initial else None
    start = vk.ffi.cast("void*", data) if initial else None
    cache = device.create("PipelineCache", initialDataSize=len(initial), pInitialData=start)
    device.at_close(partial(_save, device, cache))
    return cache


def _save(device: Device, cache) -> None:
    size = vk.ffi.new("size_t*")
    vk.lib.vkGetPipelineCacheData(device.handle, cache, size, vk.ffi.NULL)
    out = vk.ffi.new("char[]", size[0])
    vk.lib.vkGetPipelineCacheData(device.handle, cache, size, out)
    # a read-only home costs compile time, nothing else
    with suppress(OSError), replacing(_path(device), durable=False) as part:
        part.write_bytes(vk.ffi.buffer(out, size[0])[:])


# VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT and the sType of a required size: None
# in the package
_FULL_SUBGROUPS, _REQUIRED_SUBGROUP_SIZE = 0x2, 1000225001

_STAGES = {
    "comp": vk.VK_SHADER_STAGE_COMPUTE_BIT,
    "vert": vk.VK_SHADER_STAGE_VERTEX_BIT,
    "geom": vk.VK_SHADER_STAGE_GEOMETRY_BIT,
    "frag": vk.VK_SHADER_STAGE_FRAGMENT_BIT,
}


def _specialization(spec: Mapping, known: Mapping[str, int]):
    """(VkSpecializationInfo or None, what to keep alive). known: ids of a shader's constants."""
    chosen = {known[name]: value for name, value in spec.items() if name in known}
    if not chosen:
        return None, None
    raw = b"".join(
        struct.pack("<f", v) if isinstance(v, float) else struct.pack("<I", int(v))
        for v in chosen.values()
    )
    data = vk.ffi.new("char[]", raw)
    entries = [
        vk.VkSpecializationMapEntry(constantID=c, offset=4 * i, size=4)
        for i, c in enumerate(chosen)
    ]
    start = vk.ffi.cast("void*", data)
    info = vk.VkSpecializationInfo(pMapEntries=entries, dataSize=len(raw), pData=start)
    return info, (data, entries)


class _Stage:
    """A shader of a pass while its pipeline is made. `info`: its
    VkPipelineShaderStageCreateInfo."""

    def __init__(
        self, device: Device, owner: ComputePass | DrawPass, stage: str, spirv: bytes, ids
    ):
        self._device = device
        self._module = device.create("ShaderModule", codeSize=len(spirv), pCode=spirv)
        specialization, self._keep = _specialization(owner.spec, ids)
        self._entry, self._required, flags = vk.ffi.new("char[]", b"main"), None, 0
        if isinstance(owner, ComputePass):
            if owner.full_subgroups and "full_subgroups" in device.capabilities:
                flags = _FULL_SUBGROUPS
            if owner.subgroup and "subgroup_sizes" in device.capabilities:
                wanted = {"sType": _REQUIRED_SUBGROUP_SIZE, "requiredSubgroupSize": owner.subgroup}
                struct_name = "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*"
                self._required = vk.ffi.new(struct_name, wanted)
        self._specialization = specialization
        self.info = vk.VkPipelineShaderStageCreateInfo(
            pNext=self._required,
            flags=flags,
            stage=_STAGES[stage],
            module=self._module,
            pName=self._entry,
            pSpecializationInfo=specialization,
        )

    def destroy(self) -> None:
        self._device.destroy("ShaderModule", self._module)


def build(device: Device, owner: ComputePass | DrawPass) -> Pipeline:
    """The pipeline of a pass, made once per device. Raises PassError where declaration and shader
    disagree, ShaderError where it does not compile."""
    return build_all(device, [owner])[owner.name]


def _build(
    device: Device,
    owner: ComputePass | DrawPass,
    modules: Mapping[ShaderSource, Future[tuple[bytes, Reflection]]],
) -> Pipeline:
    sources = owner.sources()
    binaries, infos = zip(*(modules[source].result() for source in sources))
    kinds = sorted(check(owner, [(s.path, i) for s, i in zip(sources, infos)]).items())
    visible = sum(_STAGES[source.stage] for source in sources)
    bindings = [
        {
            "binding": binding,
            "descriptorType": KINDS[kind],
            "descriptorCount": 1,
            "stageFlags": vk.VK_SHADER_STAGE_FRAGMENT_BIT if kind == "input" else visible,
        }
        for binding, kind in kinds
    ]
    # the package's function for one of them takes as long as this for all
    listed = vk.ffi.new("VkDescriptorSetLayoutBinding[]", bindings)
    pushed = "push_descriptor" in device.capabilities
    flags = vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR if pushed else 0
    set_layout = device.create("DescriptorSetLayout", flags=flags, pBindings=listed)
    layout = device.create("PipelineLayout", pSetLayouts=[set_layout])
    stages = [
        _Stage(device, owner, source.stage, spirv, info.spec_ids)
        for source, spirv, info in zip(sources, binaries, infos)
    ]
    cache, render_pass = pipeline_cache(device), None
    if isinstance(owner, ComputePass):
        info = vk.VkComputePipelineCreateInfo(stage=stages[0].info, layout=layout)
        handle = vk.vkCreateComputePipelines(device.handle, cache, 1, [info], None)[0]
        device.own("Pipeline", handle)
    else:
        render_pass, stage_infos = render_pass_of(device, owner), [stage.info for stage in stages]
        handle = graphics_pipeline(device, owner, stage_infos, layout, render_pass, cache)
    for stage in stages:
        stage.destroy()
    device.label(vk.VK_OBJECT_TYPE_PIPELINE, handle, owner.name)
    names = contract.BINDINGS
    described = [(b, KINDS[kind], owner.bind.get(names[b], names[b])) for b, kind in kinds]
    size = infos[0].local_size
    return Pipeline(owner, handle, layout, set_layout, described, size, render_pass)


def build_all(device: Device, owners: Iterable[ComputePass | DrawPass]) -> dict[str, Pipeline]:
    """The pipelines of passes by the passes' names, each made once per device, those that are not
    there yet by several threads. Raises like `build`."""
    owners, known = list(owners), device.pipelines
    keys = [owner.key() for owner in owners]
    begin_all(device, owners)
    try:
        _wait(device, [known[key] for key in keys])
        built = {owner.name: known[key].result() for owner, key in zip(owners, keys)}
        device.check_validation()
    except BaseException:
        for key in keys:
            if key in known and (not known[key].done() or known[key].exception()):
                del known[key]  # the next request builds it again
        raise
    return built


def begin_all(device: Device, owners: Iterable[ComputePass | DrawPass]) -> None:
    """Has the pipelines of passes built by threads, those that are not there yet, for a later
    `build_all`, which raises what went wrong.

    Only on a CPU does it wait for them: Mesa's software renderer must not draw while pipelines are
    made, and its cores have nothing else to do.
    """
    with device.building:
        wanted = {key: owner for owner in owners if (key := owner.key()) not in device.pipelines}
        if not wanted:
            return
        pipeline_cache(device)
        # modules come first in the queue, so that a pipeline that waits for one keeps no thread
        # from it
        sources = {source: None for owner in wanted.values() for source in owner.sources()}
        modules = {source: device.builders.submit(_module, source) for source in sources}
        for key, owner in wanted.items():
            device.pipelines[key] = device.builders.submit(_build, device, owner, modules)
        if device.physical.kind == "CPU":
            _wait(device, [device.pipelines[key] for key in wanted])


def _wait(device: Device, pipelines: list[Future]) -> None:
    """Waits until all are built or have failed. The time counts as building."""
    if not all(pipeline.done() for pipeline in pipelines):
        begun = time.perf_counter()
        wait(pipelines)
        device.build_seconds += time.perf_counter() - begun


def _module(source: ShaderSource) -> tuple[bytes, Reflection]:
    binary = shader.compile_source(source)
    return binary, reflect(binary)
