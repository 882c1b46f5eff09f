"""What is dropped without being closed frees what it had: devices, threads, memory."""

import gc
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device import context
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.probe import opening
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from tests.helpers.leaks import left_on
from tests.helpers.tables import refuses

CAMERA = Camera(np.eye(4), np.array([[40.0, 0, 16], [0, 40, 16], [0, 0, 1]]), 32, 32)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")


def gaussians(n: int = 4) -> Gaussians:
    means = np.tile([0, 0, 2.0], (n, 1))
    shapes = np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 0.1)
    return Gaussians(means, *shapes, np.full(n, 0.5), np.zeros((n, 1, 3)))


def threads() -> list[str]:
    """Names of those of the process, a driver's too."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            found.append((task / "comm").read_text().strip())
    return sorted(found)


def left(most: int) -> list[str]:
    """Threads, where more than so many are left after a while on a busy machine."""
    until = time.monotonic() + 10
    while len(now := threads()) > most and time.monotonic() < until:
        time.sleep(0.01)
    return now if len(now) > most else []


@LINUX
def test_a_dropped_renderer_frees_its_device(monkeypatch):
    monkeypatch.setenv("HARDSPLAT_VALIDATION", "0")
    Renderer().close()  # what drivers keep once they ran
    devices, before = set(context.opened()), len(threads())
    for _ in range(3):
        renderer = Renderer()
        renderer.forward(gaussians(), CAMERA)
        assert len(threads()) > before
        del renderer
        assert not left(before) and set(context.opened()) == devices


def test_a_dropped_device_goes_when_it_is_collected(monkeypatch):
    monkeypatch.setenv("HARDSPLAT_VALIDATION", "0")
    devices, device = set(context.opened()), Device()
    resources, instance = {"counts": Buffer(device, 64, "counts")}, device.instance
    kept = device, Recorder(device, resources).end()
    resources["itself"] = resources
    del device, kept, resources
    gc.collect()
    assert instance.handle is None and set(context.opened()) == devices


def test_under_validation_the_next_device_closes_it():
    """Never the thread that collects it: another one may be recording."""
    devices = set(context.opened())
    Device().fill = None
    gc.collect()
    assert len(set(context.opened()) - devices) == 1
    Device().close()
    assert set(context.opened()) == devices


def test_a_dropped_renderer_leaves_nothing_on_a_device_that_was_given(device):
    before = left_on(device)
    renderer = Renderer(device)
    renderer.forward(gaussians(), CAMERA)
    names = set(device.usage.by_name)
    del renderer
    assert set(device.usage.by_name) == names  # until the device is used again
    Buffer(device, 16, "counts").destroy()
    assert left_on(device) == before


def test_closing_destroys_what_is_left():
    """The validation layer names whatever is not."""
    device = Device(validation="1")
    image = Image(device, 8, 8, 109, np.float32, "target")
    buffer = Buffer(device, 64, "counts")
    recorder = Recorder(device, {"counts": buffer}, timed=True)
    recorder.fill("counts")
    recorder.end().run_once()
    device.close()
    assert not device.objects.count()
    for part in (image, buffer, recorder):
        part.destroy()  # they went with their device


def test_nothing_is_destroyed_twice(device):
    fence = device.create("Fence")
    device.destroy("Fence", fence)
    with pytest.raises(KeyError):
        device.destroy("Fence", fence)


def test_an_array_holds_the_device_whose_memory_it_is(monkeypatch):
    monkeypatch.setenv("HARDSPLAT_VALIDATION", "0")
    devices, device = set(context.opened()), Device()
    instance = device.instance
    array = Buffer(device, 1 << 20, "staging", host=True).array(np.uint32)
    del device
    gc.collect()
    assert len(set(context.opened()) - devices) == 1
    array[:] = 7
    assert array.sum() == 7 * len(array) and instance.handle is not None
    del array
    gc.collect()
    assert instance.handle is None


@LINUX
def test_a_device_that_is_not_found_leaves_nothing():
    Device().close()
    before = len(threads())
    refuses("no such device", Device, 99)
    assert not left(before)


def test_what_fails_while_a_device_is_opened_closes_it():
    """It waits for the thread that opens it."""
    devices = set(context.opened())
    with pytest.raises(UserError, match="a scene"), opening() as device:
        raise UserError("a scene that cannot be read")
    assert device.done() and set(context.opened()) == devices
    with pytest.raises(UserError, match="no such device"), opening(99) as device:
        device.result()


@LINUX
def test_no_thread_outlives_its_driver():
    """The driver stays loaded for threads that called it; that of an opening ends before."""
    script = """
import threading
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import opening

def mapped():
    paths = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
    return {path for path in paths if "vulkan_" in path}

with opening() as device:
    device.result()
    for thread in threading.enumerate():
        if thread.name.startswith("device"):
            thread.join(20)
            assert not thread.is_alive()
    drivers = mapped()
assert drivers and mapped() == drivers, (drivers, mapped())
Device().close()
assert mapped() == drivers
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
