"""`hardsplat bench`."""

import argparse
from dataclasses import fields

from hardsplat.cli.flags import (
    METAVARS,
    add_setting,
    default_text,
    flag,
    settings,
    show_log,
    values_of,
)
from hardsplat.settings.option import kind
from hardsplat.settings.train import FIELDS
from hardsplat.study.bench.axes import AXES

HELP = "time every stage of drawing a model, forward and backward, for the variants asked for"
REMEDIES = {"splats": "lower --sh-degree", "pixels": "raise --data-factor"}


def add_flags(parser):
    parser.usage = "%(prog)s MODEL [--data-dir SCENE] [--flag value ...]"
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="splats to draw: result folder of a training, or a file of splats, see convert",
    )
    parser.add_argument(
        "--data-dir",
        metavar="PATH",
        help="scene whose cameras (and photographs, for --upstream loss) are used (default: "
        "the one trained on)",
    )
    parser.add_argument(
        "--result-dir",
        metavar="PATH",
        help="folder for bench.json, bench.md and plots (default: print only)",
    )
    parser.add_argument(
        "--views",
        metavar="N",
        nargs="+",
        type=int,
        help="views by position in the sorted photographs (default: 8, evenly spaced)",
    )
    parser.add_argument(
        "--data-factor",
        metavar="N",
        help="draw images this many times smaller (default: as trained; 1 with --data-dir)",
    )
    parser.add_argument(
        "--splats",
        metavar="X",
        nargs="+",
        type=float,
        help="sizes of the model: up to 100 as a multiple of it, above as a number of splats; "
        "random subsets, and jittered copies above its size (default: 1)",
    )
    parser.add_argument(
        "--upstream",
        choices=("random", "loss"),
        help="gradients of the image: uniform random, or of L1 + D-SSIM (default: random)",
    )
    parser.add_argument(
        "--repeats", metavar="N", type=int, help="draws of every view that are timed (default: 5)"
    )
    parser.add_argument(
        "--errors",
        action="store_true",
        default=argparse.SUPPRESS,
        help="also measure gradients against a float32 target",
    )
    parser.add_argument(
        "--error-views", choices=("first", "all"), help="views that --errors takes (default: first)"
    )
    add_setting(parser, "device")
    add_setting(parser, "quiet")
    add_setting(parser, "verbose")
    group = parser.add_argument_group(
        "variants",
        "One or more values each; every combination is measured; `all` stands for every "
        "choice. Formats are compared with --blending fixed if nothing else is said.",
    )
    for name in AXES:
        f = FIELDS[name]
        choices = f.metadata["choices"]
        help = (
            f"{f.metadata['help']}{': ' + ', '.join(choices) if choices else ''} (default: "
            f"{default_text(f)})"
        ).replace("%", "%%")
        group.add_argument(
            flag(name), nargs="+", metavar="NAME" if choices else METAVARS[kind(f)], help=help
        )


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
