"""Which engine draws for which tensors."""

from __future__ import annotations

import atexit
import logging
import threading

import torch

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.settings.train import TrainConfig
from hardsplat.torch import cuda
from hardsplat.torch.engine import Engine
from hardsplat.torch.links import Link, Shared

log = logging.getLogger(__name__)
_LOCK = threading.RLock()
_engines: dict[tuple, Engine] = {}
_links: dict[str, Link] = {}  # by torch device
_devices: dict[str, tuple[Device, bool]] = {}  # by torch device; whether it was opened here
_wanted: dict = {"device": None, "rasterizer": "auto", "options": {}}


def configure(
    device: Device | str | int | None = None, rasterizer: str = "auto", **options
) -> None:
    """Says on what, and how, `rasterization` draws from now on.

    device: for CPU tensors: index, part of a name, an open Device, or None for HARDSPLAT_DEVICE or
    the best one. CUDA tensors are drawn on their own GPU. rasterizer: hardware, tiled, or auto for
    the faster one, which for CUDA tensors is tiled. options: of that rasterizer, as
    `hardsplat.Renderer` takes them; the format is float32. Raises UserError for an option that
    there is not.
    """
    if rasterizer != "auto" and rasterizer not in BACKENDS:
        names = ", ".join(BACKENDS)
        raise UserError(f"rasterizer {rasterizer}: there is no such one; choose from auto, {names}")
    chosen = BACKENDS.values() if rasterizer == "auto" else [BACKENDS[rasterizer]]
    taken = {name for backend in chosen for name in backend.options.settings()}
    known = sorted(taken - {"antialiased", "format"})
    if unknown := [name for name in options if name not in known]:
        raise UserError(f"{unknown[0]}: there is no such option; there are {', '.join(known)}")
    close()
    _wanted.update(device=device, rasterizer=rasterizer, options=options)


def engine_for(where: torch.device, antialiased: bool) -> Engine:
    """The engine of tensors on that device. Raises UserError where no Vulkan device can be had."""
    with _LOCK:
        key = str(where), antialiased
        if key not in _engines:
            link = link_of(where)
            config = TrainConfig.of(
                **_wanted["options"], rasterizer=_wanted["rasterizer"], antialiased=antialiased
            )
            # before the format is named, which the tiled one does not have
            raster, gradient = config.changed(format="float32").raster, config.gradient
            drawn = fastest(link.device, config.raster, gradient) if link.device.draws else "tiled"
            backend = BACKENDS[drawn]
            options = backend.options.of(raster, gradient)
            _engines[key] = Engine(link, backend, options)
        return _engines[key]


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in memory that `rasterization` reads in place, for parameters under an optimizer.

    tensor: float32, of any shape; on a device that shares no memory with Vulkan, such as the CPU,
    it is returned as it is. Keeps `requires_grad`, not the graph. Memory is shared with the device
    of the last `configure`. Raises UserError for another dtype.
    """
    if tensor.dtype != torch.float32:
        raise UserError(f"shared: the tensor has dtype {tensor.dtype}, expected float32")
    link = link_of(tensor.device)
    with link.lock, torch.no_grad():
        return link.shared(tensor.detach()).requires_grad_(tensor.requires_grad)


def link_of(where: torch.device) -> Link:
    """How tensors of that device reach a Vulkan device. Raises UserError where none can be had."""
    with _LOCK:
        if str(where) not in _links:
            _links[str(where)] = _link(where)
        return _links[str(where)]


def _link(where: torch.device) -> Link:
    if where.type == "cpu":
        return Link(_device("cpu", _wanted["device"]), where)
    if where.type == "cuda":
        peer = cuda.Cuda(where)
        wanted = cuda.vulkan_index(peer.uuid)
        if wanted is not None:
            # tiled, on a queue that only computes: it and PyTorch's kernels take turns sooner than
            # with one that could draw (docs/results/torch.md)
            device = _device(str(where), wanted, draws=_wanted["rasterizer"] == "hardware")
            if "memory_fd" in device.capabilities:
                return Shared(device, peer)
        log.warning(
            "no Vulkan device shares memory with %s: its tensors are copied through the host", where
        )
        return Link(_device("cpu", _wanted["device"]), where)
    raise UserError(f"tensors on {where}: hardsplat.torch takes CPU and CUDA tensors; call .cpu()")


def _device(key: str, wanted, draws: bool = True) -> Device:
    if key not in _devices:
        given = isinstance(wanted, Device)
        _devices[key] = wanted if given else open_device(wanted, draws=draws), not given
    return _devices[key][0]


@atexit.register
def close() -> None:
    """Frees what is held on devices; the next call of `rasterization` begins again."""
    with _LOCK:
        for engine in _engines.values():
            engine.release()
        _engines.clear()
        for link in _links.values():
            link.close()
        _links.clear()
        for device, opened in _devices.values():
            if opened:
                device.close()
        _devices.clear()
