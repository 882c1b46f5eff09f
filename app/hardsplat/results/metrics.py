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


def decibels(evaluation: dict) -> str:
    """PSNR of an evaluation, and that with colours fitted where it was measured."""
    fitted = evaluation.get("fitted_psnr")
    with_colours = "" if fitted is None else f" ({fitted:.2f} with colours fitted)"
    return f"{evaluation['psnr']:.2f} dB{with_colours}"
