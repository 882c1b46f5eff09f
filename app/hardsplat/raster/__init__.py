"""Rasterizers of 3D splats, forward and backward."""
