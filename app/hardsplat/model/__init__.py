"""Cameras, splats, skies and regions as arrays on the host."""
