"""`hardsplat train`: a scene in, a run folder out.

The run folder: config.toml (resolved settings), report.html, metrics.json, metrics.jsonl, loss.png,
splats.ply, ckpts/, renders/ (renders and their photographs).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

from tqdm import tqdm

from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import remove_abandoned
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.probe import open_device
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.results.folder import archive_run, check_folder, folder_of, make_folder
from hardsplat.settings.train import TrainConfig
from hardsplat.step.runner import BatchResult
from hardsplat.train.job.decide import decide
from hardsplat.train.job.facts import WHOLE, ScenePart
from hardsplat.train.job.job import Job
from hardsplat.train.job.place import place_of
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.closing import print_outcome
from hardsplat.train.run.files import RunFiles
from hardsplat.train.run.gather import gather
from hardsplat.train.run.keeping import CheckpointKeeper
from hardsplat.train.run.loop import TrainingLoop
from hardsplat.train.run.measuring import Measurements
from hardsplat.train.run.photographs import Loader
from hardsplat.train.run.resume import checkpoint_to_resume
from hardsplat.train.run.start import FirstSplats, open_session, print_notes
from hardsplat.train.run.state import RunState
from hardsplat.train.run.tuner import RasterizerTuner
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log
from hardsplat.train.watchers.logs import log_of
from hardsplat.train.watchers.watch import Watcher, Watchers

# fits into 80 columns
BAR = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining} "
    "{rate_noinv_fmt}{postfix}"
)


def train(
    config: TrainConfig,
    watchers: Sequence[Watcher] = (),
    clock: PhaseClock | None = None,
    device: Device | Future[Device] | None = None,
    photographs: Loader | None = None,
    part: ScenePart | None = None,
) -> dict:
    """Trains by these settings and returns what metrics.json holds. watchers: windows and other
    observers. clock: of the command that this is. device, photographs, part: see Trainer.

    Raises UserError for bad input; KeyboardInterrupt, with the signal's number, after saving what
    is trained.
    """
    with Trainer(config, watchers, device, photographs, clock, part) as run:
        return run.train()


class Trainer:
    """One training run: scene, device and session, from the first splats to the run folder.

    session: there is one from the first splats to the last measurement, or as long as watchers keep
    the run open. device: one that is open or about to be; by default opened as the settings say. It
    is left open. photographs: by default those of the scene that the settings name. The run closes
    them. part: of the scene that is trained, by default all of it.
    """

    session: Session
    device: Device
    state: RunState
    keeping: CheckpointKeeper

    def __init__(
        self,
        config: TrainConfig,
        watchers: Sequence[Watcher] = (),
        device: Device | Future[Device] | None = None,
        photographs: Loader | None = None,
        clock: PhaseClock | None = None,
        part: ScenePart | None = None,
    ):
        self.log, self.stopping = Log(), StopRequest()
        self.watchers = Watchers([*filter(None, [log_of(config.run.log)]), *watchers])
        self.clock, self._apart, self._open = clock or PhaseClock("load"), clock is not None, False
        self.folder = folder_of(config.run, config.scene)
        check_folder(self.folder)
        self.clock.begin("load")
        start = checkpoint_to_resume(config, self.folder)
        self.photographs = photographs or Loader.of(config.scene)
        self.scene = self.photographs.scene
        self._lock: FolderLock | None = None
        try:
            self.place = place_of(config.scene, self.scene)
            print_notes(config, self.scene)
            if self.place:
                tqdm.write(f"note: {self.place.note(self.scene)}")
            make_folder(self.folder)
            self._lock = FolderLock(self.folder)
            remove_abandoned(self.folder)
            self._begin(config, device, start, part)
        except BaseException:
            self.close()
            raise

    def _begin(
        self,
        config: TrainConfig,
        device: Device | Future[Device] | None,
        checkpoint: Checkpoint | None,
        part: ScenePart | None,
    ) -> None:
        """Everything up to the first step. checkpoint: where an earlier run ended. Splats are made
        by a thread while the device is opened."""
        splats = self._splats = FirstSplats(
            config, self.scene, checkpoint, self.photographs.background
        )
        self.clock.begin("device")
        if isinstance(device, Future):
            device = device.result()
        surfaces = [self.watchers.surfaces] if self.watchers.surfaces else []
        self.device = device or open_device(config.run.device, *surfaces)
        self.clock.compiling = lambda: self.device.build_seconds
        if checkpoint:
            self.log.restore(checkpoint.log)
        if not config.run.early_stop:
            self.log.settled = 0  # the steps that are named are made
        own = self.log, part or WHOLE, self.place
        facts = gather(config, self.scene, self.device, splats.count, *own)
        job = decide(config, facts)
        self.log.keep(job.decisions)
        self._tuner = RasterizerTuner(job.rasterizers)
        how = (self.photographs, self._on_batch, self.clock)
        self.session = open_session(self.device, job, *how)
        self._open = True
        self.files = RunFiles(self.folder, self.job, self.photographs, self._apart)
        self.state = RunState(
            self.scene,
            self.folder,
            self.device,
            self.session,
            self.log,
            self.files,
            self.clock,
            self.stopping,
            self.watchers,
            self._tuner.trials,
            config,
            facts,
        )
        self.prepare_folder(splats.put(self.session))
        self.watchers.open(self)
        self.log.startup_seconds = time.perf_counter() - self.log.started

    @property
    def job(self) -> Job:
        return self.session.job

    @property
    def config(self) -> TrainConfig:
        return self.job.config

    def prepare_folder(self, start: Checkpoint) -> None:
        """Makes the result folder ready for the first step. start: what the session begins with."""
        run = self.config.run
        ours = run.ckpt and self.folder.resolve() in run.ckpt.resolve().parents
        if not (run.resume or ours) and (earlier := archive_run(self.folder)):
            tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
        self.state.save_settings()
        self.begin_keeping(CheckpointKeeper, start)
        self.files.begin()

    def begin_keeping(self, keeper: type[CheckpointKeeper], start: Checkpoint) -> None:
        """keeper: decides what is saved from here on. start: what the session begins with."""
        self.keeping = keeper(self.state, Measurements(self.state), start)

    def train(self) -> dict:
        s = self.session
        self.clock.begin("training")
        bar = self.state.bar = Bar(
            total=s.schedule.steps,
            initial=s.step,
            unit="",
            desc=self.scene.name,
            disable=self.config.run.quiet,
            smoothing=0.05,
            bar_format=BAR,
            dynamic_ncols=True,
        )
        try:
            with self.stopping:
                with self.log.training():
                    TrainingLoop(self.state, self.keeping, self._tuner, self._splats.state).train()
                bar.close()
                metrics = self.write_results()
                print_outcome(self.state, metrics)
                while self.watchers.lingering and not self.stopping.asked:
                    self.watchers.turn(wait=True)
        except UserError as error:
            # memory, device or disk failed: nothing that was trained may be lost
            kind = OutOfMemory if isinstance(error, OutOfMemory) else UserError
            raise kind(f"{error} (step {s.step}); {self.keeping.rescue(error)}") from None
        finally:
            bar.close()
            self.watchers.close()  # batches in flight that come back find them closed
            self._close_files()
        if metrics["steps"] < s.schedule.steps and self.stopping.asked:
            raise KeyboardInterrupt(self.stopping.asked)
        self.close()
        return metrics

    def write_results(self) -> dict:
        """Writes what is left to write and returns what metrics.json holds."""
        self.clock.begin("files")
        metrics = self.state.metrics() | {"photographs": self.photographs.about}
        if self.place:
            metrics["region"] = self.place.about(self.session.gaussians().means)
        if not self.watchers.lingering:
            self.watchers.close()
            self._free()  # while threads write files
        return self.files.finish(metrics, self.clock)

    def close(self) -> None:
        """Frees what the run has on the device. May be called again."""
        self._close_files()
        self._free()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(DeviceLost):  # which was raised already
            self.close()

    def _close_files(self) -> None:
        self.photographs.close()
        if hasattr(self, "files"):
            self.files.close()
        if self._lock:
            self._lock.release()
        if hasattr(self, "files"):
            self.files.sync()

    def _free(self) -> None:
        if self._open:
            self._open = False
            self.session.destroy()

    def _on_batch(self, result: BatchResult) -> None:
        self.log.batch(result, self.session.weights)
        self.watchers.batch()
        if bar := self.state.bar:
            psnr, splats = self.log.psnrs[-1], self.log.splats[-1] / 1000
            bar.set_postfix_str(f"{psnr:.1f} dB, {splats:.0f}k splats", refresh=False)
            bar.update(len(result.records))

    # -- for watchers ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends the run before its next batch, as after its last step."""
        self.state.stopped = True

    def save(self) -> None:
        """A checkpoint and splats.ply, now."""
        self.keeping.save()

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, and while they all
        are being measured."""
        return self.keeping.measurements.example()
