"""Textured triangle meshes fitted to photographs through a rasterizer without a derivative."""
