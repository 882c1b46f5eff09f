"""What a device can do: features by name, from extensions and feature bits. The probe (probe.py)
may take some away again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import vulkan as vk

from hardsplat.gpu.device.features import _SUBGROUP_SIZE_PROPERTIES, FEATURES, LIMITS

# Subgroup operations are limits, not features: name -> the bits that fragment shaders must support.
_SUBGROUP = {
    "subgroup_quad": vk.VK_SUBGROUP_FEATURE_QUAD_BIT,
    "subgroup_arithmetic": vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT
    | vk.VK_SUBGROUP_FEATURE_BALLOT_BIT
    | vk.VK_SUBGROUP_FEATURE_VOTE_BIT,
}
# What tiles take of compute shaders.
_TILES = (
    _SUBGROUP["subgroup_arithmetic"]
    | vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
    | vk.VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT
)
_TILE_LANES = (8, 16, 32, 64)

# What Vulkan does not promise of every device about image formats: name -> (VkFormat, features that
# its images must have).
_FORMATS = {
    "unorm16_images": (
        vk.VK_FORMAT_R16G16B16A16_UNORM,
        vk.VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT
        | vk.VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT
        | vk.VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT,
    ),
    "float32_blend": (
        vk.VK_FORMAT_R32G32B32A32_SFLOAT,
        vk.VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT,
    ),
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


def _chain(features) -> tuple[object, dict[str, object], list]:
    """A VkPhysicalDeviceFeatures2 with every struct of `features` behind it, and the structs by
    feature name."""
    structs: dict[tuple, object] = {}
    by_feature: dict[str, object] = {}
    previous = None
    for f in features:
        if f.struct is None or f.struct == "VkPhysicalDeviceFeatures2":
            continue
        if (f.struct, f.stype) not in structs:
            struct = vk.ffi.new(f"{f.struct}*")
            struct.sType = f.stype
            struct.pNext = previous if previous is not None else vk.ffi.NULL
            previous = vk.ffi.cast("void*", struct)
            structs[(f.struct, f.stype)] = struct
        by_feature[f.name] = structs[(f.struct, f.stype)]
    head = vk.ffi.new("VkPhysicalDeviceFeatures2*")
    head.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
    head.pNext = previous if previous is not None else vk.ffi.NULL
    for f in features:
        if f.struct == "VkPhysicalDeviceFeatures2":
            by_feature[f.name] = head.features
    return head, by_feature, list(structs.values())


def query(physical) -> Capabilities:
    offered = {e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(physical, None)}
    candidates = [f for f in FEATURES if f.extension is None or f.extension in offered]
    head, structs, _keep = _chain(candidates)
    vk.lib.vkGetPhysicalDeviceFeatures2(physical, head)
    caps = Capabilities(set())
    for f in FEATURES:
        if f.extension is not None and f.extension not in offered:
            caps.why_not[f.name] = f.extension
        elif f.bit is None or getattr(structs[f.name], f.bit):
            caps.names.add(f.name)
        else:
            caps.why_not[f.name] = f"{f.extension or 'core'} feature {f.bit}"

    properties = vk.vkGetPhysicalDeviceProperties(physical)
    if properties.deviceType == vk.VK_PHYSICAL_DEVICE_TYPE_CPU:
        caps.names.add("sequential")  # until the probe says otherwise
    else:
        caps.why_not["sequential"] = (
            "a rasterizer that draws one primitive after another, as one on a CPU may"
        )

    limits = properties.limits
    for name, (limit, wanted, what) in LIMITS.items():
        if getattr(limits, limit) >= wanted:
            caps.names.add(name)
        else:
            caps.why_not[name] = f"{limit} of {wanted} {what} (it has {getattr(limits, limit)})"

    subgroup = subgroup_properties(physical)
    for name, bits in _SUBGROUP.items():
        if not (
            subgroup.supportedStages & vk.VK_SHADER_STAGE_FRAGMENT_BIT
            and subgroup.supportedOperations & bits == bits
        ):
            caps.why_not[name] = f"{name.replace('_', ' ')} operations in fragment shaders"
        else:
            caps.names.add(name)
    if (
        subgroup.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
        and subgroup.supportedOperations & _TILES == _TILES
        and subgroup.subgroupSize in _TILE_LANES
    ):
        caps.names.add("subgroup_tiles")
    else:
        caps.why_not["subgroup_tiles"] = (
            f"subgroups of {_TILE_LANES[0]} to {_TILE_LANES[-1]} with arithmetic and "
            "shuffle operations in compute shaders"
        )
    for name, (image_format, bits) in _FORMATS.items():
        if (
            vk.vkGetPhysicalDeviceFormatProperties(physical, image_format).optimalTilingFeatures
            & bits
            == bits
        ):
            caps.names.add(name)
        else:
            caps.why_not[name] = f"{name.replace('_', ' ')} (format features)"
    return caps


def properties(physical, struct: str, stype: int) -> tuple[Any, Any]:
    """The VkPhysicalDeviceProperties, and one of the structs behind them."""
    more = vk.ffi.new(f"{struct}*")
    more.sType = stype
    head = vk.ffi.new("VkPhysicalDeviceProperties2*")
    head.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    head.pNext = more
    vk.lib.vkGetPhysicalDeviceProperties2(physical, head)
    core = vk.ffi.new("VkPhysicalDeviceProperties*", head.properties)  # a copy: `head` ends here
    return core, more


def uuid(physical) -> bytes:
    """The 16 bytes by which all drivers know this device."""
    found = properties(
        physical, "VkPhysicalDeviceIDProperties", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES
    )[1]
    return bytes(vk.ffi.buffer(found.deviceUUID))


def subgroup_properties(physical):
    return properties(
        physical,
        "VkPhysicalDeviceSubgroupProperties",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
    )[1]


def subgroup_sizes(physical, caps: Capabilities) -> tuple[int, ...]:
    """The sizes that a compute shader's subgroups can be made to have, ascending."""
    usual = subgroup_properties(physical).subgroupSize
    if "subgroup_sizes" not in caps:
        return (usual,)
    limits = properties(
        physical, "VkPhysicalDeviceSubgroupSizeControlProperties", _SUBGROUP_SIZE_PROPERTIES
    )[1]
    if not limits.requiredSubgroupSizeStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
        return (usual,)
    powers = (1 << i for i in range(8))
    return tuple(n for n in powers if limits.minSubgroupSize <= n <= limits.maxSubgroupSize)


def enable(caps: Capabilities) -> tuple[object, list[str], list]:
    """For vkCreateDevice: the feature chain, the extensions, and what must be kept alive until it
    returns."""
    chosen = [f for f in FEATURES if f.name in caps]
    head, structs, keep = _chain(chosen)
    for f in chosen:
        if f.bit is not None:
            setattr(structs[f.name], f.bit, 1)
    return head, list(dict.fromkeys(f.extension for f in chosen if f.extension)), keep
