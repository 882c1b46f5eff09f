"""The doctor's report: of this machine, without devices, and of devices that lack things."""

import re

import pytest

from hardsplat.cli import main
from hardsplat.gpu.device import capabilities, context, features, instance
from hardsplat.raster.backends import BACKENDS
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import allocate_loss
from hardsplat.study import doctor
from hardsplat.study.pipelines import Survey
from hardsplat.study.variants import REGISTRIES
from hardsplat.tables.gradients import REDUCTIONS
from hardsplat.train.job.facts import Views, fitting
from tests.helpers.tables import refuses
from tests.helpers.training import job_of


@pytest.fixture
def lacking(monkeypatch):
    """Takes capabilities away before anyone looks."""
    real = capabilities.query

    def take(*names):
        def query(physical):
            found = real(physical)
            for name in names:
                found.withdraw(name, f"VK_MADE_UP_{name}")
            return found

        monkeypatch.setattr(capabilities, "query", query)

    monkeypatch.setenv("HARDSPLAT_PROBE", "0")
    return take


def run(capsys, *arguments) -> tuple[str, int]:
    code = main(["doctor", *arguments])
    return capsys.readouterr().out, code


def row(text: str, name: str) -> str:
    table = text.partition("\nvariants\n")[2]
    return next(line for line in table.splitlines() if line.split()[:1] == [name])


def test_a_fit_device(capsys, device, monkeypatch):
    made, begin = [], instance.Instance.__init__

    def noted(self, *how):
        begin(self, *how)
        made.append(self)

    monkeypatch.setattr(instance.Instance, "__init__", noted)
    text, code = run(capsys)
    assert code == 0
    assert len(made) == 2 and all(each.handle is None for each in made)  # both are destroyed
    assert f"  {device.name}  " in text
    assert ", 225 while the last steps are averaged" in text  # 59 numbers
    assert text.startswith(f"ready: {device.name}, rasterizer hardware")
    for _, _, rows in REGISTRIES:
        for name, variant in rows.items():
            missing = bool(device.capabilities.missing(variant.needs))
            assert ("does not run" in row(text, name)) == missing, name
            assert missing or row(text, name).split()[1] == "runs", name


def test_runs_is_said_of_what_ran_alone(capsys, device, monkeypatch):
    """Fits by `sorted` came out of range, others were not tried, and tiles did not draw."""
    text, code = doctor.report()
    assert code == 0 and "  runs  " not in text and "should run (not tried)" in text
    ran = {"rasterizer hardware", "reduction quad"}
    found = Survey(built=9, ran=ran, failed={"fit rasterizer sorted": "blobs are not finite"})
    monkeypatch.setattr("hardsplat.study.pipelines.survey", lambda index: found)
    monkeypatch.setattr("hardsplat.gpu.crashes.save", lambda *given: None)
    text, code = run(capsys)
    assert code == 0 and text.startswith(f"ready: {device.name}, rasterizer hardware\n")
    assert row(text, "sorted").endswith("fails: blobs are not finite")
    assert row(text, "quad").split()[1] == "runs"
    assert row(text, "balloted").split()[1:5] == "should run (not tried)".split()
    found.ran.clear()
    text, code = run(capsys)
    assert code == 1 and text.startswith(f"not ready: {device.name} draws with no rasterizer")


def test_every_missing_variant_names_feature_and_replacement(lacking):
    lacking("float_atomics", "subgroup_arithmetic", "float32_blend")
    text, code = doctor.report()
    assert code == 0
    instead = next(n for n, row in REDUCTIONS.items() if "subgroup_arithmetic" not in row.needs)
    other = f"use --reduction {instead}"
    for name, words in (
        ("native", "does not run: lacks VK_MADE_UP_float_atomics; use --atomics cas"),
        ("hybrid", f"lacks VK_MADE_UP_subgroup_arithmetic; {other}"),
        ("float32", "with --blending programmable only: lacks VK_MADE_UP_float32_blend"),
    ):
        assert row(text, name).endswith(words)
    assert "should run" in row(text, "fixed")


def test_a_device_without_ordering_lists_its_fragments(lacking):
    lacking("interlock", "raster_order")
    text, code = doctor.report()
    assert code == 0 and text.startswith("ready: ")
    other = {"interlock": "use --ordering lists", "programmable": "--blending fixed"}
    for name, words in other.items():
        assert "does not run" in row(text, name) and words in row(text, name)
    assert "should run" in row(text, "lists") and "should run" in row(text, "analytic")


def test_a_device_without_a_required_feature_is_not_ready(lacking):
    lacking("scalar_layout")
    text, code = doctor.report()
    assert code == 1
    assert re.search(r"not ready: .* lacks VK_MADE_UP_scalar_layout; update its driver", text)


def test_a_device_with_less_shared_memory_draws(device, monkeypatch):
    limit = "maxComputeSharedMemorySize"
    wanted = (limit, 1 << 30, "bytes, for the image loss")
    monkeypatch.setitem(features.LIMITS, "shared_memory", wanted)
    text, code = doctor.report()
    assert code == 0
    lacks = rf"lacks {limit} of 1073741824 bytes, for the image loss \(it has \d+\)"
    assert re.search(f"ready to draw, not to train: .* {lacks}", text)
    less = context.Device()
    words = f"neither trains nor measures images: it lacks {limit}"
    refuses(words, allocate_loss, less, 16, 16)
    less.close()


@pytest.mark.parametrize("rasterizer", BACKENDS)
def test_as_many_splats_as_training_takes(device, capsys, monkeypatch, rasterizer):
    """Where memory is what bounds them, and where the largest buffer is."""
    config = TrainConfig.of(rasterizer=rasterizer)
    for memory, buffer, word in ((3 << 30, 1 << 40, "memory"), (1 << 40, 1 << 28, "the largest")):
        monkeypatch.setattr(device, "memory_bytes", memory)
        monkeypatch.setattr(device, "max_buffer", buffer)
        when = f" with --rasterizer {rasterizer}; "
        said = next(line for line in doctor._limits(device) if when in line)
        wanted = fitting(device, job_of(device, config, Views([], (1, 1), 1.0)).config, rasterizer)
        assert said.strip().startswith(f"{wanted / 1e6:.2f} million")
        assert f"bound by {word}" in said
