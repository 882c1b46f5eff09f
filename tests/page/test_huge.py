"""What a run does with millions of splats after its last step: in blocks, without time or memory
that grows faster than they do."""

import numpy as np

from hardsplat.model import gaussians as module
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.choose import foremost, importance

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


def test_the_foremost_splats_are_the_most_important():
    g = Gaussians.from_planes(trained_values(5000))
    g.scales[10] = np.nan
    cameras = [Camera(np.eye(4), np.array([[300.0, 0, 160], [0, 300, 120], [0, 0, 1]]), 320, 240)]
    assert np.array_equal(foremost(g, cameras, 5000), np.arange(5000))
    weight = np.nan_to_num(importance(g.means, g.scales, g.opacities, cameras))
    chosen = foremost(g, cameras, 700)
    least = np.sort(weight)[-700]
    assert len(chosen) == 700 and np.array_equal(chosen, np.flatnonzero(weight >= least))
