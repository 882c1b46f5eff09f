"""`hardsplat train`: a scene in, a run folder out.

The run folder: config.toml (resolved settings), metrics.json, loss.png, splats.ply, ckpts/, renders/ (render beside photograph).
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from app.config import TrainConfig
from app.errors import UserError
from app.gaussians import Gaussians
from app.gpu.context import DeviceLost, OutOfMemory
from app.gpu.probe import open_device
from app.io.ply import save_ply
from app.io.scene import Scene, load_images, load_scene
from app.presets import SAVED_NAME, save_config
from app.train import checkpoint as checkpoints
from app.train.evaluate import canvas_of, evaluation_frame, measure_all, save_comparison, summary
from app.train.photos import Photos
from app.train.report import write_metrics, write_pictures
from app.train.session import STATE, BatchResult, Session

SNAPSHOT_SECONDS = 60.0  # how much training a lost device may cost


@dataclass
class Log:
    """What a run remembers of itself; becomes metrics.json and loss.png."""

    started: float = field(default_factory=time.perf_counter)
    startup_seconds: float = 0.0
    training_seconds: float = 0.0
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    psnrs: list[float] = field(default_factory=list)  # of the training views drawn in a batch, not clamped
    splats: list[int] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    gpu_busy_ns: float = 0.0
    gpu_span_ns: float = 0.0
    evaluations: list[dict] = field(default_factory=list)
    first_step: int = 0
    _last_end: float = 0.0

    def batch(self, result: BatchResult, ssim_lambda: float) -> None:
        r = result.records
        loss = (1 - ssim_lambda) * r["l1"] + ssim_lambda * (1 - r["ssim"])
        self.steps.append(result.first_step + len(r))
        self.losses.append(float(np.mean(loss)))
        self.psnrs.append(float(-10 * np.log10(max(np.mean(r["mse"]), 1e-12))))
        self.splats.append(int(r["splats"][-1]))
        self.stages.append(result.stages)
        begin, end = result.busy
        self.gpu_busy_ns += end - begin
        self.gpu_span_ns += end - (self._last_end or begin)
        self._last_end = end

    def pause(self) -> None:
        """The GPU did other work on purpose: the gap does not count as idle."""
        self._last_end = 0.0

    @property
    def gpu_idle(self) -> float:
        """Share of training time between the first and the last batch that the GPU waited for the host."""
        return 1 - self.gpu_busy_ns / self.gpu_span_ns if self.gpu_span_ns else 0.0

    def stage_medians(self) -> dict[str, float]:
        """Median milliseconds of each stage over the timed steps."""
        names = {n: None for s in self.stages for n in s}
        return {n: float(np.median([s[n] for s in self.stages if n in s])) for n in names}


def train(config: TrainConfig) -> dict:
    """Trains as `config` says and returns what metrics.json holds. Raises UserError for bad input; KeyboardInterrupt after saving a checkpoint."""
    if config.data_dir is None:
        raise UserError("which scene? hardsplat train SCENE, where SCENE is a folder with images/ and sparse/0/")
    return Run(config).train()


class StopRequest:
    """Turns the first Ctrl-C into a wish that the loop grants between batches, where the state is whole; the second one interrupts."""

    def __init__(self):
        self.asked = False

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, number, frame) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *exception) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)


class Run:
    """One training run: scene, device and session, from the first splats to the run folder."""

    def __init__(self, config: TrainConfig):
        self.config, self.log = config, Log()
        self.folder = Path(config.result_dir)
        start = self._checkpoint_to_resume()
        self.scene = load_scene(config.data_dir, config.data_factor, config.test_every)
        if not self.scene.train:
            raise UserError(f"{config.data_dir}: no view is left to train on (--test-every {config.test_every})")
        save_config(config, self.folder / SAVED_NAME)
        self.device = open_device(config.device)
        views = [self.scene.views[i] for i in self.scene.train]
        images = list(load_images(views, progress=not config.quiet))
        photos = Photos(self.device, images, config.images, ring=2 * config.batch_steps)
        self.bar = None
        self.session = Session(self.device, config, [v.camera for v in views], photos, canvas_of(self.scene), self.scene.extent, self._on_batch)
        if start is not None:
            self.session.restore(start)
        else:
            self.session.start(initial_gaussians(config, self.scene))
        self.log.first_step = self.session.step
        self._safe: checkpoints.Checkpoint | None = None  # newest state that a lost device cannot take
        self._safe_at = time.monotonic()
        self._warned = False
        self.log.startup_seconds = time.perf_counter() - self.log.started

    def _checkpoint_to_resume(self) -> checkpoints.Checkpoint | None:
        path = self.config.ckpt
        if self.config.resume:
            path = checkpoints.newest(self.folder)
            if path is None:
                raise UserError(f"{self.folder}: no checkpoint to resume from; start without --resume")
        if path is None:
            return None
        start = checkpoints.load(path, STATE)
        planes = (self.config.sh_degree + 1) ** 2
        if start.sh_planes != planes:
            raise UserError(f"{path}: made with --sh-degree {int(start.sh_planes**0.5) - 1}, this run has {self.config.sh_degree}")
        return start

    def train(self) -> dict:
        c, s = self.config, self.session
        self.bar = tqdm(total=c.max_steps, initial=s.step, unit="step", desc=self.scene.name, disable=c.quiet, smoothing=0.05)
        begun = time.perf_counter()
        try:
            with StopRequest() as stopping:
                while s.step < c.max_steps and not stopping.asked:
                    stop = self._next_stop(s.step)
                    s.run(min(c.batch_steps, stop - s.step))
                    if s.step == stop:
                        self._refine(s.step)
                        self.log.training_seconds += time.perf_counter() - begun
                        self._at_stop(s.step)
                        begun = time.perf_counter()
                s.drain()
                self.log.training_seconds += time.perf_counter() - begun
                if s.step < c.max_steps:
                    self._save_checkpoint()
                    tqdm.write(f"interrupted at step {s.step}: checkpoint saved; go on with hardsplat train {self.folder} --resume")
                    raise KeyboardInterrupt
        except OutOfMemory as error:
            n = s.count()
            self._save_checkpoint()
            raise UserError(f"{error} (step {s.step}, {n} splats); checkpoint saved: go on with --resume and a lower --cap-max") from None
        except DeviceLost as error:
            raise UserError(f"{error} (step {s.step}); {self._save_last_safe()}") from None
        finally:
            self.bar.close()
        return self._finish()

    # -- what happens when ------------------------------------------------------------------------------------------------------

    def _next_stop(self, step: int) -> int:
        """The next step count after which the batch must end: for a refinement, a measurement, a file, or the end."""
        c = self.config
        stops = [c.max_steps, *(n for n in (*c.eval_steps, *c.save_steps) if n > step)]
        periods = [c.checkpoint_every]
        if c.strategy != "none" and step < c.refine_stop_iter:
            periods += [c.refine_every, c.reset_every]
        stops += [(step // p + 1) * p for p in periods if p]
        return min(stops)

    def _refine(self, step: int) -> None:
        """Densification and opacity resets, on the original schedule."""
        c = self.config
        if c.strategy == "none" or step >= c.refine_stop_iter:
            return
        if step > c.refine_start_iter and step % c.refine_every == 0:
            self.session.densify()
        if c.reset_every and step % c.reset_every == 0:
            self.session.reset_opacity()
        if self.session.growth_stopped and not self._warned:
            self._warned = True
            tqdm.write(f"note: {self.session.growth_stopped}")

    def _at_stop(self, step: int) -> None:
        c = self.config
        last = step == c.max_steps
        if step in c.eval_steps or last:
            self._evaluate(step, save=last)
        if step in c.save_steps or last:
            self._save_ply(step)
        if last or (c.checkpoint_every and step % c.checkpoint_every == 0):
            self._save_checkpoint()
        elif time.monotonic() - self._safe_at > SNAPSHOT_SECONDS:
            self._safe = self.session.snapshot()
            self._safe_at = time.monotonic()
            self.log.pause()

    def _on_batch(self, result: BatchResult) -> None:
        self.log.batch(result, self.config.ssim_lambda)
        if self.bar is not None:
            shown = {"loss": f"{self.log.losses[-1]:.4f}", "PSNR": f"{self.log.psnrs[-1]:.2f}", "splats": self.log.splats[-1]}
            self.bar.set_postfix(shown, refresh=False)
            self.bar.update(len(result.records))

    # -- results ----------------------------------------------------------------------------------------------------------------

    def _evaluate(self, step: int, save: bool) -> None:
        if not self.scene.test:
            return
        splats = self.session.count()
        rows = []
        frame = evaluation_frame(self.config)
        frame["sh_degree"] = min(step // self.config.sh_degree_interval, self.config.sh_degree)
        for m in measure_all(self.device, self.session.raster, self.scene, self.scene.test, frame, self.config.quiet):
            rows.append((m.name, m.psnr, m.ssim))
            if save:
                save_comparison(self.folder / "renders", m)
        result = {"step": step, "splats": splats, "training_seconds": self.log.training_seconds, **summary(rows)}
        self.log.evaluations.append(result)
        self.log.pause()
        tqdm.write(f"step {step}: held-out PSNR {result['psnr']:.2f} dB, SSIM {result['ssim']:.4f}, {result['splats']} splats, {self.log.training_seconds:.1f} s")

    def _save_ply(self, step: int) -> None:
        gaussians = self.session.gaussians()
        save_ply(self.folder / "splats.ply", gaussians)
        if step != self.config.max_steps:
            save_ply(self.folder / f"splats_{step}.ply", gaussians)
        self.log.pause()

    def _save_checkpoint(self) -> None:
        state = self.session.snapshot()
        checkpoints.save(checkpoints.path_of(self.folder, state.step), state)
        self._safe, self._safe_at = state, time.monotonic()
        self.log.pause()

    def _save_last_safe(self) -> str:
        if self._safe is None:
            return "nothing had been saved yet"
        checkpoints.save(checkpoints.path_of(self.folder, self._safe.step), self._safe)
        return f"step {self._safe.step} is saved: go on with hardsplat train {self.folder} --resume"

    def _finish(self) -> dict:
        metrics = write_metrics(self.folder, self.config, self.device, self.session, self.log)
        write_pictures(self.folder, self.log)
        last = self.log.evaluations[-1] if self.log.evaluations else None
        quality = f"PSNR {last['psnr']:.2f} dB, SSIM {last['ssim']:.4f} on {len(last['views'])} held-out views; " if last else ""
        print(f"{quality}{metrics['splats']} splats, {self.log.training_seconds:.1f} s of training on {self.device.name}; everything is in {self.folder}")
        return metrics


def initial_gaussians(config: TrainConfig, scene: Scene) -> Gaussians:
    """Splats at the SfM points, or random ones in a cube."""
    rng = np.random.default_rng(config.seed)
    if config.init_type == "random":
        points = rng.uniform(-config.init_extent, config.init_extent, (config.init_num_pts, 3))
        colors = rng.integers(0, 256, (config.init_num_pts, 3))
    else:
        points, colors = scene.points, scene.colors
    gaussians = Gaussians.from_points(points, colors, config.sh_degree, config.init_opa)
    gaussians.scales = gaussians.scales * np.float32(config.init_scale)
    return gaussians
