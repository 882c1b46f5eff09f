"""The Python API as people use it: train, scenes in memory, callbacks, several cameras in a
call.

What a renderer computes is tested in test_api.py."""

import inspect
import pydoc

import numpy as np
import pytest

import hardsplat
from hardsplat.raster.renderer import Renderer
from hardsplat.settings.train import FIELDS
from tests.helpers.drawing import splats_of
from tests.helpers.goldens import random_scene, relative_l2
from tests.helpers.tables import refuses
from tests.helpers.training import SMALL
from tools import gen_settings


def test_train_from_python(on_device, scene, tmp_path, monkeypatch):
    seen, saved = [], []

    def on_batch(progress):
        seen.append(progress.step)
        numbers = progress.loss, progress.psnr, progress.seconds, progress.steps_per_second
        assert progress.max_steps == 1000 and np.isfinite(numbers).all()
        if not saved:
            saved.append(progress.step)
            assert len(progress.gaussians()) >= progress.splats  # densified since
            progress.save()
        if progress.step >= 10:
            progress.stop()

    result = hardsplat.train(scene, on_batch, result_dir=tmp_path / "run", max_steps=1000, **SMALL)
    assert seen == sorted(set(seen)) and set(seen) <= set(range(5, 1000, 5)) and len(seen) > 0
    assert 10 <= seen[-1] <= result.metrics["steps"] < 100
    assert result.psnr == result.metrics["evaluations"][-1]["psnr"]
    assert len(result.gaussians) == result.metrics["splats"]
    assert list((result.folder / "ckpts").glob("ckpt_*.npz"))
    assert result.antialiased == hardsplat.is_antialiased(result.folder / "splats.ply")
    lines = str(result).splitlines()
    assert len(lines) == 5 and lines[1].startswith(f"PSNR {result.psnr:.2f} dB, SSIM 0.")
    assert lines[-1].endswith(f"hardsplat view {tmp_path / 'run'}") and len(repr(result)) < 200
    again = hardsplat.load_result(str(result.folder))
    assert (again.folder, again.metrics) == (result.folder, result.metrics)
    assert again.plot().axes and again.show().html.startswith("<!doctype html")
    for text, said in (("{", "not valid JSON"), ("[1]", "is not of a training")):
        (result.folder / "metrics.json").write_text(text)
        refuses(f"metrics.json: {said}[^\n]*$", hardsplat.load_result, result.folder)
    refuses("nowhere/metrics.json: [^\n]*$", hardsplat.load_result, "nowhere")


def test_signatures_and_help_name_the_settings():
    known = inspect.signature(hardsplat.train).parameters
    own = {"scene", "on_batch", "preset", "config", "watchers"}
    assert known.keys() == own | FIELDS.keys() - {"data_dir"}
    assert all(known[n].default == FIELDS[n].default for n in known.keys() - own)
    assert str(known["result_dir"]) == "result_dir: str | pathlib.Path | None = None"
    shown = pydoc.plain(pydoc.render_doc(hardsplat.train))
    assert "    max_steps: int = 18000," in shown and "Raises UserError for bad input" in shown
    assert "max_steps" in inspect.signature(hardsplat.fit).parameters
    assert "    triangles: int = 200000," in pydoc.plain(pydoc.render_doc(hardsplat.mesh))


def test_config_is_another_name_of_preset(tmp_path):
    refuses("no preset 'nosuch'", hardsplat.train, tmp_path, config="nosuch")
    refuses("two names of one thing", hardsplat.train, tmp_path, config="quick", preset="quick")


def test_what_a_callback_raises_is_printed_and_the_run_continues(on_device, scene, tmp_path, capfd):
    called = []

    def on_batch(progress):
        called.append(progress.step)
        raise ZeroDivisionError

    result = hardsplat.train(scene, on_batch, result_dir=tmp_path / "run", max_steps=20, **SMALL)
    assert result.metrics["steps"] == 20 and len(called) == 1
    out, err = capfd.readouterr()
    assert "note: on_batch is switched off, and the training continues" in out
    assert err.count("ZeroDivisionError") == 2  # where it was raised, and its name


def test_a_scene_in_memory_trains_as_its_folder_does(on_device, scene, tmp_path):
    folder = hardsplat.load_scene(scene)
    images = [view.load() for view in folder.views]
    cameras, names = [v.camera for v in folder.views], [v.name for v in folder.views]
    points = folder.points, folder.colors
    inside = hardsplat.Scene.of_images(cameras, images, *points, names, name="inside")
    assert (inside.train, inside.test, inside.extent) == (folder.train, folder.test, folder.extent)
    same = {"max_steps": 10, "deterministic": True, **SMALL, "rasterizer": "tiled"}
    a = hardsplat.train(scene, result_dir=tmp_path / "a", **same)
    b = hardsplat.train(inside, result_dir=tmp_path / "b", **same)
    assert np.array_equal(a.gaussians.means, b.gaussians.means)
    assert a.psnr == b.psnr and b.metrics["scene"] == "b"


HERE = hardsplat.Camera(np.eye(4), np.eye(3), 8, 8)
THERE = hardsplat.Camera(np.eye(4) + np.eye(4, k=3), np.eye(3), 8, 8)
GOOD = {"cameras": [HERE, THERE], "images": [np.zeros((8, 8, 3), np.uint8)] * 2}
BAD = [
    ({"images": []}, "2 cameras, 0 images"),
    ({"names": ["a", "a"]}, "one name"),
    ({"images": [np.zeros((8, 8, 3))] * 2}, "is float64 of shape"),
    ({"images": [np.zeros((8, 9, 3), np.uint8)] * 2}, "expected uint8 of \\(8, 8, 3 or 4\\)"),
    ({"points": np.full((1, 3), np.nan)}, "finite"),
    ({"points": np.zeros((2, 3)), "colors": np.zeros((1, 3), np.uint8)}, "expected \\(N, 3\\)"),
    ({"cameras": [HERE, HERE]}, "stand at one point"),
]


@pytest.mark.parametrize("change, said", BAD)
def test_scenes_that_do_not_fit_together(change, said):
    refuses(said, hardsplat.Scene.of_images, **GOOD | change)


def test_several_cameras_in_a_call(device):
    """Images are those of one camera after the other, gradients their sum, also again."""
    scene = random_scene(1, 30, 32, 24, 1)
    gaussians, camera = splats_of(scene)
    shifted = scene["w2c"] @ (np.eye(4) + 0.3 * np.eye(4, k=3))
    cameras = [camera, hardsplat.Camera(shifted, scene["K"], 32, 24)]
    weight = np.random.default_rng(0).normal(size=(2, 24, 32, 3)).astype(np.float32)
    with Renderer(device, format="float32") as renderer:
        images, T = renderer.forward(gaussians, cameras)
        gradients = [renderer.backward(weight), renderer.backward(weight)]
        total = {}
        for i, camera in enumerate(cameras):
            image, t = renderer.forward(gaussians, camera)
            assert np.array_equal(image, images[i]) and np.array_equal(t, T[i])
            for name, d in renderer.backward(weight[i]).items():
                total[name] = total.get(name, 0) + d
        for got in gradients:
            for name, d in got.items():
                assert relative_l2(d, total[name]) < 1e-5, name
        with pytest.raises(ValueError, match="one image size"):
            renderer.forward(gaussians, [cameras[0], cameras[1].resized(16, 12)])
        with pytest.raises(ValueError, match="a sequence of them, got Gaussians and list"):
            renderer.forward(gaussians, [])


def test_the_settings_that_editors_know_are_those_there_are():
    for path, text in gen_settings.texts().items():
        assert path.read_text() == text, f"run python -m tools.gen_settings: {path}"
