"""`hardsplat fit`: a photograph in, a folder out.

The folder: reconstruction.png, difference.png, blobs.npz (natural units), psnr.png, metrics.json.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory
from hardsplat.base.files import write_json
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.base.version import __version__
from hardsplat.fit.blobs import Blobs, grown, growth_of
from hardsplat.fit.config import FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.media.images import over, read_upright, save_png, to_uint8
from hardsplat.report import charts
from hardsplat.report.stages import stage_medians
from hardsplat.results.folder import archive_run, check_folder, make_folder
from hardsplat.step.runner import LONGEST_BATCH, BatchResult

OF_A_FIT = tuple("metrics.json blobs.npz reconstruction.png difference.png psnr.png".split())
BATCH_SECONDS = 0.5  # how long a batch may take on a slow device: Ctrl-C waits for two


class FitObserver(Protocol):
    """A window that observes the fit. It handles its own errors, but for a lost device."""

    surfaces: list[str]  # instance extensions that the device must be opened with
    batch_seconds: float  # how long a batch may take while the window is seen

    def open(self, device: Device, session: FitSession, title: str) -> None: ...
    # between batches: answers, and shows `target`; waits in a pause alone
    def turn(self, session: FitSession, curve: dict[str, list]) -> None: ...
    def close(self) -> None: ...  # before the session is destroyed
    @property
    def shown(self) -> bool: ...
    @property
    def stopped(self) -> bool: ...  # whether the fit is to end here


def fit(
    image: str | Path,
    config: FitConfig,
    preview: FitObserver | None = None,
    device: Device | None = None,
) -> dict:
    """Fits blobs to the image and returns what metrics.json holds. device: by default opened as the
    settings say, and left open.

    Raises UserError for bad input; KeyboardInterrupt, with the signal's number, after writing what
    there is.
    """
    path = Path(image).expanduser()
    folder = Path(config.result_dir or Path("results") / path.stem)
    check_folder(folder)
    photo = read_upright(path)
    make_folder(folder)
    return Fitter(path, photo, folder, config, preview, device).fit()


class Fitter:
    """One fit: photograph, device and session, from the first blobs to the folder."""

    bar: Bar  # while it runs

    def __init__(
        self,
        path: Path,
        photo: np.ndarray,
        folder: Path,
        config: FitConfig,
        preview: FitObserver | None,
        device: Device | None,
    ):
        self.path, self.folder, self.config, self.preview = path, folder, config, preview
        self.height, self.width = photo.shape[:2]
        capacity = config.blobs_for(self.width * self.height)
        self.curve: dict[str, list] = {"step": [], "psnr": [], "seconds": []}
        self.stages: list[dict[str, float]] = []
        self.gpu_seconds = 0.0
        self.device = device or open_device(config.device, *([preview.surfaces] if preview else []))
        try:
            self.session = FitSession(self.device, config, photo, capacity, self._on_batch)
        except OutOfMemory as error:
            what = f"{capacity:,} blobs on {self.width}x{self.height} pixels"
            raise OutOfMemory(f"{what} do not fit: {error}", error.grows_with) from None
        self.photo = over(photo, self.session.background).astype(np.float32) / 255
        self.start, self.growth = growth_of(config, capacity)
        if preview:
            preview.open(self.device, self.session, path.name)

    def fit(self) -> dict:
        started, lock, c = time.perf_counter(), FolderLock(self.folder), self.config
        if earlier := archive_run(self.folder, OF_A_FIT, OF_A_FIT):
            tqdm.write(f"note: the earlier fit in {self.folder} is now in {earlier}")
        try:
            self.bar = Bar(total=c.max_steps, unit="step", disable=c.quiet, dynamic_ncols=True)
            with StopRequest() as stopping, self.bar:
                self._run_steps(stopping)
            metrics = self._finish(time.perf_counter() - started)
            if stopping.asked:
                raise KeyboardInterrupt(stopping.asked)
            return metrics
        finally:
            if self.preview:
                self.preview.close()
            self.session.destroy()
            lock.release()

    def _run_steps(self, stopping: StopRequest) -> None:
        c, session, preview = self.config, self.session, self.preview
        session.set(Blobs.scattered(self.start, self.photo, c.seed))
        events = sorted({*self.growth, c.max_steps})
        while session.step < c.max_steps and not stopping.asked:
            if preview and preview.stopped:
                break
            following = next(e for e in events if e > session.step)
            seconds = preview.batch_seconds if preview and preview.shown else BATCH_SECONDS
            most = max(1, min(LONGEST_BATCH, int(seconds / session.runner.step_seconds)))
            session.run(min(following - session.step, most if session.step else 1))
            if session.step in self.growth:
                self._grow(self.growth[session.step])
            if preview:
                preview.turn(session, self.curve)
        session.runner.drain()

    def _grow(self, total: int) -> None:
        blobs, moments = self.session.get()
        rng = np.random.default_rng((self.config.seed, self.session.step))
        more = grown(blobs, moments, self.session.image(), self.photo, total, rng)
        self.session.set(*more, step=self.session.step)

    def _on_batch(self, batch: BatchResult) -> None:
        r = batch.records
        self.gpu_seconds += batch.seconds
        psnr = float(-10 * np.log10(max(r["mse"][-1], 1e-12)))
        reached = batch.first_step + len(r), psnr, self.gpu_seconds
        for values, value in zip(self.curve.values(), reached):
            values.append(value)
        self.stages.append(batch.stages)
        self.bar.set_postfix_str(f"PSNR {psnr:.2f} dB, {r['splats'][-1]:,} blobs", refresh=False)
        self.bar.update(len(r))

    def _finish(self, wall: float) -> dict:
        session, c, physical = self.session, self.config, self.device.physical
        psnr, ssim = session.measure()  # draws what is left
        blobs, _ = session.get()
        image = session.image()
        save_png(self.folder / "reconstruction.png", to_uint8(image))
        save_png(self.folder / "difference.png", difference(image, self.photo))
        blobs.save(self.folder / "blobs.npz", self.width, self.height, session.background)
        metrics = {
            "hardsplat": __version__,
            "image": str(self.path),
            "size": [self.width, self.height],
            "blobs": len(blobs),
            "steps": session.step,
            "psnr": psnr,
            "ssim": ssim,
            "device": {"name": self.device.name, "driver": physical.driver, "kind": physical.kind},
            "rasterizer": session.rasterizer,
            "variants": session.raster.rows.names,
            "seconds": {"gpu": self.gpu_seconds, "wall": wall},
            "stage_ms": stage_medians(self.stages),
            "clipped_steps": session.pairs.clipped_steps,
            "memory_bytes": session.memory(),
            "settings": {n: str(v) if isinstance(v, Path) else v for n, v in asdict(c).items()},
            "curve": self.curve,
        }
        write_json(self.folder / "metrics.json", metrics)
        write_plot(self.folder / "psnr.png", self.path.name, *self.curve.values())
        after = f"{len(blobs):,} blobs after {session.step:,} steps in {self.gpu_seconds:.1f} s"
        where = f"on {self.device.name}; in {self.folder}"
        done = f"{psnr:.2f} dB, SSIM {ssim:.4f}: {after} {where}"
        tqdm.write(done)
        return metrics


def difference(image: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8: half of image - photo, both in 0..1, around mid-grey."""
    return to_uint8(0.5 + 0.5 * (np.clip(np.nan_to_num(image), 0, 1) - photo))


def write_plot(path: Path, title: str, steps: list, psnrs: list, seconds: list) -> None:
    """PSNR against time on the GPU, and against steps."""
    figure = charts.figure(9, 4)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, x, label in zip(axes, (seconds, steps), ("time on the GPU [s]", "step")):
        axis.plot(x, psnrs, color="black", linewidth=1)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("PSNR [dB]")
    figure.suptitle(title)
    charts.save(figure, path)
