"""The last lines that a run says: how it went, where its files are, how to look at them."""

from __future__ import annotations

import shlex

from tqdm import tqdm

from hardsplat.results.metrics import last_evaluation
from hardsplat.train.run.results import REPORT
from hardsplat.train.run.resume import resume_command
from hardsplat.train.run.state import RunState
from hardsplat.train.watchers.log import stage_table


def say_outcome(run: RunState, metrics: dict) -> None:
    """metrics: what metrics.json holds."""
    interrupted, folder = bool(run.stop.asked), shlex.quote(str(run.folder))
    if metrics["steps"] < run.config.run.max_steps:
        tqdm.write(
            f"{'interrupted' if interrupted else 'stopped'} at step {metrics['steps']}: "
            f"checkpoint and splats.ply saved; continue with {resume_command(run.folder)}"
        )
        if interrupted:
            return
    if run.config.run.profile:
        print(stage_table(metrics["stage_ms"]))
    last = last_evaluation(metrics)
    quality = (
        f"PSNR {last['psnr']:.2f} dB, SSIM {last['ssim']:.4f} on {len(last['views'])} "
        "held-out views; "
        if last
        else ""
    )
    if interrupted and run.scene.test and not last:
        quality = f"interrupted, so not measured (hardsplat eval {folder} does it); "
    since = " since it went on" if run.config.run.resume or run.config.run.ckpt else ""
    print(
        f"{quality}{metrics['splats']} splats, {run.log.training_seconds:.1f} s of "
        f"training on {run.device.name}, {run.clock.total():.1f} s in all{since}"
    )
    print(
        f"result: {run.folder}  report: {run.folder / REPORT}\nlook around in it: "
        f"hardsplat view {folder}"
    )
