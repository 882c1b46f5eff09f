"""The budget strategy: scores and splits against float64 numpy, growth by the budget."""

import itertools
import math

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.io.scenes.scene import load_scene
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.loss_terms import ordered
from hardsplat.train import run_training as train
from hardsplat.train.strategies import STRATEGIES, strategy
from hardsplat.train.strategies.budget import THINNINGS
from hardsplat.train.strategies.strategy import refine_settings
from tests.helpers.refining import (
    MOMENTS,
    STATE,
    Refining,
    assert_same_set,
    maker,
    opaque,
    random_state,
)
from tests.helpers.scenes import masked_scene
from tests.helpers.training import open_session, settings, strategy_of
from tests.oracle.pcg import bits_of
from tests.oracle.quat import to_matrix

CONFIG = TrainConfig.of(
    strategy="budget", refine_start_iter=500, refine_stop_iter=2500, cap_max=3000, prune_opa=0.02
)
BUDGET = dict(strategy="budget", score_every=2, grow_absolute=1e-5, cap_max=700)
BUDGET |= dict(refine_stop_iter=30, reset_every=0)
COLUMNS = ("grad", "views", "edges", "blended")
# Those of shaders/densify/budget: of a child over its parent's, and the share of scores that a
# refinement leaves.
OFFSET, LONG, SHORT, OPACITY, KEPT = 1.35, 0.55, 0.893, 0.6, 0.5
DRAW_TICKET = 258  # of shaders/include/random.glsl


@pytest.fixture(autouse=True)
def large_gradients_alone(monkeypatch):
    """Splats with smaller ones do not split in their place."""
    monkeypatch.setattr(strategy, "GROW_LEAST", math.inf)


class Splitter(Refining):
    def __init__(self, device, capacity: int, planes: int, moments: str = "float32"):
        super().__init__(device, capacity, planes, moments, "score_stats")
        self.record_all(STRATEGIES["budget"], moments)

    def __call__(self, state: dict, stats, step=1500, config=CONFIG, what="densify") -> dict:
        got = self.run(what, state, stats, config, step=step)
        counts = self.resources["ticket_counts"].download(np.uint32)
        assert not counts.any(), "the counts are left clean"
        return got


make, cleanup = maker(Splitter)


def random_stats(n: int, seed: int = 1) -> np.ndarray:
    """(n, 4) sums of scores; a fifth was never seen, half of the others have gradient enough."""
    rng = np.random.default_rng(seed)
    views = rng.integers(0, 5, n)
    gradients = rng.uniform(0, 6e-4, n) * views
    columns = [gradients, views, *(rng.lognormal(size=(2, n)) * views)]
    return np.stack(columns, axis=1).astype(np.float32)


def tickets_of(stats: np.ndarray, weight: np.ndarray, step: int, seed: int) -> np.ndarray:
    """(n,) log2 of an exponential number over the weight; infinite for no candidates."""
    uniform = (bits_of(seed, step, len(stats), DRAW_TICKET)[:, 0] >> 8) * 2.0**-24
    steep = stats[:, 0] >= np.float32(CONFIG.densify.budget.grow_absolute) * stats[:, 1]
    candidate = (stats[:, 1] > 0) & steep & (weight > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tickets = np.log2(-np.log(1 - uniform) / (weight / stats[:, 1]))
    return np.where(candidate, tickets, np.inf)


def split_reference(state: dict, chosen: np.ndarray, config: TrainConfig = CONFIG) -> dict:
    """Rows of the state after splits of the chosen ones and pruning, in no particular order."""
    c, rows = config, np.concatenate([np.arange(len(chosen)), np.flatnonzero(chosen)])
    out = {name: values[:, rows].astype(np.float64) for name, values in state.items()}
    child, sign = chosen[rows], np.where(np.arange(len(rows)) < len(chosen), 1.0, -1.0)
    log_scales = out["log_scales"][0]
    longest = np.arange(3) == log_scales.argmax(1)[:, None]
    axis = np.einsum("nij,nj->ni", to_matrix(out["quats"][0]), longest * np.exp(log_scales))
    out["means"][0] += np.where(child[:, None], sign[:, None] * OFFSET * axis, 0)
    out["log_scales"][0] += np.where(child[:, None], np.log(np.where(longest, LONG, SHORT)), 0)
    opacity = 1 / (1 + np.exp(-out["logit_opacities"][0, :, 0])) * np.where(child, OPACITY, 1)
    out["logit_opacities"][0, :, 0] = np.log(opacity / (1 - opacity))
    for name in MOMENTS:
        out[name][:, child] = 0
    return {name: values[:, opacity >= c.densify.prune_opa] for name, values in out.items()}


def chosen_by(got: dict, state: dict) -> np.ndarray:
    """Which rows were split, by the first SH value of all that are left; none may be pruned."""
    return np.bincount(got["sh"][0, :, 0].astype(int), minlength=state["means"].shape[1]) == 2


SPLITS = [(1, 16, "float32"), (1000, 4, "float32"), (1999, 16, "float32"), (1000, 4, "bfloat16")]


@pytest.mark.parametrize("n, planes, moments", SPLITS)
def test_splits_against_reference(make, n, planes, moments):
    """Opaque splats' states tell who was split; with these, faint splats go as in numpy."""
    state, stats = opaque(n, planes, n, moments), random_stats(n, n)
    splitter = make(4000, planes, moments)
    chosen = chosen_by(splitter(state, stats), state)
    assert splitter.splats == n + chosen.sum() <= max(strategy_of(CONFIG).target(1500), n)
    assert n < 1000 or chosen.sum() > 100
    logits = random_state(n, planes, n, moments)["logit_opacities"]
    faint = state | {"logit_opacities": logits}
    got, again = splitter(faint, stats), splitter(faint, stats)
    assert_same_set(got, split_reference(faint, chosen))
    assert all(again[name].tobytes() == got[name].tobytes() for name in STATE)


@pytest.mark.parametrize("step", [700, 1500])
def test_draws_go_by_weight(make, step):
    """As many least tickets as there is room for, but for a part of a class of 1/32 octave."""
    n, config = 1500, CONFIG
    state, stats = opaque(n), random_stats(n)
    tickets = tickets_of(stats, stats[:, COLUMNS.index("edges")], step, config.run.seed)
    splitter = make(4000)
    chosen = chosen_by(splitter(state, stats, step, config), state)
    room = max(strategy_of(config).target(step) - 1 - n, 0)
    assert not chosen[np.isinf(tickets)].any()
    candidates = int(np.isfinite(tickets).sum())
    if step == 700:
        assert room == 0 and not chosen.any()
        return
    assert 0 < chosen.sum() <= room
    if chosen.sum() == candidates:
        return
    last, next_ = tickets[chosen].max(), tickets[~chosen].min()
    assert last <= next_ + 1e-3 and np.floor(32 * last) < np.floor(32 * next_ + 0.03) + 1
    classes = np.floor(32 * (tickets[np.isfinite(tickets)] + 64)).astype(int)
    assert chosen.sum() >= room - np.bincount(classes).max()


@pytest.mark.parametrize("share", [0.9, 0.4, 0.01])
def test_thinning_leaves_those_that_show_most(make, share):
    """A fifth of the way, on a logarithmic scale; classes are 1/64 octave wide."""
    n, config = 2900, CONFIG.changed(prune_to=share)
    state, stats = random_state(n, 1), random_stats(n)
    splitter = make(4000)
    got = splitter(state, stats, config=config, what="thin")
    rows = got["sh"][0, :, 0].astype(int)
    left = np.isin(np.arange(n), rows)
    wanted = np.ceil(n * share ** (1 / THINNINGS))
    shown = np.sqrt((stats[:, 2] + 0.01 * stats[:, 3]) * stats[:, 3])
    assert (shown == 0).sum() > 500 and wanted <= splitter.splats == left.sum() <= wanted + 60
    with np.errstate(divide="ignore"):
        assert np.log2(shown[left].min()) >= np.log2(shown[~left].max()) - 0.02
    for name in STATE:
        assert got[name].tobytes() == state[name][:, rows].tobytes(), name


def test_when_splats_are_thinned_out():
    run = dict(prune_to=0.1, prune_to_iter=2000, max_steps=3000)
    config = TrainConfig.of(strategy="budget", refine_stop_iter=1000, **run)
    strategy = strategy_of(config)
    assert strategy.prunings() == [1200, 1400, 1600, 1800, 2000]
    assert len(strategy.prunings()) == THINNINGS
    due = [strategy.due(step) for step in (1000, 1200, 1300, 2000)]
    assert due == [[], ["thin"], [], ["thin"]]
    assert [strategy.next_due(step) for step in (1200, 2000)] == [1400, 3000]
    assert strategy.scored(1999) and not strategy.scored(2009)
    for steps in (3000, 1003):  # so short that there are fewer
        strategy = strategy_of(config.changed(max_steps=steps))
        thinned = refine_settings(strategy, 1.0)["thinned"]
        assert thinned ** len(strategy.prunings()) == pytest.approx(0.1)
    for other in (TrainConfig.of(strategy="budget"), TrainConfig.of(prune_to=0.1, max_steps=900)):
        assert strategy_of(other).prunings() == []


def test_opacities_are_regularized_while_splats_are_thinned_out(device, scene):
    run = {"prune_to": 0.5, "prune_to_iter": 50, "max_steps": 60, "prune_opacity_reg": 0.1}
    config = settings(scene, **BUDGET | run | {"opacity_reg": 0.03})
    session = open_session(device, config)
    assert strategy_of(config).next_due(29) == 30
    assert strategy_of(config.changed(refine_stop_iter=25)).next_due(20) == 25
    opacity = ordered().index("opacity")
    for step, weight in ((29, 0.03), (30, 0.13), (49, 0.13), (50, 0.03)):
        session._set(session.store.count(), step)
        session.run(1)
        session.drain()
        terms = session.resources["loss_terms"].download(contract.dtype("LossTerms"))
        found = [terms[0]["weight"][opacity], session.weights[opacity]]
        np.testing.assert_allclose(found, weight, rtol=1e-6)


def scores_in_float64(session, photo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 4) what the scores of the step just made ought to be, and who is visible."""
    r, n = session.resources, session.store.count()
    splats = r["splats2d"].download(contract.dtype("Splat2D"), n)
    colors = r["colors2d"].download(np.float32, 4 * n).reshape(n, 4).astype(np.float64)
    seen = r["seen"].download(np.uint32, n) != 0
    # front to back, where tiles sort their own splats there is no list of all
    if "order" in r:
        order = r["order"].download(np.uint32, int(seen.sum()))
    else:
        order = np.argsort(r["keys"].download(np.uint32, n), kind="stable")[: int(seen.sum())]
    h, w = photo.shape[:2]
    images = (r[name].download()[:h, :w, :3].astype(np.float64) for name in ("target", "d_image"))
    rendering, d_image = images
    kept = photo[..., 3] > 0
    grey, near = (np.pad(a, 1, mode="edge") for a in (photo[..., :3].mean(axis=2) / 255, kept))
    around = [(slice(y, y + h), slice(x, x + w)) for y in range(3) for x in range(3)]
    here = grey[around[4]]
    edges = np.abs(sum(np.where(near[at], here - grey[at], 0) for at in around))
    x, y = np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5)
    out, T, before = np.zeros((n, 4)), np.ones((h, w)), np.zeros((h, w, 3))
    for g in order:
        dx, dy = splats["mean"][g, 0] - x, splats["mean"][g, 1] - y
        A, k, c = splats["conic"][g].astype(np.float64)
        color, opacity = colors[g, :3], colors[g, 3]
        t = dx + k * dy
        value = np.exp(-0.5 * (A * t * t + c * dy * dy))
        alpha = np.minimum(opacity * value, 0.99)
        alpha[alpha < 1 / 255] = 0
        weight = alpha * T
        before += weight[..., None] * color
        behind = (rendering - before) / (1 - alpha)[..., None]
        d_alpha = (d_image * (color * T[..., None] - behind)).sum(axis=2)
        d = np.where(alpha > 0, value * d_alpha, 0) * opacity
        absolute = np.abs(d * A * t).sum() * w / 2, np.abs(d * (A * t * k + c * dy)).sum() * h / 2
        out[g] = np.hypot(*absolute), 1, (weight * edges)[kept].sum(), weight[kept].sum()
        T *= 1 - alpha
    return out, seen


WAYS = [
    ("hardware", {}),
    ("hardware", {"blending": "programmable"}),
    ("hardware", {"blending": "programmable", "block": "1x1", "state_format": "float32"}),
    ("hardware", {"ordering": "lists", "blending": "fixed"}),
    ("hardware", {"segments": 3}),
    ("tiled", {}),
    ("tiled", {"tile_backward": "gather"}),
]


@pytest.mark.parametrize("rasterizer, way", [*WAYS, ("tiled", "masked")])
def test_scores_against_sums_over_pixels(device, scene, monkeypatch, tmp_path, rasterizer, way):
    """The border of what a mask hides is no edge."""
    monkeypatch.setattr(tiled, "LIVES", {})  # what a step in tiles has drawn is read after it
    if way == "masked":
        way, mask = {}, np.full((24, 32), 255, np.uint8)
        mask[8:20, 6:25] = 0
        scene = masked_scene(scene, tmp_path, mask)
    run = dict(**BUDGET, rasterizer=rasterizer, format="float32", test_every=0)
    session = open_session(device, settings(scene, **run, **way))
    session._set(300, 1)  # the second step draws scores
    session.run(1)
    session.drain()
    frame = session.resources["frame"].download(contract.dtype("Frame"))[0]
    loaded = load_scene(scene, test_every=0)
    photo = np.asarray(loaded.views[loaded.train[int(frame["view"])]].load())
    if photo.shape[2] == 3:
        photo = np.dstack([photo, np.full(photo.shape[:2], 255)])
    wanted, seen = scores_in_float64(session, photo)
    found = session.snapshot().buffers["score_stats"][0]
    assert seen.sum() > 100 and not found[~seen].any()
    for i, name in enumerate(COLUMNS):
        length = max(np.linalg.norm(wanted[seen, i]), 1e-9)
        assert np.linalg.norm(found[seen, i] - wanted[seen, i]) < 0.02 * length, name


@pytest.mark.parametrize("thinned", [{}, {"prune_to": 0.5, "prune_to_iter": 50}])
def test_a_run_grows_to_its_budget(on_device, scene, tmp_path, thinned):
    """And is thinned out from there."""
    run = dict(**BUDGET, max_steps=60, refine_every=5)
    curve = train(settings(scene, tmp_path / "run", **run, **thinned))["curve"]["splats"]
    top = curve.index(max(curve))
    assert 600 < curve[top] <= 700
    assert all(a <= b for a, b in itertools.pairwise(curve[: top + 1]))
    assert 0.48 <= curve[-1] / curve[top] < 0.6 if thinned else curve[-1] == curve[top]
