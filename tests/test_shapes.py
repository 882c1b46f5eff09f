"""Shapes of splats: whatever primitives a splat is drawn as, image and gradients are the oracle's, and no shape loses a fragment that another has."""

import numpy as np
import pytest

from hardsplat.api import Renderer
from hardsplat.gpu import shader
from hardsplat.gpu.declarations import check
from hardsplat.gpu.passes import DrawPass
from hardsplat.gpu.reflect import reflect
from hardsplat.raster.draws import outline
from hardsplat.variants.blending import BLENDINGS
from hardsplat.variants.blocks import BLOCKS
from hardsplat.variants.shapes import SHAPES
from tests.drawing import PARAMETERS, compare, fresh_seed, gaussians_of, runnable
from tests.goldens import random_scene, relative_l2

SIZE = (61, 47)  # no multiple of a block
SCENES = {
    "usual": dict(n=200, overlap=12),
    "thin": dict(n=60, anisotropy=200),
    "below a pixel": dict(n=600, overlap=0.05),
    "faint": dict(n=200, overlap=12, opacity=(0.0038, 0.02)),  # an alpha of 1/255 is 0.0039
    "large": dict(n=40, overlap=40),
}


def skip_unless_runnable(device, shape):
    if missing := device.capabilities.missing(SHAPES[shape].needs):
        pytest.skip(f"lacks {', '.join(missing)}")


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_agrees_with_the_oracle(device, waiting, shape, block):
    skip_unless_runnable(device, shape)
    renderer = Renderer(device, format="float32", ordering=waiting, shape=shape, block=block)
    for name, options in SCENES.items():
        seed = 5
        image, gradients = compare(renderer, random_scene(seed, width=SIZE[0], height=SIZE[1], sh_degree=1, **options))
        # the limits of test_hardware.py for float32; where all fragments are faint, one that rounding moves across the cut-off is 2e-2, in one scene of 40
        limit = 5e-2 if name == "faint" else 1e-3
        assert image <= 1e-4 and max(gradients.values()) <= limit, f"{name}, seed {seed}: {image}, {gradients}"
    renderer.close()


@pytest.mark.parametrize("blending", BLENDINGS)
def test_images_of_all_shapes_are_equal(device, blending):
    """Bit by bit: the same fragments pass the alpha test in the same order."""
    shapes = runnable(device, SHAPES)
    renderers = {shape: Renderer(device, format="float32", blending=blending, shape=shape) for shape in shapes}
    for name, options in SCENES.items():
        seed = fresh_seed()
        gaussians, camera = gaussians_of(random_scene(seed, width=SIZE[0], height=SIZE[1], sh_degree=0, **options))
        images = {shape: np.dstack(r.forward(gaussians, camera)) for shape, r in renderers.items()}
        for shape in shapes:
            assert np.array_equal(images[shape], images["quad"]), f"{shape}, {name}, seed {seed}: {np.abs(images[shape] - images['quad']).max()}"
    for renderer in renderers.values():
        renderer.close()


@pytest.mark.parametrize("block", BLOCKS)
def test_gradients_of_all_shapes_are_equal(device, block):
    """Up to the order of sums, which is 2e-6 at most: a fragment that one of them lost would be 2e-2 of the faint scene."""
    shapes = runnable(device, SHAPES)
    renderers = {shape: Renderer(device, format="float32", shape=shape, block=block) for shape in shapes}
    for name, options in SCENES.items():
        seed = fresh_seed()
        scene = random_scene(seed, width=SIZE[0], height=SIZE[1], sh_degree=0, **options)
        found = {}
        for shape, renderer in renderers.items():
            renderer.forward(*gaussians_of(scene))
            found[shape] = renderer.backward(scene["weight"])
        for shape in shapes:
            errors = {p: relative_l2(found[shape][p], found["quad"][p]) for p in PARAMETERS}
            assert max(errors.values()) <= 2e-5, f"{shape}, {name}, seed {seed}: {errors}"
    for renderer in renderers.values():
        renderer.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_compile_and_open_what_they_should(shape):
    """From SPIR-V alone, so also those that this device cannot run."""
    row = SHAPES[shape]
    owner = DrawPass(
        "draw",
        **outline(row),
        fragment="draw/forward_fixed.frag",
        reads=("counts", "splats2d", "colors2d", "order"),
        spec={"VERTICES": row.vertices, "SHAPE": row.number},
    )
    check(owner, [(source.path, reflect(shader.compile_source(source))) for source in owner.sources()])
