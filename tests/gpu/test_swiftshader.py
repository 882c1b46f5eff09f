"""A second implementation of Vulkan on the CPU: SwiftShader, which Chromium brings along. It
pushes no descriptors, adds no floats atomically and has subgroups of 4."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.drivers import only_swiftshader

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With which SwiftShader is the only device."""
    own = only_swiftshader(tmp_path_factory.mktemp("swiftshader"))
    return os.environ | own | {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}


def run(environment, *words: str) -> str:
    how = dict(cwd=ROOT, env=environment, capture_output=True, text=True)
    done = subprocess.run([sys.executable, *words], **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(environment, *words) -> str:
    return run(environment, "-m", "hardsplat", *map(str, words))


@pytest.fixture(scope="module")
def verdict(environment) -> str:
    """The verdict of the doctor."""
    return command(environment, "doctor").splitlines()[0]


def test_the_doctor_says_ready(verdict):
    assert verdict.startswith("ready") and "SwiftShader" in verdict


def test_gradients_are_those_of_the_oracle(environment, verdict):
    """With the validation layers on. Measured: 1.2e-7, 8.3e-7 and, where blocks are rejected,
    3.3e-7."""
    found = json.loads(run(environment, "-m", "tests.helpers.swiftshader").splitlines()[-1])
    assert "SwiftShader" in found["device"] and not found["pushes"]
    assert len(found["draws"]) == 5 and bool(found["tiles"]) == ("tiled" in verdict)
    for image, worst in (*found["draws"].values(), *found["tiles"].values()):
        assert image <= 5e-7 and worst <= 4e-6, found
    assert max(found["rejected"].values()) <= 2e-6, found
