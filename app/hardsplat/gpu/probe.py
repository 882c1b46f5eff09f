"""Start-up check of what has been wrong in the field, whatever the driver offers: additions of
floats by atomics, and the ways to order fragments.

What fails is withdrawn from `device.capabilities` with the reason, and the registries then offer
another variant. The outcome is kept on disk per device, driver and probe shaders. HARDSPLAT_PROBE=0
skips the probe and believes the driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.gpu import crashes
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device import cache
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.pipelines import begin_all, build
from hardsplat.tables.gradients import ATOMICS

_FLOAT32 = 109  # VK_FORMAT_R32G32B32A32_SFLOAT
SIDE = 64  # px of the square target
LAYERS = 256  # quads that cover it
ADDRESSES = 9
_GROUP = contract.CONSTANTS["GROUP"]
_WAYS = ("neighbouring addresses", "one address", "one address in a branch")

_LAYERS = "probe/layers.vert"


def _additions(name: str) -> tuple[ComputePass, DrawPass]:
    """Passes of a row of ATOMICS: additions in a compute and in a fragment shader."""
    slots, sums = {"atomics": ATOMICS[name].slot}, ("d_splats2d",)
    compute = ComputePass(f"probe {name} atomics", "probe/atomics.comp", sums, sums, slots=slots)
    return compute, DrawPass(
        f"probe {name} atomics in a draw", _LAYERS, "probe/atomics.frag", sums, sums, slots=slots
    )


_ORDER = DrawPass("probe order", _LAYERS, "probe/order.frag", ("state",), ("state",))
_INTERLOCK = replace(
    _ORDER,
    name="probe interlock",
    slots={"order": "draw/ordered/order_interlock.glsl"},
    macros={"STATE_FORMAT": "rgba32f"},
)
_RASTER_ORDER = replace(
    _ORDER,
    name="probe raster order",
    slots={"order": "draw/ordered/order_raster.glsl"},
    attachment="state",
    format=_FLOAT32,
    in_order=True,
)
_SECTION, _SLOTS = "probe/section.frag", {"section": "draw/ordered/section_sequential.glsl"}
_SEQUENTIAL = DrawPass("probe sequential", _LAYERS, _SECTION, ("blocks",), ("blocks",))
_SEQUENTIAL = replace(_SEQUENTIAL, spec={"SIDE": SIDE}, slots=_SLOTS)
PROBES: dict[str, tuple[ComputePass | DrawPass, ...]] = {
    "float_atomics": _additions("native"),
    "swap_atomics": _additions("cas"),
    "interlock": (_INTERLOCK,),
    "raster_order": (_RASTER_ORDER,),
    "sequential": (_SEQUENTIAL,),
}
# Workgroups and layers of fragments; fewer where each addition waits for the others.
_ADDITIONS = {"float_atomics": (512, 128), "swap_atomics": (64, 16)}
CHECKED = tuple(PROBES)
PASSES = tuple(owner for owners in PROBES.values() for owner in owners)


def probed() -> bool:
    return os.environ.get("HARDSPLAT_PROBE", "1") not in ("", "0")


def open_device(
    wanted: str | int | None = None, surfaces: Sequence[str] = (), *, draws: bool = True
) -> Device:
    """The device to work with: chosen as `Device` does, with its capabilities probed."""
    device = Device(wanted, surfaces=surfaces, draws=draws)
    if not device.draws and probed() and cache.remembered(_path(device), "withdrawn") is None:
        open_device(wanted).close()  # the probe draws
    probe(device)
    return device


@contextmanager
def opening(wanted: str | int | None = None) -> Iterator[Future[Device]]:
    """The device to work with, which a thread opens while this one does other things: drivers take
    their time. It is closed in the end."""
    with ThreadPoolExecutor(1, "device") as thread:
        device = thread.submit(open_device, wanted)
        thread.shutdown(wait=False)  # it ends once the device is open
        try:
            yield device
        finally:
            if not device.exception():  # waits for it
                device.result().close()


def probe(device: Device) -> dict[str, str]:
    """Withdraws the capabilities of `device` that do not work as offered; returns them with the
    reason."""
    if not probed():
        return {}
    crashes.withdraw(device, crashes.load(device.physical))
    path = _path(device)
    failures = cache.remembered(path, "withdrawn")
    if failures is None:
        failures = measure(device)
        cache.remember(path, device.physical, withdrawn=failures)
    for name, why in failures.items():
        device.capabilities.withdraw(name, why)
    if not device.capabilities.names & {"float_atomics", "swap_atomics"}:
        device.capabilities.withdraw("float_sums", "float atomics that work")
    return failures


def measure(device: Device) -> dict[str, str]:
    """Capability -> what went wrong, of those that the device offers."""
    offered = {name: owners for name, owners in PROBES.items() if name in device.capabilities}
    # together: the first start of a driver takes a second for some of them
    begin_all(device, [owner for owners in offered.values() for owner in owners])
    failures = {}
    for name, owners in offered.items():
        additions = name in _ADDITIONS
        if why := _check_atomics(device, name) if additions else _check_order(device, *owners):
            failures[name] = f"a working {name} (start-up probe: {why})"
    return failures


def expected_sums(groups: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """(ways, addresses) that the two passes of additions sum up, see probe/atomics.comp: by
    workgroups, and by layers of SIDE x SIDE fragments."""

    def spread(n: int) -> np.ndarray:
        return np.bincount(np.arange(n) % ADDRESSES, minlength=ADDRESSES)

    own = np.arange(groups * _GROUP).reshape(groups, _GROUP)
    third = np.array([(ids % 3 == 0).sum() for ids in own])
    taken = np.bincount(np.arange(groups) % ADDRESSES, third, ADDRESSES)
    compute = [spread(groups * _GROUP), spread(groups) * _GROUP, taken]
    branch = spread(layers) * SIDE * -(-SIDE // 3)
    draw = [spread(SIDE) * SIDE * layers, spread(layers) * SIDE**2, branch]
    return np.array(compute, np.float32), np.array(draw, np.float32)


def expected_state() -> tuple[float, float, float]:
    """(hash, layers, last layer) of a pixel that every layer visited in order; see
    probe/order.frag."""
    value = 0
    for layer in range(LAYERS):
        value = (value * 31 + layer + 1) & 0xFFFF
    return float(value), float(LAYERS), float(LAYERS - 1)


def _check_atomics(device: Device, name: str) -> str | None:
    """Additions of 1 by workgroups, and by layers of fragments."""
    groups, layers = _ADDITIONS[name]
    sums = Buffer(device, 3 * ADDRESSES * contract.itemsize("d_splats2d"), "d_splats2d")
    compute, draw = PROBES[name]
    drawn = {"threads": (6 * layers,), "extent": (SIDE, SIDE)}
    stages: list[tuple[str, ComputePass | DrawPass, dict]]
    stages = [("compute", compute, {"groups": (groups, 1, 1)}), ("fragment", draw, drawn)]
    wrong = []
    for (stage, owner, work), expected in zip(stages, expected_sums(groups, layers)):
        sums.fill(0)
        _run(device, owner, {"d_splats2d": sums}, **work)
        got = sums.download(np.float32, 3 * ADDRESSES).reshape(3, ADDRESSES)
        for way, should, summed in zip(_WAYS, expected, got):
            if (summed != should).any():
                what = f"{should.sum():.0f} additions of 1 to {way} in {stage} shaders"
                wrong.append(f"{what} gave {summed.sum():.0f}")
    sums.destroy()
    return wrong[0] if wrong else None


def _check_order(device: Device, owner: ComputePass | DrawPass) -> str | None:
    """The states of a draw of all layers, in an image or a buffer."""
    (name,) = owner.writes
    states: Image | Buffer
    if name == "state":
        states = Image(device, SIDE, SIDE, _FLOAT32, np.float32, name)
        states.upload(np.zeros((SIDE, SIDE, 4), np.float32))
    else:
        states = Buffer(device, SIDE * SIDE * contract.itemsize(name), name)
        states.fill(0)
    _run(device, owner, {name: states}, threads=(6 * LAYERS,), extent=(SIDE, SIDE))
    pixels = states.download() if isinstance(states, Image) else states.download(np.uint32)
    states.destroy()
    return _verdict(pixels.reshape(SIDE, SIDE, 4))


def _verdict(pixels: np.ndarray) -> str | None:
    """What is wrong with (SIDE, SIDE, 4) states after all layers, see expected_state."""
    value, layers, _last = expected_state()
    lost = int((pixels[..., 1] != layers).sum())
    if lost:
        return f"fragments were lost in {lost} of {SIDE * SIDE} pixels"
    swapped = int((pixels[..., 0] != value).sum())
    return f"fragments came out of order in {swapped} of {SIDE * SIDE} pixels" if swapped else None


def _run(device: Device, owner, resources: dict, **work) -> None:
    recorder = Recorder(device, resources)
    recorder.run(build(device, owner), **work)
    recorder.end().run_once()
    recorder.destroy()


def _path(device: Device):
    shaders = [shader.key(source) for owner in PASSES for source in owner.sources()]
    return cache.cache_file("probe", device.name, device.physical.driver, *shaders)
