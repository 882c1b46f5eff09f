"""A rasterizer for tensors: splats and views in, images and gradients out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hardsplat.base.errors import OutOfMemory
from hardsplat.raster.backends import Backend
from hardsplat.settings.raster import Options
from hardsplat.torch.links import Link
from hardsplat.torch.slot import Slot, SplatView

MOST_SLOTS = 8  # views that are drawn in one submission, and whose backward passes may follow


class Engine:
    """Slots, which are made as views need them and grow with splats and pixels; one thread at a
    time."""

    def __init__(self, link: Link, backend: Backend, options: Options):
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
        try:
            for slot, shot in zip(chosen, shots):
                slot.take(shot)
            grown = True
            while grown:
                self._run_forward(chosen)
                grown = sum(slot.grow() for slot in chosen if slot.waits) > 0
        except BaseException:  # an interrupt too: commands may name buffers that are gone
            self.release()
            raise
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
        """Keeps the slots, where they have room for it."""
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
