"""The page of a sweep: tables, plots, and pictures of one run of each combination."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.report import charts
from hardsplat.report.page import pictures, plot
from hardsplat.results.metrics import last_evaluation
from hardsplat.results.pictures import MOST_VIEWS, comparison, some_of
from hardsplat.study.sweep import tables
from hardsplat.study.sweep.tables import Point, by_scene, done, points

MOST_RENDERS = 48  # of all views together, so that they stay large enough to see something
LOUDER = 4  # times the difference
NARROWEST = 0.5  # dB that an axis of PSNR has at least, so that a tie looks like one


def page_values(folder: Path, records: list[dict], about: dict) -> dict:
    head, lines = tables.result_table(records)
    scenes, views, count = by_scene(records), list[dict](), 0
    for name, own in scenes.items():
        shown, of = _views(folder, own, MOST_RENDERS // len(scenes))
        views += (
            [v | {"name": f"{name}: {v['name']}"} for v in shown]
            if scenes.keys() - {name}
            else shown
        )
        count += of
    embedded = iter(pictures([image for view in views for image in view.pop("images")]))
    for view in views:
        view["photo"] = next(embedded)
        for render in view["renders"]:
            render["picture"], render["difference"] = next(embedded), next(embedded)
    statuses = [r["status"] for r in records]
    order = ("done", "failed", "skipped", "interrupted", "running")
    return {
        "title": tables.title_of(records),
        "about": about,
        "devices": tables.devices(records),
        "counts": {status: n for status in order if (n := statuses.count(status))},
        "seconds": sum(r["metrics"]["seconds"]["training"] for r in done(records)),
        "axes": tables.axes_of(records),
        "head": head,
        "rows": [{"cells": c, "runs": p.runs} for c, p in zip(lines, points(records))],
        "left_out": tables.left_out(records),
        "plots": plots(records),
        "views": views,
        "view_count": count,
        "louder": LOUDER,
        "settings": tables.common_settings(records),
    }


def _views(folder: Path, records: list[dict], most: int) -> tuple[list[dict[str, Any]], int]:
    """Views of a scene with `images`: their photograph, and renders and differences of the first
    run of each point; how many views there are. most: renders."""
    firsts = [(p.label, p.runs[0], last_evaluation(p.runs[0]["metrics"])) for p in points(records)]
    shown = [(label, run, last) for label, run, last in firsts if last][:most]
    if not shown:
        return [], 0
    names = [v["name"] for v in shown[0][2]["views"]]
    views: list[dict[str, Any]] = []
    for name in some_of(names, max(1, min(MOST_VIEWS, most // len(shown)))):
        renders: list[dict[str, Any]] = []
        images: list[np.ndarray] = []
        for label, record, last in shown:
            both = comparison(folder / "runs" / record["folder"], name)
            measured = next((v for v in last["views"] if v["name"] == name), None)
            if both is None or measured is None:
                continue
            renders.append({**measured, "label": label})
            images += [*([] if images else both[1:]), both[0], difference(*both)]
        if renders:
            views.append({"name": name, "renders": renders, "images": images})
    return views, len(names)


def difference(render: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(H, W) uint8: the largest difference of a pixel's channels, LOUDER times; black where there
    is none."""
    off = np.abs(render.astype(np.int16) - photo).max(axis=2)
    return np.minimum(off * LOUDER, 255).astype(np.uint8)


def plots(records: list[dict]) -> list[tuple[str, str]]:
    """Title and data URI of the plot of each scene that was measured."""
    found, scenes = [], by_scene(records)
    for scene, own in scenes.items():
        axes = charts.figure(8, 5.5).subplots()
        if quality_time(axes, points(own)):
            machines = "; ".join(tables.devices(own))
            where = f"{scene}, {machines}" if len(scenes) > 1 else machines
            axes.set_title(f"{axes.get_title()}\n{where}", fontsize=10)
            found.append((f"quality of {scene} by time", plot(axes.figure)))
    return found


def quality_time(axes, found: Sequence[Point]) -> bool:
    """A line through the evaluations of each combination; of several seeds their means, with bars
    of a standard deviation of a sample."""
    repeated = False
    for i, p in enumerate(found):
        lines = [r["metrics"]["evaluations"] for r in p.runs if r["metrics"]["evaluations"]]
        same = list(zip(*map(reversed, lines)))[::-1]  # of all seeds the last one, the one before
        if not same:
            continue
        seconds = [np.mean([e["training_seconds"] for e in each]) for each in same]
        psnrs = [[e["psnr"] for e in each] for each in same]
        spread = [np.std(each, ddof=1) for each in psnrs] if len(lines) > 1 else None
        repeated = repeated or len(lines) > 1
        style: dict = dict(label=p.label, linewidth=1, capsize=3, **charts.line(i))
        axes.errorbar(seconds, np.mean(psnrs, axis=1), spread, **style)
    axes.set(xlabel="training time [s]", ylabel="PSNR of held-out views [dB]")
    axes.set(title="Quality against time" + ", mean and deviation of seeds" * repeated)
    low, high = axes.get_ylim()
    more = max(0.0, NARROWEST - (high - low)) / 2
    axes.set_ylim(low - more, high + more)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(8, 5 + 0.16 * -(-len(found) // 5))
    return bool(axes.lines)
