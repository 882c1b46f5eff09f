"""`hardsplat view`."""

from hardsplat.cli.flags import add_setting, settings, show_log

HELP = "look at a result, at splats, or at a scene, in a window"
REMEDIES = {"pixels": "raise --data-factor"}


def add_flags(parser):
    parser.add_argument("target", metavar="RESULT|SPLATS|SCENE", help="result folder of a training, a file of splats, see convert, or a scene, of which the points are shown")
    for name in ("data_dir", "data_factor", "format", "device", "verbose"):
        add_setting(parser, name)


def handle(flags):
    from hardsplat.view.show import view

    show_log(flags.pop("verbose", False))
    target = flags.pop("target")
    view(target, **settings(flags))
