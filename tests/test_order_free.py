"""Order-free gradients: their mean is the gradient of the oracle, whatever splats lie where; rows that differ in speed alone; devices that order no fragments."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.api import Renderer
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gpu.samples import sample_counts
from hardsplat.raster import fastest, hardware
from hardsplat.raster.orderfree import OrderFree
from hardsplat.variants.atomics import ATOMICS
from hardsplat.variants.blocks import BLOCKS
from hardsplat.variants.estimates import ESTIMATES
from hardsplat.variants.reductions import REDUCTIONS
from hardsplat.variants.shapes import SHAPES
from tests.drawing import BACKGROUND, PARAMETERS, fresh_seed, gaussians_of, runnable
from tests.goldens import random_scene, relative_l2, scene_of
from tests.oracle import render
from tests.stochastic import errors_by_samples
from tests.training import open_session, settings

SIZE = 20, 14


def exact(scene) -> dict:
    """In float64. A pixel is never finished: samples have no such rule, and what it leaves out is below what they resolve."""
    frame = render(**scene_of(scene), background=np.array(BACKGROUND), near=0.01, termination="none")
    return frame.backward(scene["weight"].astype(np.float64))


def estimates(device, scene, n, **options) -> dict:
    """n estimates of each gradient, (n, N, ...)."""
    gaussians, camera = gaussians_of(scene)
    with Renderer(device, format="float32", gradient="order-free", **options) as renderer:
        renderer.forward(gaussians, camera, background=BACKGROUND)
        found = [renderer.backward(scene["weight"]) for _ in range(n)]
    return {name: np.array([each[name] for each in found], np.float64) for name in PARAMETERS}


def check_mean(found, wanted, seed) -> None:
    """Every number by itself: of some hundred standard normal ones none is beyond 6. The slack is float32's, and that of the edge at alpha = 1/255 (test_hardware.py)."""
    for name in PARAMETERS:
        samples, slack = found[name], 2e-3 * np.abs(wanted[name]).max()
        off = np.abs(samples.mean(0) - wanted[name]) - slack
        assert np.isfinite(samples).all() and (off <= 6 * samples.std(0) / np.sqrt(len(samples))).all(), f"{name}, seed {seed}: {off.max()}"


@pytest.mark.parametrize(
    "estimate, samples, block, segments",
    [
        ("pairs", "1", "1x1", 1),
        ("pairs", "1", "2x2", 1),
        ("pairs", "4", "1x1", 1),
        ("pairs", "2", "2x2", 1),
        ("weights", "1", "2x2", 1),
        ("weights", "2", "2x2", 3),
        ("weights", "4", "1x1", 1),
    ],
)
def test_the_error_falls_as_one_over_the_root_of_samples(device, estimate, samples, block, segments):
    """For every class of parameters, and to nothing."""
    if estimate == "pairs" and int(samples) * BLOCKS[block].pixels not in sample_counts(device):
        pytest.skip(f"{device.name} does not draw {samples} samples a pixel in blocks of {block}")
    seed = 4  # a slope from few runs of heavy tails: another scene may miss the limit by chance
    scene = random_scene(seed, 8, *SIZE, 1, overlap=5, opacity=(0.3, 0.9))
    options = {"gradient_estimate": estimate, "gradient_samples": samples, "block": block, "segments": segments}
    found, wanted = estimates(device, scene, 256, gradient_draws=8 if estimate == "pairs" else 2, **options), exact(scene)
    counts = 4 ** np.arange(4)
    for name in PARAMETERS:
        errors = errors_by_samples(found[name].reshape(256, -1), wanted[name].ravel(), counts)
        slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
        assert abs(slope + 0.5) < 0.1, f"{name}, seed {seed}: errors {errors.round(3)}, slope {slope}"
    check_mean(found, wanted, seed)


def one_splat(scene):
    """What is behind is the background, always."""
    for name in ("means", "quats", "scales", "opacities", "sh"):
        scene[name] = scene[name][:1]


def ties(scene):
    """All at one depth: the order is that of their numbers."""
    R, t = scene["w2c"][:3, :3].astype(np.float64), scene["w2c"][:3, 3]
    cam = scene["means"] @ R.T + t
    scene["w2c"] = np.eye(4, dtype=np.float32)  # so that depths are equal to the last bit
    cam[:, 2] = 4.0
    scene["means"] = cam.astype(np.float32)


def opaque_front(scene):
    """What the nearest hide has next to no gradient, and alpha is clamped at 0.99 where they are thickest."""
    scene["opacities"][:] = 0.9999
    scene["scales"] *= 2


def faint(scene):
    """Alphas hardly above 1/255."""
    scene["opacities"][:] = np.linspace(1.02, 3, len(scene["opacities"])) / 255


@pytest.mark.parametrize("estimate, segments", [("pairs", 1), ("weights", 1), ("weights", 3)])
@pytest.mark.parametrize("arrange", [one_splat, ties, opaque_front, faint])
def test_the_mean_is_that_of_the_oracle(device, arrange, estimate, segments):
    seed = fresh_seed()
    scene = random_scene(seed, 8, *SIZE, 0, overlap=6)
    arrange(scene)
    n, draws = {"pairs": (48, 8), "weights": (160, 2)}[estimate]  # faint splats are accepted so rarely that fewer see some of them never
    found, wanted = estimates(device, scene, n, gradient_estimate=estimate, segments=segments, gradient_draws=draws), exact(scene)
    check_mean(found, wanted, seed)
    if arrange is faint and estimate == "pairs":  # by the logarithm of the opacity, an accepted sample counts as much as one of a solid splat: at most two colours' distance
        most = 8 * np.abs(scene["weight"]).sum(2).max()
        accepted = 1 / 4 if max(sample_counts(device)) >= 4 else 1  # of a pixel, at least
        per_pixel = np.abs(found["opacities"] * scene["opacities"]).max() / (accepted * SIZE[0] * SIZE[1])
        assert per_pixel < most


def test_a_segment_of_one_splat_leaves_nothing_to_chance(device):
    """What is in front of a depth segment and behind it is exact."""
    seed = fresh_seed()
    scene = random_scene(seed, 8, *SIZE, 1, overlap=5, opacity=(0.3, 0.9))
    found, wanted = estimates(device, scene, 4, segments=16), exact(scene)
    for name in PARAMETERS:
        assert max(relative_l2(each, wanted[name]) for each in found[name]) < 0.06, f"{name}, seed {seed}"
        assert relative_l2(found[name][0], found[name][1]) < 0.06


def test_weights_are_less_noisy_than_pairs(device):
    """By a multiple, with the same samples: a fragment has its part whether a sample accepts it or not."""
    scene = random_scene(7, 80, *SIZE, 0, overlap=20, opacity=(0.05, 0.9))
    options = {"gradient_samples": "1", "block": "1x1"}
    pairs, one, many = (estimates(device, scene, 32, **options, gradient_estimate=e, segments=n) for e, n in (("pairs", 1), ("weights", 1), ("weights", 16)))
    for name in PARAMETERS:
        noise = [np.sqrt(found[name].var(0).sum()) for found in (pairs, one, many)]
        assert noise[1] < 0.7 * noise[0] and noise[2] < 0.6 * noise[1], f"{name}: {noise}"


def test_rows_that_differ_in_speed_alone_find_the_same(device, monkeypatch):
    """The same samples accept the same splats, whatever outline their fragments come from, and however they are summed."""
    seed = fresh_seed()
    scene = random_scene(seed, 60, 33, 21, 0, overlap=8, anisotropy=8)
    shapes = [{"shape": name} for name in runnable(device, SHAPES)]
    sums = [{"reduction": r, "atomics": a} for r in runnable(device, REDUCTIONS) for a in runnable(device, ATOMICS)]
    for estimate, block in itertools.product(ESTIMATES, BLOCKS):
        if estimate == "pairs" and sample_counts(device)[-1] < BLOCKS[block].pixels:
            continue  # refused
        wanted = estimates(device, scene, 2, gradient_estimate=estimate, block=block)
        alone = [each for each in sums if estimate != "pairs" or not REDUCTIONS[each["reduction"]].quads]
        for options in [*shapes, *alone, {"segments": 3} if estimate == "pairs" else {"least_weight": 1e-9}]:  # weighs nothing
            found = estimates(device, scene, 2, gradient_estimate=estimate, block=block, **options)
            assert max(relative_l2(found[name], wanted[name]) for name in PARAMETERS) < 1e-5, f"{options} {estimate} {block}, seed {seed}"
    wanted = estimates(device, scene, 2, gradient_estimate="pairs")
    monkeypatch.setattr(OrderFree, "front_to_back", False)
    found = estimates(device, scene, 2, gradient_estimate="pairs")
    assert max(relative_l2(found[name], wanted[name]) for name in PARAMETERS) < 1e-5, f"back to front, seed {seed}"


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_draws_are_averaged(device, estimate):
    """Two draws a step halve the variance of one."""
    scene = random_scene(5, 12, *SIZE, 0, overlap=5)
    one, two = (estimates(device, scene, 128, gradient_estimate=estimate, segments=1, gradient_draws=draws) for draws in (1, 2))
    for name in PARAMETERS:
        assert 0.35 < two[name].var(0).sum() / one[name].var(0).sum() < 0.68


def test_what_weighs_little_is_left_out(device):
    seed = 5
    scene = random_scene(seed, 400, 41, 31, 1, overlap=60, opacity=(0.1, 0.9))
    found = {least: estimates(device, scene, 1, segments=16, least_weight=least) for least in (0.0, 1e-9, 0.02)}
    for name in PARAMETERS:
        assert relative_l2(found[1e-9][name], found[0.0][name]) < 1e-5, f"{name}, seed {seed}"
        assert 0 < relative_l2(found[0.02][name], found[0.0][name]) < 0.1, f"{name}, seed {seed}"


def test_options_that_do_not_run_are_said(device, monkeypatch):
    with pytest.raises(UserError, match="--least-weight 0.01 is for order-free gradients"):
        Renderer(device, least_weight=0.01)
    most = max(sample_counts(device))
    if most < 8:
        with pytest.raises(UserError, match=r"--gradient-samples 8: .* draws 1"):
            Renderer(device, gradient="order-free", gradient_estimate="pairs", gradient_samples="8")
    monkeypatch.setattr(hardware, "MOST_RANKED", 7)
    with Renderer(device, gradient="order-free") as renderer, pytest.raises(UserError, match="tell 7 splats apart, not 8"):
        renderer.forward(*gaussians_of(random_scene(1, 8, *SIZE, 0)))
    with pytest.raises(UserError, match="--gradient order-free: .* use --rasterizer hardware"):
        Renderer(device, "tiled", gradient="order-free")
    assert fastest(device, TrainConfig(rasterizer="auto", gradient="order-free")) == "hardware"


class Unordered:
    """Capabilities without any order of fragments."""

    def __init__(self, real):
        self.real = real

    def __contains__(self, name):
        return name not in ("interlock", "raster_order") and name in self.real

    def missing(self, needs):
        return [n for n in needs if n not in self]


def trained(device, config, steps):
    """(mean squared error of the last steps, rows) of a training."""
    batches = []
    session = open_session(device, config, batches)
    session.run(steps)
    session.drain()
    names = dict(session.raster.rows.names)
    session.destroy()
    squared = np.concatenate([batch.records["mse"] for batch in batches])
    return squared[-16:].mean(), names


def test_a_device_that_orders_nothing_trains(device, scene, monkeypatch):
    """By exact gradients from lists where nothing is said about them, and by samples; the error comes down as far as with those of fragments that wait."""
    config = settings(scene, rasterizer="hardware", sh_degree=1, strategy="mcmc", init_opa=0.5)
    by_order, _ = trained(device, config, 100)
    monkeypatch.setattr(device, "capabilities", Unordered(device.capabilities))
    by_lists, names = trained(device, config, 100)
    assert names["ordering"] == "lists"
    found, names = trained(device, replace(config, gradient="order-free"), 100)
    assert names["gradient"] == "order-free" and "ordering" not in names
    first, _ = trained(device, config, 1)
    assert abs(by_lists - by_order) < 0.02 * (first - by_order), (first, by_order, by_lists)
    assert found < by_order + 0.25 * (first - by_order), (first, by_order, found)
