"""The fixed part of a draw: its render pass, framebuffer, and the pipeline around its shaders."""

from __future__ import annotations

import vulkan as vk

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.image import DEPTH_FORMAT, Image
from hardsplat.gpu.passes.declared import DrawPass, Pipeline

# Rasterization-order attachment access (VK_EXT_rasterization_order_attachment_access), absent from
# the package's enums.
_SUBPASS_RASTER_ORDER_COLOR = 0x10
_BLEND_RASTER_ORDER = 0x1
TOPOLOGIES = {
    "triangles": vk.VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST,
    "points": vk.VK_PRIMITIVE_TOPOLOGY_POINT_LIST,
}
_COMPARE = {
    "less": vk.VK_COMPARE_OP_LESS,
    "less or equal": vk.VK_COMPARE_OP_LESS_OR_EQUAL,
    "greater": vk.VK_COMPARE_OP_GREATER,
}


def _attachment(format: int, kept: bool):
    """An attachment that keeps what is there before the draw, or is cleared."""
    return vk.VkAttachmentDescription(
        format=format,
        samples=vk.VK_SAMPLE_COUNT_1_BIT,
        loadOp=vk.VK_ATTACHMENT_LOAD_OP_LOAD if kept else vk.VK_ATTACHMENT_LOAD_OP_CLEAR,
        storeOp=vk.VK_ATTACHMENT_STORE_OP_STORE,
        stencilLoadOp=vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE,
        stencilStoreOp=vk.VK_ATTACHMENT_STORE_OP_DONT_CARE,
        initialLayout=vk.VK_IMAGE_LAYOUT_GENERAL,
        finalLayout=vk.VK_IMAGE_LAYOUT_GENERAL,
    )


def render_pass_of(device: Device, owner: DrawPass):
    attachments, color, depth = [], None, None
    if owner.attachment:
        color = [vk.VkAttachmentReference(0, vk.VK_IMAGE_LAYOUT_GENERAL)]
        attachments.append(_attachment(owner.format, owner.clear is None))
    if owner.depth:
        depth = [vk.VkAttachmentReference(len(attachments), vk.VK_IMAGE_LAYOUT_GENERAL)]
        attachments.append(_attachment(DEPTH_FORMAT, owner.depth.clear is None))
    subpass = vk.VkSubpassDescription(
        flags=_SUBPASS_RASTER_ORDER_COLOR if owner.in_order else 0,
        pipelineBindPoint=vk.VK_PIPELINE_BIND_POINT_GRAPHICS,
        pColorAttachments=color,
        pInputAttachments=color if owner.in_order else None,
        pDepthStencilAttachment=depth,
    )
    return device.create("RenderPass", pAttachments=attachments or None, pSubpasses=[subpass])


def _state(kind: str, **fields) -> dict:
    """One field of VkGraphicsPipelineCreateInfo: its state of that kind, with these fields."""
    return {f"p{kind}State": getattr(vk, f"VkPipeline{kind}StateCreateInfo")(**fields)}


def graphics_pipeline(device: Device, owner: DrawPass, stages, layout, render_pass, cache):
    blend = vk.VkPipelineColorBlendAttachmentState(
        blendEnable=owner.blend,
        srcColorBlendFactor=vk.VK_BLEND_FACTOR_SRC_ALPHA,
        dstColorBlendFactor=vk.VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA,
        srcAlphaBlendFactor=vk.VK_BLEND_FACTOR_ZERO,
        dstAlphaBlendFactor=vk.VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA,
        colorWriteMask=0xF,
    )
    mode = vk.VK_POLYGON_MODE_FILL_RECTANGLE_NV if owner.rectangle else vk.VK_POLYGON_MODE_FILL
    set_later = [vk.VK_DYNAMIC_STATE_VIEWPORT, vk.VK_DYNAMIC_STATE_SCISSOR]
    states = {
        **_state("VertexInput"),
        **_state("InputAssembly", topology=TOPOLOGIES[owner.topology]),
        **_state("Viewport", viewportCount=1, scissorCount=1),
        **_state("Rasterization", polygonMode=mode, cullMode=vk.VK_CULL_MODE_NONE, lineWidth=1.0),
        **_state("Multisample", rasterizationSamples=vk.VK_SAMPLE_COUNT_1_BIT),
        **_state(
            "ColorBlend",
            pAttachments=[blend] if owner.attachment else None,
            flags=_BLEND_RASTER_ORDER if owner.in_order else 0,
        ),
        **_state("Dynamic", pDynamicStates=set_later),
    }
    if test := owner.depth:
        states |= _state(
            "DepthStencil",
            depthWriteEnable=test.writes,
            depthTestEnable=True,
            depthCompareOp=_COMPARE[test.passes],
        )
    info = vk.VkGraphicsPipelineCreateInfo(
        pStages=stages, **states, layout=layout, renderPass=render_pass, basePipelineIndex=-1
    )
    handle = vk.vkCreateGraphicsPipelines(device.handle, cache, 1, [info], None)[0]
    return device.own("Pipeline", handle)


def framebuffer_of(
    device: Device,
    pipeline: Pipeline,
    image: Image | None,
    depth: Image | None,
    extent: tuple[int, int],
):
    """The framebuffer of a draw to an image and a depth image, `extent` px without an image."""
    return device.create(
        "Framebuffer",
        renderPass=pipeline.render_pass,
        pAttachments=[r.view for r in (image, depth) if r] or None,
        width=image.width if image else extent[0],
        height=image.height if image else extent[1],
        layers=1,
    )


def clear_values(owner: DrawPass):
    """(VkClearValue array, how many of its values are used) at the begin of a draw."""
    clear = vk.ffi.new("VkClearValue[2]")
    if owner.clear is not None:
        clear[0].color.float32 = list(owner.clear)
    if owner.depth:
        clear[1 if owner.attachment else 0].depthStencil.depth = owner.depth.clear or 0.0
        return clear, 1 + bool(owner.attachment)
    return clear, int(owner.clear is not None)
