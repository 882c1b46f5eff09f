"""Drivers that do not load are named, with the reason: by doctor, and by whoever finds no device. Manifests here are made up."""

import ctypes.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hardsplat.gpu import drivers

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the registry names drivers there")


@pytest.fixture
def manifest(tmp_path):
    """manifest(name, library, **more) -> the file."""

    def make(name: str, library, folder=tmp_path, **more) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"file_format_version": "1.0.1", "ICD": {"library_path": library, "api_version": "1.3.0", **more}}))
        return folder / name

    return make


def test_what_is_wrong_with_each(tmp_path, manifest):
    (tmp_path / "text.so").write_text("no library")
    good = ctypes.util.find_library("m")
    cases = {
        manifest("a.json", "libGLX_nothing.so.0"): "libGLX_nothing.so.0: cannot open shared object file: No such file or directory",
        manifest("b.json", "./text.so"): f"{tmp_path / 'text.so'}: ",
        manifest("c.json", "/no/such/lib.so"): "/no/such/lib.so: cannot open shared object file",
        manifest("d.json", good): f"{good} loads",
        manifest("e.json", "x.so", library_arch="16"): "x.so is for programs of 16 bits, this one has 64",
        manifest("f.json", ["x"]): "is no driver manifest: it has no ICD.library_path",
        manifest("h.json", "a\0b"): "embedded null",
    }
    (tmp_path / "g.json").write_text("{" + "[" * 100_000)
    cases[tmp_path / "g.json"] = "is no driver manifest"
    for path, words in cases.items():
        found = drivers.drivers({"VK_DRIVER_FILES": str(path)})
        assert len(found) == 1 and str(found[0]).startswith(f"{path}: ") and words in str(found[0]), (path, str(found[0]))
        assert bool(found[0].problem) == ("loads" not in words) and "\n" not in str(found[0])


def test_where_manifests_are(tmp_path, manifest):
    """Variables that take the place of folders, or add to them; each manifest once."""
    a = manifest("a.json", "x", tmp_path / "config/vulkan/icd.d")
    b = manifest("b.json", "x", tmp_path / "home/.local/share/vulkan/icd.d")
    c = manifest("c.json", "x", tmp_path / "data/vulkan/icd.d")
    d = manifest("d.json", "x", tmp_path / "mine")
    (tmp_path / "mine/notes.txt").touch()
    environment = {"HOME": f"{tmp_path}/home", "XDG_CONFIG_HOME": f"{tmp_path}/config", "XDG_DATA_DIRS": f"{tmp_path}/data:{tmp_path}/data", "XDG_CONFIG_DIRS": f"{tmp_path}/none"}
    ours = [p for p in drivers.manifests(environment) if tmp_path in p.parents]
    assert ours == [a, b, c]
    assert drivers.manifests({**environment, "VK_ADD_DRIVER_FILES": str(d)})[0] == d
    for name in drivers.INSTEAD:
        assert drivers.manifests({**environment, name: f"{d}:{a}:{tmp_path}/none.json"}) == [d, a]
    assert drivers.manifests({"VK_DRIVER_FILES": str(d.parent)}) == [d]
    assert Path("/usr/share/vulkan/icd.d") in drivers.folders({}) and Path("/etc/vulkan/icd.d") in drivers.folders({})


def hardsplat(environment, *argv):
    environment = {**os.environ, "HARDSPLAT_VALIDATION": "0", "VK_ICD_FILENAMES": "", **environment}
    return subprocess.run([sys.executable, "-m", "hardsplat", *argv], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_an_nvidia_driver_without_its_libraries(manifest, tmp_path, scene):
    """It was only "no Vulkan device"."""
    path = manifest("nvidia_icd.json", "libGLX_nothing.so.0")
    why = f"{path}: libGLX_nothing.so.0: cannot open shared object file: No such file or directory"
    done = hardsplat({"VK_DRIVER_FILES": str(path)}, "train", str(scene), "--result-dir", str(tmp_path / "out"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert re.match("hardsplat: error: no Vulkan device: install .*; driver manifests: ", done.stderr) and done.stderr.endswith(f"{why}\n")
    done = hardsplat({"VK_DRIVER_FILES": str(path)}, "doctor")
    assert done.returncode == 2 and f"\ndriver manifest   {why}\n" in done.stdout and done.stdout.count(str(path)) == 1
    assert done.stdout.splitlines()[-1].startswith("not ready: no Vulkan device: install ")


def test_no_manifest_at_all():
    done = hardsplat({"VK_DRIVER_FILES": "/nonexistent"}, "doctor")
    assert done.returncode == 2 and "VK_DRIVER_FILES=/nonexistent names no driver manifest" in done.stdout


def test_drivers_that_load_and_find_nothing(manifest):
    good, bad = manifest("a.json", ctypes.util.find_library("m")), manifest("b.json", "libnothing.so")
    said = drivers.explain({"VK_DRIVER_FILES": f"{good}:{bad}"})
    assert said.endswith(f"; {good} loads, but finds no device") and said.startswith(f"driver manifests: {bad}: libnothing.so: ")
