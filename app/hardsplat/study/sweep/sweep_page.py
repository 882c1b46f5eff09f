"""Values of the page of a sweep: tables, plots, and pictures of one run of each combination."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.report.page import pictures, plot
from hardsplat.results.metrics import last_evaluation
from hardsplat.results.pictures import MOST_VIEWS, comparison, some_of
from hardsplat.study.sweep.sweep_tables import (
    Point,
    axes_of,
    devices,
    done,
    left_out,
    points,
    result_table,
)

MOST_RENDERS = 48  # of all views together, so that they stay large enough to see something
LOUDER = 4  # times the difference

TITLES = {
    "quality_time": "Quality against time",
    "stages": "Time by stage",
    "gradient_error": "Gradient error",
    "memory": "Memory",
}


def page_values(folder: Path, records: list[dict], plots: dict, about: dict) -> dict:
    head, lines = result_table(records)
    found = points(records)
    views, count = _views(folder, found)
    first = records[0]["settings"]
    statuses = [r["status"] for r in records]
    order = ("done", "failed", "skipped", "interrupted", "running")
    common = {n: v for n, v in first.items() if all(r["settings"].get(n) == v for r in records)}
    return {
        "title": f"Sweep of {Path(first['data_dir']).name}",
        "about": about,
        "devices": devices(records),
        "counts": {status: n for status in order if (n := statuses.count(status))},
        "seconds": sum(r["metrics"]["seconds"]["training"] for r in done(records)),
        "axes": axes_of(records),
        "head": head,
        "rows": [{"cells": cells, "runs": p.runs} for cells, p in zip(lines, found)],
        "left_out": left_out(records),
        "plots": [(TITLES[name], plot(figure)) for name, figure in plots.items()],
        "views": views,
        "view_count": count,
        "louder": LOUDER,
        "settings": common | {"data_dir": Path(first["data_dir"]).name},
    }


def _views(folder: Path, found: list[Point]) -> tuple[list[dict], int]:
    """Views with their photograph, and renders and differences of the first run of each point; how
    many views there are."""
    firsts = [(p.label, p.runs[0], last_evaluation(p.runs[0]["metrics"])) for p in found]
    shown = [(label, run, last) for label, run, last in firsts if last][:MOST_RENDERS]
    if not shown:
        return [], 0
    names = [v["name"] for v in shown[0][2]["views"]]
    views: list[dict[str, Any]] = []
    images: list[np.ndarray] = []
    for name in some_of(names, max(1, min(MOST_VIEWS, MOST_RENDERS // len(shown)))):
        renders: list[dict[str, Any]] = []
        for label, record, last in shown:
            both = comparison(folder / "runs" / record["folder"], name)
            measured = next((v for v in last["views"] if v["name"] == name), None)
            if both is None or measured is None:
                continue
            if not renders:
                images.append(both[1])
            renders.append({**measured, "label": label})
            images += [both[0], difference(*both)]
        if renders:
            views.append({"name": name, "renders": renders})
    embedded = iter(pictures(images))
    for view in views:
        view["photo"] = next(embedded)
        for render in view["renders"]:
            render["picture"], render["difference"] = next(embedded), next(embedded)
    return views, len(names)


def difference(render: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(H, W) uint8: the largest difference of a pixel's channels, LOUDER times; black where there
    is none."""
    off = np.abs(render.astype(np.int16) - photo).max(axis=2)
    return np.minimum(off * LOUDER, 255).astype(np.uint8)
