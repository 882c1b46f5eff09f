"""Features and limits that devices may have, as rows."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import NamedTuple

import vulkan as vk


def bits(pattern: str, *names: str) -> int:
    """Several bits of a Vulkan enumeration: those whose constants have these names in the
    pattern."""
    return functools.reduce(operator.or_, (getattr(vk, pattern.format(name)) for name in names))


class Origin(NamedTuple):
    """Where features come from: an extension (None: core), its feature struct and the sType (None:
    the extension alone suffices)."""

    extension: str | None
    struct: str | None = None
    stype: int | None = None


@dataclass(frozen=True)
class DeviceFeature:
    """One capability: its origin, and its bit in the struct."""

    name: str
    origin: Origin
    bit: str | None = None
    required: bool = False


_STYPE = "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_"


def _struct(extension: str | None, name: str, stype: int | str) -> Origin:
    """stype: its number, or the middle of its name in the package."""
    number: int = stype if isinstance(stype, int) else getattr(vk, f"{_STYPE}{stype}")
    return Origin(extension, f"VkPhysicalDevice{name}", number)


# The `vulkan` package numbers the struct of raster order wrongly (by the EXT; the registry has the
# ARM extension that it was promoted from) and that of subgroup sizes not at all. The structs of
# quad control and reconvergence are newer than the package. They hold one VkBool32 after sType and
# pNext, as ScalarBlockLayoutFeatures does, which stands in for them.
# fmt: off
_ONE_BOOL, _ONE_BIT = "ScalarBlockLayoutFeatures", "scalarBlockLayout"
CORE = _struct(None, "Features2", "FEATURES_2")
_VULKAN12 = _struct(None, "Vulkan12Features", "VULKAN_1_2_FEATURES")
_STORAGE16 = _struct(None, "16BitStorageFeatures", "16BIT_STORAGE_FEATURES")
_INTERLOCK = _struct("VK_EXT_fragment_shader_interlock", "FragmentShaderInterlockFeaturesEXT",
                     "FRAGMENT_SHADER_INTERLOCK_FEATURES_EXT")
_RASTER_ORDER = _struct("VK_EXT_rasterization_order_attachment_access",
                        "RasterizationOrderAttachmentAccessFeaturesEXT", 1000342000)
_ATOMIC_FLOAT = _struct("VK_EXT_shader_atomic_float", "ShaderAtomicFloatFeaturesEXT",
                        "SHADER_ATOMIC_FLOAT_FEATURES_EXT")
_SUBGROUP_SIZE = _struct("VK_EXT_subgroup_size_control", "SubgroupSizeControlFeatures", 1000225002)
_QUAD_CONTROL = _struct("VK_KHR_shader_quad_control", _ONE_BOOL, 1000235000)
_RECONVERGENCE = _struct("VK_KHR_shader_maximal_reconvergence", _ONE_BOOL, 1000434000)
# fmt: on
# VkPhysicalDevice...Properties: their sTypes, of which that of subgroup sizes is not in the package
PROPERTIES = {
    "Driver": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
    "ID": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
    "Maintenance3": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
    "Subgroup": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
    "SubgroupSizeControl": 1000225000,
}

FEATURES: tuple[DeviceFeature, ...] = (
    DeviceFeature("push_descriptor", Origin("VK_KHR_push_descriptor")),
    DeviceFeature("scalar_layout", _VULKAN12, "scalarBlockLayout", required=True),
    DeviceFeature("device_address", _VULKAN12, "bufferDeviceAddress", required=True),
    DeviceFeature("fragment_stores", CORE, "fragmentStoresAndAtomics", required=True),
    DeviceFeature(
        "store_without_format", CORE, "shaderStorageImageWriteWithoutFormat", required=True
    ),
    DeviceFeature("extended_formats", CORE, "shaderStorageImageExtendedFormats"),
    DeviceFeature("statistics", CORE, "pipelineStatisticsQuery"),
    DeviceFeature("storage_16bit", _STORAGE16, "storageBuffer16BitAccess"),
    DeviceFeature("interlock", _INTERLOCK, "fragmentShaderPixelInterlock"),
    DeviceFeature("raster_order", _RASTER_ORDER, "rasterizationOrderColorAttachmentAccess"),
    DeviceFeature("float_atomics", _ATOMIC_FLOAT, "shaderBufferFloat32AtomicAdd"),
    DeviceFeature("quad_control", _QUAD_CONTROL, _ONE_BIT),
    DeviceFeature("maximal_reconvergence", _RECONVERGENCE, _ONE_BIT),
    DeviceFeature("geometry_shader", CORE, "geometryShader"),
    DeviceFeature("fill_rectangle", Origin("VK_NV_fill_rectangle")),
    DeviceFeature("full_subgroups", _SUBGROUP_SIZE, "computeFullSubgroups"),
    DeviceFeature("subgroup_sizes", _SUBGROUP_SIZE, "subgroupSizeControl"),
    DeviceFeature("memory_fd", Origin("VK_KHR_external_memory_fd")),  # memory for other APIs
    DeviceFeature("semaphore_fd", Origin("VK_KHR_external_semaphore_fd")),
    DeviceFeature("memory_budget", Origin("VK_EXT_memory_budget")),
    DeviceFeature("swapchain", Origin("VK_KHR_swapchain")),  # with a window only, see Device
    # must be enabled where offered (MoltenVK)
    DeviceFeature("portability_subset", Origin("VK_KHR_portability_subset")),
)

# Limits that Vulkan does not promise of every device: capability -> (field of
# VkPhysicalDeviceLimits, what our shaders take, what takes it).
_BUFFERS = "maxPerStageDescriptorStorageBuffers"
LIMITS = {
    "shared_memory": ("maxComputeSharedMemorySize", 22 << 10, "bytes, for the image loss"),
    "workgroup_threads": ("maxComputeWorkGroupInvocations", 256, "threads a workgroup"),
    "storage_buffers": (_BUFFERS, 11, "buffers a stage"),
    "perturbing_buffers": (_BUFFERS, 13, "buffers a stage, for perturbing splats"),
}
# the other limits are those of training, and of some of its gradients
REQUIRED = (*(f.name for f in FEATURES if f.required), "workgroup_threads", "storage_buffers")
