"""The command `hardsplat`, also as `python -m hardsplat`."""

import signal
import sys
from typing import NoReturn

from hardsplat.base.stop import interrupt, print_interrupt


def run() -> NoReturn:
    """The command as a process."""
    signal.signal(signal.SIGTERM, interrupt)
    try:
        from hardsplat.cli import run as command
    except KeyboardInterrupt as error:  # before `main` can say it
        sys.exit(print_interrupt(error))
    command()


if __name__ == "__main__":
    run()
