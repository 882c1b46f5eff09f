"""What a run remembers of its batches and measurements, and the table of its stages."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from tqdm import tqdm

from hardsplat.base.clock import PhaseClock
from hardsplat.step.runner import BatchResult
from hardsplat.train.job import validation
from hardsplat.train.job.job import Decision
from hardsplat.train.job.validation import Look

# what a resumed run continues with
KEPT = ["training_seconds", "steps", "losses", "psnrs", "splats", "seconds", "evaluations"]
KEPT += ["looks", "settled", "color_gains", "decisions"]
_log = logging.getLogger("hardsplat")


@dataclass
class Log:
    """History of every batch: the steps done at its end, mean loss, PSNR of its training views (dB,
    not clamped), splats and seconds of training at its end, ms by stage."""

    clock: PhaseClock = field(default_factory=lambda: PhaseClock("training"))
    started: float = field(default_factory=time.perf_counter)
    startup_seconds: float = 0.0
    training_seconds: float = 0.0
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    psnrs: list[float] = field(default_factory=list)
    splats: list[int] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    gpu_busy_ns: float = 0.0
    gpu_span_ns: float = 0.0
    evaluations: list[dict] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)  # at photographs that are held back
    settled: int = 0  # the step at which they ended the main phase; 0: they did not
    color_gains: list[float] = field(default_factory=list)  # dB, of looks by which light is judged
    decisions: list[str] = field(default_factory=list)  # of the run, each with its reason
    decided: list[str] = field(default_factory=list)  # in this process, without reasons
    _begun: float = 0.0
    _last_end: float = 0.0
    _pauses: int = 0
    _training: bool = False

    def add_batch(self, result: BatchResult, weights: np.ndarray) -> None:
        """weights: of the loss's terms, as the steps had them."""
        r = result.records
        loss = r["terms"].astype(np.float64) @ weights
        self.steps.append(result.first_step + len(r))
        self.losses.append(float(np.mean(loss)))
        self.psnrs.append(float(-10 * np.log10(max(np.mean(r["mse"]), 1e-12))))
        self.splats.append(int(r["splats"][-1]))
        self.seconds.append(self.training_seconds + time.perf_counter() - self._begun)
        self.stages.append(result.stages)
        begin, end = result.busy
        self.gpu_busy_ns += end - begin
        self.gpu_span_ns += end - (self._last_end or begin)
        self._last_end = end

    @contextmanager
    def training(self) -> Iterator[None]:
        """The time of the block counts as training."""
        self._begun, self._last_end, self._training = time.perf_counter(), 0.0, True
        try:
            yield
        finally:
            self._training = False
            self.training_seconds += time.perf_counter() - self._begun

    @contextmanager
    def off_clock(self, phase: str) -> Iterator[None]:
        """With nothing in flight: time that is not training but of another phase, in which the GPU
        is not idle but does other work. May be nested, and used before and after training()."""
        if self._pauses == 0 and self._training:
            self.training_seconds += time.perf_counter() - self._begun
        self._pauses += 1
        try:
            with self.clock.within(phase):
                yield
        finally:
            self._pauses -= 1
            self._begun, self._last_end = time.perf_counter(), 0.0

    def add_evaluation(self, result: dict) -> None:
        """Writes down a measurement of the held-out views. A resumed run may measure again."""
        others = [each for each in self.evaluations if each["step"] != result["step"]]
        self.evaluations[:] = [*others, result]

    def add_look(
        self, step: int, held: Sequence[float], trained: Sequence[float], decays: bool
    ) -> None:
        """Writes down a look at photographs that are held back. held, trained: their PSNR, and that
        of trained ones beside them, dB. decays: whether they decide how fast opacities decay."""
        found = validation.look(step, held, trained, self.looks)
        self.looks.append(found if decays else found._replace(decay=0.0))

    def tell(self, decision: str) -> None:
        """Keeps what the run has decided, and prints it."""
        tqdm.write(decision)
        self.decisions.append(decision)

    def add_decisions(self, decisions: Iterable[Decision]) -> None:
        """Keeps what rules have decided, and prints their notes. --verbose prints all at once, the
        end of the run without their reasons."""
        for each in decisions:
            if each.note:
                tqdm.write(f"note: {each.note}")
            if each.what:
                _log.debug("note: %s", line := f"{each.why}: {each.what}")
                self.decisions.append(line)
                self.decided.append(each.what)

    def forget(self) -> None:
        """Forgets all batches, since the run begins again; the time that they took counts."""
        for values in (self.steps, self.losses, self.psnrs, self.splats, self.seconds):
            values.clear()
        self.stages.clear()
        self.evaluations.clear()
        self.looks.clear()

    @property
    def curve(self) -> dict[str, list]:
        """What metrics.json has of every batch."""
        psnrs, splats, seconds = self.psnrs, self.splats, self.seconds
        return dict(step=self.steps, loss=self.losses, psnr=psnrs, splats=splats, seconds=seconds)

    def history(self) -> dict:
        """A copy of what a resumed run continues with, fit for JSON."""
        values = {name: getattr(self, name) for name in KEPT}
        return {name: list(v) if isinstance(v, list) else v for name, v in values.items()}

    def restore(self, history: dict) -> None:
        for name in history.keys() & KEPT:
            value = history[name]  # of the checkpoint, which stays as it is
            setattr(self, name, list(value) if isinstance(value, list) else value)
        # older checkpoints have other ones
        self.looks = [Look(*each) for each in self.looks if len(each) == len(Look._fields)]
        # checkpoints of before these were kept
        self.seconds = [*([None] * (len(self.steps) - len(self.seconds))), *self.seconds]

    @property
    def gpu_idle(self) -> float:
        """Share of the time of training that the GPU waited for the host, 0 to 1, evaluations and
        files left out."""
        return 1 - self.gpu_busy_ns / self.gpu_span_ns if self.gpu_span_ns else 0.0

    def stage_means(self) -> dict[str, float]:
        """Mean milliseconds of each stage over the later half of the timed steps, one of each
        batch: the first ones have few splats, and all need not do the same."""
        later = self.stages[len(self.stages) // 2 :]
        names = {n: None for s in later for n in s}
        return {n: float(np.mean([s[n] for s in later if n in s])) for n in names}
