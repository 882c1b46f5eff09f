"""Command buffers: passes with their barriers, debug labels, a timestamp after every pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from functools import cache, partial
from typing import Any

import numpy as np
import vulkan as vk

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.queue import (
    ALL,
    Invocations,
    Timestamps,
    barrier,
    begin,
    complete,
    compute_barrier,
    free,
)
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image, record_blit
from hardsplat.gpu.memory.resources import copy_between, overlaps
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.passes.descriptors import DescriptorSets, descriptor_writes
from hardsplat.gpu.passes.graphics import clear_values, framebuffer_of

SCHEDULES = ("declared", "serial", "reversed")


def schedule() -> str:
    """HARDSPLAT_SCHEDULE: the order of passes between which the declarations need no barrier.

    It tests the declarations, which no validation layer can check where shaders reach memory by
    address. declared: as they were recorded, for the device to run at once. serial: one after the
    other. reversed: one after the other, the last first; passes that depend on each other and do
    not declare it then change the result.
    """
    wanted = os.environ.get("HARDSPLAT_SCHEDULE") or "declared"
    if wanted not in SCHEDULES:
        raise UserError(f"HARDSPLAT_SCHEDULE is {wanted}: choose {', '.join(SCHEDULES)}")
    return wanted


class Barriers:
    """Records a barrier before a pass that touches what one wrote, or writes what one read.

    Between compute passes it is one of theirs alone, and it holds back the reading of work sizes
    only where those were written. overlaps: names whose bytes are in part those of others, which a
    pass that writes the one writes too.
    """

    def __init__(self, commands, overlaps: Mapping[str, Set[str]] = {}):
        self._commands, self._schedule, self._overlaps = commands, schedule(), overlaps
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._disjoint: set[str] = set()  # of _written: passes write separate parts of these
        # written and read before a barrier of compute passes, and made visible to no other pass
        self._not_visible: tuple[set[str], set[str]] = set(), set()
        self._computes = True  # all passes since the last barrier for everything
        self._resized = False  # work sizes were written that no barrier has made visible
        self._group: list[Callable[[], None]] = []  # recorded later, in reverse

    def order(
        self,
        reads: set[str],
        writes: set[str],
        computes: bool = False,
        commanded: bool = False,
        disjoint: Set[str] = frozenset(),
    ) -> None:
        """Records a barrier if these accesses clash with those since the last one.

        computes: they are a compute pass's. commanded: its work sizes are in `indirect`. disjoint:
        of `writes`, what passes write parts of that no other pass touches which declares it too.
        """
        writes = writes.union(*(self._overlaps.get(name, ()) for name in writes))
        shared = disjoint & self._disjoint
        clashes = reads & self._written or writes & (self._written - shared) or writes & self._read
        written, read = self._not_visible
        hidden = () if computes else (reads | writes) & written or writes & read
        if clashes or hidden or (commanded and self._resized):
            self.flush()
            if self._computes and computes:
                sizes = self._resized and commanded
                compute_barrier(self._commands, sizes or "indirect" in writes)
                self._resized = self._resized and not sizes
                written |= self._written
                read |= self._read
            else:
                barrier(self._commands)
                self._computes, self._resized = True, False
                written.clear()
                read.clear()
            self._written.clear()
            self._read.clear()
            self._disjoint.clear()
        self._disjoint = (self._disjoint | (disjoint - self._written)) - (writes - disjoint)
        self._written |= writes
        self._read |= reads
        self._computes = self._computes and computes
        self._resized = self._resized or "indirect" in writes

    def emit(self, emit: Callable[[], None]) -> None:
        """Records something now, or with everything else that stands between two barriers."""
        if self._schedule == "reversed":
            self._group.append(emit)
            return
        if self._schedule == "serial":
            barrier(self._commands)
        emit()

    def flush(self) -> None:
        """Records what was held back."""
        for emit in reversed(self._group):
            barrier(self._commands)
            emit()
        self._group.clear()


_COMPUTES = vk.VK_PIPELINE_BIND_POINT_COMPUTE


class Recorder:
    """Records passes once; the result is submitted as often as wanted.

    resources: buffers and images by name. timed: write a timestamp after every pass (`times()`
    reads them). counted: count the fragment shader invocations of every draw (`fragments()` reads
    them).
    """

    def __init__(
        self,
        device: Device,
        resources: Mapping[str, Buffer | Image],
        timed: bool = False,
        counted: bool = False,
    ):
        self.device, self.resources = device, resources
        flags = vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
        self.commands = begin(device, usage=flags)
        self._framebuffers: list = []
        self._sets = DescriptorSets(device)
        self._barriers = Barriers(self.commands, overlaps(resources))
        self._beside: dict[str, Callable[[Recorder], None]] = {}
        counted = counted and "statistics" in device.capabilities
        self._clock = Timestamps(device, self.commands) if timed and device.timestamp_ns else None
        self._invocations = Invocations(device, self.commands) if counted else None
        self.mark("start")

    def mark(self, name: str) -> None:
        """A timestamp when everything before is done."""
        if self._clock:
            self._clock.mark(name)

    def run(
        self,
        pipeline: Pipeline,
        threads: tuple[int, ...] = (),
        indirect: str | None = None,
        extent: tuple[int, int] | None = None,
        groups: tuple[int, int, int] | None = None,
    ) -> None:
        """A dispatch of `threads` (x, y, z), of workgroups, or of the `indirect` command of the
        contract; a draw of the `indirect` command, or of threads[0] vertices, over `extent` px."""
        owner, computes = pipeline.owner, isinstance(pipeline.owner, ComputePass)
        sizes = owner.bind.get("indirect", "indirect")
        reads = pipeline.reads | ({sizes} if indirect else set())
        commanded = indirect is not None
        self._barriers.order(reads, pipeline.writes, computes, commanded, pipeline.disjoint)
        if record := self._beside.pop(owner.name, None):
            record(self)

        def emit() -> None:
            self._label(owner.name)
            point = _COMPUTES if computes else vk.VK_PIPELINE_BIND_POINT_GRAPHICS
            vk.vkCmdBindPipeline(self.commands, point, pipeline.handle)
            self._push(pipeline, point)
            if isinstance(owner, ComputePass):
                self._dispatch(pipeline, threads, indirect, groups)
            else:
                self._draw(pipeline, owner, threads, indirect, extent)
            self._end_label()
            self.mark(owner.name)

        self._barriers.emit(emit)

    def beside(self, name: str, record: Callable[[Recorder], None]) -> None:
        """Records something to run beside the next pass of that name, before which no other pass
        waits for it. It touches nothing that the pass writes."""
        self._beside[name] = record

    def end_beside(self) -> None:
        """Records now what waits for a pass that has not come."""
        waiting, self._beside = list(self._beside.values()), {}
        for record in waiting:
            record(self)

    def _push(self, pipeline: Pipeline, point: int) -> None:
        if not pipeline.descriptors:
            return  # Vulkan refuses to push nothing
        writes, keep = descriptor_writes(pipeline, self.resources)
        if "push_descriptor" in self.device.capabilities:
            push = self.device.proc("vkCmdPushDescriptorSetKHR")
            push(self.commands, point, pipeline.layout, 0, len(writes), writes)
        else:
            self._sets.bind(self.commands, point, pipeline, writes)
        # children of list items must outlive the call: the package keeps only the list itself
        del keep

    def _dispatch(
        self,
        pipeline: Pipeline,
        threads: tuple[int, ...],
        indirect: str | None,
        groups: tuple[int, int, int] | None,
    ) -> None:
        if indirect is not None:
            sizes = pipeline.owner.bind.get("indirect", "indirect")
            buffer, offset = self.resources[sizes], contract.indirect_offset(indirect)
            vk.vkCmdDispatchIndirect(self.commands, buffer.handle, offset)
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

    def _draw(
        self,
        pipeline: Pipeline,
        owner: DrawPass,
        threads: tuple[int, ...],
        indirect: str | None,
        extent: tuple[int, int] | None,
    ) -> None:
        image, depth = self._image(owner.attachment), None
        if owner.depth:
            depth = self._image(owner.bind.get(owner.depth.image, owner.depth.image))
        if extent is None:
            if image is None:
                raise ValueError(f"pass {owner.name} has no attachment, whose size a draw has")
            extent = image.width, image.height
        framebuffer = framebuffer_of(self.device, pipeline, image, depth, extent)
        self._framebuffers.append(framebuffer)
        width, height = extent
        area = vk.VkRect2D(vk.VkOffset2D(0, 0), vk.VkExtent2D(width, height))
        clear, clears = clear_values(owner)
        begin = vk.VkRenderPassBeginInfo(
            renderPass=pipeline.render_pass,
            framebuffer=framebuffer,
            renderArea=area,
            clearValueCount=clears,
            pClearValues=clear if clears else None,
        )
        if self._invocations:
            self._invocations.begin(owner.name)
        vk.vkCmdBeginRenderPass(self.commands, begin, vk.VK_SUBPASS_CONTENTS_INLINE)
        vk.vkCmdSetViewport(self.commands, 0, 1, [vk.VkViewport(0, 0, width, height, 0, 1)])
        vk.vkCmdSetScissor(self.commands, 0, 1, [area])
        if indirect is not None:
            buffer, offset = self.resources["indirect"], contract.indirect_offset(indirect)
            vk.vkCmdDrawIndirect(self.commands, buffer.handle, offset, 1, 0)
        else:
            vk.vkCmdDraw(self.commands, threads[0], 1, 0, 0)
        vk.vkCmdEndRenderPass(self.commands)
        if self._invocations:
            self._invocations.end()

    def fill(self, name: str) -> None:
        """Every byte of a buffer := 0."""
        buffer = self.resources[name]
        fill = partial(vk.vkCmdFillBuffer, self.commands, buffer.handle, 0, buffer.nbytes, 0)
        self._move(f"fill {name}", set(), {name}, fill)

    def spoil(self, name: str, target: Buffer | Image, value: float) -> None:
        """Every float32 of a buffer, or channel of a colour image, := value."""
        commands, handle, general = self.commands, target.handle, vk.VK_IMAGE_LAYOUT_GENERAL
        if isinstance(target, Buffer):
            word = int(np.float32(value).view(np.uint32))
            fill = partial(vk.vkCmdFillBuffer, commands, handle, 0, target.nbytes, word)
        else:
            color, parts = vk.ffi.new("VkClearColorValue*", [[value] * 4]), [target.range]
            fill = partial(vk.vkCmdClearColorImage, commands, handle, general, color, 1, parts)
        self._move(f"spoil {name}", set(), {name}, fill)

    def copy(self, source: str, target: str) -> None:
        """A buffer into another one, which may be smaller, or all of an image into a buffer or
        back, row by row."""
        a, b = self.resources[source], self.resources[target]
        copy = partial(copy_between, self.commands, a, b)
        self._move(f"copy {source}", {source}, {target}, copy)

    def stretch(
        self, source: str, target: str, size: tuple[int, int], place: tuple[int, int]
    ) -> None:
        """The upper left `size` px of an image over the upper left `place` px of another one,
        smoothly where they differ."""
        a, b, general = self.resources[source], self.resources[target], vk.VK_IMAGE_LAYOUT_GENERAL
        both = a.handle, general, b.handle, general
        copy = partial(record_blit, self.commands, *both, size, place)
        self._move(f"copy {source}", {source}, {target}, copy)

    def _move(
        self, name: str, reads: set[str], writes: set[str], record: Callable[[], object]
    ) -> None:
        """Records a transfer of that name in the table of times."""
        self._barriers.order(reads, writes)

        def emit() -> None:
            record()
            self.mark(name)

        self._barriers.emit(emit)

    def _label(self, name: str) -> None:
        if (instance := self.device.instance).debug_utils:
            instance.proc("vkCmdBeginDebugUtilsLabelEXT")(self.commands, _label_of(name))

    def _end_label(self) -> None:
        if (instance := self.device.instance).debug_utils:
            instance.proc("vkCmdEndDebugUtilsLabelEXT")(self.commands)

    def end(self, for_host: bool = True) -> Recorder:
        """for_host: the host may look at what was written once this is done; else it takes another
        command buffer behind this one."""
        self._barriers.flush()
        if for_host:
            barrier(self.commands, ALL | vk.VK_PIPELINE_STAGE_HOST_BIT)
        vk.vkEndCommandBuffer(self.commands)
        self.device.check_validation()
        return self

    def run_once(self) -> None:
        """Submits what was recorded and ended, and waits for it."""
        complete(self.device, self)

    def stamps(self) -> np.ndarray:
        """Nanoseconds on the device's clock of every mark of the last submission (which must be
        done)."""
        return self._clock.read() if self._clock else np.zeros(0)

    def times(self) -> dict[str, float]:
        """Milliseconds by pass name of the last submission (which must be done); passes of one name
        add up."""
        return self._clock.times() if self._clock else {}

    def fragments(self) -> dict[str, int]:
        """Fragment shader invocations by draw, helper lanes included where the driver counts them;
        empty where it cannot count."""
        return self._invocations.read() if self._invocations else {}

    def destroy(self) -> None:
        self._sets.destroy()
        for framebuffer in self._framebuffers:
            self.device.destroy("Framebuffer", framebuffer)
        for queries in (self._clock, self._invocations):
            if queries:
                queries.destroy()
        free(self.device, self.commands)


@cache  # the package takes as long to make one as to record a pass
def _label_of(name: str) -> Any:
    return vk.VkDebugUtilsLabelEXT(pLabelName=name, color=[0, 0, 0, 0])


class Recordings:
    """Recorders of the same resources, which go together."""

    def __init__(self, device: Device, resources: Mapping[str, Buffer | Image]):
        self.device, self.resources = device, resources
        self._recorders: list[Recorder] = []

    def __call__(
        self, commands: Callable[[Recorder], object], timed: bool = False, for_host: bool = True
    ) -> Recorder:
        """What `commands` records, ended. for_host: see Recorder.end."""
        self._recorders.append(recorder := Recorder(self.device, self.resources, timed))
        commands(recorder)
        return recorder.end(for_host)

    def destroy(self) -> None:
        for recorder in self._recorders:
            recorder.destroy()
        self._recorders.clear()
