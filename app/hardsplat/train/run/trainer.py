"""`hardsplat train`: a scene in, a run folder out.

The run folder: config.toml (resolved settings), report.html, metrics.json, metrics.jsonl, loss.png,
splats.ply, ckpts/, renders/ (renders and their photographs).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import remove_abandoned
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.raster.backends import running
from hardsplat.raster.core.choose import wanted as may_time
from hardsplat.raster.core.sinks import moments_of
from hardsplat.results.folder import archive_run, check_folder, folder_of, make_folder
from hardsplat.settings.presets import SAVED_NAME, for_photographs, save_config
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.ahead import build_ahead
from hardsplat.train.run.auto import Auto
from hardsplat.train.run.closing import say_outcome
from hardsplat.train.run.keeping import Keeping
from hardsplat.train.run.measuring import Measurements
from hardsplat.train.run.photographs import Photographs
from hardsplat.train.run.results import Results
from hardsplat.train.run.resume import checkpoint_to_resume
from hardsplat.train.run.start import (
    FirstSplats,
    known_depths,
    say_notes,
    training_cameras,
    views_of,
)
from hardsplat.train.run.state import RunState
from hardsplat.train.run.stops import batch_steps, fitted_batch, next_stop
from hardsplat.train.session import overfit
from hardsplat.train.session.session import Session
from hardsplat.train.step import averaging
from hardsplat.train.step.batch import BatchResult
from hardsplat.train.step.intrinsics import check_lenses
from hardsplat.train.step.photos import Photos
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.watchers.log import Log
from hardsplat.train.watchers.logs import log_of
from hardsplat.train.watchers.watch import Watcher, Watchers

# fits into 80 columns
BAR = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining} "
    "{rate_noinv_fmt}{postfix}"
)
_log = logging.getLogger("hardsplat")


def train(
    config: TrainConfig,
    watchers: Sequence[Watcher] = (),
    parts: PhaseClock | None = None,
    device: Device | Future[Device] | None = None,
    photographs: Photographs | None = None,
) -> dict:
    """Trains as `config` says and returns what metrics.json holds. watchers: windows and others who
    look on. parts: the clock of the command that this is. device, photographs: see Run.

    Raises UserError for bad input; KeyboardInterrupt, with the signal's number, after saving what
    is trained.
    """
    return Run(config, watchers, device, photographs, parts).train()


class Run:
    """One training run: scene, device and session, from the first splats to the run folder.

    session: there is one from the first splats to the last measurement, or as long as watchers
    linger. device: one that is open or about to be; by default opened as the settings say. It is
    left open. photographs: by default those of the scene that the settings name. The run closes
    them.
    """

    session: Session

    def __init__(
        self,
        config: TrainConfig,
        watchers: Sequence[Watcher] = (),
        device: Device | Future[Device] | None = None,
        photographs: Photographs | None = None,
        parts: PhaseClock | None = None,
    ):
        self.config, self.log, self.stopping = config, Log(), StopRequest()
        self.watchers = Watchers([*filter(None, [log_of(config.run.log)]), *watchers])
        self.bar: Bar | None = None
        self.parts, self._open = parts or PhaseClock("load"), False
        self._stopped = self._warned = False  # stopped: by a watcher
        self._averages = config.adam.average_steps > 0
        self.folder = folder_of(config)
        check_folder(self.folder)
        self.parts.begin("load")
        start = checkpoint_to_resume(config, self.folder)
        photographs = photographs or Photographs.of(config)
        self.scene = photographs.scene
        sized = for_photographs(config, len(self.scene.train))
        if start is None or start.step < sized.run.max_steps:  # else a finished run goes on
            self.config = config = sized
        say_notes(config, self.scene)
        try:
            make_folder(self.folder)
            self._lock = FolderLock(self.folder)
            remove_abandoned(self.folder)
        except BaseException:
            photographs.close()
            raise
        self.results = Results(self.folder, config, photographs, apart=parts is not None)
        try:
            self._begin(device, start)
        except BaseException:
            self.close()
            raise

    def _begin(self, device: Device | Future[Device] | None, start: Checkpoint | None) -> None:
        """Everything up to the first step. start: where an earlier run ended. Splats are made by a
        thread while the device is opened."""
        if self.config.intrinsics.intrinsics_opt:
            check_lenses(self.scene.views)
        splats = FirstSplats(self.config, self.scene, start, self.results.background)
        self.parts.begin("device")
        self.device = (
            device.result()
            if isinstance(device, Future)
            else device
            or open_device(
                self.config.run.device,
                *([self.watchers.surfaces] if self.watchers.surfaces else []),
            )
        )
        self.parts.compiling = lambda: self.device.build_seconds
        self._settle(splats.count)
        self._open_session(self.results.photographs.training(self.config.run.quiet))
        self._prepare_folder(splats.put(self.session))
        self.watchers.open(self)
        self.log.startup_seconds = time.perf_counter() - self.log.started

    def _settle(self, splats: int) -> None:
        """Settings that device and scene decide. splats: that there are at first."""
        config = self.config
        names = running(self.device, config)
        self._auto = Auto(names if may_time() else names[:1])
        config = config.changed(
            rasterizer=names[0], moments=moments_of(self.device, config.adam.moments)
        )
        self.config = STRATEGIES[config.densify.strategy].settled(
            config, training_cameras(self.scene), splats
        )

    def _open_session(self, reading: Iterator[np.ndarray]) -> None:
        """Buffers and commands of the training. Pipelines are built by threads while the last
        photographs are read."""
        config, scene = self.config, self.scene
        views = views_of(scene)
        build_ahead(
            self.device,
            config,
            self._auto.names,
            views.canvas,
            views.extent,
            views.lens,
            max(views.numbers) + 1,
        )
        self.parts.begin("load")
        images = list(reading)
        photos = Photos(
            self.device,
            images,
            config.run.images,
            ring=2 * config.run.batch_steps,
            fetches=not config.depth.depth_lambda,
        )
        self.config = config = fitted_batch(config, photos)
        self.parts.begin("setup")
        views = replace(views, depths=known_depths(config, scene))
        self.session = Session(
            self.device, config, views, photos, self._on_batch, timed_rows=len(self._auto.names) < 2
        )
        self._open = True
        self._describe()

    def _describe(self) -> None:
        """What others are given of this run."""
        self.state = RunState(
            self.config,
            self.scene,
            self.folder,
            self.device,
            self.session,
            self.log,
            self.results,
            self.parts,
            self.stopping,
            self._auto.trials,
        )
        self.measurements = Measurements(
            self.state,
            turn=lambda: self.watchers.turn(self),
            measured=lambda result, example: self.watchers.measured(self, result, example),
        )

    def _configure(self, config: TrainConfig) -> None:
        """Goes on by these settings, and saves them."""
        self.config = self.state.config = config
        self._save_config()

    def _prepare_folder(self, start: Checkpoint) -> None:
        """The result folder as the first step finds it. start: what the session begins with."""
        config = self.config
        ours = config.run.ckpt and self.folder.resolve() in config.run.ckpt.resolve().parents
        if not (config.run.resume or ours) and (earlier := archive_run(self.folder)):
            tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
        self._save_config()
        self.log.restore(start.log)
        self._regularize(self.log.overfit)
        self.keeping = Keeping(self.state, self.measurements, start)
        self.results.begin()

    def _save_config(self) -> None:
        save_config(
            self.config.changed(resume=False), self.folder / SAVED_NAME
        )  # so that repeating the run starts it anew

    def train(self) -> dict:
        c, s = self.config, self.session
        self.parts.begin("training")
        self.bar = bar = Bar(
            total=c.run.max_steps,
            initial=s.step,
            unit="",
            desc=self.scene.name,
            disable=c.run.quiet,
            smoothing=0.05,
            bar_format=BAR,
            dynamic_ncols=True,
        )
        try:
            with self.stopping:
                with self.log.training():
                    self._train()
                bar.close()
                metrics = self._write_results()
                say_outcome(self.state, metrics)
                while self.watchers.lingering and not self.stopping.asked:
                    self.watchers.turn(self, wait=True)
        except (
            UserError
        ) as error:  # memory, device or disk failed: nothing that was trained may be lost
            raise UserError(f"{error} (step {s.step}); {self.keeping.rescue(error)}") from None
        finally:
            bar.close()
            self.watchers.close()
            self.watchers = Watchers()  # whatever comes back of batches in flight finds them closed
            self.results.close()
            self._lock.release()
        if metrics["steps"] < self.config.run.max_steps and self.stopping.asked:
            raise KeyboardInterrupt(self.stopping.asked)
        self.close()
        return metrics

    def _train(self) -> None:
        """All steps, or those up to a wish to stop, and what the last one leaves."""
        s = self.session
        while s.step < self.config.run.max_steps:
            s.wait_for_turn()
            self.results.background.check()
            self._watch()
            if self._ending:
                break
            stop = next_stop(self.config, s.strategy, s.step, bool(s.apart))
            self._choose(stop)
            if s.step < stop:
                most = batch_steps(self.config, s.step, s.step_seconds, self.watchers.batch_seconds)
                s.run(min(most, stop - s.step))
            if self.config.run.deterministic:
                # so that room for pairs is made by all steps before, whatever else waits for them
                s.drain()
            if self.log.steps:
                self.results.prepare(s.step_seconds * (self.config.run.max_steps - s.step))
            self.keeping.publish(s.step)
            if s.step == stop:
                self._refine(s.step)
            self._average(s.step)
            if s.apart and s.step == self.config.densify.budget.overfit_check:
                self._check_overfit()
            self.keeping.keep(s.step)
        s.drain()
        if s.step == self.config.run.max_steps:
            s.take_averages()
        with self.state.aside("files"):
            self.keeping.leave(s.step)

    def close(self) -> None:
        """Frees what the run has on the device. May be called again."""
        self.results.close()
        self._lock.release()
        self._free()

    def _free(self) -> None:
        if self._open:
            self._open = False
            self.session.destroy()

    # -- what happens when -------------------------------------------------------------------------

    @property
    def _ending(self) -> bool:
        return bool(self.stopping.asked or self._stopped)

    def _watch(self) -> None:
        """Gives watchers their turn; while one of them wants a pause, nothing else has one."""
        self.watchers.turn(self)
        if self.watchers.paused:
            self.session.drain()
            with self.state.aside("paused"):
                while self.watchers.paused and not self._ending:
                    self.watchers.turn(self, wait=True)

    def stop(self) -> None:
        """Ends the run before its next batch, as after its last step."""
        self._stopped = True

    def save(self) -> None:
        """A checkpoint and splats.ply, now."""
        self.keeping.save()

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, and while they all
        are being measured."""
        return self.measurements.example()

    def _choose(self, stop: int) -> None:
        """Asks, where it is time to, which rasterizer is the fastest: the steps that tell it are
        steps of the run."""
        if len(self._auto.names) < 2:
            return
        work = (
            (self.log.splats[-1] if self.log.splats else self.keeping.state.splats)
            * self.session.width
            * self.session.height
        )
        if self._auto.due(work) and (
            chosen := self._auto.choose(
                self.session, stop - self.session.step, work, lambda: self.state.aside("auto")
            )
        ):
            trial = self._auto.trials[-1]
            timed = ", ".join(
                f"{name} {ms:.3g} ms"
                for name, ms in sorted(trial["ms"].items(), key=lambda item: item[1])
            )
            _log.info(
                "rasterizer %s: a step with %d splats takes %s", chosen, trial["splats"], timed
            )
            self._configure(self.config.changed(rasterizer=chosen))

    def _refine(self, step: int) -> None:
        """What the strategy does after this step."""
        self.session.refine()
        if self.session.room.stopped and not self._warned:
            self._warned = True
            tqdm.write(f"note: {self.session.room.stopped}")

    def _average(self, step: int) -> None:
        """A sample of the splats for their averages, where one is due. Without memory for those the
        run ends with its last step."""
        if self._averages and averaging.is_sample(self.config, self.session.strategy, step):
            try:
                self.session.average()
            except OutOfMemory as error:
                self._averages = False
                tqdm.write(f"note: no averages over the last steps: {error}")

    def shorten(self, config: TrainConfig) -> None:
        """Goes on by these settings, which differ in steps alone. The saved ones say so too, since
        a resumed run must end there as well."""
        if config != self.config:
            self.session.reschedule(config)
            self._configure(config)
            if self.bar is not None:
                self.bar.total = config.run.max_steps

    def _check_overfit(self) -> None:
        """Compares the photographs that were held for validation with others, and regularizes
        splats where the others show much better."""
        session, train = self.session, self.scene.train
        n, others = len(session.apart), overfit.views_to_compare(len(train))
        session.drain()
        psnrs = self.measurements.psnr([train[i] for i in (*session.apart, *others)])
        found = overfit.judged(session.step, psnrs[:n], psnrs[n:])
        self.log.overfit = found
        apart, other = found["psnr_apart"], found["psnr_others"]
        what = (
            f"photographs held for validation show {apart:.1f} dB in the median, others {other:.1f}"
        )
        _log.info("step %d: %s", session.step, what)
        if found["regularized"]:
            if found.get("share", 1.0) >= 0.5:
                self.shorten(overfit.shortened(self.config, session.step, len(train)))
            then = (
                f"from here on, up to step {self.config.run.max_steps} (--overfit-check 0: never)"
            )
            tqdm.write(f"note: step {session.step}: {what}: opacities are regularized {then}")
        self._regularize(found)

    def _regularize(self, judgement: dict) -> None:
        """Gives opacities their weight in the loss, where the run was found to overfit."""
        if judgement.get("regularized"):
            weight = overfit.OPACITY_REG * judgement.get("share", 1.0)
            self.session.regularize(weight)

    def _on_batch(self, result: BatchResult) -> None:
        self.log.batch(result, self.session.weights)
        self.watchers.batch(self)
        if self.bar is not None:
            self.bar.set_postfix_str(
                f"{self.log.psnrs[-1]:.1f} dB, {self.log.splats[-1] / 1000:.0f}k splats",
                refresh=False,
            )
            self.bar.update(len(result.records))

    def _write_results(self) -> dict:
        self.parts.begin("files")
        metrics = self.state.metrics()
        if not self.watchers.lingering:
            self.watchers.close()
            self.watchers = Watchers()
            self._free()  # while threads write files
        return self.results.finish(metrics, self.parts)
