"""`hardsplat view`."""

from hardsplat.cli.flags import add_table, settings, show_log

HELP = "look at a result, at splats, or at a scene, in a window or in browsers"
REMEDIES = {"pixels": "raise --data-factor"}
FLAGS = """
target RESULT|SPLATS|SCENE: result folder of a training, a file of splats, see convert, or a scene,
    of which the points are shown
--serve [[HOST:]PORT]: show it in browsers, until Ctrl-C; without HOST only to this machine
--data-dir PATH: scene whose cameras and photographs are shown (default: the one trained on)
data_factor: show photographs this many times smaller (default: as trained, else 1)
format
device
verbose
"""


def add_flags(parser):
    add_table(parser, FLAGS)


def handle(flags):
    show_log(flags.pop("verbose", False))
    target, address = flags.pop("target"), flags.pop("serve", None)
    if address is None:
        from hardsplat.view.show import view

        view(target, **settings(flags))
    else:
        from hardsplat.serve.show import serve

        serve(target, address, **settings(flags))
