"""The budget strategy: scores of both rasterizers against sums over pixels in float64, splits
against numpy, growth by the budget."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hardsplat import Camera, contract
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.io.scenes.scene import load_scene
from hardsplat.settings.train import TrainConfig
from hardsplat.tables.loss_terms import ordered
from hardsplat.train.run.trainer import Run, train
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.budget import (
    THINNINGS,
    budget_for,
    record_densify,
    record_thin,
    target,
    thinnings,
)
from tests.helpers.refining import MOMENTS, STATE, Refining, maker, random_state
from tests.helpers.training import open_session, same_state, settings
from tests.oracle.pcg import random_bits
from tests.oracle.quat import to_matrix

CONFIG = TrainConfig(
    strategy="budget",
    refine_start_iter=500,
    refine_stop_iter=2500,
    cap_max=3000,
    prune_opa=0.02,
    grow_least=0.0,
)
BUDGET = dict(
    strategy="budget",
    score_every=2,
    grow_absolute=1e-5,
    cap_max=700,
    refine_stop_iter=30,
    reset_every=0,
)
COLUMNS = ("grad", "views", "edges", "errors", "blended")
# Those of shaders/densify/budget: of a child over its parent's, and the share of scores that a
# refinement leaves.
OFFSET, LONG, SHORT, OPACITY, KEPT = 1.35, 0.55, 0.893, 0.6, 0.5
DRAW_TICKET = 258  # of shaders/include/random.glsl


class Splitter(Refining):
    def __init__(self, device, capacity: int, planes: int, moments: str = "float32"):
        super().__init__(device, capacity, planes, moments, "score_stats")
        run = build_all(device, STRATEGIES["budget"].passes(moments, 4))
        self.record("densify", lambda r: record_densify(r, run))
        self.record("thin", lambda r: record_thin(r, run))

    def __call__(
        self,
        state: dict,
        stats: np.ndarray,
        step: int = 1500,
        config: TrainConfig = CONFIG,
        what: str = "densify",
    ) -> dict:
        got = self.run(what, state, stats, config, step=step)
        assert not self.resources["ticket_counts"].download(np.uint32).any(), (
            "the counts are left clean"
        )
        return got


make, cleanup = maker(Splitter)


def random_stats(n: int, seed: int = 1) -> np.ndarray:
    """(n, 5) sums of scores; a fifth of the splats was never seen, half of the others have a large
    enough gradient."""
    rng = np.random.default_rng(seed)
    views = rng.integers(0, 5, n)
    return np.stack(
        [rng.uniform(0, 6e-4, n) * views, views, *(rng.lognormal(size=(3, n)) * views)], axis=1
    ).astype(np.float32)


def tickets_of(stats: np.ndarray, weight: np.ndarray, step: int, seed: int) -> np.ndarray:
    """(n,) log2 of an exponential number over the weight; infinite for splats that are no
    candidates."""
    n = len(stats)
    keys = np.stack(
        np.broadcast_arrays(
            np.uint32(seed), np.uint32(step), np.arange(n, dtype=np.uint32), np.uint32(DRAW_TICKET)
        ),
        axis=1,
    )
    uniform = (random_bits(keys)[:, 0] >> 8) * 2.0**-24
    candidate = (
        (stats[:, 1] > 0)
        & (stats[:, 0] >= np.float32(CONFIG.grow_absolute) * stats[:, 1])
        & (weight > 0)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(candidate, np.log2(-np.log(1 - uniform) / (weight / stats[:, 1])), np.inf)


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
    return {name: values[:, opacity >= c.prune_opa] for name, values in out.items()}


def arranged(state: dict) -> dict:
    order = np.lexsort((state["means"][0, :, 0], state["sh"][0, :, 0]))
    return {name: values[:, order] for name, values in state.items()}


def chosen_by(got: dict, state: dict) -> np.ndarray:
    """Which rows were split, as the first SH value of all rows tells that are left. Needs splats of
    which nobody is pruned."""
    return np.bincount(got["sh"][0, :, 0].astype(int), minlength=state["means"].shape[1]) == 2


def opaque_state(n: int, planes: int = 1, seed: int = 0, moments: str = "float32") -> dict:
    state = random_state(n, planes, seed, moments)
    state["logit_opacities"] = np.abs(state["logit_opacities"])
    return state


@pytest.mark.parametrize(
    "n, planes, moments",
    [(1, 16, "float32"), (1000, 4, "float32"), (1999, 16, "float32"), (1000, 4, "bfloat16")],
)
def test_splits_against_reference(make, n, planes, moments):
    """Who was split is told by the states of opaque splats; with these splits, faint splats go as
    in numpy."""
    state, stats = opaque_state(n, planes, n, moments), random_stats(n, n)
    splitter = make(4000, planes, moments)
    chosen = chosen_by(splitter(state, stats), state)
    assert splitter.splats == n + chosen.sum() <= max(target(CONFIG, 1500), n) and (
        n < 1000 or chosen.sum() > 100
    )
    faint = state | {"logit_opacities": random_state(n, planes, n, moments)["logit_opacities"]}
    got, want = arranged(splitter(faint, stats)), arranged(split_reference(faint, chosen))
    for name in STATE:
        assert got[name].shape == want[name].shape, name
        np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-5, err_msg=name)
    again = arranged(splitter(faint, stats))
    assert all(again[name].tobytes() == got[name].tobytes() for name in STATE)


@pytest.mark.parametrize("step", [700, 1500])
def test_draws_go_by_weight(make, step):
    """The least tickets win, whose classes are 1/32 octave wide; as many as there is room for, but
    for a part of a class."""
    n, config = 1500, CONFIG
    state, stats = opaque_state(n), random_stats(n)
    tickets = tickets_of(stats, stats[:, COLUMNS.index("edges")], step, config.seed)
    splitter = make(4000)
    chosen = chosen_by(splitter(state, stats, step, config), state)
    room = max(target(config, step) - 1 - n, 0)
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
    assert (
        chosen.sum()
        >= room - np.bincount(np.floor(32 * (tickets[np.isfinite(tickets)] + 64)).astype(int)).max()
    )


def test_smaller_gradients_fill_the_room_that_is_left(make):
    n, config = 1500, TrainConfig(**{**vars(CONFIG), "grow_absolute": 4e-4, "grow_least": 1e-4})
    state, stats = opaque_state(n), random_stats(n)
    chosen = chosen_by(make(4000)(state, stats, 1500, config), state)
    mean, room = (
        np.where(stats[:, 1] > 0, stats[:, 0] / np.maximum(stats[:, 1], 1), 0),
        target(config, 1500) - 1 - n,
    )
    strong, weak = (
        mean >= 4e-4 * (1 + 1e-6),
        (mean >= 1e-4 * (1 + 1e-6)) & (mean < 4e-4 * (1 - 1e-6)),
    )
    assert strong.sum() + 100 < room < (strong | weak).sum() - 100, "the scene of the test"
    assert (
        chosen[strong].all()
        and not chosen[mean < 1e-4 * (1 - 1e-6)].any()
        and 0.9 * room < chosen.sum() <= room
    )


def test_what_a_refinement_leaves_of_scores(make):
    """Splats that were not split keep a share of theirs; children have none."""
    n = 1000
    state, stats = opaque_state(n), random_stats(n)
    splitter = make(4000)
    got = splitter(state, stats)
    left = splitter.parameters.read("score_stats", splitter.splats)[0]
    rows = got["sh"][0, :, 0].astype(int)
    split = chosen_by(got, state)[rows]
    assert split.any() and not left[split].any()
    wanted = KEPT * stats[rows]
    assert np.array_equal(left[~split], wanted[~split].astype(np.float32))


@pytest.mark.parametrize("capacity", [1000, 1100])
def test_growth_stops_at_capacity(make, capacity):
    splitter = make(capacity)
    splitter(opaque_state(1000), random_stats(1000))
    assert 0.9 * capacity <= splitter.splats <= capacity


def test_numbers_that_are_not_finite(make):
    """Splats that hold one are removed; a gradient or weight that is none splits nothing."""
    n = 600
    state, stats = opaque_state(n), random_stats(n)
    state["means"][0, 7, 1] = np.nan
    stats[:300, 0] = np.nan
    stats[300:, 2] = np.nan
    splitter = make(4000)
    got = splitter(state, stats)
    assert splitter.splats == n - 1 and 7 not in got["sh"][0, :, 0]


@pytest.mark.parametrize("share", [0.9, 0.4, 0.01])
def test_thinning_leaves_those_that_show_most(make, share):
    """A fifth of the way, on a logarithmic scale; classes are 1/64 octave wide."""
    n, config = 2900, TrainConfig(**{**vars(CONFIG), "prune_to": share})
    state, stats = random_state(n, 1), random_stats(n)
    splitter = make(4000)
    got = splitter(state, stats, config=config, what="thin")
    left = np.zeros(n, bool)
    left[got["sh"][0, :, 0].astype(int)] = True
    wanted = np.ceil(n * share ** (1 / THINNINGS))
    shown = np.sqrt((stats[:, 2] + 0.01 * stats[:, 4]) * stats[:, 4])
    assert (shown == 0).sum() > 500 and wanted <= splitter.splats == left.sum() <= wanted + 60
    with np.errstate(divide="ignore"):
        assert np.log2(shown[left].min()) >= np.log2(shown[~left].max()) - 0.02
    for name in STATE:
        assert got[name].tobytes() == state[name][:, got["sh"][0, :, 0].astype(int)].tobytes(), name


def test_when_splats_are_thinned_out():
    config = TrainConfig(
        strategy="budget", refine_stop_iter=1000, prune_to=0.1, prune_to_iter=2000, max_steps=3000
    )
    assert (
        thinnings(config) == [1200, 1400, 1600, 1800, 2000] and len(thinnings(config)) == THINNINGS
    )
    strategy = STRATEGIES["budget"]
    assert [strategy.due(config, step) for step in (1000, 1200, 1300, 2000)] == [
        [],
        ["thin"],
        [],
        ["thin"],
    ]
    assert strategy.next_due(config, 1200) == 1400 and strategy.next_due(config, 2000) == 3000
    assert strategy.scored(config, 1999) and not strategy.scored(config, 2009)
    assert (
        thinnings(TrainConfig(strategy="budget"))
        == thinnings(TrainConfig(prune_to=0.1, max_steps=900))
        == []
    )


def test_opacities_are_regularized_while_splats_are_thinned_out(device, scene):
    config = settings(
        scene,
        **BUDGET
        | {
            "prune_to": 0.5,
            "prune_to_iter": 50,
            "max_steps": 60,
            "prune_opacity_reg": 0.1,
            "opacity_reg": 0.03,
        },
    )
    strategy, session = STRATEGIES["budget"], open_session(device, config)
    assert (
        strategy.next_due(config, 29) == 30
        and strategy.next_due(replace(config, refine_stop_iter=25), 20) == 25
    )
    opacity = ordered().index("opacity")
    for step, weight in ((29, 0.03), (30, 0.13), (49, 0.13), (50, 0.03)):
        session.step = step
        session._set(session.count(), step)
        session.run(1)
        session.drain()
        told = session.resources["loss_terms"].download(contract.dtype("LossTerms"))[0]["weight"]
        np.testing.assert_allclose([told[opacity], session.weights[opacity]], weight, rtol=1e-6)
    session.destroy()


# -- scores ----------------------------------------------------------------------------------------


def scores_in_float64(session, photo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 5) what the scores of the step just made ought to be, and who is visible. photo: (h, w,
    3) uint8."""
    r = session.resources
    n = session.count()
    splats, colors = (
        r["splats2d"].download(contract.dtype("Splat2D"), n),
        r["colors2d"].download(np.float32, 4 * n).reshape(n, 4).astype(np.float64),
    )
    seen = r["seen"].download(np.uint32, n) != 0
    # front to back, where tiles sort their own splats there is no list of all
    order = (
        r["order"].download(np.uint32, int(seen.sum()))
        if "order" in r
        else np.argsort(r["keys"].download(np.uint32, n), kind="stable")[: int(seen.sum())]
    )
    h, w = photo.shape[:2]
    rendering, d_image = (
        r[name].download()[:h, :w, :3].astype(np.float64) for name in ("target", "d_image")
    )
    grey = np.pad(photo.mean(axis=2) / 255, 1, mode="edge")
    box = sum(grey[y : y + h, x : x + w] for y in range(3) for x in range(3))
    edges, errors = np.abs(9 * grey[1:-1, 1:-1] - box), np.abs(rendering - photo / 255).mean(axis=2)
    x, y = np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5)
    out, T, before = np.zeros((n, 5)), np.ones((h, w)), np.zeros((h, w, 3))
    for g in order:
        dx, dy = splats["mean"][g, 0] - x, splats["mean"][g, 1] - y
        A, k, c = splats["conic"][g].astype(np.float64)
        t = dx + k * dy
        value = np.exp(-0.5 * (A * t * t + c * dy * dy))
        alpha = np.minimum(colors[g, 3] * value, 0.99)
        alpha[alpha < 1 / 255] = 0
        weight = alpha * T
        before += weight[..., None] * colors[g, :3]
        behind = rendering - before
        d_alpha = (d_image * (colors[g, :3] * T[..., None] - behind / (1 - alpha)[..., None])).sum(
            axis=2
        )
        w_here = np.where(alpha > 0, value * d_alpha, 0) * colors[g, 3]
        absolute = (
            np.abs(w_here * A * t).sum() * w / 2,
            np.abs(w_here * (A * t * k + c * dy)).sum() * h / 2,
        )
        out[g] = (
            np.hypot(*absolute),
            1,
            (weight * edges).sum(),
            (weight * errors).sum(),
            weight.sum(),
        )
        T *= 1 - alpha
    return out, seen


WAYS = {
    "hardware": (
        {},
        {"blending": "programmable"},
        {"blending": "programmable", "block": "1x1", "state_format": "float32"},
        {"ordering": "lists", "blending": "fixed"},
        {"segments": 3},
    ),
    "tiled": ({}, {"tile_backward": "gather"}),
}


@pytest.mark.parametrize(
    "rasterizer, way", [(rasterizer, way) for rasterizer, ways in WAYS.items() for way in ways]
)
def test_scores_against_sums_over_pixels(device, scene, rasterizer, way):
    config = settings(scene, **BUDGET, rasterizer=rasterizer, format="float32", test_every=0, **way)
    session = open_session(device, config)
    session.step = 1
    session._set(300, 1)  # the second step draws scores
    session.run(1)
    session.drain()
    view = int(session.resources["frame"].download(contract.dtype("Frame"))[0]["view"])
    loaded = load_scene(scene, test_every=0)
    wanted, seen = scores_in_float64(
        session, np.asarray(loaded.views[loaded.train[view]].load())[..., :3]
    )
    found = session.snapshot().buffers["score_stats"][0]
    assert seen.sum() > 100 and not found[~seen].any()
    for i, name in enumerate(COLUMNS):
        error = np.linalg.norm(found[seen, i] - wanted[seen, i]) / max(
            np.linalg.norm(wanted[seen, i]), 1e-9
        )
        assert error < 0.02, (name, error)
    session.destroy()


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_grows_to_its_budget(on_device, scene, tmp_path):
    metrics = train(settings(scene, tmp_path / "run", **BUDGET, max_steps=60, refine_every=5))
    assert 600 < metrics["splats"] <= 700
    curve = metrics["curve"]["splats"]
    assert all(a <= b for a, b in itertools.pairwise(curve))


def test_a_run_is_thinned_out(on_device, scene, tmp_path):
    metrics = train(
        settings(
            scene,
            tmp_path / "run",
            **BUDGET,
            max_steps=60,
            refine_every=5,
            prune_to=0.5,
            prune_to_iter=50,
        )
    )
    assert (
        max(metrics["curve"]["splats"]) > 600
        and 0.48 <= metrics["splats"] / max(metrics["curve"]["splats"]) < 0.6
    )


def test_a_budget_follows_from_the_photographs(on_device, scene, tmp_path):
    """Where --cap-max says nothing: so many for a photograph, within limits, and never fewer than
    there are at the start."""
    camera = Camera(np.eye(4), np.array([[800, 0, 400], [0, 800, 266], [0, 0, 1.0]]), 800, 533)
    assert [budget_for([camera] * n) for n in (1, 255, 5000)] == [20_000, 994_500, 4_000_000]
    assert budget_for([camera.resized(80, 60)] * 100) == 48_000
    run = Run(settings(scene, tmp_path / "run", **BUDGET | {"cap_max": 0}))
    assert run.config.cap_max == run.session.capacity == 20_000
    run.close()
    crowd = Run(
        settings(
            scene,
            tmp_path / "crowd",
            **BUDGET | {"cap_max": 0},
            init_type="random",
            init_num_pts=30_000,
        )
    )
    assert crowd.config.cap_max == 30_000
    crowd.close()


def test_deterministic_runs_leave_the_same_splats(device, scene):
    states = []
    for _ in range(2):
        session = open_session(
            device, settings(scene, **BUDGET, deterministic=True, rasterizer="auto", refine_every=5)
        )
        for _ in range(4):
            session.run(5)
            session.refine()
        states.append(session.snapshot())
        session.destroy()
    assert states[0].splats > 400 and same_state(*states)


def test_resuming_goes_on_as_if_it_had_not_stopped(device, scene):
    first = open_session(
        device, settings(scene, **BUDGET, deterministic=True, rasterizer="auto", refine_every=5)
    )
    for _ in range(2):
        first.run(5)
        first.refine()
    state = first.snapshot()
    second = open_session(
        device, settings(scene, **BUDGET, deterministic=True, rasterizer="auto", refine_every=5)
    )
    second.restore(state)
    for session in (first, second):
        session.run(5)
        session.refine()
    assert same_state(first.snapshot(), second.snapshot())
    first.destroy()
    second.destroy()
