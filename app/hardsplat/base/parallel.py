"""Work on long arrays in blocks of rows, side by side: numpy leaves Python to other threads while
it is at a block."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar


def cores_here(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Processors that this process may use. limit: a container's, microseconds in how many."""
    among = getattr(os, "sched_getaffinity", None)
    cores = len(among(0)) if among else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container; "max", not a number, for no limit
        quota, period = map(int, limit.read_text(encoding="ascii").split())
        cores = min(cores, math.ceil(quota / period))
    return max(1, cores)


CORES = cores_here()
# with more of them, what each does in Python itself is what the others wait for
THREADS = min(8, CORES)
T = TypeVar("T")


def in_blocks(n: int, size: int, work: Callable[[slice], T]) -> list[T]:
    """What work(rows) returns for each block of `size` of n rows, in order."""
    spans = [slice(at, min(at + size, n)) for at in range(0, n, size)]
    if min(THREADS, len(spans)) < 2:
        return [work(span) for span in spans]
    with ThreadPoolExecutor(min(THREADS, len(spans))) as pool:
        return list(pool.map(work, spans))
