"""`hardsplat export`."""

import argparse

from hardsplat.cli.flags import add_setting, show_log

HELP = "write a page that shows a result in any browser"


def add_flags(parser):
    parser.usage = "%(prog)s RESULT|SPLATS [PAGE.html] [--flag value ...]"
    parser.add_argument(
        "result",
        metavar="RESULT|SPLATS",
        help="result folder of a training, or a file of splats, see convert",
    )
    parser.add_argument(
        "output",
        nargs="?",
        metavar="PAGE.html",
        help="the file to write (default: page.html in the result folder, or beside a file "
        "and named like it)",
    )
    parser.add_argument(
        "--data-dir",
        metavar="PATH",
        help="scene whose training cameras are in the list (default: the one trained on)",
    )
    parser.add_argument(
        "--max-splats",
        metavar="N",
        type=int,
        help="most splats, the most important ones (default: 4194304)",
    )
    parser.add_argument(
        "--sh-degree",
        metavar="N",
        type=int,
        help="highest spherical-harmonic degree kept (default: the highest that keeps the "
        "page below 25 MB, 1 at least)",
    )
    parser.add_argument(
        "--min-opacity",
        metavar="X",
        type=float,
        help="fainter splats are left out (default: 0.005)",
    )
    parser.add_argument(
        "--up",
        choices=("x", "y", "z", "-x", "-y", "-z"),
        help="world axis that points up (default: the cameras', else -y)",
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="title of the page (default: the name of the scene)"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        default=argparse.SUPPRESS,
        help="replace PAGE.html where it exists",
    )
    add_setting(parser, "device")
    add_setting(parser, "verbose")


def handle(flags):
    from hardsplat.export.page import export

    show_log(flags.pop("verbose", False))
    export(flags.pop("result"), flags.pop("output", None), **flags)
