"""Averages of the splats over the last steps of a run."""

from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory
from hardsplat.contract.footprint import averages
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.model.between import along, neighbours
from hardsplat.raster import shares
from hardsplat.raster.core.parameters import Parameters
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job import schedule
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.session.store import GONE
from hardsplat.train.strategies import STRATEGIES
from tests.helpers.training import open_session, same_state, settings


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Random splats fill images beyond the last photograph: they stay."""
    monkeypatch.setattr(schedule, "SAMPLES", 3)
    monkeypatch.setattr(shares, "HIDES_BEYOND", np.inf)


def sampled(session, values: list | None = None) -> None:
    """Goes on to the end with samples where they are due. values: gets the splats of each."""
    when = session.schedule.averaging
    while session.step < session.schedule.steps:
        session.run(when.next_sample(session.step) - session.step)
        if when.is_sample(session.step):
            session.average()
            if values is not None:
                values.append(session.store.values())


RUN = dict(max_steps=20, average_steps=12, strategy="none")


def test_the_end_is_the_mean_of_the_samples(device, scene):
    session = open_session(device, settings(scene, **RUN, sh_degree_interval=1))
    samples: list = []
    sampled(session, samples)
    on_device, each = device.usage.on_device, averages(session.job.config.model.sh_degree)
    of_all = {name: int(need.total) * session.store.capacity for name, need in each.items()}
    sizes = {name: device.usage.by_name[name] for name in each}
    assert sizes == pytest.approx(of_all, rel=0.1)  # in the host's memory
    session.finish()
    assert device.usage.on_device == on_device and not {*each} & {*device.usage.by_name}
    found = session.store.values()
    assert not found.pop("sky").size
    assert len(samples) == 4  # after steps 8, 12, 16 and 20
    for name, values in found.items():
        wanted = np.mean([s[name].astype(np.float64) for s in samples], axis=0)
        np.testing.assert_allclose(values, wanted, rtol=3e-6, atol=1e-6, err_msg=name)
        assert not np.array_equal(values, samples[-1][name]), name


def test_a_resumed_run_ends_alike(device, scene, tmp_path):
    config = settings(scene, **RUN, rasterizer="tiled", deterministic=True)
    longer = settings(scene, **RUN | {"max_steps": 60})
    first, second, third = (open_session(device, of) for of in (config, config, longer))
    for step in (8, 12, 14):
        first.run(step - first.step)
        if step != 14:
            first.average()
    path = checkpoints.path_of(tmp_path, 14)
    checkpoints.save(path, first.snapshot())
    loaded = checkpoints.load(path)
    assert loaded.buffers["average_means"].any()
    second.restore(loaded)
    for session in (first, second):
        sampled(session)
        session.finish()
    ends = [session.snapshot() for session in (first, second)]
    assert same_state(*ends) and "average_means" not in ends[0].buffers
    third.restore(loaded)  # its last steps are others
    assert not third.store.parameters.averaged


@pytest.mark.parametrize("resumed", [False, True])
def test_without_memory_for_averages_a_run_ends_as_its_last_step_leaves_it(
    device, scene, monkeypatch, capsys, resumed
):
    config = settings(scene, **RUN)
    session = open_session(device, config)
    if resumed:
        session.run(8)
        session.average()
        state, session = session.snapshot(), open_session(device, config)
    full = Mock(side_effect=OutOfMemory("12 MB do not fit"))
    monkeypatch.setattr(Parameters, "begin_averages", full)
    if resumed:
        session.restore(state)
    sampled(session)
    before = session.snapshot()
    session.finish()
    assert session.step == 20 and same_state(before, session.snapshot())
    said = capsys.readouterr()
    assert (said.out + said.err).count("note: no averages over the last steps: 12 MB do not") == 1


GROWTH = {"average_steps": 500, "max_steps": 2_000, "refine_stop_iter": 1_200}
BEGINNINGS = [
    (GROWTH, 1_500),
    (GROWTH | {"refine_stop_iter": 1_700}, 1_700),  # when growth is over
    (GROWTH | {"prune_to": 0.5, "prune_to_iter": 1_900}, 1_900),
    ({"average_steps": 500, "max_steps": 2_000, "strategy": "none"}, 1_500),
    ({"average_steps": 5_000, "max_steps": 2_000, "strategy": "none"}, 50),
    ({"average_steps": 0, "max_steps": 2_000}, 2_001),
    # the last step is one of them
    ({"average_steps": 30, "max_steps": 607, "strategy": "none"}, 577),
]


@pytest.mark.parametrize("flags, first", BEGINNINGS)
def test_averages_begin_when_splats_no_longer_come_or_go(flags, first):
    config = TrainConfig.of(**flags)
    when, last = Schedule(config).averaging, config.run.max_steps
    assert when.begins == first and when.next_sample(0) == min(first, last)
    assert when.is_sample(last) == (first <= last)


@pytest.mark.parametrize(("stop", "chosen"), [(500, 850), (940, 960), (1000, 990)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_splats_are_chosen_once_there_will_be_no_others(strategy, stop, chosen):
    given = dict(strategy=strategy, max_steps=1000, refine_every=30, refine_stop_iter=stop)
    run = Schedule(TrainConfig.of(data_dir=".", refine_start_iter=50, cap_max=900, **given))
    later = [n for n in range(run.chosen_from + 1, 1000) if run.strategy.due(n)]
    assert run.chosen_from == (850 if strategy == "none" else chosen) and not later


@pytest.mark.parametrize(
    "ways",
    [
        {"rasterizer": "hardware"},
        {"rasterizer": "tiled", "antialiased": True},
        {"rasterizer": "tiled", "deterministic": True},
        {"rasterizer": "hardware", "packed": True},
        {"rasterizer": "tiled", "out_of_core": "on"},
        {"rasterizer": "hardware", "gradient": "stochastic"},
    ],
    ids=str,
)
def test_what_hides_the_view_between_photographs_is_transparent_at_the_end(device, scene, ways):
    """A splat before a camera half way between two photographs, where neither shows it."""
    own = settings(scene, max_steps=6, average_steps=0, strategy="none", **ways)
    session = open_session(device, own)
    cameras = session.job.views.cameras
    pair = neighbours(cameras)[0]
    middle = along(*(cameras[i] for i in pair))[1]
    state = session.snapshot()
    inside = np.linalg.inv(middle.w2c) @ [0, 0, 0.02 * session.job.views.extent, 1]
    state.buffers["means"][0, 3] = inside[:3]
    state.buffers["log_scales"][0, 3] = np.log(0.005 * session.job.views.extent)
    state.buffers["logit_opacities"][0, 3] = 2
    session.restore(state)
    session.run(6)
    session.drain()
    before = session.snapshot().buffers
    session.finish()
    after = session.snapshot().buffers
    for name, values in after.items():
        wanted = before[name]
        if name in ("logit_opacities", "adam_logit_opacities"):
            wanted[..., 3, :] = GONE if name == "logit_opacities" else 0
        np.testing.assert_array_equal(values, wanted, err_msg=name)


def test_without_memory_to_find_what_hides_the_view_it_stays(device, scene, monkeypatch, capsys):
    session = open_session(device, settings(scene, max_steps=2, average_steps=0, strategy="none"))
    session.run(2)
    session.drain()
    before = session.snapshot()
    monkeypatch.setattr(
        "hardsplat.raster.shares.Shares", Mock(side_effect=OutOfMemory("no room", "splats"))
    )
    session.finish()
    assert same_state(before, session.snapshot())
    assert "between photographs stay: no room" in capsys.readouterr().out.replace("\n", "")
