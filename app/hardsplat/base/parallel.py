"""Work on long arrays in blocks of rows, side by side: numpy leaves Python to other threads while
it is at a block."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# with more of them, what each does in Python itself is what the others wait for
THREADS = min(8, os.cpu_count() or 1)
T = TypeVar("T")


def in_blocks(n: int, size: int, work: Callable[[slice], T]) -> list[T]:
    """What work(rows) returns for each block of `size` of n rows, in order."""
    spans = [slice(at, min(at + size, n)) for at in range(0, n, size)]
    if min(THREADS, len(spans)) < 2:
        return [work(span) for span in spans]
    with ThreadPoolExecutor(min(THREADS, len(spans))) as pool:
        return list(pool.map(work, spans))
