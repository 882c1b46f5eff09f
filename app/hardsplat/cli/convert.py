"""`hardsplat convert`."""

from hardsplat.cli.flags import add_table, show_log

HELP = "write splats in another format, or fewer of them"
FLAGS = """
source IN: result folder of a training, or .ply (also compressed), .npz, .splat, .spz, .sog, .glb,
    or a checkpoint
target OUT: file to write, by its ending: .ply .compressed.ply .npz .splat .spz .sog .glb
--sh-degree N: highest spherical-harmonic degree kept (default: all that there are)
--up {x,y,z,-x,-y,-z}: world axis of IN that points up; OUT is turned to have its format's up there
    (default: -y, so nothing is turned)
--min-opacity X: leave out splats below this opacity, 0 to 1 (default: 0)
--max-splats N: most splats: of a result folder those that contribute most to its training views, of
    a file those with the most opacity times area
--morton: order splats along a space-filling curve, as formats that compress always have it
--classic: of a result folder of train --antialiased: opacities for viewers that do not know its
    filter (.splat always has them)
--overwrite: replace OUT where it exists
device
quiet
"""


def add_flags(parser):
    parser.usage = "%(prog)s IN OUT [--flag value ...]"
    add_table(parser, FLAGS)
    what = "keep what lies in box X0 Y0 Z0 X1 Y1 Z1 or sphere X Y Z RADIUS, in the world of IN"
    parser.add_argument("--crop", metavar=("SHAPE", "NUMBER"), nargs="+", help=what)


def handle(flags):
    from hardsplat.export.convert import convert

    show_log(quiet=flags.get("quiet", False))
    done = convert(flags.pop("source"), target := flags.pop("target"), **flags)
    left_out = f" of {done.read}" if done.written < done.read else ""
    share = f"{done.size / done.size_before:.1f} times"
    if done.size <= done.size_before:
        share = f"1/{done.size_before / done.size:.1f} of"
    print(
        f"{target}: {done.written}{left_out} splats, {done.size / 1e6:.2f} MB, {share} "
        f"what was read, in {done.seconds:.1f} s"
    )
