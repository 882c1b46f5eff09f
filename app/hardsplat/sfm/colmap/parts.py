"""Parts of a set of photographs that do not connect: those of the model, and the groups of the
others that show something in common among themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from hardsplat.sfm.colmap.outcome import groups

_NAMED = 3  # photographs of a part that a line names


@dataclass(frozen=True)
class Part:
    """names: its photographs, in order. kind: `model`: they have poses; `attached`: verified
    matches connect them with the model, but no pose fits; `apart`: they match each other; `alone`:
    each matches none.

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
        if self.kind == "attached":
            most = f", most of all {near}" * bool(near)
            why = "take some between these two" if near else "take more around it"
            if self.still:
                why = (
                    "these two are from nearly one point, or of one plane: step aside between them"
                )
            return f"{what}: matched with the model{most}, but no pose fits; {why}"
        if self.kind == "alone":
            advice = "leave them out, or take some between them and the rest"
            return f"{what}: match no other photograph; {advice}"
        between = f"{near} come nearest: take some between these two"
        return f"{what}: not connected; {between if near else 'take some that show both'}"


def parts_of(
    names: Sequence[str],
    pairs: np.ndarray,
    registered: set[str],
    alike: Mapping[tuple[int, int], int],
    still: Set[tuple[int, int]] = frozenset(),
) -> list[Part]:
    """The parts, the model first, then the largest.

    pairs: (P, 2) indices into names of verified pairs. alike: matches that were found, verified or
    not, by pairs of indices, the smaller first. still: as in Matches.
    """
    inside = np.array([name in registered for name in names], bool)
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    among = pairs[~inside[pairs].any(axis=1)] if len(pairs) else pairs
    group = groups(len(names), among)
    to_model = np.zeros(len(names), bool)
    for a, b in pairs:
        to_model[[a, b]] |= inside[[b, a]]
    out, alone = [], []
    for number in np.unique(group[~inside]):
        members = np.flatnonzero((group == number) & ~inside)
        own = [names[int(i)] for i in members]
        if to_model[members].any():
            out.append(Part(own, "attached", *_link(members, names, alike, still)))
        elif len(own) > 1:
            out.append(Part(own, "apart", *_link(members, names, alike, still)))
        else:
            alone += own
    out.sort(key=lambda part: (-len(part.names), part.names))
    ends = [Part(alone, "alone")] * bool(alone)
    return [Part(sorted(registered), "model")] * bool(registered) + out + ends


def _link(
    members: np.ndarray,
    names: Sequence[str],
    alike: Mapping[tuple[int, int], int],
    still: Set[tuple[int, int]],
) -> tuple[tuple[str, str, int] | None, bool]:
    """Part's link and still."""
    mine = set(members.tolist())

    def leading_out() -> Iterator[tuple[int, int, int]]:
        for (a, b), count in alike.items():
            if (a in mine) != (b in mine) and count:
                yield count, *((a, b) if a in mine else (b, a))

    if (best := max(leading_out(), default=None)) is None:
        return None, False
    count, a, b = best
    return (names[a], names[b], count), (min(a, b), max(a, b)) in still
