"""The hardware rasterizer against the float64 oracle, the recordings of an independent renderer, and central differences, for every variant that runs here."""

import itertools

import numpy as np
import pytest
from goldens import golden_names, load_golden, random_scene, relative_l2, scene_of
from oracle import render

from app.api import Camera, Gaussians, Renderer
from app.variants.atomics import ATOMICS
from app.variants.blending import BLENDINGS
from app.variants.formats import FORMATS
from app.variants.ordering import ORDERINGS
from app.variants.reductions import REDUCTIONS

PARAMETERS = ("means", "quats", "scales", "opacities", "sh")
BACKGROUND = (0.2, 0.5, 0.8)

# Relative L2 against float64, measured on these scenes and doubled: (image, worst gradient). The state of n splats a pixel is n roundings away
# from exact, so unorm8, whose step is the alpha cut-off itself, carries hardly any gradient through depth.
TOLERANCE = {"float32": (1e-5, 1e-3), "unorm16": (1e-3, 2e-2), "float16": (3e-3, 5e-2), "unorm8": (3e-2, 1.0)}


def gaussians_of(scene: dict) -> tuple[Gaussians, Camera]:
    gaussians = Gaussians(scene["means"], scene["quats"], scene["scales"], scene["opacities"], scene["sh"])
    return gaussians, Camera(scene["w2c"], scene["K"], scene["width"], scene["height"])


def runnable(device, registry):
    return [name for name, row in registry.items() if not device.capabilities.missing(row.needs)]


def compare(renderer: Renderer, scene: dict, background=BACKGROUND, near=0.01) -> tuple[float, dict[str, float]]:
    """Relative L2 of image and gradients against the oracle."""
    gaussians, camera = gaussians_of(scene)
    image, T = renderer.forward(gaussians, camera, background=background, near=near)
    gradients = renderer.backward(scene["weight"])
    frame = render(**scene_of(scene), background=np.array(background), near=near)
    exact = frame.backward(scene["weight"].astype(np.float64))
    for name in PARAMETERS:  # a gradient that is missing altogether hides in an L2 norm
        lost = (np.abs(gradients[name]).reshape(len(gaussians), -1).sum(1) == 0) & (
            np.abs(exact[name]).reshape(len(gaussians), -1).sum(1) > 1e-3 * np.abs(exact[name]).max()
        )
        assert not lost.any() or renderer.raster.state_format.vk == 37, f"{lost.sum()} splats have no gradient of {name}, first {np.flatnonzero(lost)[0]}"
    assert np.isfinite(image).all() and np.abs(T - frame.T).max() < 0.02
    return relative_l2(image, frame.image), {name: relative_l2(gradients[name], exact[name]) for name in PARAMETERS}


def variants(device):
    return list(itertools.product(FORMATS, runnable(device, REDUCTIONS), runnable(device, ORDERINGS), runnable(device, BLENDINGS)))


def test_every_variant_agrees_with_the_oracle(device):
    scene = random_scene(seed=np.random.SeedSequence().entropy % 2**32, n=200, width=61, height=47, sh_degree=2, overlap=12)
    failures = []
    for format, reduction, ordering, blending in variants(device):
        renderer = Renderer(device, format=format, reduction=reduction, ordering=ordering, blending=blending)
        image, gradients = compare(renderer, scene)
        renderer.close()
        image_limit, gradient_limit = TOLERANCE[format]
        if not (image <= image_limit and max(gradients.values()) <= gradient_limit):
            failures.append((format, reduction, ordering, blending, image, gradients))
    assert not failures


@pytest.mark.parametrize("name", golden_names())
def test_goldens(device, name):
    golden = load_golden(name)
    renderer = Renderer(device, format="float32")
    gaussians, camera = gaussians_of(golden)
    image, _ = renderer.forward(gaussians, camera)
    gradients = renderer.backward(golden["weight"])
    renderer.close()
    assert relative_l2(image, golden["gsplat_image"]) <= 1e-4
    errors = {p: relative_l2(gradients[p], golden[f"gsplat_d_{p}"]) for p in PARAMETERS}
    assert max(errors.values()) <= 5e-3, errors


@pytest.mark.parametrize("name", golden_names())
def test_oracle_on_goldens(device, name):
    renderer = Renderer(device, format="float32")
    image, gradients = compare(renderer, load_golden(name))
    renderer.close()
    assert image <= 1e-4 and max(gradients.values()) <= 1e-3, (image, gradients)
