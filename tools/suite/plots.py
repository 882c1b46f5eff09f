"""Plots of a suite: PSNR over seconds of training beside other trainers, and splats against
PSNR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.report.charts import MARKERS, figure, legend, line, plain_numbers, save
from tools.suite.plan import Anchor


def curves(results: Sequence[dict], scene: str) -> dict[str, list[tuple[float, float]]]:
    """(seconds, dB) of every measurement of each preset, means over its seeds."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for r in results:
        if r["scene"] == scene and "error" not in r:
            for e in r["evaluations"]:
                found.setdefault(r["preset"], {}).setdefault(e["step"], []).append(
                    (e["training_seconds"], e["psnr"])
                )
    return {
        preset: [
            tuple(map(float, np.mean(found[preset][step], axis=0)))
            for step in sorted(found[preset])
        ]
        for preset in found
    }


def over_seconds(results: Sequence[dict], anchors: dict[str, list[Anchor]], path: Path) -> None:
    """One picture with a plot for each scene. Anchors are measurements of other trainers."""
    scenes = list(dict.fromkeys(r["scene"] for r in results))
    fig = figure(4.2 * len(scenes), 3.8)
    for axes, scene in zip(np.atleast_1d(fig.subplots(1, len(scenes))), scenes):
        for i, (preset, points) in enumerate(curves(results, scene).items()):
            axes.plot(*zip(*points), label=preset, **line(i))
        for i, anchor in enumerate(anchors.get(scene, [])):
            axes.plot(
                *zip(*anchor.points),
                label=anchor.name,
                color="#e8891c",
                linestyle=("-", "--", ":")[i % 3],
                marker=MARKERS[-1 - i],
                markersize=5,
            )
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
        axes.set_title(scene)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel("held-out PSNR, dB")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6)
    save(fig, path)


def against_splats(table: Sequence[dict], path: Path) -> None:
    """One picture with a plot for each scene: every preset is a point, with the spread of its
    seeds."""
    scenes, presets = (list(dict.fromkeys(r[name] for r in table)) for name in ("scene", "preset"))
    fullest = max(scenes, key=lambda scene: sum(r["scene"] == scene for r in table))
    fig = figure(4.2 * len(scenes), 3.8)
    for axes, scene in zip(np.atleast_1d(fig.subplots(1, len(scenes))), scenes):
        for r in table:
            if r["scene"] == scene:
                style = line(presets.index(r["preset"])) | {"linestyle": "none"}
                axes.errorbar(
                    r["splats"] / 1e6,
                    r["psnr"],
                    yerr=r["psnr_spread"],
                    label=r["preset"] if scene == fullest else None,
                    **style,
                )
        axes.set_title(scene)
        axes.set_xlabel("million splats")
        axes.set_ylabel("held-out PSNR, dB")
        axes.set_xlim(0, 1.1 * max(r["splats"] for r in table if r["scene"] == scene) / 1e6)
        axes.grid(alpha=0.3)
        if scene == fullest:
            legend(axes)
    save(fig, path)
