"""An image fit on the GPU: buffers, the pre-recorded step, two batches in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.contract.footprint import by_purpose
from hardsplat.fit.blobs import BlobBuffers, Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.raster import ADAM, Flat, open_rasterizer, rasterizer_of
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.step import begin, loss
from hardsplat.step.photos import pack
from hardsplat.step.runner import BatchResult, PairDemand, StepRunner

BETA1, BETA2 = 0.9, 0.999  # Adam's decays


def gpu_settings(config: FitConfig, spacing: float) -> dict[str, np.ndarray]:
    """What is uploaded once, by buffer. spacing: distance between blobs, px."""
    c = config
    first = (c.means_lr * spacing, c.scales_lr, c.angles_lr, c.colors_lr, c.opacities_lr)
    weights = TrainConfig.of(ssim_lambda=c.ssim_lambda).flat()  # none of parameters
    return {
        "step_settings": contract.struct(
            "StepSettings",
            seed=c.seed,
            beta1=BETA1,
            beta2=BETA2,
            background_mode=begin.BACKGROUND_MODES[c.background],
            sh_degree_interval=1,
        ),
        "adam_settings": begin.adam_settings(BETA1, BETA2),
        "loss_terms": loss.loss_terms(weights),
        **begin.falling(first, c.final_lr, c.max_steps),
    }


class FitSession:
    """photo: (H, W, 3 or 4) uint8, premultiplied. capacity: most blobs there will be. on_batch:
    called with each finished batch, in order.

    Raises UserError for what the device cannot run, OutOfMemory where it does not fit.
    """

    def __init__(
        self,
        device: Device,
        config: FitConfig,
        photo: np.ndarray,
        capacity: int,
        on_batch: Callable[[BatchResult], None] = lambda batch: None,
    ):
        self.device, self.config = device, config
        self.height, self.width = photo.shape[:2]
        self.camera = Camera(np.eye(4), np.eye(3), self.width, self.height)
        self.background = np.full(3, float(config.background == "white"))
        self.spacing = float(np.sqrt(self.width * self.height / capacity))
        self.pairs, self._parts, self._recorded = PairDemand(), Owned(), Recordings(device, {})
        with undone(self._parts.destroy):
            self._allocate(capacity, pack(photo), on_batch)

    def _allocate(
        self, capacity: int, words: np.ndarray, on_batch: Callable[[BatchResult], None]
    ) -> None:
        device, c, width, height = self.device, self.config, self.width, self.height
        own = self._parts
        self.blobs = own.add(BlobBuffers(device, capacity, ("adam_blobs",)))
        self.rasterizer = rasterizer_of(device, c.rasterizer)
        self.raster = own.add(open_rasterizer(device, self.blobs, width, height, c, ADAM))
        filled = gpu_settings(c, self.spacing)
        # of the camera a fit reads its size alone
        filled |= {"photos": words, "views": contract.struct("Camera", size=(width, height))}
        self.runner = own.add(StepRunner(device, filled, self.pairs.note, on_batch))
        compared = loss.allocate_loss(device, width, height, squared=c.loss == "l2")
        own.add_all(compared.values())
        self._shared: dict[str, Buffer | Image] = {**self.runner.buffers, **compared}
        self._record()

    def _record(self) -> None:
        self._recorded.destroy()
        self._drawn_from, width, height = self.raster.resources, self.width, self.height
        self.resources = {**self.raster.resources, **self._shared}
        self._recorded = recorded = Recordings(self.device, self.resources)
        compared = loss.SQUARED_PASSES if self.config.loss == "l2" else loss.LOSS_PASSES
        passes = [*begin.FIT_SCHEDULE_PASSES, *compared, *loss.METRIC_PASSES]
        run = build_all(self.device, passes)

        def draw(recorder: Recorder) -> None:
            begin.record_begin(recorder, run)
            self.raster.record_forward(recorder)

        def step(recorder: Recorder) -> None:
            draw(recorder)
            loss.record_loss(recorder, run, width, height)
            self.raster.record_backward(recorder)
            begin.record_end(recorder, run)

        projection = cast(Flat, self.raster.projection)
        self._begin = recorded(lambda r: projection.record_begin(r, self.raster.pipelines))
        self._draw = recorded(draw)
        self._measure = recorded(lambda r: loss.record_metrics(r, run, width, height))
        self.runner.record(self.resources, step)

    # -- blobs in and out --------------------------------------------------------------------------

    def set(self, blobs: Blobs, moments: np.ndarray | None = None, step: int = 0) -> None:
        """Goes on from here, with room for all pairs of tile and blob that there are. moments:
        Adam's, (18, N); zeros by default."""
        self.runner.drain()
        self.blobs.set(blobs, moments)
        self.runner.step = step
        self.resources["frame"].upload(contract.struct("Frame", step=step, seed=self.config.seed))
        self._begin.run_once()
        self._draw.run_once()
        if self.raster.reserve_pairs():
            self._record()

    def get(self) -> tuple[Blobs, np.ndarray]:
        """The blobs and Adam's moments (18, N), after all that was queued."""
        self.runner.drain()
        return Blobs.of(self.blobs.read("blobs")), self.blobs.read("adam_blobs")

    def draw(self) -> None:
        """target := the blobs as they are now, after all that was queued."""
        self.runner.drain()
        self._draw.run_once()

    def image(self) -> np.ndarray:
        """(H, W, 3) float32 of `target` with its background: what the last step saw, or `draw`
        drew. Not clamped."""
        target = self.resources["target"].download().astype(np.float32)
        return target[..., :3] + target[..., 3:] * self.background.astype(np.float32)

    def measure(self) -> tuple[float, float]:
        """(PSNR in dB, SSIM) of the blobs as they are now, cut to 0..1."""
        self.draw()
        self._measure.run_once()
        return loss.read_metrics(self.resources, self.camera)

    # -- running -----------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Steps that were queued."""
        return self.runner.step

    def run(self, steps: int) -> None:
        """Queues a batch of at most LONGEST_BATCH steps. Waits only for the batch before the
        last."""
        self.runner.wait_for_turn()
        self.pairs.fit(self.raster)
        if self.raster.resources is not self._drawn_from:
            self.runner.drain()
            self._record()
        self.runner.run([0] * steps, lambda step, view: 0, self.raster.pair_capacity)

    def destroy(self) -> None:
        self.runner.settle()
        self._recorded.destroy()
        self._parts.destroy()

    def memory(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        return by_purpose({name: r.nbytes for name, r in self.resources.items()})
