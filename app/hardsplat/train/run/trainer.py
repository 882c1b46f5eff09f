"""`hardsplat train`: a scene in, a run folder out.

The run folder: config.toml (resolved settings), report.html, metrics.json, metrics.jsonl, loss.png,
splats.ply, ckpts/, renders/ (renders and their photographs).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np
from tqdm import tqdm

from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.base.files import remove_abandoned
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.probe import open_device
from hardsplat.raster.trials import note_trial
from hardsplat.results.folder import archive_run, check_folder, folder_of, make_folder, remove_empty
from hardsplat.settings.option import flag
from hardsplat.settings.presets import SAVED_NAME, save_config
from hardsplat.settings.train import TrainConfig
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BATCH_SECONDS, BatchResult
from hardsplat.train.features import inputs_of
from hardsplat.train.features.region import region_of
from hardsplat.train.job import validation
from hardsplat.train.job.facts import WHOLE, ScenePart
from hardsplat.train.job.job import Job, decide
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.files import RunFiles
from hardsplat.train.run.held_out import HeldOut
from hardsplat.train.run.keeper import Keeper
from hardsplat.train.run.outcome import metrics_of, print_outcome
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.run.start import InitialSplats, checkpoint_to_resume, gather, print_notes
from hardsplat.train.run.tuner import RasterizerTuner
from hardsplat.train.session.session import Session, build_ahead
from hardsplat.train.watchers.log import Log
from hardsplat.train.watchers.logs import log_of
from hardsplat.train.watchers.watch import Watcher, Watchers

# fits into 80 columns
BAR = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining} "
    "{rate_noinv_fmt}{postfix}"
)


def run_training(
    config: TrainConfig,
    watchers: Sequence[Watcher] = (),
    clock: PhaseClock | None = None,
    device: Device | Future[Device] | None = None,
    photographs: PhotographLoader | None = None,
    part: ScenePart = WHOLE,
    followed: bool = False,
) -> dict:
    """Trains by these settings and returns what metrics.json holds. watchers: windows and other
    observers. clock: of the command that this is. device, photographs, part: see Trainer. followed:
    by more of the same command, which Ctrl-C after the last step ends.

    Raises UserError for bad input; KeyboardInterrupt, with the signal's number, after saving what
    is trained.
    """
    with Trainer(config, watchers, device, photographs, clock, part) as run:
        metrics = run.train(followed)
        if followed and run.stopping.asked:
            raise KeyboardInterrupt(run.stopping.asked)
        return metrics


class Trainer:
    """One training run, which owns all that it consists of, from the first splats to the run
    folder.

    session: there is one from the first splats to the last measurement, or as long as watchers keep
    the run open. device: one that is open or about to be; by default opened as the settings say. It
    is left open. photographs: by default those of the scene that the settings name. The run closes
    them. part: of the scene that is trained, by default all of it. as_given, facts: what the job
    was decided by.
    """

    session: Session
    device: Device
    files: RunFiles
    keeper: Keeper
    held_out: HeldOut

    def __init__(
        self,
        config: TrainConfig,
        watchers: Sequence[Watcher] = (),
        device: Device | Future[Device] | None = None,
        photographs: PhotographLoader | None = None,
        clock: PhaseClock | None = None,
        part: ScenePart = WHOLE,
    ):
        self.as_given, self.clock = config, clock or PhaseClock("load")
        self.log, self.stopping = Log(self.clock), StopRequest()
        self.watchers = Watchers([*filter(None, [log_of(config.run.log)]), *watchers])
        self.bar: Bar | None = None
        # what is freed on the device; threads, files and locks that are closed
        self._device_stack, self._host_stack = ExitStack(), ExitStack()
        self._stop_wanted = self._save_wanted = False  # by a watcher
        self._unrefined = 0  # the step that a refinement or a measurement may still follow
        self._interrupted = False  # by a signal, before the last step
        self._limit_noted = False
        self.folder = folder_of(config.run, config.scene)
        check_folder(self.folder)
        self.clock.begin("load")
        checkpoint = checkpoint_to_resume(config, self.folder)
        self.photographs = photographs or PhotographLoader.of(config.scene)
        self.scene = self.photographs.scene
        self._host_stack.callback(self.photographs.close)
        try:
            self.region = region_of(config.scene, self.scene)
            print_notes(config, self.scene, self.region, whole=part is WHOLE)
            self._take_folder()
            # by a thread, while the device is opened
            background = self.photographs.background
            self._initial = InitialSplats(config, self.scene, checkpoint, background)
            self._open_device(device)
            if checkpoint:
                self.log.restore(checkpoint.log)
            if not config.run.early_stop:
                self.log.settled = 0  # the steps that are named are made
            self.facts = gather(
                config, self.scene, self.device, self._initial.count, self.log, part, self.region
            )
            job = decide(config, self.facts)
            self.log.add_decisions(job.decisions)
            self.tuner = RasterizerTuner(job.rasterizers)
            images = self._open_session(job)
            state = self._initial.restore_into(self.session)
            self.keeper = Keeper(self.session, self.files, self.log, state)
            # from the first file on Ctrl-C leaves a run that can be continued
            self._host_stack.enter_context(self.stopping)
            self._prepare_folder()
            self.watchers.open(self)
            # no step waits for it; a part's notes were printed by the run of the whole scene
            self.photographs.look_for_blur(images, config.run.quiet or part is not WHOLE)
            self.log.startup_seconds = time.perf_counter() - self.log.started
        except BaseException:
            self.close()
            raise

    def _take_folder(self) -> None:
        """Makes the result folder, which other processes leave alone until it is closed."""
        self._host_stack.callback(remove_empty, make_folder(self.folder))
        self._host_stack.callback(FolderLock(self.folder).release)
        remove_abandoned(self.folder)

    def _open_device(self, device: Device | Future[Device] | None) -> None:
        self.clock.begin("device")
        device = device.result() if isinstance(device, Future) else device
        surfaces = [self.watchers.surfaces] if self.watchers.surfaces else []
        self.device = device or open_device(self.as_given.run.device, *surfaces)
        self.clock.compiling = lambda: self.device.build_seconds

    def _open_session(self, job: Job) -> list[np.ndarray]:
        """Makes the session and what reads it. Returns the training photographs."""
        # of a line: it neither waits for held-out photographs, nor for the others where one is bad
        load = partial(self._load, job.config)
        loaded = self.photographs.background.do("photographs", load, line="loading")
        with undone(partial(self._device_stack.callback, _free_photos, loaded)):
            build_ahead(self.device, job)  # by threads, while the last photographs are read
            self.clock.begin("load")
            images, photos = loaded.result()
            self.clock.begin("setup")
            inputs = inputs_of(job, self.scene, photos)
            self.session = Session(self.device, job, photos, self._on_batch, inputs)
        self._device_stack.callback(self.session.destroy)
        self.files = RunFiles(self.folder, self.session, self.photographs)
        self._host_stack.callback(self.files.close)
        asked = [(i, images[i]) for i in job.asked]
        self.held_out = HeldOut(
            self.session, self.files, self.log, self.watchers, self.stopping, asked
        )
        self._device_stack.callback(self.held_out.close)
        return images

    def _load(self, config: TrainConfig) -> tuple[list[np.ndarray], Photos]:
        """The training photographs, in order, and where steps read them."""
        run, fetches = config.run, not config.depth.depth_lambda
        images = list(self.photographs.training(run.quiet))
        return images, Photos(self.device, images, run.images, 2 * run.batch_steps, fetches)

    @property
    def job(self) -> Job:
        return self.session.job

    @property
    def config(self) -> TrainConfig:
        return self.job.config

    @property
    def ending(self) -> bool:
        """Whether the run is to end before its next batch."""
        return bool(self.stopping.asked or self._stop_wanted)

    def _prepare_folder(self) -> None:
        run = self.config.run
        ours = run.ckpt and self.folder.resolve() in run.ckpt.resolve().parents
        if not (run.resume or ours) and (earlier := archive_run(self.folder)):
            tqdm.write(f"note: the earlier run in {self.folder} is now in {earlier}")
            self._initial.archived(self.folder, earlier)
        self._save_settings()
        self.files.save_photographs()

    def _save_settings(self) -> None:
        """Saves the settings that repeat the run, from any folder, which a resumed one must end by
        as well."""
        own = {"rasterizer": self.session.drawing.rasterizer, "resume": False}
        begun = {"init": self._initial.init, "ckpt": self.config.run.ckpt}
        own |= {name: path and path.absolute() for name, path in begun.items()}
        save_config(self.job.flat | own, self.folder / SAVED_NAME)

    # -- the steps ---------------------------------------------------------------------------------

    def train(self, followed: bool = False) -> dict:
        """Makes all steps, or those up to a wish to stop, and what the last one leaves. Returns
        what metrics.json holds. Raises KeyboardInterrupt, with the signal's number, after saving
        what is trained. followed: see run_training; its command says how to continue."""
        s = self.session
        self.clock.begin("training")
        with self._rescued():
            with self._shown_bar(), self.log.training():
                while s.step < s.schedule.steps:
                    self._wait_for_turn()
                    self.files.background.check()
                    self.keeper.check_memory()
                    self._watch()
                    if self.ending:
                        break
                    stop = self._unrefined = s.schedule.next_stop(s.step)
                    self._choose_rasterizer(stop)
                    if s.step < stop:
                        s.run(self._batch_steps(stop))
                    if self.as_given.run.deterministic:
                        # so that room for pairs is made by all steps before, whatever else waits
                        s.drain()
                    # its imports hold Python, for which short batches of few splats would wait
                    if 2 * s.step >= s.schedule.steps and self.log.steps:
                        self.files.import_report()
                    self._publish()
                    if self._validate():
                        continue  # at step 0 again
                    if s.step == stop:
                        self._refine()
                    if s.schedule.averaging.is_sample(s.step):
                        s.average()
                    s.expire()
                    self._unrefined = 0
                    if self._save_wanted:
                        self.save()
                    self.keeper.keep_state()
                    self.keeper.choose_for_report()
                s.drain()
                if s.step == s.schedule.steps:
                    s.finish()
                with self.log.off_clock("files"):
                    self.write_last()
            metrics = self.write_results()
            interrupted, views = bool(self.stopping.asked), len(self.scene.test)
            if not (followed and interrupted and metrics["steps"] < metrics["wanted"]):
                print_outcome(metrics, self.folder, self.job, self.log, views, interrupted)
            while self.watchers.lingering and not self.stopping.asked:
                self.watchers.turn(wait=True)
        if self.stopping.asked and metrics["steps"] < metrics["wanted"]:
            raise KeyboardInterrupt(self.stopping.asked)
        self.close()
        return metrics

    @contextmanager
    def _rescued(self) -> Iterator[None]:
        """Saves what is trained where memory, device or disk fail: nothing of it may be lost."""
        try:
            yield
        except UserError as error:
            kind = OutOfMemory if isinstance(error, OutOfMemory) else UserError
            step, saved = self.session.step, self.keeper.rescue(error)
            raise kind(f"{error} (step {step}); {saved}") from None
        finally:
            self.watchers.close()  # batches in flight that come back find them closed
            self._host_stack.close()
            self.files.sync()

    @contextmanager
    def _shown_bar(self) -> Iterator[None]:
        s = self.session
        with Bar(
            total=s.schedule.steps,
            initial=s.step,
            unit="",
            desc=self.scene.name,
            disable=self.config.run.quiet,
            smoothing=0.05,
            bar_format=BAR,
            dynamic_ncols=True,
        ) as self.bar:
            yield

    def _wait_for_turn(self) -> None:
        """Waits for the batch before the last, while watchers answer."""
        while not self.session.runner.ready and self.watchers.answer():
            pass  # each takes a while
        self.session.runner.wait_for_turn()

    def _watch(self) -> None:
        """Gives watchers their turn; while one of them wants a pause, nothing else has one."""
        self.watchers.turn()
        if self.watchers.paused:
            self.session.drain()
            with self.log.off_clock("paused"):
                while self.watchers.paused and not self.ending:
                    self.watchers.turn(wait=True)

    def _choose_rasterizer(self, stop: int) -> None:
        """Finds, where it is time to, the fastest rasterizer by steps of the run."""
        s, tuner = self.session, self.tuner
        splats = self.log.splats[-1] if self.log.splats else self.keeper.state.splats
        work = splats * s.width * s.height
        if not tuner.due(work):
            return
        if tuner.choose(s, stop - s.step, work, lambda: self.log.off_clock("auto")):
            self._save_settings()
            given = self.as_given
            note_trial(self.device, given.raster, given.gradient, tuner.trials[-1]["ms"])

    def _batch_steps(self, stop: int) -> int:
        """Steps of the next batch: as many as take BATCH_SECONDS, or what watchers want.
        Deterministic, no clock decides, since what a batch clips depends on its end."""
        s, longest = self.session, self.session.batch_steps
        seconds = min(BATCH_SECONDS, self.watchers.batch_seconds)
        steps = min(longest, max(1, seconds / max(s.runner.step_seconds, 1e-6)))
        if self.as_given.run.deterministic:
            steps = longest - s.step % longest
        return min(int(steps), stop - s.step)

    def _publish(self) -> None:
        """Measurements and splats for the user: before a refinement of the same step, which
        opacities and new splats take steps to recover from."""
        s, run = self.session, self.config.run
        if s.step < s.schedule.steps:
            if s.step in run.eval_steps:
                s.drain()
                self.held_out.measure()
            if s.step in run.save_steps:
                self.keeper.publish()

    def _refine(self) -> None:
        self.session.refine()
        if self.session.limit.stopped and not self._limit_noted:
            self._limit_noted = True
            tqdm.write(f"note: {self.session.limit.stopped}")

    # -- photographs that are held back --------------------------------------------------------

    def _validate(self) -> bool:
        """Measures the photographs that are held back, where that is due, and does what they
        decide; whether that is to begin again. Without memory for that they decide nothing."""
        s, log, job = self.session, self.log, self.job
        if not s.schedule.is_look(s.step):
            return False
        s.drain()
        compares = partial(validation.compares_light, log.looks, log.color_gains)
        light = job.compares_light and compares(s.step)
        try:
            held, trained = self.held_out.held_back(light)
        except OutOfMemory as error:
            tqdm.write(f"note: step {s.step}: held-back photographs are not measured: {error}")
            return False
        log.add_look(s.step, _psnrs(held), _psnrs(trained), validation.decays(self.config))
        schedule = s.schedule.judged(log.looks)
        if light:
            log.color_gains.append(validation.color_gain(held, trained))
            if s.step >= schedule.main_steps or not compares(validation.next_look(s.step)):
                gains = tuple(log.color_gains)
                facts = replace(self.facts, settled=0, decay=0.0, color_gains=gains)
                job = decide(self.as_given, facts)
        if job.config != self.config:
            self._begin_again(job)
            return True
        self._reschedule(schedule)
        return False

    def _reschedule(self, schedule: Schedule) -> None:
        """Goes by what photographs that are held back have decided."""
        s, before, run = self.session, self.session.schedule, self.config.run
        s.reschedule(schedule)
        if schedule.settled != before.settled:
            self.log.settled = schedule.settled
            if self.bar is not None:
                self.bar.total = schedule.steps
            why = f"photographs that are held back stopped improving at step {s.step}"
            self.log.tell(f"{why}: finishing with step {schedule.steps}")
            named = {"eval_steps": run.eval_steps, "save_steps": run.save_steps}
            for name in named.keys() & self.as_given.typed:
                if late := [str(n) for n in named[name] if n > schedule.steps]:
                    tqdm.write(f"note: {flag(name)} {','.join(late)}: the run ends before")
        elif s.step == before.main_steps:
            self.log.tell(f"photographs that are held back are trained too from step {s.step} on")

    def _begin_again(self, job: Job) -> None:
        self.log.add_decisions(each for each in job.decisions if each not in self.job.decisions)
        self.log.forget()
        first = self._initial.state(self.session)
        self.keeper.begin_again(first)  # which is what can be saved where memory gives out
        self.session.begin_again(job, first)
        self.watchers.begin_again()
        self._save_settings()
        if self.bar is not None:
            self.bar.reset()

    # -- after the last step -----------------------------------------------------------------------

    def write_last(self) -> None:
        """Everything that the run leaves after its last step: files from the host's copy of the
        state, while held-out views are measured on the device."""
        self._interrupted = bool(self.stopping.asked)
        if self.log.steps:
            self.files.draw_curves(self.log.curve)
        with self.keeper.last_files(measured=not self._interrupted) as planes:
            if not self.watchers.lingering:
                # which takes a fifth of a second for a third of a GB
                # of a line: pictures may still keep the other threads busy
                self.files.background.do("memory", self.session.drop_photos, line="memory")
            self.held_out.measure(planes)
            self._end_soon()
        self.files.save_learnt(self.keeper.state, self.held_out.refined)

    def write_results(self) -> dict:
        """Writes what is left to write and returns what metrics.json holds."""
        self.clock.begin("files")
        metrics = metrics_of(self.session, self.log, self.tuner.trials, self.folder)
        metrics["photographs"] = self.photographs.about
        if any(self.scene.origin):
            metrics["origin"] = [*self.scene.origin]
        if self.region:
            metrics["region"] = self.region.about(self.session.store.gaussians().means)
        self.files.begin_report(metrics, self.clock)
        if not self.watchers.lingering:
            self.watchers.close()
            self._device_stack.close()  # while threads write files
        return self.files.finish(metrics, self.clock, self._end_soon)

    def _end_soon(self) -> None:
        """Waits for no viewer where somebody asked for the end after the last step."""
        if self.stopping.asked and not self._interrupted:
            self.files.end_viewer()

    def close(self) -> None:
        """Frees what the run has on the device. May be called again."""
        self._host_stack.close()
        self._device_stack.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(DeviceLost):  # which was raised already
            self.close()

    def _on_batch(self, result: BatchResult) -> None:
        self.log.add_batch(result, self.session.weights)
        self.watchers.batch()
        if self.bar is not None:
            psnr, splats = self.log.psnrs[-1], self.log.splats[-1] / 1000
            self.bar.set_postfix_str(f"{psnr:.1f} dB, {splats:.0f}k splats", refresh=False)
            self.bar.update(len(result.records))

    # -- for watchers ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends the run before its next batch, as after its last step."""
        self._stop_wanted = True

    def save(self) -> None:
        """Saves a checkpoint and splats.ply: now, or, where this step is still to refine splats,
        after that. A resumed run would miss it."""
        self._save_wanted = 0 < self._unrefined == self.session.step
        if not self._save_wanted:
            self.keeper.save()

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, and while they all
        are being measured."""
        return self.held_out.example()


def _free_photos(loaded: Future[tuple[list[np.ndarray], Photos]]) -> None:
    """Frees what a thread, which has ended, may have made for a session that there is not."""
    if loaded.done() and not loaded.cancelled() and not loaded.exception():
        loaded.result()[1].destroy()


def _psnrs(measured: Sequence[Measured]) -> list[float]:
    """Of right halves alone, dB, where these were measured."""
    return [m.psnr if m.half_psnr is None else m.half_psnr for m in measured]
