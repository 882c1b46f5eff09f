"""`hardsplat bench`."""

from dataclasses import fields

from hardsplat.cli.flags import add_axis, add_table, settings, show_log, values_of
from hardsplat.study.bench.axes import AXES

HELP = "time every stage of drawing a model, forward and backward, for the variants asked for"
REMEDIES = {"splats": "lower --sh-degree", "pixels": "raise --data-factor"}
FLAGS = """
model MODEL: splats to draw: result folder of a training, or a file of splats, see convert
--data-dir PATH: scene whose cameras (and photographs, for --upstream loss) are used (default: the
    one trained on)
--result-dir PATH: folder for bench.json, bench.md and plots (default: print only)
--views N...: views by position in the sorted photographs (default: 8, evenly spaced)
data_factor: draw images this many times smaller (default: as trained; 1 with --data-dir)
--splats X...: sizes of the model: up to 100 as a multiple of it, above as a number of splats;
    random subsets, and jittered copies above its size (default: 1)
--upstream {random,loss}: gradients of the image: uniform random, or of L1 + D-SSIM (default:
    random)
--repeats N: draws of every view that are timed (default: 5)
--errors: also measure gradients against a float32 target
--error-views {first,all}: views that --errors takes (default: first)
device
quiet
verbose
"""


def add_flags(parser):
    parser.usage = "%(prog)s MODEL [--data-dir SCENE] [--flag value ...]"
    add_table(parser, FLAGS)
    group = parser.add_argument_group(
        "variants",
        "One or more values each; every combination is measured; `all` stands for every "
        "choice. Formats are compared with --blending fixed if nothing else is said.",
    )
    for name in AXES:
        add_axis(group, name)


def handle(flags):
    for name in AXES:
        if name in flags:
            flags[name] = values_of(name, flags[name])
    if "data_factor" in flags:
        flags |= settings({"data_factor": flags["data_factor"]})
    from hardsplat.study.bench.bench import Subject, Timing, bench

    show_log(flags.pop("verbose", False), flags.get("quiet", False))

    def taken(part):
        return {f.name: flags.pop(f.name) for f in fields(part) if f.name in flags}

    subject, timing = Subject(**taken(Subject)), Timing(**taken(Timing))
    axes = {name: flags.pop(name) for name in AXES if name in flags and name != "rasterizer"}
    bench(subject, timing, axes, **flags)
