"""Which photographs are matched with which."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np

# of a photograph, in retrieval: the most similar ones, and others spread over similar ones
NEIGHBOURS, SPREAD = 14, 8
OVERLAP = 8  # sequential: following frames that each is matched with
PROBES = 256  # features of largest scale that represent a photograph
LIKELY = 8  # matches among those from which two photographs probably show the same
_RATIO = 0.85
_FARTHEST = 0.7  # radians between two features that match, as in COLMAP


def probes(descriptors: np.ndarray) -> np.ndarray:
    """(M, 128) float32 of length 1: the first PROBES of (N, 128) uint8 descriptors, largest scale
    first."""
    floats = descriptors.reshape(-1, 128)[:PROBES].astype(np.float32)
    return floats / np.maximum(np.linalg.norm(floats, axis=1, keepdims=True), 1e-6)


def sequential(count: int, similarity: np.ndarray) -> list[tuple[int, int]]:
    """Each frame with the OVERLAP next ones, with those 16, 32, 64, ... after it, and with others
    that look alike, where the camera comes back."""
    steps = [*range(1, OVERLAP + 1), *(2**k for k in range(4, max(5, count.bit_length())))]
    pairs = {(i, i + step) for step in steps for i in range(count - step)}
    far = similarity.copy()
    for i in range(count):
        far[i, max(0, i - OVERLAP) : i + OVERLAP + 1] = 0
    return sorted(pairs | set(_nearest(far, NEIGHBOURS // 2, SPREAD // 2)))


def retrieval(similarity: np.ndarray) -> list[tuple[int, int]]:
    """Each photograph with the NEIGHBOURS most similar ones, and with SPREAD of the other similar
    ones, which tie distant parts of the scene together."""
    return sorted(_nearest(similarity, NEIGHBOURS, SPREAD))


def _nearest(similarity: np.ndarray, nearest: int, spread: int) -> set[tuple[int, int]]:
    pairs = set()
    for i, similar in enumerate(similarity):
        order = np.argsort(-similar, kind="stable")
        order = order[(order != i) & (similar[order] > 0)]
        rest = order[nearest:]
        rest = rest[similar[rest] >= LIKELY]
        others = (
            rest[np.unique(np.linspace(0, len(rest) - 1, spread).astype(int))] if len(rest) else []
        )
        pairs |= {(min(i, int(j)), max(i, int(j))) for j in [*order[:nearest], *others]}
    return pairs


def similarities(descriptors: Sequence[np.ndarray], pool: Executor, progress) -> np.ndarray:
    """(N, N) int32: how many of the PROBES first features of two photographs match. descriptors:
    each (M, 128) float32 of length 1, largest scale first.

    This is the preemptive matching of Wu, "Towards Linear-time Incremental Structure from Motion"
    (3DV 2013). Features of large scale are few, repeat well, and tell whether two photographs
    overlap at a 200th of the cost of matching all. progress(done) is called after each photograph.
    """
    count = len(descriptors)
    # short ones are filled with zeros, which match nothing
    probes = np.zeros((count, PROBES, 128), np.float32)
    for i, features in enumerate(descriptors):
        probes[i, : min(PROBES, len(features))] = features[:PROBES]
    out = np.zeros((count, count), np.int32)

    def compare(i: int) -> None:
        for first in range(i + 1, count, 64):  # in blocks, so that products stay in the cache
            others = probes[first : first + 64]
            out[i, first : first + len(others)] = _mutual(probes[i], others)

    for done, _ in enumerate(pool.map(compare, range(count)), 1):
        progress(done)
    return out + out.T


def _mutual(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(M,) matches of (P, 128) features with each of (M, P, 128): nearest to each other, and
    clearly nearer than the second."""
    products = one @ others.reshape(-1, 128).T
    products = products.reshape(len(one), len(others), -1).transpose(1, 0, 2)  # (M, own, other)
    best = products.argmax(axis=2)
    value = np.take_along_axis(products, best[..., None], axis=2)[..., 0]
    mutual = value >= np.take_along_axis(products.max(axis=1), best, axis=1)
    np.put_along_axis(products, best[..., None], -1, axis=2)
    second = products.max(axis=2)
    with np.errstate(invalid="ignore"):
        clear = np.arccos(np.clip(value, -1, 1)) < _RATIO * np.arccos(np.clip(second, -1, 1))
    return (mutual & clear & (value > np.cos(_FARTHEST))).sum(axis=1)
