"""Steps of Adam over splats that a view sees and splats that it does not, against float64."""

import numpy as np
import pytest

from app import contract
from app.raster.parameters import FIELDS
from tests.oracle import sh as harmonics
from tests.oracle.adam import adam_step
from tests.training import open_session, same_state, settings

PLANES = 9


def started(device, scene, rasterizer="hardware", **changes):
    """A session of SH degrees 0, 1, 2 at steps 0, 1, 2 with momentum in what is in use, and a third of its splats too faint to be seen."""
    config = settings(scene, sh_degree=2, sh_degree_interval=1, strategy="none", rasterizer=rasterizer, **changes)
    session = open_session(device, config)
    state, rng = session.snapshot(), np.random.default_rng(3)
    state.buffers["logit_opacities"][:, rng.random(state.splats) < 1 / 3] = -8.0
    for name in FIELDS:
        planes = state.buffers[f"adam_{name}"]
        planes[0] = rng.normal(0, 1e-3, planes.shape[1:])
        planes[1] = rng.uniform(1e-6, 1e-5, planes.shape[1:])
    session.restore(state)
    return session


def moments(state, name: str) -> tuple[np.ndarray, np.ndarray]:
    """First and second (planes, N, values), float64."""
    planes = state.buffers[f"adam_{name}"].astype(np.float64)
    return planes[0::2], planes[1::2]


def gradients(session, n: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(seen (N,), gradients (planes, N, values) by parameter) of the last step; zeros where a splat was not seen."""
    seen = session.resources["seen"].download(np.uint32, n) > 0
    color, direction = session.resources["d_colors"].download(np.float32).reshape(2, -1, 3)[:, :n]
    d = session.resources["d_geometry"].download(np.float32).reshape(11, -1)[:, :n].T
    degree = int(session.resources["frame"].download(contract.dtype("Frame"))[0]["sh_degree"])
    sh = np.zeros((PLANES, n, 3))
    basis = harmonics.basis(direction[seen].astype(np.float64), degree)
    sh[: basis.shape[1], seen] = basis.T[:, :, None] * color[seen].astype(np.float64)
    out = {"means": d[:, :3], "quats": d[:, 3:7], "log_scales": d[:, 7:10], "logit_opacities": d[:, 10:]}
    return seen, {"sh": sh, **{name: np.where(seen[:, None], values, 0)[None].astype(np.float64) for name, values in out.items()}}


@pytest.mark.parametrize("visible_adam", [False, True])
@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_steps_against_float64(device, scene, rasterizer, visible_adam):
    session = started(device, scene, rasterizer, visible_adam=visible_adam)
    config, before = session.config, session.snapshot()
    n, first = before.splats, before
    betas = [float(np.float32(b)) for b in (config.adam_beta1, config.adam_beta2)]  # as float32, which is what Adam averages with
    for step in range(3):
        session.run(1)
        after = session.snapshot()
        seen, d = gradients(session, n)
        assert n / 4 < seen.sum() < 3 * n / 4
        frame = session.resources["frame"].download(contract.dtype("Frame"))[0]
        rates = {"means": frame["lr_means"], "quats": config.quats_lr, "log_scales": config.scales_lr, "logit_opacities": config.opacities_lr}
        rates["sh"] = np.full((PLANES, 1, 1), config.shN_lr)
        rates["sh"][0] = config.sh0_lr
        moved = seen if visible_adam else np.ones(n, bool)
        for name in FIELDS:
            m, v = moments(before, name)
            value = before.buffers[name].astype(np.float64)
            wanted = adam_step(value, d[name], m, v, step + 1, rates[name], *betas)
            found = (after.buffers[name], *moments(after, name))
            for what, x, y, old in zip(("value", "m", "v"), found, wanted, (value, m, v)):
                y = np.where(moved[:, None], y, old)
                # an update is rounded twice: by itself, and where it is added to the value
                scale = np.abs(y) + np.abs(y - old) + (np.abs(m) + np.abs(d[name])) ** (2 if what == "v" else 1) * (what != "value")
                assert np.all(np.abs(x - y) <= 4e-6 * scale), (step, name, what)
            unmoved = ~np.any(after.buffers[name] != before.buffers[name], axis=(0, 2))
            assert unmoved[~moved].all() and not unmoved[moved].any()
        planes_in_use = (step + 1) ** 2
        assert after.buffers["sh"][:planes_in_use].any(axis=(1, 2)).all() and not after.buffers["adam_sh"][2 * planes_in_use :].any()
        assert np.array_equal(after.buffers["grow_stats"][0, :, 1] - before.buffers["grow_stats"][0, :, 1], seen)
        before = after
    assert not same_state(first, before)
    session.destroy()
