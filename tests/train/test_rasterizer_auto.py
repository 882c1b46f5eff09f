"""--rasterizer auto: the rasterizer that draws a small scene, or makes a run's steps, fastest."""

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hardsplat.base.errors import UserError
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.choose import Trial
from hardsplat.raster.hardware import draws
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.settings.train import TrainConfig
from hardsplat.step.runner import StepRunner
from hardsplat.train import run_training as train
from hardsplat.train.run.tuner import RasterizerTuner
from hardsplat.train.session.drawing import Drawing
from hardsplat.train.session.session import Session
from tests.helpers.training import open_session, settings

AUTO = TrainConfig.of(rasterizer="auto")


def chosen_for(device, config: TrainConfig) -> str:
    return fastest(device, config.raster, config.gradient)


@pytest.fixture
def timed(monkeypatch, tmp_path, device):
    """Trials take the milliseconds given by rasterizer; returns that table."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    device.shared("choices", dict).clear()
    for name, backend in [*BACKENDS.items()]:  # their own variants are not the subject
        own = replace(backend, first_runnable=lambda device, options: options)
        monkeypatch.setitem(BACKENDS, name, own)
    table = {"hardware": 2.0, "tiled": 1.0}
    monkeypatch.setattr(Trial, "ms", lambda self, options, best=0.0: table[options.rasterizer])
    return table


@pytest.mark.parametrize(
    "hardware, chosen", [(2.0, "tiled"), (0.5, "hardware"), (1.01, "hardware")]
)
def test_the_faster_one_is_taken_and_remembered(device, timed, hardware, chosen):
    timed["hardware"] = hardware
    assert chosen_for(device, AUTO) == chosen
    timed["hardware"], timed["tiled"] = timed["tiled"], timed["hardware"]
    assert chosen_for(device, AUTO) == chosen
    other = chosen_for(device, AUTO.changed(antialiased=True))  # other settings are timed anew
    assert other != chosen or hardware == 1.01


def test_what_does_not_run_is_not_taken(device, timed, monkeypatch):
    def refuse(device, options):
        raise UserError("no interlock")

    monkeypatch.setitem(BACKENDS, "hardware", replace(BACKENDS["hardware"], first_runnable=refuse))
    assert chosen_for(device, AUTO) == "tiled"
    monkeypatch.setitem(BACKENDS, "tiled", replace(BACKENDS["tiled"], first_runnable=refuse))
    with pytest.raises(UserError, match="hardware: no interlock; tiled: no interlock"):
        chosen_for(device, AUTO)


@pytest.fixture
def steps_take(monkeypatch):
    """steps_take(hardware=, tiled=): milliseconds that trials find; a rasterizer that is not
    named does not run. Returns what the session is told to use."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    asked, use = [], Session.switch_rasterizer

    def set_to(**ms):
        def used(self, name, *timed_rows):
            asked.append((name, *timed_rows))
            if name not in ms:
                raise RuntimeError("refused")
            use(self, name, *timed_rows)

        monkeypatch.setattr(Session, "switch_rasterizer", used)
        monkeypatch.setattr(Drawing, "has_timed_rows", lambda self, name: name == "hardware")
        take = lambda self: ms[asked[-1][0]] / 1e3 if asked else 1.0
        seconds = property(take, lambda self, measured: None)
        monkeypatch.setattr(StepRunner, "step_seconds", seconds, raising=False)
        return asked

    return set_to


FIRST = [("hardware", False), ("tiled", False)]
AGAIN = [*FIRST, ("hardware", True)]
TIMES = [
    ({"hardware": 2.0, "tiled": 1.0}, "tiled", AGAIN),
    ({"hardware": 9.0, "tiled": 1.0}, "tiled", FIRST),  # its own variants are not looked for
    ({"hardware": 1.0, "tiled": 2.0}, "hardware", AGAIN),
    ({"hardware": 1.02, "tiled": 1.0}, "hardware", AGAIN),  # within the noise the first stays
    ({"tiled": 2.0}, "tiled", FIRST),
]


@pytest.mark.parametrize("ms, chosen, asked", TIMES)
def test_the_run_itself_is_timed(on_device, steps_take, scene, tmp_path, ms, chosen, asked):
    found = steps_take(**ms)
    metrics = train(settings(scene, tmp_path, rasterizer="auto", strategy="none"))
    assert found == [*asked, (chosen,)]
    assert metrics["rasterizer"] == chosen and metrics["steps"] == 30
    (trial,) = metrics["auto"]
    assert trial["ms"] == pytest.approx(ms) and trial["chosen"] == chosen
    assert (trial["step"], trial["splats"]) == (0, metrics["splats"])
    assert f'rasterizer = "{chosen}"' in (tmp_path / "config.toml").read_text()
    assert "rasterizer" in json.loads((tmp_path / "metrics.json").read_text())


def test_steps_that_draw_scores_are_not_timed():
    """Every tenth does. The first is made before anything is timed."""

    def batches(first: int, most: int) -> list:
        made, strategy = [], SimpleNamespace(scored=lambda step: step % 10 == 9)
        nothing = dict(switch_rasterizer=lambda *how: None, drain=lambda: None)
        runner, schedule = SimpleNamespace(step_seconds=1e-3), SimpleNamespace(strategy=strategy)
        session = SimpleNamespace(step=first, schedule=schedule, runner=runner, **nothing)

        def run(steps):
            made.append((session.step, steps))
            session.step += steps

        session.run = run
        assert RasterizerTuner([])._timed(session, "tiled", most, nullcontext, False) == 1.0
        assert session.step <= first + most
        return made

    assert batches(0, 50) == [(0, 2), (2, 7)] and batches(5, 50) == [(5, 2), (7, 3), (10, 9)]
    assert batches(7, 50) == [(7, 2), (9, 1), (10, 9)]
    assert batches(5, 5) == [(5, 2), (7, 2)] and batches(0, 6) == [(0, 2), (2, 4)]


def test_real_steps_are_timed(on_device, scene, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    metrics = train(settings(scene, tmp_path, rasterizer="auto", strategy="none"))
    (trial,) = metrics["auto"]
    ms = trial["ms"]
    assert set(ms) == set(BACKENDS) and min(ms.values()) > 0
    assert ms[metrics["rasterizer"]] <= min(ms.values()) * 1.04


def test_a_rasterizer_makes_no_lists_for_what_another_needed(device, scene, monkeypatch):
    """Of large splats fragments are many times the pairs of tile and splat."""
    monkeypatch.setattr(draws, "FIRST_PER_BLOCK", 1)
    monkeypatch.setattr(tiled, "FEWEST_PAIRS", 64)
    of = lambda name: settings(scene, rasterizer=name, strategy="none")
    first = open_session(device, of("tiled")).raster.pair_capacity
    session = open_session(device, of("hardware"))
    for _ in range(3):  # in which lists grow
        session.run(4)
        session.drain()
    grown = session.raster.pair_capacity
    session.switch_rasterizer("tiled")
    assert session.raster.pair_capacity == first < grown
    session.switch_rasterizer("hardware")
    assert session.raster.pair_capacity >= grown
