"""Progress: a bar on a terminal; a line now and then in logs and pipes."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from tqdm import tqdm

# there is one process; tqdm's own lock imports multiprocessing, for which a training would wait
tqdm.set_lock(threading.RLock())
SECONDS = 20.0  # between two lines, and before the first
_LINE = "{desc}: {percentage:.0f} %, {n_fmt} of {total_fmt}, {elapsed}, {remaining} to go{postfix}"


class _Lines:
    """What tqdm writes to instead of to a terminal: each state of the bar becomes a line."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        if line := text.strip():
            self._stream.write(f"{line}\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


class Bar(tqdm):
    """tqdm on stderr, with its arguments. Where that is no terminal, what takes less than SECONDS
    says nothing."""

    def __init__(self, *args, **how):
        if not sys.stderr.isatty():
            how |= dict.fromkeys(("mininterval", "maxinterval", "delay"), SECONDS)
            how |= {"file": _Lines(sys.stderr), "bar_format": _LINE, "dynamic_ncols": False}
        super().__init__(*args, **how)
