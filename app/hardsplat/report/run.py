"""report.html of a training run, made of what it has measured and of its files."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import Field, replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import written
from hardsplat.io.scenes.scene import Scene
from hardsplat.model.gaussians import activated, logistic
from hardsplat.page.choose import Choice
from hardsplat.page.export import (
    VIEWER,
    PageScene,
    picture_uri,
    small_choice,
    small_viewer,
    source,
    template,
)
from hardsplat.page.merge import Rows
from hardsplat.report import charts
from hardsplat.report.page import data_uri, pictures, template_of, write_page
from hardsplat.report.stages import by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.results.pictures import comparison, some_of
from hardsplat.settings.option import kind
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.scene import SceneSettings
from hardsplat.settings.train import FIELDS, GROUPS
from hardsplat.tables.pictures import BACKGROUNDS

log = logging.getLogger("hardsplat")
NAME, CURVES, TEMPLATE = "report.html", "loss.png", "run.html"
GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")
CHOSEN_BY = ("means", "log_scales", "logit_opacities")  # splats of the viewer
# splats that the viewer is made of, which holds some 130 000: those of them that matter most, and
# others merged
MOST_SHOWN = 2_000_000


def prepare() -> charts.CurvesAhead:
    """Imports and reads what reports are made of, and makes one picture of each kind, since the
    first ones take half a second."""
    ahead = charts.CurvesAhead()
    pictures([np.zeros((8, 8, 3), np.uint8)])
    template_of(TEMPLATE), template(VIEWER)
    return ahead


def write_report(
    folder: Path,
    metrics: dict,
    comparisons: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    viewer: Callable[[], str | None] | None = None,
    ahead: charts.CurvesAhead | None = None,
) -> None:
    """loss.png and report.html. metrics: as metrics.json will hold them. comparisons: renders and
    photographs (H, W, 3) uint8 by view; by default read from the folder. viewer: waits for it, as
    HTML. ahead: by which the curves of these metrics are drawn, but for their quality.

    Raises UserError where they cannot be written.
    """
    config = tomllib.loads((folder / SAVED_NAME).read_text(encoding="utf-8"))
    last, curve = last_evaluation(metrics), None
    with ThreadPoolExecutor(1) as pool:
        encoding = pool.submit(_views, folder, last, comparisons or {})
        if metrics["curve"]["step"]:
            curve = ahead.png(metrics) if ahead else charts.png(charts.curves(metrics))
            with written(folder / CURVES):
                (folder / CURVES).write_bytes(curve)
        views, shown = encoding.result()
    memory, counted_by = _memory(metrics)
    write_page(
        folder / NAME,
        TEMPLATE,
        title=Path(metrics["scene"]).name,
        metrics=metrics,
        last=last,
        views=views,
        shown=shown,
        processor="CPU" if metrics["device"]["kind"] == "CPU" else "GPU",
        curves=curve and data_uri("image/png", curve),
        stages=by_stage(metrics["stage_ms"]),
        passes=metrics["stage_ms"],
        memory=memory,
        counted_by=counted_by,
        purposes={name: n / 2**20 for name, n in metrics["memory_bytes"].items() if n},
        about=_about(metrics),
        config=_settings(config),
        viewer=viewer and viewer(),
        viewer_style=source("viewer.css"),
    )


def _about(metrics: dict) -> dict[str, str]:
    """Computer, rasterizer and its variants, as the page lists them."""
    about = {"computer": metrics["device"]["host"], "rasterizer": metrics["rasterizer"]}
    if host := metrics["memory_peak"]["host"]:
        about["host memory that the GPU reaches"] = f"{host / 2**20:.0f} MiB"
    return about | {name.replace("_", " "): v for name, v in metrics["variants"].items()}


def _memory(metrics: dict) -> tuple[int, str]:
    """Bytes on the device at the peak, as the driver counts them where it does, and who counted."""
    peak = metrics["memory_peak"]
    if by_driver := peak["driver"]:
        return by_driver, "by its driver's count"
    return peak["allocated"], "as it allocates it"


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


def viewer_choice(planes: Mapping[str, np.ndarray], shown: PageScene) -> Choice:
    """Which splats the viewer shows, from trained values of CHOSEN_BY, (planes, N, width) by name.
    Raises UserError where none is left."""
    return small_choice(planes["means"][0], *activated(planes), shown, most=MOST_SHOWN)


def viewer_of(
    planes: Mapping[str, np.ndarray],
    shown: PageScene,
    picture: Callable[[], np.ndarray | None],
    chosen: Choice | None = None,
    check: Callable[[], object] = lambda: None,
) -> str | None:
    """A viewer of splats as HTML, from their trained values, (planes, N, width) by name; None where
    no splat is left. picture: waits for what its first camera sees. chosen: by earlier values of
    the same splats. check: raises UserError, after which there is no viewer, where nobody waits for
    it any more."""
    first, others = planes["sh0"], planes["shN"][:3]  # SH degree 1

    def rows_of(rows: np.ndarray) -> Rows:
        check()
        means, quats, logs, logits = (np.take(planes[n][0], rows, axis=0) for n in GEOMETRY)
        sh = np.empty((1 + len(others), len(rows), 3), np.float32)
        for values, out in ((first, sh[:1]), (others, sh[1:])):
            np.take(values, rows, axis=1, out=out, mode="clip")  # which copies nothing twice
        with np.errstate(over="ignore"):  # a page shows scales in steps of some percent
            scales = np.exp(logs, out=logs)
        return Rows(means, quats, scales, logistic(logits[:, 0]), sh.transpose(1, 0, 2))

    def encoded() -> str | None:
        image = picture()
        return None if image is None else picture_uri(image)

    try:
        if chosen is None or chosen.count != planes["means"].shape[1]:
            chosen = viewer_choice(planes, shown)
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(encoded)
            splats = chosen.splats(rows_of)
        check()
        return small_viewer(splats, replace(shown, picture=opening.result()))
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
