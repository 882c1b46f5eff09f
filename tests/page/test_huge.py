"""Millions of splats after the last step: in blocks, by time and memory in proportion."""

import numpy as np

from hardsplat.model import gaussians as module
from hardsplat.model.gaussians import Gaussians

SPLATS = 4 * module._BLOCK + 1000  # blocks, and pieces of the file, that end in the middle


def trained_values(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = dict(means=(1, 3), quats=(1, 4), log_scales=(1, 3), logit_opacities=(1, 1))
    shapes |= dict(sh0=(1, 3), shN=(3, 3))
    sizes = {name: (planes, n, width) for name, (planes, width) in shapes.items()}
    return {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def test_splats_in_blocks_are_those_at_once():
    planes = trained_values(SPLATS)
    whole, edges = Gaussians.from_planes(planes), range(0, SPLATS, module._BLOCK // 3)
    parts = [{name: v[:, a : a + edges.step] for name, v in planes.items()} for a in edges]
    parts = Gaussians.concatenate([Gaussians.from_planes(part) for part in parts])
    for name in ("means", "quats", "scales", "opacities", "sh"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name)), name
    sh = np.concatenate([planes["sh0"], planes["shN"]]).transpose(1, 0, 2)
    assert np.array_equal(whole.sh, sh)
    np.testing.assert_allclose(whole.scales, np.exp(planes["log_scales"][0]), rtol=1e-6)
