"""`hardsplat doctor`."""

from hardsplat.cli.flags import add_setting

HELP = "show the Vulkan devices and which variants run on them"


def add_flags(parser):
    add_setting(parser, "device")


def handle(flags):
    from hardsplat.study.doctor import report

    text, exit_code = report(**flags)
    print(text)
    return exit_code
