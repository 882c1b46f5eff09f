"""Textured triangle meshes fitted to photographs through a rasterizer that nobody
differentiated."""
