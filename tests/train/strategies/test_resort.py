"""Splats put in Morton order between steps: the same splats in another order of memory."""

import numpy as np
import pytest

from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.tables import quantities
from hardsplat.train.step import resort
from tests.helpers.training import open_session, same_state, settings


def spread(cells: np.ndarray) -> np.ndarray:
    """(N,) ten bits of each, two places apart."""
    return sum(((cells >> bit) & 1) << (3 * bit) for bit in range(10))


def morton(means: np.ndarray, centre: np.ndarray, extent: float) -> np.ndarray:
    """(N,) keys of (N, 3) points, computed as the shader does."""
    away = (means - centre) / np.float32(extent)
    place = np.clip(np.float32(0.5) + np.float32(0.5) * away / (1 + np.abs(away)), 0, 1)
    x, y, z = (place * np.float32(511)).astype(np.uint32).T
    return spread(x) | spread(y) << 1 | spread(z) << 2


def everything(session) -> dict[str, np.ndarray]:
    n, names = session.store.count(), (*quantities.values("splat"), *quantities.moments("splat"))
    names = *names, *session.job.strategy.statistics
    return {name: session.store.parameters.read(name, n) for name in names}


def sorted_rows(values: np.ndarray) -> np.ndarray:
    rows = np.moveaxis(values, -2, 0)
    return np.sort(np.ascontiguousarray(rows).reshape(len(rows), -1), axis=0)


@pytest.mark.parametrize("strategy, moments", [("adaptive", "float32"), ("budget", "bfloat16")])
def test_all_that_a_splat_has_moves_along(device, scene, strategy, moments):
    scores = dict(score_every=1, grow_absolute=1e-5, refine_start_iter=0)
    scores = scores if strategy == "budget" else {}
    session = open_session(device, settings(scene, strategy=strategy, moments=moments, **scores))
    session.run(6)
    session.drain()
    before = everything(session)
    centre = before["means"][0][len(before["means"][0]) // 2]
    session.drawing.queue("resort")
    session.drain()
    after = everything(session)
    keys = morton(before["means"][0], centre, session.job.views.extent)
    order = np.argsort(keys, kind="stable")
    assert len(set(keys)) > len(keys) // 2 and not np.array_equal(order, np.arange(len(order)))
    places = morton(after["means"][0], centre, session.job.views.extent).astype(np.int64)
    # A point on the border of two cells may round to the other.
    assert np.count_nonzero(np.diff(places) < 0) <= len(places) // 100
    for name, values in before.items():
        found = sorted_rows(after[name])
        np.testing.assert_array_equal(found, sorted_rows(values), err_msg=name)
    # All of a splat together: rows are alike where the order is.
    place = {row.tobytes(): i for i, row in enumerate(before["means"][0])}
    from_ = np.array([place[row.tobytes()] for row in after["means"][0]])
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values[..., from_, :], err_msg=name)
    assert int(session.resources["turn"].download(np.uint32)[0]) == 0


def test_resumed_runs_are_the_same(device, scene, tmp_path, monkeypatch):
    """Checkpoints before and after splats were put in order lead to the same end."""
    way = dict(rasterizer="tiled", tile_backward="gather")
    config = settings(scene, refine_every=4, max_steps=100, **way)
    monkeypatch.setattr(resort, "EVERY", 8)
    first = open_session(device, config)
    second = open_session(device, config)
    for _ in range(3):
        first.run(4)
        first.refine()
    path = checkpoints.path_of(tmp_path, first.step)
    checkpoints.save(path, first.snapshot())
    second.restore(checkpoints.load(path))
    for session in (first, second):
        for _ in range(2):
            session.run(4)
            session.refine()
    ends = [session.snapshot() for session in (first, second)]
    assert same_state(*ends)


def test_lists_that_are_made_anew_before_a_refinement(device, scene, monkeypatch):
    """An evaluation of views that show more than training steps replaces what refinements use."""
    config = settings(scene, refine_every=4, rasterizer="tiled", tile_backward="gather")
    monkeypatch.setattr(resort, "EVERY", 8)
    first, second = (open_session(device, config) for _ in range(2))
    for session in (first, second):
        session._grow(20 * session.store.count())  # densifications make nothing anew
        for _ in range(3):
            session.run(4)
            session.drain()
            if session is second:
                raster, before = session.raster, session.raster.resources
                raster._resize_lists(raster.pair_capacity + 1000, raster.checkpoint_capacity)
                assert raster.resources is not before
            session.refine()
        session.run(4)
    assert same_state(*[session.snapshot() for session in (first, second)])
