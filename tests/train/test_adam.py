"""Steps of Adam over splats that a view sees and splats that it does not, against float64."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.raster.core.parameters import from_bfloat16, to_bfloat16
from hardsplat.step.begin import BETA2
from tests.helpers.tables import COMMON
from tests.helpers.training import open_session, same_state, settings
from tests.oracle import sh as harmonics
from tests.oracle.adam import adam_step, decayed

PLANES = 9
GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")


def started(device, scene, **changes):
    """Sessions of SH degrees 0, 1, 2 with momentum, a third of the splats too faint to be seen."""
    run = dict(sh_degree=2, sh_degree_interval=1, strategy="adaptive", refine_start_iter=1000)
    session = open_session(device, settings(scene, **run, **changes))
    state, rng = session.snapshot(), np.random.default_rng(3)
    state.buffers["logit_opacities"][:, rng.random(state.splats) < 1 / 3] = -8.0
    for name in COMMON:
        if name != "shN":  # which is not in use yet
            first, second = state.buffers[f"adam_{name}"]
            first[:] = rng.normal(0, 1e-3, first.shape)
            second[:] = rng.uniform(1e-6, 1e-5, first.shape)
    session.restore(state)
    return session


def moments(state, name: str) -> tuple[np.ndarray, np.ndarray]:
    """First and second (planes, N, values), float64."""
    first, second = state.buffers[f"adam_{name}"].astype(np.float64)
    return first, second


def gradients(session, n: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(seen (N,), gradients (planes, N, values) by name) of the last step; 0 where not seen."""
    r = session.resources
    seen = r["seen"].download(np.uint32, n) > 0
    names = ("d_colors", "directions")
    color, direction = (r[name].download(np.float32, 3 * n).reshape(-1, 3) for name in names)
    degree = int(r["frame"].download(contract.dtype("Frame"))[0]["sh_degree"])
    sh = np.zeros((PLANES, n, 3))
    basis = harmonics.basis(direction[seen].astype(np.float64), degree)
    sh[: basis.shape[1], seen] = basis.T[:, :, None] * color[seen].astype(np.float64)
    out = {"sh0": sh[:1], "shN": sh[1:]}
    for name in GEOMETRY:
        d = session.store.parameters.read(f"d_{name}", n)[0]
        out[name] = np.where(seen[:, None], d, 0)[None].astype(np.float64)
    return seen, out


def spacing(values: np.ndarray) -> np.ndarray:
    """From a number in bfloat16 to the next: it keeps 8 bits, the first of which is not stored."""
    return np.exp2(np.floor(np.log2(np.maximum(np.abs(values), 2.0**-126))) - 7)


WAYS = [
    ("hardware", {"visible_adam": False}),
    ("hardware", {"visible_adam": True}),
    ("hardware", {"visible_adam": False, "opacity_decay": 0.7}),
    ("tiled", {"visible_adam": True, "opacity_decay": 0.7}),
    ("tiled", {"visible_adam": False}),
    ("tiled", {"visible_adam": True}),
    ("hardware", {"visible_adam": False, "moments": "bfloat16"}),
    ("tiled", {"visible_adam": True, "moments": "bfloat16"}),
    ("tiled", {"visible_adam": False, "shN_every": 2}),
]


def check_rounding(x, y, taken, what) -> np.ndarray:
    """bfloat16: up or down to a neighbour, right in the mean. How far x may be from y."""
    off = ((x - y) / spacing(y))[taken]
    assert not np.any(x.astype(np.float32).view(np.uint32) & 0xFFFF), what
    if off.size:
        assert abs(off.mean()) < 5 * 0.5 / np.sqrt(off.size) and off.min() < 0 < off.max(), what
    return np.where(taken, spacing(y), 0)


@pytest.mark.parametrize("rasterizer, way", WAYS)
def test_steps_against_float64(device, scene, rasterizer, way):
    session = started(device, scene, rasterizer=rasterizer, **{"shN_every": 1} | way)
    config, before = session.job.config, session.snapshot()
    n, first, every = before.splats, before, config.model.shN_every
    # as float32, which is what Adam averages with
    betas = [float(np.float32(b)) for b in (config.adam.adam_beta1, BETA2)]
    rates = {name: config.flat()[f"{name}_lr"] for name in ("quats", "sh0")}
    rates |= {"log_scales": config.adam.scales_lr, "logit_opacities": config.adam.opacities_lr}
    rates |= {"shN": config.model.shN_lr * every}
    for step in range(3):
        session.run(1)
        after = session.snapshot()
        seen, d = gradients(session, n)
        assert n / 4 < seen.sum() < 3 * n / 4
        rates["means"] = session.resources["rates"].download(np.float32, 1)[0]
        moved = seen if config.adam.visible_adam else np.ones(n, bool)
        for name in COMMON:
            m, v = moments(before, name)
            value = before.buffers[name].astype(np.float64)
            wanted = adam_step(value, d[name], m, v, step + 1, rates[name], *betas)
            if name == "logit_opacities":
                less = decayed(value, rates[name], config.adam.opacity_decay)
                wanted = (wanted[0] - less, *wanted[1:])
            found = (after.buffers[name], *moments(after, name))
            terms = np.abs(m) + np.abs(d[name])
            for i, (x, y, old) in enumerate(zip(found, wanted, (value, m, v))):
                what = step, name, ("value", "m", "v")[i]
                y = np.where(moved[:, None], y, old)
                if name == "shN":  # planes that this step leaves at rest
                    resting = 0 if step % every else (step + 1) ** 2 - 1
                    y[resting:] = old[resting:]
                # an update is rounded twice: by itself, and where it is added to the value
                error = 4e-6 * (np.abs(y) + np.abs(y - old) + (terms**i if i else 0))
                if config.adam.moments == "bfloat16" and i:
                    taken = np.broadcast_to(moved[:, None], y.shape) & (y != 0)
                    assert taken.any() or (name == "shN" and step == 0)
                    error = error + check_rounding(x, y, taken, what)
                assert np.all(np.abs(x - y) <= error), what
            unmoved = ~np.any(after.buffers[name] != before.buffers[name], axis=(0, 2))
            assert unmoved[~moved].all() and (name == "shN" or not unmoved[moved].any())
        in_use = (step - step % every + 1) ** 2 - 1
        assert after.buffers["shN"][:in_use].any(axis=(1, 2)).all()
        assert not after.buffers["adam_shN"][:, in_use:].any()
        views, earlier = (s.buffers["grow_stats"][0, :, 1] for s in (after, before))
        assert np.array_equal(views - earlier, seen)
        before = after
    assert not same_state(first, before)


def test_a_resumed_run_rounds_alike(device, scene, tmp_path):
    """In another capacity: the same bits. Checkpoints fit either format of moments."""
    run = dict(rasterizer="tiled", tile_backward="gather", grow_grad2d=1e-5)
    config = settings(scene, moments="bfloat16", **run)
    of = (config, config, settings(scene))
    first, second, wide = (open_session(device, each) for each in of)
    first._grow(5000)
    first.run(3)
    first.densify()
    first.run(3)
    path = checkpoints.path_of(tmp_path, first.step)
    checkpoints.save(path, first.snapshot())
    for session in (second, wide):
        session.restore(checkpoints.load(path))
        assert same_state(session.snapshot(), first.snapshot())
        assert session.store.parameters.capacity != first.store.parameters.capacity
    for session in (first, second):
        session.run(4)
        session.densify()
        session.run(3)
    assert same_state(first.snapshot(), second.snapshot())
    wide.run(3)
    exact = wide.snapshot()
    second.restore(exact)
    got = second.snapshot().buffers
    for name in COMMON:
        moments = exact.buffers[f"adam_{name}"]
        assert name == "shN" or np.any(moments.view(np.uint32) & 0xFFFF)
        assert np.array_equal(got[name], exact.buffers[name])
        assert np.array_equal(got[f"adam_{name}"], from_bfloat16(to_bfloat16(moments)))
