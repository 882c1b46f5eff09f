"""Which photographs have a pose, and why the others have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DOUBTFUL = 0.5  # share of the matches that a model should explain
TOO_FEW = 50  # features without which a photograph hardly matches anything


@dataclass
class Outcome:
    """registered: names of the photographs in the model. missing: name and reason of each other
    one, unreadable ones too.

    points: of the model. error: px, mean. track: photographs that see a point, mean. cameras: a
    line each.

    explained: share of the verified matches that the model explains. mapper: the one that found
    it. seconds: by stage. alignment: how the model was turned and scaled, see Alignment. parts:
    what does not connect, see Part, where photographs are missing.
    """

    registered: list[str]
    missing: dict[str, str]
    points: int = 0
    error: float = 0.0
    track: float = 0.0
    cameras: list[str] = field(default_factory=list)
    explained: float = 0.0
    mapper: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    alignment: dict[str, Any] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)


def groups(count: int, pairs: np.ndarray) -> np.ndarray:
    """(count,) the number of the group that each photograph belongs to, where (P, 2) pairs connect
    them."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (count, count))
    return connected_components(graph, directed=False)[1]


def reasons(
    names: Sequence[str],
    features: Sequence[int],
    pairs: np.ndarray,
    inliers: np.ndarray,
    registered,
) -> dict[str, str]:
    """Why each photograph without a pose has none. pairs: (P, 2) indices into names of verified
    pairs; inliers: (P,) their matches. registered: names of those with one."""
    inside = np.array([name in registered for name in names], bool)
    group = groups(len(names), pairs)
    out = {}
    for i, name in enumerate(names):
        if inside[i]:
            continue
        mine = (pairs == i).any(axis=1)
        partners = np.where(pairs[mine, 0] == i, pairs[mine, 1], pairs[mine, 0])
        to_model = inside[partners]
        if features[i] < TOO_FEW:
            out[name] = f"only {features[i]} features: blurred, dark or without texture"
        elif not len(partners):
            out[name] = "matches no other photograph: nothing else shows the same from nearby"
        elif not to_model.any():
            matched = (
                f"{len(partners)} photograph{'s' * (len(partners) > 1)}, but none in the model"
            )
            size = int((group == group[i]).sum())
            out[name] = f"matches {matched} (a group of {size}): take some between the two"
        else:
            shared = inliers[mine][to_model]
            best = f"{names[partners[to_model][np.argmax(shared)]]} ({int(shared.max())})"
            matched = f"{int(to_model.sum())} in the model, best {best}"
            out[name] = f"matches {matched}, but no pose fits: take more around it"
    return out
