"""Command buffers: barriers from what passes read and write, debug labels, a timestamp after every pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set

import numpy as np
import vulkan as vk

from hardsplat import contract
from hardsplat.errors import UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.descriptors import DescriptorSets
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.queries import Invocations, Timestamps
from hardsplat.gpu.queue import ALL, allocate, barrier, complete, compute_barrier, pool

SCHEDULES = ("declared", "serial", "reversed")


def schedule() -> str:
    """HARDSPLAT_SCHEDULE: how recorders order passes between which the declarations ask for no barrier. For tests of the declarations, which no validation layer can
    check where shaders reach memory by address.

    declared: as they were recorded, for the device to run at once. serial: one after the other. reversed: one after the other, the last first; passes that
    depend on each other and do not say so then change the result.
    """
    wanted = os.environ.get("HARDSPLAT_SCHEDULE") or "declared"
    if wanted not in SCHEDULES:
        raise UserError(f"HARDSPLAT_SCHEDULE is {wanted}: choose {', '.join(SCHEDULES)}")
    return wanted


class Recorder:
    """Records passes once; the result is submitted as often as wanted.

    resources: buffers and images by name. timed: write a timestamp after every pass (`times()` reads them).
    counted: count the fragment shader invocations of every draw (`fragments()` reads them).
    One barrier stands wherever a pass touches what an earlier one wrote, or writes what an earlier one read. Between compute passes it is one of theirs alone, and it
    holds back the reading of work sizes only where those were written.
    """

    def __init__(self, device: Device, resources: Mapping[str, Buffer | Image], timed: bool = False, counted: bool = False):
        self.device, self.resources = device, resources
        self.commands = allocate(device)
        self._framebuffers: list = []
        self._sets = DescriptorSets(device)
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._apart: set[str] = set()  # of what was written: by passes alone that each write a part of their own
        self._computes = True  # all since the last barrier for everything
        self._resized = False  # work sizes were written since the last barrier that shows them to dispatches
        self._schedule = schedule()
        self._beside: dict[str, Callable[[Recorder], None]] = {}
        self._group: list[Callable[[], None]] = []  # what was recorded since the last barrier, where it is not recorded at once
        vk.vkBeginCommandBuffer(self.commands, vk.VkCommandBufferBeginInfo(flags=vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT))
        barrier(self.commands)
        self._clock = Timestamps(device, self.commands) if timed and device.timestamp_ns else None
        self._invocations = Invocations(device, self.commands) if counted and "statistics" in device.capabilities else None
        self.mark("start")

    def mark(self, name: str) -> None:
        """A timestamp when everything before is done."""
        if self._clock:
            self._clock.mark(name)

    def order(self, reads: set[str], writes: set[str], computes: bool = False, commanded: bool = False, apart: Set[str] = frozenset()) -> None:
        """A barrier if these accesses clash with what was recorded since the last one. computes: they are a compute pass's. commanded: its work sizes are in `indirect`.

        apart: of `writes`, what passes write parts of that no other pass touches which says so too."""
        if reads & self._written or writes & (self._written - (apart & self._apart)) or writes & self._read or (commanded and self._resized):
            self._flush()
            if self._computes and computes:
                shown = self._resized and commanded
                compute_barrier(self.commands, shown or "indirect" in writes)
                self._resized = self._resized and not shown
            else:
                barrier(self.commands)
                self._computes, self._resized = True, False
            self._written.clear()
            self._read.clear()
            self._apart.clear()
        self._apart = (self._apart | (apart - self._written)) - (writes - apart)
        self._written |= writes
        self._read |= reads
        self._computes = self._computes and computes
        self._resized = self._resized or "indirect" in writes

    def run(
        self,
        pipeline: Pipeline,
        threads: tuple[int, ...] = (),
        indirect: str | None = None,
        extent: tuple[int, int] | None = None,
        groups: tuple[int, int, int] | None = None,
    ) -> None:
        """A dispatch of `threads` (x, y, z), of workgroups, or of the `indirect` command of the contract; a draw of the `indirect` command over `extent` px."""
        owner = pipeline.owner
        reads = pipeline.reads | ({"indirect"} if indirect else set())
        self.order(reads, pipeline.writes, isinstance(owner, ComputePass), indirect is not None, pipeline.apart)
        if record := self._beside.pop(owner.name, None):
            record(self)

        def emit() -> None:
            self._label(owner.name)
            point = vk.VK_PIPELINE_BIND_POINT_COMPUTE if isinstance(owner, ComputePass) else vk.VK_PIPELINE_BIND_POINT_GRAPHICS
            vk.vkCmdBindPipeline(self.commands, point, pipeline.handle)
            self._push(pipeline, point)
            if isinstance(owner, ComputePass):
                self._dispatch(pipeline, threads, indirect, groups)
            else:
                self._draw(pipeline, owner, threads, indirect, extent)
            self._end_label()
            self.mark(owner.name)

        self._emit(emit)

    def beside(self, name: str, record: Callable[[Recorder], None]) -> None:
        """Records something to run beside the next pass of that name, before which no other pass waits for it. It touches nothing that the pass writes."""
        self._beside[name] = record

    def end_beside(self) -> None:
        """Records now what waits for a pass that has not come."""
        waiting, self._beside = list(self._beside.values()), {}
        for record in waiting:
            record(self)

    def _emit(self, emit: Callable[[], None]) -> None:
        """Records something now, or with what else stands between two barriers."""
        if self._schedule == "reversed":
            self._group.append(emit)
            return
        if self._schedule == "serial":
            barrier(self.commands)
        emit()

    def _flush(self) -> None:
        for emit in reversed(self._group):
            barrier(self.commands)
            emit()
        self._group.clear()

    def _push(self, pipeline: Pipeline, point: int) -> None:
        if not pipeline.descriptors:
            return  # Vulkan refuses to push nothing
        writes, keep = [], []
        for binding, kind, name in pipeline.descriptors:
            resource = self.resources.get(name)
            if resource is None:
                raise KeyError(f"pass {pipeline.owner.name} needs {name}, which was not given; given: {sorted(self.resources)}")
            if isinstance(resource, Buffer):
                info = [vk.VkDescriptorBufferInfo(buffer=resource.handle, offset=0, range=resource.nbytes)]
                writes.append(vk.VkWriteDescriptorSet(dstBinding=binding, descriptorCount=1, descriptorType=kind, pBufferInfo=info))
            else:
                info = [vk.VkDescriptorImageInfo(imageView=resource.view, imageLayout=vk.VK_IMAGE_LAYOUT_GENERAL)]
                writes.append(vk.VkWriteDescriptorSet(dstBinding=binding, descriptorCount=1, descriptorType=kind, pImageInfo=info))
            keep.append((info, writes[-1]))
        if "push_descriptor" in self.device.capabilities:
            push = self.device.proc("vkCmdPushDescriptorSetKHR")
            push(self.commands, point, pipeline.layout, 0, len(writes), writes)
        else:
            self._sets.bind(self.commands, point, pipeline, writes)
        del keep  # children of list items must outlive the call: the package keeps only the list itself

    def _dispatch(self, pipeline: Pipeline, threads: tuple[int, ...], indirect: str | None, groups: tuple[int, int, int] | None) -> None:
        if indirect is not None:
            buffer = self.resources["indirect"].handle
            vk.vkCmdDispatchIndirect(self.commands, buffer, contract.indirect_offset(indirect))
            return
        if groups is not None:
            vk.vkCmdDispatch(self.commands, *groups)
            return
        x, y, z = (-(-t // s) for t, s in zip((*threads, 1, 1), pipeline.local_size))
        limit = contract.CONSTANTS["MAX_GROUPS_X"]
        if x > limit:  # the same folding as `fold` in common.glsl
            down = -(-x // limit)
            x, y, z = -(-x // down), down, 1
        vk.vkCmdDispatch(self.commands, x, y, z)

    def _image(self, name: str | None) -> Image | None:
        """What a draw goes to."""
        found = self.resources[name] if name else None
        if isinstance(found, Buffer):
            raise TypeError(f"{name} is a buffer, which no draw can go to")
        return found

    def _draw(self, pipeline: Pipeline, owner: DrawPass, vertices: tuple[int, ...], indirect: str | None, extent: tuple[int, int] | None) -> None:
        image, depth = self._image(owner.attachment), self._image(owner.bind.get(owner.depth.image, owner.depth.image) if owner.depth else None)
        if extent is None:
            if image is None:
                raise ValueError(f"pass {owner.name} has no attachment that says how many px it draws")
            extent = image.width, image.height
        width, height = extent
        info = vk.VkFramebufferCreateInfo(
            renderPass=pipeline.render_pass,
            pAttachments=[r.view for r in (image, depth) if r] or None,
            width=image.width if image else width,
            height=image.height if image else height,
            layers=1,
        )
        framebuffer = vk.vkCreateFramebuffer(self.device.handle, info, None)
        self._framebuffers.append(framebuffer)
        area = vk.VkRect2D(vk.VkOffset2D(0, 0), vk.VkExtent2D(width, height))
        clear = vk.ffi.new("VkClearValue[2]")
        if owner.clear is not None:
            clear[0].color.float32 = list(owner.clear)
        if owner.depth:
            clear[1 if image else 0].depthStencil.depth = owner.depth.clear or 0.0
        clears = 1 + bool(image) if depth else 1 if owner.clear is not None else 0
        begin = vk.VkRenderPassBeginInfo(renderPass=pipeline.render_pass, framebuffer=framebuffer, renderArea=area, clearValueCount=clears, pClearValues=clear if clears else None)
        if self._invocations:
            self._invocations.begin(owner.name)
        vk.vkCmdBeginRenderPass(self.commands, begin, vk.VK_SUBPASS_CONTENTS_INLINE)
        vk.vkCmdSetViewport(self.commands, 0, 1, [vk.VkViewport(0, 0, width, height, 0, 1)])
        vk.vkCmdSetScissor(self.commands, 0, 1, [area])
        if indirect is not None:
            draw = self.device.proc("vkCmdDrawMeshTasksIndirectEXT") if owner.vertex.endswith(".mesh") else vk.vkCmdDrawIndirect
            draw(self.commands, self.resources["indirect"].handle, contract.indirect_offset(indirect), 1, 0)
        else:
            vk.vkCmdDraw(self.commands, vertices[0], 1, 0, 0)
        vk.vkCmdEndRenderPass(self.commands)
        if self._invocations:
            self._invocations.end()

    def fill(self, name: str, word: int = 0) -> None:
        """Every 32-bit word of a buffer := word."""
        self.order(set(), {name})
        buffer = self.resources[name]

        def emit() -> None:
            vk.vkCmdFillBuffer(self.commands, buffer.handle, 0, buffer.nbytes, word)
            self.mark(f"fill {name}")

        self._emit(emit)

    def copy(self, source: str, target: str) -> None:
        """A buffer into another one, which may be smaller, or all of an image into a buffer or back, row by row."""
        self.order({source}, {target})
        a, b = self.resources[source], self.resources[target]

        def emit() -> None:
            if isinstance(a, Image):
                vk.vkCmdCopyImageToBuffer(self.commands, a.handle, vk.VK_IMAGE_LAYOUT_GENERAL, b.handle, 1, [a.region(0, a.height)])
            elif isinstance(b, Image):
                vk.vkCmdCopyBufferToImage(self.commands, a.handle, b.handle, vk.VK_IMAGE_LAYOUT_GENERAL, 1, [b.region(0, b.height)])
            else:
                vk.vkCmdCopyBuffer(self.commands, a.handle, b.handle, 1, [vk.VkBufferCopy(srcOffset=0, dstOffset=0, size=min(a.nbytes, b.nbytes))])
            self.mark(f"copy {source}")

        self._emit(emit)

    def _label(self, name: str) -> None:
        if self.device.instance.debug_utils:
            begin = vk.vkGetInstanceProcAddr(self.device.instance.handle, "vkCmdBeginDebugUtilsLabelEXT")
            begin(self.commands, vk.VkDebugUtilsLabelEXT(pLabelName=name, color=[0, 0, 0, 0]))

    def _end_label(self) -> None:
        if self.device.instance.debug_utils:
            vk.vkGetInstanceProcAddr(self.device.instance.handle, "vkCmdEndDebugUtilsLabelEXT")(self.commands)

    def end(self, shown: bool = True) -> Recorder:
        """shown: the host may look at what was written once this is done; else it takes another command buffer behind this one."""
        self._flush()
        if shown:
            barrier(self.commands, ALL | vk.VK_PIPELINE_STAGE_HOST_BIT)
        vk.vkEndCommandBuffer(self.commands)
        self.device.check_validation()
        return self

    def run_once(self) -> None:
        """Submits what was recorded and ended, and waits for it."""
        complete(self.device, self)

    def stamps(self) -> np.ndarray:
        """Nanoseconds on the device's clock of every mark of the last submission (which must be done)."""
        return self._clock.read() if self._clock else np.zeros(0)

    def times(self) -> dict[str, float]:
        """Milliseconds by pass name of the last submission (which must be done); passes of one name add up."""
        return self._clock.times() if self._clock else {}

    def fragments(self) -> dict[str, int]:
        """Fragment shader invocations by draw, helper lanes included where the driver counts them; empty where it cannot count."""
        return self._invocations.read() if self._invocations else {}

    def destroy(self) -> None:
        self._sets.destroy()
        for framebuffer in self._framebuffers:
            vk.vkDestroyFramebuffer(self.device.handle, framebuffer, None)
        for queries in (self._clock, self._invocations):
            if queries:
                queries.destroy()
        vk.vkFreeCommandBuffers(self.device.handle, pool(self.device), 1, [self.commands])


class Recordings:
    """Recorders of the same resources, which go together."""

    def __init__(self, device: Device, resources: Mapping[str, Buffer | Image]):
        self.device, self.resources = device, resources
        self._recorders: list[Recorder] = []

    def __call__(self, commands: Callable[[Recorder], object], timed: bool = False, shown: bool = True) -> Recorder:
        """What `commands` records, ended. shown: see Recorder.end."""
        self._recorders.append(recorder := Recorder(self.device, self.resources, timed))
        commands(recorder)
        return recorder.end(shown)

    def destroy(self) -> None:
        for recorder in self._recorders:
            recorder.destroy()
        self._recorders.clear()
