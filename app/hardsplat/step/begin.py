"""What changes from step to step: the order of views on the host, and on the GPU camera,
background, rates and Adam's bias corrections.

Nothing here keeps state: everything is a function of the seed and the step, so a resumed run goes
on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.passes.declared import ComputePass, Fill, Pipeline, filled
from hardsplat.tables import quantities

# as StepSettings numbers them; a sky is put over black
BACKGROUND_MODES = {"black": 0, "white": 1, "random": 2, "sphere": 0}
BETA2, EPS = 0.999, 1e-15  # decay of the variance; what keeps Adam's division finite
_END_READS = ("frame", "counts", "loss_terms", "term_sums")
_END = ComputePass("end step", "optim/end_step.comp", _END_READS, ("frame", "history"))
_END_FIT = ComputePass("end step", "optim/end_fit_step.comp", ("frame",), ("frame",))

_BEGIN = ComputePass(
    "begin step",
    "optim/begin_step.comp",
    reads=("step_settings", "schedule", "views", "rate_plans", "frame"),
    writes=("camera", "frame", "rates"),
)
_MOVED = Fill(
    "begin step",
    {"moved": "optim/moved_planes.glsl"},
    writes=("indirect", "moved_planes"),
    disjoint=("indirect",),
)
# what begins and ends a step; that of fits has no planes of splats
FIT_SCHEDULE_PASSES = (_BEGIN, _END_FIT)
SCHEDULE_PASSES = (*filled([_BEGIN], [_MOVED]), _END)


def record_begin(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """Settings, views, schedule, frame.step -> camera, rates and the rest of frame. First of a
    step."""
    recorder.run(run["begin step"], threads=(1,))


def record_end(recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
    """The record of the step is complete, and frame.step counts up: from here on it is the number
    of steps done. Last of a step."""
    recorder.run(run["end step"], threads=(1,))


def falling(rates: Sequence[float], last: float, steps: int) -> dict[str, np.ndarray]:
    """Buffers for rates in the order of the contract's RATE_ constants, of which a share `last` is
    left after so many steps."""
    plans = np.zeros(len(rates), contract.dtype("RatePlan"))
    plans["first"], plans["last"] = rates, last * np.array(rates)
    plans["until"], plans["every"] = steps, 1
    return {"rate_plans": plans, "rates": np.zeros(len(plans), np.float32)}


def rate_plans(
    settings: Mapping[str, Any],
    extent: float,
    frozen: bool = False,
    known: Container[str] = (),
    ends: Mapping[str, int] = {},
    falls: tuple[int, int] | None = None,
) -> np.ndarray:
    """The RatePlan of every plane of the trained table; planes that the SH degree lacks rest, and
    quantities that the settings do not train.

    settings: all by name. extent: what rates of positions are shares of, world units. frozen:
    splats and the sky rest too. known: names of quantities that rest. ends: steps from which
    quantities rest, by name. falls: steps from and to which the rates of the former fall to their
    ends, where it is so.
    """
    planes = sum(quantities.plane_count(kind) for kind in quantities.ORDER)
    plans, steps = np.zeros(planes, contract.dtype("RatePlan")), settings["max_steps"]
    for offsets in quantities.offsets():
        q, rate = offsets.quantity, offsets.quantity.rate
        rests = q.name in known or (frozen and q.of in ("splat", "texel"))
        if rests or not quantities.is_chosen(q, settings):
            continue
        every = settings[rate.every] if rate.every else 1
        scale = (extent if rate.per_extent else 1.0) * every  # as far as in as many steps
        first = np.float32(settings[rate.setting] * scale)
        last, since = first * np.float32(settings["rates_final"]), settings["rates_hold"] * steps
        if rate.last or rate.share:
            end = settings[rate.last] if rate.last else rate.share * settings[rate.setting]
            last, since = np.float32(end * scale), 0
        warm_up = settings[rate.warm_up] if rate.warm_up else 0
        until = steps
        if falls and first:
            past = np.clip((falls[0] - since) / (steps - since), 0, 1)
            first, (since, until) = first * (last / first) ** past, falls
        for k in range(q.planes(settings["sh_degree"])):
            plans[offsets.first_plane + k] = contract.struct(
                "RatePlan",
                first=first,
                last=last,
                until=until,
                every=every,
                sh_degree=q.joins(k),
                warm_up=warm_up,
                since=int(since),
                ends=ends.get(q.name, 0),
            )
    return plans


def adam_settings(
    beta1: float = 0.9, beta2: float = BETA2, eps: float = EPS, opacity_decay: float = 0.0
) -> np.ndarray:
    """The contract's AdamSettings struct."""
    return contract.struct(
        "AdamSettings", beta1=beta1, beta2=beta2, eps=eps, opacity_decay=opacity_decay
    )


def view_order(
    seed: int,
    step0: int,
    count: int,
    n_views: int,
    held_back: Sequence[int] | np.ndarray = (),
    held_until: int = 0,
) -> np.ndarray:
    """(count,) view of each step from step0 on. Every view comes once in an epoch, each epoch in
    its own shuffle. held_back: views that none of the first held_until steps has."""
    steps = np.arange(step0, step0 + count)
    first = steps[: np.searchsorted(steps, held_until) if len(held_back) else 0]
    others = np.setdiff1d(np.arange(n_views), held_back)
    later = _shuffled(seed, steps[len(first) :], n_views)
    return np.concatenate([others[_shuffled(seed, first, len(others))], later])


def _shuffled(seed: int, steps: np.ndarray, n: int) -> np.ndarray:
    """Which of n each of these steps has."""
    epochs = (steps // n).tolist()
    shuffles = {e: np.random.default_rng((seed, e)).permutation(n) for e in set(epochs)}
    return np.array([shuffles[e][s % n] for e, s in zip(epochs, steps.tolist())], np.int64)
