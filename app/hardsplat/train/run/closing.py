"""The last lines that a run prints: how it went, where its files are, how to look at them."""

from __future__ import annotations

import logging
import shlex

from tqdm import tqdm

from hardsplat.results.metrics import decibels, last_evaluation
from hardsplat.train.run.files import REPORT
from hardsplat.train.run.resume import resume_command
from hardsplat.train.run.state import RunState
from hardsplat.train.watchers.log import stage_table

_log = logging.getLogger("hardsplat")


def print_outcome(run: RunState, metrics: dict) -> None:
    """metrics: what metrics.json holds."""
    settings, folder = run.job.config.run, shlex.quote(str(run.folder))
    interrupted = bool(run.stop.asked)
    if metrics["steps"] < run.session.schedule.steps:
        tqdm.write(
            f"{'interrupted' if interrupted else 'stopped'} at step {metrics['steps']}: "
            f"checkpoint and splats.ply saved; continue with {resume_command(run.folder)}"
        )
        if interrupted:
            return
    if settings.profile:
        print(stage_table(metrics["stage_ms"]))
    quality = ""
    if last := last_evaluation(metrics):
        views = f"{len(last['views'])} held-out views"
        quality = f"PSNR {decibels(last)}, SSIM {last['ssim']:.4f} on {views}; "
    elif interrupted and run.scene.test:
        quality = f"interrupted, so not measured (hardsplat eval {folder} does it); "
    if run.job.out_of_core:
        peak = metrics["memory_peak"]
        own, host = (n / 2**30 for n in (peak["driver"] or peak["allocated"], peak["host"]))
        print(f"memory: {own:.3g} GiB on the device at its peak, {host:.3g} GiB of the host's")
    since = " since it continued" if settings.resume or settings.ckpt else ""
    print(
        f"{quality}{metrics['splats']} splats, {run.log.training_seconds:.1f} s of "
        f"training on {run.device.name}, {run.clock.total():.1f} s in all{since}"
    )
    decided = [*run.log.decided]
    if len(run.job.rasterizers) > 1:
        decided.append(f"rasterizer {metrics['rasterizer']}")
    if decided:
        print(f"decided: {'; '.join(decided)} (why: the report, or --verbose)")
    _log.debug("besides training: %s", besides_training(metrics["seconds"]))
    if place := metrics.get("region"):
        print(f"{place['splats']} of {place['of']} splats are in --region")
    report = f"  report: {run.folder / REPORT}" if run.job.part.reports else ""
    print(f"result: {run.folder}{report}")
    print(f"look around in it: hardsplat view {folder}")


def besides_training(seconds: dict) -> str:
    """`imports 1.0 s, compile 1.1 s, files 2.4 s (splats 2.3)`: the phases of a run that took a
    twentieth of a second or more, and the files that its end waited for. seconds: of
    metrics.json."""

    def named(parts: dict[str, float], unit: str) -> str:
        longer = {name: spent for name, spent in parts.items() if spent >= 0.05}
        return ", ".join(f"{name} {spent:.1f}{unit}" for name, spent in longer.items())

    phases = {k: s for k, s in seconds["parts"].items() if k not in ("training", "files", "total")}
    files = named({"files": seconds["parts"].get("files", 0.0)}, " s")
    waited = named(seconds["files"], "")
    return ", ".join(filter(None, [named(phases, " s"), files + f" ({waited})" * bool(waited)]))
