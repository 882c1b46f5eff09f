"""What looks like lobes of colour and the 2D filter: the device against float64."""

import numpy as np
import pytest

from hardsplat.model.camera import Camera, Distortion
from hardsplat.model.framing import look_at, spread
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.model.lobes import around
from hardsplat.raster import harmonics
from hardsplat.raster.core.parameters import Parameters
from tests.io.test_lens import of_oracle
from tests.oracle import lobes, sh
from tests.oracle.splat import project

FISHEYE = Distortion(True, (0.05, -0.02, 0.01, -0.003))
PERSPECTIVE = Distortion(False, (-0.35, 0.0, 0.004, -0.006, 0.01, 0.0, 0.0, 0.0))


def splats(n: int, rng: np.random.Generator) -> Gaussians:
    axes, colors = rng.normal(0, 1.5, (2, 2, n, 3)).astype(np.float32)
    axes[:, 0], axes[0, 1] = 0, 2e20  # all directions alike; its square is beyond float32
    shape = rng.normal(size=(n, 4)), np.full((n, 3), 0.1), np.full(n, 0.5)
    extra = {"lobe_colors": colors, "lobe_axes": axes}
    return Gaussians(rng.normal(0, 1, (n, 3)), *shape, rng.normal(0, 1, (n, 1, 3)), extra)


def cameras(count: int, rng: np.random.Generator) -> list[Camera]:
    """That look past the splats, each at some of them."""
    out = []
    for i in range(count):
        eye, size = rng.normal(0, 2, 3), rng.integers(30, 90, 2)
        K = np.array([[60.0, 0, size[0] / 2 + 3], [0, 70, size[1] / 2], [0, 0, 1]])
        lens = (None, FISHEYE, PERSPECTIVE)[i % 3]
        w2c = look_at(eye, rng.normal(0, 1, 3), np.array([0.0, -1, 0]))
        out.append(Camera(w2c, K, *size, lens))
    return out


def seen_by(camera: Camera, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) bool, which have their mean in the image, and which are too near a border to say."""
    x, y, z = (means.astype(np.float64) @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]).T
    u = np.stack([x, y], axis=1) / z[:, None]
    bent = camera.distortion(u) if camera.distortion else u
    px, size = bent * np.diag(camera.K)[:2] + camera.K[:2, 2], [camera.width, camera.height]
    reach = np.sum(u**2, axis=1) / camera.reach
    to_border = np.abs([*px.T, *(px - size).T, z * 1e2, (reach - 1) * 1e2]).min(axis=0)
    inside = ((px > 0) & (px < size)).all(axis=1) & (z > 0) & (reach < 1)
    return inside, to_border < 2e-3


def fitted(g: Gaussians, i: int, eyes: np.ndarray, sh_degree: int) -> np.ndarray:
    """((sh_degree + 1)^2, 3) float64 of splat i, seen from `eyes`."""
    rays = g.means[i] - eyes
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    directions = np.concatenate([rays, around().astype(np.float64)])
    each = 1 / max(len(eyes), 1)
    weight = np.sqrt([each] * len(eyes) + [0.02 / 32] * 32)[:, None]
    axes, colors = (g.extra[name][:, i].astype(np.float64) for name in ("lobe_axes", "lobe_colors"))
    shape = (2, len(directions), 3)
    values = lobes.values(np.broadcast_to(axes[:, None], shape), directions)
    Y, wanted = sh.basis(directions, sh_degree), values.T @ colors + SH_C0 * g.sh[i, 0]
    return np.linalg.lstsq(weight * Y, weight * wanted, rcond=None)[0]


@pytest.mark.parametrize(
    "count, piece, sh_degree", [(70, 64, 3), (2, 1 << 16, 3), (0, 1 << 16, 3), (70, 1 << 16, 1)]
)
def test_the_device_fits_harmonics(device, monkeypatch, count, piece, sh_degree):
    """Every camera of few, and 64 of many."""
    seed = 4
    rng = np.random.default_rng(seed)
    g, views = splats(200, rng), cameras(count, rng)
    monkeypatch.setattr(harmonics, "PIECE", piece)
    parameters = Parameters(device, 220, 0, further=tuple(g.extra))
    try:
        parameters.upload(g)
        found = harmonics.fit_harmonics(parameters, len(g), views, sh_degree)
    finally:
        parameters.destroy()
    chosen = [views[i] for i in spread(count, 64)]
    seen, doubtful = (
        np.array(each).reshape(len(chosen), len(g)).astype(bool)
        for each in (zip(*(seen_by(c, g.means) for c in chosen)) if chosen else ([], []))
    )
    clear = ~doubtful.any(axis=0)
    assert clear.sum() > 150 and clear[:2].any(), seed
    if count == 70:
        assert seen.sum(axis=0).min() < 10 and seen.sum(axis=0).max() > 30
    eyes = np.array([c.position for c in chosen]).reshape(-1, 3)
    errors = []
    for i in np.flatnonzero(clear):
        wanted = fitted(g, i, eyes[seen[:, i]], sh_degree)
        errors.append(np.abs(found[i] - wanted).max())
    assert found.shape == (200, (sh_degree + 1) ** 2, 3)
    assert max(errors) < 3e-3, (max(errors), seed)  # 1e-3 with few cameras


def test_the_device_fits_opacities(device):
    seed = 5
    rng = np.random.default_rng(seed)
    views, shape = cameras(12, rng), dict(quats=rng.normal(size=(300, 4)))
    shape |= dict(
        scales=np.exp(rng.normal(-4, 1, (300, 3))), opacities=rng.uniform(0.05, 0.99, 300)
    )
    g = Gaussians(rng.normal(0, 1, (300, 3)), *shape.values(), rng.normal(0, 1, (300, 1, 3)))
    g.means[0] = 900, 50, -700  # that no camera sees
    parameters = Parameters(device, 320, 0)
    try:
        parameters.upload(g)
        found = harmonics.fit_opacities(parameters, len(g), views)
    finally:
        parameters.destroy()
    area, kept = np.zeros((2, len(g)))
    clear = np.ones(len(g), bool)
    for c in views:
        seen, doubtful = seen_by(c, g.means)
        lens = of_oracle(c.distortion) if c.distortion else None
        own = g.means, g.quats, g.scales, g.opacities, g.sh, c.w2c, c.K, c.width, c.height, 0
        with np.errstate(invalid="ignore"):  # those behind a fisheye
            p = project(*own, antialiased=True, lens=lens)
        here = np.sqrt(p.cov2d[:, 0] * p.cov2d[:, 2] - p.cov2d[:, 1] ** 2)
        area += np.where(seen, here, 0)
        kept += np.where(seen, here * p.compensation, 0)
        clear &= ~doubtful
    wanted = g.opacities * np.where(area > 0, kept / np.where(area > 0, area, 1), 1)
    assert clear.sum() > 250 and np.median(kept[clear] / np.maximum(area[clear], 1e-9)) < 0.9, seed
    assert found[0] == pytest.approx(g.opacities[0], rel=1e-6)
    assert np.abs(found / wanted - 1)[clear].max() < 1e-4, (
        np.abs(found / wanted - 1)[clear].max(),
        seed,
    )
