"""Shapes of splats: image and gradients are the oracle's, and no shape loses a fragment."""

import numpy as np
import pytest

from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declarations import check
from hardsplat.gpu.passes.declared import DrawPass
from hardsplat.gpu.passes.reflect import reflect
from hardsplat.raster.hardware.draws import outline
from hardsplat.raster.renderer import Renderer
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, SHAPES
from tests.helpers.drawing import compare, fresh_seed, gaussians_of, runnable
from tests.helpers.goldens import random_scene

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
        scene = random_scene(seed, width=SIZE[0], height=SIZE[1], sh_degree=1, **options)
        image, gradients = compare(renderer, scene)
        # The limits of test_hardware.py for float32; where all fragments are faint, one that
        # rounding moves across the cut-off is 2e-2, in one scene of 40.
        limit = 5e-2 if name == "faint" else 1e-3
        what = f"{name}, seed {seed}: {image}, {gradients}"
        assert image <= 1e-4 and max(gradients.values()) <= limit, what
    renderer.close()


@pytest.mark.parametrize("blending", BLENDINGS)
def test_images_of_all_shapes_are_equal(device, blending):
    """Bit by bit: the same fragments pass the alpha test in the same order."""
    for shape, _, name, a, b in of_all_shapes(device, blending=blending):
        off = np.abs(np.dstack(a) - np.dstack(b)).max()
        assert off == 0, f"{shape}, {name}: {off}"


def of_all_shapes(device, **options):
    """Yields shape, function of both gradients, scene, its frame and that of quads."""
    shapes = runnable(device, SHAPES)
    made = {s: Renderer(device, format="float32", shape=s, **options) for s in shapes}
    for name, of_scene in SCENES.items():
        seed = fresh_seed()
        scene = random_scene(seed, width=SIZE[0], height=SIZE[1], sh_degree=0, **of_scene)
        frames = {s: made[s].forward(*gaussians_of(scene)) for s in shapes}
        for shape in shapes:
            both = made[shape], made["quad"]
            backward = lambda both=both: [r.backward(scene["weight"]) for r in both]
            yield shape, backward, f"{name}, seed {seed}", frames[shape], frames["quad"]
    for renderer in made.values():
        renderer.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_compile_and_open_what_they_should(shape):
    """From SPIR-V alone, so also those that this device cannot run."""
    row = SHAPES[shape]
    own = dict(spec={"VERTICES": row.vertices, "SHAPE": row.number})
    reads = ("counts", "splats2d", "colors2d", "order")
    fragment = "draw/forward_fixed.frag"
    owner = DrawPass("draw", **outline(row), fragment=fragment, reads=reads, **own)
    compiled = [(s.path, reflect(shader.compile_source(s))) for s in owner.sources()]
    check(owner, compiled)
