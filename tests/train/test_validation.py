"""Photographs that are held back in the main phase of a run, and what they decide."""

import copy
import itertools
import json
from collections import namedtuple
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.io.formats.checkpoint import load, path_of
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import rate_plans, view_order
from hardsplat.train import run_training as train
from hardsplat.train.api import _Callback
from hardsplat.train.job import validation
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.job.validation import Look, has_settled, held_views, look, next_look
from hardsplat.train.measure.measure import Asked
from hardsplat.train.run.held_out import HeldOut
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.session.session import Session
from hardsplat.train.session.store import SplatStore
from hardsplat.train.watchers.log import Log
from tests.helpers.training import same_state, settings, splats_of

Shown = namedtuple("Shown", "psnr fitted_psnr")


def test_views_that_are_held_come_only_later():
    n, held, until = 9, [1, 4, 7], 20
    order = view_order(3, 0, 60, n, held, until)
    early, others = order[:until], [0, 2, 3, 5, 6, 8]
    assert not np.isin(early, held).any() and np.isin(held, order[until : until + n + 9]).all()
    # Each once in an epoch of theirs.
    assert all(sorted(early[i : i + 6]) == others for i in (0, 6, 12))
    assert np.array_equal(order[until:], view_order(3, until, 40, n))
    batches = [view_order(3, s, 7, n, held, until) for s in range(0, 56, 7)]
    assert np.array_equal(np.concatenate(batches), order[:56])


@pytest.mark.parametrize(
    "views, count", [(3, 0), (4, 1), (8, 1), (9, 2), (26, 4), (84, 8), (255, 14), (5_000, 69)]
)
def test_how_many_are_held(views, count):
    held = held_views(TrainConfig(), views)
    assert len(held) == len({*held}) == count and all(0 <= i < views for i in held)
    assert not held or max(np.diff([held[0] - views // count, *held])) <= -(-views // count)
    assert not held or np.min(np.diff(held), initial=2) >= 2


@pytest.mark.parametrize("panoramas", [1, 4, 6, 100])
def test_each_face_is_held_of_another_panorama(panoramas):
    held = held_views(TrainConfig(), 6 * panoramas, 6)
    count = min(panoramas, 6)
    assert [i % 6 for i in held] == [*range(count)] and len({i // 6 for i in held}) == count
    trained = validation.trained_views(held, 6)
    assert not {*trained} & {*held} and [i // 6 for i in trained] == [i // 6 for i in held]


@pytest.mark.parametrize("views", [4, 9, 26, 72, 255])
def test_as_many_trained_views_are_asked(views):
    held = held_views(TrainConfig(), views)
    trained = validation.trained_views(held)
    assert not {*trained} & {*held} and len(trained) == len(held)
    assert all(0 <= i < views for i in trained)


def test_none_is_held_where_none_can_be_asked():
    for name in ("pose_opt", "intrinsics_opt"):
        assert held_views(TrainConfig.of(**{name: True}), 100) == ()
    for strategy in ("mcmc", "none"):
        assert held_views(TrainConfig.of(strategy=strategy), 100) == ()
    assert held_views(TrainConfig.of(hold_back=False), 100) == ()
    assert held_views(TrainConfig.of(max_steps=1_998), 100) == ()
    assert held_views(TrainConfig.of(max_steps=1_999), 100)


def test_looks_become_rare():
    steps = [0]
    while steps[-1] < 20_000:
        steps.append(next_look(steps[-1]))
    assert steps[1:12] == [*range(500, 5_001, 500), 6_000] and len(steps) < 25


def test_the_gap_decides_the_decay():
    """By squared errors, whose geometric means no single photograph decides."""
    trained = [32.0, 30.0, 28.0]
    same = look(500, [30.0, 30.0], trained, [])
    assert [same.gap, same.decay] == pytest.approx([0, 0], abs=1e-6) and same.psnr == 30
    worse = look(500, [27.0], trained, [])
    assert worse.gap == pytest.approx(10**-2.7 - 10**-3)
    assert worse.decay == pytest.approx(validation.DECAY * worse.gap**0.75)
    assert look(1_000, [27.0], trained, [same]).decay == pytest.approx(worse.decay / 2**0.75)
    assert look(500, [33.0], trained, []).decay == 0
    worst = look(500, [27.0, 30.0, 12.0], [27.0, 30.0, 15.0], [])
    assert worst.gap == pytest.approx(10**-2.3 - 10**-2.4)


def test_light_differs_in_held_and_in_trained_photographs():
    """The geometric mean of medians: nothing where one kind alone gains."""
    measured = lambda gain: [Shown(20.0, 20.0 + g) for g in (0.0, gain, gain, gain, 9.0)]
    of = lambda held, trained: validation.color_gain(measured(held), measured(trained))
    assert of(4, 1) == pytest.approx(2) and of(1, 1) == pytest.approx(1)
    assert of(3, 0) == of(3, -1) == of(-1, 3) == 0


def test_light_is_compared_until_a_look_finds_it_alike():
    """For as long as a run waits for gains at most."""
    looks = [Look(500, 20.0, 20.0, 0, 0), Look(1_000, 21.0, 21.0, 0, 0)]
    compares, differs = validation.compares_light, [validation.LIGHT + 0.1]
    assert not compares([], [], 500) and compares(looks[:1], [], 1_000)
    assert compares(looks, differs, 500 + validation.PATIENCE)
    assert not compares(looks, differs, 501 + validation.PATIENCE)
    assert not compares(looks, [*differs, validation.LIGHT], 1_500)


def test_what_a_checkpoint_remembers_stays():
    """Where a resumed run goes on, and saves that checkpoint once more."""
    log = Log(steps=[10], losses=[0.1], looks=[Look(10, 20.0, 21.0, 0, 0)], color_gains=[2.0])
    before = log.history()
    resumed = Log()
    resumed.restore(kept := copy.deepcopy(before))
    for values in (resumed.steps, resumed.losses, resumed.looks, resumed.color_gains):
        values.append(values[0])
    assert kept == before and resumed.color_gains == [2.0, 2.0]
    resumed.restore({"looks": [[10, 20.0, 0.1, 0.0]]})  # as older ones had them
    assert resumed.looks == []


def test_a_run_settles_where_held_photographs_do():
    def curve(psnr, trained=float):
        return [Look(n, psnr(n), trained(n), 0, 0) for n in range(500, 16_001, 500)]

    ends = lambda looks: next((n for n in range(1, 33) if has_settled(looks[:n])), 0) * 500
    rising, falling = curve(lambda n: 20 + n / 4_000), curve(lambda n: 30 - n / 4_000)
    assert ends(rising) == 0 and ends(falling) == 500 + validation.PATIENCE
    # a third of the steps made, where that is more, by means of two; what is gained slowly counts
    assert ends(curve(lambda n: min(n, 9_000) / 500)) == 14_500
    assert ends(curve(lambda n: n * validation.GAIN / 1_700)) == 0
    assert ends(curve(lambda n: n * validation.GAIN / 40_000)) == 500 + validation.PATIENCE
    noise = np.random.default_rng(7).uniform(-0.5, 0.5, 40)
    assert ends(curve(lambda n: n / 2_000 + noise[n // 500])) == 0
    # where trained photographs have got worse as well, splats drift: the end waits until they have
    # not, and what they gain alone does not help
    worse = lambda n: 22 - abs(n - 2_000) / 1_000
    assert ends(curve(worse)) == 4_000 and ends(curve(worse, worse)) == 0
    drift = lambda n: worse(n) if n < 7_000 else n / 400
    assert ends(curve(worse, drift)) == 9_000
    # pictures get worse by pruning: looks count from its end on
    assert not has_settled(falling[:8], 9_000) and not has_settled(falling[:8], 3_000)
    assert has_settled(falling[:11], 3_000)


def test_a_run_that_settles_ends_soon():
    config = TrainConfig()
    whole = Schedule(config, holds_back=True)
    ended = whole.shortened(6_000)
    assert whole.steps == 18_000 and whole.main_steps == 9_000
    assert ended.steps == ended.strategy.steps == 8_000 and ended.main_steps == 6_000
    assert ended.densify.refine_stop_iter == 6_000 and ended.config == whole.config
    assert not ended.strategy.due(6_000) and whole.strategy.due(6_000)
    assert 0 < ended.averaging.steps <= 667
    assert whole.next_stop(6_000) == 6_100 and ended.next_stop(6_000) == 7_000
    asked = [n for n in range(1, 18_001) if whole.is_look(n)]
    assert asked[:2] == [500, 1_000] and asked[-1] == 9_000
    assert not any(replace(whole, holds_back=False).is_look(n) for n in asked)


@pytest.mark.parametrize("given", [{}, {"scales_lr": 0.0, "rates_hold": 0.2}])
def test_rates_fall_from_where_they_were_to_their_ends(given):
    flat = TrainConfig.of(**given).flat()

    def rate(plan, step):
        since, until = float(plan["since"]), float(plan["until"])
        past = np.clip((step - since) / (until - since), 0, 1)
        return float(plan["first"] * (plan["last"] / plan["first"]) ** past)

    for settled in (3_000, 12_000):
        before, end = rate_plans(flat, 2.0), validation.whole_steps(settled)
        after = rate_plans(flat, 2.0, falls=(settled, end))
        moved = np.flatnonzero(before["first"])
        assert len(moved) and np.array_equal(moved, np.flatnonzero(after["first"]))
        for plane in moved:
            was, now = before[plane], after[plane]
            assert rate(now, settled) == pytest.approx(rate(was, settled), rel=1e-5)
            assert rate(now, end) == pytest.approx(rate(was, flat["max_steps"]), rel=1e-5)
            assert rate(now, end - 1) > rate(now, end)


@pytest.fixture
def small(monkeypatch):
    """Looks that fit into thirty steps."""
    monkeypatch.setattr(validation, "LOOK", 4)
    monkeypatch.setattr(validation, "PATIENCE", 8)
    monkeypatch.setattr(validation, "LIGHT", 100.0)


RUN = dict(strategy="budget", early_stop=False, max_steps=40, eval_steps=(40,))
RUN |= dict(checkpoint_every=10, rasterizer="auto", deterministic=True)


def test_a_run_that_overfits_is_regularized(on_device, scene, tmp_path, monkeypatch, small):
    ends = {}
    for name, decay in (("never", 0.0), ("found", 1.0)):
        monkeypatch.setattr(validation, "DECAY", decay)
        errors = itertools.cycle([1.0, 0.0])  # of held and of trained photographs
        monkeypatch.setattr(validation, "squared_error", lambda psnrs: next(errors))
        metrics = train(settings(scene, tmp_path / name, **RUN))
        looks = metrics["validation"]["looks"]
        assert [each["step"] for each in looks][:2] == [4, 8] and metrics["steps"] == 40
        assert all((each["decay"] > 0) is (name == "found") for each in looks)
        ends[name] = load(path_of(tmp_path / name, 40))
    logits = (ends[name].buffers["logit_opacities"] for name in ("found", "never"))
    found, never = (np.mean(1 / (1 + np.exp(-values))) for values in logits)
    assert found < 0.97 * never

    # As if it had been killed after step 30, with the decay that it had there.
    path_of(tmp_path / "found", 40).unlink()
    train(settings(scene, tmp_path / "found", **RUN, resume=True))
    assert same_state(load(path_of(tmp_path / "found", 40)), ends["found"])


def test_looks_measure_what_there_is_by_then(on_device, scene, tmp_path, monkeypatch, small):
    """As a new evaluator, after growth, other lists, another rasterizer, a new beginning."""
    kept, choose, drawn = HeldOut.held_back, Trainer._choose_rasterizer, []

    def both(self, light):
        found = kept(self, light)
        each = [*found[0], *found[1]]
        views = [self.scene.views[self.scene.train[i]] for i, _ in self._asked[: len(each)]]
        asked = Asked(pictures=False, gain=light, halves=each[0].half_psnr is not None)
        for a, b in zip(each, self._measures(views, asked), strict=True):
            numbers = [(m.psnr, m.ssim, m.fitted_psnr, m.half_psnr) for m in (a, b)]
            assert numbers[0] == numbers[1], (self.session.step, a.name)
        assert len(found[1]) == len(found[0])
        drawn.append((self.session.drawing.rasterizer, self.session.raster.resources))
        return found

    def other(self, stop):
        if self.session.step == 20:
            self.session.switch_rasterizer("tiled")
        if self.session.step == 24:
            self.session.raster.least_pairs = 0
            self.session.raster.reserve_pairs(1, 1, give_back=True)
        choose(self, stop)

    monkeypatch.setattr(HeldOut, "held_back", both)
    monkeypatch.setattr(Trainer, "_choose_rasterizer", other)
    monkeypatch.setattr(validation, "LIGHT", -1.0)
    monkeypatch.setattr(validation, "PATIENCE", 4)
    changes = RUN | dict(exposure="auto", rasterizer="hardware", deterministic=False, max_steps=60)
    metrics = train(settings(scene, tmp_path / "run", **changes))
    assert "exposures" in " ".join(metrics["decisions"])
    assert len(metrics["validation"]["color_gains"]) == 1
    others = [b is not a for (_, a), (_, b) in pairwise(drawn)]
    assert [name for name, _ in drawn].index("tiled") > 2 and sum(others) == 4
    assert others[-2] and drawn[-2][0] == "tiled"  # the same rasterizer


def test_a_run_that_settles_is_finished(
    on_device, reports, scene, tmp_path, monkeypatch, small, capfd
):
    monkeypatch.setattr(validation, "GAIN", 100.0)
    changes = RUN | dict(max_steps=400, early_stop=True, checkpoint_every=9, save_steps=(9, 300))
    config = settings(scene, tmp_path / "run", **changes)
    metrics = train(replace(config, typed=frozenset({"save_steps"})))
    settled, looks = (metrics["validation"][name] for name in ("settled", "looks"))
    asked = [Look(**each) for each in looks]
    ends = [asked[n].step for n in range(len(asked)) if has_settled(asked[: n + 1])]
    assert ends == [settled] == [20]
    steps = validation.whole_steps(settled)
    assert steps == 27
    out = capfd.readouterr().out
    told = f"stopped improving at step {settled}: finishing with step {steps}"
    assert out.count("finishing with") == 1 and f"held back {told}" in out
    assert metrics["steps"] == steps and told in metrics["decisions"][-1]
    assert "note: --save-steps 300: the run ends before" in out
    assert len(metrics["decisions"]) <= 4
    end = load(path_of(tmp_path / "run", steps))
    path_of(tmp_path / "run", steps).unlink()
    assert "Interrupted" not in (tmp_path / "run/report.html").read_text()
    again = train(load_config(None, {"data_dir": tmp_path / "run", "resume": True}))
    assert again["steps"] == steps and again["validation"] == metrics["validation"]
    assert same_state(load(path_of(tmp_path / "run", steps)), end)
    assert json.loads((tmp_path / "run/metrics.json").read_text())["steps"] == steps
    resumed = {"data_dir": tmp_path / "run", "resume": True}
    with pytest.raises(UserError, match=f"has {steps} steps already, of {steps}"):
        train(load_config(None, resumed))
    # a length that is named is made, by photographs that all were trained
    longer = train(load_config(None, resumed | {"max_steps": 4 * settled}))
    assert longer["steps"] == 4 * settled
    assert longer["validation"]["looks"] == metrics["validation"]["looks"]


def test_exposures_are_trained_where_light_differs(
    on_device, scene, tmp_path, monkeypatch, small, capfd
):
    """The run begins again, and goes on as one that was started with exposures."""
    changes = RUN | dict(exposure="auto", max_steps=20, eval_steps=(20,))
    quiet = train(settings(scene, tmp_path / "alike", **changes))
    assert "exposures" not in " ".join(quiet["decisions"])
    monkeypatch.setattr(validation, "LIGHT", -1.0)
    seen: list[int] = []
    callback = _Callback(lambda progress: seen.append(progress.step))
    metrics = train(settings(scene, tmp_path / "differs", **changes), [callback])
    rows = [json.loads(line) for line in open(tmp_path / "differs/metrics.jsonl")]
    assert [row["step"] for row in rows if "loss" in row] == metrics["curve"]["step"]
    assert seen.count(metrics["curve"]["step"][0]) == 2  # once in each attempt
    assert "exposures are trained, from the start on" in capfd.readouterr().out
    assert metrics["curve"]["step"][0] <= 10 and metrics["steps"] == metrics["wanted"] == 20
    named = dict(exposure="affine", exposure_until=1.0)
    train(settings(scene, tmp_path / "named", **changes | named))
    ends = [load(path_of(tmp_path / name, 20)) for name in ("differs", "named")]
    assert (tmp_path / "differs/exposures.json").is_file()
    assert same_state(*ends)
    saved = load_config(None, {"data_dir": tmp_path / "differs", "resume": True})
    assert saved.exposure.exposure == "affine" and saved.exposure.exposure_until == 1


def test_a_run_that_begins_again_has_its_first_splats_from_where_they_are_by_then(
    on_device, scene, tmp_path, monkeypatch, small
):
    """The run before had left them in the same folder. A run that is resumed needs none."""
    run, first = Path("run"), splats_of(settings(scene), load_scene(scene))
    monkeypatch.chdir(tmp_path)
    save_splats(run / "splats.ply", first)
    monkeypatch.setattr(validation, "LIGHT", -1.0)
    changes = RUN | dict(exposure="auto", max_steps=16, save_steps=(4,), init=run)
    assert train(settings(scene, run, **changes))["validation"]["color_gains"]
    again = load_config(run / "config.toml").start.init
    assert again == tmp_path / "run/earlier_1/splats.ply" and (run / "exposures.json").is_file()
    again.unlink()
    resumed = {"data_dir": run, "resume": True, "max_steps": 17}
    assert train(load_config(None, resumed))["steps"] == 17


def test_a_run_that_has_no_memory_to_begin_again_is_saved(
    on_device, scene, tmp_path, monkeypatch, small
):
    def full(store, *given):
        raise OutOfMemory("no memory", "splats")

    def again(session, *given):
        monkeypatch.setattr(SplatStore, "open", full)
        begin_again(session, *given)

    begin_again = Session.begin_again
    monkeypatch.setattr(Session, "begin_again", again)
    monkeypatch.setattr(validation, "LIGHT", -1.0)
    changes = RUN | dict(exposure="auto", max_steps=16, checkpoint_every=4)
    with pytest.raises(OutOfMemory, match=r"no memory \(step 0\); step 0 with 300 .* is saved"):
        train(settings(scene, tmp_path, **changes))
    assert [path.name for path in (tmp_path / "ckpts").iterdir()] == ["ckpt_0.npz"]


@pytest.mark.parametrize("named", ["opacity_reg", "scale_reg", "opacity_decay"])
def test_a_weight_that_is_named_stays(named):
    assert validation.decays(TrainConfig()) and not validation.decays(TrainConfig.of(**{named: 1}))
