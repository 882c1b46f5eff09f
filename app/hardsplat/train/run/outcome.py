"""What comes of a run: its numbers, and the last lines that it prints."""

from __future__ import annotations

import logging
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from hardsplat.base.version import __version__
from hardsplat.report.stages import stage_table
from hardsplat.results.folder import resume_command
from hardsplat.results.metrics import held_out_views, last_evaluation, quality
from hardsplat.train.job.job import Job
from hardsplat.train.run.files import REPORT
from hardsplat.train.session.session import Session
from hardsplat.train.watchers.log import Log

_log = logging.getLogger("hardsplat")


def metrics_of(session: Session, log: Log, trials: Sequence[dict], folder: Path) -> dict:
    """All numbers of a run as far as they are known by now, in a stable schema: metrics.json, but
    for the seconds of its phases. trials: see RasterizerTuner."""
    device, physical = session.device, session.device.physical
    stages, seconds = log.stage_means(), log.training_seconds
    return {
        "hardsplat": __version__,
        "scene": str(session.job.config.scene.data_dir or folder.name),
        "device": {
            "name": device.name,
            "driver": physical.driver,
            "kind": physical.kind,
            "host": platform.platform(),
        },
        "rasterizer": session.drawing.rasterizer,
        "auto": list(trials),
        "variants": session.raster.rows.names,
        "steps": session.step,
        "wanted": session.schedule.steps,
        "splats": session.store.count(),
        "faded": session.faded,
        "seconds": {"startup": log.startup_seconds, "training": seconds},
        "steps_per_second": session.step / seconds if seconds else None,
        "clipped_steps": session.pairs.clipped_steps,
        "gpu_idle": log.gpu_idle,
        "stage_ms": stages,
        "step_ms": sum(stages.values()),
        "memory_bytes": session.memory(),
        "memory_peak": device.memory_peak(),
        "evaluations": log.evaluations,
        "validation": {
            "looks": [each._asdict() for each in log.looks],
            "settled": log.settled or None,
            "color_gains": log.color_gains,
        },
        "decisions": log.decisions,
        "curve": log.curve,
    }


def print_outcome(
    metrics: dict, folder: Path, job: Job, log: Log, views: int, interrupted: bool
) -> None:
    """How a run went, where its files are, how to look at them. metrics: what metrics.json holds.
    views: that are held out. interrupted: by a signal."""
    settings, named = job.config.run, shlex.quote(str(folder))
    if metrics["steps"] < metrics["wanted"]:
        tqdm.write(
            f"{'interrupted' if interrupted else 'stopped'} at step {metrics['steps']}: "
            f"checkpoint and splats.ply saved; continue with {resume_command(folder)}"
        )
        if interrupted:
            return
    if settings.profile:
        print(stage_table(metrics["stage_ms"]))
    shown = ""
    if last := last_evaluation(metrics):
        shown = f"{quality(last)} on {held_out_views(len(last['views']))}; "
    elif interrupted and views:
        shown = f"interrupted, so not measured (hardsplat eval {named} does it); "
    if job.out_of_core:
        peak = metrics["memory_peak"]
        own, host = (n / 2**30 for n in (peak["driver"] or peak["allocated"], peak["host"]))
        print(f"memory: {own:.3g} GiB on the device at its peak, {host:.3g} GiB of the host's")
    whole = "since it continued" if settings.resume or settings.ckpt else "in all"
    seconds = metrics["seconds"]
    print(
        f"{shown}{metrics['splats']:,} splats, {seconds['training']:.1f} s of training on "
        f"{metrics['device']['name']}, {seconds['parts']['total']:.1f} s {whole}"
    )
    decided = [*log.decided]
    if len(job.rasterizers) > 1:
        decided.append(f"rasterizer {metrics['rasterizer']}")
    if decided:
        print(f"decided: {'; '.join(decided)} (why: the report, or --verbose)")
    _log.debug("besides training: %s", besides_training(seconds))
    if place := metrics.get("region"):
        print(f"{place['splats']:,} of {place['of']:,} splats are in --region")
    page = folder / REPORT  # which a full disk may lack
    report = f"  report: {page}" if job.part.reports and page.is_file() else ""
    print(f"result: {folder}{report}")
    print(f"look around in it: hardsplat view {named}")


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
