"""A small scene, and commands that are started in this process as people start them."""

import shlex
from itertools import count
from pathlib import Path

import pytest

from hardsplat.cli import main
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from tests.helpers.drivers import only_swiftshader
from tests.helpers.leaks import forget_pipelines, left_for_good, opens, trim
from tests.helpers.offered import Item
from tests.helpers.scenes import pebble, tiny
from tests.helpers.sweeping import in_this_process
from tests.usage import cases
from tests.usage.cases import CLEARED, STEPS


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Folder of a scene with 6 views of 32x24 and 200 points; not to be changed."""
    return tiny("small", tmp_path_factory.mktemp("usage"))


@pytest.fixture(autouse=True, scope="package")
def no_display():
    """Windows end with their line instead of opening on a screen of other tests of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glfw.init", lambda: False)
        yield


@pytest.fixture(autouse=True, scope="package")
def few_steps():
    """A plan's least steps a photograph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardsplat.blocks.run.EPOCHS", 1)
        yield


@pytest.fixture(scope="module")
def driver(request):
    """Which driver the tests of a module have: the first, or "swiftshader" where they name it."""
    return getattr(request, "param", "first")


@pytest.fixture(scope="module")
def environment(driver, tmp_path_factory):
    """Variables that leave this driver alone: none for the first that there is."""
    return only_swiftshader(tmp_path_factory.mktemp("icd")) if driver == "swiftshader" else {}


@pytest.fixture(scope="module")
def opened(environment):
    """A device that all commands get, which therefore does not close before the last test."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        device = open_device()
        device.before = left_for_good(device)
        with opens(device):
            yield device
    device.close()


class Starter:
    """Starts commands. said: what the last one printed."""

    def __init__(self, device: Device, capfd):
        self.device, self._capfd, self.said = device, capfd, ""

    def __call__(self, *words: str | Path | int, row: list[Item] = ()) -> str | None:
        """None where the command ended with 0, else its last line. row: more words."""
        argv = [*map(str, words), *(word for item in row for word in item)]
        line = f"hardsplat {shlex.join(argv)}"
        self._capfd.readouterr()
        try:
            code = main(argv)
            self.device.check_validation()
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise AssertionError(line) from error
        forget_pipelines(self.device, self.device.before)
        trim()
        out, err = self._capfd.readouterr()
        self.said = out + err
        assert "Traceback" not in self.said and "Warning:" not in err, (line, self.said)
        if code == 0:
            return None
        *_, why = err.splitlines()
        assert code == 2 and why.startswith("hardsplat: error: "), (line, code, self.said)
        assert self.said.count("hardsplat: error: ") == 1, (line, self.said)
        return why.removeprefix("hardsplat: error: ")


@pytest.fixture
def start(opened, capfd, monkeypatch, tmp_path):
    """A Starter in an empty folder, without a display."""
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Starter(opened, capfd)


@pytest.fixture
def trained(start, small):
    """trained(row) trains with these flags, and reads what that leaves; see cover."""
    numbers = count()

    def run(row: list[Item]) -> str | None:
        folder = Path(f"run{next(numbers)}")
        words = "train", small, "--max-steps", STEPS, "--result-dir", folder
        if (why := start(*words, row=row)) is None:
            cases.trained(folder, row)
        return why

    return run


@pytest.fixture(scope="module")
def given(opened, small, tmp_path_factory):
    """What there is, by its name in CASES."""
    folder = tmp_path_factory.mktemp("given")
    how = ("--max-steps", STEPS, "--quiet", "--result-dir", folder / "result")
    assert main(["train", *map(str, (small, *how))]) == 0
    pebble(folder / "pebble", views=6, side=24)
    photo = next((small / "images").iterdir())
    here = {"SCENE": small, "RESULT": folder / "result", "PHOTO": photo}
    return here | {"SILHOUETTES": folder / "pebble"}


@pytest.fixture
def in_small(monkeypatch):
    """Measurements do not warm up, and runs of sweeps are made here: their folders."""
    monkeypatch.setattr("hardsplat.study.bench.measure.WARM_SECONDS", 0.0)
    return in_this_process(monkeypatch)
