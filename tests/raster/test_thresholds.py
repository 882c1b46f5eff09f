"""`auto` times the thresholds of reductions that have one, by made-up times."""

import pytest

from hardsplat.raster.core import choose as module
from hardsplat.raster.core.choose import remembered
from hardsplat.raster.core.resolve import threshold_of, thresholds
from hardsplat.raster.hardware.rasterizer import rows_of as hardware_rows
from hardsplat.raster.hardware.rows import THRESHOLD as HYBRID
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.tiled.rasterizer import rows_of as tiled_rows_of
from hardsplat.raster.tiled.rows import THRESHOLD as TILED
from hardsplat.raster.tiled.rows import TiledOptions


class ThresholdClock:
    """A Trial whose times are given by the threshold that is drawn with, in lanes of 32."""

    def __init__(self, times):
        self.times, self.spent, self.asked = times, 0.0, []

    def prepare(self, candidates):
        list(candidates)

    def destroy(self):
        self.asked.append("destroyed")

    def attempt(self, options, best=float("inf")):
        name = "tile_threshold" if isinstance(options, TiledOptions) else "hybrid_threshold"
        self.asked.append(lanes := getattr(options, name))
        return self.times[lanes], ""


ALL_NAMED = dict(shape="quad", block="1x1", atomics="cas", segments=1, ordering="lists")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")


@pytest.fixture
def clock(device, cache, monkeypatch):
    """clock(fastest): times with which that threshold is the fastest on this device."""

    def clock(fastest: int, first: int) -> ThresholdClock:
        device.shared("choices", dict).clear()
        times = {n: 5.0 if n == fastest else 10.0 for n in thresholds(device, first)}
        found = ThresholdClock(times)
        monkeypatch.setattr(module.Trial, "fitting", lambda *given: found)
        return found

    return clock


def hybrid_rows(device, **named):
    return hardware_rows(device, HardwareOptions(**ALL_NAMED, blending="fixed", **named))


def tiled_rows(device, **named):
    return tiled_rows_of(device, TiledOptions(tile_backward="distwar-serial", **named))


HYBRIDS = [(hybrid_rows, {"reduction": "hybrid"}, "hybrid_threshold", HYBRID)]
WITH_THRESHOLDS = [*HYBRIDS, (tiled_rows, {}, "tile_threshold", TILED)]


@pytest.mark.parametrize("make, named, setting, first", WITH_THRESHOLDS)
def test_thresholds_are_timed_and_remembered(device, clock, make, named, setting, first):
    values = thresholds(device, first)
    assert first in values and len(values) > 2
    assert len({threshold_of(device, n) for n in values}) == len(values)
    for fastest in (values[0], values[-1], first):
        timed = clock(fastest, first)
        rows = make(device, **named)
        assert set(timed.asked) == {*values, "destroyed"}
        assert rows.names[setting] == fastest and rows.threshold == threshold_of(device, fastest)
        (kept,) = remembered(device).values()
        assert kept["rows"] == {setting: fastest} and set(kept["ms"][setting]) == set(
            map(str, values)
        )
        timed.asked.clear()
        device.shared("choices", dict).clear()
        assert make(device, **named).names[setting] == fastest and not timed.asked
        next(module._path(device).parent.glob("*.json")).unlink()


@pytest.mark.parametrize("make, named, setting, first", WITH_THRESHOLDS)
def test_a_threshold_that_is_named_is_not_timed(device, clock, make, named, setting, first):
    timed = clock(first, first)
    rows = make(device, **named, **{setting: 24})
    assert rows.names[setting] == 24 and rows.threshold == threshold_of(device, 24)
    assert not timed.asked and not remembered(device)


@pytest.mark.parametrize("make, named, setting, first", WITH_THRESHOLDS)
def test_without_timing_thresholds_are_those_of_before(
    device, clock, monkeypatch, make, named, setting, first
):
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    timed = clock(1, first)
    assert make(device, **named).names[setting] == first and not timed.asked


def test_rows_without_a_threshold_have_none_timed(device, clock):
    timed = clock(1, HYBRID)
    rows = hybrid_rows(device, reduction="atomic")
    assert "hybrid_threshold" not in rows.names and not timed.asked
    assert "tile_threshold" not in tiled_rows_of(device, TiledOptions()).names and not timed.asked


def test_a_named_threshold_suits_any_reduction(device, cache, monkeypatch):
    """It has no effect where the reduction that was chosen has none."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    for reduction in ("auto", "atomic", "hybrid"):
        names = hardware_rows(
            device, HardwareOptions(hybrid_threshold=4, reduction=reduction)
        ).names
        assert names.get("hybrid_threshold", 4) == 4
