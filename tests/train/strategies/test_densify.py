"""Densification on the GPU against the float64 reference; rows compared as sets."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.raster.core.sort import BLOCK
from hardsplat.settings.train import TrainConfig
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import RESET_OPACITY
from tests.helpers.refining import (
    EXTENT,
    FIELDS,
    MOMENTS,
    STATE,
    Refining,
    assert_same_set,
    maker,
    opaque,
    random_state,
)
from tests.oracle import pcg
from tests.oracle.densify import densify

CONFIG = TrainConfig.of(strategy="adaptive", reset_every=3000)
EARLY, LATE = 600, 3100  # before and after the first opacity reset


class Densifier(Refining):
    def __init__(self, device, capacity: int, planes: int, moments: str = "float32"):
        super().__init__(device, capacity, planes, moments)
        self.record_all(STRATEGIES["adaptive"], moments)

    def __call__(self, state: dict, stats, step=EARLY, config=CONFIG, what="densify") -> dict:
        return self.run(what, state, stats, config, step=step)


make, cleanup = maker(Densifier)


def random_stats(n: int, seed: int = 1) -> np.ndarray:
    """(n, 3) gradient sums, views, radii; a fifth of the splats was never seen."""
    rng = np.random.default_rng(seed)
    views = rng.integers(0, 5, n)
    columns = [rng.uniform(0, 4e-4, n) * views, views, rng.uniform(0, 40, n)]
    return np.stack(columns, axis=1).astype(np.float32)


def reference(state: dict, stats: np.ndarray, step: int = EARLY, config=CONFIG) -> dict:
    # (n, planes, values)
    wide = {name: np.moveaxis(v.astype(np.float64), 0, 1) for name, v in state.items()}
    params = {name: wide[name][:, 0] for name in ("means", "quats")} | {"sh": wide["sh"]}
    params["scales"] = np.exp(wide["log_scales"][:, 0])
    n, seed = len(stats), config.run.seed
    children = np.stack([pcg.normals(seed, step, n, draw) for draw in (1, 2)], axis=1)
    params["opacities"] = 1 / (1 + np.exp(-wide["logit_opacities"][:, 0, 0]))
    out, moments, _, _ = densify(
        params,
        {name: wide[name] for name in MOMENTS},
        *stats.astype(np.float64).T,
        EXTENT,
        children,
        grad_threshold=config.densify.adaptive.grow_grad2d,
        percent_dense=config.densify.adaptive.grow_scale3d,
        min_opacity=config.densify.prune_opa,
        prune_large=bool(config.densify.reset_every) and step > config.densify.reset_every,
        max_screen_radius=contract.FLOATS["PRUNE_SCREEN"] or np.inf,
    )
    opacities = out["opacities"][:, None, None]
    rows = {name: out[name][:, None] for name in ("means", "quats")} | {"sh": out["sh"]}
    rows["log_scales"] = np.log(out["scales"])[:, None]
    rows["logit_opacities"] = np.log(opacities / (1 - opacities))
    return {name: np.moveaxis(values, 0, 1) for name, values in (rows | moments).items()}


def assert_sizes(densifier: Densifier, splats: int, wanted: int) -> None:
    counts = densifier.parameters.counts
    found = tuple(counts[name] for name in ("splats", "wanted", "capacity"))
    assert found == (splats, wanted, densifier.capacity)
    indirect = densifier.resources["indirect"].download(contract.dtype("Indirect"))[0]
    assert tuple(indirect["splat_groups"]) == (-(-splats // 256), 1, 1)
    assert tuple(indirect["splat_blocks"]) == (-(-splats // BLOCK), 1, 1)
    assert (densifier.parameters.read("grow_stats", splats) == 0).all()


def growing(stats: np.ndarray, config: TrainConfig = CONFIG) -> np.ndarray:
    least = np.float32(config.densify.adaptive.grow_grad2d)
    return (stats[:, 1] > 0) & (stats[:, 0] >= least * stats[:, 1])


SIZES = [(1, 16), (255, 1), (256, 4), (257, 16), (1000, 9), (5000, 1), (5000, 16)]
SIZES = [*((*size, "float32") for size in SIZES), (257, 16, "bfloat16"), (4999, 4, "bfloat16")]


@pytest.mark.parametrize("step", [EARLY, CONFIG.densify.reset_every, LATE])
@pytest.mark.parametrize("n, planes, moments", SIZES)
def test_against_reference(make, n, planes, moments, step):
    state = random_state(n, planes, seed=n, moments=moments)
    stats = random_stats(n, seed=n + 1)
    densifier = make(2 * n, planes, moments)
    got, want = densifier(state, stats, step), reference(state, stats, step)
    assert_same_set(got, want)
    assert_sizes(densifier, want["means"].shape[1], n + growing(stats).sum())


def test_two_levels_of_sums_and_repeats_bit_for_bit(make):
    # 274 workgroups, more than one workgroup adds up at once; 100 thousand rows after growth
    n = 70_000
    state, stats = random_state(n, 1), random_stats(n)
    densifier = make(2 * n)
    got = densifier(state, stats, LATE)
    assert_same_set(got, reference(state, stats, LATE))
    again = densifier(state, stats, LATE)
    for name in STATE:
        assert got[name].tobytes() == again[name].tobytes(), name


@pytest.mark.parametrize("room", [0, 1, 100, 300])
def test_growth_stops_at_capacity(make, room):
    """The first splats get the rows there are; others stay, with their radius."""
    n = 2000
    state, stats = random_state(n, 4), random_stats(n)
    grows = growing(stats)
    assert grows.sum() > 300
    densifier = make(n + room, 4)
    got = densifier(state, stats, LATE)
    stats[np.flatnonzero(grows)[room:], 0] = 0
    want = reference(state, stats, LATE)
    assert_same_set(got, want)
    assert_sizes(densifier, want["means"].shape[1], n + grows.sum())


@pytest.mark.parametrize("n", [0, 1000])
def test_all_pruned(make, n):
    state, stats, densifier = random_state(n, 1), random_stats(n), make(2 * n or 64)
    state["logit_opacities"][:] = -20
    densifier(state, stats)
    assert_sizes(densifier, 0, n + growing(stats).sum())


def test_rows_that_are_not_numbers_are_pruned(make):
    n = 600
    state, stats = opaque(n, 4), random_stats(n)
    bad = {}
    for i, name in enumerate(FIELDS):
        for j, value in enumerate((np.nan, np.inf, -np.inf)):
            bad[20 * i + 5 * j + 3] = (name, value)
    clean = np.setdiff1d(np.arange(n), list(bad))
    stats[clean, 0] = 0
    stats[list(bad), :2] = 1, 1  # they would grow
    want = reference({name: v[:, clean] for name, v in state.items()}, stats[clean], LATE)
    for row, (name, value) in bad.items():
        state[name][-1, row, -1] = value
    assert_same_set(make(2 * n, 4)(state, stats, LATE), want)


RESETS = [(0, "float32"), (1, "float32"), (1000, "float32"), (999, "bfloat16")]


@pytest.mark.parametrize("n, moments", RESETS)
def test_opacity_reset(make, n, moments):
    state, stats = random_state(n, 1, moments=moments), random_stats(n)
    got = make(2 * n + 64, moments=moments)(state, stats, what="reset")
    ceiling = np.log(RESET_OPACITY / (1 - RESET_OPACITY))
    wanted = np.minimum(state["logit_opacities"], ceiling)
    np.testing.assert_allclose(got["logit_opacities"], wanted, rtol=1e-6)
    assert (got["adam_logit_opacities"] == 0).all()
    for name in set(STATE) - {"logit_opacities", "adam_logit_opacities"}:
        assert got[name].tobytes() == state[name].tobytes(), name
