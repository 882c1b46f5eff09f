"""Whatever is wrong with the input, the machine or the flags: one line on stderr that says what and where, exit code 2, nothing trained."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hardsplat.cli import main
from hardsplat.gaussians import Gaussians
from hardsplat.io.colmap import ColmapPoints, read_model, write_model
from hardsplat.io.ply import save_ply

ROOT = Path(__file__).parents[1]
MODEL = Path("sparse/0")


@pytest.fixture
def broken(scene, tmp_path) -> Path:
    """A copy of the scene to break."""
    return Path(shutil.copytree(scene, tmp_path / "broken"))


@pytest.fixture
def error_of(capfd, tmp_path):
    """error_of(command, ...) -> the one line, without its head."""

    def run(*argv) -> str:
        if argv[0] == "train":
            argv = (*argv, "--max-steps", "2", "--batch-steps", "2", *(() if "--result-dir" in argv else ("--result-dir", tmp_path / "out")))
        assert main([str(a) for a in argv]) == 2
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("hardsplat: error: ") and err.count("\n") == 1
        assert not list((tmp_path / "out").glob("*"))
        return err.removeprefix("hardsplat: error: ").rstrip("\n")

    return run


# -- scenes ----------------------------------------------------------------------------------------------------------------------


def test_no_scene(error_of, tmp_path):
    assert error_of("train", tmp_path / "nowhere") == f"scene {tmp_path / 'nowhere'} does not exist"
    (tmp_path / "empty").mkdir()
    assert "no COLMAP model in sparse/0 or sparse" in error_of("train", tmp_path / "empty")
    (tmp_path / "file").touch()
    assert "scene folder not found" in error_of("train", tmp_path / "file")


def test_a_scene_is_near(error_of, scene):
    for wrong in (scene.parent, scene / "images"):
        assert f"but {scene} is a scene: hardsplat train " in error_of("train", str(wrong))


@pytest.mark.parametrize("name", ["cameras.bin", "images.bin", "points3D.bin"])
def test_model_files_missing_or_truncated(error_of, broken, name):
    path = broken / MODEL / name
    whole = path.read_bytes()
    for size in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert str(path) in error_of("train", broken)
    path.unlink()
    assert f"{name} not found" in error_of("train", broken)


def test_images_missing(error_of, broken):
    (broken / "images/view_0003.jpg").unlink()
    assert "images/view_0003.jpg: not found, 1 of the model's 9 images are missing" in error_of("train", broken)
    shutil.rmtree(broken / "images")
    assert "no folder images found" in error_of("train", broken)


def test_image_of_another_size(error_of, broken):
    with Image.open(broken / "images/view_0002.jpg") as image:
        image.resize((16, 12)).save(broken / "images/view_0002.jpg")
    assert "view_0002.jpg: is 16x12, but its camera 1 in the model is 32x24" in error_of("train", broken)


def test_image_files_that_are_damaged(error_of, broken):
    path = broken / "images/view_0005.jpg"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])  # its header still tells the size
    assert "view_0005.jpg: not a readable image" in error_of("train", broken)
    path.write_bytes(b"no picture")
    assert "view_0005.jpg: not a readable image" in error_of("train", broken)


def test_no_points(error_of, broken):
    cameras, images, _ = read_model(broken / MODEL)
    write_model(broken / MODEL, cameras, images, ColmapPoints(np.zeros((0, 3)), np.zeros((0, 3), np.uint8), np.zeros(0)))
    assert "points3D.bin: holds no points" in error_of("train", broken)


@pytest.mark.parametrize("part", ["qvec", "tvec"])
def test_a_pose_that_is_nan(error_of, broken, part):
    path = broken / MODEL / "images.bin"
    data = bytearray(path.read_bytes())
    struct.pack_into("<d", data, 8 + 4 + (8 if part == "qvec" else 40), float("nan"))  # after the count and the first id
    path.write_bytes(data)
    error = error_of("train", broken)
    assert "images.bin: image 1" in error and "NaN" in error


def test_a_camera_model_that_is_not_supported(error_of, broken):
    path = broken / MODEL / "cameras.bin"
    data = bytearray(path.read_bytes())
    struct.pack_into("<i", data, 8 + 4, 99)
    path.write_bytes(data)
    error = error_of("train", broken)
    assert "cameras.bin" in error and "99" in error


def test_nothing_left_to_train_on(error_of, scene):
    assert "no view is left to train on" in error_of("train", scene, "--test-every", "1")


# -- flags, machine, folders -----------------------------------------------------------------------------------------------------


def test_flags(error_of, scene):
    assert error_of("train", scene, "--max-step", "3").startswith("unknown flag '--max-step'; did you mean '--max-steps'?")
    assert "--format: expected one of unorm8, unorm16, unorm16x4, float16, float32, got 'nosuch'" in error_of("train", scene, "--format", "nosuch")
    error = error_of("train", scene, "--device", "99")
    assert error.startswith("--device 99: there is no such device; this machine has 0: ")
    assert "no device has this in its name" in error_of("train", scene, "--device", "voodoo")


def test_a_missing_feature(error_of, scene, device):
    if "interlock" in device.capabilities:
        pytest.skip(f"{device.name} has fragment interlock")
    error = error_of("train", scene, "--ordering", "interlock")
    assert error.startswith(f"--ordering interlock: {device.name} lacks ") and error.endswith("use --ordering lists")


def test_no_vulkan_device(scene, tmp_path):
    environment = {**os.environ, "VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent", "HARDSPLAT_VALIDATION": "0"}
    argv = [sys.executable, "-m", "hardsplat", "train", str(scene), "--result-dir", str(tmp_path / "out")]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hardsplat: error: no Vulkan device: install ") and done.stderr.count("\n") == 1


def test_a_result_folder_that_cannot_be(error_of, scene, tmp_path, monkeypatch):
    """Said before anything is opened that takes time."""
    for module in ("train.photographs.load_scene", "mesh.fit.load_scene", "fit.fitter.read_photo"):
        monkeypatch.setattr(f"hardsplat.{module}", lambda *given: pytest.fail("too late"))
    (tmp_path / "file").touch()
    locked = tmp_path / "locked"
    locked.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked and access(path, mode))  # root may write anywhere
    for command in ("train", "mesh", "fit"):
        for folder in (tmp_path / "file", tmp_path / "file/below"):
            assert error_of(command, scene, "--result-dir", folder) == f"cannot make the folder {folder}: {tmp_path / 'file'} is no folder; choose another --result-dir"
        for folder in (locked, locked / "new/below"):
            assert error_of(command, scene, "--result-dir", folder) == f"cannot write to the folder {locked}; choose another --result-dir"
    assert list(locked.iterdir()) == []


# -- evaluation ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ply(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    save_ply(tmp_path / "splats.ply", Gaussians.from_points(rng.normal(size=(20, 3)), rng.integers(0, 256, (20, 3)), 1))
    return tmp_path / "splats.ply"


def test_nothing_to_evaluate(error_of, tmp_path):
    assert "no such file; give a run folder of hardsplat train, or a .ply" in error_of("eval", tmp_path)
    assert "no such file" in error_of("eval", tmp_path / "none.ply")


def test_an_image_as_a_checkpoint(error_of, scene):
    path = scene / "images/view_0000.jpg"
    message = f"{path}: not a usable checkpoint (another kind of file, or cut short); give another with --ckpt"
    assert error_of("train", scene, "--ckpt", path) == message


def test_splats_without_a_scene(error_of, ply, tmp_path):
    assert "add --data-dir SCENE" in error_of("eval", ply)
    assert "scene folder not found" in error_of("eval", ply, "--data-dir", tmp_path / "nowhere")


def test_splats_with_nan(error_of, ply, scene):
    splats = np.full((20, 26), np.nan, "<f4")
    head = ply.read_bytes().partition(b"end_header\n")
    ply.write_bytes(head[0] + head[1] + splats.tobytes())
    assert f"{ply}: none of its 20 splats can be drawn: 20 with NaN or infinite numbers" in error_of("eval", ply, "--data-dir", scene)


def test_splats_truncated(error_of, ply, scene):
    ply.write_bytes(ply.read_bytes()[:-100])
    assert f"{ply}: truncated" in error_of("eval", ply, "--data-dir", scene)


def test_settings_beside_the_splats_are_damaged(error_of, ply):
    (ply.parent / "config.toml").write_text("max_steps = [")
    assert "not a valid TOML file" in error_of("eval", ply.parent)


def test_results_of_evaluation_have_no_place(error_of, ply, scene, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("hardsplat.train.command.open_device", lambda wanted: pytest.fail("too late"))
    assert str(tmp_path / "file") in error_of("eval", ply, "--data-dir", scene, "--result-dir", tmp_path / "file")
