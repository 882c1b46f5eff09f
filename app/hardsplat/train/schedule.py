"""What changes from step to step: the order of views on the host, and on the GPU camera, background, rates and Adam's bias corrections.

Nothing here keeps state: everything is a function of the seed and the step, so a resumed run goes on as if it had never stopped.
"""

from __future__ import annotations

import numpy as np

from hardsplat import contract
from hardsplat.config import TrainConfig
from hardsplat.gpu.passes import ComputePass, Pipeline
from hardsplat.gpu.recorder import Recorder

BACKGROUND_MODES = ("black", "white", "random")  # numbered as Hyper.background_mode

SCHEDULE_PASSES = (
    ComputePass(
        name="begin step",
        shader="train/begin_step.comp",
        reads=("hyper", "schedule", "views", "frame"),
        writes=("camera", "frame"),
    ),
    ComputePass(name="end step", shader="train/end_step.comp", reads=("frame",), writes=("frame",)),
)


def record_begin(recorder: Recorder, run: dict[str, Pipeline]) -> None:
    """hyper, views, schedule, frame.step -> camera and the rest of frame. First of a step."""
    recorder.run(run["begin step"], threads=(1,))


def record_end(recorder: Recorder, run: dict[str, Pipeline]) -> None:
    """frame.step counts up: from here on it is the number of steps done. Last of a step."""
    recorder.run(run["end step"], threads=(1,))


def hyper_row(config: TrainConfig, extent: float) -> np.ndarray:
    """The contract's Hyper struct. extent: scene radius, world units."""
    row = np.zeros((), contract.dtype("Hyper"))
    same = ("seed", "near_plane", "sh_degree_interval", "shN_every", "max_steps", "ssim_lambda", "grow_grad2d", "grow_scale3d")
    same += ("prune_opa", "prune_scale3d", "prune_screen", "reset_every", "reset_opa", "min_opacity", "opacity_reg")
    for name in same:
        row[name] = getattr(config, name)
    row["background_mode"] = BACKGROUND_MODES.index(config.background)
    row["max_sh_degree"] = config.sh_degree
    row["lr_means"], row["lr_means_final"] = config.means_lr * extent, config.means_lr_final * extent
    for name in ("quats", "scales", "opacities", "sh0", "shN"):
        row[f"lr_{name}"] = getattr(config, f"{name}_lr")
    row["lr_shN"] *= config.shN_every  # as far as in as many steps
    for name in ("beta1", "beta2", "eps"):
        row[name] = getattr(config, f"adam_{name}")
    row["extent"] = extent
    # As if the scene had the extent 1: without that, the noise, which is an area times a length, would be stronger in a scene in centimetres.
    row["noise_lr"], row["scale_reg"] = config.noise_lr / extent**2, config.scale_reg / extent
    return row


def view_order(seed: int, step0: int, count: int, n_views: int) -> np.ndarray:
    """(count,) view of each step from step0 on. Every view comes once in an epoch of n_views steps, each epoch in its own shuffle."""
    steps = np.arange(step0, step0 + count)
    epochs = steps // n_views
    shuffles = {e: np.random.default_rng((seed, e)).permutation(n_views) for e in np.unique(epochs).tolist()}
    return np.array([shuffles[e][s % n_views] for e, s in zip(epochs.tolist(), steps.tolist())], np.int64)
