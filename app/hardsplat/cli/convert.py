"""`hardsplat convert`."""

import argparse

from hardsplat.cli.flags import add_setting, show_log

HELP = "write splats in another format, or fewer of them"
AXES = ("x", "y", "z", "-x", "-y", "-z")


def add_flags(parser):
    parser.usage = "%(prog)s IN OUT [--flag value ...]"
    parser.add_argument(
        "source",
        metavar="IN",
        help="result folder of a training, or .ply (also compressed), .npz, .splat, .spz, "
        ".sog, .glb, or a checkpoint",
    )
    parser.add_argument(
        "target",
        metavar="OUT",
        help="file to write, by its ending: .ply .compressed.ply .npz .splat .spz .sog .glb",
    )
    parser.add_argument(
        "--sh-degree",
        metavar="N",
        type=int,
        help="highest spherical-harmonic degree kept (default: all that there are)",
    )
    parser.add_argument(
        "--up",
        choices=AXES,
        help="world axis of IN that points up; OUT is turned to have its format's up there "
        "(default: -y, so nothing is turned)",
    )
    parser.add_argument(
        "--crop",
        metavar=("SHAPE", "NUMBER"),
        nargs="+",
        help="keep what lies in box X0 Y0 Z0 X1 Y1 Z1 or sphere X Y Z RADIUS, in the world of IN",
    )
    parser.add_argument(
        "--min-opacity",
        metavar="X",
        type=float,
        help="leave out splats below this opacity, 0 to 1 (default: 0)",
    )
    parser.add_argument(
        "--max-splats",
        metavar="N",
        type=int,
        help="most splats: of a result folder those that contribute most to its training "
        "views, of a file those with the most opacity times area",
    )
    parser.add_argument(
        "--morton",
        action="store_true",
        default=argparse.SUPPRESS,
        help="order splats along a space-filling curve, as formats that compress always have it",
    )
    parser.add_argument(
        "--classic",
        action="store_true",
        default=argparse.SUPPRESS,
        help="of a result folder of train --antialiased: opacities for viewers that do not "
        "know its filter (.splat always has them)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        default=argparse.SUPPRESS,
        help="replace OUT where it exists",
    )
    add_setting(parser, "device")
    add_setting(parser, "quiet")


def handle(flags):
    from hardsplat.export.convert import convert

    show_log(quiet=flags.get("quiet", False))
    done = convert(flags.pop("source"), target := flags.pop("target"), **flags)
    left_out = f" of {done.read}" if done.written < done.read else ""
    share = (
        f"1/{done.size_before / done.size:.1f} of"
        if done.size <= done.size_before
        else f"{done.size / done.size_before:.1f} times"
    )
    print(
        f"{target}: {done.written}{left_out} splats, {done.size / 1e6:.2f} MB, {share} "
        f"what was read, in {done.seconds:.1f} s"
    )
