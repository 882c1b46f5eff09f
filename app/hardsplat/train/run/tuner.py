"""`--rasterizer auto` in training: a few steps of the run itself are made with each rasterizer that
runs here, and the fastest makes the others.

Nothing is lost but the time by which the slower ones are slower: those steps are steps of the
training, on its own scene, at its resolution and with its splats. The question comes again when the
splats, times their pixels, have grown tenfold, for those that can have become the fastest.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.gpu.device.instance import ValidationError
from hardsplat.train.session.session import Session

# steps of a trial: after a change of the rasterizer, and at least and at most the timed ones
WARM, FEWEST, TIMED = 2, 3, 24
SECONDS = 0.25  # that the timed steps should take
GROWN = 10.0  # times the work of the last trial, from which another is made
MARGIN = 0.03  # of noise, for which the rasterizer is not changed
# times the best: then a rasterizer's own variants, which might make it faster, are not looked for
HOPELESS = 2.5
OffClock = Callable[[], AbstractContextManager]
_log = logging.getLogger("hardsplat")


class RasterizerTuner:
    """names: rasterizers that run here. trials: what was timed, {step, splats, ms by name, chosen},
    for metrics.json."""

    def __init__(self, names: Sequence[str]):
        self.names = names
        self.trials: list[dict] = []
        self._asked = 0.0  # splats times pixels when the question was asked last
        self._ms: dict[str, float] = {}  # ms by name of the last trial
        self._work = 0.0  # splats times pixels at that trial

    def due(self, work: float) -> bool:
        """Whether to time, at so many splats times pixels."""
        return len(self.names) > 1 and work >= GROWN * self._asked

    def choose(self, session: Session, most: int, work: float, off_clock: OffClock) -> str | None:
        """Times at most `most` steps with all rasterizers and continues with the fastest: its name.
        None where the steps are too few, and where no other can win.

        off_clock: surrounds what is not training. Raises DeviceLost, and UserError where no
        rasterizer runs.
        """
        each = most // (2 * len(self.names))  # all may be timed twice
        if each < WARM + 1:
            return None
        step, before = session.step, session.drawing.rasterizer
        self._asked, names = work, self._may_win(work)
        if names == [before]:
            return None
        session.drain()  # of steps that are no trial
        ms: dict[str, float] = {}
        for name in sorted(names, key=lambda name: name != before):
            with suppress(_Refused):
                ms[name] = self._timed(session, name, each, off_clock, timed_rows=False)
        near = [
            n
            for n in ms
            if ms[n] < HOPELESS * min(ms.values()) and session.drawing.has_timed_rows(n)
        ]
        for name in near:
            with suppress(_Refused):
                again = self._timed(session, name, each, off_clock, timed_rows=True)
                ms[name] = min(ms[name], again)
        if not ms:
            raise UserError(
                f"none of the rasterizers {', '.join(self.names)} runs on "
                f"{session.device.name}; see hardsplat doctor"
            )
        best = min(ms, key=ms.__getitem__)
        chosen = before if before in ms and ms[before] <= (1 + MARGIN) * ms[best] else best
        with off_clock():
            session.switch_rasterizer(chosen)
        splats = session.store.count()
        self.trials.append({"step": step, "splats": splats, "ms": ms, "chosen": chosen})
        ranked = ", ".join(f"{name} {ms[name]:.3g} ms" for name in sorted(ms, key=ms.__getitem__))
        _log.debug("rasterizer %s: a step with %d splats takes %s", chosen, splats, ranked)
        self._ms, self._work = ms, work
        return chosen

    def _may_win(self, work: float) -> list[str]:
        """The rasterizers that may be the fastest now: a step takes none less than before, and more
        at most in proportion to the work."""
        if not self._ms:
            return list(self.names)
        most = work / self._work * min(self._ms.values())
        return [name for name in self.names if self._ms.get(name, math.inf) <= most]

    def _timed(
        self, session: Session, name: str, most: int, off_clock: OffClock, timed_rows: bool
    ) -> float:
        """Milliseconds of a step."""
        try:
            with off_clock():
                session.switch_rasterizer(name, timed_rows)
        except (DeviceLost, ValidationError):
            raise
        except Exception as error:
            # a driver's refusal to build a pipeline has as many types as drivers have results
            raise _Refused from error
        last = session.step + most
        _run_steps(session, WARM)
        if (few := _unscored_steps(session, FEWEST)) < FEWEST and WARM + few + 1 + FEWEST <= most:
            _run_steps(session, few + 1)
        session.drain()
        enough = max(FEWEST, int(SECONDS / max(session.runner.step_seconds, 1e-6)))
        wanted = min(
            last - session.step, _unscored_steps(session, TIMED), enough, session.batch_steps
        )
        session.run(max(1, wanted))
        session.drain()
        return 1e3 * session.runner.step_seconds


def _run_steps(session: Session, steps: int) -> None:
    """Queues so many steps, in batches that there is room for."""
    last = session.step + steps
    while session.step < last:
        session.run(min(last - session.step, session.batch_steps))


def _unscored_steps(session: Session, most: int) -> int:
    """Steps before the next that draws scores, which takes longer, or `most`."""
    scored = session.schedule.strategy.scored
    return next((n for n in range(most) if scored(session.step + n)), most)


class _Refused(Exception):
    """The device cannot run or hold a rasterizer."""
