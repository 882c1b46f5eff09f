"""Gradients of intrinsics against central differences, and what a run does with them."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.io.scenes.colmap import read_model, write_model
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.camera import Camera, Distortion
from hardsplat.results.folder import archive_run
from hardsplat.settings.presets import load_config
from hardsplat.train import run_training as train
from hardsplat.train.features.intrinsics import INTRINSICS_FILE, load_intrinsics, save_intrinsics
from hardsplat.train.features.poses import focused
from hardsplat.train.measure.command import evaluate_run
from tests.helpers.tables import refuses
from tests.helpers.training import OneStep, partly_outside, settings
from tests.oracle.differences import central
from tests.oracle.lens import fisheye

FISHEYE = Distortion(True, (0.05, -0.02, 0.01, -0.003))
CHANGE = np.array([[0.03, -0.02, 0.01], [-0.04, 0.015, 0.02]])
CASES = [
    ("hardware", {"block": "1x1", "state_format": "float32"}, None),
    ("tiled", {"antialiased": True}, None),
    ("tiled", {"pose_opt": True}, FISHEYE),
    ("hardware", {"antialiased": True, "state_format": "float32"}, FISHEYE),
]


@pytest.mark.parametrize("rasterizer, options, distortion", CASES)
def test_gradients_against_central_differences(device, rasterizer, options, distortion):
    """By log focal lengths and principal point, in float64, of refined intrinsics."""
    s = partly_outside()
    cameras = [Camera(s["w2c"], s["K"], 48, 32, distortion)] * 2
    own = dict(intrinsics_opt=True, pose_warm_up=1, rasterizer=rasterizer, **options)
    step = OneStep(device, s, own, cameras, {"intrinsics": CHANGE}, numbers=[0, 1])
    found, drawn = step.gradient("intrinsics")[step.view], step.struct("Camera")
    at, camera = step.before["intrinsics"], cameras[step.view]
    there = focused(camera, at)
    assert np.allclose(drawn["focal"], np.diag(there.K)[:2], rtol=1e-6)
    assert np.allclose(drawn["centre"], there.K[:2, 2], rtol=1e-6)
    more = dict(antialiased="antialiased" in options)
    more["lens"] = fisheye(*distortion.coefficients) if distortion else None
    # steps so small that no fragment comes or goes at alpha = 1/255
    wanted = central(lambda change: step.loss(focused(camera, change), **more), at, 1e-7)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max(), (found, wanted)


def evaluated(folder, again) -> float:
    return evaluate_run(str(folder), result_dir=str(again))["psnr"]


def test_held_out_views_have_refined_intrinsics(on_device, scene, tmp_path):
    """In the run and in `hardsplat eval`; the model that the run leaves has them too."""
    run, again = tmp_path / "run", tmp_path / "again"
    rates = dict(intrinsics_opt=True, intrinsics_lr=0.05, pose_warm_up=1)
    steps = dict(strategy="none", rasterizer="tiled", max_steps=20, eval_steps=(20,))
    psnr = train(settings(scene, run, **rates, **steps))["evaluations"][-1]["psnr"]
    found = load_intrinsics(run)
    assert np.abs(found).max() > 0.01
    assert evaluated(run, again) == pytest.approx(psnr, abs=0.02)
    (run / INTRINSICS_FILE).unlink()
    save_intrinsics(run, np.zeros((1, 3)))
    assert abs(evaluated(run, again) - psnr) > 0.1
    roots = run / "poses/sparse", scene / "sparse"
    models = (next(root.rglob("cameras.*")).parent for root in roots)
    saved, given = (read_model(model)[0] for model in models)
    for i in given:
        wanted = given[i].params[0] * np.exp(found[0, 0])
        assert np.isclose(saved[i].params[0], wanted, rtol=1e-6)
    assert (run / "poses" / "transforms.json").is_file()
    earlier = archive_run(run)
    assert earlier and not load_intrinsics(earlier).any()


DAMAGED = ["{", '{"cameras": []}', '{"cameras": [{"log_focal": 1}]}', "[" * 99999]
DAMAGED += ['{"cameras": [{"log_focal": 1e9, "centre": [0, 0]}]}']


def test_files_and_scenes_that_do_not_fit(tmp_path):
    save_intrinsics(tmp_path, CHANGE)
    assert np.allclose(load_intrinsics(tmp_path), CHANGE)
    for text in DAMAGED:
        (tmp_path / INTRINSICS_FILE).write_text(text)
        refuses("is not the intrinsics of a run", load_intrinsics, tmp_path)
    refuses("No such file", load_intrinsics, tmp_path / "elsewhere")
    run = {"intrinsics_opt": True, "gradient": "stochastic", "strategy": "none"}
    refuses("--no-intrinsics-opt or --gradient analytic", load_config, overrides=run)


def bent(scene, folder, model: str, *params: float):
    """A copy of a scene whose camera is said to distort."""
    shutil.copytree(scene, folder)
    where = next((folder / "sparse").rglob("cameras.*")).parent
    cameras, images, points = read_model(where)
    for i, camera in cameras.items():
        K = camera.params
        K = [K[0], K[0 if len(K) == 3 else 1], *K[-2:]]
        cameras[i] = replace(camera, model=model, params=np.array([*K, *params]))
    write_model(where, cameras, images, points)
    return folder


BENT = {"OPENCV": (-0.05, 0.01, 0.001, -0.002), "OPENCV_FISHEYE": (0.01, 0.0, 0.0, 0.0)}


@pytest.mark.parametrize("model, params", BENT.items())
def test_photographs_as_their_lens_made_them(on_device, scene, tmp_path, model, params):
    """Trained on, measured, refined; not refined where undistorted on load."""
    root = bent(scene, tmp_path / "bent", model, *params)
    straight, there = load_scene(root), load_scene(root, undistort=False)
    assert straight.views[0].lens and not straight.views[0].camera.distortion
    camera = there.views[0].camera
    assert there.views[0].lens is None
    assert camera.distortion.fisheye == (model == "OPENCV_FISHEYE")
    assert not any("undistorted" in note for note in there.notes)
    half = camera.resized(camera.width // 2, camera.height // 2)
    assert half.distortion == camera.distortion
    run = dict(max_steps=4, strategy="none", intrinsics_opt=True, eval_steps=(4,))
    run["rasterizer"] = "tiled"
    refuses("add --no-undistort", train, settings(root, tmp_path / "refused", **run))
    result = train(settings(root, tmp_path / "run", undistort=False, **run))["evaluations"][-1]
    found = evaluated(tmp_path / "run", tmp_path / "again")
    assert found == pytest.approx(result["psnr"], abs=0.02)
