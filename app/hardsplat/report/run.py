"""report.html of a training run, made of what it has measured and of its files."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.choose import foremost
from hardsplat.page.export import PageScene, small_viewer, source
from hardsplat.report.page import pictures, write_page
from hardsplat.report.plots import CURVES, MEMORY, STAGES, early_plots, late_plots
from hardsplat.report.stages import by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.results.pictures import comparison, some_of
from hardsplat.settings.option import kind
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.scene import SceneSettings
from hardsplat.settings.train import FIELDS, GROUPS
from hardsplat.tables.pictures import BACKGROUNDS

log = logging.getLogger("hardsplat")
NAME = "report.html"
# splats that the viewer is made of, which holds some 130 000: those of them that matter most, and
# others merged
MOST_SHOWN = 2_000_000


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
    memory, counted_by = _memory(metrics)
    drawn = {**(plots or early_plots(metrics)), **late_plots(metrics)}
    return dict(
        title=Path(metrics["scene"]).name,
        metrics=metrics,
        last=last,
        wanted=metrics.get("wanted", config["max_steps"]),
        views=views,
        shown=shown,
        processor=processor(metrics["device"]["kind"]),
        curves=[(drawn[words], words) for words in CURVES if words in drawn],
        stages=by_stage(metrics["stage_ms"]),
        passes=metrics["stage_ms"],
        stage_bars=drawn.get(STAGES),
        memory=memory,
        counted_by=counted_by,
        memory_bars=drawn[MEMORY],
        about=_about(metrics),
        config=_settings(config),
    )


def write_values(folder: Path, values: dict, viewer: str | None) -> Path:
    """report.html. viewer: as HTML. Raises UserError where it cannot be written."""
    style = source("viewer.css")
    return write_page(folder / NAME, "run.html", **values, viewer=viewer, viewer_style=style)


def _about(metrics: dict) -> dict[str, str]:
    """Computer, rasterizer and its variants, as the page lists them."""
    about = {"computer": metrics["device"]["host"]}
    if "rasterizer" in metrics:
        about["rasterizer"] = metrics["rasterizer"]
    if host := metrics.get("memory_peak", {}).get("host"):
        about["host memory that the GPU reaches"] = f"{host / 2**20:.0f} MiB"
    return about | {name.replace("_", " "): v for name, v in metrics["variants"].items()}


def _memory(metrics: dict) -> tuple[int, str]:
    """Bytes on the device at the peak, as the driver counts them where it does, and who counted;
    earlier runs have those of the end alone."""
    peak = metrics.get("memory_peak", {"driver": None, "allocated": None})
    if by_driver := peak["driver"]:
        return by_driver, "by its driver's count"
    own = peak["allocated"] or sum(metrics["memory_bytes"].values())
    return own, "as it allocates it"


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
    pairs = {name: known.get(name) or comparison(folder, name) for name in some_of(list(views))}
    found = {name: both for name, both in pairs.items() if both}
    embedded = pictures([image for both in found.values() for image in both])
    shown = []
    for (name, both), render, photo in zip(found.items(), embedded[::2], embedded[1::2]):
        size = both[0].shape[1::-1]
        shown.append(views[name] | dict(render=render, photo=photo, size=size))
    return last["views"], shown


def shown_of(
    scene: Scene, settings: SceneSettings, antialiased: bool, name: str | None
) -> PageScene:
    """What a viewer shows besides the splats of a run. It begins at the held-out view `name`, or
    else at the first training camera."""
    first = [i for i in scene.test if scene.views[i].name == name]
    cameras = {scene.views[i].name: scene.views[i].camera for i in (*first, *scene.train)}
    background = BACKGROUNDS[settings.background]
    return PageScene(scene.name, cameras, settings.near_plane, background, antialiased)


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
    """Title of each group and its settings that the run looked at, as in config.toml; changed: not
    the default. Groups where some are changed come first."""
    # the file leaves out what is unset by default
    known = {
        title: [f for f in some if f.name in config or f.default is None]
        for title, some in GROUPS.items()
    }
    groups = [(t, [_setting(f, config.get(f.name)) for f in some]) for t, some in known.items()]
    with_rows = [(title, rows) for title, rows in groups if rows]
    return sorted(with_rows, key=lambda group: not any(row["changed"] for row in group[1]))


def _setting(f: Field, value) -> dict:
    default = FIELDS[f.name].default
    changed = value != (list(default) if isinstance(default, tuple) else default)
    if value is not None and kind(f) is Path:
        value = Path(value).name
    about = {"help": f.metadata["help"], "unit": f.metadata["unit"]}
    return about | {"name": f.name, "value": _in_words(value), "changed": changed}


def _in_words(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "-" if value is None else str(value)
