"""The command `hardsplat`, also as `python -m hardsplat`."""

import sys
from typing import NoReturn


def run() -> NoReturn:
    """The command as a process."""
    try:
        from hardsplat.cli import run as command
    except KeyboardInterrupt:  # before `main` can say it
        print("hardsplat: interrupted", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    run()
