"""`hardsplat lod`: levels of detail of a result, and a page that streams them."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free, replacing_folder, written
from hardsplat.export.cost import cost_of
from hardsplat.export.levels import WrittenLevels, write_levels
from hardsplat.export.page import scene_of_page
from hardsplat.io.formats import streamed_sog
from hardsplat.io.splats import load_splats, open_splats
from hardsplat.page.export import view_header, write_stream_page
from hardsplat.results.folder import run_of
from hardsplat.results.model import find_model, home_of
from hardsplat.settings.presets import SAVED_NAME

NAME = "lod"
# what a folder of levels holds, also after `hardsplat eval` has measured them
_OURS = re.compile(rf"\d+_\d+|index\.html|hardsplat\.js|eval|{SAVED_NAME}|{streamed_sog.NAME}")


def lod(
    result: str | Path,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    up: str | None = None,
    title: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> WrittenLevels:
    """Writes the levels of detail of a result folder, or of a file of splats, into a folder, with
    index.html, which streams them, and hardsplat.js, which other pages may load.

    output: default lod in a result folder, and beside a file its name with _lod; one that an
    earlier call wrote is replaced with `overwrite`. up, title, data_dir: as `export` has them.
    Raises UserError for bad input.
    """
    file, config = find_model(result, data_dir)
    if file.name == streamed_sog.NAME:
        raise UserError(f"{file}: has levels of detail already; give the result it was made of")
    beside = file.with_name(f"{file.name.split('.')[0]}_lod")
    folder = Path(output) if output else home_of(file) / NAME if Path(result).is_dir() else beside
    _check_target(folder, overwrite)
    splats = open_splats(file)
    required = data_dir is not None
    shown = scene_of_page(file, config.scene, splats.antialiased, title, up, required)
    started = time.perf_counter()
    with written(folder), replacing_folder(folder) as partial:
        extra = lambda sample: view_header(sample, shown)  # noqa: E731
        made = write_levels(splats, file, partial, extra, quiet=quiet)
        made = replace(made, folder=folder)
        write_stream_page(partial, shown.title)
        if (saved := run_of(file) / SAVED_NAME).is_file():
            shutil.copyfile(saved, partial / SAVED_NAME)
    counts = ", ".join(f"{count:,}" for count in made.counts)
    seconds = f"{time.perf_counter() - started:.0f} s"
    print(f"{folder}: {made.bytes / 1e6:.2f} MB, splats by level: {counts}; {seconds}")
    finest = lambda: load_splats(folder / streamed_sog.NAME)  # noqa: E731
    if cost := cost_of(file, config, finest, filtered=splats.antialiased, quiet=quiet):
        print(f"{folder}: {cost}")
    place = shlex.quote(str(folder))
    print(f"look around in it: hardsplat view {place}")
    print(f"in browsers: python3 -m http.server -d {place}, then open http://localhost:8000")
    return made


def _check_target(folder: Path, overwrite: bool) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; name a new folder")
    if folder.is_dir():
        names = {file.name for file in folder.iterdir()}
        others = sorted(name for name in names if not _OURS.fullmatch(name))
        if others or streamed_sog.NAME not in names:
            which = f" ({others[0]})" if others else ""
            raise UserError(f"{folder}: holds other files{which}; name a new folder")
    check_free(folder, overwrite)
