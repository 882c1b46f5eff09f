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
_BLOCK = 64  # photographs that are compared at once, so that products stay in the cache


def sequential(similarity: np.ndarray) -> set[tuple[int, int]]:
    """Each frame with the OVERLAP next ones, with those 16, 32, 64, ... after it, and with others
    that look alike, where the camera comes back."""
    count = len(similarity)
    steps = [*range(1, OVERLAP + 1), *(2**k for k in range(4, max(5, count.bit_length())))]
    apart = np.abs(np.subtract.outer(range(count), range(count)))
    far = np.where(apart > OVERLAP, similarity, 0)
    following = {(i, i + step) for step in steps for i in range(count - step)}
    return following | retrieval(far, NEIGHBOURS // 2, SPREAD // 2)


def retrieval(
    similarity: np.ndarray, nearest: int = NEIGHBOURS, spread: int = SPREAD
) -> set[tuple[int, int]]:
    """Each photograph with the `nearest` most similar ones, and with `spread` of the other similar
    ones, which tie distant parts of the scene together."""
    pairs = set()
    for i, similar in enumerate(similarity):
        order = np.argsort(-similar, kind="stable")
        order = order[similar[order] > 0]
        rest = order[nearest:]
        rest = rest[similar[rest] >= LIKELY]
        some = np.linspace(0, len(rest) - 1, min(spread, len(rest))).astype(int)
        pairs |= {(min(i, int(j)), max(i, int(j))) for j in [*order[:nearest], *rest[some]]}
    return pairs


def similarities(descriptors: Sequence[np.ndarray], pool: Executor, progress) -> np.ndarray:
    """(N, N) int32: how many of the PROBES first features of two photographs match. descriptors:
    each (M, 128) uint8, largest scale first.

    This is the preemptive matching of Wu, "Towards Linear-time Incremental Structure from Motion"
    (3DV 2013). Features of large scale are few, repeat well, and tell whether two photographs
    overlap at a 200th of the cost of matching all. progress(done) is called after each photograph.
    """
    count = len(descriptors)
    # short ones are filled with zeros, which match nothing
    probes = np.zeros((count, PROBES, 128), np.float32)
    for mine, found in zip(probes, descriptors):
        mine[: len(found)] = found[:PROBES]
    probes /= np.maximum(np.linalg.norm(probes, axis=2, keepdims=True), 1e-6)
    out = np.zeros((count, count), np.int32)

    def compare(i: int) -> None:
        for first in range(i + 1, count, _BLOCK):
            others = probes[first : first + _BLOCK]
            out[i, first : first + len(others)] = _matches(probes[i], others)

    for done, _ in enumerate(pool.map(compare, range(count)), 1):
        progress(done)
    return out + out.T


def _matches(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(M,) matches of (P, 128) features with each of (M, P, 128): nearest to each other, and
    clearly nearer than the second."""
    products = (one @ others.reshape(-1, 128).T).reshape(len(one), len(others), -1)
    top = np.partition(products, -2, axis=2)
    second, best = top[..., -2], top[..., -1]
    mutual = ((products == best[..., None]) & (products == products.max(axis=0))).any(axis=2)
    near, next_near = (np.arccos(np.clip(cosine, -1, 1)) for cosine in (best, second))
    return (mutual & (near < _RATIO * next_near) & (near < _FARTHEST)).sum(axis=0)
