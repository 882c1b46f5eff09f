"""Scenes drawn by a rasterizer, and how far it is from the float64 oracle."""

import numpy as np

from hardsplat.api import Camera, Gaussians, Renderer
from hardsplat.variants.formats import FORMATS
from tests.goldens import relative_l2, scene_of
from tests.oracle import render

PARAMETERS = ("means", "quats", "scales", "opacities", "sh")
BACKGROUND = (0.2, 0.5, 0.8)


def gaussians_of(scene: dict) -> tuple[Gaussians, Camera]:
    gaussians = Gaussians(scene["means"], scene["quats"], scene["scales"], scene["opacities"], scene["sh"])
    return gaussians, Camera(scene["w2c"], scene["K"], scene["width"], scene["height"])


def runnable(device, registry) -> list[str]:
    return [name for name, row in registry.items() if not device.capabilities.missing(row.needs)]


def fresh_seed() -> int:
    return int(np.random.SeedSequence().entropy % 2**32)


def compare(renderer: Renderer, scene: dict, background=BACKGROUND, near=0.01, antialiased=False) -> tuple[float, dict[str, float]]:
    """Relative L2 of image and gradients against the oracle."""
    gaussians, camera = gaussians_of(scene)
    image, T = renderer.forward(gaussians, camera, background=background, near=near)
    gradients = renderer.backward(scene["weight"])
    rows = renderer.raster.rows
    early = not hasattr(rows, "blending") or rows.blending.ordered  # fixed-function blending has no early end
    frame = render(**scene_of(scene), background=np.array(background), near=near, termination="after" if early else "none", antialiased=antialiased)
    exact = frame.backward(scene["weight"].astype(np.float64))
    coarse = getattr(rows, "state_format", None) == FORMATS["unorm8"]  # in which small gradients may vanish
    for name in PARAMETERS:  # a gradient that is missing altogether hides in an L2 norm
        found, wanted = (np.abs(g[name]).reshape(len(gaussians), -1).sum(1) for g in (gradients, exact))
        lost = (found == 0) & (wanted > 1e-3 * np.abs(exact[name]).max(initial=0))
        assert coarse or not lost.any(), f"{lost.sum()} splats have no gradient of {name}, first {np.flatnonzero(lost)[0]}"
    assert np.isfinite(image).all() and np.abs(T - frame.T).max() < 0.02
    return relative_l2(image, frame.image), {name: relative_l2(gradients[name], exact[name]) for name in PARAMETERS}
