"""`hardsplat export`."""

from hardsplat.cli.flags import add_table, show_log

HELP = "write a page that shows a result in any browser"
FLAGS = """
result RESULT|SPLATS: result folder of a training, or a file of splats, see convert
output [PAGE.html]: the file to write (default: page.html in the result folder, or next to a file
    and named like it)
--data-dir PATH: scene whose training cameras are in the list (default: the one trained on)
--max-splats N: most splats, the most important ones (default: 4194304)
--sh-degree N: highest spherical-harmonic degree kept (default: the highest that keeps the page
    below 25 MB, 1 at least)
--min-opacity X: fainter splats are left out (default: 0.005)
--up {x,y,z,-x,-y,-z}: world axis that points up (default: the cameras', else -y)
--title TEXT: title of the page (default: the name of the scene)
--overwrite: replace PAGE.html where it exists
device
verbose
"""


def add_flags(parser):
    parser.usage = "%(prog)s RESULT|SPLATS [PAGE.html] [--flag value ...]"
    add_table(parser, FLAGS)


def handle(flags):
    from hardsplat.export.page import export

    show_log(flags.pop("verbose", False))
    export(flags.pop("result"), flags.pop("output", None), **flags)
