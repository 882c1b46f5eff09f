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
