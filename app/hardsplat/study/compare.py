"""`hardsplat compare`: two results measured from the same held-out views, and a page that shows
both."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.base.version import __version__
from hardsplat.report.page import pictures, write_page
from hardsplat.results.model import find_model, home_of
from hardsplat.results.pictures import comparison
from hardsplat.settings.scene import SceneSettings
from hardsplat.train import evaluate_run

NAME = "compare.html"
SIDES = "A", "B"


def compare(
    first: str | Path,
    second: str | Path,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    lpips: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Measures two results, or files of splats, on the held-out views of one scene, prints a table
    and writes a page with both pictures of each view under a slider.

    output: default compare.html next to the second. data_dir: the scene, where they do not name the
    same one. lpips: a variant of VARIANTS in lpips.py, measured too. Views, size and masks are
    those of the first that names a scene. Returns what is on the page but the pictures. Raises
    UserError for bad input.
    """
    files, configs = zip(*(find_model(model, data_dir, device) for model in (first, second)))
    scene = _scene([config.scene for config in configs], files)
    path = Path(output) if output else home_of(files[1]) / NAME
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path}: a page ends in .html")
    check_free(path, overwrite)
    with TemporaryDirectory() as below:
        folders = [Path(below) / side for side in SIDES]
        tables = []
        for model, folder in zip((first, second), folders):
            with redirect_stdout(io.StringIO()):  # its own table
                table = evaluate_run(
                    str(model), None, str(folder), device, lpips=lpips, split=scene
                )
                tables.append(table)
        views = _views(tables)
        shown = [_pictures(folders, view["name"]) for view in views]
    encoded = pictures([image for images in shown for image in images])
    sides = [
        {
            "letter": letter,
            "name": str(model),
            "bytes": file.stat().st_size,
            "lpips": table["lpips"]["mean"] if lpips else None,
            **{name: table[name] for name in ("psnr", "ssim", "splats")},
        }
        for letter, model, file, table in zip(SIDES, (first, second), files, tables)
    ]
    about = {"hardsplat": __version__, "date": datetime.now().strftime("%Y-%m-%d %H:%M")}
    values: dict[str, Any] = {
        "title": f"{first} and {second}",
        "about": about,
        "scene": str(scene.data_dir),
    }
    values |= {"device": tables[0]["device"], "lpips": lpips, "sides": sides}
    on_page = [{**view, "pictures": encoded[3 * i : 3 * i + 3]} for i, view in enumerate(views)]
    named = {**values, "scene": Path(values["scene"]).resolve().name, "views": on_page}
    write_page(path, "compare.html", **named)
    _print(sides, views, path)
    return {**values, "views": views}


def _scene(scenes: list[SceneSettings], files: tuple[Path, ...]) -> SceneSettings:
    """The scene that both show. Raises UserError where none is named, or two are."""
    named = [scene for scene in scenes if scene.data_dir]
    if not named:
        raise UserError(f"{files[0]}: nothing says which scene it shows; add --data-dir SCENE")
    folders = {str(scene.data_dir.resolve()): scene.data_dir for scene in named if scene.data_dir}
    if len(folders) > 1:
        both = " and ".join(map(str, folders.values()))
        raise UserError(f"they show two scenes, {both}; add --data-dir SCENE")
    return named[0]


def _views(tables: list[dict]) -> list[dict[str, Any]]:
    """By view: its name, and pairs of PSNR, SSIM and LPIPS."""
    found = []
    for i, pair in enumerate(zip(*(table["views"] for table in tables))):
        view = {name: [side[name] for side in pair] for name in ("psnr", "ssim")}
        if "lpips" in tables[0]:
            view["lpips"] = [table["lpips"]["views"][i] for table in tables]
        found.append({"name": pair[0]["name"], **view})
    return found


def _pictures(folders: list[Path], view: str) -> list:
    """A, B and the photograph, (H, W, 3) uint8."""
    pairs = [comparison(folder, view) for folder in folders]
    if pairs[0] is None or pairs[1] is None:
        raise UserError(f"the renders of {view} could not be read again")
    return [pairs[0][0], pairs[1][0], pairs[0][1]]


def _print(sides: list[dict], views: list[dict], path: Path) -> None:
    for view in views:
        a, b = view["psnr"]
        print(f"{view['name']:32s} A {a:6.2f} dB  B {b:6.2f} dB  B - A {b - a:+.2f}")
    for side in sides:
        more = f"  LPIPS {side['lpips']:.4f}" if side["lpips"] is not None else ""
        quality = f"PSNR {side['psnr']:.2f} dB  SSIM {side['ssim']:.4f}{more}"
        size = f"{side['splats']:,} splats, {side['bytes'] / 1e6:.2f} MB"
        print(f"{side['letter']} {side['name']}: {quality}, {size}")
    print(f"both under a slider: {path}")
