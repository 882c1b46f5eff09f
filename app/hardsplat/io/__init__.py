"""Readers and writers: scenes, photographs and videos, splats, checkpoints."""
