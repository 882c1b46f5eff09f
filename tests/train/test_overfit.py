"""Photographs that are set apart for the first steps, and what is made of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.io.formats.checkpoint import load, path_of
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import TrainConfig
from hardsplat.train.job import overfit
from hardsplat.train.job.job import Job
from hardsplat.train.job.views import Views
from hardsplat.train.run.trainer import train
from hardsplat.train.step.schedule import view_order
from tests.helpers.training import same_state, settings


def test_views_apart_come_only_later():
    n, apart, until = 9, [1, 4, 7], 20
    order = view_order(3, 0, 60, n, apart, until)
    early, others = order[:until], [0, 2, 3, 5, 6, 8]
    assert not np.isin(early, apart).any() and np.isin(apart, order[until : until + n + 9]).all()
    # Each once in an epoch of theirs.
    assert all(sorted(early[i : i + 6]) == others for i in (0, 6, 12))
    assert np.array_equal(order[until:], view_order(3, until, 40, n))
    batches = [view_order(3, s, 7, n, apart, until) for s in range(0, 56, 7)]
    assert np.array_equal(np.concatenate(batches), order[:56])


@pytest.mark.parametrize("gap, found", [(2.4, False), (2.9, True), (3.1, True), (3.6, True)])
def test_the_gap_decides(gap, found):
    judged = overfit.overfit_verdict(7, [20.0, 22.0], [20.0 + gap, 22.0 + gap])
    assert judged["regularized"] is found
    assert judged["psnr_others"] - judged["psnr_apart"] == pytest.approx(gap)
    # No jump that roundings decide on.
    assert judged["share"] == pytest.approx(np.clip(gap - 2.5, 0, 1))


def test_a_run_that_overfits_is_regularized(on_device, scene, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(overfit, "HELD", 2)
    monkeypatch.setattr(overfit, "FEWEST", 4)
    monkeypatch.setattr(overfit, "OPACITY_REG", 1.0)
    ends = {}
    for name, gap, check in (("never", 3.0, 0), ("not found", 100.0, 12), ("found", 0.0, 12)):
        monkeypatch.setattr(overfit, "overfit_verdict", _judged_by(gap))
        changes = {"strategy": "budget", "overfit_check": check, "eval_steps": (30,)}
        changes |= {"checkpoint_every": 15, "rasterizer": "auto", "deterministic": True}
        metrics = train(settings(scene, tmp_path / name, **changes))
        ends[name] = load(path_of(tmp_path / name, 30))
        assert metrics["overfit"].get("regularized", False) is (name == "found")
        assert ("opacities are regularized" in capfd.readouterr().out) is (name == "found")
    shown = lambda end: np.mean(1 / (1 + np.exp(-end.buffers["logit_opacities"])))
    opacity = {name: float(shown(end)) for name, end in ends.items()}
    assert opacity["found"] < 0.97 * opacity["not found"]
    assert not same_state(ends["not found"], ends["never"])  # other views were trained first

    # As if it had been killed after step 15: it goes on regularized, without another comparison.
    path_of(tmp_path / "found", 30).unlink()
    train(settings(scene, tmp_path / "found", **changes, resume=True))
    assert same_state(load(path_of(tmp_path / "found", 30)), ends["found"])
    assert json.loads((tmp_path / "found/metrics.json").read_text())["overfit"]["step"] == 12


def _judged_by(gap):
    """`judged` whose comparison always gives 50 dB."""
    found = {"psnr_apart": 10.0, "psnr_others": 60.0, "regularized": gap <= 50, "share": 1.0}
    return lambda step, apart, others: {"step": step} | found


def test_a_long_run_becomes_shorter():
    config = TrainConfig()
    job = Job(config, Views([], (1, 1), 1.0), replace(config.densify, cap_max=7), "float32", ())
    budget = config.densify.budget
    found = {"step": 3_000, "share": 1.0}
    steps = overfit.overfitted_length(budget, found, 19_320, 84)
    assert steps == 84 * budget.overfit_epochs == 6_048
    shorter = job.shortened(steps)
    found_config = shorter.config
    assert shorter.steps == shorter.strategy.steps == 6_048 and shorter.densify.cap_max == 7
    assert shorter.densify.refine_stop_iter == found_config.densify.refine_stop_iter
    as_long = load_config(None, {"max_steps": 6_048})
    for name in ("refine_stop_iter", "prune_to_iter", "sh_degree_interval", "average_steps"):
        assert found_config.flat()[name] == as_long.flat()[name], name
    assert (
        found_config.densify.budget.overfit_check == config.densify.budget.overfit_check
    )  # a run that is killed now compares again
    assert overfit.overfitted_length(budget, found | {"step": 6_000}, 19_320, 84) == 12_000
    assert overfit.overfitted_length(budget, found, 6_000, 84) == 6_000
    assert overfit.overfitted_length(replace(budget, overfit_epochs=0), found, 9_000, 10) == 9_000
    few = found | {"step": 1_190}, 7_000, 34  # of splats that began at random
    assert overfit.overfitted_length(budget, *few) == 2_448
    assert overfit.overfitted_length(budget, *few, at_random=True) == 4_000
    # no jump of lengths either: from 3 to 3.5 dB
    ramp = [
        overfit.overfitted_length(budget, found | {"share": share}, 19_320, 84)
        for share in (0.3, 0.5, 0.75, 1.0)
    ]
    assert ramp == [19_320, 19_320, round((19_320 * 6_048) ** 0.5), 6_048]


def test_a_run_that_became_shorter_ends_there(on_device, scene, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(overfit, "HELD", 2)
    monkeypatch.setattr(overfit, "FEWEST", 4)
    monkeypatch.setattr(overfit, "overfit_verdict", _judged_by(0.0))
    changes = dict(strategy="budget", overfit_check=6, overfit_epochs=1, max_steps=60)
    changes |= dict(checkpoint_every=10, rasterizer="auto", deterministic=True)
    metrics = train(settings(scene, tmp_path / "run", **changes))
    assert metrics["steps"] == 12
    assert "regularized from here on, up to step 12" in capfd.readouterr().out
    end = load(path_of(tmp_path / "run", 12))
    path_of(tmp_path / "run", 12).unlink()
    assert train(load_config(None, {"data_dir": tmp_path / "run", "resume": True}))["steps"] == 12
    assert same_state(load(path_of(tmp_path / "run", 12)), end)


TRAINED = {n: 21.0 + 2.0 * (n > 5_000) for n in range(50, 8_000, 50)}  # gains 2 dB


@pytest.mark.parametrize("gain, length", [(0.8, 12_000), (1.1, 17_321), (1.3, 25_000), (3, 25_000)])
def test_what_held_photographs_gain_decides_the_length(gain, length):
    steps = overfit.looks(7_000, 25_000)
    assert steps == (3_100, 3_300, 3_500, 6_600, 6_800, 7_000)
    held = {n: 20 + gain * (n > 5_000) for n in steps}
    verdict = overfit.length_verdict(25_000, 7_000, held, TRAINED)
    assert verdict["gain"] == 2 and verdict["held_gain"] == pytest.approx(gain, abs=1e-9)
    # over a ramp: 17 321 lies half way between, by ratio
    assert verdict["length"] == pytest.approx(length, abs=1)


def test_runs_that_are_short_anyway_are_not_shortened():
    assert overfit.looks(7_000, 12_000) == ()
    config = TrainConfig()
    views = Views([], (1, 1), 1.0)
    for steps, until in ((25_000, 7_000), (12_000, 3_750)):
        job = Job(TrainConfig.of(max_steps=steps), views, config.densify, "float32", (), (1, 2))
        assert job.held_until == until
    # nothing gained by any photograph: nothing is known
    assert overfit.length_verdict(25_000, 7_000, {3_500: 20.0, 7_000: 20.0}, {})["length"] == 25_000


def test_a_run_whose_held_photographs_gain_nothing_ends_early(
    on_device, scene, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(overfit, "HELD", 2)
    monkeypatch.setattr(overfit, "FEWEST", 4)
    monkeypatch.setattr(overfit, "PASSED", 1e6)
    monkeypatch.setattr(overfit, "LENGTH_CHECK", 14)
    changes = dict(strategy="budget", overfit_check=6, overfit_epochs=0)
    changes |= dict(max_steps=60, checkpoint_every=20, rasterizer="auto", deterministic=True)
    metrics = train(settings(scene, tmp_path / "run", **changes))
    found = metrics["overfit"]
    assert metrics["steps"] == found["length"] == 24 and found["step"] == 6
    assert "the run ends with step 24" in capfd.readouterr().out
    end = load(path_of(tmp_path / "run", 24))
    path_of(tmp_path / "run", 24).unlink()
    train(load_config(None, {"data_dir": tmp_path / "run", "resume": True}))
    assert same_state(load(path_of(tmp_path / "run", 24)), end)


@pytest.mark.parametrize("exposure", ["affine", "ppisp"])
def test_held_photographs_are_compared_while_exposures_are_trained(
    on_device, scene, tmp_path, monkeypatch, exposure
):
    monkeypatch.setattr(overfit, "HELD", 2)
    monkeypatch.setattr(overfit, "FEWEST", 4)
    changes = dict(strategy="budget", overfit_check=12, rasterizer="auto", exposure=exposure)
    found = train(settings(scene, tmp_path / "run", **changes))["overfit"]
    assert found["step"] == 12 and len(found["psnrs"][0]) == 2
