"""`hardsplat sfm`."""

from functools import partial

from hardsplat.cli.flags import add_groups, add_setting, add_table, name_position, settings
from hardsplat.sfm.job.config import SFM_FIELDS, SFM_GROUPS, SfmConfig

HELP = "find the camera poses of photographs, or of a video, and write them as a COLMAP model"
FLAGS = """
input [INPUT]: folder of photographs, scene folder with images/, or a video; same as --data
"""


def add_flags(parser):
    parser.usage = "%(prog)s INPUT [--flag value ...]"
    add_table(parser, FLAGS)
    add_groups(parser, SFM_GROUPS, add=partial(add_setting, fields=SFM_FIELDS))


def handle(flags):
    flags.pop("device", None)  # of the command line as a whole; no GPU is used here
    name_position(flags, "input", "data", "the photographs are")
    config = SfmConfig(**settings(flags, SFM_FIELDS))
    from hardsplat.sfm.run import sfm

    sfm(config)
