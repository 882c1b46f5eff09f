"""MCMC densification against the float64 reference, and by what must hold whatever was drawn."""

import itertools

import numpy as np
import pytest

from hardsplat.raster.core.projection import Perspective
from hardsplat.raster.core.sinks import adam
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import TrainConfig
from hardsplat.train import run_training as train
from hardsplat.train.strategies.mcmc import Mcmc, grown
from hardsplat.train.strategies.strategy import record_passes
from tests.helpers.refining import EXTENT, FIELDS, MOMENTS, STATE, Refining, maker, random_state
from tests.helpers.training import open_session, settings
from tests.oracle import pcg
from tests.oracle.differences import central
from tests.oracle.mcmc import noise, regularizers, relocated

OWN = dict(strategy="mcmc", prune_opa=0.005)
CONFIG = TrainConfig.of(**OWN)
RATE, STEP = CONFIG.adam.means_lr * EXTENT, 600
NOISE = RATE * CONFIG.densify.mcmc.noise_lr / EXTENT**2
MIN = CONFIG.densify.prune_opa
MCMC = OWN | dict(init_opa=0.5, init_scale=0.1, opacity_reg=0.01, scale_reg=0.01)


class Refiner(Refining):
    def __init__(self, device, capacity: int, planes: int, moments: str = "float32"):
        super().__init__(device, capacity, planes, moments)
        around = Perspective(planes, adam(moments))
        run = self.record_all(Mcmc, moments, around.passes())
        self.record("noise", lambda r: record_passes(r, run, Mcmc.after_adam))
        self.record("adam", lambda r: around.record_backward(r, run, capacity))

    def __call__(self, state: dict, what="densify", config=CONFIG, step=STEP) -> dict:
        stats = np.zeros((state["means"].shape[1], 3))
        return self.run(what, state, stats, config, step=step, bias1=1, bias2=1)


make, cleanup = maker(Refiner)


def opacities(state: dict) -> np.ndarray:
    return 1 / (1 + np.exp(-state["logit_opacities"][0, :, 0].astype(np.float64)))


def tags(state: dict) -> np.ndarray:
    """Returns the row that each splat descends from, which its first SH value holds."""
    return state["sh"][0, :, 0].astype(int)


def live_state(n: int, planes: int, seed: int) -> dict:
    state = random_state(n, planes, seed)
    logits = np.random.default_rng(seed + 1).uniform(-5, 6, (1, n, 1))
    return state | {"logit_opacities": logits.astype(np.float32)}


def mcmc(**changes) -> TrainConfig:
    return TrainConfig.of(**OWN, **changes)


SIZES = [(40, 16), (256, 4), (1000, 1), (5001, 16), (999, 4)]


@pytest.mark.parametrize("n, planes", SIZES)
def test_relocation_against_reference(make, n, planes):
    """Without room to grow, dead rows copy live ones, which share by the published formula."""
    moments = "bfloat16" if n == 999 else "float32"
    state = random_state(n, planes, 1, moments)  # 27 of 100 dead
    before = opacities(state)
    dead = before <= MIN
    assert 0 < dead.sum() < n
    got = make(n, planes, moments)(state)
    source, drawn = tags(got), np.bincount(tags(got)[dead], minlength=n)
    assert not drawn[dead].any() and np.array_equal(source[~dead], np.flatnonzero(~dead))
    multiple = drawn > 0
    for name in ("means", "quats", "sh"):
        assert np.array_equal(got[name], state[name][:, source]), name
    wanted = np.column_stack([before, np.ones(n)])
    wanted[multiple] = [relocated(before[g], drawn[g] + 1) for g in np.flatnonzero(multiple)]
    shared, factors = wanted[source].T
    scales = state["log_scales"][0, source] + np.log(factors)[:, None]
    np.testing.assert_allclose(opacities(got), np.maximum(shared, MIN), rtol=3e-5)
    np.testing.assert_allclose(got["log_scales"][0], scales, atol=2e-6)
    untouched = ~dead & ~multiple
    for name in STATE:
        assert got[name][:, untouched].tobytes() == state[name][:, untouched].tobytes(), name
        assert name not in MOMENTS or not got[name][:, ~untouched].any(), name


# 70 000 are 274 workgroups: sums of sums, and weights of workgroups in fewer bits.
@pytest.mark.parametrize("n", [600, 70_000])
def test_families_look_as_their_first_did(make, n):
    """All descendants of a splat together are as opaque as it was; none has momentum."""
    state = live_state(n, 4, seed=n)
    rng = np.random.default_rng(n)
    state["logit_opacities"][0, rng.choice(n, n // 5, replace=False)] = -9
    before = opacities(state)
    refiner = make(grown(n), 4)
    got = refiner(state)
    family = tags(got)
    through = np.zeros(n)
    np.add.at(through, family, np.log1p(-opacities(got)))
    after = opacities(got)
    clamped = np.zeros(n, bool)
    np.logical_or.at(clamped, family, after < MIN * (1 + 1e-4))
    checked = (before > MIN) & ~clamped
    assert checked.sum() > 0.7 * n
    np.testing.assert_allclose(through[checked], np.log1p(-before[checked]), rtol=2e-4, atol=1e-6)
    members = np.bincount(family, minlength=n)
    assert (members[before <= MIN] == 0).all() and (members[before > MIN] >= 1).all()
    for name in MOMENTS:
        assert not got[name][:, n:].any(), name
        assert not got[name][:, np.flatnonzero(members > 1)].any(), name
    assert got["means"].tobytes() == state["means"][:, family].tobytes()
    again = refiner(state)
    for name in STATE:
        assert got[name].tobytes() == again[name].tobytes(), name
    other = refiner(state, step=STEP + 100)
    assert not np.array_equal(tags(other), family)
    assert not np.array_equal(tags(refiner(state, config=mcmc(seed=1))), family)


def test_rows_that_are_not_numbers_are_relocated(make):
    n = 600
    state = live_state(n, 4, seed=3)
    bad = [20 * i + 5 * j + 3 for i in range(len(FIELDS)) for j in range(3)]
    for row, (name, value) in zip(bad, itertools.product(FIELDS, (np.nan, np.inf, -np.inf))):
        state[name][-1, row, -1] = value
        state[f"adam_{name}"][-1, row, -1] = np.nan
    got = make(grown(n), 4)(state)
    assert all(np.isfinite(got[name]).all() for name in STATE)
    assert not np.isin(tags(got), bad).any()


@pytest.mark.parametrize("seed, faintest", [(5, -5.0), (6, 3.0)])
def test_sampling_is_proportional_to_opacity(make, seed, faintest):
    """Pearson's statistic of the draws, over runs of rows and over classes of opacity."""
    n, cells = 60_000, 100
    state = random_state(n, 1, seed)
    rng = np.random.default_rng(seed)
    # Among the dead; the last workgroups are dead altogether.
    live = np.sort(rng.choice(n - 700, n // 10, replace=False))
    state["logit_opacities"][:] = -20
    state["logit_opacities"][0, live, 0] = rng.uniform(faintest, 4, len(live))
    before = opacities(state)
    got = make(n)(state, config=mcmc(seed=seed))
    dead = before <= MIN
    drawn = np.bincount(tags(got)[dead], minlength=n)[live]
    expected = dead.sum() * before[live] / before[live].sum()
    for order in (np.arange(len(live)), np.argsort(before[live])):
        parts = np.array_split(order, cells)
        seen, wanted = (np.array([values[p].sum() for p in parts]) for values in (drawn, expected))
        statistic = np.sum((seen - wanted) ** 2 / wanted)
        assert abs(statistic - (cells - 1)) < 5 * np.sqrt(2 * cells), statistic


@pytest.mark.parametrize("step", [0, 17])
def test_noise_against_reference(make, step):
    n = 3000
    state = random_state(n, 1, seed=step)
    got = make(n)(state, "noise", step=step)
    scales = np.exp(state["log_scales"][0].astype(float))
    normals = pcg.normals(CONFIG.run.seed, step, n, 4)
    moved = noise(state["quats"][0], scales, opacities(state), normals, NOISE)
    assert np.abs(moved).max() > 1
    error = np.abs(got["means"][0] - (state["means"][0] + moved))
    assert (error <= 2e-5 * np.abs(moved).max(axis=1, keepdims=True) + 1e-6).all()
    for name in set(STATE) - {"means"}:
        assert got[name].tobytes() == state[name].tobytes(), name


def test_noise_has_the_shape_of_the_splat(make):
    """The covariance is Sigma^2 times the rate and the logistic of opacity squared."""
    n = 40_000
    state = random_state(n, 1)
    quat, scale, logit = np.array([0.5, 0.1, -0.7, 0.5]), np.array([0.3, 0.5, 0.8]), -6.0
    state["means"][:] = 0
    state["quats"][:], state["log_scales"][:] = 3 * quat, np.log(scale)
    state["logit_opacities"][:] = logit
    moved = make(n)(state, "noise")["means"][0].astype(np.float64)
    tiled = np.tile(quat, (3, 1)), np.tile(scale, (3, 1)), opacities(state)[:3]
    axes = noise(*tiled, np.eye(3), NOISE).T
    standard = np.linalg.solve(axes, moved.T)
    assert np.abs(standard.mean(axis=1)).max() < 4.5 / np.sqrt(n)
    assert np.abs(np.cov(standard) - np.eye(3)).max() < 5 * np.sqrt(2 / n)
    other = make(n)(state, "noise", step=STEP + 1)["means"][0]
    # Steps are independent.
    assert np.abs(np.corrcoef(moved.T, other.T)[:3, 3:]).max() < 5 / np.sqrt(n)
    state["logit_opacities"][:] = 3
    assert make(n)(state, "noise")["means"].tobytes() == state["means"].tobytes()
    state["logit_opacities"][:] = logit
    off = make(n)(state, "noise", mcmc(noise_lr=0.0))
    assert off["means"].tobytes() == state["means"].tobytes()


@pytest.mark.parametrize("weights", [(0.01, 0.0), (0.0, 0.02), (0.3, 0.7)])
def test_gradients_of_regularizers_by_central_differences(make, weights):
    """Of splats that no view sees: the first moment is (1 - beta1) times the gradient."""
    n = 200
    state = random_state(n, 1)
    state |= {name: np.zeros_like(state[name]) for name in MOMENTS}  # without momentum
    got = make(n)(state, "adam", mcmc(opacity_reg=weights[0], scale_reg=weights[1]))
    names = "log_scales", "logit_opacities"
    given = {name: state[name][0].astype(np.float64) for name in names}
    strength = dict(opacity_reg=weights[0], scale_reg=weights[1] / EXTENT)
    for name in names:
        wanted = central(lambda v: regularizers(**given | {name: v}, **strength), given[name], 1e-4)
        first = got[f"adam_{name}"][0] / (1 - CONFIG.adam.adam_beta1)
        # What differences of doubles leave at 1e-4.
        np.testing.assert_allclose(first, wanted, rtol=2e-5, atol=2e-12, err_msg=name)
    for name in ("adam_means", "adam_quats", "adam_sh"):
        assert not got[name].any(), name


@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_training_improves_and_respects_the_cap(on_device, scene, tmp_path, capfd, rasterizer):
    changes = dict(eval_steps=(10,), max_steps=80, cap_max=400, refine_stop_iter=70)
    changes |= dict(init_scale=0.3, rasterizer=rasterizer)
    metrics = train(settings(scene, tmp_path, **MCMC | changes))
    first, last = (e["psnr"] for e in metrics["evaluations"])
    assert last > first + 1
    splats = metrics["curve"]["splats"]
    wanted, n = [300], 300
    while n < 400:
        wanted.append(n := min(grown(n), 400))
    assert sorted(set(splats)) == wanted and metrics["splats"] == 400
    assert "noise" in metrics["stage_ms"] and "note: growth" not in capfd.readouterr().out


def test_growth_ends_with_memory(device, scene, monkeypatch):
    """Where the device holds no more, host and GPU still agree on the number of splats."""
    monkeypatch.setattr("hardsplat.train.session.store.fitting", lambda *_: 330)
    session = open_session(device, settings(scene, **MCMC))
    for _ in range(4):
        session.run(1)
        session.densify()
        assert session.store.bound == session.store.count() <= 330
    assert session.store.count() == 330 and "330" in session.limit.stopped


def test_the_strategy_brings_its_settings():
    named, preset = load_config(None, {"strategy": "mcmc"}), load_config("mcmc")
    assert named == preset
    own = dict(cap_max=1_000_000, init_opa=0.5, init_scale=0.1, opacity_reg=0.01, scale_reg=0.05)
    own |= dict(refine_start_iter=500, refine_stop_iter=25_000, refine_every=100, noise_lr=5e5)
    assert {name: named.flat()[name] for name in own} == own
    assert named.densify.prune_opa == 0.005
    assert load_config("quick", {"strategy": "mcmc", "init_opa": 0.2}).densify.cap_max == 12_000
    assert load_config(None, {"strategy": "mcmc", "init_opa": 0.2}).start.init_opa == 0.2
    assert load_config(None, {"strategy": "adaptive"}) == load_config("adaptive")
    assert load_config(None, {"strategy": "budget"}) == TrainConfig()
