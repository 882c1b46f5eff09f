"""The steps of a run, and what happens between its batches."""

from __future__ import annotations

import logging

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory
from hardsplat.train.job import overfit
from hardsplat.train.run.keeping import CheckpointKeeper
from hardsplat.train.run.memory import MemoryWatch
from hardsplat.train.run.start import is_random
from hardsplat.train.run.state import RunState
from hardsplat.train.run.stops import batch_steps, next_stop
from hardsplat.train.run.tuner import RasterizerTuner

_log = logging.getLogger("hardsplat")


class TrainingLoop:
    """Trains a run to its end. keeper: saves and measures."""

    def __init__(self, run: RunState, keeper: CheckpointKeeper, tuner: RasterizerTuner):
        self.run, self.keeper, self._tuner = run, keeper, tuner
        self._memory = MemoryWatch(run, keeper)
        self._warned = False  # that growth has stopped
        self._averages = run.job.config.adam.average_steps > 0

    def train(self) -> None:
        """Makes all steps, or those up to a wish to stop, and what the last one leaves."""
        run, s, settings = self.run, self.run.session, self.run.job.config.run
        deterministic = settings.deterministic
        while s.step < s.job.steps:
            while not s.ready and run.watchers.answer():
                pass  # each takes a while
            s.wait_for_turn()
            run.files.background.check()
            self._memory.check()
            self._watch()
            if run.ending:
                break
            stop = next_stop(settings, s)
            self._choose_rasterizer(stop)
            if s.step < stop:
                limits = (s.step_seconds, run.watchers.batch_seconds)
                most = batch_steps(deterministic, s.batch_steps, s.step, *limits)
                s.run(min(most, stop - s.step))
            if deterministic:
                # so that room for pairs is made by all steps before, whatever else waits for them
                s.drain()
            if run.log.steps:
                run.files.prepare(s.step_seconds * (s.job.steps - s.step))
            self.keeper.publish(s.step)
            if s.step == stop:
                self._refine()
            self._average()
            if s.exposed and s.step >= s.job.exposed_until:
                s.end_exposures()
            if s.job.validation and s.step == s.job.densify.budget.overfit_check:
                self._check_overfit()
            if s.step in s.job.looks:
                self._check_length()
            self.keeper.keep(s.step)
        s.drain()
        if s.step == s.job.steps:
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
            _log.info("rasterizer %s: a step with %d splats takes %s", chosen, n, timed)
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
        if self._averages and session.averaging.is_sample(session.step):
            try:
                session.average()
            except OutOfMemory as error:
                self._averages = False
                tqdm.write(f"note: no averages over the last steps: {error}")

    def _check_overfit(self) -> None:
        """Compares the photographs that were held for validation with others, and regularizes
        splats where the others show much better."""
        run, s = self.run, self.run.session
        train, held = run.scene.train, s.job.validation
        others = overfit.views_to_compare(len(train), s.job.views.faces)
        s.drain()
        psnrs = self.keeper.measurements.psnr([train[i] for i in (*held, *others)])
        verdict = overfit.overfit_verdict(s.step, psnrs[: len(held)], psnrs[len(held) :])
        run.log.overfit = verdict
        apart, other = verdict["psnr_apart"], verdict["psnr_others"]
        what = f"photographs held for validation show {apart:.1f} dB in the median"
        shown = f"step {s.step}: {what}, others {other:.1f}"
        if not verdict["regularized"]:
            run.log.decide(f"{shown}: the run goes on as it is")
            return
        budget, steps = s.job.densify.budget, s.job.steps
        at_random = is_random(s.job.config.start, run.scene)
        length = overfit.overfitted_length(budget, verdict, steps, len(train), at_random)
        if length < steps:
            self._shorten(length)
        then = f"from here on, up to step {s.job.steps} (--overfit-check 0: never)"
        run.log.decide(f"{shown}: opacities are regularized {then}")
        s.regularize(overfit.opacity_weight(verdict))

    def _check_length(self) -> None:
        """Measures the photographs that are held for validation; the last time, decides by them
        how long the run is."""
        run, s, log = self.run, self.run.session, self.run.log
        check = overfit.LENGTH_CHECK
        s.drain()
        found = self.keeper.measurements.psnr([run.scene.train[i] for i in s.job.validation])
        log.validation = {**log.validation, str(s.step): float(np.mean(found))}
        held = {int(step): psnr for step, psnr in log.validation.items()}
        if s.step < check or not held.keys() >= {*s.job.looks}:
            return  # a run that was resumed may lack some
        verdict = overfit.length_verdict(s.job.steps, check, held, dict(zip(log.steps, log.psnrs)))
        log.overfit = log.overfit | verdict
        gains = "photographs held for validation gained {held_gain:.1f} dB, others {gain:.1f}"
        what = f"from step {check // 2} to {check} {gains.format(**verdict)}"
        shorter = verdict["length"] < s.job.steps
        if shorter:
            self._shorten(verdict["length"])
        hand = " (--overfit-check 0: not)" if shorter else ""
        log.decide(f"{what}: the run ends with step {s.job.steps}{hand}")

    def _shorten(self, length: int) -> None:
        """Ends the run with that step instead."""
        run = self.run
        run.session.reschedule(run.job.shortened(length))
        run.save_settings()
        if run.bar is not None:
            run.bar.total = length
