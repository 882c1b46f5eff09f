"""The descriptors of a pass, and sets of them for devices without VK_KHR_push_descriptor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import vulkan as vk

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import Pipeline

KINDS = {  # by the kinds of hardsplat.gpu.passes.reflect
    "buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    "uniform": vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
    "sampled": vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE,
    "storage": vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
    "input": vk.VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT,
}
_SETS = 64  # of a pool
_BINDINGS = 16  # of every kind, for a set; one with more of a kind leaves fewer sets to its pool


def descriptor_writes(
    pipeline: Pipeline, resources: Mapping[str, Buffer | Image]
) -> tuple[list, list]:
    """(VkWriteDescriptorSet of every descriptor of a pass, what must outlive their use)."""
    writes, keep = [], []
    for binding, kind, name in pipeline.descriptors:
        resource = resources.get(name)
        if resource is None:
            given = f"which was not given; given: {sorted(resources)}"
            raise KeyError(f"pass {pipeline.owner.name} needs {name}, {given}")
        info: object
        if isinstance(resource, Buffer):
            of, handle = "pBufferInfo", resource.handle
            if handle is None:
                raise RuntimeError(f"pass {pipeline.owner.name}: {name} was freed")
            info = vk.VkDescriptorBufferInfo(buffer=handle, offset=0, range=resource.nbytes)
        else:
            of, layout = "pImageInfo", vk.VK_IMAGE_LAYOUT_GENERAL
            info = vk.VkDescriptorImageInfo(imageView=resource.view, imageLayout=layout)
        found = [info]
        write = vk.VkWriteDescriptorSet(
            dstBinding=binding, descriptorCount=1, descriptorType=kind, **{of: found}
        )
        writes.append(write)
        keep.append((found, write))
    return writes, keep


class DescriptorSets:
    """The sets of one recording, which live as long as it. A pool is made when the last one is
    full."""

    def __init__(self, device: Device):
        self.device = device
        self._pools: list = []
        self._left: dict[int, int] = {}  # kind -> descriptors that are free in the newest pool
        self._sets_left = 0

    def bind(self, commands, point: int, pipeline: Pipeline, writes: list) -> None:
        """Makes a set that holds `writes` (VkWriteDescriptorSet without a set) and binds it."""
        kinds = Counter(write.descriptorType for write in writes)
        if not self._sets_left or any(self._left.get(kind, 0) < n for kind, n in kinds.items()):
            self._add_pool()
        for kind, n in kinds.items():
            self._left[kind] -= n
        self._sets_left -= 1
        layouts = [pipeline.set_layout]
        info = vk.VkDescriptorSetAllocateInfo(descriptorPool=self._pools[-1], pSetLayouts=layouts)
        (handle,) = vk.vkAllocateDescriptorSets(self.device.handle, info)
        for write in writes:
            write.dstSet = handle
        vk.vkUpdateDescriptorSets(self.device.handle, len(writes), writes, 0, None)
        vk.vkCmdBindDescriptorSets(commands, point, pipeline.layout, 0, 1, [handle], 0, None)

    def _add_pool(self) -> None:
        most = _SETS * _BINDINGS
        sizes = [vk.VkDescriptorPoolSize(kind, most) for kind in KINDS.values()]
        pool = self.device.create("DescriptorPool", maxSets=_SETS, pPoolSizes=sizes)
        self._pools.append(pool)
        self._left, self._sets_left = dict.fromkeys(KINDS.values(), most), _SETS

    def destroy(self) -> None:
        for pool in self._pools:
            self.device.destroy("DescriptorPool", pool)
        self._pools.clear()
