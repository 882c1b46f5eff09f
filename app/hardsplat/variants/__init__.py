"""Registries: a variant is one row of data and the capabilities it needs (names of app/hardsplat/gpu/capabilities.py). No logic."""
