"""`hardsplat render`."""

import argparse
from dataclasses import fields

from hardsplat.cli.flags import add_setting, settings, show_log
from hardsplat.settings.train import RASTERIZERS
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import PICTURES

HELP = "draw stills or a video of a model"
REMEDIES = {"pixels": "lower --width and --height"}


def add_flags(parser):
    parser.usage = "%(prog)s RESULT|SPLATS [--path PATH] [--output FILE|FOLDER] [--flag value ...]"
    parser.add_argument(
        "model",
        metavar="RESULT|SPLATS",
        help="result folder of a training, or a file of splats, see convert",
    )
    parser.add_argument(
        "--path",
        metavar="NAME|FILE.json",
        help="held-out, train: the scene's views; orbit, spiral; or a file of keyframes "
        "(default: orbit)",
    )
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="video by its ending, .mp4 .gif .webp, or a folder for PNG (default: beside the "
        "model)",
    )
    parser.add_argument(
        "--mode",
        metavar="NAME",
        nargs="+",
        help=f"one or more of {', '.join(PICTURES)} (default: image)",
    )
    parser.add_argument(
        "--data-dir",
        metavar="PATH",
        help="scene whose cameras are used (default: the one trained on)",
    )
    parser.add_argument(
        "--data-factor",
        metavar="N",
        help="cameras of photographs this many times smaller (default: as trained)",
    )
    parser.add_argument(
        "--frames",
        metavar="N",
        type=int,
        help="frames of a path (default: 120; of keyframes by their times; all views)",
    )
    parser.add_argument(
        "--fps",
        metavar="X",
        type=float,
        help="frames a second of a video (default: 30, or as the file of keyframes has it)",
    )
    parser.add_argument(
        "--width",
        metavar="N",
        type=int,
        help="px (default: as the cameras have it, orbit and spiral at least 960, without "
        "cameras 1280; with --height alone in proportion)",
    )
    parser.add_argument(
        "--height",
        metavar="N",
        type=int,
        help="px (default: in proportion to the width, without cameras 720)",
    )
    parser.add_argument(
        "--fov",
        metavar="X",
        type=float,
        help="vertical field of view of orbit and spiral, degrees (default: the first "
        "camera's, else 50)",
    )
    parser.add_argument(
        "--up",
        choices=("x", "y", "z", "-x", "-y", "-z"),
        help="world axis that points up in orbit and spiral (default: the cameras', else -y)",
    )
    parser.add_argument(
        "--background",
        metavar="COLOUR",
        help="name or #rrggbb, or transparent for stills with alpha (default: as trained)",
    )
    parser.add_argument(
        "--sh-degree",
        metavar="N",
        type=int,
        help="highest spherical-harmonic degree used (default: all that there are)",
    )
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        help="render target (default: as trained; float32 for depth and count)",
    )
    parser.add_argument(
        "--range",
        metavar=("LOW", "HIGH"),
        nargs=2,
        type=float,
        help="depth or count with the first and last colour (default: from some frames)",
    )
    parser.add_argument(
        "--legend",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="pictures of depth and count say what their colours stand for (default: yes)",
    )
    parser.add_argument(
        "--depth-raw",
        action="store_true",
        default=argparse.SUPPRESS,
        help="also save depth as float32 .npy, world units",
    )
    parser.add_argument(
        "--rasterizer",
        metavar=f"{{auto,{','.join(RASTERIZERS)}}}",
        help="see train (default: as trained)",
    )
    add_setting(parser, "device")
    add_setting(parser, "quiet")
    add_setting(parser, "verbose")


def handle(flags):
    if "range" in flags:
        flags["range"] = tuple(flags["range"])
    flags |= settings(
        {name: flags[name] for name in ("data_factor", "rasterizer") if name in flags}
    )
    from hardsplat.render.render import Framing, RenderStyle, render

    show_log(flags.pop("verbose", False), flags.get("quiet", False))
    framing, look = (
        {f.name: flags.pop(f.name) for f in fields(options) if f.name in flags}
        for options in (Framing, RenderStyle)
    )
    render(flags.pop("model"), Framing(**framing), RenderStyle(**look), **flags)
