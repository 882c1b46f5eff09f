"""A job on the device: splats, the rasterizer, commands."""
