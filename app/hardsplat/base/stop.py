"""Ctrl-C and SIGTERM: as exceptions, and while a run trains."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, NoReturn


def interrupt(number: int, frame: Any) -> NoReturn:
    """The handler of a signal that ends a command as Ctrl-C does."""
    raise KeyboardInterrupt(number)


def print_interrupt(error: KeyboardInterrupt) -> int:
    """Prints what ended a command; its exit code, as of one that the signal itself has ended."""
    number = error.args[0] if error.args else signal.SIGINT
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    print(f"hardsplat: {what}", file=sys.stderr)
    return 128 + number


_TRAINING = (
    b"\nstopping: the steps that were started are finished and saved; "
    b"Ctrl-C again ends at once and saves nothing more\n"
)


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a wish that the loop grants between batches or frames,
    where the state is whole; the second one interrupts.

    said: printed at the first. asked: the number of that signal, or 0.
    """

    def __init__(self, said: bytes = _TRAINING):
        self.said, self.asked = said, 0

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            both = signal.SIGINT, signal.SIGTERM
            self._before = {number: signal.signal(number, self._ask) for number in both}
        return self

    def _ask(self, number, frame) -> None:
        if self.asked:
            raise KeyboardInterrupt(number)
        self.asked = number
        os.write(2, self.said)  # print is not safe in a signal handler

    def __exit__(self, *exception) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
