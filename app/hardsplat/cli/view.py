"""`hardsplat view`."""

from hardsplat.cli.flags import add_setting, settings, show_log

HELP = "look at a result, at splats, or at a scene, in a window or in browsers"
REMEDIES = {"pixels": "raise --data-factor"}


def add_flags(parser):
    parser.add_argument(
        "target",
        metavar="RESULT|SPLATS|SCENE",
        help="result folder of a training, a file of splats, see convert, or a scene, of "
        "which the points are shown",
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        const="",
        default=None,
        metavar="[HOST:]PORT",
        help="show it in browsers, until Ctrl-C; without HOST only to this machine",
    )
    parser.add_argument(
        "--data-dir",
        metavar="PATH",
        help="scene whose cameras and photographs are shown (default: the one trained on)",
    )
    parser.add_argument(
        "--data-factor",
        metavar="N",
        help="show photographs this many times smaller (default: as trained, else 1)",
    )
    for name in ("format", "device", "verbose"):
        add_setting(parser, name)


def handle(flags):
    show_log(flags.pop("verbose", False))
    target, address = flags.pop("target"), flags.pop("serve")
    if address is None:
        from hardsplat.view.show import view

        view(target, **settings(flags))
    else:
        from hardsplat.serve.show import serve

        serve(target, address, **settings(flags))
