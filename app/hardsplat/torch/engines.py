"""Rasterizers for tensors, and which one draws for which tensors: splats and views in, images and
gradients out."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Sequence

import torch

from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.settings.rasterizers import Options
from hardsplat.settings.train import TrainConfig
from hardsplat.torch import cuda
from hardsplat.torch.links import Link, Shared
from hardsplat.torch.slot import Slot, SplatView

MOST_SLOTS = 8  # views that are drawn in one submission, and whose backward passes may follow


class Engine:
    """Slots, which are made as views need them and grow with splats and pixels; one thread at a
    time."""

    def __init__(self, link: Link, backend: type[Rasterizer], options: Options):
        self.link, self._backend, self._options = link, backend, options
        self.lock = link.lock
        self.slots: list[Slot] = []  # in the order in which they were drawn
        self._key: tuple | None = None  # of the slots

    def draw(self, shots: Sequence[SplatView], kept: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """(S, H, W, 3) colours and (S, H, W) transmittance behind the last splat, of shots of one
        size; complete, without background. kept: backward passes may follow."""
        with self.lock:
            self.link.enter()
            self._fit(shots[0])
            width, height = shots[0].size
            colors = torch.empty((len(shots), height, width, 3), device=self.link.where)
            Ts = torch.empty((len(shots), height, width), device=self.link.where)
            done = 0
            while done < len(shots):
                part = shots[done : done + len(self._slots_for(len(shots) - done))]
                for i, slot in enumerate(self._draw(part), done):
                    image, T = slot.image(width, height)
                    colors[i].copy_(image)
                    Ts[i].copy_(T)
                done += len(part)
            for slot in self.slots if not kept else ():
                if slot.shot in shots:
                    slot.free()
            return colors, Ts

    def gradients(
        self,
        shots: Sequence[SplatView],
        shown: Sequence[int],
        shapes: Sequence[Sequence[int]],
        d_images: torch.Tensor | None,
        d_Ts: torch.Tensor | None,
    ) -> list[torch.Tensor]:
        """Gradients, for those of what `draw` returned, of tensors of these shapes: means, quats,
        scales, opacities, then all colours, of which each shot showed one."""
        with self.lock:
            self.link.enter()
            self._fit(shots[0])
            loan = self.link.pool.take(shapes, "gradients")
            geometry, colors = loan.addresses[:4], loan.addresses[4:]
            if adds := len(colors) > 1:  # some are not of the first shot
                loan.clear()
            left = list(range(len(shots)))
            part = [i for i in left if shots[i].drawn]
            while left:
                if not part:  # they were drawn too long ago
                    part = left[: len(self._slots_for(len(left)))]
                    self._draw([shots[i] for i in part])
                recorders = []
                for i in part:
                    slot = shots[i].slot
                    assert slot is not None
                    d_image, d_T = (None if d is None else d[i] for d in (d_images, d_Ts))
                    slot.differentiate(d_image, d_T, [*geometry, colors[shown[i]]])
                    recorders.append(slot.backward_added if adds else slot.backward)
                    adds = True
                self.link.run(*recorders)
                left, part = [i for i in left if i not in part], []
            return loan.tensors()

    def _draw(self, shots: Sequence[SplatView]) -> list[Slot]:
        """Has the device draw at most as many shots as there are slots for."""
        chosen = self._slots_for(len(shots))
        self.slots = [slot for slot in self.slots if slot not in chosen] + chosen
        with undone(self.release):  # an interrupt too: commands may name buffers that are gone
            for slot, shot in zip(chosen, shots):
                slot.take(shot)
            grown = True
            while grown:
                self._run_forward(chosen)
                grown = sum(slot.grow() for slot in chosen if slot.waits) > 0
        return chosen

    def _run_forward(self, chosen: Sequence[Slot]) -> None:
        """Draws; where slots wait, up to when it is known how many pairs they have."""
        recorders = [recorder for slot in chosen for recorder in (slot.forward, slot.rest)]
        waits = any(slot.waits for slot in chosen)
        self.link.run(*recorders, watched=len(recorders) - 1 if waits else 0)
        if waits:
            self.link.land()

    def _slots_for(self, n: int) -> list[Slot]:
        """Slots for up to n shots: free ones, new ones, and those that were drawn longest ago."""
        free = [slot for slot in self.slots if slot.shot is None]
        assert self._key is not None
        while len(free) < n and len(self.slots) < MOST_SLOTS and self._has_room():
            pairs = max((slot.wanted for slot in self.slots), default=0)
            try:
                slot = Slot(self.link, self._backend, self._options, self._key, pairs)
            except OutOfMemory:
                if not self.slots:
                    raise
                break
            self.slots.append(slot)
            free.append(slot)
        return (free + [slot for slot in self.slots if slot.shot is not None])[:n]

    def _has_room(self) -> bool:
        """Whether another slot leaves as much memory to others as it takes."""
        budget = self.link.device.memory_budget()
        return not self.slots or budget is None or budget.free > 2 * self.slots[-1].nbytes

    def _fit(self, shot: SplatView) -> None:
        """Keeps the slots, where they have room for it. Raises RuntimeError after `close`, which
        has freed what a view is made of."""
        if self.link.closed:
            text = "hardsplat.torch was configured anew since this image was drawn: draw it again"
            raise RuntimeError(text)
        sh_degree = int(shot.coefficients**0.5) - 1
        wanted = max(shot.n, 1), sh_degree, *shot.size
        if self._key and all(has >= least for has, least in zip(self._key, wanted)):
            return
        if self._key:  # other splats may be fewer from now on
            wanted = wanted[0], *(max(two) for two in zip(self._key[1:], wanted[1:]))
        self.release()
        self._key = wanted

    def release(self) -> None:
        """Frees what it holds on the device."""
        with self.lock:
            self.link.settle()
            for slot in self.slots:
                slot.destroy()
            self.slots.clear()
            self._key = None


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
