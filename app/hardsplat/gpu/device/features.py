"""Features and limits that devices may have, as rows."""

from __future__ import annotations

from dataclasses import dataclass

import vulkan as vk

# The structs of these two extensions are newer than the `vulkan` package. Both hold one VkBool32
# after sType and pNext, and so does VkPhysicalDeviceScalarBlockLayoutFeatures, which stands in for
# them under their own sType.
_QUAD_CONTROL_FEATURES = 1000235000
_MAXIMAL_RECONVERGENCE_FEATURES = 1000434000

# The package's own constant for this one is wrong (it numbers it by the EXT, the registry by the
# ARM extension it was promoted from).
_RASTER_ORDER_FEATURES = 1000342000
_SUBGROUP_SIZE_PROPERTIES, _SUBGROUP_SIZE_FEATURES = 1000225000, 1000225002  # None in the package
_ONE_BOOL, _ONE_BOOL_FIELD = "VkPhysicalDeviceScalarBlockLayoutFeatures", "scalarBlockLayout"


@dataclass(frozen=True)
class Feature:
    """One capability: `extension` (None: core), the feature struct and the bit in it (None: the
    extension alone suffices)."""

    name: str
    extension: str | None = None
    struct: str | None = None
    stype: int | None = None
    bit: str | None = None
    required: bool = False


FEATURES: tuple[Feature, ...] = (
    Feature("push_descriptor", "VK_KHR_push_descriptor"),
    Feature(
        "scalar_layout",
        None,
        "VkPhysicalDeviceVulkan12Features",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        "scalarBlockLayout",
        True,
    ),
    Feature(
        "device_address",
        None,
        "VkPhysicalDeviceVulkan12Features",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        "bufferDeviceAddress",
        required=True,
    ),
    Feature(
        "fragment_stores", None, "VkPhysicalDeviceFeatures2", None, "fragmentStoresAndAtomics", True
    ),
    Feature(
        "store_without_format",
        None,
        "VkPhysicalDeviceFeatures2",
        None,
        "shaderStorageImageWriteWithoutFormat",
        True,
    ),
    Feature(
        "extended_formats",
        None,
        "VkPhysicalDeviceFeatures2",
        None,
        "shaderStorageImageExtendedFormats",
    ),
    Feature("statistics", None, "VkPhysicalDeviceFeatures2", None, "pipelineStatisticsQuery"),
    Feature(
        "storage_16bit",
        None,
        "VkPhysicalDevice16BitStorageFeatures",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        "storageBuffer16BitAccess",
    ),
    Feature(
        "interlock",
        "VK_EXT_fragment_shader_interlock",
        "VkPhysicalDeviceFragmentShaderInterlockFeaturesEXT",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FRAGMENT_SHADER_INTERLOCK_FEATURES_EXT,
        "fragmentShaderPixelInterlock",
    ),
    Feature(
        "raster_order",
        "VK_EXT_rasterization_order_attachment_access",
        "VkPhysicalDeviceRasterizationOrderAttachmentAccessFeaturesEXT",
        _RASTER_ORDER_FEATURES,
        "rasterizationOrderColorAttachmentAccess",
    ),
    Feature(
        "float_atomics",
        "VK_EXT_shader_atomic_float",
        "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
        "shaderBufferFloat32AtomicAdd",
    ),
    Feature(
        "quad_control",
        "VK_KHR_shader_quad_control",
        _ONE_BOOL,
        _QUAD_CONTROL_FEATURES,
        _ONE_BOOL_FIELD,
    ),
    Feature(
        "maximal_reconvergence",
        "VK_KHR_shader_maximal_reconvergence",
        _ONE_BOOL,
        _MAXIMAL_RECONVERGENCE_FEATURES,
        _ONE_BOOL_FIELD,
    ),
    Feature("geometry_shader", None, "VkPhysicalDeviceFeatures2", None, "geometryShader"),
    Feature("fill_rectangle", "VK_NV_fill_rectangle"),
    Feature(
        "full_subgroups",
        "VK_EXT_subgroup_size_control",
        "VkPhysicalDeviceSubgroupSizeControlFeatures",
        _SUBGROUP_SIZE_FEATURES,
        "computeFullSubgroups",
    ),
    Feature(
        "subgroup_sizes",
        "VK_EXT_subgroup_size_control",
        "VkPhysicalDeviceSubgroupSizeControlFeatures",
        _SUBGROUP_SIZE_FEATURES,
        "subgroupSizeControl",
    ),
    Feature("memory_fd", "VK_KHR_external_memory_fd"),  # memory and semaphores for other APIs
    Feature("semaphore_fd", "VK_KHR_external_semaphore_fd"),
    Feature("memory_budget", "VK_EXT_memory_budget"),
    Feature("swapchain", "VK_KHR_swapchain"),  # with a window only, see Device
    Feature(
        "portability_subset", "VK_KHR_portability_subset"
    ),  # must be enabled where offered (MoltenVK)
)

# Limits that Vulkan does not promise of every device: capability -> (field of
# VkPhysicalDeviceLimits, what our shaders take, what takes it).
LIMITS = {
    "shared_memory": ("maxComputeSharedMemorySize", 22 << 10, "bytes, for the image loss"),
    "workgroup_threads": ("maxComputeWorkGroupInvocations", 256, "threads a workgroup"),
    "storage_buffers": ("maxPerStageDescriptorStorageBuffers", 10, "buffers a stage"),
    "gathering_buffers": (
        "maxPerStageDescriptorStorageBuffers",
        11,
        "buffers a stage, for gradients of tiles by pair",
    ),
    "perturbing_buffers": (
        "maxPerStageDescriptorStorageBuffers",
        13,
        "buffers a stage, for perturbing splats",
    ),
}
REQUIRED = (
    *(f.name for f in FEATURES if f.required),
    "workgroup_threads",
    "storage_buffers",
)  # the other limits are those of training, and of some of its gradients
