"""`hardsplat train`: a scene in, a run folder out.

The run folder: config.toml (resolved settings), report.html, metrics.json, loss.png, splats.ply, ckpts/, renders/ (renders and their photographs).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.config import TrainConfig
from hardsplat.errors import OutOfMemory, UserError
from hardsplat.gpu.context import Device, DeviceLost
from hardsplat.gpu.probe import open_device
from hardsplat.io.masks import downsampled
from hardsplat.io.ply import save_ply
from hardsplat.io.poses import FOLDER as POSES
from hardsplat.io.poses import save_poses
from hardsplat.io.scene import Scene, load_images, load_scene
from hardsplat.presets import SAVED_NAME, save_config
from hardsplat.raster import fastest, unknown
from hardsplat.report.run import NAME as REPORT
from hardsplat.report.run import write_report
from hardsplat.train import checkpoint as checkpoints
from hardsplat.train.batch import LONGEST_BATCH, BatchResult
from hardsplat.train.checkpoint import Checkpoint
from hardsplat.train.evaluate import Measured, canvas_of, evaluation_frame, measure_all, save_comparison, summary
from hardsplat.train.exposure import NAME as EXPOSURES_NAME
from hardsplat.train.exposure import save_exposures
from hardsplat.train.held_out import refine_held_out
from hardsplat.train.photos import Photos
from hardsplat.train.poses import moved
from hardsplat.train.report import Log, check_folder, make_folder, set_aside, stage_table, write_metrics, write_pictures
from hardsplat.train.session import Session
from hardsplat.train.start import initial_gaussians, starts_random
from hardsplat.train.stop import StopRequest
from hardsplat.train.watch import Watcher, Watchers

BATCH_SECONDS = 1.0  # how long a batch may take on a slow device: Ctrl-C waits for two
UNEVEN = 1.5  # dB that fitted colours gain where photographs differ in exposure
DOUBLINGS = 2  # of the resolution, with --resolution-schedule
SNAPSHOT_SECONDS = 60.0  # how much training a lost device may cost


def train(config: TrainConfig, watchers: Sequence[Watcher] = ()) -> dict:
    """Trains as `config` says and returns what metrics.json holds. watchers: windows and others who look on.

    Raises UserError for bad input; KeyboardInterrupt, with the signal's number, after saving what is trained.
    """
    if config.data_dir is None:
        raise UserError("which scene? hardsplat train SCENE, where SCENE is a folder with images/ and sparse/0/")
    return Run(config, watchers).train()


class Run:
    """One training run: scene, device and session, from the first splats to the run folder.

    device: by default opened as the settings say, and left open. scene: by default that of the settings, which name the result folder where they have none.
    """

    def __init__(self, config: TrainConfig, watchers: Sequence[Watcher] = (), device: Device | None = None, scene: Scene | None = None):
        self.config, self.log, self.bar, self.stopping, self.watchers = config, Log(), None, StopRequest(), Watchers(watchers)
        self._stopped = self._measuring = False  # stopped: by a watcher
        self.folder = Path(config.result_dir or Path("results") / config.data_dir.name)
        check_folder(self.folder)
        start = self._checkpoint_to_resume()
        self.scene = scene or load_scene(config.data_dir, config.data_factor, config.test_every, config.mask_mode)
        for note in self.scene.notes:
            tqdm.write(f"note: {note}")
        if config.init_type == "sfm" and not len(self.scene.points):
            tqdm.write(f"note: {self.scene.name} has no points: starting from {config.init_num_pts} random ones within --init-extent {config.init_extent:g}")
        make_folder(self.folder)
        self.device = device or open_device(config.device, *([self.watchers.surfaces] if self.watchers.surfaces else []))
        self.config = config = replace(config, rasterizer=fastest(self.device, config))
        if left_out := unknown(config.rasterizer, config):
            tqdm.write(f"note: --rasterizer {config.rasterizer} does not have {', '.join('--' + n.replace('_', '-') for n in left_out)}: left out")
        views = [self.scene.views[i] for i in self.scene.train]
        images = list(load_images(views, progress=not config.quiet))
        photos = Photos(self.device, images, config.images, ring=2 * config.batch_steps)
        self.session = Session(self.device, config, [v.camera for v in views], photos, canvas_of(self.scene), self.scene.extent, self._on_batch, [v.number for v in views])
        self._full, self._divisor = ([v.camera for v in views], images) if config.resolution_schedule else None, 1
        start = self._start_from(start)
        ours = config.ckpt and self.folder.resolve() in config.ckpt.resolve().parents
        if not (config.resume or ours) and (earlier := set_aside(self.folder)):
            tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
        save_config(replace(config, resume=False), self.folder / SAVED_NAME)  # so that repeating the run starts it anew
        self.log.restore(start.log)
        self._safe, self._safe_at = start, time.monotonic()  # the newest state that a lost device cannot take
        self._warned, self._held_out = False, []
        self.watchers.open(self)
        self.log.startup_seconds = time.perf_counter() - self.log.started

    def _checkpoint_to_resume(self) -> Checkpoint | None:
        path = self.config.ckpt
        if self.config.resume:
            path = checkpoints.newest(self.folder)
            if path is None:
                raise UserError(f"{self.folder}: no checkpoint to resume from; start without --resume")
        if path is None:
            return None
        start = checkpoints.load(path)
        if start.sh_degree != self.config.sh_degree:
            saved = path.parent.parent / SAVED_NAME
            advice = f"; add --config {shlex.quote(str(saved))}" if saved.is_file() and not self.config.resume else ""
            raise UserError(f"{path}: made with --sh-degree {start.sh_degree}, this run has {self.config.sh_degree}{advice}")
        if start.step >= self.config.max_steps:
            raise UserError(f"{path}: has {start.step} steps already, of {self.config.max_steps}; go on with more --max-steps")
        return start

    def _start_from(self, start: Checkpoint | None) -> Checkpoint:
        """Puts the session there, or at the first step when there is nothing to go on from."""
        drawn = self.config.init_num_pts if start is None and starts_random(self.config, self.scene) else 0
        try:
            self.session.check_fit(drawn)
            start = start or self.session.initial(initial_gaussians(self.config, self.scene))
            self.session.restore(start)
        except OutOfMemory as error:
            raise OutOfMemory(str(error), "random splats" if drawn else error.grows_with) from None
        return start

    def train(self) -> dict:
        c, s = self.config, self.session
        self.bar = tqdm(total=c.max_steps, initial=s.step, unit="step", desc=self.scene.name, disable=c.quiet, smoothing=0.05)
        try:
            with self.stopping, self.log.training():
                while s.step < c.max_steps:
                    s.wait_for_turn()
                    self._watch()
                    if self._ending:
                        break
                    self._resize(s.step)
                    stop = self._next_stop(s.step)
                    s.run(min(self._batch_steps(), stop - s.step))
                    self._publish(s.step)
                    if s.step == stop:
                        self._refine(s.step)
                    self._keep(s.step)
                s.drain()
                if s.step < c.max_steps:
                    with self.log.aside():
                        if not self.stopping.asked:
                            self._evaluate(s.step, save=True)
                        self.save()
                        self._write_results()
                    tqdm.write(f"{'interrupted' if self.stopping.asked else 'stopped'} at step {s.step}: checkpoint and splats.ply saved; go on with {self._resume_command()}")
                    if self.stopping.asked:
                        raise KeyboardInterrupt(self.stopping.asked)
        except UserError as error:  # memory, device or disk gave out: nothing that was trained may be lost
            raise UserError(f"{error} (step {s.step}); {self._rescue(error)}") from None
        finally:
            self.bar.close()
            self.watchers.close()
            self.watchers = Watchers()  # whatever comes back of batches in flight finds them closed
        return self._finish()

    def close(self) -> None:
        """Frees what the run has on the device. May be called again."""
        if self.session is not None:
            self.session.destroy()
            self.session = None

    # -- what happens when ------------------------------------------------------------------------------------------------------

    def _batch_steps(self) -> int:
        """Steps of the next batch: as many as take BATCH_SECONDS, or as little as watchers want, as far as is known."""
        seconds = min(BATCH_SECONDS, self.watchers.batch_seconds)
        return int(min(self.config.batch_steps, LONGEST_BATCH, max(1, seconds / max(self.session.step_seconds, 1e-6))))

    @property
    def _ending(self) -> bool:
        return bool(self.stopping.asked or self._stopped)

    def _watch(self) -> None:
        """Gives watchers their turn; while one of them wants a pause, nothing else has one."""
        self.watchers.turn(self)
        if self.watchers.paused:
            self.session.drain()
            with self.log.aside():
                while self.watchers.paused and not self._ending:
                    self.watchers.turn(self, wait=True)

    def stop(self) -> None:
        """Ends the run before its next batch, as after its last step."""
        self._stopped = True

    def save(self) -> None:
        """A checkpoint and splats.ply, now."""
        self.session.drain()
        with self.log.aside():
            self._save_checkpoint()
            save_ply(self.folder / "splats.ply", self.session.gaussians(), self.config.antialiased)

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, and while they all are being measured."""
        if self._measuring:
            return None
        self.session.drain()
        with self.log.aside():
            return next(measure_all(self.device, self.session.raster, self.scene, self.scene.test[:1], self._frame(), quiet=True), None)

    def _next_stop(self, step: int) -> int:
        """The next step count after which the batch must end: for a refinement, a measurement, a file, or the end."""
        c = self.config
        stops = [c.max_steps, *(n for n in (*c.eval_steps, *c.save_steps) if n > step)]
        stops += [n * c.resolution_schedule for n in range(1, DOUBLINGS + 1) if n * c.resolution_schedule > step]
        stops += [(step // c.checkpoint_every + 1) * c.checkpoint_every] if c.checkpoint_every else []
        return min(*stops, self.session.strategy.next_due(c, step))

    def _resize(self, step: int) -> None:
        """Photographs and cameras of the size that --resolution-schedule has at this step."""
        every = self.config.resolution_schedule
        divisor = 2 ** max(DOUBLINGS - step // every, 0) if every else 1
        if divisor != self._divisor:
            sizes = [[max(1, round(side / divisor)) for side in (c.width, c.height)] for c in self._full[0]]
            self.session.show([c.resized(*size) for c, size in zip(self._full[0], sizes)], [downsampled(i, *size) for i, size in zip(self._full[1], sizes)])
            self._divisor = divisor

    def _refine(self, step: int) -> None:
        """What the strategy does after this step."""
        self.session.refine()
        if self.session.growth_stopped and not self._warned:
            self._warned = True
            tqdm.write(f"note: {self.session.growth_stopped}")

    def _publish(self, step: int) -> None:
        """Measurements and splats for people: before a refinement of the same step, which opacities and new splats take steps to recover from."""
        c = self.config
        last = step == c.max_steps
        measure, ply = last or step in c.eval_steps, last or step in c.save_steps
        if measure or ply:
            self.session.drain()
            with self.log.aside():
                if measure:
                    self._evaluate(step, save=last)
                if ply:
                    self._save_ply(step)

    def _keep(self, step: int) -> None:
        """Checkpoints, and now and then a copy of the state in the host's memory: after a refinement, which a resumed run must not miss."""
        c = self.config
        checkpoint = step == c.max_steps or (c.checkpoint_every and step % c.checkpoint_every == 0)
        if checkpoint or time.monotonic() - self._safe_at > SNAPSHOT_SECONDS:
            self.session.drain()
            with self.log.aside():
                self._save_checkpoint() if checkpoint else self._keep_safe()

    def _on_batch(self, result: BatchResult) -> None:
        self.log.batch(result, self.session.weights)
        self.watchers.batch(self)
        if self.bar is not None:
            shown = {"loss": f"{self.log.losses[-1]:.4f}", "PSNR": f"{self.log.psnrs[-1]:.2f}", "splats": self.log.splats[-1]}
            self.bar.set_postfix(shown, refresh=False)
            self.bar.update(len(result.records))

    # -- results ----------------------------------------------------------------------------------------------------------------

    def _evaluate(self, step: int, save: bool) -> None:
        if not self.scene.test or self.stopping.asked:
            return
        splats = self.session.count()
        rows, example, self._measuring = [], None, True
        try:
            for m in measure_all(self.device, self.session.raster, self.scene, self.scene.test, self._frame(), self.config.quiet):
                if self.stopping.asked:
                    return
                self.watchers.turn(self)
                example = example or m
                rows.append(replace(m, image=m.image[:0], photo=m.photo[:0]))
                if save:
                    save_comparison(self.folder / "renders", m)
        finally:
            self._measuring = False
        result = {"step": step, "splats": splats, "training_seconds": self.log.training_seconds, **summary(rows)}
        if save and self.config.pose_opt:
            result |= self._measure_refined()
        self.log.evaluations.append(result)
        self.watchers.measured(self, result, example)
        fitted = f" ({result['fitted_psnr']:.2f} with colours fitted)" if self.config.exposure != "none" else ""
        tqdm.write(f"step {step}: held-out PSNR {result['psnr']:.2f} dB{fitted}, SSIM {result['ssim']:.4f}, {result['splats']} splats, {self.log.training_seconds:.1f} s")
        if "refined" in result:
            r = result["refined"]
            fitted = f" ({r['fitted_psnr']:.2f} with colours fitted)" if self.config.exposure != "none" else ""
            tqdm.write(f"with the poses of held-out views refined: PSNR {r['psnr']:.2f} dB{fitted}, SSIM {r['ssim']:.4f}")
        if step == self.config.max_steps and self.config.exposure == "none" and result["fitted_psnr"] > max(result["psnr"] + UNEVEN, 20):
            tqdm.write(f"note: fitted colours gain {result['fitted_psnr'] - result['psnr']:.1f} dB, so photographs seem to differ in exposure: try --exposure ppisp")

    def _measure_refined(self) -> dict:
        """Held-out views once more, from where the splats show most of them; nothing where there is no memory for that, or the run is to end."""
        try:
            cameras = refine_held_out(self.device, self.config, self.session.gaussians(), self.scene, self.scene.test)
        except OutOfMemory as error:
            tqdm.write(f"note: the poses of held-out views stay as they are: {error}")
            return {}
        self._held_out = cameras
        refined = measure_all(self.device, self.session.raster, self.scene, self.scene.test, self._frame(), self.config.quiet, cameras)
        return {"refined": summary([replace(m, image=m.image[:0], photo=m.photo[:0]) for m in refined])}

    def _frame(self) -> np.ndarray:
        """The contract's Frame of a measurement now."""
        frame = evaluation_frame(self.config)
        frame["sh_degree"] = min(self.session.step // self.config.sh_degree_interval, self.config.sh_degree)
        return frame

    def _save_ply(self, step: int) -> None:
        gaussians = self.session.gaussians()
        save_ply(self.folder / "splats.ply", gaussians, self.config.antialiased)
        if step != self.config.max_steps:
            save_ply(self.folder / f"splats_{step}.ply", gaussians, self.config.antialiased)
        self._save_learnt()

    def _save_learnt(self) -> None:
        """What was learnt of photographs: exposures.json, and the refined poses."""
        if self.config.pose_opt:
            cameras = [view.camera for view in self.scene.views]
            learnt = {name: self.session.parameters.read(name, len(self.scene.train)) for name in ("turn", "shift")}
            found = moved([cameras[i] for i in self.scene.train], learnt) + self._held_out
            for i, camera in zip(self.scene.train + self.scene.test, found):
                cameras[i] = camera
            save_poses(self.folder / POSES, self.scene, cameras, self.config.data_dir)
        if self.config.exposure != "none":
            names = [self.scene.views[i].name for i in self.scene.train]
            save_exposures(self.folder / EXPOSURES_NAME, self.config.exposure, self.session.parameters, names)

    def _save_checkpoint(self) -> None:
        self._keep_safe()
        checkpoints.save(checkpoints.path_of(self.folder, self._safe.step), self._safe)

    def _keep_safe(self) -> None:
        self._safe = self.session.snapshot()
        self._safe.log, self._safe_at = self.log.history(), time.monotonic()

    def _rescue(self, error: UserError) -> str:
        """Saves the newest state that can be had, and says how to go on."""
        if not isinstance(error, DeviceLost):
            with suppress(UserError):  # the device is no longer fit for a copy either; the last one serves
                self._keep_safe()
        try:
            checkpoints.save(checkpoints.path_of(self.folder, self._safe.step), self._safe)
        except UserError as unsaved:
            return str(unsaved)
        cap = f" --cap-max {self._safe.splats}" if isinstance(error, OutOfMemory) else ""
        return f"step {self._safe.step} with {self._safe.splats} splats is saved: go on with {self._resume_command()}{cap}"

    def _resume_command(self) -> str:
        return f"hardsplat train {shlex.quote(str(self.folder))} --resume"

    def _write_results(self) -> dict:
        metrics = write_metrics(self.folder, self.config, self.device, self.session, self.log)
        write_pictures(self.folder, metrics)
        try:
            write_report(self.folder)
        except Exception as error:  # whatever it is: the page is made of files that are there already
            tqdm.write(f"note: {self.folder / REPORT} was not written: {str(error) or type(error).__name__}")
        return metrics

    def _finish(self) -> dict:
        metrics = self._write_results()
        self.close()
        if self.config.profile:
            print(stage_table(metrics["stage_ms"]))
        last = next((e for e in self.log.evaluations if e["step"] == metrics["steps"]), None)
        quality = f"PSNR {last['psnr']:.2f} dB, SSIM {last['ssim']:.4f} on {len(last['views'])} held-out views; " if last else ""
        if self.stopping.asked and self.scene.test and not last:
            quality = f"interrupted, so not measured (hardsplat eval {shlex.quote(str(self.folder))} does it); "
        print(f"{quality}{metrics['splats']} splats, {self.log.training_seconds:.1f} s of training on {self.device.name}; everything is in {self.folder}")
        return metrics
