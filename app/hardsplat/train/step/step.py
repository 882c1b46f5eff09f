"""A training step as commands: the buffers it reads that no number of splats changes, and its
passes in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, filled
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.core.sinks import Sink, adam, plane_groups, record_others
from hardsplat.raster.core.sort import SORT_PASSES
from hardsplat.step import begin
from hardsplat.step.loss import loss_passes, record_loss, weighed
from hardsplat.step.photos import BESIDE, FETCHERS, Photos, fetch_pass
from hardsplat.tables import quantities
from hardsplat.tables.gradients import finds_statistics
from hardsplat.train.features.feature import StepParts, When
from hardsplat.train.job.job import Job
from hardsplat.train.job.schedule import Schedule
from hardsplat.train.step.resort import record_resort, resort_passes
from hardsplat.train.strategies.strategy import record_passes, refine_settings

Compare = Callable[[Recorder], None]  # target -> a loss -> d_image


def schedule_settings(
    job: Job, schedule: Schedule, parts: Sequence[StepParts], fetched: bool = False
) -> dict[str, np.ndarray]:
    """What steps read that follows from the schedule, by contract name. parts: of
    features. fetched: see Photos."""
    c = job.config
    optimizer = begin.adam_settings(c.adam.adam_beta1, opacity_decay=schedule.opacity_decay)
    found = {
        "step_settings": contract.struct(
            "StepSettings",
            seed=c.run.seed,
            beta1=c.adam.adam_beta1,
            beta2=begin.BETA2,
            background_mode=begin.BACKGROUND_MODES[c.scene.background],
            splat_planes=quantities.plane_count("splat"),
            max_sh_degree=c.model.sh_degree,
            sh_degree_interval=c.model.sh_degree_interval,
            near_plane=c.scene.near_plane,
            fetched=fetched,
        ),
        "rate_plans": begin.rate_plans(
            job.flat, job.reach, schedule.frozen, job.part.known, schedule.ends, schedule.falls
        ),
        "adam_settings": optimizer,
        "refine_settings": refine_settings(schedule.strategy, job.views.extent),
    }
    own = (part.settings(schedule) for part in parts if part.settings)
    return found | {name: values for each in own for name, values in each.items()}


def step_buffers(
    job: Job, parts: Sequence[StepParts], terms: np.ndarray
) -> dict[str, np.ndarray | int]:
    """Other buffers that steps read or leave, or so many bytes of zeros, by contract name. terms:
    LossTerms."""
    rates = sum(map(quantities.plane_count, quantities.ORDER))
    own = {name: values for part in parts for name, values in part.buffers.items()}
    return own | {
        "loss_terms": terms,
        "views": job.views.packed(),
        "rates": rates * contract.itemsize("rates"),
        "moved_planes": contract.itemsize("moved_planes"),
    }


def step_passes(
    job: Job,
    schedule: Schedule,
    parts: Sequence[StepParts],
    photo_bytes: int,
    in_order: bool = True,
) -> list[ComputePass]:
    """All but those of the rasterizer. in_order: it sorts splats by depth, so that they can be put
    in another order too, if their number changes at all."""
    strategy, moments = job.strategy, job.config.adam.moments
    estimates, terms = job.config.gradient.estimates > 0, weighed(job.flat, job.views.extent)
    refining = strategy.passes(moments, photo_bytes)
    resorting = resort_passes(moments, strategy.statistics) if refining and in_order else ()
    averaging = schedule.averaging.passes()
    passes = [*begin.SCHEDULE_PASSES, *loss_passes(photo_bytes, estimates, terms), *SORT_PASSES[:1]]
    passes += [*(p for part in parts for p in part.passes), *refining, *resorting, *averaging]
    return filled(passes, [fill for part in parts for fill in part.fills])


def sink_of(job: Job, parts: Sequence[StepParts]) -> Sink:
    """Where the gradients go. parts: of features, whose passes may read what the camera gets."""
    c, strategy = job.config, job.strategy
    found = finds_statistics(c.gradient.gradient)
    return adam(
        c.adam.moments,
        visible_only=c.adam.visible_adam,
        grows=strategy.grows and found,
        scores=strategy.scores and found,
        cameras=any("camera_sums" in each.reads for part in parts for each in part.passes),
        depths=draws_depth(parts),
        packed=job.packed,
        flat=c.loss.flat_lambda / job.views.extent,
    )


def draws_depth(parts: Sequence[StepParts]) -> bool:
    """Whether a feature has a loss of depth, for which steps draw it."""
    return any("depth" in part.record for part in parts)


def record_depth_supervised_step(
    recorder: Recorder, raster: Rasterizer, compare: Compare, compare_depth: Compare
) -> None:
    """A step that draws depth before the image, with the passes of the image.

        project, sort -> depth instead of colour -> draw -> the loss of depth -> backward draw
        -> colours again -> draw -> the loss -> backward draw -> the sink

    compare, compare_depth: record the losses of the image and of depth, target -> d_image.
    The moments of geometry that both backward draws add up have one place, since they are sums over
    fragments. What is written by one draw is used up before the other.
    """
    run = raster.pipelines
    raster.projection.record_forward(recorder, run)
    recorder.run(run["show depth"], indirect="splat_groups")
    raster.record_images(recorder)
    compare_depth(recorder)
    raster.record_draw_backward(recorder)
    recorder.run(run["show colours"], indirect="splat_groups")
    raster.record_again(recorder)
    compare(recorder)
    raster.record_backward(recorder)


class TrainingStep:
    """The passes of a step, and of what a strategy does between steps, for one rasterizer. parts:
    of the job's features."""

    def __init__(
        self,
        device: Device,
        job: Job,
        schedule: Schedule,
        raster: Rasterizer,
        parts: Sequence[StepParts],
        photos: Photos,
    ):
        self.strategy, self.raster, self._parts = schedule.strategy, raster, parts
        passes = step_passes(job, schedule, parts, photos.pixel_bytes, raster.projection.in_order)
        self._run = build_all(device, passes)
        fetches = [fetch_pass(photos.pixel_bytes)] if photos.fetched else []
        self._fetch = build_all(device, fetches).get("fetch")
        # kinds of which something is trained
        items, flat = job.items, job.flat
        self._moving = {kind: n for kind, n in items.items() if quantities.chosen(kind, flat)}

    def record(self, recorder: Recorder, scores: bool = False) -> None:
        """The whole step. scores: with those of the strategy."""
        run, raster = self._run, self.raster
        begin.record_begin(recorder, run)
        self._record("begun", recorder)
        if fetch := self._fetch:
            recorder.beside(BESIDE, lambda r: r.run(fetch, groups=(FETCHERS, 1, 1)))
        if draws_depth(self._parts):
            compare_depth = partial(self._record, "depth")
            record_depth_supervised_step(recorder, raster, self._compare, compare_depth)
            if scores:  # not beside the loss, when d_splats2d has what depth gave
                self._score("absolute", recorder)
                self._score("weighted", recorder)
        else:
            raster.record_step(recorder, partial(self._compare, scores=scores))
        self._record("gradients", recorder)
        record_others(recorder, raster.pipelines, self._moving)
        self._record("moved", recorder)
        raster.projection.record_return(recorder, raster.pipelines)
        record_passes(recorder, run, self.strategy.after_adam)
        begin.record_end(recorder, run)

    def _record(self, when: When, recorder: Recorder) -> None:
        for part in self._parts:
            if record := part.record.get(when):
                record(recorder, self._run, self.raster.width, self.raster.height)

    def _compare(self, recorder: Recorder, scores: bool = False) -> None:
        recorder.end_beside()
        if scores:  # its weights are in d_image before the loss is
            self._score("weighted", recorder)
        record_loss(recorder, self._run, self.raster.width, self.raster.height)
        self._record("compared", recorder)
        if scores:
            self._score("absolute", recorder)

    def _score(self, score: str, recorder: Recorder) -> None:
        self.strategy.record_score(recorder, self._run, self.raster, score)

    def record_sizes(self, recorder: Recorder) -> None:
        """Work sizes that follow from counts.splats."""
        recorder.run(self._run["sizes"], threads=(1,))

    def actions(self, capacity: int) -> dict[str, Callable[[Recorder], None]]:
        """What records each of the strategy's actions, by name, "resort" where splats can be put
        in another order, "average" where averages are kept. capacity: of splats."""
        run, sort, statistics = self._run, self.raster.pipelines, self.strategy.statistics
        found: dict[str, Callable[[Recorder], None]] = {
            name: partial(record_passes, run=run, names=names)
            for name, names in self.strategy.actions.items()
        }
        if "resort keys" in run:
            found["resort"] = lambda recorder: record_resort(recorder, run, sort, statistics)
        if "average" in run:
            groups = plane_groups(quantities.plane_count("splat"), capacity)
            found["average"] = lambda recorder: recorder.run(run["average"], groups=groups)
        return found
