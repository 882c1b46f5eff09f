"""`hardsplat edit`: splats cropped, turned upright, scaled to metres, by flags or by a file of
steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free
from hardsplat.edit.shapes import numbers, shapes_from_flag
from hardsplat.edit.steps import Edit, EditStep, load_edit, on_floor, save_edit, upright
from hardsplat.edit.steps import scale as scaled
from hardsplat.export.convert import Converted, convert
from hardsplat.io.formats.frames import UPS, axis
from hardsplat.io.splats import open_splats
from hardsplat.results.edited import steps_beside
from hardsplat.results.model import find_model


def edit_splats(
    source: str | Path,
    output: str | Path | None = None,
    edits: str | Path | None = None,
    crop: Sequence[str] = (),
    delete: Sequence[str] = (),
    up: Sequence[str] = (),
    floor: Sequence[float] = (),
    distance: Sequence[float] = (),
    scale: float | None = None,
    move: Sequence[float] = (),
    overwrite: bool = False,
    quiet: bool = False,
    device: str | None = None,
) -> tuple[Converted, Path, Path]:
    """Writes an edited copy of splats, and its steps as a file beside it. Returns what came of it
    and both files. The source stays as it is.

    output: file of splats, its format by its ending; `edited.ply` next to the source by default.
    The rest happens in this order. edits: a file of steps. crop, delete: words as shapes_from_flag
    takes them. up: the direction that is to point up, an axis such as -z or three numbers. floor:
    three points of the plane that becomes y = 0, with most splats above it. distance: two points
    and how far apart they are to be. scale: a factor, about the origin. move: three numbers, in the
    final world; all other places are in the world that `edits` leaves. Raises UserError.
    """
    model = find_model(source)[0]
    target = Path(output) if output else model.parent / "edited.ply"
    beside = steps_beside(target)
    for path in (target, beside):
        check_free(path, overwrite)
    if target.resolve() == model.resolve():
        raise UserError(f"--output {target}: is what is edited, which stays; name another file")
    steps = list(load_edit(Path(edits)).steps) if edits else []
    for flag, do, words in (("--crop", "keep", crop), ("--delete", "delete", delete)):
        steps += [EditStep(do, shape) for shape in shapes_from_flag(flag, words)]
    if up and floor:
        raise UserError("--up and --floor both say what is up; give one of them")
    if up:
        steps.append(upright(_direction(up)))
    if floor:
        plane = np.reshape(numbers("--floor", list(floor), 9), (3, 3))
        steps += on_floor(plane, _left(model, Edit(tuple(steps))))
    if distance:
        *places, wanted = numbers("--distance", list(distance), 7)
        now = float(np.linalg.norm(np.subtract(places[:3], places[3:])))
        if not (now > 0 and wanted > 0):
            raise UserError("--distance: expected two places apart and a length above 0")
        steps.append(scaled(wanted / now))
    if scale is not None:
        steps.append(scaled(scale))
    if move:
        steps.append(EditStep("move", None, numbers("--move", list(move), 3)))
    if not steps:
        flags = "--edits, --crop, --delete, --up, --floor, --distance, --scale, --move"
        raise UserError(f"nothing to do: give {flags}")
    edit = Edit(tuple(steps))
    done = convert(source, target, overwrite=overwrite, quiet=quiet, device=device, edit=edit)
    save_edit(beside, steps, model)
    return done, target, beside


def _direction(words: Sequence[str]) -> np.ndarray:
    """(3,) of an axis such as -z, or of three numbers. Raises UserError."""
    if len(words) == 1 and words[0] in UPS:
        return axis(words[0])
    try:
        out = np.array(numbers("--up", [float(word) for word in words], 3))
    except (UserError, ValueError):
        out = np.zeros(3)
    if not out.any():
        wanted = f"expected one of {', '.join(UPS)}, or three numbers"
        raise UserError(f"--up {' '.join(words)}: {wanted}")
    return out


def _left(model: Path, edit: Edit) -> Iterator[np.ndarray]:
    """Centres of the splats that an edit leaves, (N, 3) after it, piece by piece."""
    for piece in open_splats(model).pieces():
        yield edit.moved.points(piece.means[edit.inside(piece.means)])
