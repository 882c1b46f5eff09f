"""`hardsplat fit`."""

from app.cli.flags import add_setting, settings, show_log
from app.fit.config import FIT_FIELDS, FitConfig

HELP = "fit 2D Gaussians to a photograph"


def add_flags(parser):
    parser.usage = "%(prog)s IMAGE [--flag value ...]"
    parser.add_argument("image", metavar="IMAGE", help="photograph: PNG, JPEG, EXR or what else Pillow reads, of any size")
    for name in FIT_FIELDS:
        add_setting(parser, name, FIT_FIELDS)


def handle(flags):
    image = flags.pop("image")
    config = FitConfig(**settings(flags, FIT_FIELDS))
    from app.fit.fitter import fit

    show_log(config.verbose, config.quiet)
    fit(image, config)
