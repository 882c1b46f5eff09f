"""`hardsplat train --view`: the viewer of a run, which the trainer looks after between batches."""

from __future__ import annotations

import time

import numpy as np

from hardsplat.train import Running, Watcher
from hardsplat.view.found import degree_of, look_of, starts_of
from hardsplat.view.gui.ui import TrainingFacts
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.viewer import REFRESH, RunWindow, Viewer

SLOW = 0.02  # s of a step
TOLD_EVERY = 0.25  # s between figures


class TrainingWindow(RunWindow, Watcher):
    """stays: when all is done the result is shown until the window is closed."""

    @property
    def batch_seconds(self) -> float:  # type: ignore[override]
        """How long a batch may take while the window is seen, which answers between batches; one
        step where that was asked for."""
        return 0.0 if self._step < self._until else REFRESH

    def __init__(self, size: tuple[int, int] | None = None, stays: bool = False):
        super().__init__(size)
        self.stays, self._told_at = stays, -np.inf
        self._step = self._until = 0  # of the run, and the one that was asked for last

    def open(self, run: Running) -> None:
        """The window, at the first camera. Screenshots go to the folder of the run."""
        config, scene, session = run.config, run.scene, run.session
        with self.guarded():
            degree = config.model.sh_degree
            look = look_of(config, degree, session.raster.rows.names)
            inputs = Inputs(*starts_of(scene, None), can_pause=True, sh_degree=degree)
            title = f"{scene.name} - hardsplat"
            self.viewer = Viewer(run.device, title, look, inputs, run.folder, True, self._size)
            self.viewer.prepare(session.store.parameters)

    @property
    def paused(self) -> bool:
        return self.viewer is not None and self.viewer.paused and self._step >= self._until

    @property
    def lingering(self) -> bool:
        return self.stays and self.viewer is not None and not self.viewer.closed

    def turn(self, run: Running, wait: bool = False) -> None:
        """Lets the window answer, and draws a frame where one is due. wait: for events, as long as
        a frame lasts."""
        if self.viewer is None or self.viewer.closed:
            return
        session, log = run.session, run.log
        viewer = self.viewer
        self._step = session.step
        if viewer.inputs.steps:
            self._until, viewer.inputs.steps = session.step + viewer.inputs.steps, 0
        if "save" in viewer.asked:
            viewer.asked.discard("save")
            run.save()
            viewer.inputs.say("saved a checkpoint and splats.ply")
        if "stop" in viewer.asked:
            viewer.asked.clear()
            run.stop()
        last = log.steps and log.steps[-1] >= session.schedule.steps
        if (last or run.ending) and viewer.busy:
            viewer.busy = viewer.inputs.paused = False  # nothing else needs the GPU any more
            viewer.inputs.changed = True  # the last frame may be of long ago
        self._tell(run, viewer)
        with self.guarded():
            self.viewer.turn(session.store.parameters, degree_of(run), wait)

    def answer(self, run: Running) -> bool:
        """On a slow device, where a step takes longer than a hand waits."""
        if not self.shown or run.session.runner.step_seconds < SLOW:
            return False
        self.turn(run, wait=True)
        return self.shown

    def _tell(self, run: Running, viewer: Viewer) -> None:
        """What the panel of the run shows, as often as people read."""
        log, session, now = run.log, run.session, time.perf_counter()
        facts = viewer.facts
        facts.splats = log.splats[-1] if log.splats else 0
        told = facts.training = facts.training or TrainingFacts()
        told.step, told.steps = session.step, session.schedule.steps
        told.done = session.step >= told.steps or not viewer.busy
        if now - self._told_at < TOLD_EVERY:
            return
        self._told_at = now
        told.pace = session.runner.steps_per_second
        told.left = (told.steps - told.step) / told.pace if log.steps else None
        told.memory = run.device.memory_peak()["allocated"] or 0
        if log.steps:
            told.loss, told.psnr = log.losses[-1], log.psnrs[-1]
            told.losses = np.column_stack([log.steps, log.losses])
            told.psnrs = np.column_stack([log.steps, log.psnrs])
        held = [(row["step"], row["psnr"]) for row in log.evaluations]
        told.held_out = np.array(held, np.float64).reshape(-1, 2)
