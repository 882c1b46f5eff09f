"""What a run decides before its first step: for captures that are small, large, or at a limit."""

import html
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hardsplat.train.job.light import Light
from hardsplat.train.job.recipe import decided, say_light, say_plan, steps_of
from hardsplat.train.job.shown import check_shown

from hardsplat.base.errors import UserError
from hardsplat.io.formats.checkpoint import path_of
from hardsplat.model.camera import Camera
from hardsplat.settings.presets import for_photographs, load_config
from hardsplat.settings.train import FIELDS, TrainConfig
from hardsplat.train.job import overfit
from hardsplat.train.job.job import Job
from hardsplat.train.job.views import Views
from hardsplat.train.run.trainer import train
from hardsplat.train.strategies import STRATEGIES
from tests.helpers.training import settings

SIZE = 1000, 750
POINTS = 1_000  # of a capture, of which each view shows a share


def capture(photographs: int, share: float, sizes=(SIZE,)) -> tuple[Views, np.ndarray]:
    """Cameras in a row that each show this share of points, and all points are shown."""
    shown, cameras = round(share * POINTS), []
    firsts = np.linspace(0, POINTS - shown, photographs).round()
    for i, first in enumerate(firsts):
        (w, h), w2c = sizes[i % len(sizes)], np.eye(4)
        K = np.array([[w / shown, 0, w / 2], [0, h, h / 2], [0, 0, 1.0]])
        w2c[0, 3] = -(first + shown / 2 - 0.5)
        cameras.append(Camera(w2c, K, w, h))
    points = np.column_stack([np.arange(POINTS), np.zeros(POINTS), np.ones(POINTS)])
    return Views(cameras, SIZE, 1.0), points


def planned(photographs: int, share: float = 0.6, points: int = 10**6, sizes=(SIZE,), **named):
    """(steps, splats, step of the check, whether splats rest) of a run. points: of the model."""
    views, sample = capture(photographs, share, sizes)
    lines: list[str] = []
    config = load_config(None, named)
    found = decided(config, views, sample if points else sample[:0], lines.append)
    sized = for_photographs(found, photographs)
    budget = STRATEGIES["budget"].budget(sized.densify, views.cameras, min(points, 100), points)
    own = sized.densify.budget.overfit_check, sized.adam.visible_adam
    return sized.run.max_steps, budget, *own, lines


@pytest.mark.parametrize("share", [0.1, 0.5, None])
def test_the_share_of_points_in_a_view(share):
    views, points = capture(50, share or 1.0)
    if share is None:
        points = points[:0]
    assert views.shown(points)[0] == pytest.approx(share or 1.0, abs=0.001)
    many = np.repeat(points, 20, axis=0)
    assert views.shown(many)[0] == pytest.approx(share or 1.0, abs=0.01)
    far = np.concatenate([points, [[1e9, 0, -1.0], [0, 1e12, 1.0]] * 500])  # that no view shows
    assert views.shown(far)[0] == pytest.approx(share or 1.0, abs=0.01)


@pytest.mark.parametrize(
    "photographs, share, steps, check",
    [  # captures of docs/results/generalization.md
        (112, 0.15, 8_000, 0),  # corridor
        (143, 0.06, 8_008, 0),  # seneca
        (112, 0.82, 13_440, 3_750),  # south
        (84, 0.70, 10_080, 2_940),  # plush
        (255, 0.49, 18_000, 3_750),  # bonsai
        (35, 0.51, 7_000, 1_225),  # courtyard
        # others
        (12, 0.6, 7_000, 420),
        (30, 0.6, 7_000, 1_050),
        (12, 0.1, 3_000, 0),
        (48, 0.06, 3_456, 0),  # a third of seneca
        (600, 0.6, 18_000, 3_750),
        (600, 0.05, 18_000, 0),
    ],
)
def test_lengths(photographs, share, steps, check):
    found = planned(photographs, share)
    assert (found[0], found[2], found[3]) == (steps, check, share < 0.25)
    assert len(found[4]) == (share < 0.25)


def test_no_points_tell_nothing():
    assert planned(100, points=0) == (12_000, 390_000, 3_500, False, [])


def test_lengths_do_not_jump():
    for photographs, planned_steps in ((112, 13_440), (20, 7_000)):
        shares = np.linspace(0, 1, 201)
        steps = np.array([steps_of(share, photographs, planned_steps) for share in shares])
        assert (np.diff(steps) >= 0).all() and (steps[1:] < 1.06 * steps[:-1]).all()
        assert steps[-1] == steps_of(0.45, photographs, planned_steps) == planned_steps
    few = [planned(n, 0.1)[0] for n in range(20, 500, 15)]
    assert all(a <= b <= max(1.35 * a, a + 1_080) for a, b in pairwise(few))
    assert planned(112, 0.24)[0] == 8_000 and planned(112, 0.26)[0] < 8_900
    # what is said is what happens
    steps, *_, lines = planned(112, 0.30)
    assert f"shows 30 % of the points, so the run has {steps} steps: --max-steps" in lines[0]
    assert 8_000 < steps < 12_000


def test_what_is_named_stays():
    for named in (True, False):
        found = planned(112, 0.1, visible_adam=named)
        assert (found[0], found[3], found[4]) == (13_440, named, [])
    for own in ({"max_steps": 20_000}, {"max_epochs": 100}):
        steps, _, check, rest, lines = planned(112, 0.1, **own)
        assert steps == own.get("max_steps", 11_200) and check and rest
        assert (
            "--max-epochs" not in lines[0]
            and "--overfit-check" not in lines[0]
            and "--visible-adam" in lines[0]
        )


@pytest.mark.parametrize(
    "photographs, points, splats",
    [
        (112, 5_751, 115_020),  # corridor
        (84, 12_448, 248_960),  # plush
        (112, 31_272, 436_800),  # south: 3 900 a photograph
        (112, 100, 109_200),  # a quarter of that
        (112, 0, 436_800),  # nothing is known
        (12, 500, 20_000),
        (30, 20_000, 117_000),
        (600, 10_000, 585_000),
        (600, 300_000, 2_340_000),
        (2_000, 10**6, 4_000_000),
    ],
)
def test_numbers_of_splats(photographs, points, splats):
    assert planned(photographs, points=points)[1] == splats


def test_numbers_of_splats_at_the_limits():
    sizes = (1000, 750), (100, 75)  # pixels count, of whichever sizes
    assert planned(100, sizes=sizes)[1] == 390_000
    assert planned(100, sizes=(sizes[1],))[1] == 75_000
    budget, cameras = STRATEGIES["budget"].budget, capture(100, 0.5)[0].cameras
    densify = TrainConfig().densify
    # a dense cloud stays as it is; few splats of --init or at random say nothing of the model
    assert budget(densify, cameras, 2_000_000, 2_000_000) == 2_000_000
    assert budget(densify, cameras, 100, 0) == budget(densify, cameras, 100, 50_000) == 390_000
    curve = [budget(densify, cameras, 100, n) for n in range(1, 40_000, 500)]
    assert (np.diff(curve) >= 0).all() and max(np.diff(curve)) <= 10_000


def plan_of(photographs: int, config: TrainConfig, points: int = 10**6) -> Job:
    views, _ = capture(photographs, 0.6)
    sized = for_photographs(config, photographs)
    budget = STRATEGIES["budget"].budget(sized.densify, views.cameras, 100, points)
    densify = replace(sized.densify, cap_max=budget)
    held = tuple(overfit.validation_views(sized, photographs))
    return Job(sized, views, densify, "float32", (), held)


@pytest.mark.parametrize(
    "photographs, points, said",
    [
        (84, 10**6, "there are 10080 steps (--max-steps 10080 --overfit-check 2940) and at most "),
        (84, 12_448, "at most 248960 splats because the model has 148 points a view (--cap-max"),
        (150, 10**6, "150 training views there are at most 585000 splats (--cap-max 585000)"),
    ],
)
def test_the_plan_is_said(photographs, points, said):
    lines: list[str] = []
    config = TrainConfig()
    say_plan(plan_of(photographs, config, points), config, 100, points, lines.append)
    assert len(lines) == 1 and said in lines[0]
    named = load_config(None, {"max_steps": 900, "cap_max": 50_000})
    say_plan(plan_of(photographs, named, points), named, 100, points, lines.append)
    assert len(lines) == 1


@pytest.mark.parametrize(
    "photographs, steps", [(12, 7_000), (112, 8_000), (143, 8_008), (600, 18_000)]
)
def test_runs_in_changing_light(photographs, steps):
    """Short, but not shorter than an epoch asks for."""
    light, lines = Light(np.zeros((3, 3)), 0.3, 0.5), list[str]()
    lit = plan_of(photographs, TrainConfig()).lit(light)
    assert lit.steps == steps and lit.config.exposure.exposure_until == 1
    say_light(light, lit, lines.append)
    assert "differ in exposure by 30 %, so exposures are trained: --exposure affine" in lines[0]
    assert lines[0].endswith(
        f"--opacity-reg 0.01 --max-steps {steps} (--exposure none: they are not)"
    )


@pytest.mark.parametrize(
    "light, said",
    [
        (
            Light(np.zeros((3, 3)), 0.10, 0.5),
            "differ in exposure by 10 %, less than 14 %: exposures",
        ),
        (Light(np.zeros((3, 3)), 0.30, 0.8), "by 30 %, but that leaves 80 % of their differences"),
        (
            Light(np.zeros((3, 3))),
            "no tracks of points tell whether views differ in exposure: exposures",
        ),
    ],
)
def test_steady_light_is_said(light, said):
    lines: list[str] = []
    say_light(light, plan_of(100, TrainConfig()).lit(light), lines.append)
    assert said in lines[0] and lines[0].endswith("--exposure none (--exposure affine: they are)")


def test_photographs_that_are_held_are_few():
    for n in (12, 23, 24, 30, 100, 600, 5_000):
        held = overfit.validation_views(TrainConfig(), n)
        assert len(held) == (0 if n < 24 else max(6, n // 16)) and len({*held}) == len(held)
        assert not {*held} & {*overfit.views_to_compare(n)} and all(0 <= i < n for i in held)


def flags_of(line: str) -> dict:
    """The settings that a line names, but for what it says of other choices."""
    words, found = re.sub(r" \(--(no|exposure none).*|\)", "", line), {}
    for flag in re.findall(r"--([a-z-]+)( [\w.]+)?", words):
        name, value = flag[0].replace("-", "_"), flag[1].strip()
        found[name] = float(value) if re.fullmatch(r"[\d.]+", value) else value or True
    return {n: int(v) if isinstance(FIELDS[n].default, int) else v for n, v in found.items()}


def test_the_flags_that_are_said_do_the_same():
    for photographs, share in ((112, 0.1), (143, 0.06), (112, 0.3)):
        views, points = capture(photographs, share)
        lines: list[str] = []
        found = decided(TrainConfig(), views, points, lines.append)
        hand = load_config(None, {"visible_adam": False} | flags_of(lines[0]))
        own, same = (for_photographs(each, photographs).flat() for each in (found, hand))
        assert own == same, lines
    for photographs in (84, 112):
        config, lines = TrainConfig(), []
        job = plan_of(photographs, config, 12_448)
        say_plan(job, config, 100, 12_448, lines.append)
        hand = load_config(None, flags_of(lines[0])).flat()
        assert hand == job.flat | {"cap_max": job.densify.cap_max, "max_epochs": hand["max_epochs"]}
    job = plan_of(112, TrainConfig()).lit(light := Light(np.zeros((3, 3)), 0.3, 0.5))
    say_light(light, job, lines.append)
    hand = load_config(None, flags_of(lines[-1])).flat()
    # nothing is held for validation, whatever the check is
    assert hand == job.flat | {"overfit_check": 0, "max_epochs": 0} and not job.validation


@pytest.mark.parametrize("panoramas", [4, 6, 10, 12, 21, 100])
def test_faces_of_panoramas_are_compared_with_the_same_faces(panoramas):
    n = 6 * panoramas
    held = overfit.validation_views(TrainConfig(), n, 6)
    others = overfit.views_to_compare(n, 6)
    assert len({*held, *others}) == 2 * max(6, n // 16) and all(0 <= i < n for i in held + others)
    assert [i % 6 for i in held] == [i % 6 for i in others] and {i % 6 for i in held} == {*range(6)}


def test_decisions_are_kept(on_device, scene, tmp_path, capfd):
    run = dict(cap_max=0, exposure="auto", visible_adam=None, strategy="budget", overfit_check=0)
    metrics = train(settings(scene, tmp_path / "run", checkpoint_every=15, **run))
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith("note: ")]
    assert [f"note: {line}" for line in metrics["decisions"]] == said[-len(metrics["decisions"]) :]
    plan, light = metrics["decisions"]
    assert "training views" in plan and "exposure" in light
    report = html.unescape((tmp_path / "run/report.html").read_text())
    assert plan in report and light in report
    # a run that goes on decides nothing again, and keeps what was decided
    path_of(tmp_path / "run", 30).unlink()
    again = train(load_config(None, {"data_dir": tmp_path / "run", "resume": True}))
    assert again["decisions"] == metrics["decisions"] and again["steps"] == 30
    assert plan not in capfd.readouterr().out


def test_points_that_no_photograph_shows_are_told(capsys):
    K = np.array([[10.0, 0, 5], [0, 10.0, 5], [0, 0, 1]])
    views = Views([Camera(np.eye(4), K, 10, 10)] * 3, (10, 10), 1.0)
    points = np.array([[0, 0, z] for z in (0.1, 0.15, *np.linspace(1, 2, 8))])
    check_shown(TrainConfig(), views.shown(points)[1])
    assert "20 % of the points that photographs show are nearer than" in capsys.readouterr().out
    with pytest.raises(UserError, match="--near-plane 0.2; choose 0.0001 or so"):
        check_shown(TrainConfig(), views.shown(0.01 * points)[1])
    with pytest.raises(UserError, match="shows a point of the model; cameras and points do not"):
        check_shown(TrainConfig(), views.shown(-points)[1])
    decided(TrainConfig.of(init_type="random"), views, -points, print)
