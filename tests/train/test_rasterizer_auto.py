"""--rasterizer auto: the rasterizer that draws a small scene, or makes a run's steps, fastest."""

import json
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from hardsplat.base.errors import UserError
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.choose import Trial
from hardsplat.raster.hardware import draws
from hardsplat.raster.tiled import rasterizer as tiled
from hardsplat.raster.trials import note_trial, worth_timing
from hardsplat.settings.train import TrainConfig
from hardsplat.train import run_training as train
from hardsplat.train.job.facts import DeviceFacts
from hardsplat.train.run.tuner import RasterizerTuner
from tests.helpers.tables import refuses
from tests.helpers.training import one_photograph_fits, open_session, settings

AUTO = TrainConfig.of(rasterizer="auto")


def chosen_for(device, config: TrainConfig) -> str:
    return fastest(device, config.raster, config.gradient)


@pytest.fixture
def timed(monkeypatch, tmp_path, device):
    """Trials take the milliseconds given by rasterizer; returns that table."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    device.shared("choices", dict).clear()
    for backend in BACKENDS.values():  # their own variants are not the subject
        monkeypatch.setattr(backend, "first_runnable", lambda device, options: options)
    for name in ("__init__", "prepare", "destroy"):  # nothing is drawn
        monkeypatch.setattr(Trial, name, lambda *given: None)
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

    monkeypatch.setattr(BACKENDS["hardware"], "first_runnable", refuse)
    assert chosen_for(device, AUTO) == "tiled"
    monkeypatch.setattr(BACKENDS["tiled"], "first_runnable", refuse)
    refuses("hardware: no interlock; tiled: no interlock", chosen_for, device, AUTO)


class Stepping:
    """Steps of these ms by rasterizer, or none. asked: to draw with. made: its batches."""

    def __init__(self, step=0, **ms):
        self.ms, self.step, self.asked, self.made = ms, step, [], []
        self.batch_steps, self.in_flight = 50, False
        timed = lambda name: name == "hardware"
        self.drawing = SimpleNamespace(rasterizer="hardware", has_timed_rows=timed)
        self.schedule = SimpleNamespace(strategy=SimpleNamespace(scored=lambda n: n % 10 == 9))
        self.device, self.store = SimpleNamespace(name="a"), SimpleNamespace(count=lambda: 300)

    @property
    def runner(self):
        return SimpleNamespace(step_seconds=self.ms[self.asked[-1][0]] / 1e3)

    def switch_rasterizer(self, name, *timed_rows):
        self.asked.append((name, *timed_rows))
        if name not in self.ms:
            raise RuntimeError("refused")

    def run(self, steps):
        self.made.append((self.step, steps))
        self.step, self.in_flight = self.step + steps, True

    def drain(self):
        self.in_flight = False

    @contextmanager
    def off_clock(self):
        assert not self.in_flight, "steps of the run would not count as training"
        yield


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
def test_the_run_itself_is_timed(ms, chosen, asked):
    """Again when its work has grown tenfold, with those that may win by then."""
    session, tuner = Stepping(**ms), RasterizerTuner(["hardware", "tiled"])
    assert tuner.due(1.0) and tuner.choose(session, 200, 1.0, nullcontext) == chosen
    assert session.asked == [*asked, (chosen,)] and session.step <= 200
    assert tuner.trials == [{"step": 0, "splats": 300, "ms": ms, "chosen": chosen}]
    assert not tuner.due(9.0) and tuner.due(10.0)
    session.run(50)
    tuner.choose(session, 200, 10.0, session.off_clock)
    assert tuner.choose(session, 5, 100.0, nullcontext) is None  # too few steps
    with pytest.raises(UserError, match="none of the rasterizers hardware, tiled runs on a"):
        RasterizerTuner(["hardware", "tiled"]).choose(Stepping(), 200, 1.0, nullcontext)


def test_what_lost_by_far_is_not_timed_again(device, monkeypatch, tmp_path):
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    names, given = ["hardware", "tiled"], (device, AUTO.raster, AUTO.gradient)
    other = AUTO.changed(antialiased=True)
    for hardware, left in ((9.9, names), (10.0, ["tiled"]), (2.0, names), (15.0, ["tiled"])):
        note_trial(*given, {"hardware": hardware, "tiled": 1.0})
        assert worth_timing(*given, names) == left
    assert worth_timing(device, other.raster, other.gradient, names) == names
    assert worth_timing(*given, ["hardware"]) == ["hardware"]  # which was named
    assert DeviceFacts.of(device, AUTO).rasterizers == ("tiled",)
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    assert worth_timing(*given, names) == ["hardware"]


SPOILT = ["[]", '[["tiled", 20.0]]', '{"tiled": "20"}', '{"tiled": [20.0]}', '{"tiled": Infinity}']


def test_times_that_are_none_decide_nothing(device, monkeypatch, tmp_path):
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    names, given = ["hardware", "tiled"], (device, AUTO.raster, AUTO.gradient)
    for spoilt in SPOILT:
        note_trial(*given, {"hardware": 1.0, "tiled": 20.0})
        assert worth_timing(*given, names) == ["hardware"]
        (kept,) = tmp_path.glob("variants/*.json")
        kept.write_text(f'{{"slower": {spoilt}}}')
        assert worth_timing(*given, names) == names, spoilt
        note_trial(*given, {"hardware": 1.0})
        assert json.loads(kept.read_text())["slower"] == {"hardware": 1.0}


def test_steps_that_draw_scores_are_not_timed():
    """Every tenth does. The first is made before anything is timed."""

    def batches(first: int, most: int) -> list:
        session = Stepping(first, tiled=1.0)
        assert RasterizerTuner([])._timed(session, "tiled", most, nullcontext, False) == 1.0
        assert session.step <= first + most
        return session.made

    assert batches(0, 50) == [(0, 2), (2, 7)] and batches(5, 50) == [(5, 2), (7, 3), (10, 9)]
    assert batches(7, 50) == [(7, 2), (9, 1), (10, 9)]
    assert batches(5, 5) == [(5, 2), (7, 2)] and batches(0, 6) == [(0, 2), (2, 4)]


def test_real_steps_are_timed(on_device, scene, tmp_path, monkeypatch):
    """In batches that have room for their photographs: of two that fit, each has one."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    monkeypatch.setattr("hardsplat.raster.trials.slower", lambda *given: {})
    noted = []
    monkeypatch.setattr("hardsplat.train.run.trainer.note_trial", lambda *all: noted.append(all))
    batches = one_photograph_fits(monkeypatch)
    metrics = train(settings(scene, tmp_path, rasterizer="auto", strategy="none"))
    (trial,) = metrics["auto"]
    ms, chosen = trial["ms"], metrics["rasterizer"]
    assert set(ms) == set(BACKENDS) and min(ms.values()) > 0 and noted[0][-1] == ms
    assert ms[chosen] <= min(ms.values()) * 1.04 and trial["chosen"] == chosen
    assert (trial["step"], metrics["steps"]) == (0, 30)
    assert f'rasterizer = "{chosen}"' in (tmp_path / "config.toml").read_text()
    assert set(batches) == {1} and sum(batches) == 30


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
