"""Step schedules: against float64, and as functions of seed and step alone."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.sort import SORT_PASSES
from hardsplat.settings.train import TrainConfig
from hardsplat.step import begin
from hardsplat.step.begin import SCHEDULE_PASSES, rate_plans, view_order
from hardsplat.step.loss import loss_terms
from hardsplat.tables import quantities

HISTORY = contract.CONSTANTS["HISTORY"]
EXTENT = 3.7
STEPS = [0, 1, 2, 9, 99, 998, 999, 1000, 2999, 3000, 4095, 4096, 7000, 14999, 24999, 29999]
STEPS += [30000, 1_000_000]


class Steps:
    """begin_step and end_step recorded once."""

    def __init__(self, device, views: int = 5):
        planes = quantities.plane_count("splat")
        names = "step_settings frame camera moved_planes counts indirect loss_terms term_sums"
        sizes = {"views": views, "rate_plans": planes, "rates": planes}
        sizes |= dict.fromkeys(names.split(), 1)
        sizes |= {"schedule": HISTORY, "history": HISTORY}
        self.resources = {k: Buffer(device, n * contract.itemsize(k), k) for k, n in sizes.items()}
        run = build_all(device, [*SCHEDULE_PASSES, *SORT_PASSES[:1]])
        self.begin, self.end = (Recorder(device, self.resources) for _ in range(2))
        begin.record_begin(self.begin, run)
        self.begin.run(run["sizes"], threads=(1,))
        begin.record_end(self.end, run)
        self.begin.end()
        self.end.end()
        rng, words = np.random.default_rng(0), contract.itemsize("views") // 4
        cameras = rng.integers(0, 2**20, (views, words)).astype(np.uint32)
        self.cameras = cameras.view(contract.dtype("Camera")).reshape(-1)
        self.schedule = rng.integers(0, views, (HISTORY, 2)).astype(np.uint32)
        self.schedule[:, 1] = np.arange(HISTORY) * 1000
        self.resources["views"].upload(self.cameras)
        self.resources["schedule"].upload(self.schedule)

    def __call__(
        self, step: int, config: TrainConfig, beta2: float = begin.BETA2
    ) -> tuple[np.void, np.void]:
        """(frame, camera) of a step."""
        frame = np.zeros((), contract.dtype("Frame"))
        frame["step"] = step
        self.resources["frame"].upload(frame)
        c, planes = config, quantities.plane_count("splat")
        told = contract.struct(
            "StepSettings",
            seed=c.run.seed,
            beta1=c.adam.adam_beta1,
            beta2=beta2,
            background_mode=begin.BACKGROUND_MODES[c.scene.background],
            splat_planes=planes,
            max_sh_degree=c.model.sh_degree,
            sh_degree_interval=c.model.sh_degree_interval,
            near_plane=c.scene.near_plane,
        )
        self.resources["step_settings"].upload(told)
        self.resources["rate_plans"].upload(rate_plans(config.flat(), EXTENT)[:planes])
        terms = loss_terms(config.flat(), EXTENT, sh_degree=c.model.sh_degree)
        self.resources["loss_terms"].upload(terms)
        counts = np.zeros((), contract.dtype("Counts"))
        counts["splats"] = 70_000
        self.resources["counts"].upload(counts)
        self.begin.run_once()
        return self.read("frame"), self.read("camera")

    @property
    def rates(self) -> np.ndarray:
        """(planes,) of the last step."""
        return self.resources["rates"].download(np.float32)

    def read(self, name: str) -> np.void:
        return self.resources[name].download(contract.dtype(contract.BUFFERS[name].type))[0]

    def destroy(self) -> None:
        for part in (self.begin, self.end, *self.resources.values()):
            part.destroy()


@pytest.fixture(scope="module")
def steps(module_device):
    steps = Steps(module_device)
    yield steps
    steps.destroy()


@pytest.mark.parametrize("step", STEPS)
def test_rates_against_float64(steps, step):
    config = TrainConfig()
    frame, _ = steps(step, config)
    t = min(step / config.run.max_steps, 1.0)
    degree = min(step // config.model.sh_degree_interval, 3)
    wanted = np.zeros(20)
    first, last = np.log((config.adam.means_lr, config.adam.means_lr_final))
    wanted[0] = EXTENT * np.exp((1 - t) * first + t * last)
    # Of the part in which rates fall.
    late = max(t - config.adam.rates_hold, 0) / (1 - config.adam.rates_hold)
    c = config.adam
    first = c.quats_lr, c.scales_lr, c.opacities_lr, c.sh0_lr
    wanted[1:5] = config.adam.rates_final**late * np.array(first)
    if step % config.model.shN_every == 0:
        wanted[5 : 4 + (degree + 1) ** 2] = (
            config.adam.rates_final**late * config.model.shN_lr * config.model.shN_every
        )
    np.testing.assert_allclose(steps.rates, wanted, rtol=1e-5)
    moved = steps.read("moved_planes")
    assert moved["at"][: moved["count"]].tolist() == np.flatnonzero(wanted).tolist()
    assert steps.read("indirect")["planes"].tolist() == [moved["count"], -(-70_000 // 256), 1]
    assert frame["sh_degree"] == degree
    assert frame["near_plane"] == np.float32(config.scene.near_plane)
    assert frame["step"] == step


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5), (0.99, 0.9999), (0.3, 0.99999)])
def test_bias_corrections_against_float64(steps, step, betas):
    """Of the betas as float32, which is what Adam averages with."""
    frame, _ = steps(step, TrainConfig.of(adam_beta1=betas[0]), betas[1])
    for name, beta in zip(("bias1", "bias2"), betas):
        log = np.log(np.float64(np.float32(beta))) if beta else -np.inf
        assert frame[name] == pytest.approx(-np.expm1((step + 1) * log), rel=1e-6)


@pytest.mark.parametrize("step", [0, 3, HISTORY - 1, HISTORY, 3 * HISTORY + 17])
def test_camera_and_photograph_of_the_schedule(steps, step):
    _, camera = steps(step, TrainConfig())
    view, photo = steps.schedule[step % HISTORY]
    wanted = steps.cameras[view].copy()
    wanted["photo"] = photo
    assert camera.tobytes() == wanted.tobytes()
    frame = steps.read("frame")
    assert (frame["view"], frame["camera"]) == (view, wanted["number"])


def test_backgrounds(steps):
    assert (steps(7, TrainConfig.of(background="black"))[0]["background"] == 0).all()
    assert (steps(7, TrainConfig.of(background="white"))[0]["background"] == 1).all()

    def colours(seed, count=300):
        config = TrainConfig.of(background="random", seed=seed)
        return np.stack([steps(s, config)[0]["background"] for s in range(count)])

    first = colours(1)
    assert (first >= 0).all() and (first < 1).all()
    assert len(np.unique(first, axis=0)) == len(first)
    assert np.array_equal(first[:30], colours(1, 30))
    assert not np.isin(first, colours(2, 30)).any()
    assert np.abs(first.mean(axis=0) - 0.5).max() < 0.06  # 3.5 standard errors
    assert np.abs(np.corrcoef(first.T) - np.eye(3)).max() < 0.2
    assert np.abs(np.corrcoef(first[1:].T, first[:-1].T)[:3, 3:]).max() < 0.2


def test_warm_up_and_end(steps):
    """A rate rises linearly over its first steps, and is 0 from the step where it ends."""
    own = dict(first=0.5, last=0.5, until=1, every=1, warm_up=4, ends=5)
    plans = np.array([contract.struct("RatePlan", **own)] * 20, contract.dtype("RatePlan"))
    found = []
    for step in range(6):
        steps(step, TrainConfig())
        steps.resources["rate_plans"].upload(plans)
        steps.begin.run_once()
        found.append(steps.rates[7])
    np.testing.assert_allclose(found, [0.125, 0.25, 0.375, 0.5, 0.5, 0], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 150])
def test_view_order_visits_every_view_once_an_epoch(n):
    order = view_order(3, 0, 4 * n, n).reshape(4, n)
    assert (np.sort(order, axis=1) == np.arange(n)).all()
    if n > 2:
        assert len(np.unique(order, axis=0)) == 4
        assert not np.array_equal(view_order(6, 0, 4 * n, n).reshape(4, n), order)
