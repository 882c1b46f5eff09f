"""Measurements of held-out views while a run trains and after its last step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.tables import quantities
from hardsplat.train.measure.camera_colors import COLORS, CameraColors
from hardsplat.train.measure.learnt import measure_refined, uneven, unevenness
from hardsplat.train.measure.measure import Measured, evaluation_frame, measure_all, summary
from hardsplat.train.run.state import RunState
from hardsplat.train.step.intrinsics import focused_scene


class Measurements:
    """The held-out views of a run, measured on its device.

    turn: called between views. measured: called with what metrics.json has of a measurement, and
    with the first view. refined: cameras of the held-out views, as found by the last measurement of
    a run that refines poses; else none.
    """

    def __init__(
        self, run: RunState, turn: Callable[[], None], measured: Callable[[dict, Measured], None]
    ):
        self.run, self._turn, self._measured = run, turn, measured
        self.refined: list[Camera] = []
        self._busy = False

    def example(self) -> Measured | None:
        """The first held-out view, measured now; None where none is held out, and while they all
        are being measured."""
        if self._busy:
            return None
        run = self.run
        run.session.drain()
        with run.aside("measuring"):
            return next(
                measure_all(
                    run.device,
                    run.session.raster,
                    self._scene().held_out[:1],
                    self._frame(),
                    quiet=True,
                ),
                None,
            )

    def psnr(self, indices: list[int]) -> list[float]:
        """PSNR of these views of the scene now, dB."""
        run = self.run
        with run.aside("measuring"):
            measures = measure_all(
                run.device,
                run.session.raster,
                [run.scene.views[i] for i in indices],
                self._frame(),
                quiet=True,
                pictures=False,
            )
            return [m.psnr for m in measures]

    def measure(self, step: int, planes: Mapping[str, np.ndarray] | None = None) -> None:
        """Measures the held-out views. planes: the trained values of the splats, where these are
        the last: then all renders are kept, some for the report."""
        run, results, last = self.run, self.run.results, planes is not None
        shown: Measured | None = None
        if run.scene.test and not run.stop.asked:
            with run.aside("measuring"):
                measures: list[Measured] = []
                gains: list[Future[float]] = []
                self._busy, fitted = True, run.config.exposure.exposure != "none"
                how: dict[str, Any] = {
                    "photos": results.photographs.held_out(),
                    "pictures": last,
                    "fitted": fitted,
                    "colors": self._colors(),
                }
                try:
                    for m in measure_all(
                        run.device,
                        run.session.raster,
                        self._scene().held_out,
                        self._frame(),
                        run.config.run.quiet,
                        **how,
                    ):
                        if run.stop.asked:
                            break
                        self._turn()
                        measures.append(replace(m, target=None))
                        if shown is None:
                            shown = m
                        if last:
                            gains += (
                                []
                                if fitted
                                else [results.background.do("measuring", partial(unevenness, m))]
                            )
                            results.comparison(m)
                            if len(measures) == 1:
                                results.picture(m.name)
                finally:
                    self._busy = False
                if shown is not None and len(measures) == len(run.scene.test):
                    self._tell(
                        step,
                        measures,
                        shown,
                        Gaussians.from_planes(planes)
                        if planes is not None and run.config.poses.pose_opt
                        else None,
                    )
                    if note := uneven([gain.result() for gain in gains]):
                        tqdm.write(note)

    def _tell(
        self, step: int, measures: list[Measured], example: Measured, refined: Gaussians | None
    ) -> None:
        """refined: the splats against which the poses of held-out views are refined, to measure
        them from there too."""
        run, log = self.run, self.run.log
        result = {
            "step": step,
            "splats": run.session.count(),
            "training_seconds": log.training_seconds,
            **summary(measures),
        }
        log.evaluations[:] = [e for e in log.evaluations if e["step"] != step] + [
            result
        ]  # a resumed run may measure again
        self._measured(result, example)
        tqdm.write(
            f"step {step}: held-out PSNR {_decibels(result)}, SSIM {result['ssim']:.4f}, "
            f"{result['splats']} splats, {log.training_seconds:.1f} s"
        )
        if refined is not None:
            result["refined"] = self._measure_refined(refined)

    def _measure_refined(self, gaussians: Gaussians) -> dict:
        """The summary of held-out views from refined poses; empty where there is no memory for
        that, or the run is to end."""
        run = self.run
        try:
            how = (
                run.device,
                run.config,
                gaussians,
                self._scene(),
                run.session.raster,
                self._frame(),
            )
            self.refined, result = measure_refined(
                *how, lambda: bool(run.stop.asked), self._colors()
            )
        except OutOfMemory as error:
            tqdm.write(f"note: held-out views are measured from their own poses alone: {error}")
            return {}
        if result:
            tqdm.write(
                f"from refined poses of held-out views: PSNR {_decibels(result)}, SSIM "
                f"{result['ssim']:.4f}"
            )
        return result

    def _scene(self) -> Scene:
        """The scene with the intrinsics that its cameras have by now."""
        run = self.run
        return (
            focused_scene(run.scene, run.session.trained_of("intrinsics")[0])
            if run.config.intrinsics.intrinsics_opt
            else run.scene
        )

    def _colors(self) -> CameraColors:
        """What its cameras have learnt of vignetting and response by now."""
        return CameraColors(
            {
                q.name: self.run.session.trained_of(q.name)
                for q in quantities.chosen("camera", self.run.config.flat())
                if q.name in COLORS
            }
        )

    def _frame(self) -> np.ndarray:
        """The contract's Frame of a measurement now."""
        config = self.run.config
        frame = evaluation_frame(config)
        frame["sh_degree"] = min(
            self.run.session.step // config.model.sh_degree_interval, config.model.sh_degree
        )
        return frame


def _decibels(result: dict) -> str:
    fitted = (
        f" ({result['fitted_psnr']:.2f} with colours fitted)" if "fitted_psnr" in result else ""
    )
    return f"{result['psnr']:.2f} dB{fitted}"
