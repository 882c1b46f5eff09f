"""`hardsplat sfm`."""

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import add_setting, settings
from hardsplat.sfm.job.config import SFM_FIELDS, SFM_GROUPS, SfmConfig

HELP = "find the camera poses of photographs, or of a video, and write them as a COLMAP model"


def add_flags(parser):
    parser.usage = "%(prog)s INPUT [--flag value ...]"
    parser.add_argument(
        "input",
        nargs="?",
        metavar="INPUT",
        help="folder of photographs, scene folder with images/, or a video; same as --data",
    )
    for title, fields in SFM_GROUPS.items():
        group = parser.add_argument_group(title)
        for f in fields:
            add_setting(group, f.name, SFM_FIELDS)


def handle(flags):
    flags.pop("device", None)  # of the command line as a whole; no GPU is used here
    if "input" in flags:
        if "data" in flags:
            raise UserError("the photographs are given twice: as INPUT and as --data")
        flags["data"] = flags.pop("input")
    config = SfmConfig(**settings(flags, SFM_FIELDS))
    from hardsplat.sfm.run import sfm

    sfm(config)
