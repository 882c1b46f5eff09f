"""Pipelines of passes: built by threads, checked against their declarations, kept as long as their
device."""

from __future__ import annotations

import functools
import operator
import struct
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait

import vulkan as vk

from hardsplat import contract
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declarations import check
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.passes.graphics import graphics_pipeline, render_pass_of
from hardsplat.gpu.passes.pipeline_cache import pipeline_cache
from hardsplat.gpu.passes.reflect import Reflection, reflect
from hardsplat.gpu.passes.shader import ShaderSource

_FULL_SUBGROUPS = (
    0x2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT, None in the package
)
_REQUIRED_SUBGROUP_SIZE = 1000225001

_STAGES = {
    "comp": vk.VK_SHADER_STAGE_COMPUTE_BIT,
    "vert": vk.VK_SHADER_STAGE_VERTEX_BIT,
    "geom": vk.VK_SHADER_STAGE_GEOMETRY_BIT,
    "frag": vk.VK_SHADER_STAGE_FRAGMENT_BIT,
}
_DESCRIPTOR = {
    "buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    "uniform": vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
    "sampled": vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE,
    "storage": vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
    "input": vk.VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT,
}


def _specialization(spec: Mapping, info: Reflection):
    """(VkSpecializationInfo or None, what to keep alive)."""
    chosen = [(info.spec_ids[n], v) for n, v in spec.items() if n in info.spec_ids]
    if not chosen:
        return None, None
    raw = b"".join(
        struct.pack("<f", v) if isinstance(v, float) else struct.pack("<I", int(v))
        for _, v in chosen
    )
    data = vk.ffi.new("char[]", raw)
    entries = [
        vk.VkSpecializationMapEntry(constantID=c, offset=4 * i, size=4)
        for i, (c, _) in enumerate(chosen)
    ]
    info = vk.VkSpecializationInfo(
        pMapEntries=entries, dataSize=len(raw), pData=vk.ffi.cast("void*", data)
    )
    return info, (data, entries)


def _stage(
    device: Device,
    source: ShaderSource,
    spirv: bytes,
    spec: Mapping,
    info: Reflection,
    flags: int = 0,
    subgroup: int = 0,
):
    module = vk.vkCreateShaderModule(
        device.handle, vk.VkShaderModuleCreateInfo(codeSize=len(spirv), pCode=spirv), None
    )
    specialization, keep = _specialization(spec, info)
    entry = vk.ffi.new("char[]", b"main")
    required = None
    if subgroup:
        required = vk.ffi.new("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*")
        required.sType, required.requiredSubgroupSize = _REQUIRED_SUBGROUP_SIZE, subgroup
    stage = vk.VkPipelineShaderStageCreateInfo(
        pNext=required,
        flags=flags,
        stage=_STAGES[source.stage],
        module=module,
        pName=entry,
        pSpecializationInfo=specialization,
    )
    return stage, module, (keep, entry, specialization, required)


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
    kinds = check(owner, [(s.path, i) for s, i in zip(sources, infos)])
    visible = functools.reduce(operator.or_, (_STAGES[s.stage] for s in sources))
    bindings = [
        vk.VkDescriptorSetLayoutBinding(
            binding=b,
            descriptorType=_DESCRIPTOR[k],
            descriptorCount=1,
            stageFlags=vk.VK_SHADER_STAGE_FRAGMENT_BIT if k == "input" else visible,
        )
        for b, k in sorted(kinds.items())
    ]
    pushed = (
        vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
        if "push_descriptor" in device.capabilities
        else 0
    )
    set_layout = vk.vkCreateDescriptorSetLayout(
        device.handle, vk.VkDescriptorSetLayoutCreateInfo(flags=pushed, pBindings=bindings), None
    )
    layout = vk.vkCreatePipelineLayout(
        device.handle, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[set_layout]), None
    )
    full = (
        isinstance(owner, ComputePass)
        and owner.full_subgroups
        and "full_subgroups" in device.capabilities
    )
    flags = _FULL_SUBGROUPS if full else 0
    subgroup = (
        owner.subgroup
        if isinstance(owner, ComputePass) and "subgroup_sizes" in device.capabilities
        else 0
    )
    staged = [
        _stage(device, s, b, owner.spec, i, flags, subgroup)
        for s, b, i in zip(sources, binaries, infos)
    ]
    stages = [s for s, _, _ in staged]
    cache = pipeline_cache(device)
    render_pass = None
    if isinstance(owner, ComputePass):
        info = vk.VkComputePipelineCreateInfo(stage=stages[0], layout=layout)
        handle = vk.vkCreateComputePipelines(device.handle, cache, 1, [info], None)[0]
    else:
        render_pass = render_pass_of(device, owner)
        handle = graphics_pipeline(device, owner, stages, layout, render_pass, cache)
    for _, module, _ in staged:
        vk.vkDestroyShaderModule(device.handle, module, None)

    def free() -> None:
        vk.vkDestroyPipeline(device.handle, handle, None)
        vk.vkDestroyPipelineLayout(device.handle, layout, None)
        vk.vkDestroyDescriptorSetLayout(device.handle, set_layout, None)
        if render_pass is not None:
            vk.vkDestroyRenderPass(device.handle, render_pass, None)

    device.at_close(free)
    device.label(vk.VK_OBJECT_TYPE_PIPELINE, handle, owner.name)
    descriptors = [
        (b, _DESCRIPTOR[k], owner.bind.get(contract.BINDINGS[b], contract.BINDINGS[b]))
        for b, k in sorted(kinds.items())
    ]
    return Pipeline(
        owner, handle, layout, set_layout, descriptors, infos[0].local_size, render_pass
    )


def build_all(device: Device, owners: Iterable[ComputePass | DrawPass]) -> dict[str, Pipeline]:
    """The pipelines of passes by the passes' names, each made once per device, those that are not
    there yet side by side. Raises like `build`."""
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
    `build_all`, which says what went wrong.

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
        modules = {
            source: device.builders.submit(_module, source)
            for source in dict.fromkeys(
                source for owner in wanted.values() for source in owner.sources()
            )
        }
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
