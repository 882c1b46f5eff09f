"""The steps of a run, and what happens between its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.step.runner import LONGEST_BATCH
from hardsplat.train.job import validation
from hardsplat.train.job.decide import decide
from hardsplat.train.job.job import Job
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.keeping import CheckpointKeeper
from hardsplat.train.run.memory import MemoryWatch
from hardsplat.train.run.state import RunState
from hardsplat.train.run.tuner import RasterizerTuner
from hardsplat.train.session.session import Session

BATCH_SECONDS = 1.0  # how long a batch may take on a slow device: Ctrl-C waits for two
_log = logging.getLogger("hardsplat")


class TrainingLoop:
    """Trains a run to its end. keeper: saves and measures. first: the state at the first step."""

    def __init__(
        self,
        run: RunState,
        keeper: CheckpointKeeper,
        tuner: RasterizerTuner,
        first: Callable[[Session], Checkpoint],
    ):
        self.run, self.keeper, self._tuner, self._first = run, keeper, tuner, first
        self._memory = MemoryWatch(run, keeper)
        self._warned = False  # that growth has stopped
        self._averages = run.session.schedule.averaging.steps > 0

    def train(self) -> None:
        """Makes all steps, or those up to a wish to stop, and what the last one leaves."""
        run, s = self.run, self.run.session
        deterministic = run.job.config.run.deterministic
        while s.step < s.schedule.steps:
            while not s.runner.ready and run.watchers.answer():
                pass  # each takes a while
            s.runner.wait_for_turn()
            run.files.background.check()
            self._memory.check()
            self._watch()
            if run.ending:
                break
            stop = s.schedule.next_stop(s.step)
            self._choose_rasterizer(stop)
            if s.step < stop:
                limits = (s.runner.step_seconds, run.watchers.batch_seconds)
                most = batch_steps(deterministic, s.batch_steps, s.step, *limits)
                s.run(min(most, stop - s.step))
            if deterministic:
                # so that room for pairs is made by all steps before, whatever else waits for them
                s.drain()
            if run.log.steps:
                run.files.prepare(s.runner.step_seconds * (s.schedule.steps - s.step))
            self.keeper.publish(s.step)
            if self._look():
                continue  # at step 0 again
            if s.step == stop:
                self._refine()
            self._average()
            if s.exposed and s.step >= s.schedule.exposed_until:
                s.end_exposures()
            self.keeper.keep(s.step)
        s.drain()
        if s.step == s.schedule.steps:
            s.take_averages()
        with run.off_clock("files"):
            self.keeper.leave(s.step)

    def _watch(self) -> None:
        """Gives watchers their turn; while one of them wants a pause, nothing else has one."""
        run, watchers = self.run, self.run.watchers
        watchers.turn()
        if watchers.paused:
            run.session.drain()
            with run.off_clock("paused"):
                while watchers.paused and not run.ending:
                    watchers.turn(wait=True)

    def _choose_rasterizer(self, stop: int) -> None:
        """Finds, where it is time to, the fastest rasterizer by steps of the run."""
        run, s, tuner = self.run, self.run.session, self._tuner
        splats = run.log.splats[-1] if run.log.splats else self.keeper.state.splats
        work, most = splats * s.width * s.height, stop - s.step
        if not tuner.due(work):
            return
        if chosen := tuner.choose(s, most, work, lambda: run.off_clock("auto")):
            trial = tuner.trials[-1]
            ranked = sorted(trial["ms"].items(), key=lambda item: item[1])
            timed, n = ", ".join(f"{name} {ms:.3g} ms" for name, ms in ranked), trial["splats"]
            _log.debug("rasterizer %s: a step with %d splats takes %s", chosen, n, timed)
            run.save_settings()

    def _refine(self) -> None:
        """Does what the strategy has to do after this step."""
        session = self.run.session
        session.refine()
        if session.room.stopped and not self._warned:
            self._warned = True
            tqdm.write(f"note: {session.room.stopped}")

    def _average(self) -> None:
        """Takes a sample of the splats for their averages, where one is due. Without memory for
        those the run ends with its last step."""
        session = self.run.session
        if self._averages and session.schedule.averaging.is_sample(session.step):
            try:
                session.average()
            except OutOfMemory as error:
                self._averages = False
                tqdm.write(f"note: no averages over the last steps: {error}")

    def _look(self) -> bool:
        """Measures the photographs that are held back, where that is due, and does what they
        decide; whether that is to begin again. Without memory for that they decide nothing."""
        s = self.run.session
        if not s.schedule.asks(s.step):
            return False
        s.drain()
        try:
            other = self._ask()
        except OutOfMemory as error:
            tqdm.write(f"note: step {s.step}: held-back photographs are not measured: {error}")
            return False
        if other is not None:
            self._begin_again(other)
        return other is not None

    def _ask(self) -> Job | None:
        """Asks the photographs that are held back, see _look; the job to begin again with, if they
        want another one."""
        run, s, log = self.run, self.run.session, self.run.log
        job, train = s.job, run.scene.train
        held = self.keeper.measurements.held([run.scene.views[train[i]] for i in job.validation])
        asks = job.config.exposure.exposure == "auto" and not log.color_gains
        if asks and log.looks and self._light_differs(held):
            gains = log.color_gains[0], log.color_gains[1]
            return decide(run.given, replace(run.facts, decay=0.0, color_gains=gains))
        last = log.looks[-1].step if log.looks else 0
        trained = [db for step, db in zip(log.steps, log.psnrs) if step > last]
        psnrs = [m.psnr if m.half_psnr is None else m.half_psnr for m in held]
        found = validation.look(s.step, psnrs, trained, log.looks)
        decays = validation.decays(job.config)
        log.looks.append(found if decays else found._replace(decay=0.0))
        if decays:
            s.reschedule(s.schedule.regularized(found.decay))
        if s.step == s.schedule.main_steps:
            log.decide(f"photographs that are held back are trained too from step {s.step} on")
        elif job.config.run.early_stop and self._settled():
            self._finish()
        return None

    def _settled(self) -> bool:
        """Whether held-back photographs have stopped to improve."""
        s = self.run.session
        return validation.has_settled(self.run.log.looks, s.schedule.alike_since(s.step))

    def _finish(self) -> None:
        """Ends the main phase now."""
        run, s = self.run, self.run.session
        run.log.settled = s.step
        s.reschedule(s.schedule.shortened(s.step))
        if run.bar is not None:
            run.bar.total = s.schedule.steps
        what = f"photographs that are held back stopped improving at step {s.step}"
        run.log.decide(f"finishing with step {s.schedule.steps}", what)

    def _light_differs(self, held: Sequence[Measured]) -> bool:
        """Whether photographs differ in light. held: those that are held back."""
        run, measurements = self.run, self.keeper.measurements
        chosen = validation.trained_views(run.job.validation, run.job.views.faces)
        trained = measurements.fitted([run.scene.views[run.scene.train[i]] for i in chosen])
        gains = validation.color_gain(held), validation.color_gain(trained)
        run.log.color_gains = list(gains)
        return validation.light_differs(*gains)

    def _begin_again(self, job: Job) -> None:
        """Begins again with another job and the first splats."""
        run = self.run
        run.log.keep(job.decisions[len(run.job.decisions) :])
        run.log.forget()
        first = self._first(run.session)
        run.session.begin_again(job, first)
        self.keeper.begin_again(first)
        run.files.job = job
        run.save_settings()
        if run.bar is not None:
            run.bar.reset()


def batch_steps(
    deterministic: bool, longest: int, step: int, step_seconds: float, seconds: float
) -> int:
    """Steps of the batch after `step`: as many as take BATCH_SECONDS or `seconds`.

    deterministic: no clock decides, since what a batch clips depends on its end. longest: that the
    settings and the photographs in flight allow. step_seconds: the time of a step, as far as that
    is known. seconds: the most that watchers want.
    """
    if deterministic:
        return min(longest - step % longest, LONGEST_BATCH)
    steps = max(1, min(BATCH_SECONDS, seconds) / max(step_seconds, 1e-6))
    return int(min(longest, LONGEST_BATCH, steps))
