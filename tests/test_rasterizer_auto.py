"""--rasterizer auto: the rasterizer that draws a small scene fastest, of those that run."""

from dataclasses import replace

import pytest

from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.raster import BACKENDS, fastest, unknown
from hardsplat.raster.choose import MARGIN, remembered
from hardsplat.raster.trial import Trial

AUTO = TrainConfig(rasterizer="auto")


@pytest.fixture
def timed(monkeypatch, tmp_path, device):
    """Trials take the milliseconds given by rasterizer; returns that table."""
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.setitem(device._shared, "choices", {})
    for name in BACKENDS:  # their own variants are not the subject
        monkeypatch.setitem(BACKENDS, name, replace(BACKENDS[name], resolve=lambda device, options: None))
    table = {"hardware": 2.0, "tiled": 1.0}
    monkeypatch.setattr(Trial, "ms", lambda self, options, best=0.0: table[options.rasterizer])
    return table


@pytest.mark.parametrize("hardware, chosen", [(2.0, "tiled"), (0.5, "hardware"), (1.01, "hardware")])
def test_the_faster_one_is_taken_and_remembered(device, timed, hardware, chosen):
    timed["hardware"] = hardware
    assert fastest(device, AUTO) == chosen
    timed["hardware"], timed["tiled"] = timed["tiled"], timed["hardware"]
    assert fastest(device, AUTO) == chosen
    assert fastest(device, replace(AUTO, antialiased=True)) != chosen or hardware == 1.01  # other settings are timed anew


def test_what_does_not_run_is_not_taken(device, timed, monkeypatch):
    def refuse(device, options):
        raise UserError("no interlock")

    monkeypatch.setitem(BACKENDS, "hardware", replace(BACKENDS["hardware"], resolve=refuse))
    assert fastest(device, AUTO) == "tiled"
    monkeypatch.setitem(BACKENDS, "tiled", replace(BACKENDS["tiled"], resolve=refuse))
    with pytest.raises(UserError, match="hardware: no interlock; tiled: no interlock"):
        fastest(device, AUTO)


@pytest.mark.parametrize("named, chosen", [({"format": "unorm8"}, "hardware"), ({"tile_backward": "atomic"}, "tiled"), ({"format": "unorm8", "tile_threshold": 4}, "tiled")])
def test_settings_that_one_rasterizer_alone_has_choose_it(device, timed, named, chosen):
    assert fastest(device, replace(AUTO, **named)) == chosen


def test_options_that_a_named_one_does_not_have_are_said():
    assert unknown("tiled", TrainConfig(segments=4, format="unorm8", tile_threshold=4)) == ["format", "segments"]
    assert unknown("hardware", TrainConfig(segments=4, tile_threshold=4)) == ["tile_threshold"]
    assert unknown("tiled", TrainConfig(antialiased=True)) == []


def test_a_named_one_is_not_timed(device, timed):
    timed.clear()
    assert [fastest(device, replace(AUTO, rasterizer=name)) for name in BACKENDS] == list(BACKENDS)


def test_real_trials(device, monkeypatch, tmp_path):
    monkeypatch.setenv("HARDSPLAT_AUTO", "time")
    monkeypatch.setenv("HARDSPLAT_CACHE", str(tmp_path))
    monkeypatch.setitem(device._shared, "choices", {})
    chosen = fastest(device, AUTO)
    found = next(found for given, found in remembered(device).items() if given.startswith("rasterizer"))
    ms = found["ms"]["rasterizer"]
    assert set(ms) == set(BACKENDS) and min(ms.values()) > 0 and ms[chosen] <= min(ms.values()) / (1 - MARGIN)
