"""Depth segments: shares of the splats on canvases of their own give one canvas's results."""

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.raster.renderer import Renderer
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.hardware import BLOCKS
from tests.helpers.drawing import PARAMETERS, compare, splats_of
from tests.helpers.goldens import random_scene, relative_l2
from tests.raster.test_hardware import TOLERANCE, in_range

SIZE = (61, 47)  # no multiple of a block


def whole(device, **options) -> Renderer:
    return Renderer(device, **{"format": "float32", **options})


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("block", BLOCKS)
def test_segments_agree_with_the_oracle(device, waiting, block, format):
    seed = 5
    scene = in_range(random_scene(seed, 200, *SIZE, 2, overlap=12))
    for segments in (2, 7):
        way = dict(format=format, ordering=waiting, block=block)
        with Renderer(device, segments=segments, **way) as renderer:
            image, gradients = compare(renderer, scene)
            assert renderer.raster.segments == segments
        what = f"{segments} segments, seed {seed}: {image}, {gradients}"
        assert image <= TOLERANCE[format][0], what
        assert max(gradients.values()) <= TOLERANCE[format][1], what


def test_no_more_than_fit_below_one_another_and_none_for_programmable_blending(device, monkeypatch):
    scene = random_scene(1, 20, *SIZE, 0)
    gaussians, camera = splats_of(scene)
    with whole(device) as renderer:
        wanted, _ = renderer.forward(gaussians, camera)
    monkeypatch.setattr(device, "max_image", 3 * SIZE[1] + 5)
    with whole(device, segments=8) as renderer:
        image, _ = renderer.forward(gaussians, camera)
        assert renderer.raster.segments == 3 and np.abs(image - wanted).max() < 1e-3
    for blending in ("programmable", "lists"):
        words = "--segments 8: canvases of depth segments are for the blending unit"
        with pytest.raises(UserError, match=f"{words}; use --blending fixed, not {blending}"):
            Renderer(device, segments=8, blending=blending)


def test_finished_blocks_are_left_out(device, waiting):
    """At the transmittance of finished pixels nothing changes; above it the error is small."""
    seed = 5
    scene = random_scene(seed, 400, *SIZE, 1, overlap=60, opacity=(0.5, 0.9))
    gaussians, camera = splats_of(scene)
    found = {}
    for least in (0.0, 1e-4, 1e-2):
        way = dict(ordering=waiting, block="2x2", segments=8)
        with whole(device, least_transmittance=least, **way) as renderer:
            renderer.forward(gaussians, camera)
            found[least] = renderer.backward(scene["weight"])
            assert "begin backward unfinished" in renderer.times()
    for name in PARAMETERS:
        assert relative_l2(found[1e-4][name], found[0.0][name]) < 1e-5, f"{name}, seed {seed}"
        assert 0 < relative_l2(found[1e-2][name], found[0.0][name]) < 2e-2, f"{name}, seed {seed}"
