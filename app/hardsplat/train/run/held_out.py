"""Measurements of held-out and held-back views while a run trains and after its last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory
from hardsplat.base.stop import StopRequest
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.views import View
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.metrics import quality
from hardsplat.step.runner import BATCH_SECONDS
from hardsplat.tables import quantities
from hardsplat.train.features.exposure import COLORS, CameraResponse
from hardsplat.train.features.poses import focused_scene
from hardsplat.train.measure.measure import (
    Asked,
    Evaluator,
    Measured,
    RepeatedEvaluator,
    as_splats,
    evaluation_frame,
    measure_all,
    summary,
)
from hardsplat.train.measure.refining import refine_held_out, refining_job
from hardsplat.train.run.files import RunFiles
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log
from hardsplat.train.watchers.watch import Watchers

# a note says that fitted colours gain so many dB; of a scene that has been trained up to so many,
# of which any map of colours is a gain otherwise
UNEVEN, LEARNT = 1.5, 20.0


class HeldOut:
    """The held-out views of a run, and those that it holds back, measured on its device. Watchers
    have a turn between views.

    asked: training views whose photographs are asked, with these as View.load() has them: those
    that are held back, and behind them as many trained ones. refined: cameras of the
    held-out views, as found by the last measurement of a run that refines poses; else none.
    """

    def __init__(
        self,
        session: Session,
        files: RunFiles,
        log: Log,
        watchers: Watchers,
        stop: StopRequest,
        asked: Sequence[tuple[int, np.ndarray]],
    ):
        self.session, self.files, self.log = session, files, log
        self.watchers, self.stop, self.scene = watchers, stop, files.scene
        self.refined: list[Camera] = []
        self._busy = False
        self._asked = asked
        # of these views, from one look to the next
        self._evaluator: RepeatedEvaluator | None = None

    def _frame(self) -> np.ndarray:
        c = self.session.job.config
        degree = min(self.session.step // c.model.sh_degree_interval, c.model.sh_degree)
        return evaluation_frame(c.scene, degree)

    def _measures(
        self, views: Sequence[View], asked: Asked, quiet: bool = True
    ) -> Iterator[Measured]:
        """Measurements of the splats of now as viewers draw them, and with the 2D filter where the
        run has it."""
        with ExitStack() as stack:
            rasters = [self.session.raster]
            if self.session.job.config.raster.antialiased:
                rasters.insert(0, self.session.drawing.without_filter())
                stack.callback(rasters[0].destroy)
            evaluators = []
            for raster in rasters:
                evaluators.append(Evaluator(raster))
                stack.callback(evaluators[-1].destroy)
            yield from measure_all(evaluators, views, self._frame(), quiet, asked)

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, where there is no
        memory, and while they all are being measured."""
        if self._busy:
            return None
        self.session.drain()
        try:
            with self.log.off_clock("measuring"):
                return next(self._measures(self._scene().held_out[:1], Asked()), None)
        except OutOfMemory:
            return None

    def held_back(self, light: bool = False) -> tuple[list[Measured], list[Measured]]:
        """Photographs that are held back, and trained ones beside them, measured now as steps draw
        them; with `light` after a fit of colours as well. half_psnr: while exposures are trained,
        of their right halves after a fit to the left ones."""
        session, schedule = self.session, self.session.schedule
        until = min(schedule.ends.values(), default=schedule.steps)
        halves = session.job.config.exposure.corrected and session.step < until
        with self.log.off_clock("measuring"):
            if self._evaluator is None:
                views = [self.scene.views[self.scene.train[i]] for i, _ in self._asked]
                photos = [photo for _, photo in self._asked]
                self._evaluator = RepeatedEvaluator(session.raster, views, photos)
            most = max(1, int(session.runner.steps_per_second * BATCH_SECONDS))
            what = Asked(halves=halves, gain=light)
            found = self._evaluator.measure_again(session.raster, self._frame(), what, most)
        held = len(session.job.validation)
        return found[:held], found[held:]

    def close(self) -> None:
        """Frees what looks at photographs that are held back have kept."""
        if self._evaluator is not None:
            self._evaluator.destroy()
            self._evaluator = None

    def measure(self, planes: Mapping[str, np.ndarray] | None = None) -> None:
        """Measures the held-out views. planes: the trained values of the splats, where these are
        the last: then all renders are kept, some for the report."""
        if self.scene.test and not self.stop.asked:
            try:
                with self.log.off_clock("measuring"):
                    self._measure(planes)
            except OutOfMemory as error:
                step = self.session.step
                tqdm.write(f"note: step {step}: held-out views are not measured: {error}")

    def _measure(self, planes: Mapping[str, np.ndarray] | None) -> None:
        files, last, step = self.files, planes is not None, self.session.step
        measures: list[Measured] = []
        shown: Measured | None = None
        c = self.session.job.config
        corrected = c.exposure.corrected
        photos, colors = files.photographs.held_out(), self._colors()
        asked = Asked(photos, last, fitted=corrected, gain=last, colors=colors)
        views = self._scene().held_out
        self._busy = True
        try:
            for m in self._measures(views, asked, c.run.quiet):
                self.watchers.turn()
                if self.stop.asked:
                    break
                measures.append(replace(m, target=None))
                shown = shown or m
                if last:
                    files.save_comparison(m)
                    if len(measures) == 1:
                        files.show_first(m.name)
        finally:
            self._busy = False
        if shown is None or len(measures) < len(self.scene.test):
            return
        seconds, splats = self.log.training_seconds, self.session.store.count()
        result: dict[str, Any] = {"step": step, "splats": splats, "training_seconds": seconds}
        if last and not corrected:
            _note_uneven(measures)
            measures = [replace(m, fitted_psnr=None) for m in measures]
        result |= summary(measures)
        self.log.add_evaluation(result)
        self.watchers.measured(result, shown)
        if not last:  # the outcome of a run says what its end was
            tqdm.write(
                f"step {step}: held-out {quality(result)}, "
                f"{result['splats']:,} splats, {result['training_seconds']:.1f} s"
            )
        if planes is not None and self.session.job.items["texel"]:
            result |= self._measure_as_splats(files.all_splats(planes))
        if planes is not None and c.poses.pose_opt:
            result["refined"] = self._measure_refined(Gaussians.from_planes(planes))

    def _measure_as_splats(self, planes: Mapping[str, np.ndarray]) -> dict[str, float]:
        """PSNR and SSIM of what other programs draw; empty where there is no memory for that.
        planes: trained values of all splats of splats.ply."""
        s, gaussians = self.session, Gaussians.from_planes(planes)
        photos, views = self.files.photographs.held_out(), self._scene().held_out
        draws, settings = s.drawing.without_filter, s.job.config.scene
        try:
            return as_splats(s.device, gaussians, draws, views, settings, photos)
        except OutOfMemory as error:
            tqdm.write(f"note: not measured as other viewers draw it: {error}")
            return {}

    def _measure_refined(self, gaussians: Gaussians) -> dict:
        """The summary of held-out views from refined poses; empty where there is no memory for
        that, or the run is to end."""
        session, scene, config = self.session, self._scene(), self.session.job.config
        views, device = scene.held_out, session.device
        stopped: Callable[[], bool] = lambda: bool(self.stop.asked)  # noqa: E731
        rasterizer = session.drawing.rasterizer
        job = refining_job(device, config, rasterizer, views, scene.extent, gaussians)
        try:
            cameras = refine_held_out(device, job, views, gaussians, stopped)
            measures = []
            asked = Asked(cameras=cameras, fitted=True, colors=self._colors())
            for m in self._measures(views, asked, config.run.quiet) if cameras else ():
                measures.append(replace(m, target=None))
                if stopped():
                    return {}
        except OutOfMemory as error:
            tqdm.write(f"note: held-out views are measured from their own poses alone: {error}")
            return {}
        self.refined = cameras
        if not measures:
            return {}
        result = summary(measures)
        tqdm.write(f"from refined poses of held-out views: {quality(result)}")
        return result

    def _scene(self) -> Scene:
        """The scene with the intrinsics that its cameras have by now."""
        if not self.session.job.config.intrinsics.intrinsics_opt:
            return self.scene
        return focused_scene(self.scene, self.session.store.trained("intrinsics")[0])

    def _colors(self) -> CameraResponse | None:
        """What is known of the vignetting and response of its cameras by now."""
        names = [q.name for q in quantities.chosen("camera", self.session.job.flat)]
        own = {n: self.session.store.trained(n) for n in names if n in COLORS}
        return CameraResponse(own) if own else None


def _note_uneven(measures: Sequence[Measured]) -> None:
    fits = [(m.psnr, m.fitted_psnr or 0.0) for m in measures]
    gain = float(np.mean([fitted - psnr if fitted > LEARNT else 0.0 for psnr, fitted in fits]))
    if gain > UNEVEN:
        what = "so photographs seem to differ in exposure: try --exposure ppisp"
        tqdm.write(f"note: fitted colours gain {gain:.1f} dB, {what}")
