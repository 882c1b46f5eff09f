"""A training run on the GPU: buffers, the pre-recorded step, batches in flight, room for growth, snapshots.

The step is one command buffer that reads camera, step number and learning rates from buffers, so a batch is that command buffer
submitted many times. Two batches are in flight; the host writes the view schedule of the next while the GPU works on the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app import contract
from app.api import camera_row
from app.camera import Camera
from app.config import TrainConfig
from app.gaussians import Gaussians
from app.gpu.context import Device, OutOfMemory
from app.gpu.memory import Buffer
from app.gpu.passes import build_all
from app.gpu.recorder import Fence, Recorder, submit
from app.raster import BACKENDS
from app.raster.parameters import FIELDS, MOMENTS, Parameters
from app.train.checkpoint import Checkpoint
from app.train.densify import DENSIFY_PASSES, RESET_PASSES, allocate_densify, record_densify, record_plan, record_reset
from app.train.loss import LOSS_PASSES, allocate_loss, record_loss
from app.train.photos import Photos
from app.train.schedule import SCHEDULE_PASSES, hyper_row, record_begin, record_end, view_order

STATE = (*FIELDS, *MOMENTS, "grow_stats")  # what a checkpoint holds
HISTORY = contract.CONSTANTS["HISTORY"][0]
GROUP = contract.CONSTANTS["GROUP"][0]
ROOM = 1.25  # capacity over the splats that it was made for


@dataclass
class BatchResult:
    """What came back from a batch: records of its steps (contract StepRecord), the stages of its last step in ms, GPU time in ns."""

    first_step: int
    records: np.ndarray
    stages: dict[str, float]
    busy: tuple[float, float]  # device clock at its begin and end, ns


class _Slot:
    """One batch in flight."""

    def __init__(self, device: Device):
        self.fence = Fence(device)
        self.first, self.count = 0, 0
        self.head = self.tail = self.timed = None


class Session:
    """views: training cameras. canvas: width and height that hold every view. on_batch: called with each finished batch, in order."""

    def __init__(self, device: Device, config: TrainConfig, views: list[Camera], photos: Photos, canvas: tuple[int, int], extent: float, on_batch: Callable[[BatchResult], None]):
        self.device, self.config, self.views, self.photos, self.on_batch = device, config, views, photos, on_batch
        self.sh_planes = (config.sh_degree + 1) ** 2
        self.width, self.height = canvas
        self.step = 0
        self.growth_stopped = ""
        cameras = np.stack([camera_row(v) for v in views])
        self._shared = {
            "hyper": Buffer(device, contract.itemsize("hyper"), "hyper"),
            "views": Buffer(device, cameras.nbytes, "views"),
            "schedule": Buffer(device, HISTORY * contract.itemsize("schedule"), "schedule", host=True),
            "history": Buffer(device, HISTORY * contract.itemsize("history"), "history", host=True),
            "photos": photos.buffer,
            **allocate_loss(device, self.width, self.height),
        }
        self._shared["hyper"].upload(hyper_row(config, extent))
        self._shared["views"].upload(cameras)
        self._slots = [_Slot(device), _Slot(device)]
        self._turn = 0
        self.parameters: Parameters | None = None
        self._parts: list = []

    # -- state in and out ------------------------------------------------------------------------------------------------------

    def start(self, gaussians: Gaussians) -> None:
        """Begins at step 0 with these splats."""
        self._allocate(len(gaussians))
        self.parameters.upload(gaussians)
        for name in (*MOMENTS, "grow_stats"):
            self.parameters.resources[name].fill(0)
        self._set_step(0)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on where the checkpoint was made."""
        self._allocate(checkpoint.splats)
        for name in (*MOMENTS, "grow_stats"):
            self.parameters.resources[name].fill(0)
        for name, values in checkpoint.buffers.items():
            self.parameters.write(name, values)
        self.parameters.set_count(checkpoint.splats)
        self._set_step(checkpoint.step)

    def snapshot(self) -> Checkpoint:
        """Everything that a resume needs, after the batches in flight."""
        n = self.count()
        return Checkpoint(self.step, self.sh_planes, {name: self.parameters.read(name, n) for name in STATE})

    def count(self) -> int:
        """Splats alive, after all that was queued."""
        self.drain()
        return int(self.parameters.counts["splats"])

    def gaussians(self) -> Gaussians:
        self.drain()
        return self.parameters.download()

    # -- running ---------------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        slot = self._slots[self._turn]
        self._turn = 1 - self._turn
        self._collect(slot)
        schedule = self._shared["schedule"].array(np.uint32).reshape(-1, 2)
        order = view_order(self.config.seed, self.step, steps, len(self.views))
        for step, view in enumerate(order, self.step):
            schedule[step % HISTORY] = view, self.photos.place(step, int(view))
        submit(self.device, [slot.head, *[self._step] * (steps - 1), slot.timed, slot.tail], slot.fence)
        slot.first, slot.count = self.step, steps
        self.step += steps

    def densify(self) -> None:
        """Queues a densification, after making room for what it will add; the only place where the host waits to learn a number."""
        n = self.count()
        self._plan.run_once()
        wanted = n + int(self.resources["flag_sums"].download(np.uint32, 1, 4 * -(-n // GROUP))[0])
        if wanted > self.parameters.capacity:
            self._grow(wanted, n)
        submit(self.device, [self._densify])

    def reset_opacity(self) -> None:
        """Queues an opacity reset."""
        submit(self.device, [self._reset])

    def drain(self) -> None:
        """Waits for all batches in flight."""
        for slot in (self._slots[self._turn], self._slots[1 - self._turn]):
            self._collect(slot)

    def _collect(self, slot: _Slot) -> None:
        if slot.count == 0:
            return
        slot.fence.wait()
        slot.fence.reset()
        history = self._shared["history"].array(contract.dtype("StepRecord"))
        records = history[np.arange(slot.first, slot.first + slot.count) % HISTORY]
        begin, end = slot.head.stamps(), slot.tail.stamps()
        busy = (float(begin[0]), float(end[0])) if len(begin) else (0.0, 0.0)
        slot.count = 0
        self.on_batch(BatchResult(slot.first, records, slot.timed.times(), busy))

    # -- memory ----------------------------------------------------------------------------------------------------------------

    def _allocate(self, n: int) -> None:
        """Parameter buffers with room to grow, and everything sized or recorded for them."""
        limit = fitting(self.device, self.config, self.photos)
        if n > limit:
            raise OutOfMemory(f"{n} splats do not fit: {self.device.name} holds {limit} at SH degree {self.config.sh_degree}; lower --sh-degree or use fewer points")
        self._release()
        self.parameters = Parameters(self.device, min(int(n * ROOM), limit), self.sh_planes, extra=(*MOMENTS, "grow_stats"))
        self._record()

    def _grow(self, wanted: int, n: int) -> None:
        """Room for `wanted` splats where there are n, or as many as fit; growth is cut there and the run goes on."""
        limit = fitting(self.device, self.config, self.photos)
        capacity = min(int(wanted * ROOM), limit)
        if capacity < wanted:
            bound = "--cap-max" if self.config.cap_max else f"the memory of {self.device.name}"
            self.growth_stopped = f"growth stops at {capacity} splats, the limit of {bound}"
        if capacity <= self.parameters.capacity:
            return
        self._release(keep_parameters=True)
        try:
            self.parameters.grow(capacity, n)
        except OutOfMemory as error:
            self.growth_stopped = f"growth stops at {self.parameters.capacity} splats: {error}"
        self.parameters.set_count(n)
        self._record()
        self._set_step(self.step)

    def _record(self) -> None:
        backend = BACKENDS[self.config.rasterizer]
        self.raster = backend.rasterizer(self.device, self.parameters, self.width, self.height, backend.options.of(self.config), sink="adam")
        scratch = allocate_densify(self.device, self.parameters.capacity)
        self.resources = {**self._shared, **self.raster.resources, **scratch, "d_image": self._shared["d_image"]}
        run = build_all(self.device, [*SCHEDULE_PASSES, *LOSS_PASSES, *DENSIFY_PASSES(self.sh_planes), *RESET_PASSES])

        def step(recorder: Recorder) -> Recorder:
            record_begin(recorder, run)
            self.raster.record_forward(recorder)
            record_loss(recorder, run, self.width, self.height)
            self.raster.record_backward(recorder)
            record_end(recorder, run)
            return recorder.end()

        self._step = step(Recorder(self.device, self.resources))
        self._plan = Recorder(self.device, self.resources)
        record_plan(self._plan, run)
        self._plan.end()
        self._densify = Recorder(self.device, self.resources)
        record_densify(self._densify, run)
        self._densify.end()
        self._reset = Recorder(self.device, self.resources)
        record_reset(self._reset, run)
        self._reset.end()
        self._parts = [self.raster, *scratch.values(), self._step, self._plan, self._densify, self._reset]
        for slot in self._slots:
            slot.timed = step(Recorder(self.device, self.resources, timed=True))
            slot.head = Recorder(self.device, {}, timed=True).end()
            slot.tail = Recorder(self.device, {}, timed=True).end()
            self._parts += [slot.timed, slot.head, slot.tail]

    def _set_step(self, step: int) -> None:
        frame = np.zeros((), contract.dtype("Frame"))
        frame["step"] = step
        self.raster.resources["frame"].upload(frame)
        self.step = step

    def _release(self, keep_parameters: bool = False) -> None:
        for part in self._parts:
            part.destroy()
        self._parts = []
        if self.parameters is not None and not keep_parameters:
            self.parameters.destroy()
            self.parameters = None

    def memory(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        size = {name: r.nbytes for name, r in {**self.resources, **self.parameters.all}.items()}
        purposes = {
            "parameters": FIELDS,
            "optimizer": MOMENTS,
            "photographs": ("photos",),
            "sort": ("keys", "keys_alt", "order", "order_alt", "digit_counts", "digit_totals"),
            "projected splats": ("splats2d", "d_splats2d"),
            "images": ("target", "state", "d_image", "ssim_grads"),
        }
        out = {purpose: sum(size.get(n, 0) for n in names) for purpose, names in purposes.items()}
        out["other"] = sum(size.values()) - sum(out.values())
        return out


def fitting(device: Device, config: TrainConfig, photos: Photos) -> int:
    """Most splats that this device holds in training, or --cap-max if that is fewer."""
    each = contract.bytes_per_splat(config.sh_degree)
    used = 0 if photos.streamed else photos.buffer.nbytes
    by_memory = int(0.9 * device.memory_bytes - used) // sum(each.values())
    limit = int(min(device.max_buffer // max(each.values()), by_memory))
    return min(limit, config.cap_max) if config.cap_max else limit
