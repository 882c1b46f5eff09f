"""Drivers that do not load are named, with the reason. Manifests here are made up."""

import ctypes.util
import json
import re
import sys
from pathlib import Path

import pytest

from hardsplat.gpu.device import drivers
from tests.helpers.processes import process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the registry names drivers there")


@pytest.fixture
def manifest(tmp_path):
    """manifest(name, library, folder, **more) -> the file."""

    def make(name: str, library, folder="", **more) -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        driver = {"library_path": library, "api_version": "1.3.0", **more}
        path.write_text(json.dumps({"file_format_version": "1.0.1", "ICD": driver}))
        return path

    return make


MISSING = "cannot open shared object file: No such file or directory"
MATHS = ctypes.util.find_library("m")
DRIVERS = [  # library, more of the manifest, what is said of it
    ("libGLX_nothing.so.0", {}, f"libGLX_nothing.so.0: {MISSING}"),
    ("./text.so", {}, "HERE/text.so: "),
    ("/no/such/lib.so", {}, f"/no/such/lib.so: {MISSING}"),
    (MATHS, {}, f"{MATHS} loads"),
    ("x.so", {"library_arch": "16"}, "x.so is for programs of 16 bits, this one has 64"),
    (["x"], {}, "is no driver manifest: it has no ICD.library_path"),
    ("a\0b", {}, "embedded null"),
    (None, {}, "is no driver manifest"),
]


@pytest.mark.parametrize("library, more, words", DRIVERS)
def test_what_is_wrong_with_each(tmp_path, manifest, library, more, words):
    (tmp_path / "text.so").write_text("no library")
    path = manifest("a.json", library, **more)
    if library is None:
        path.write_text("{" + "[" * 100_000)
    (found,) = drivers.drivers({"VK_DRIVER_FILES": str(path)})
    said = str(found)
    assert said.startswith(f"{path}: ") and words.replace("HERE", str(tmp_path)) in said
    assert bool(found.problem) == ("loads" not in words) and "\n" not in said


def test_an_nvidia_driver_without_its_libraries(manifest, tmp_path, scene):
    """It was only "no Vulkan device"."""
    path = manifest("nvidia_icd.json", "libGLX_nothing.so.0")
    why = f"{path}: libGLX_nothing.so.0: {MISSING}"
    none = "no Vulkan device: install "
    own = dict(HARDSPLAT_VALIDATION="0", VK_ICD_FILENAMES="", VK_DRIVER_FILES=str(path))
    done = process("train", scene, "--result-dir", tmp_path / "out", **own)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.match(f"hardsplat: error: {none}.*; driver manifests: ", done.stderr)
    assert done.stderr.endswith(f"{why}\n")
    done = process("doctor", **own)
    assert done.returncode == 2 and f"\ndriver manifest   {why}\n" in done.stdout
    assert done.stdout.count(str(path)) == 1
    assert done.stdout.startswith(f"not ready: {none}")
