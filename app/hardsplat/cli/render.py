"""`hardsplat render`."""

from dataclasses import fields

from hardsplat.cli.flags import add_table, settings, show_log
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.pictures import PICTURES

HELP = "draw stills or a video of a model"
REMEDIES = {"pixels": "lower --width and --height"}
FLAGS = f"""
model RESULT|SPLATS: result folder of a training, or a file of splats, see convert
--path NAME|FILE.json: held-out, train: the scene's views; orbit, spiral; or a file of keyframes
    (default: orbit)
--output PATH: video by its ending, .mp4 .gif .webp, or a folder for PNG (default: next to the
    model)
--mode NAME...: one or more of {", ".join(PICTURES)} (default: image)
--data-dir PATH: scene whose cameras are used (default: the one trained on)
data_factor: cameras of photographs this many times smaller (default: as trained)
--frames N: frames of a path (default: 120; of keyframes by their times; all views)
--fps X: frames a second of a video (default: 30, or as the file of keyframes has it)
--width N: px (default: as the cameras have it, orbit and spiral at least 960, without cameras 1280;
    with --height alone in proportion)
--height N: px (default: in proportion to the width, without cameras 720)
--fov X: vertical field of view of orbit and spiral, degrees (default: the first camera's, else 50)
--up {{x,y,z,-x,-y,-z}}: world axis that points up in orbit and spiral (default: the cameras', else
    -y)
--background COLOUR: name or #rrggbb, or transparent for stills with alpha (default: as trained)
--sh-degree N: highest spherical-harmonic degree used (default: all that there are)
--format {{{",".join(FORMATS)}}}: render target (default: as trained; float32 for depth and count)
--[no-]legend: pictures of depth and count say what their colours stand for (default: yes)
--depth-raw: also save depth as float32 .npy, world units
rasterizer: see train (default: as trained)
device
quiet
verbose
"""


def add_flags(parser):
    parser.usage = "%(prog)s RESULT|SPLATS [--path PATH] [--output FILE|FOLDER] [--flag value ...]"
    add_table(parser, FLAGS)
    what = "depth or count with the first and last colour (default: from some frames)"
    parser.add_argument("--range", metavar=("LOW", "HIGH"), nargs=2, type=float, help=what)


def handle(flags):
    if "range" in flags:
        flags["range"] = tuple(flags["range"])
    checked = [name for name in ("data_factor", "rasterizer") if name in flags]
    flags |= settings({name: flags[name] for name in checked})
    from hardsplat.render.render import Framing, RenderStyle, render

    show_log(flags.pop("verbose", False), flags.get("quiet", False))
    framing, look = (
        {f.name: flags.pop(f.name) for f in fields(options) if f.name in flags}
        for options in (Framing, RenderStyle)
    )
    render(flags.pop("model"), Framing(**framing), RenderStyle(**look), **flags)
