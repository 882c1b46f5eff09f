"""Bad input, machines and flags: a line that says what and where, exit code 2, nothing trained."""

import os
import re
import shlex
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hardsplat.blocks.tasks import OUTCOME, outcome_of
from hardsplat.io.splats import save_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.folder import is_complete
from hardsplat.sfm.job.state import State
from hardsplat.study.sweep import runs
from hardsplat.train.watchers.logs import json_lines


@pytest.fixture
def refused(error_of, tmp_path):
    """refused(command, ...) -> the one line; a training leaves nothing."""

    def run(*words) -> str:
        if words[0] == "train":
            words = (*words, "--max-steps 2 --batch-steps 2")
            words += () if "--result-dir" in words else ("--result-dir", tmp_path / "out")
        error = error_of(*words)
        assert not list((tmp_path / "out").glob("*"))
        return error

    return run


def cut(share: float):
    """Leaves this share of a file."""
    return lambda path: path.write_bytes((data := path.read_bytes())[: int(share * len(data))])


def put(at: int, layout: str, value):
    """Overwrites a number in a file."""

    def change(path):
        data = bytearray(path.read_bytes())
        struct.pack_into(layout, data, at, value)
        path.write_bytes(data)

    return change


def square(path):
    with Image.open(path) as image:
        image.resize((16, 16)).save(path)


CAMERAS, IMAGES, POINTS = (f"sparse/0/{name}.bin" for name in ("cameras", "images", "points3D"))
SPOILED = [  # a file of the scene, what is done to it, words of the error
    *((file, cut(share), file) for file in (CAMERAS, IMAGES, POINTS) for share in (0, 0.5, 0.999)),
    *((file, Path.unlink, f"{Path(file).name} not found") for file in (CAMERAS, IMAGES)),
    (IMAGES, put(8 + 4 + 8, "<d", float("nan")), "images.bin: image 1 .*NaN"),  # after count and id
    (CAMERAS, put(8 + 4, "<i", 99), "cameras.bin: .*99"),
    ("images/view_0003.jpg", Path.unlink, "view_0003.jpg: not found; 1 of 9 photographs are miss"),
    ("images", shutil.rmtree, "no folder images found"),
    ("images/view_0002.jpg", square, "is 16x16, but its camera 1 in the model is 32x24"),
    # its header still tells the size
    ("images/view_0005.jpg", cut(2 / 3), "view_0005.jpg: not a readable image: .*--exclude view_"),
    ("images/view_0005.jpg", cut(0), "it is empty; replace it, or .*: --exclude view_0005.jpg"),
]


def test_no_scene(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name, words in (
        ("nowhere", f"scene {tmp_path / 'nowhere'} does not exist"),
        ("empty", "neither camera poses nor photographs are in it; a scene is a folder with"),
        ("file", "is a file; a scene is a folder with images/ and sparse/0/"),
    ):
        assert words in refused("train", tmp_path / name)


def test_a_scene_is_near(refused, scene):
    for wrong in (scene.parent, scene / "images"):
        assert f"but {scene} is a scene: hardsplat train " in refused("train", str(wrong))


@pytest.mark.parametrize("folder", ["colmap/sparse", "."])
def test_a_model_is_near(refused, scene, tmp_path, folder):
    mine = tmp_path / "mine"
    shutil.copytree(scene / "images", mine / "images")
    shutil.copytree(scene / "sparse" / "0", mine / folder, dirs_exist_ok=True)
    words = f"but there is a model in {mine / folder}: make that sparse/0, beside the photographs"
    assert words in refused("train", mine)


def test_attempts_of_sfm_are_no_model(refused, scene, tmp_path):
    """They lie in its folder where it was interrupted."""
    shutil.copytree(scene / "images", tmp_path / "images")
    shutil.copytree(scene / "sparse" / "0", tmp_path / "sfm" / "mapping" / "out" / "0")
    assert "without camera poses; add --sfm to find them first" in refused("train", tmp_path)


def test_a_scene_is_no_result(refused, scene, tmp_path):
    (tmp_path / "transforms.json").write_text("{}")
    for folder in (scene, tmp_path):
        said = refused("render", folder)
        assert f"{folder} is a scene, train it first: hardsplat train " in said


def test_control_characters_do_not_reach_the_terminal(refused, tmp_path):
    said = refused("train", tmp_path / "a\x1b]0;title\x07\nline\u0085")
    assert said.endswith(r"a\x1b]0;title\x07\nline\x85 does not exist")


def test_files_of_a_result_may_be_nested_without_end(error_of, tmp_path):
    """Nothing of them is taken, as of files that are cut short."""
    for name in ("metrics.json", "metrics.jsonl", runs.NAME, "state.json", OUTCOME):
        (tmp_path / name).write_text("[" * 100_000 + "\n")
    (tmp_path / "splats.ply").touch()
    assert not is_complete(tmp_path, 4) and runs.read(tmp_path) is None
    assert outcome_of(tmp_path) == State(tmp_path) == {}
    assert not [*json_lines(tmp_path / "metrics.jsonl", 4)]
    (tmp_path / "config.toml").write_text("a = " + "[" * 100_000)
    line = f"{tmp_path / 'config.toml'}: not a valid TOML file: maximum recursion depth"
    assert error_of("train", tmp_path, "--resume").startswith(line)


ENDLESS = "fit {}.png", "convert {}.ply {}.spz", "convert {}.sog {}.ply"


@pytest.mark.parametrize("command", ENDLESS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_files_without_an_end(error_of, tmp_path, kind, command):
    """Reading them would wait for ever, or take all memory."""
    path = tmp_path / f"a.{command.split()[1].partition('.')[2]}"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    line = error_of(command.replace("{}", str(tmp_path / "a")))
    assert f"{path}: is a pipe or a device, not a file" in line


@pytest.mark.parametrize("name, spoil, words", SPOILED)
def test_scenes_that_are_spoiled(refused, scene, tmp_path, name, spoil, words):
    """Readers' own tests have more of each; these are what a user sees."""
    spoil(Path(shutil.copytree(scene, tmp_path / "broken")) / name)
    assert re.search(words, refused("train", tmp_path / "broken"))


@pytest.mark.parametrize("name", ["", "images", "masks", "depths"])
def test_folders_that_cannot_be_listed(refused, scene, tmp_path, monkeypatch, name):
    """What walks over such a folder takes it for an empty one."""
    folder = Path(shutil.copytree(scene, tmp_path / "closed")) / name
    folder.mkdir(exist_ok=True)
    scandir = os.scandir

    def denied(path="."):
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    flags = "--depth-lambda 0.1" if name == "depths" else ""
    error = refused("train", tmp_path / "closed", flags)
    assert error == f"{folder}: cannot be read: Permission denied"


def test_devices_that_are_none(refused, scene):
    words = "--device 99: there is no such device; this machine has 0:"
    assert words in refused("train", scene, "--device", 99)
    assert "no device has this in its name" in refused("train", scene, "--device", "voodoo")


def test_a_missing_feature(refused, scene, device):
    if "interlock" in device.capabilities:
        pytest.skip(f"{device.name} has fragment interlock")
    error = refused("train", scene, "--ordering", "interlock")
    assert error.startswith(f"--ordering interlock: {device.name} lacks ")
    assert error.endswith("use --ordering lists")


def test_a_result_folder_that_cannot_be(refused, scene, tmp_path, monkeypatch):
    """Said before anything is opened that takes time."""
    too_late = lambda *given: pytest.fail("too late")
    monkeypatch.setattr("hardsplat.train.run.photographs.load_scene", too_late)
    monkeypatch.setattr("hardsplat.fitmesh.fit.load_scene", too_late)
    monkeypatch.setattr("hardsplat.fit.fitter.read_upright", too_late)
    file, locked, access = tmp_path / "file", tmp_path / "locked", os.access
    file.touch()
    locked.mkdir()
    # Root may write anywhere.
    allowed = lambda path, mode: Path(path) != locked and access(path, mode)
    monkeypatch.setattr(os, "access", allowed)
    other = "choose another --result-dir"
    for command in ("train", "fit-mesh", "fit"):
        for folder, why in (
            *((f, f"make the folder {f}: {file} is no folder") for f in (file, file / "below")),
            *((f, f"write to the folder {locked}") for f in (locked, locked / "new/below")),
        ):
            error = refused(command, scene, "--result-dir", folder)
            assert error == f"cannot {why}; {other}"
    assert list(locked.iterdir()) == []


@pytest.fixture
def ply(tmp_path) -> Path:
    rng, path = np.random.default_rng(0), tmp_path / "splats.ply"
    colors = rng.integers(0, 256, (20, 3))
    save_splats(path, Gaussians.from_points(rng.normal(size=(20, 3)), colors, 1))
    return path


def test_splats_that_cannot_be_measured(refused, ply, scene, tmp_path):
    assert "add --data-dir SCENE" in refused("eval", ply)
    assert "scene folder not found" in refused("eval", ply, "--data-dir", tmp_path / "nowhere")
    head = ply.read_bytes().partition(b"end_header\n")
    ply.write_bytes(head[0] + head[1] + np.full((20, 26), np.nan, "<f4").tobytes())
    words = f"{ply}: none of its 20 splats can be drawn: 20 with NaN or infinite numbers"
    assert words in refused("eval", ply, "--data-dir", scene)


@pytest.mark.parametrize("name", ["my scene [1]", "Ümlaut & 'quote'", "100%{x}", "-dash"])
def test_folders_may_have_any_name(refused, scene, tmp_path, name):
    """Commands that messages suggest can be pasted into a shell."""
    folder = tmp_path / name
    (folder / "images").mkdir(parents=True)
    shutil.copy(next((scene / "images").iterdir()), folder / "images")
    for command in ("train", "sfm"):
        said = refused(command, folder)
        assert str(folder) in said
        sfm = said.partition("hardsplat sfm ")[2].split(" does")[0]
        assert not sfm or shlex.split(sfm)[0] == str(folder)
    shutil.copytree(scene, folder / "inner [2]")
    said = refused("train", folder)
    assert shlex.split(said.partition("hardsplat train ")[2])[0] == str(folder / "inner [2]")
