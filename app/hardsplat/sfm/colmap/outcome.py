"""What became of the photographs: those in the model, why and in what parts others are not, and a
page with small pictures of the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, written
from hardsplat.io.media.images import read_upright
from hardsplat.page.export import picture_uri, template

if TYPE_CHECKING:
    from hardsplat.sfm.colmap.matching import Matches

SHEET = "parts.html"
AGREES = 0.8  # share of matches, see agreement: wrong poses have .55 to .8, right ones more
_PICTURES, _PARTS = 24, 12  # shown of a part, spread evenly; parts with pictures
_SIDE = 180  # px, longer side of a picture
_TOO_FEW = 50  # features without which a photograph hardly matches anything
_NAMED = 3  # photographs of a part that a line names


@dataclass
class Outcome:
    """registered: names of the photographs in the model. missing: name and reason of each other
    one, unreadable ones too.

    points: of the model. error: px, mean. track: photographs that see a point, mean. cameras: a
    line each. attempt: the one that found it. others: models that were not kept, a line each.
    alignment: how the model was turned and scaled, see align. parts: what does not connect, see
    Part, where photographs are missing. agreement: the share of matches that fit the poses, each
    weighed by how many its pair has. seconds: by stage.
    """

    registered: list[str]
    missing: dict[str, str]
    points: int
    error: float
    track: float
    cameras: list[str]
    attempt: str
    others: list[str]
    alignment: dict[str, Any]
    parts: list[dict[str, Any]]
    agreement: float = 1.0
    seconds: dict[str, float] = field(default_factory=dict)


_ADVICE = {
    "model": "the model",
    "attached": "matched with the model, but no pose fits; take some that show both",
    "apart": "match each other, but not the model; take some that show both",
    "alone": "match no other photograph; leave them out, or take some between them and the rest",
}


@dataclass(frozen=True)
class Part:
    """Photographs that do not connect with others. names: in order. kind: `model`: they have
    poses; `attached`: verified matches connect them with the model, but no pose fits; `apart`: they
    match each other; `alone`: each matches none.

    link: a photograph of it, one outside, and how many of their features look alike: the pair that
    comes nearest to a connection; None where no such pair was found.
    """

    names: list[str]
    kind: str
    link: tuple[str, str, int] | None = None

    @property
    def line(self) -> str:
        """What it is and what helps."""
        shown = ", ".join(self.names[:_NAMED]) + ", ..." * (len(self.names) > _NAMED)
        return f"{len(self.names)} photograph{'s' * (len(self.names) > 1)} ({shown}): {self.advice}"

    @property
    def advice(self) -> str:
        """Why its photographs have no pose, and what helps, in a sentence or two."""
        why = _ADVICE[self.kind]
        if self.link:
            near = "{} and {} ({} alike) come nearest: take some between these two"
            why = f"{why.split(';')[0]}; {near.format(*self.link)}"
        return why


def parts_of(names: Sequence[str], matches: Matches, registered: Set[str]) -> list[Part]:
    """The parts, the model first, then the largest. matches: between indices into names."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count, inside = len(names), np.array([name in registered for name in names], bool)
    mixed = inside[matches.pairs].any(axis=1)
    apart = matches.pairs[~mixed]
    graph = coo_matrix((np.ones(len(apart)), apart.T), (count, count))
    group = connected_components(graph, directed=False)[1]
    group[~np.isin(np.arange(count), matches.pairs)] = -1
    attached = group[np.unique(matches.pairs[mixed])]
    parts = []
    for number in np.unique(group[~inside]).tolist():
        mine = set(np.flatnonzero(~inside & (group == number)).tolist())
        kind = "alone" if number < 0 else "attached" if number in attached else "apart"
        crossing = [(n, pair) for pair, n in matches.alike.items() if len(mine & {*pair}) == 1]
        link = None
        if crossing and kind != "alone":
            alike, pair = max(crossing)
            a, b = sorted(pair, key=lambda i: i not in mine)
            link = names[a], names[b], alike
        parts.append(Part([names[i] for i in sorted(mine)], kind, link))
    parts.sort(key=lambda part: (part.kind == "alone", -len(part.names), part.names))
    return [Part(sorted(registered), "model")] * bool(registered) + parts


def reasons(parts: Sequence[Part], features: Mapping[str, int]) -> dict[str, str]:
    """Why each photograph without a pose has none. features: how many each has."""
    few = "only {} features: blurred, dark or without texture"
    return {
        name: few.format(features[name]) if features[name] < _TOO_FEW else part.advice
        for part in parts
        for name in part.names
        if part.kind != "model"
    }


def write_sheet(path: Path, images: Path, parts: Sequence[Part]) -> None:
    """Writes the page, of photographs below `images`. Those that cannot be read are named without a
    picture. Raises UserError where the page cannot be written."""

    def picture(name: str) -> str:
        """The photograph upright, as a data URI; empty where it cannot be read."""
        with suppress(UserError):
            return picture_uri(read_upright(images / name)[..., :3], _SIDE)
        return ""

    page = template(SHEET, Path(__file__).parent)
    text = page.render(parts=parts, picture=picture, most=_PARTS, shown=_PICTURES)
    with written(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
