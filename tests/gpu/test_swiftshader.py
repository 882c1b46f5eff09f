"""SwiftShader, another Vulkan on the CPU: no push descriptors, no float atomics, subgroups of 4."""

import pytest

from tests.helpers import elsewhere
from tests.helpers.drivers import only_swiftshader
from tests.helpers.processes import process


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With which SwiftShader is the only device."""
    return only_swiftshader(tmp_path_factory.mktemp("swiftshader"))


@pytest.fixture(scope="module")
def verdict(environment) -> str:
    """The verdict of the doctor."""
    done = process("doctor", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_the_doctor_says_ready(verdict):
    assert verdict.startswith("ready") and "SwiftShader" in verdict


def test_gradients_are_those_of_the_oracle(environment, verdict):
    """With the validation layers on. Measured: 1.2e-7, 8.3e-7; where blocks are rejected 3.3e-7."""
    found = elsewhere.found(environment)
    assert "SwiftShader" in found["device"] and not found["pushes"]
    assert len(found["draws"]) == 5 and bool(found["tiles"]) == ("tiled" in verdict)
    for image, worst in (*found["draws"].values(), *found["tiles"].values()):
        assert image <= 5e-7 and worst <= 4e-6, found
    assert max(found["rejected"].values()) <= 2e-6, found
