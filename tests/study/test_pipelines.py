"""Pipelines that end the process are found by another one, remembered, and left out."""

import numpy as np
import pytest

from hardsplat.gpu import crashes, probe
from hardsplat.raster.backends import runnable_rasterizers
from hardsplat.raster.hardware.rasterizer import first_runnable
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Renderer
from hardsplat.settings.train import TrainConfig
from hardsplat.study import doctor, pipelines
from hardsplat.tables.gradients import REDUCTIONS, TILE_BACKWARDS
from tests.helpers.tables import refuses


@pytest.fixture
def few(monkeypatch, tmp_path, module_device):
    """Few variants, and an own memory of what ended a process."""
    tiles = {name: TILE_BACKWARDS[name] for name in ("reduce-scatter", "gather")}
    reductions = {name: REDUCTIONS[name] for name in ("hybrid", "quad")}
    few = {"reduction": reductions, "tile_backward": tiles}
    monkeypatch.setattr(pipelines, "OPTIONS", few)
    monkeypatch.setattr(pipelines, "_TRAINING", {"loss": pipelines._TRAINING["loss"]})
    monkeypatch.setattr(pipelines, "_STEPS", {})
    monkeypatch.setattr(pipelines, "FIT_RASTERS", ("binned",))
    monkeypatch.setattr(probe, "CHECKED", ("raster_order",))
    monkeypatch.setattr(module_device, "killed", {})
    names = set(module_device.capabilities.names)
    monkeypatch.setattr(module_device.capabilities, "names", names)
    monkeypatch.setattr(crashes, "path_of", lambda physical: tmp_path / "crashes.json")
    monkeypatch.delenv("HARDSPLAT_PROBE", raising=False)


def index_of(device) -> int:
    return [p.name for p in device.instance.physical_devices()].index(device.name)


def found(device, monkeypatch, ends_at: str) -> dict[str, str]:
    monkeypatch.setenv(pipelines.CRASH, ends_at)
    survey = pipelines.survey(index_of(device))
    crashes.save(device.physical, survey.killed)
    assert survey.built > 10
    monkeypatch.setattr(probe, "measure", lambda device: {})
    probe.probe(device)
    return survey.killed


def test_a_row_that_ends_the_process_is_left_out(device, few, monkeypatch):
    """The first row of its option, so that another takes its place."""
    killed = found(device, monkeypatch, "reduce/hybrid.glsl")
    assert list(killed) == ["reduction hybrid"]
    assert killed["reduction hybrid"].startswith("draw backward (")
    assert first_runnable(device, HardwareOptions(reduction="auto")).reduction != "hybrid"
    words = "--reduction hybrid: .* lacks a driver that survives building draw backward"
    refuses(words, first_runnable, device, HardwareOptions(reduction="hybrid"))
    line = doctor._row(device, "hybrid", REDUCTIONS, "--reduction", ["quad"])
    assert line.startswith("does not run: lacks a driver that survives") and "use" in line


def test_a_rasterizer_that_ends_the_process_is_left_out(device, few, monkeypatch):
    killed = found(device, monkeypatch, "tiled/forward.comp")
    assert list(killed) == ["rasterizer tiled"]
    config = TrainConfig()
    assert runnable_rasterizers(device, config.raster, config.gradient) == ["hardware"]
    named = TrainConfig.of(rasterizer="tiled")
    words = "--rasterizer tiled: .* survives building"
    refuses(words, runnable_rasterizers, device, named.raster, named.gradient)


def test_what_ends_the_process_as_it_runs_is_left_out(device, few, monkeypatch):
    """Pipelines are built, and end the process that draws with them; of image fits too."""
    assert list(found(device, monkeypatch, "what reduction quad runs")) == ["reduction quad"]
    assert list(found(device, monkeypatch, "what fit rasterizer binned")) == ["rasterizer binned"]


def test_what_is_not_finite_fails(device, few, monkeypatch):
    """In this process, as in the other."""
    real = Renderer.backward

    def broken(self, *given):
        gradients = real(self, *given)
        gradients["means"][:] = np.nan
        return gradients

    request = pipelines.Request("rasterizer", "hardware", {"reduction": "quad"})
    pipelines._answer(device, request, (said := list[dict]()).append)
    assert "reduction quad" in said[-1]["ran"]
    monkeypatch.setattr(Renderer, "backward", broken)
    pipelines._answer(device, request, said.append)
    assert said[-1]["failed"] == "gradients are not finite"


def test_a_probe_that_ends_the_process_takes_its_capability(device, few, monkeypatch):
    if "raster_order" not in device.capabilities:
        pytest.skip(f"{device.name} has no raster_order")
    monkeypatch.setattr(pipelines, "BACKENDS", {})
    monkeypatch.setenv(pipelines.CRASH, "probe/order.frag")
    killed = pipelines.survey(index_of(device)).killed
    assert list(killed) == ["raster_order"]
    crashes.withdraw(device, killed)
    assert "raster_order" not in device.capabilities


def test_what_is_kept_is_replaced_and_may_be_damaged(device, few):
    crashes.save(device.physical, {"reduction hybrid": "a pass"})
    assert crashes.load(device.physical) == {"reduction hybrid": "a pass"}
    path = crashes.path_of(device.physical)
    path.write_text('{"killed": 3}')
    assert crashes.load(device.physical) == {}
    crashes.save(device.physical, {})
    assert not path.exists()


def test_a_device_that_cannot_be_opened(few):
    refuses("ends the process that opens it", pipelines.survey, 99)
