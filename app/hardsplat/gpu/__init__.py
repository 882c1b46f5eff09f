"""The Vulkan layer: devices, memory, shaders, passes, command buffers."""
