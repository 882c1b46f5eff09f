"""metrics.json and loss.png of a run."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from app import __version__


def write_metrics(folder: Path, config, device, session, log) -> dict:
    """One JSON with all numbers of a run, in a stable schema."""
    stages = log.stage_medians()
    metrics = {
        "hardsplat": __version__,
        "scene": str(config.data_dir),
        "device": {"name": device.name, "driver": device.physical.driver, "kind": device.physical.kind, "host": platform.platform()},
        "steps": session.step,
        "splats": session.count(),
        "seconds": {"startup": log.startup_seconds, "training": log.training_seconds},
        "steps_per_second": (log.steps[-1] - log.first_step) / log.training_seconds if log.steps and log.training_seconds else None,
        "gpu_idle": log.gpu_idle,
        "stage_ms": stages,
        "step_ms": sum(stages.values()),
        "memory_bytes": session.memory(),
        "evaluations": log.evaluations,
        "curve": {"step": log.steps, "loss": log.losses, "psnr": log.psnrs, "splats": log.splats},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    return metrics


def write_pictures(folder: Path, log) -> None:
    """loss.png: loss, PSNR and number of splats over steps."""
    if not log.steps:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(8, 6), layout="constrained")
    top.semilogy(log.steps, log.losses, color="black", linewidth=1)
    top.set_ylabel("loss (L1 + D-SSIM), mean of a batch")
    top.grid(alpha=0.3)
    right = top.twinx()
    right.plot(log.steps, log.psnrs, color="tab:blue", linewidth=1, alpha=0.6, label="training views")
    if log.evaluations:
        right.plot([e["step"] for e in log.evaluations], [e["psnr"] for e in log.evaluations], "o", color="tab:blue", label="held-out views")
    right.set_ylabel("PSNR [dB]", color="tab:blue")
    right.legend(loc="lower right")
    bottom.plot(log.steps, [n / 1000 for n in log.splats], color="black", linewidth=1)
    bottom.set_ylabel("splats [thousands]")
    bottom.set_xlabel("step")
    bottom.grid(alpha=0.3)
    figure.suptitle(folder.name)
    figure.savefig(folder / "loss.png", dpi=110)
    plt.close(figure)
