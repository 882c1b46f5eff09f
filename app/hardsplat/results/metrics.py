"""What metrics.json of a run says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def last_evaluation(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """The measurement of held-out views after the last step, whose renders are in the folder; None
    where there was none."""
    return next(
        (e for e in reversed(metrics["evaluations"]) if e["step"] == metrics["steps"]), None
    )


def quality(evaluation: dict) -> str:
    """PSNR and SSIM of an evaluation, in words."""
    return f"PSNR {decibels(evaluation)}, SSIM {evaluation['ssim']:.4f}"


def held_out_views(n: int) -> str:
    """n of them, in words."""
    return f"{n} held-out view{'s' * (n != 1)}"


def decibels(evaluation: dict) -> str:
    """PSNR of an evaluation, and under their own names those that were measured beside it."""
    beside = {
        "fitted_psnr": "with colours fitted",
        "psnr_antialiased": "with the 2D filter",
        "psnr_as_splats": "with the sky as splats, as other viewers draw it",
    }
    found = [f"{evaluation[name]:.2f} {how}" for name, how in beside.items() if name in evaluation]
    return f"{evaluation['psnr']:.2f} dB" + f" ({', '.join(found)})" * bool(found)
