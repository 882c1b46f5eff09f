"""report.html of a training run, made of the files that the run left: metrics.json, config.toml,
renders/, splats.ply."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.ply import load_ply
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.choose import foremost
from hardsplat.page.export import PageScene, small_viewer, style
from hardsplat.report.charts import COLORS, figure, plain_numbers
from hardsplat.report.page import comparison, pictures, plot, spread, write_page
from hardsplat.report.stages import by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.settings.presets import SAVED_NAME, config_from_file
from hardsplat.settings.train import FIELDS, GROUPS, TrainConfig, scene_folder

log = logging.getLogger("hardsplat")
NAME = "report.html"
# splats that the viewer is made of, which holds some 130 000: those of them that matter most, and
# others merged
MOST_SHOWN = 2_000_000


def write_report(folder: Path) -> Path:
    """The report of the files in a run's folder. Raises UserError where the page cannot be written;
    OSError, ValueError, KeyError where the run's files are not whole."""
    metrics = json.loads((folder / "metrics.json").read_text())
    values = page_values(folder, metrics)
    config = tomllib.loads((folder / SAVED_NAME).read_text(encoding="utf-8"))
    return write_values(
        folder, values, _viewer(folder, config, next((v["name"] for v in values["shown"]), None))
    )


def page_values(
    folder: Path,
    metrics: dict,
    comparisons: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    plots: Mapping[str, str] | None = None,
) -> dict:
    """Everything on the page but the viewer, as its template names it. metrics: as metrics.json
    will hold them.

    comparisons: renders and photographs (H, W, 3) uint8 by view; by default read from the folder.
    plots: those of `early_plots`, where they are there.
    """
    config = tomllib.loads((folder / SAVED_NAME).read_text(encoding="utf-8"))
    last = last_evaluation(metrics)
    views, shown = _views(folder, last, comparisons or {})
    drawn = {**(plots or early_plots(metrics)), **late_plots(metrics)}
    return dict(
        title=Path(metrics["scene"]).name,
        metrics=metrics,
        last=last,
        wanted=config["max_steps"],
        views=views,
        shown=shown,
        processor=processor(metrics["device"]["kind"]),
        curves=[(drawn[words], words) for words in _CURVES if words in drawn],
        stages=by_stage(metrics["stage_ms"]),
        passes=metrics["stage_ms"],
        stage_bars=drawn.get(_STAGES),
        memory={purpose: n for purpose, n in metrics["memory_bytes"].items() if n},
        memory_bars=drawn[_MEMORY],
        about=_about(metrics),
        config=_settings(config),
    )


def write_values(folder: Path, values: dict, viewer: str | None) -> Path:
    """report.html. viewer: as HTML. Raises UserError where it cannot be written."""
    return write_page(folder / NAME, "run.html", **values, viewer=viewer, viewer_style=style())


def _about(metrics: dict) -> dict[str, str]:
    """Computer, rasterizer and its variants, as the page lists them."""
    rasterizer = {"rasterizer": metrics["rasterizer"]} if "rasterizer" in metrics else {}
    return {
        "computer": metrics["device"]["host"],
        **rasterizer,
        **{name.replace("_", " "): value for name, value in metrics["variants"].items()},
    }


def processor(kind: str) -> str:
    """What people call a device of this kind."""
    return "CPU" if kind == "CPU" else "GPU"


def _views(
    folder: Path, last: dict | None, known: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> tuple[list[dict], list[dict]]:
    """All held-out views with their measures, and those of them that are shown, with pictures:
    those that are known, or from their files."""
    if last is None:
        return [], []
    views = {v["name"]: v for v in last["views"]}
    found = {
        name: both
        for name in spread(list(views))
        if (both := known.get(name) or comparison(folder, name))
    }
    embedded = iter(pictures([image for both in found.values() for image in both]))
    return last["views"], [
        {
            **views[name],
            "render": next(embedded),
            "photo": next(embedded),
            "size": both[0].shape[1::-1],
        }
        for name, both in found.items()
    ]


def _viewer(folder: Path, config: dict, name: str | None) -> str | None:
    """The splats that the run left, to look around in: it begins at the held-out view `name`, whose
    render is there already, or else at the first training camera. None where splats or scene are
    gone."""
    file = folder / "splats.ply"
    if not file.is_file() or "data_dir" not in config:
        return None
    try:
        run = config_from_file(folder / SAVED_NAME)
        both = comparison(folder, name) if name else None
        shown = shown_of(
            load_scene(scene_folder(run.data_dir), run.data_factor, run.test_every), run, name
        )
        return viewer_of(load_ply(file), replace(shown, picture=both[0] if both else None))
    except UserError as error:
        log.info("note: %s has no view in 3D: %s", folder / NAME, error)
        return None


def shown_of(scene: Scene, config: TrainConfig, name: str | None) -> PageScene:
    """What a viewer shows besides the splats of a run. It begins at the held-out view `name`, or
    else at the first training camera."""
    first = [i for i in scene.test if scene.views[i].name == name]
    cameras = {scene.views[i].name: scene.views[i].camera for i in (*first, *scene.train)}
    background = (1.0, 1.0, 1.0) if config.background == "white" else (0.0, 0.0, 0.0)
    return PageScene(scene.name, cameras, config.near_plane, background, config.antialiased)


def viewer_of(
    gaussians: Gaussians, shown: PageScene, picture: Callable[[], np.ndarray | None] | None = None
) -> str | None:
    """A viewer of splats as HTML; None where no splat is left. picture: see small_viewer."""
    try:
        if len(gaussians) > MOST_SHOWN:
            gaussians = gaussians[foremost(gaussians, list(shown.cameras.values()), MOST_SHOWN)]
        return small_viewer(gaussians, shown, picture=picture)
    except UserError as error:
        log.info("note: the report has no view in 3D: %s", error)
        return None


def _settings(config: dict) -> list[tuple[str, list[dict]]]:
    """Title of each group and its settings, as in config.toml; changed: not the default."""
    out = []
    for title, group in GROUPS.items():
        settings = []
        for f in group:
            value = config.get(f.name)
            default = FIELDS[f.name].default
            default = list(default) if isinstance(default, tuple) else default
            settings.append(
                {
                    "name": f.name,
                    "value": _said(value),
                    "changed": value != default,
                    "help": f.metadata["help"],
                    "unit": f.metadata["unit"],
                }
            )
        out.append((title, settings))
    return out


def early_plots(metrics: dict) -> dict[str, str]:
    """Plots by their words that do without measurements of held-out views, of those that there are
    numbers for. memory_bytes and stage_ms are of the whole run."""
    stages = by_stage(metrics["stage_ms"])
    memory = {purpose: n / 2**20 for purpose, n in metrics["memory_bytes"].items() if n}
    out = {
        words: _curve(words, metrics)
        for words in _CURVES
        if words != _QUALITY and len(metrics["curve"]["step"]) > (words == _RATE)
    }
    if stages:
        out[_STAGES] = plot(_bars(stages, _STAGES, "ms"))
    return out | {_MEMORY: plot(_bars(memory, _MEMORY, "MiB"))}


def late_plots(metrics: dict) -> dict[str, str]:
    """The other plots of a report."""
    return {_QUALITY: _curve(_QUALITY, metrics)} if metrics["curve"]["step"] else {}


def _curve(words: str, metrics: dict) -> str:
    page = figure(6.4, 3.6, left=0.75)
    axes = page.subplots()
    _CURVES[words](axes, metrics)
    if words != _RATE:
        axes.set_xlabel("step")
    return plot(page)


def _said(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ", ".join(map(str, value)) or "none"
        if isinstance(value, list)
        else "-"
        if value is None
        else str(value)
    )


def curves(metrics: dict):
    """Loss, PSNR and number of splats by step, as one figure."""
    page = figure(8, 8, left=0.85)
    panels = page.subplots(3, 1, sharex=True)
    for axes, draw in zip(panels, (_loss, _quality, _splats)):
        draw(axes, metrics)
    panels[-1].set_xlabel("step")
    return page


def _marked(curve: dict) -> dict:
    """Style of a curve: points where there are few."""
    return dict(
        linewidth=1.2, **(dict(marker=".", markersize=4) if len(curve["step"]) < 40 else {})
    )


def _loss(axes, metrics: dict) -> None:
    axes.plot(
        metrics["curve"]["step"],
        metrics["curve"]["loss"],
        color=COLORS[0],
        **_marked(metrics["curve"]),
    )
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set(ylabel="loss, mean of a batch", title="Loss: L1 + D-SSIM")
    axes.grid(alpha=0.3)


def _quality(axes, metrics: dict) -> None:
    evaluations = metrics["evaluations"]
    axes.plot(
        metrics["curve"]["step"],
        metrics["curve"]["psnr"],
        color=COLORS[1],
        label="training views, mean of a batch",
        **_marked(metrics["curve"]),
    )
    if evaluations:
        axes.plot(
            [e["step"] for e in evaluations],
            [e["psnr"] for e in evaluations],
            color=COLORS[0],
            linestyle="--",
            marker="o",
            markersize=7,
            label="held-out views",
        )
    axes.set(ylabel="PSNR [dB]", title="Quality")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)


def _splats(axes, metrics: dict) -> None:
    axes.plot(
        metrics["curve"]["step"],
        [n / 1000 for n in metrics["curve"]["splats"]],
        color=COLORS[0],
        **_marked(metrics["curve"]),
    )
    axes.set(ylabel="splats [thousands]", title="Number of splats")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _rate(axes, metrics: dict) -> None:
    """Steps that were made before times were kept have none."""
    curve = metrics["curve"]
    seconds = np.array(curve.get("seconds") or [None] * len(curve["step"]), float)
    axes.plot(*_speed(np.array(curve["step"]), seconds), color=COLORS[0], linewidth=1.2)
    axes.set(ylabel="steps per second", xlabel="training time [s]", title="Speed")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _speed(steps: np.ndarray, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and steps per second between points of the curve at least 1 % of the training apart:
    batches that are read together would be spikes."""
    known = np.flatnonzero(np.isfinite(seconds))
    kept = list(known[:1])
    for i in known[1:]:
        if seconds[i] - seconds[kept[-1]] > 0.01 * seconds[known[-1]]:
            kept.append(i)
    return seconds[kept[1:]], np.diff(steps[kept]) / np.diff(seconds[kept])


def _bars(values: dict[str, float], title: str, unit: str):
    page = figure(6.4, 1.0 + 0.3 * len(values), left=0.3 + 0.085 * max(map(len, values), default=0))
    axes = page.subplots()
    whole = sum(values.values())
    for i, value in enumerate(values.values()):
        axes.barh(i, value, color=COLORS[0])
        axes.annotate(
            f"{value:.3g} {unit} ({value / whole:.0%})",
            (value, i),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(values)), values)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.margins(x=0.28)
    axes.set_title(f"{title}: {whole:.4g} {unit}")
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    return page


_LOSS = "Loss by step"
_QUALITY = "PSNR by step"
_RATE = "Steps per second by training time"
_STAGES = "Time of a step"
_MEMORY = "Memory by purpose"
# what draws each, in the order of the page
_CURVES = {_LOSS: _loss, _QUALITY: _quality, "Number of splats by step": _splats, _RATE: _rate}
