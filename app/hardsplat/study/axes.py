"""What `hardsplat bench` may vary."""

AXES = (  # settings of which it takes lists, in the order of its flags
    *("format", "state_format", "blending", "reduction", "hybrid_threshold", "ordering", "atomics", "block", "shape", "cells", "segments"),
    *("tile_backward", "tile_threshold", "moments", "rasterizer", "gradient", "gradient_estimate", "gradient_samples", "gradient_draws"),
)
OPTIONS = tuple(name for name in AXES if name != "rasterizer")  # those that a rasterizer takes
