"""The view in browsers, by viser: `train --serve`, `view --serve`. Raises UserError without it."""

import importlib.util

from hardsplat.base.errors import UserError


def check_installed() -> None:
    """Raises UserError without viser, whose import takes a second."""
    if importlib.util.find_spec("viser") is None:
        raise UserError("--serve needs viser: pip install 'hardsplat[web]'")


check_installed()
