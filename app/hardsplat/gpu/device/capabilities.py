"""What a device can do: features by name, from extensions and feature bits. The probe (probe.py)
may take some away again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import vulkan as vk

from hardsplat.gpu.device.features import CORE, FEATURES, LIMITS, PROPERTIES, DeviceFeature, bits

# Subgroup operations are limits, not features: name -> the bits that fragment shaders must support.
_ARITHMETIC = bits("VK_SUBGROUP_FEATURE_{}_BIT", "ARITHMETIC", "BALLOT", "VOTE")
_SUBGROUP = {"subgroup_quad": vk.VK_SUBGROUP_FEATURE_QUAD_BIT, "subgroup_arithmetic": _ARITHMETIC}
# What tiles take of compute shaders.
_TILES = _ARITHMETIC | bits("VK_SUBGROUP_FEATURE_{}_BIT", "SHUFFLE", "SHUFFLE_RELATIVE")
_TILE_LANES = (4, 8, 16, 32, 64, 128)

# What Vulkan does not promise of every device about image formats: name -> (VkFormat, features that
# its images must have).
_BLENDED = vk.VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT
_STORED = bits("VK_FORMAT_FEATURE_{}_IMAGE_BIT", "STORAGE", "SAMPLED")
_FORMATS = {
    "unorm16_images": (vk.VK_FORMAT_R16G16B16A16_UNORM, _BLENDED | _STORED),
    "float32_blend": (vk.VK_FORMAT_R32G32B32A32_SFLOAT, _BLENDED),
}


@dataclass
class Capabilities:
    names: set[str]
    why_not: dict[str, str] = field(default_factory=dict)  # capability -> what is missing, in words

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def missing(self, needs) -> list[str]:
        return [self.why_not.get(n, n) for n in needs if n not in self.names]

    def withdraw(self, name: str, why: str) -> None:
        self.names.discard(name)
        self.why_not[name] = why

    def note(self, name: str, there: bool, missing: str) -> None:
        """Adds a capability, or what it lacks."""
        if there:
            self.names.add(name)
        else:
            self.why_not[name] = missing


class _Chain:
    """A VkPhysicalDeviceFeatures2, `head`, with every struct of some features behind it."""

    def __init__(self, features: list[DeviceFeature]):
        self.head = vk.ffi.new("VkPhysicalDeviceFeatures2*", {"sType": CORE.stype})
        self._structs: dict[object, Any] = {CORE: self.head.features}
        for origin in dict.fromkeys(f.origin for f in features if f.origin.struct):
            if origin != CORE:
                made = vk.ffi.new(f"{origin.struct}*")
                made.sType, made.pNext = origin.stype, self.head.pNext
                self._structs[origin], self.head.pNext = made, made

    def __getitem__(self, feature: DeviceFeature) -> Any:
        """The struct that has the feature's bit."""
        return self._structs[feature.origin]


def query(physical) -> Capabilities:
    offered = {e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(physical, None)}
    candidates = [f for f in FEATURES if f.origin.extension in (None, *offered)]
    chain = _Chain(candidates)
    vk.lib.vkGetPhysicalDeviceFeatures2(physical, chain.head)
    caps = Capabilities(set())
    for f in FEATURES:
        extension = f.origin.extension
        if f not in candidates:
            caps.why_not[f.name] = str(extension)
        else:
            there = f.bit is None or bool(getattr(chain[f], f.bit))
            caps.note(f.name, there, f"{extension or 'core'} feature {f.bit}")

    core, subgroup = properties(physical, "Subgroup")
    on_cpu = core.deviceType == vk.VK_PHYSICAL_DEVICE_TYPE_CPU
    why = "a rasterizer that draws one primitive after another, as one on a CPU may"
    caps.note("sequential", on_cpu, why)  # until the probe reports otherwise

    # sums of floats by compare and swap, and by any atomics: until the probe reports otherwise
    caps.names |= {"swap_atomics", "float_sums"}

    for name, (limit, wanted, what) in LIMITS.items():
        has = getattr(core.limits, limit)
        caps.note(name, has >= wanted, f"{limit} of {wanted} {what} (it has {has})")

    def operates(stage: int, wanted: int) -> bool:
        return subgroup.supportedStages & stage and subgroup.supportedOperations & wanted == wanted

    for name, operations in _SUBGROUP.items():
        there = operates(vk.VK_SHADER_STAGE_FRAGMENT_BIT, operations)
        caps.note(name, there, f"{name.replace('_', ' ')} operations in fragment shaders")
    there = operates(vk.VK_SHADER_STAGE_COMPUTE_BIT, _TILES)
    sizes = f"subgroups of {_TILE_LANES[0]} to {_TILE_LANES[-1]}"
    why = f"{sizes} with arithmetic and shuffle operations in compute shaders"
    caps.note("subgroup_tiles", there and subgroup.subgroupSize in _TILE_LANES, why)
    for name, (image_format, wanted) in _FORMATS.items():
        found = vk.vkGetPhysicalDeviceFormatProperties(physical, image_format).optimalTilingFeatures
        caps.note(name, found & wanted == wanted, f"{name.replace('_', ' ')} (format features)")
    return caps


def properties(physical, kind: str) -> tuple[Any, Any]:
    """The VkPhysicalDeviceProperties, and the VkPhysicalDevice`kind`Properties behind them, a row
    of PROPERTIES."""
    more = vk.ffi.new(f"VkPhysicalDevice{kind}Properties*", {"sType": PROPERTIES[kind]})
    stype = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    head = vk.ffi.new("VkPhysicalDeviceProperties2*", {"sType": stype, "pNext": more})
    vk.lib.vkGetPhysicalDeviceProperties2(physical, head)
    core = vk.ffi.new("VkPhysicalDeviceProperties*", head.properties)  # a copy: `head` ends here
    return core, more


def uuid(physical) -> bytes:
    """The 16 bytes by which all drivers know this device."""
    return bytes(vk.ffi.buffer(properties(physical, "ID")[1].deviceUUID))


def subgroup_sizes(physical, caps: Capabilities) -> tuple[int, ...]:
    """The sizes that a compute shader's subgroups can be made to have, ascending."""
    usual = properties(physical, "Subgroup")[1].subgroupSize
    if "subgroup_sizes" not in caps:
        return (usual,)
    limits = properties(physical, "SubgroupSizeControl")[1]
    if not limits.requiredSubgroupSizeStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
        return (usual,)
    powers = (1 << i for i in range(8))
    return tuple(n for n in powers if limits.minSubgroupSize <= n <= limits.maxSubgroupSize)


def enable(caps: Capabilities) -> tuple[_Chain, list[str]]:
    """For vkCreateDevice: the feature chain, which must live until it returns, and the
    extensions."""
    chosen = [f for f in FEATURES if f.name in caps]
    chain = _Chain(chosen)
    for f in chosen:
        if f.bit is not None:
            setattr(chain[f], f.bit, 1)
    return chain, list(dict.fromkeys(f.origin.extension for f in chosen if f.origin.extension))
