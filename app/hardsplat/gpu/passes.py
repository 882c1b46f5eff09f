"""A pass is data: a shader, what it reads and writes, constants. `build` checks it against the SPIR-V and makes the pipeline."""

from __future__ import annotations

import functools
import operator
import struct
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, fields

import vulkan as vk

from hardsplat import contract, trained
from hardsplat.gpu import shader
from hardsplat.gpu.context import Device
from hardsplat.gpu.graphics import DepthTest, graphics_pipeline, render_pass_of
from hardsplat.gpu.pipeline_cache import pipeline_cache
from hardsplat.gpu.reflect import Binding, Reflection, reflect
from hardsplat.gpu.shader import Source

_FULL_SUBGROUPS = 0x2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT, None in the package
_REQUIRED_SUBGROUP_SIZE = 1000225001

_STAGES = {
    "comp": vk.VK_SHADER_STAGE_COMPUTE_BIT,
    "vert": vk.VK_SHADER_STAGE_VERTEX_BIT,
    "geom": vk.VK_SHADER_STAGE_GEOMETRY_BIT,
    "mesh": vk.VK_SHADER_STAGE_MESH_BIT_EXT,
    "frag": vk.VK_SHADER_STAGE_FRAGMENT_BIT,
}
_DESCRIPTOR = {
    "buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    "uniform": vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
    "sampled": vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE,
    "storage": vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
    "input": vk.VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT,
}


class PassError(Exception):
    """A pass and its shader disagree; the message names pass, shader, resource, expected and actual."""


def _frozen(value):
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class _Pass:
    """What passes have in common: data, equal where they are built alike."""

    def key(self) -> tuple:
        """What a device keeps the pipeline under."""
        return type(self).__name__, *(_frozen(getattr(self, f.name)) for f in fields(self))


@dataclass(frozen=True)
class ComputePass(_Pass):
    """One compute shader. `bind` puts another resource in the place of one of the contract: {"keys": "keys_alt"}.

    reads, writes: names of the contract, and of the trained table: `means`, `adam_means`, `d_means`.

    full_subgroups: the shader counts on subgroups of the device's size without idle lanes, which some drivers give only to those who ask.
    subgroup: another size of subgroups, of device.subgroup_sizes; 0 for the usual one.
    """

    name: str
    shader: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    spec: Mapping[str, int | float] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)
    full_subgroups: bool = False
    subgroup: int = 0

    def sources(self) -> list[Source]:
        return [Source.of(self.shader, self.slots, self.macros)]


@dataclass(frozen=True)
class DrawPass(_Pass):
    """One draw without vertex buffers.

    vertex: a .vert or .mesh shader. geometry: a shader between it and the fragments. outline: slots of the later of the two.
    topology: a row of TOPOLOGIES in graphics.py. rectangle: a triangle fills its bounding box (VK_NV_fill_rectangle).

    attachment: image drawn to, None for shaders that only store. clear: its value before, None to keep what is there.
    blend: a row of hardsplat.variants.blending. in_order: the fragment shader reads the attachment as input, in rasterization order.
    samples: of every pixel of its images. depth: what it tests depth against.
    """

    name: str
    vertex: str
    fragment: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    attachment: str | None = None
    format: int = 0
    clear: tuple[float, float, float, float] | None = None
    blend: bool = False
    in_order: bool = False
    samples: int = 1
    depth: DepthTest | None = None
    geometry: str | None = None
    outline: Mapping[str, str] = field(default_factory=dict)
    topology: str = "triangles"
    rectangle: bool = False
    spec: Mapping[str, int | float] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)

    def sources(self) -> list[Source]:
        last = Source.of(self.geometry or self.vertex, self.outline)
        return [*([Source.of(self.vertex)] if self.geometry else []), last, Source.of(self.fragment, self.slots, self.macros)]


@dataclass
class Pipeline:
    """A built pass, alive as long as its device. `descriptors`: (binding, descriptor type, resource name)."""

    owner: ComputePass | DrawPass
    handle: object
    layout: object
    set_layout: object
    descriptors: list[tuple[int, int, str]]
    local_size: tuple[int, int, int]
    render_pass: object = None

    @property
    def reads(self) -> set[str]:
        return {self.owner.bind.get(n, n) for n in self.owner.reads}

    @property
    def writes(self) -> set[str]:
        return {self.owner.bind.get(n, n) for n in self.owner.writes}


def check(owner: ComputePass | DrawPass, stages: list[tuple[str, Reflection]]) -> dict[int, str]:
    """Compares declaration and SPIR-V; returns descriptor kinds by binding."""
    kinds: dict[int, str] = {}
    reads, writes = set(), set()
    for path, info in stages:
        for binding, b in info.bindings.items():
            name = contract.BINDINGS.get(binding)
            if name is None:
                raise PassError(f"pass {owner.name}, {path}: binding {binding} is not in the contract")
            _check_layout(f"pass {owner.name}, {path}: {name}", name, b)
            if kinds.setdefault(binding, b.kind) != b.kind:
                raise PassError(f"pass {owner.name}: {name} is {kinds[binding]} in one stage and {b.kind} in {path}")
            if name != "planes":  # which holds addresses: what a pass reads and writes are the planes
                reads |= {name} if b.reads else set()
                writes |= {name} if b.writes else set()
        for opened, (read, written) in info.planes.items():
            names = _planes(opened, owner)
            if names is None:
                raise PassError(f"pass {owner.name}, {path}: {opened} is not a trained quantity, nor its gradient")
            reads |= names & set(owner.reads) if opened in _ANY and read else names if read else set()
            writes |= names & set(owner.writes) if opened in _ANY and written else names if written else set()
    if isinstance(owner, DrawPass) and owner.attachment:
        alias = next((name for name, actual in owner.bind.items() if actual == owner.attachment), owner.attachment)
        writes.add(alias)
        if owner.blend or owner.clear is None:
            reads.add(alias)
    if isinstance(owner, DrawPass) and (depth := owner.depth):
        reads |= {depth.image} if depth.clear is None else set()
        writes |= {depth.image} if depth.writes else set()
    for what, declared, actual in (("reads", set(owner.reads), reads), ("writes", set(owner.writes), writes)):
        if declared != actual:
            paths = " + ".join(path for path, _ in stages)
            raise PassError(
                f"pass {owner.name}, {paths}: declared {what} {sorted(declared)}, the shader {what} {sorted(actual)}"
                f" (missing {sorted(actual - declared)}, extra {sorted(declared - actual)})"
            )
    known = set().union(*(info.spec_ids for _, info in stages))
    for name in owner.spec:
        if name not in known:
            raise PassError(f"pass {owner.name}: no specialization constant {name}; there are {sorted(known) or 'none'}")
    return kinds


# What shaders open to go through planes whatever they hold: which of the declared names those may be.
_ANY = {"any_value": trained.values, "any_moment": trained.moments, "any_gradient": lambda kind: trained.gradients(kind, stored=True)}


def _planes(opened: str, owner: ComputePass | DrawPass) -> set[str] | None:
    """The names that a shader may mean by what it opened; None for what is not in the trained table."""
    if opened in _ANY:
        return {name for kind in trained.ORDER for name in _ANY[opened](kind)}
    known = {name for names in _ANY.values() for kind in trained.ORDER for name in names(kind)}
    return {opened} if opened in known else None


def _check_layout(where: str, name: str, b: Binding) -> None:
    """Compares how a shader opens a resource with the contract. Raises PassError that begins with `where`."""
    spec = contract.BUFFERS.get(name)  # None for an image
    if (spec is not None) != (b.kind in ("buffer", "uniform")) or (spec and spec.uniform != (b.kind == "uniform")):
        kind = "uniform" if spec and spec.uniform else "buffer" if spec else "image"
        raise PassError(f"{where} is in the contract as {kind}, in the shader as {b.kind}")
    if spec is None:
        return
    if b.stride is not None and b.stride != contract.itemsize(name):
        raise PassError(f"{where} has {contract.itemsize(name)} bytes an element, the shader {b.stride}")
    expected = contract.layout(name)
    if b.layout != expected:
        ours, theirs = next((pair for pair in zip(expected, b.layout) if pair[0] != pair[1]), (len(expected), len(b.layout)))
        raise PassError(f"{where}: {spec.type} has {ours} where the shader has {theirs} (member, byte)")


def _specialization(spec: Mapping, info: Reflection):
    """(VkSpecializationInfo or None, what to keep alive)."""
    chosen = [(info.spec_ids[n], v) for n, v in spec.items() if n in info.spec_ids]
    if not chosen:
        return None, None
    raw = b"".join(struct.pack("<f", v) if isinstance(v, float) else struct.pack("<I", int(v)) for _, v in chosen)
    data = vk.ffi.new("char[]", raw)
    entries = [vk.VkSpecializationMapEntry(constantID=c, offset=4 * i, size=4) for i, (c, _) in enumerate(chosen)]
    info = vk.VkSpecializationInfo(pMapEntries=entries, dataSize=len(raw), pData=vk.ffi.cast("void*", data))
    return info, (data, entries)


def _stage(device: Device, source: Source, spirv: bytes, spec: Mapping, info: Reflection, flags: int = 0, subgroup: int = 0):
    module = vk.vkCreateShaderModule(device.handle, vk.VkShaderModuleCreateInfo(codeSize=len(spirv), pCode=spirv), None)
    specialization, keep = _specialization(spec, info)
    entry = vk.ffi.new("char[]", b"main")
    required = None
    if subgroup:
        required = vk.ffi.new("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*")
        required.sType, required.requiredSubgroupSize = _REQUIRED_SUBGROUP_SIZE, subgroup
    stage = vk.VkPipelineShaderStageCreateInfo(pNext=required, flags=flags, stage=_STAGES[source.stage], module=module, pName=entry, pSpecializationInfo=specialization)
    return stage, module, (keep, entry, specialization, required)


def build(device: Device, owner: ComputePass | DrawPass) -> Pipeline:
    """The pipeline of a pass, made once per device. Raises PassError where declaration and shader disagree, ShaderError where it does not compile."""
    return build_all(device, [owner])[owner.name]


def _build(device: Device, owner: ComputePass | DrawPass, modules: Mapping[Source, Future[tuple[bytes, Reflection]]]) -> Pipeline:
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
    pushed = vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR if "push_descriptor" in device.capabilities else 0
    set_layout = vk.vkCreateDescriptorSetLayout(
        device.handle,
        vk.VkDescriptorSetLayoutCreateInfo(flags=pushed, pBindings=bindings),
        None,
    )
    layout = vk.vkCreatePipelineLayout(device.handle, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[set_layout]), None)
    full = isinstance(owner, ComputePass) and owner.full_subgroups and "full_subgroups" in device.capabilities
    flags = _FULL_SUBGROUPS if full else 0
    subgroup = owner.subgroup if isinstance(owner, ComputePass) and "subgroup_sizes" in device.capabilities else 0
    staged = [_stage(device, s, b, owner.spec, i, flags, subgroup) for s, b, i in zip(sources, binaries, infos)]
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
    descriptors = [(b, _DESCRIPTOR[k], owner.bind.get(contract.BINDINGS[b], contract.BINDINGS[b])) for b, k in sorted(kinds.items())]
    return Pipeline(owner, handle, layout, set_layout, descriptors, infos[0].local_size, render_pass)


def build_all(device: Device, owners: Iterable[ComputePass | DrawPass]) -> dict[str, Pipeline]:
    """The pipelines of passes by the passes' names, each made once per device, those that are not there yet side by side. Raises like `build`."""
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
                del known[key]  # whoever asks again builds again
        raise
    return built


def begin_all(device: Device, owners: Iterable[ComputePass | DrawPass]) -> None:
    """Has the pipelines of passes built by threads, those that are not there yet, for a later `build_all`, which says what went wrong.

    Only on a CPU does it wait for them: Mesa's software renderer must not draw while pipelines are made, and its cores have nothing else to do.
    """
    with device.building:
        wanted = {key: owner for owner in owners if (key := owner.key()) not in device.pipelines}
        if not wanted:
            return
        pipeline_cache(device)
        # modules come first in the queue, so that a pipeline that waits for one keeps no thread from it
        modules = {source: device.builders.submit(_module, source) for source in dict.fromkeys(source for owner in wanted.values() for source in owner.sources())}
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


def _module(source: Source) -> tuple[bytes, Reflection]:
    binary = shader.compile_source(source)
    return binary, reflect(binary)
