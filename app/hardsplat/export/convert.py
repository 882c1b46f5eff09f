"""`hardsplat convert`: a file of splats into another format, piece by piece, with the splats that
are asked for."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free, replacing, written
from hardsplat.base.progress import Bar
from hardsplat.edit.shapes import shapes_from_flag
from hardsplat.edit.steps import Edit, EditStep
from hardsplat.edit.steps import turn as turn_by
from hardsplat.export.contribution import SeenSplats, hidden
from hardsplat.export.cost import Cost, cost_of
from hardsplat.io.formats import format_to_read, format_to_write
from hardsplat.io.formats.base import PIECE, SplatStream, placed
from hardsplat.io.formats.frames import UPS, quaternion, to_ours, turned, upright
from hardsplat.io.order import Sorted, morton_places
from hardsplat.io.splats import faults, load_splats, log_dropped, log_lost, note_filter, open_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.edited import leave_steps, steps_beside
from hardsplat.results.model import find_model

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Converted:
    """What came of a conversion. read, written: splats. sizes in bytes. cost: of the splats of a
    run, see cost_of."""

    read: int
    written: int
    size_before: int
    size: int
    seconds: float
    cost: Cost | None = None


def importance(g: Gaussians) -> np.ndarray:
    """(N,) opacity times the sum of the areas of an ellipsoid's three cross-sections, which is
    about proportional to how much of an image it covers."""
    a, b, c = g.scales.T.astype(np.float64)
    return g.opacities * (a * b + b * c + c * a)


def convert(
    source: str | Path,
    target: str | Path,
    sh_degree: int | None = None,
    up: str | None = None,
    crop: tuple[str, ...] | None = None,
    min_opacity: float = 0.0,
    max_splats: int | None = None,
    morton: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    device: str | None = None,
    edit: Edit | None = None,
    measured: bool = True,
) -> Converted:
    """Reads `source`, a file of splats or a result folder of a training, and writes `target`; both
    formats follow from the names.

    sh_degree: highest band kept. up: axis of the source that points up, x, y, z, -x, -y or -z; the
    target is turned so that its format's up does. crop: ("box", x0, y0, z0, x1, y1, z1) or
    ("sphere", x, y, z, radius), in the source's world as other commands see it; splats with their
    centre inside are kept. min_opacity: splats below are left out. max_splats: the most that are
    kept, those of a result folder that contribute most to its training views, drawn on `device` or
    its own, and of a file those of the largest `importance`. morton: neighbours in space become
    neighbours in the file; formats that compress are always written so. edit: what is done to the
    splats after `crop`. measured: of the splats of a run, what the file costs is measured, for
    which all of them are read. Memory holds a piece of 32 768 splats besides, and per splat of the
    file 1 byte, 4 more for max_splats, and 30 while a Morton order is found. Raises UserError for
    bad input.

    Where the source was edited, or `up` turns it, steps beside the target tell the scene, as those
    of an edit do.
    """
    started = time.perf_counter()
    source, target = Path(source), Path(target)
    folder = source if source.is_dir() else None
    if folder:
        source = find_model(folder)[0]
    row = format_to_write(target)
    if target.is_dir():
        raise UserError(f"{target}: is a folder; name a file")
    for path in (target, steps_beside(target)):
        check_free(path, overwrite)
    crops = [EditStep("keep", shape) for shape in shapes_from_flag("--crop", crop or ())]
    by_flags = edit is None
    edit = Edit((*crops, *(edit.steps if edit else ())))
    if not 0 <= min_opacity <= 1:
        raise UserError(f"--min-opacity {min_opacity}: expected a number of 0 to 1")
    if max_splats is not None and max_splats < 1:
        raise UserError(f"--max-splats {max_splats}: expected a whole number of at least 1")
    if up is not None and up not in UPS:
        raise UserError(f"--up {up}: expected one of {', '.join(UPS)}")
    splats = open_splats(source)
    if source.suffix == ".npz":  # a checkpoint is as its run
        splats = replace(splats, antialiased=find_model(source)[1].raster.antialiased)
    note_filter(target, splats.antialiased)
    views = partial(SeenSplats.of_result, folder, device, quiet) if folder else None
    degree = min(_degree(source, splats.sh_degree, sh_degree), row.highest_degree)
    seen = unseen = weights = None
    if views and degree and row.by_views:
        packed = "colours are packed for all views alike, not for those it was trained on"
        found = _unless_missing(views, lambda s: (s.directions(degree), s.complete), packed)
        if found:
            seen = found[0].astype(np.float32)
            unseen, weights = hidden(seen[:, 0]) if found[1] else None, seen[:, 0]
    if weights is None and views and max_splats and max_splats < splats.count:
        chosen = "splats are chosen by opacity and size, not by contribution to training views"
        weights = _unless_missing(views, SeenSplats.contributions, chosen)
    ordered = morton or row.morton
    if unseen is not None and unseen.any():
        few = f"{unseen.sum():,} splats, of which training views show as good as nothing"
        log.warning("%s: leaves out %s", target, few)
    keep, means = _chosen(
        source, splats, edit, min_opacity, max_splats, weights, unseen, ordered, quiet
    )
    turn = to_ours(row.frame).T @ (upright(up) if up else np.eye(3))
    moved = edit.moved
    moved = replace(moved, rotation=turn @ moved.rotation, offset=turn @ moved.offset)
    if seen is not None:
        seen = turned(seen[keep], moved.rotation)

    def pieces(what: str) -> Iterator[Gaussians]:
        for span, piece in placed(_shown(splats, what, quiet)):
            if (which := keep[span]).any():
                piece = piece[which]
                piece.sh = piece.sh[:, : (degree + 1) ** 2]
                yield moved.splats(piece)

    count = int(keep.sum())
    with written(target), ExitStack() as stack:
        filtered, extra = splats.antialiased, splats.extra
        out = SplatStream(count, degree, lambda: pieces("writing"), filtered, extra, seen)
        if means is not None:
            order = Sorted(target, count, degree, extra)
            stack.callback(order.close)
            places = morton_places(means)
            del means
            if seen is not None:
                seen[places] = seen.copy()
            for span, piece in placed(pieces("sorting")):
                order.put(piece, places[span])
            again = SplatStream(count, degree, order.pieces)
            out = replace(out, pieces=lambda: _shown(again, "writing", quiet))
        lost = row.write(stack.enter_context(replacing(target)), out)
    log_lost(target, count, lost)
    if by_flags:  # else the caller leaves all steps
        own = [turn_by(quaternion(upright(up)).tolist())] if up else []
        leave_steps(target, source, (*crops, *own))
    before, size = format_to_read(source).size(source), target.stat().st_size
    done = Converted(splats.count, count, before, size, time.perf_counter() - started)
    if not measured:
        return done
    file, config = find_model(source, device=device)
    back = to_ours(row.frame)
    moved = replace(moved, rotation=back @ moved.rotation, offset=back @ moved.offset)
    filtered, read = open_splats(target).antialiased, partial(load_splats, target)
    return replace(done, cost=cost_of(file, config, read, edit, moved, filtered, quiet))


def _unless_missing(
    views: Callable[[], SeenSplats], find: Callable[[SeenSplats], T], otherwise: str
) -> T | None:
    """find(views()); None, with a warning of what happens `otherwise`, where the scene or a device
    is missing."""
    try:
        return find(views())
    except UserError as error:
        log.warning("%s: %s", otherwise, error)
        return None


def _chosen(
    source: Path,
    splats: SplatStream,
    edit: Edit,
    min_opacity: float,
    max_splats: int | None,
    weights: np.ndarray | None,
    unseen: np.ndarray | None,
    ordered: bool,
    quiet: bool,
) -> tuple[np.ndarray, np.ndarray | None]:
    """(splats of the file,) bool, which are kept; where they are to be ordered their means (kept,
    3). weights: (splats of the file,) by which the most are kept, else their importance. unseen:
    bool, which are left out."""
    keep = np.zeros(splats.count, bool)
    dropped: Counter[str] = Counter()
    ranks = np.zeros(splats.count if max_splats else 0, np.float32)
    means = np.empty((splats.count if ordered else 0, 3), np.float32)
    for span, piece in placed(_shown(splats, "reading", quiet)):
        good = faults(piece, dropped) & edit.inside(piece.means) & (piece.opacities >= min_opacity)
        keep[span] = good if unseen is None else good & ~unseen[span]
        if max_splats:
            rank = importance(piece) if weights is None else weights[span]
            ranks[span] = np.where(keep[span], rank, -1)
        if ordered:
            means[span] = piece.means
    log_dropped(source, splats, dropped)
    if max_splats and keep.sum() > max_splats:
        least = np.partition(ranks, -max_splats)[-max_splats]
        equal = np.flatnonzero(ranks == least)
        keep = ranks > least
        keep[equal[: max_splats - int(keep.sum())]] = True
    if not keep.any():
        what = f"none of its {splats.count:,} splats is left"
        raise UserError(f"{source}: {what}; --crop, --min-opacity or an edit leaves nothing")
    return keep, (means if keep.all() else means[keep]) if ordered else None


def _shown(splats: SplatStream, what: str, quiet: bool) -> Iterator[Gaussians]:
    hidden, n = quiet or splats.count <= PIECE, splats.count
    with Bar(total=n, desc=what, unit="splat", unit_scale=True, leave=False, disable=hidden) as bar:
        for piece in splats.pieces():
            yield piece
            bar.update(len(piece))


def _degree(source: Path, most: int, sh_degree: int | None) -> int:
    if sh_degree is None:
        return most
    if not 0 <= sh_degree <= most:
        wanted = f"expected a degree of 0 to {most}, which {source} has"
        raise UserError(f"--sh-degree {sh_degree}: {wanted}")
    return sh_degree
