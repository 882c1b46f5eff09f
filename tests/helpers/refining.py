"""Passes of densification run on made-up splats, for the tests of both strategies."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.allocation import POISON
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.projection import Perspective, allocate_drawn
from hardsplat.raster.core.sinks import adam, plane_groups
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import adam_settings, rate_plans
from hardsplat.step.loss import loss_terms, term_sums_bytes
from hardsplat.tables import quantities
from hardsplat.train.strategies.strategy import (
    Strategy,
    allocate_refine,
    record_passes,
    refine_settings,
)
from tests.helpers.tables import COMMON
from tests.helpers.training import strategy_of

# As the float64 references have them: all bands of colour under one name, moments first and second
# by turns.
FIELDS = ("means", "quats", "log_scales", "logit_opacities", "sh")
MOMENTS = tuple(f"adam_{name}" for name in FIELDS)
STATE = (*FIELDS, *MOMENTS)
EXTENT = 2.0


def as_planes(state: dict) -> dict:
    """What `Parameters.write` takes, from a state of the references."""
    out = {}
    for name in FIELDS:
        moments = np.stack([state[f"adam_{name}"][0::2], state[f"adam_{name}"][1::2]])
        parts = {"sh0": slice(0, 1), "shN": slice(1, None)} if name == "sh" else {name: slice(None)}
        for part, planes in parts.items():
            out[part], out[f"adam_{part}"] = state[name][planes], moments[:, planes]
    return out


def as_state(planes: dict) -> dict:
    """A state of the references, from what `Parameters.read` returns."""
    out = {name: planes[name] for name in STATE if not name.endswith("sh")}
    out["sh"] = np.concatenate([planes["sh0"], planes["shN"]])
    out["adam_sh"] = np.concatenate([planes["adam_sh0"], planes["adam_shN"]], axis=1)
    for name in MOMENTS:  # first and second of each plane by turns
        out[name] = np.concatenate(list(np.moveaxis(out[name], 0, 1)))
    return out


class Refining:
    """Command buffers recorded once for one capacity, run on any splats, none visible."""

    def __init__(self, device, capacity, planes, moments="float32", statistics="grow_stats"):
        self.device, self.capacity = device, capacity
        self.planes, self.statistics = planes, statistics
        degree, kept = round(planes**0.5) - 1, (statistics,)
        self.parameters = Parameters(device, capacity, degree, moments, "written", statistics=kept)
        self.own = {}
        for name in ("refine_settings", "adam_settings", "loss_terms", "rates", "moved_planes"):
            n = quantities.plane_count("splat") if name == "rates" else 1
            self.own[name] = Buffer(device, n * contract.itemsize(name), name)
        self.terms = loss_terms(TrainConfig().flat(), EXTENT, sh_degree=degree, capacity=capacity)
        self.own["term_sums"] = Buffer(device, term_sums_bytes(self.terms), "term_sums")
        self.own |= allocate_drawn(device, Perspective(planes, adam(moments)).nbytes(capacity))
        self.scratch = allocate_refine(device, capacity)
        self.resources = {**self.parameters.resources, **self.own, **self.scratch}
        self.recorders: dict[str, Recorder] = {}

    def record(self, name: str, record: Callable[[Recorder], None]) -> None:
        self.recorders[name] = Recorder(self.device, self.resources)
        record(self.recorders[name])
        self.recorders[name].end()

    def record_all(self, strategy: type[Strategy], moments: str, more=()) -> dict:
        """What a strategy does between steps, by name; its passes and more ones."""
        run = build_all(self.device, [*strategy.passes(moments, 4), *more])
        for name, passes in strategy.actions.items():
            self.record(name, partial(record_passes, run=run, names=passes))
        return run

    def run(self, name: str, state: dict, stats: np.ndarray, config: TrainConfig, **frame) -> dict:
        """state and the result: (planes, n, values) by name. stats: (n, numbers) of `statistics`,
        statistics. frame: fields of that struct; all planes move, by their
        first rates."""
        n, rows = state["means"].shape[1], self.parameters.resources[self.statistics]
        for buffer in (*self.parameters._all_planes(), rows, *self.scratch.values()):
            buffer.fill(POISON)
        self.scratch["ticket_counts"].fill(0)  # as every refinement leaves them
        for quantity, planes in as_planes(state).items():
            self.parameters.write(quantity, planes)
        rows = np.zeros((1, n, contract.itemsize(self.statistics) // 4), np.float32)
        rows[0, :, : stats.shape[1]] = stats
        self.parameters.write(self.statistics, rows)
        self.parameters.set_count(n)
        indirect = np.zeros((), contract.dtype("Indirect"))
        indirect["splat_groups"] = -(-n // 256), 1, 1
        in_use = quantities.plane_count("splat") - 16 + self.planes
        indirect["planes"] = plane_groups(in_use, n)
        self.resources["indirect"].upload(indirect)
        self.resources["seen"].fill(0)
        values = np.zeros((), contract.dtype("Frame"))
        values["seed"] = config.run.seed
        for field, value in frame.items():
            values[field] = value
        self.resources["frame"].upload(values)
        moved = np.zeros((), contract.dtype("PlaneList"))
        moved["count"], moved["at"] = in_use, np.arange(64)
        rates = rate_plans(config.flat(), EXTENT)["first"][: quantities.plane_count("splat")].copy()
        rates[rates == 0] = np.finfo(np.float32).tiny  # a rate of 0 would leave the moments at rest
        degree = self.parameters.sh_degree
        terms = loss_terms(config.flat(), EXTENT, sh_degree=degree, capacity=self.capacity)
        structs = {"loss_terms": terms, "rates": rates, "moved_planes": moved}
        structs["refine_settings"] = refine_settings(strategy_of(config), EXTENT)
        structs["adam_settings"] = adam_settings(config.adam.adam_beta1)
        for each, struct in structs.items():
            self.resources[each].upload(struct)
        self.recorders[name].run_once()
        return self.state()

    def state(self) -> dict:
        """Of the splats as they are now."""
        names = (*COMMON, *(f"adam_{name}" for name in COMMON))
        return as_state({name: self.parameters.read(name, self.splats) for name in names})

    @property
    def splats(self) -> int:
        return int(self.parameters.counts["splats"])

    def destroy(self) -> None:
        parts = self.recorders.values(), self.own.values(), self.scratch.values()
        for part in (self.parameters, *itertools.chain(*parts)):
            part.destroy()


def maker(kind: Callable) -> tuple:
    """Returns two fixtures: `make(capacity, planes, moments)`, and the end of all it made."""
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
    def cleanup(module_device):  # before which it ends
        yield
        for each in made.values():
            each.destroy()
        made.clear()

    return make, cleanup


def random_state(n: int, planes: int, seed: int = 0, moments: str = "float32") -> dict:
    """Splats around the thresholds; SH begins with the row's number, which is inherited."""
    rng = np.random.default_rng(seed)
    state = {
        "means": rng.normal(size=(1, n, 3)),
        "quats": rng.normal(size=(1, n, 4)),
        "log_scales": np.log(EXTENT) + rng.uniform(np.log(1e-3), np.log(0.3), (1, n, 3)),
        "logit_opacities": rng.uniform(-8, 4, (1, n, 1)),
        "sh": rng.normal(size=(planes, n, 3)),
    }
    for name in FIELDS:
        shape = state[name].shape
        state[f"adam_{name}"] = rng.normal(size=(2 * shape[0], *shape[1:]))
    state["sh"][0, :, 0] = np.arange(n)
    state = {name: values.astype(np.float32) for name, values in state.items()}
    if moments == "bfloat16":
        for name in MOMENTS:
            state[name].view(np.uint32)[:] &= 0xFFFF0000
    return state


def opaque(n: int, planes: int = 1, seed: int = 0, moments: str = "float32") -> dict:
    """A random_state of which no splat is faint."""
    state = random_state(n, planes, seed, moments)
    return state | {"logit_opacities": np.abs(state["logit_opacities"])}


def arranged(state: dict) -> dict:
    """Rows by the splat they came from, then by momentum (original before clone), place."""
    x, momentum, source = (state[name][0, :, 0] for name in ("means", "adam_means", "sh"))
    order = np.lexsort((x, -np.abs(momentum), source))
    return {name: values[:, order] for name, values in state.items()}


def assert_same_set(got: dict, want: dict) -> None:
    got, want = arranged(got), arranged(want)
    for name in STATE:
        assert got[name].shape == want[name].shape, name
        np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-5, err_msg=name)
