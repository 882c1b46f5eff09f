"""One Vulkan device for a file of tests; a validation message fails the test that caused it.

Validation layers are on, fresh memory is poisoned, and the first variants are taken."""

import atexit
import itertools
import logging
import math
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

os.environ.setdefault("HARDSPLAT_VALIDATION", "1")
os.environ.setdefault("HARDSPLAT_POISON", "1")
os.environ.setdefault("HARDSPLAT_AUTO", "first")  # the same variants whatever else the machine does
# what the many processes of tests import is compiled once
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest

sys.dont_write_bytecode = False

TESTS = Path(__file__).parent
pytest_plugins = ["tests.helpers.leaks"]

# A shell starts what it puts in the background so; tests press Ctrl-C, and so do processes that
# they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    help = "also run tests that take minutes, as tools/test --all does"
    parser.addoption("--all", action="store_true", help=help)


# Files that take long: they begin first, so that none runs alone at the end.
LONG = """usage/test_swiftshader usage/test_commands usage/test_train blocks/test_run
    train/runs/test_schedules tools/test_catalog blocks/test_shared train/test_train
    tools/test_package io/test_checkpoint""".split()


def pytest_configure(config):
    if hasattr(config.option, "loadscopereorder"):  # pytest-xdist, if installed
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    begun = [TESTS / f"{name}.py" for name in LONG]
    items.sort(key=lambda item: begun.index(item.path) if item.path in begun else len(begun))


def pytest_terminal_summary(terminalreporter):
    """How much memory the processes took, and skipped tests by the command that runs them."""
    from tests.helpers.leaks import print_peaks
    from tests.helpers.needs import by_command

    print_peaks(terminalreporter)
    reports = terminalreporter.stats.get("skipped", [])
    if lines := by_command([r.longrepr[2] for r in reports if isinstance(r.longrepr, tuple)]):
        terminalreporter.section("skipped, and what runs it")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def everything(request):
    """Skips but under --all."""
    if not request.config.getoption("--all"):
        from tests.helpers.needs import EVERYTHING, lacking

        pytest.skip(lacking("takes minutes", EVERYTHING))


@pytest.fixture
def waiting(device):
    """The first ordering here of fragments that wait for each other."""
    from hardsplat.raster.core.resolve import runnable
    from hardsplat.tables.hardware import ORDERINGS

    waiting = {name: row for name, row in ORDERINGS.items() if not row.listed}
    if not (names := runnable(device, waiting)):
        pytest.skip(f"no fragment waits for another on {device.name}")
    return names[0]


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    """Folder of a scene with 9 views of 32x24 and 300 points; not to be changed."""
    from tests.helpers.scenes import tiny

    return tiny("tiny", tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="session")
def outdoors(tmp_path_factory):
    """A scene of 9 views of 32x24 that show the sky, and points with tracks; not to be changed."""
    from tests.helpers.scenes import tiny

    return tiny("open", tmp_path_factory.mktemp("outdoors"))


@pytest.fixture(scope="session")
def mixed(scene, tmp_path_factory):
    """The scene with its photographs cut to 32x16 and 20x24 in turn; not to be changed."""
    from PIL import Image

    from hardsplat.io.scenes.colmap import ColmapCamera, read_model, write_model

    folder = tmp_path_factory.mktemp("mixed")
    cameras, images, points = read_model(scene / "sparse/0")
    lens = cameras[1]
    for number, size in ((1, (32, 16)), (2, (20, 24))):
        cameras[number] = ColmapCamera(number, lens.model, *size, lens.params)
    (folder / "images").mkdir()
    for image in images.values():
        image.camera_id = 1 + image.id % 2
        own = cameras[image.camera_id]
        with Image.open(scene / "images" / image.name) as photo:
            cut = photo.crop((0, 0, own.width, own.height))
            cut.save(folder / "images" / image.name, quality=95)
    write_model(folder / "sparse/0", cameras, images, points)
    return folder


@pytest.fixture(scope="session")
def screenless(tmp_path_factory):
    """One display for all tests: where its server ends, the X library ends the process."""
    from tests.helpers.xvfb import Display

    display = Display(tmp_path_factory.mktemp("display"))
    yield display
    atexit.register(display.stop)


@pytest.fixture(scope="module")
def display(screenless):
    """It is the one that windows open on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", screenless.name)
        patch.delenv("WAYLAND_DISPLAY", raising=False)
        yield screenless


@pytest.fixture(scope="module")
def gpu(display):
    """A device that can present, with validation layers."""
    from hardsplat.gpu.probe import open_device
    from hardsplat.view import window

    with closing(open_device(None, window.start())) as opened:
        yield opened


@pytest.fixture(autouse=True)
def logs_end():
    """Commands print to the standard error of the test, which is closed when that ends."""
    yield
    for log in (logging.getLogger(), logging.getLogger("hardsplat")):
        for handler in [h for h in log.handlers if type(h) is logging.StreamHandler]:
            log.removeHandler(handler)


@pytest.fixture(autouse=True)
def sessions_end(monkeypatch):
    """Those that tests.helpers.training opens end with their test."""
    yield
    if training := sys.modules.get("tests.helpers.training"):
        while training.OPENED:
            training.OPENED.pop().destroy()


@pytest.fixture(autouse=True, scope="session")
def batches_of_any_duration():
    """A busy machine makes the same batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardsplat.train.run.trainer.BATCH_SECONDS", math.inf)
        yield


@pytest.fixture
def error_of(capfd):
    """error_of(words of a command line) -> the one line that it prints, without its head."""
    from hardsplat.cli import main
    from tests.helpers.tables import argv

    def run(*words) -> str:
        capfd.readouterr()
        assert main(argv(*words)) == 2
        out, err = capfd.readouterr()
        *notes, line = (out + err).splitlines()
        assert all(note.startswith("note: ") for note in notes), notes
        assert err.endswith("\n") and line.startswith("hardsplat: error: ")
        return line.removeprefix("hardsplat: error: ")

    return run


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    """Capacities grow with the splats alone: runs of a few hundred would never grow otherwise."""
    monkeypatch.setattr("hardsplat.train.session.store.MORE", 0)


@pytest.fixture
def reports():
    """Runs of the test write their reports, which take as long as short runs."""


@pytest.fixture(autouse=True)
def quick_ends(request, monkeypatch):
    """No reports without the fixture `reports`, and poses of held-out views are hardly refined."""
    monkeypatch.setattr("hardsplat.train.measure.refining.STEPS_A_VIEW", 4)
    monkeypatch.setattr("hardsplat.report.run.prepare", lambda: None)  # longer than the runs here
    if "reports" not in request.fixturenames:
        for name in ("viewer_of", "write_report"):
            monkeypatch.setattr(f"hardsplat.report.run.{name}", lambda *given: None)


@pytest.fixture
def leaves_nothing(device, monkeypatch):
    """leaves_nothing(make, stride): whichever buffer or image it is that there is no memory for,
    of every `stride` of them, make() raises OutOfMemory and has freed those before it. Where
    all fit it is destroyed; how many they are."""
    from hardsplat.base.errors import OutOfMemory
    from hardsplat.gpu.memory.buffer import Buffer, staging_of
    from hardsplat.gpu.memory.image import Image

    staging_of(device)  # the device's, whoever needs it first
    alive, left = set(), [10**9]

    def counted(kind):
        made, freed = kind.__init__, kind.destroy

        def make(self, *args, **how):
            left[0] -= 1
            if left[0] < 0:
                raise OutOfMemory("no more")
            made(self, *args, **how)
            alive.add(self)

        def free(self):
            alive.discard(self)
            freed(self)

        monkeypatch.setattr(kind, "__init__", make)
        monkeypatch.setattr(kind, "destroy", free)

    counted(Buffer)
    counted(Image)

    def check(make, stride=1):
        for most in itertools.count(1, stride):
            left[0] = most
            try:
                make().destroy()
            except OutOfMemory:
                assert {part.name for part in alive} == set(), most
            else:
                assert {part.name for part in alive} == set()
                return most - left[0]

    return check
