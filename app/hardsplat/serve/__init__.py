"""The view in browsers, by viser: `train --serve`, `view --serve`. Raises UserError without it."""

import importlib.util

from hardsplat.base.errors import UserError

if importlib.util.find_spec("viser") is None:  # its import takes a second
    raise UserError("--serve needs viser: pip install 'hardsplat[web]'")
