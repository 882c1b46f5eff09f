"""Pictures and videos of trained splats."""
