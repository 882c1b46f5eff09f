"""`hardsplat fit`."""

import sys

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import add_setting, add_table, settings, show_log
from hardsplat.fit.config import FIT_FIELDS, FitConfig

HELP = "fit 2D Gaussians to a photograph"
REMEDIES = {"blobs": "lower --blobs", "pixels": "make the image smaller"}
FLAGS = """
image IMAGE: photograph: PNG, JPEG, EXR or what else Pillow reads, of any size
--view: a window that shows the fit as it goes
"""


def add_flags(parser):
    parser.usage = "%(prog)s IMAGE [--flag value ...]"
    add_table(parser, FLAGS)
    for name in FIT_FIELDS:
        add_setting(parser, name, FIT_FIELDS)


def handle(flags):
    image, with_window = flags.pop("image"), flags.pop("view", False)
    config = FitConfig(**settings(flags, FIT_FIELDS))
    from hardsplat.fit.fitter import fit

    show_log(config.verbose, config.quiet)
    fit(image, config, preview=_preview() if with_window else None)


def _preview():
    """The window of --view; None, and why, where there can be none."""
    try:
        from hardsplat.view.fit_preview import FitPreview

        return FitPreview()
    except UserError as error:
        print(f"note: {error}; the fit continues without --view", file=sys.stderr)
