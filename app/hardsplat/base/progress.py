"""Progress: a bar on a terminal, a widget in a notebook; a line now and then in logs and pipes."""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

from tqdm import tqdm

# there is one process; tqdm's own lock imports multiprocessing, for which a training would wait
tqdm.set_lock(threading.RLock())
T = TypeVar("T")
SECONDS = 20.0  # between two lines, and before the first
IS_LINE = re.compile(r".*: \d+ %, \d+ of \d+, ")  # of a bar, not what else a process prints
_LINE = "{desc}: {percentage:.0f} %, {n_fmt} of {total_fmt}, {elapsed}"
_TO_GO = ", {remaining} to go"
_UNEVEN = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


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


def _kind() -> tuple[Any, bool]:
    """The class of bars here, and whether it is a widget: that of notebooks where one runs this,
    which needs ipywidgets."""
    if "ipykernel" not in sys.modules:
        return tqdm, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ipywidgets, which may be missing
        from tqdm.auto import tqdm as auto
    return auto, any(base.__module__ == "tqdm.notebook" for base in auto.__mro__)


_Tqdm, _WIDGET = _kind()


def through(items: Iterable[T], what: str, quiet: bool) -> Iterator[T]:
    """The items, with a bar that goes when they are done."""
    yield from Bar(items, desc=what, unit="view", leave=False, disable=quiet)


class Bar(_Tqdm):  # type: ignore[valid-type, misc]
    """tqdm on stderr, with its arguments, or a widget in a notebook. Where neither is there, what
    takes less than SECONDS says nothing. even: whether each item takes about as long, so that the
    time left can be foretold."""

    def __init__(self, *args, even: bool = True, **options):
        if not even:
            options["bar_format"] = _UNEVEN
        if not (_WIDGET or sys.stderr.isatty()):
            options |= dict.fromkeys(("mininterval", "maxinterval", "delay"), SECONDS)
            # each update looks at the clock: tqdm's own thread prints a line between two of them
            options |= {"miniters": 1, "dynamic_ncols": False}
            line = _LINE + _TO_GO * even + "{postfix}"
            options |= {"file": _Lines(sys.stderr), "bar_format": line}
        super().__init__(*args, **options)
