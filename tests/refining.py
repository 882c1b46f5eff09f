"""Passes of densification run on made-up splats, for the tests of both strategies."""

from collections.abc import Callable

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.config import TrainConfig
from hardsplat.gpu.memory import POISON, Buffer
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.base import allocate_projected
from hardsplat.raster.parameters import FIELDS, MOMENTS, Parameters
from hardsplat.train.densify import allocate_densify
from hardsplat.train.schedule import hyper_row

STATE = (*FIELDS, *MOMENTS)
EXTENT = 2.0


class Refining:
    """Command buffers recorded once for one capacity, run on any splats, of which nobody is visible."""

    def __init__(self, device, capacity: int, planes: int, moments: str = "float32"):
        self.device, self.capacity, self.planes = device, capacity, planes
        self.parameters = Parameters(device, capacity, planes, extra=(*MOMENTS, "grow_stats"), moments=moments)
        self.own = {"hyper": Buffer(device, contract.itemsize("hyper"), "hyper"), **allocate_projected(device, capacity, "adam")}
        self.scratch = allocate_densify(device, capacity)
        self.resources = {**self.parameters.all, **self.own, **self.scratch}
        self.recorders: dict[str, Recorder] = {}

    def record(self, name: str, record: Callable[[Recorder], None]) -> None:
        self.recorders[name] = Recorder(self.device, self.resources)
        record(self.recorders[name])
        self.recorders[name].end()

    def run(self, name: str, state: dict, stats: np.ndarray, config: TrainConfig, **frame) -> dict:
        """state and the result: (planes, n, values) by name. stats: (n, 3). frame: fields of that row."""
        n = state["means"].shape[1]
        for buffer in (*self.parameters.resources.values(), *self.scratch.values()):
            buffer.fill(POISON)
        for row in STATE:
            self.parameters.write(row, state[row])
        self.parameters.write("grow_stats", stats[None])
        self.parameters.set_count(n)
        indirect = np.zeros((), contract.dtype("Indirect"))
        indirect["splat_groups"] = -(-n // 256), 1, 1
        self.resources["indirect"].upload(indirect)
        self.resources["seen"].fill(0)
        values = np.zeros((), contract.dtype("Frame"))
        for field, value in frame.items():
            values[field] = value
        self.resources["frame"].upload(values)
        self.resources["hyper"].upload(hyper_row(config, EXTENT))
        self.recorders[name].run_once()
        return {row: self.parameters.read(row, self.splats) for row in STATE}

    @property
    def splats(self) -> int:
        return int(self.parameters.counts["splats"])

    def destroy(self) -> None:
        for part in (*self.recorders.values(), self.parameters, *self.own.values(), *self.scratch.values()):
            part.destroy()


def maker(kind: Callable) -> tuple:
    """Fixtures of a module: `make(capacity, planes, moments)`, which makes one of each, and the end of them all."""
    made = {}

    @pytest.fixture
    def make(device):
        def make(capacity: int, planes: int = 1, moments: str = "float32"):
            key = capacity, planes, moments
            if key not in made:
                made[key] = kind(device, *key)
            return made[key]

        return make

    @pytest.fixture(scope="module", autouse=True)
    def cleanup():
        yield
        for each in made.values():
            each.destroy()
        made.clear()

    return make, cleanup


def random_state(n: int, planes: int, seed: int = 0, moments: str = "float32") -> dict:
    """Splats around the thresholds. The first SH value is the row's number, which all descendants inherit. Moments are numbers that this format has."""
    rng = np.random.default_rng(seed)
    state = {
        "means": rng.normal(size=(1, n, 3)),
        "quats": rng.normal(size=(1, n, 4)),
        "log_scales": np.log(EXTENT) + rng.uniform(np.log(1e-3), np.log(0.3), (1, n, 3)),
        "logit_opacities": rng.uniform(-8, 4, (1, n, 1)),
        "sh": rng.normal(size=(planes, n, 3)),
        **{f"adam_{name}": rng.normal(size=(2 * (planes if name == "sh" else 1), n, width)) for name, width in zip(FIELDS, (3, 4, 3, 1, 3))},
    }
    state["sh"][0, :, 0] = np.arange(n)
    state = {name: values.astype(np.float32) for name, values in state.items()}
    if moments == "bfloat16":
        for name in MOMENTS:
            state[name].view(np.uint32)[:] &= 0xFFFF0000
    return state
