"""No test leaves a device, a buffer or a thread behind, and no process of tests takes MOST_BYTES.

tests/conftest.py names it as a plugin. What the tests of a file share they give back when the file
ends."""

import ctypes
import gc
import threading
import time
from contextlib import contextmanager, suppress

import pytest

MOST_BYTES = 1.8e9  # a run of the whole suite had 1.41e9
KINDS = "Buffer Image CommandBuffer Framebuffer QueryPool DescriptorPool Semaphore Fence"
KINDS = f"{KINDS} SwapchainKHR".split()
# threads that packages have for a process
FOR_GOOD = ("tqdm_monitor", "Dask-Offload", "IO loop")
MOST_PIPELINES = 150  # that a device keeps from one test to the next; each takes 2 to 4 MB
GRACE = 10.0  # s that a thread has to end on a busy machine
PEAKS: dict[str, int] = {}  # bytes, by process


def left_on(device) -> dict[str, int]:
    """How many objects of KINDS there are on a device."""
    device.free_buried()
    found = device.objects.count()
    return {kind: found[kind] for kind in KINDS if found[kind]}


def left_for_good(device) -> dict[str, int]:
    """What left_on finds of what a device makes once, which is made now."""
    from hardsplat.gpu.memory.buffer import Buffer, staging_of

    staging_of(device)
    Buffer(device, 16, "counts").destroy()  # which makes the fence of those who wait
    return left_on(device)


def forget_pipelines(device, before: dict[str, int]) -> None:
    """Frees a device's pipelines where nothing is left to use them. before: of left_on."""
    if len(device.pipelines) <= MOST_PIPELINES or left_on(device) != before:
        return
    device.wait_idle()
    for built in device.pipelines.values():
        if not built.cancelled() and not built.exception():
            pipeline = built.result()
            device.destroy("Pipeline", pipeline.handle)
            device.destroy("PipelineLayout", pipeline.layout)
            device.destroy("DescriptorSetLayout", pipeline.set_layout)
            if pipeline.render_pass is not None:
                device.destroy("RenderPass", pipeline.render_pass)
    device.pipelines.clear()


def trim() -> None:
    """Gives back memory that glibc keeps of what was freed, hundreds of MB."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="module")
def module_device(request):
    """One device for a file. What is left on it fails its last test, unless one has failed."""
    from hardsplat.gpu.device.context import Device

    device, failed = Device(), request.session.testsfailed
    device.before = left_for_good(device)
    device.grown = []  # (test, what was left on the device after it), where that changed
    yield device
    left, first = left_on(device), device.grown[:5]
    if left != device.before:
        gc.collect()
        left = left_on(device)
    device.close()
    if request.session.testsfailed == failed:
        assert left == device.before, f"left on the device, by test: {first}"


@contextmanager
def opens(device):
    """Commands and functions of this process get an open device, whose pipelines are built
    already, and leave it open."""
    device.drop = lambda: None  # by a Renderer that is collected, which may be later
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardsplat.gpu.probe.Device", lambda *given, **how: device)
        patch.setattr(device, "close", lambda: None)
        yield


@pytest.fixture
def on_device(device):
    """All that a test runs opens the file's device."""
    with opens(device):
        yield device


@pytest.fixture
def device(module_device, request):
    module_device.check_validation()
    yield module_device
    module_device.check_validation()
    left, grown = left_on(module_device), module_device.grown
    if left != (grown[-1][1] if grown else module_device.before):
        grown.append((request.node.name, left))
    forget_pipelines(module_device, module_device.before)


@pytest.fixture(autouse=True)
def memory_is_given_back():
    """Not only when a file ends: some tests take hundreds of MB each."""
    yield
    trim()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left():
    """Devices and threads of Python that a file of tests began have ended with it."""
    from hardsplat.gpu.device.context import close_dropped, opened

    devices, threads = set(opened()), set(threading.enumerate())

    def more() -> list[str]:
        new = {thread.name for thread in set(threading.enumerate()) - threads}
        return sorted(name for name in new if not name.startswith(FOR_GOOD))

    yield
    if set(opened()) - devices:
        gc.collect()  # those that were dropped
        close_dropped()
    left = [device.name for device in set(opened()) - devices]
    assert not left, f"devices are open: {left}"
    until = time.monotonic() + GRACE
    while more() and time.monotonic() < until:
        gc.collect()  # executors that were dropped
        time.sleep(0.05)
    assert not more(), "threads still run"
    trim()


def peak() -> int:
    """Bytes that this process had at its peak; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as status:
            found = [line.split() for line in status if line.startswith("VmHWM:")]
    except OSError:
        return 0
    return int(found[0][1]) << 10


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Fails a run that took too much memory in one of its processes."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["peak"] = peak()  # of a process of pytest-xdist
        return
    PEAKS["pytest"] = peak()
    if max(PEAKS.values()) > MOST_BYTES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class Workers:
    """A hook of pytest-xdist, which knows it where it is installed alone."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        PEAKS[node.gateway.id] = getattr(node, "workeroutput", {}).get("peak", 0)


def pytest_configure(config):
    config.pluginmanager.register(Workers())


def print_peaks(terminal) -> None:
    most = f"{MOST_BYTES / 1e9:.1f} GB is the most"
    each = ", ".join(f"{name} {nbytes / 1e9:.2f} GB" for name, nbytes in sorted(PEAKS.items()))
    terminal.write_line(f"memory at its peak: {each} ({most})")
