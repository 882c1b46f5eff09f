"""The one exception that reaches people: a line that says what, where and what to do. Also what is
to be done where any is raised."""

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Bad input or an unfit machine. The command line prints the message alone and exits with 2."""


class OutOfMemory(UserError):
    """An allocation did not fit on the device. grows_with: what there would have to be less of,
    "splats" or "pixels" for example; "" where that is not known. A command says which of its flags
    that is."""

    def __init__(self, message: str, grows_with: str = ""):
        super().__init__(message)
        self.grows_with = grows_with


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Calls `undo` where the block raises, an interrupt too."""
    try:
        yield
    except BaseException:
        undo()
        raise


def shown(text: object) -> str:
    """Text for a terminal: control characters, which names in files of others may have, as they are
    written in Python."""
    return "".join(repr(c)[1:-1] if unicodedata.category(c) == "Cc" else c for c in str(text))


def reason(error: BaseException, most: int = 200) -> str:
    """What the system answers to an OSError; of others the first line of the message, or the type
    where there is none."""
    text = getattr(error, "strerror", None) or str(error)
    return (text.splitlines() or [type(error).__name__])[0][:most]
