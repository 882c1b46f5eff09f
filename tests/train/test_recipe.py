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
from hardsplat.train.job.facts import WHOLE, DeviceFacts, Facts, Views
from hardsplat.train.job.job import Job, decide
from hardsplat.train.run.start import (
    OF_DISTANCE,
    OF_EXTENT,
    gather,
    initial_gaussians,
    near_plane_of_cameras,
    near_plane_of_points,
    random_cube,
)
from hardsplat.train.step.step import schedule_settings
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.watchers.log import Log
from tests.helpers.training import settings

SIZE = 1000, 750


def capture(photographs: int, sizes=(SIZE,)) -> Views:
    """Cameras of these sizes, in turns."""
    K = np.array([[800.0, 0, 500], [0, 800, 375], [0, 0, 1]])
    cameras = [Camera(np.eye(4), K, *sizes[i % len(sizes)]) for i in range(photographs)]
    return Views(cameras, SIZE, 1.0)


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


@pytest.mark.parametrize(
    "photographs, sizes, splats",
    [
        (3, [SIZE], 20_000),
        (84, [SIZE], 327_600),  # 3 900 a photograph
        (2_000, [SIZE], 4_000_000),
        (100, [SIZE, (100, 75)], 390_000),  # pixels count, of whichever sizes
        (100, [(100, 75)], 75_000),
    ],
)
def test_numbers_of_splats(photographs, sizes, splats):
    budget, cameras = STRATEGIES["budget"].budget, capture(photographs, sizes).cameras
    assert budget(TrainConfig().densify, cameras, 100) == splats
    assert budget(TrainConfig().densify, cameras, 5_000_000) == 5_000_000  # a dense cloud stays
    assert budget(TrainConfig.of(cap_max=50).densify, cameras, 100) == 50


def test_the_number_of_splats_is_said():
    views = capture(84)
    (line,) = spoken(decided(TrainConfig(), views, splats=100))
    assert line == "84 training photographs: at most 327,600 splats"
    (line,) = spoken(decided(TrainConfig(), views, splats=10**6))
    assert line.endswith("1,000,000 splats, as many as at first")
    assert not spoken(decided(TrainConfig.of(cap_max=50_000), views, splats=100))


@pytest.mark.parametrize("exposure", ["auto", "none", "ppisp"])
def test_photographs_of_other_light_have_exposures(exposure):
    """Nothing else is decided by them, and where a setting names exposures nothing is."""
    views = capture(84)
    config = TrainConfig.of(exposure=exposure)
    gains = (), (3.0, 2.0, 1.1), (1.2, 3.0)
    jobs = [decided(config, views, color_gains=each) for each in gains]
    assert jobs[0] == jobs[1] and jobs[0].config.exposure == config.exposure
    lit = jobs[0].config.changed(exposure="affine", exposure_until=1.0)
    assert jobs[2].config == (lit if exposure == "auto" else jobs[0].config)
    assert len(spoken(jobs[2])) - len(spoken(jobs[0])) == (exposure == "auto")


def test_decisions_are_kept(on_device, reports, scene, tmp_path, capfd):
    run = dict(cap_max=0, exposure="auto", strategy="budget")
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
    near_plane_of_points(named, views.depths(points))
    assert f"{said} are nearer than 0.01" in capsys.readouterr().out
    with pytest.raises(UserError, match="--near-plane 0.01; choose 5e-07 or so"):
        near_plane_of_points(named, views.depths(0.01 * points))
    # a near plane that is left to the scene follows its points, and else its cameras
    assert near_plane_of_points(TrainConfig(), views.depths(2 * points)) is None
    nearer = near_plane_of_points(TrainConfig(), views.depths(points))
    job = decided(TrainConfig(), views, near_plane=nearer)
    assert job.config.scene.near_plane == nearer.plane == 5e-5 and nearer.why.startswith(said)
    assert decided(TrainConfig(), views).config.scene.near_plane == 0.01
    # as does that of a run which is continued or repeated, whose settings were saved
    assert near_plane_of_points(TrainConfig.of(near_plane=0.03), views.depths(points)) is None
    assert near_plane_of_cameras(TrainConfig(), 0.1) is near_plane_of_cameras(named, 0.01) is None
    assert near_plane_of_cameras(TrainConfig(), 0.01).plane == 1e-5
    with pytest.raises(UserError, match="shows a point of the model; cameras and points do not"):
        near_plane_of_points(TrainConfig(), views.depths(-points))


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


def test_positions_move_by_what_photographs_show(device):
    """Over a flight, not by its length but by the depth below, of which each photograph tells
    alike; as published, by the extent."""
    poses = np.tile(np.eye(4), (9, 1, 1))
    poses[:, 0, 3] = -6.0 * np.arange(9)
    below = np.concatenate([[[x, 0, 3.0]] for x in 6.0 * np.arange(9)])
    far = np.random.default_rng(1).uniform([-1, -1, 40], [1, 1, 50], (200, 3))
    points = np.concatenate([below, far])  # far ones in the first photographs alone
    cameras = [Camera(w2c, K, 16, 12) for w2c in poses]
    images = [np.zeros((12, 16, 3), np.uint8)] * 9
    colors = np.zeros(points.shape, np.uint8)
    scene = Scene.of_images(cameras, images, points, colors, test_every=0)
    assert scene.extent == pytest.approx(1.1 * 24)

    def job(scene, **changes):
        config = TrainConfig().changed(**changes)
        return decide(config, gather(config, scene, device, 200, Log(), WHOLE, None))

    rate = lambda job: schedule_settings(job, job.schedule, [])["rate_plans"]["first"][0]
    assert job(scene).reach == 3 and rate(job(scene)) == pytest.approx(3 * 1.6e-4)
    for strategy in ("mcmc", "adaptive"):
        assert rate(job(scene, strategy=strategy)) == pytest.approx(scene.extent * 1.6e-4)
    assert job(scene, strategy="none").reach == 3
    # what is farther than the cameras are apart, or not known, leaves the extent
    near = Scene.of_images(cameras[:2], images[:2], 10 * points, colors, test_every=0)
    assert job(near).reach == near.extent
    assert job(Scene.of_images(cameras, images, test_every=0)).reach == scene.extent
