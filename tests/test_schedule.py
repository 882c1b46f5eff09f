"""Step schedules: against float64, and as functions of seed and step alone."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.config import TrainConfig
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import build_all
from hardsplat.gpu.recorder import Recorder
from hardsplat.train.schedule import SCHEDULE_PASSES, hyper_row, record_begin, record_end, view_order

HISTORY = contract.CONSTANTS["HISTORY"]
EXTENT = 3.7
STEPS = (0, 1, 2, 9, 99, 998, 999, 1000, 2999, 3000, 4095, 4096, 7000, 14999, 29999, 30000, 1_000_000)


class Steps:
    """begin_step and end_step recorded once."""

    def __init__(self, device, views: int = 5):
        sizes = {"hyper": 1, "frame": 1, "camera": 1, "views": views, "schedule": HISTORY}
        self.resources = {name: Buffer(device, n * contract.itemsize(name), name) for name, n in sizes.items()}
        run = build_all(device, SCHEDULE_PASSES)
        self.begin, self.end = Recorder(device, self.resources), Recorder(device, self.resources)
        record_begin(self.begin, run)
        record_end(self.end, run)
        self.begin.end()
        self.end.end()
        self.cameras = np.random.default_rng(0).integers(0, 2**20, (views, contract.itemsize("views") // 4)).astype(np.uint32)
        self.cameras = self.cameras.view(contract.dtype("Camera")).reshape(-1)
        self.schedule = np.random.default_rng(1).integers(0, views, (HISTORY, 2)).astype(np.uint32)
        self.schedule[:, 1] = np.arange(HISTORY) * 1000
        self.resources["views"].upload(self.cameras)
        self.resources["schedule"].upload(self.schedule)

    def __call__(self, step: int, config: TrainConfig) -> tuple[np.void, np.void]:
        """(frame, camera) of a step."""
        frame = np.zeros((), contract.dtype("Frame"))
        frame["step"] = step
        self.resources["frame"].upload(frame)
        self.resources["hyper"].upload(hyper_row(config, EXTENT))
        self.begin.run_once()
        return self.read("frame"), self.read("camera")

    def read(self, name: str) -> np.void:
        return self.resources[name].download(contract.dtype(contract.ROWS[name].type))[0]

    def destroy(self) -> None:
        for part in (self.begin, self.end, *self.resources.values()):
            part.destroy()


@pytest.fixture(scope="module")
def steps(session_device):
    steps = Steps(session_device)
    yield steps
    steps.destroy()


@pytest.mark.parametrize("step", STEPS)
def test_rates_against_float64(steps, step):
    config = TrainConfig()
    frame, _ = steps(step, config)
    t = min(step / config.max_steps, 1.0)
    rate = EXTENT * np.exp((1 - t) * np.log(config.means_lr) + t * np.log(config.means_lr_final))
    assert frame["lr_means"] == pytest.approx(rate, rel=1e-5)
    assert frame["sh_degree"] == min(step // 1000, 3)
    assert frame["sh_rests"] == (step % config.shN_every != 0)
    assert frame["near_plane"] == np.float32(config.near_plane)
    assert frame["step"] == step


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5), (0.99, 0.9999), (0.3, 0.99999)])
def test_bias_corrections_against_float64(steps, step, betas):
    """Of the betas as float32, which is what Adam averages with."""
    frame, _ = steps(step, TrainConfig(adam_beta1=betas[0], adam_beta2=betas[1]))
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


def test_plain_backgrounds(steps):
    assert (steps(7, TrainConfig(background="black"))[0]["background"] == 0).all()
    assert (steps(7, TrainConfig(background="white"))[0]["background"] == 1).all()


def test_random_backgrounds(steps):
    def colours(seed, count=300):
        return np.stack([steps(s, TrainConfig(background="random", seed=seed))[0]["background"] for s in range(count)])

    first = colours(1)
    assert (first >= 0).all() and (first < 1).all()
    assert len(np.unique(first, axis=0)) == len(first)
    assert np.array_equal(first, colours(1))
    assert not np.isin(first, colours(2)).any()
    assert np.abs(first.mean(axis=0) - 0.5).max() < 0.06  # 3.5 standard errors
    assert np.abs(np.corrcoef(first.T) - np.eye(3)).max() < 0.2
    assert np.abs(np.corrcoef(first[1:].T, first[:-1].T)[:3, 3:]).max() < 0.2


def test_step_counts_up(steps):
    steps(41, TrainConfig())
    before = steps.read("frame")
    for _ in range(3):
        steps.end.run_once()
    after = steps.read("frame")
    assert after["step"] == 44
    after["step"] = 41
    assert after.tobytes() == before.tobytes()


def test_zero_steps_of_schedule(steps):
    frame, _ = steps(0, TrainConfig(max_steps=1, sh_degree=0))
    assert np.isfinite(frame["lr_means"]) and frame["sh_degree"] == 0


def test_hyper_row_holds_the_config():
    config = TrainConfig(background="random", seed=2**32 - 1, prune_screen=0.0, means_lr=1e-3, opacity_reg=0.01, scale_reg=0.02)
    row = hyper_row(config, EXTENT)
    assert row["background_mode"] == 2 and row["seed"] == 2**32 - 1
    assert row["lr_means"] == np.float32(1e-3 * EXTENT) and row["lr_means_final"] == np.float32(1.6e-6 * EXTENT)
    assert row["lr_sh0"] == np.float32(config.sh0_lr) and row["lr_shN"] == pytest.approx(config.shN_lr * config.shN_every, rel=1e-6)
    assert row["eps"] == np.float32(1e-15) and row["beta2"] == np.float32(0.999)
    assert (row["min_opacity"], row["noise_lr"], row["opacity_reg"], row["scale_reg"]) == tuple(np.float32((0.005, 5e5 / EXTENT**2, 0.01, 0.02 / EXTENT)))
    zeros = {name for name in row.dtype.names if row[name] == 0}
    assert zeros == {"prune_screen"}, "a field was left out"


@pytest.mark.parametrize("n", [1, 2, 7, 150])
def test_view_order_visits_every_view_once_an_epoch(n):
    order = view_order(3, 0, 4 * n, n).reshape(4, n)
    assert (np.sort(order, axis=1) == np.arange(n)).all()
    if n > 2:
        assert len(np.unique(order, axis=0)) == 4


def test_view_order_is_random_access():
    n, whole = 13, view_order(5, 0, 200, 13)
    for start, count in [(0, 0), (1, 1), (12, 2), (13, 50), (150, 50)]:
        assert np.array_equal(view_order(5, start, count, n), whole[start : start + count])
    assert not np.array_equal(view_order(6, 0, 200, n), whole)
