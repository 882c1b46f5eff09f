"""What a run decides before its first step: for captures that are small, large, or at a limit."""

import html

import numpy as np
import pytest

from hardsplat import Scene
from hardsplat.base.errors import UserError
from hardsplat.io.formats.checkpoint import path_of
from hardsplat.model.camera import Camera, Distortion, in_view
from hardsplat.model.framing import look_at
from hardsplat.settings.presets import load_config
from hardsplat.settings.scene import StartSettings
from hardsplat.settings.train import TrainConfig
from hardsplat.train import run_training as train
from hardsplat.train.job.facts import DeviceFacts, Facts, Views
from hardsplat.train.job.job import Job, decide
from hardsplat.train.run.start import (
    OF_DISTANCE,
    OF_EXTENT,
    initial_gaussians,
    near_plane_of_cameras,
    near_plane_of_points,
    random_cube,
)
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


@pytest.mark.parametrize("share", [0.1, 0.5, None])
def test_the_share_of_points_in_a_view(share):
    views, points = capture(50, share or 1.0)
    if share is None:
        points = points[:0]
    assert views.points_in_view(points)[0] == pytest.approx(share or 1.0, abs=0.001)
    many = np.repeat(points, 20, axis=0)
    assert views.points_in_view(many)[0] == pytest.approx(share or 1.0, abs=0.01)
    far = np.concatenate([points, [[1e9, 0, -1.0], [0, 1e12, 1.0]] * 500])  # that no view shows
    assert views.points_in_view(far)[0] == pytest.approx(share or 1.0, abs=0.01)


@pytest.mark.parametrize("lens", [None, Distortion(False, (-0.1, 0.02, *[0.0] * 6))])
def test_cameras_hold_the_points_of_which_each_has_pixels(lens):
    rng, cameras = np.random.default_rng(3), []
    for turn in np.linalg.qr(rng.normal(size=(5, 3, 3)))[0]:
        w2c = np.eye(4)
        w2c[:3] = np.column_stack([turn * np.linalg.det(turn), rng.normal(size=3)])
        K = np.array([[90.0, 0, 50], [0, 80, 31], [0, 0, 1]])
        cameras.append(Camera(w2c, K, 100, 60, lens if len(cameras) == 2 else None))
    points = np.concatenate([3 * rng.normal(size=(400, 3)), -cameras[0].position[None]])
    inside, depths = in_view(cameras, points)
    for camera, row, depth in zip(cameras, inside, depths, strict=True):
        which, _, expected = camera.pixels(points)
        assert 0 < len(which) < len(points)
        np.testing.assert_array_equal(np.flatnonzero(row), which)
        np.testing.assert_allclose(depth[row], expected, rtol=1e-12)


def decided(config: TrainConfig, views: Views, **facts) -> Job:
    device = DeviceFacts("a device", ("tiled",), "float32", *[1e12] * 3)
    return decide(config, Facts(views, device, **facts))


def spoken(job: Job) -> list[str]:
    return [f"{each.why}: {each.what}" for each in job.decisions if each.what]


@pytest.mark.parametrize("share, rests", [(0.06, True), (0.15, False), (0.6, False)])
def test_splats_that_few_photographs_show_rest(share, rests):
    views, points = capture(112, share)
    facts = dict(points=len(points), visible_share=views.points_in_view(points)[0])
    job = decided(TrainConfig.of(cap_max=1), views, **facts)
    assert job.config.adam.visible_adam is rests and len(spoken(job)) == rests
    for named in (True, False):
        job = decided(TrainConfig.of(cap_max=1, visible_adam=named), views, **facts)
        assert job.config.adam.visible_adam is named and not spoken(job)
    unknown = decided(
        TrainConfig.of(cap_max=1), views, visible_share=views.points_in_view(points[:0])[0]
    )
    assert unknown.config.adam.visible_adam is False


def budget_of(photographs: int, points: int, sizes=(SIZE,)) -> int:
    cameras = capture(photographs, 0.6, sizes)[0].cameras
    return STRATEGIES["budget"].budget(TrainConfig().densify, cameras, min(points, 100), points)


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
    assert budget_of(photographs, points) == splats


def test_numbers_of_splats_at_the_limits():
    sizes = (1000, 750), (100, 75)  # pixels count, of whichever sizes
    assert budget_of(100, 10**6, sizes) == 390_000
    assert budget_of(100, 10**6, (sizes[1],)) == 75_000
    budget, cameras = STRATEGIES["budget"].budget, capture(100, 0.5)[0].cameras
    densify = TrainConfig().densify
    # a dense cloud stays as it is; few splats of --init or at random say nothing of the model
    assert budget(densify, cameras, 2_000_000, 2_000_000) == 2_000_000
    assert budget(densify, cameras, 100, 0) == budget(densify, cameras, 100, 50_000) == 390_000
    curve = [budget(densify, cameras, 100, n) for n in range(1, 40_000, 500)]
    assert (np.diff(curve) >= 0).all() and max(np.diff(curve)) <= 10_000


SAID = {10**6: "327,600 splats", 12_448: "248,960 splats, since the model has 148 points a"}


@pytest.mark.parametrize("points, said", SAID.items())
def test_the_number_of_splats_is_said(points, said):
    views, _ = capture(84, 0.6)
    (line,) = spoken(decided(TrainConfig(), views, splats=100, points=points))
    assert line.startswith(f"84 training photographs: at most {said}") and "--" not in line
    assert not spoken(decided(TrainConfig.of(cap_max=50_000), views, splats=100, points=points))


@pytest.mark.parametrize("exposure", ["auto", "none", "ppisp"])
def test_photographs_of_other_light_have_exposures(exposure):
    """Nothing else is decided by them, and where a setting names exposures nothing is."""
    views, _ = capture(84, 0.6)
    config = TrainConfig.of(exposure=exposure)
    gains = (), (3.0, 0.1, 0.2), (1.0, 2.0)
    jobs = [decided(config, views, color_gains=each) for each in gains]
    assert jobs[0] == jobs[1] and jobs[0].config.exposure == config.exposure
    lit = jobs[0].config.changed(exposure="affine", exposure_until=1.0)
    assert jobs[2].config == (lit if exposure == "auto" else jobs[0].config)
    assert len(spoken(jobs[2])) - len(spoken(jobs[0])) == (exposure == "auto")


def test_decisions_are_kept(on_device, reports, scene, tmp_path, capfd):
    run = dict(cap_max=0, exposure="auto", visible_adam=None, strategy="budget")
    metrics = train(settings(scene, tmp_path / "run", checkpoint_every=15, **run))
    last = [line for line in capfd.readouterr().out.splitlines() if line.startswith("decided: ")]
    (plan,) = metrics["decisions"]
    why, what = plan.split(": ")
    assert len(last) == 1 and what in last[0] and why not in last[0]
    assert why.endswith("training photographs")
    assert plan in html.unescape((tmp_path / "run/report.html").read_text())
    # a run that goes on decides nothing again, and keeps what was decided
    path_of(tmp_path / "run", 30).unlink()
    again = train(load_config(None, {"data_dir": tmp_path / "run", "resume": True}))
    assert again["decisions"] == metrics["decisions"] and again["steps"] == 30
    assert plan not in capfd.readouterr().out


def test_points_that_no_photograph_shows_are_told(capsys):
    K = np.array([[10.0, 0, 5], [0, 10.0, 5], [0, 0, 1]])
    views = Views([Camera(np.eye(4), K, 10, 10)] * 3, (10, 10), 1.0)
    points = np.array([[0, 0, z] for z in (0.005, 0.0075, *np.linspace(0.05, 0.1, 8))])
    named = load_config(None, {"near_plane": 0.01})
    said = "20 % of the points that photographs show"
    near_plane_of_points(named, views.points_in_view(points)[1])
    assert f"{said} are nearer than 0.01" in capsys.readouterr().out
    with pytest.raises(UserError, match="--near-plane 0.01; choose 5e-07 or so"):
        near_plane_of_points(named, views.points_in_view(0.01 * points)[1])
    # a near plane that is left to the scene follows its points, and else its cameras
    assert near_plane_of_points(TrainConfig(), views.points_in_view(2 * points)[1]) is None
    nearer = near_plane_of_points(TrainConfig(), views.points_in_view(points)[1])
    job = decided(TrainConfig(), views, near_plane=nearer)
    assert job.config.scene.near_plane == nearer.plane == 5e-5 and nearer.why.startswith(said)
    assert decided(TrainConfig(), views).config.scene.near_plane == 0.01
    assert near_plane_of_cameras(TrainConfig(), 0.1) is near_plane_of_cameras(named, 0.01) is None
    assert near_plane_of_cameras(TrainConfig(), 0.01).plane == 1e-5
    with pytest.raises(UserError, match="shows a point of the model; cameras and points do not"):
        near_plane_of_points(TrainConfig(), views.points_in_view(-points)[1])


MIDDLE, AWAY = np.array([5.0, -3.0, 40.0]), 12.0
K = np.array([[20, 0, 8], [0, 20, 6], [0, 0, 1.0]])


def scene_around(alpha: int) -> Scene:
    """Cameras on a tilted ring that look at MIDDLE."""
    turns = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    ring = np.stack([np.cos(turns), np.full(12, 0.5), np.sin(turns)], 1) / np.sqrt(1.25)
    poses = [look_at(MIDDLE + AWAY * at, MIDDLE, np.array([0, 1.0, 0])) for at in ring]
    image = np.full((12, 16, 4), 200, np.uint8)
    image[:, :8, 3] = alpha
    return Scene.of_images([Camera(w2c, K, 16, 12) for w2c in poses], [image] * 12, test_every=0)


def test_random_splats_begin_where_the_cameras_look():
    """Around what cameras without background see, else around them, else --init-extent."""
    centre, reach = random_cube(StartSettings(), scene_around(0))
    np.testing.assert_allclose(centre, MIDDLE, atol=1e-6)
    assert abs(reach - OF_DISTANCE * AWAY) < 1e-6
    scene = scene_around(255)
    centre, reach = random_cube(StartSettings(), scene)
    np.testing.assert_allclose(centre, MIDDLE + [0, AWAY * 0.5 / np.sqrt(1.25), 0], atol=1e-6)
    assert reach == OF_EXTENT * scene.extent
    means = initial_gaussians(StartSettings(init_num_pts=500), scene, 0).means
    assert (np.abs(means - centre) <= reach).all() and np.ptp(means, axis=0).min() > 1.9 * reach
    centre, reach = random_cube(StartSettings(init_extent=2.5), scene)
    assert not centre.any() and reach == 2.5
