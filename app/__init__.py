"""hardsplat: 3D Gaussian Splatting trained through Vulkan's hardware rasterizer."""

__version__ = "0.1.0"
