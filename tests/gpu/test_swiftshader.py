"""A second implementation of Vulkan on the CPU: SwiftShader, which Chromium brings along. It
pushes no descriptors, adds no floats atomically and has subgroups of 4."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import needs
from tests.helpers.browser import NAMES

ROOT = Path(__file__).parents[2]
LIBRARY = "libvk_swiftshader.so"


def library() -> Path | None:
    """Returns HARDSPLAT_SWIFTSHADER, or one beside an installed or fetched Chromium."""
    given = os.environ.get("HARDSPLAT_SWIFTSHADER")
    named = [Path(given)] if given else []
    browsers = [Path(path).resolve().parent / LIBRARY for path in map(shutil.which, NAMES) if path]
    fetched = sorted(Path.home().glob(f".cache/ms-playwright/*/chrome-linux*/{LIBRARY}"))
    places = (*named, *browsers, Path("/usr/lib/chromium") / LIBRARY, *fetched)
    return next((path for path in places if path.is_file()), None)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With which SwiftShader is the only device."""
    if (found := library()) is None:
        pytest.skip(needs.lacking(f"no {LIBRARY}, which Chromium brings"))
    manifest = tmp_path_factory.mktemp("swiftshader") / "manifest.json"
    driver = {"library_path": str(found), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    own = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))
    return os.environ | own | {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}


def run(environment, *words: str) -> str:
    how = dict(cwd=ROOT, env=environment, capture_output=True, text=True)
    done = subprocess.run([sys.executable, *words], **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(environment, *words) -> str:
    return run(environment, "-m", "hardsplat", *map(str, words))


@pytest.fixture(scope="module")
def last(environment) -> str:
    """The verdict of the doctor."""
    return command(environment, "doctor").splitlines()[-1]


def test_the_doctor_says_ready(last):
    assert last.startswith("ready") and "SwiftShader" in last


def test_gradients_are_those_of_the_oracle(environment, last):
    """With the validation layers on. Measured: 1.2e-7, 8.3e-7 and, where blocks are rejected,
    3.3e-7."""
    found = json.loads(run(environment, "-m", "tests.helpers.swiftshader").splitlines()[-1])
    assert "SwiftShader" in found["device"] and not found["pushes"]
    assert len(found["draws"]) == 5 and bool(found["tiles"]) == ("hardware" not in last)
    for image, worst in (*found["draws"].values(), *found["tiles"].values()):
        assert image <= 5e-7 and worst <= 4e-6, found
    assert max(found["rejected"].values()) <= 2e-6, found


@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_every_command_runs(environment, last, scene, tmp_path, rasterizer):
    """Training, its result measured and drawn, a benchmark, and the fit of an image."""
    if rasterizer == "tiled" and "--rasterizer hardware" in last:
        pytest.skip("tiles take no subgroups of this size")
    result, how = tmp_path / "result", ("--rasterizer", rasterizer, "--quiet")
    own = environment | {"HARDSPLAT_VALIDATION": "0"}  # which the other test has on
    said = command(own, "train", scene, "--max-steps", 20, "--result-dir", result, *how)
    assert "SwiftShader" in said
    assert "PSNR" in command(own, "eval", result)
    views = ("--path", "held-out", "--output", tmp_path / "views", "--quiet")
    command(own, "render", result, *views)
    assert len(list((tmp_path / "views").glob("*.png"))) == 2
    timed = command(own, "bench", result, "--views", 0, "--repeats", 1, *how)
    assert timed.startswith("# bench of") and "SwiftShader" in timed
    picture = next(scene.rglob("*.jpg"))
    fitted = ("--max-steps", 10, "--blobs", 50, "--frames", 0, "--result-dir", tmp_path / "fit")
    name = {"hardware": "hardware", "tiled": "binned"}[rasterizer]
    command(own, "fit", picture, *fitted, "--rasterizer", name, "--quiet")
    assert (tmp_path / "fit/metrics.json").exists()
