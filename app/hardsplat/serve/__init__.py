"""The view in browsers, by viser: `train --serve`, `view --serve`. Raises UserError without it."""

from hardsplat.base.errors import UserError

try:
    import msgspec as _msgspec  # noqa: F401  of viser, whose own import takes a second
except ImportError as error:
    raise UserError("--serve needs viser: pip install 'hardsplat[web]'") from error
