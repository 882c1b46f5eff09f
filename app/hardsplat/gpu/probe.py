"""Start-up check of features whose bits have been wrong in the field: float atomics, and the two
ways to order fragments.

What fails is withdrawn from `device.capabilities` with the reason, and the registries then offer
another variant. The outcome is kept on disk per device, driver and probe shaders. HARDSPLAT_PROBE=0
skips the probe and believes the driver.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.base.files import replacing
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.pipelines import begin_all, build

_FLOAT32 = 109  # VK_FORMAT_R32G32B32A32_SFLOAT
SIDE = 64  # px of the square target
LAYERS = 256  # quads that cover it
ADDRESSES = 9
_DRAWN: dict = {"threads": (6 * LAYERS,), "extent": (SIDE, SIDE)}
THREADS = 1024 * contract.CONSTANTS["GROUP"]

_SUMS, _NATIVE = ("d_splats2d",), {"atomics": "reduce/atomics_native.glsl"}
_LAYERS = "probe/layers.vert"
_ATOMICS_COMPUTE = ComputePass("probe atomics", "probe/atomics.comp", _SUMS, _SUMS, slots=_NATIVE)
_ATOMICS_DRAW = DrawPass(
    "probe atomics in a draw", _LAYERS, "probe/atomics.frag", _SUMS, _SUMS, slots=_NATIVE
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
_SEQUENTIAL = DrawPass(
    "probe sequential",
    _LAYERS,
    "probe/section.frag",
    ("blocks",),
    ("blocks",),
    spec={"SIDE": SIDE},
    slots={"section": "draw/ordered/section_sequential.glsl"},
)
_OF = {
    "float_atomics": (_ATOMICS_COMPUTE, _ATOMICS_DRAW),
    "interlock": (_INTERLOCK,),
    "raster_order": (_RASTER_ORDER,),
    "sequential": (_SEQUENTIAL,),
}
CHECKED = tuple(_OF)
PASSES = tuple(owner for owners in _OF.values() for owner in owners)


def wanted() -> bool:
    return os.environ.get("HARDSPLAT_PROBE", "1") not in ("", "0")


def open_device(
    wanted: str | int | None = None, surfaces: Sequence[str] = (), *, draws: bool = True
) -> Device:
    """The device to work with: chosen as `Device` does, with its capabilities probed."""
    device = Device(wanted, surfaces=surfaces, draws=draws)
    if not device.draws and _unknown(device):
        open_device(wanted).close()  # the probe draws
    probe(device)
    return device


def _unknown(device: Device) -> bool:
    """Whether the probe must be made before its outcome is known."""
    return wanted() and _load(_path(device)) is None


def probe(device: Device) -> dict[str, str]:
    """Withdraws the capabilities of `device` that do not do what they say; returns them with the
    reason."""
    if not wanted():
        return {}
    path = _path(device)
    failures = _load(path)
    if failures is None:
        failures = measure(device)
        _save(path, device, failures)
    for name, why in failures.items():
        device.capabilities.withdraw(name, why)
    return failures


def measure(device: Device) -> dict[str, str]:
    """Capability -> what went wrong, of those that the device offers."""
    offered = {name: owners for name, owners in _OF.items() if name in device.capabilities}
    # together: the first start of a driver takes a second for some of them
    begin_all(device, [owner for owners in offered.values() for owner in owners])
    failures = {}
    for name in offered:
        if why := _CHECKS[name](device):
            failures[name] = f"a working {name} (start-up probe: {why})"
    return failures


def expected_sums() -> tuple[np.ndarray, np.ndarray]:
    """What the two atomics passes add to each of the addresses."""
    compute = np.bincount(np.arange(THREADS) % ADDRESSES, minlength=ADDRESSES)
    draw = np.bincount(np.arange(LAYERS) % ADDRESSES, minlength=ADDRESSES) * SIDE * SIDE
    return compute.astype(np.float32), draw.astype(np.float32)


def expected_state() -> tuple[float, float, float]:
    """(hash, layers, last layer) of a pixel that every layer visited in order; see
    probe/order.frag."""
    value = 0
    for layer in range(LAYERS):
        value = (value * 31 + layer + 1) & 0xFFFF
    return float(value), float(LAYERS), float(LAYERS - 1)


def _check_atomics(device: Device) -> str | None:
    sums = Buffer(device, ADDRESSES * contract.itemsize("d_splats2d"), "d_splats2d")
    wrong = None
    work: tuple[dict, dict] = {"threads": (THREADS,)}, _DRAWN
    for owner, how, expected in zip(_OF["float_atomics"], work, expected_sums()):
        sums.fill(0)
        _run(device, owner, {"d_splats2d": sums}, **how)
        got = sums.download(np.float32, ADDRESSES)
        if wrong is None and (got != expected).any():
            stage = "compute" if owner is _ATOMICS_COMPUTE else "fragment"
            wrong = f"{expected.sum():.0f} additions of 1 in {stage} shaders gave {got.sum():.0f}"
    sums.destroy()
    return wrong


def _check_order(device: Device, owner: DrawPass) -> str | None:
    state = Image(device, SIDE, SIDE, _FLOAT32, np.float32, "state")
    state.upload(np.zeros((SIDE, SIDE, 4), np.float32))
    _run(device, owner, {"state": state}, **_DRAWN)
    pixels = state.download()
    state.destroy()
    return _verdict(pixels)


def _check_section(device: Device) -> str | None:
    blocks = Buffer(device, SIDE * SIDE * contract.itemsize("blocks"), "blocks")
    blocks.fill(0)
    _run(device, _SEQUENTIAL, {"blocks": blocks}, **_DRAWN)
    pixels = blocks.download(np.uint32).reshape(SIDE, SIDE, 4)
    blocks.destroy()
    return _verdict(pixels)


_CHECKS = {
    "float_atomics": _check_atomics,
    "interlock": lambda device: _check_order(device, _INTERLOCK),
    "raster_order": lambda device: _check_order(device, _RASTER_ORDER),
    "sequential": _check_section,
}


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
    key = " ".join([device.name, device.physical.driver, *shaders])
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return shader.cache_dir() / "probe" / f"{name}.json"


def _load(path) -> dict[str, str] | None:
    try:
        return dict(json.loads(path.read_text())["withdrawn"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never probed, or not a file of ours


def _save(path, device: Device, failures: dict[str, str]) -> None:
    found = {"device": device.name, "driver": device.physical.driver, "withdrawn": failures}
    # a read-only home costs a probe per run, nothing else
    with suppress(OSError), replacing(path) as partial:
        partial.write_text(json.dumps(found, indent=1))
