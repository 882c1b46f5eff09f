"""What became of the photographs: those in the model, and why and in what parts others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hardsplat.sfm.colmap.matching import Matches

TOO_FEW = 50  # features without which a photograph hardly matches anything
_NAMED = 3  # photographs of a part that a line names


@dataclass
class Outcome:
    """registered: names of the photographs in the model. missing: name and reason of each other
    one, unreadable ones too.

    points: of the model. error: px, mean. track: photographs that see a point, mean. cameras: a
    line each. attempt: the one that found it. others: models that were not kept, a line each.
    seconds: by stage. alignment: how the model was turned and scaled, see Alignment. parts: what
    does not connect, see Part, where photographs are missing.
    """

    registered: list[str]
    missing: dict[str, str]
    points: int = 0
    error: float = 0.0
    track: float = 0.0
    cameras: list[str] = field(default_factory=list)
    attempt: str = ""
    others: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    alignment: dict[str, Any] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """Photographs that do not connect with others. names: in order. kind: `model`: they have
    poses; `attached`: verified matches connect them with the model, but no pose fits; `apart`: they
    match each other; `alone`: each matches none.

    link: a photograph of it, one outside, and how many of their features look alike: the pair that
    comes nearest to a connection; None where no such pair was found. still: that pair may have been
    taken from one point.
    """

    names: list[str]
    kind: str
    link: tuple[str, str, int] | None = None
    still: bool = False

    @property
    def line(self) -> str:
        """What it is and what helps, in a sentence or two."""
        shown = ", ".join(self.names[:_NAMED]) + ", ..." * (len(self.names) > _NAMED)
        what = f"{len(self.names)} photograph{'s' * (len(self.names) > 1)} ({shown})"
        near = f"{self.link[0]} and {self.link[1]} ({self.link[2]} alike)" if self.link else ""
        if self.kind == "model":
            return f"{what}: the model"
        if self.kind == "alone":
            advice = "leave them out, or take some between them and the rest"
            return f"{what}: match no other photograph; {advice}"
        if self.kind == "apart":
            between = f"{near} come nearest: take some between these two"
            return f"{what}: not connected; {between if near else 'take some that show both'}"
        most = f", most of all {near}" * bool(near)
        why = "take some between these two" if near else "take more around it"
        if self.still:
            why = "these two are from nearly one point, or of one plane: step aside between them"
        return f"{what}: matched with the model{most}, but no pose fits; {why}"

    @property
    def reason(self) -> str:
        """Why one of its photographs has no pose."""
        if self.kind == "alone":
            return "matches no other photograph: nothing else shows the same from nearby"
        if self.kind == "apart":
            group = f"a group of {len(self.names)} that the model has nothing in common with"
            return f"matches {group}: take some between the two"
        return "matches photographs of the model, but no pose fits: take more around it"


def parts_of(names: Sequence[str], matches: Matches, registered: Set[str]) -> list[Part]:
    """The parts, the model first, then the largest. matches: between indices into names."""
    inside = np.array([name in registered for name in names], bool)
    pairs = matches.pairs
    group = groups(len(names), pairs[~inside[pairs].any(axis=1)])
    to_model = np.zeros(len(names), bool)
    for a, b in pairs:
        to_model[[a, b]] |= inside[[b, a]]
    out, alone = [], []
    for number in np.unique(group[~inside]):
        members = np.flatnonzero((group == number) & ~inside)
        own = [names[int(i)] for i in members]
        if to_model[members].any() or len(own) > 1:
            kind = "attached" if to_model[members].any() else "apart"
            out.append(Part(own, kind, *_link(set(members.tolist()), names, matches)))
        else:
            alone += own
    out.sort(key=lambda part: (-len(part.names), part.names))
    ends = [Part(alone, "alone")] * bool(alone)
    return [Part(sorted(registered), "model")] * bool(registered) + out + ends


def groups(count: int, pairs: np.ndarray) -> np.ndarray:
    """(count,) the number of the group that each photograph belongs to, where (P, 2) pairs connect
    them."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (count, count))
    return connected_components(graph, directed=False)[1]


def _link(
    mine: set[int], names: Sequence[str], matches: Matches
) -> tuple[tuple[str, str, int] | None, bool]:
    """Part's link and still."""
    out = [
        (count, *((a, b) if a in mine else (b, a)))
        for (a, b), count in matches.alike.items()
        if (a in mine) != (b in mine)
    ]
    if not out:
        return None, False
    count, a, b = max(out)
    return (names[a], names[b], count), (min(a, b), max(a, b)) in matches.still


def reasons(parts: Sequence[Part], features: Mapping[str, int]) -> dict[str, str]:
    """Why each photograph without a pose has none. features: how many each has."""
    out = {}
    for part in parts:
        for name in part.names if part.kind != "model" else ():
            few = f"only {features[name]} features: blurred, dark or without texture"
            out[name] = few if features[name] < TOO_FEW else part.reason
    return out
