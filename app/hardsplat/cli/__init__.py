"""The `hardsplat` command: `main` runs one of the commands of commands.py, and turns what it
raises into a line and an exit code."""

import atexit
import errno
import os
import re
import signal
import sys
import threading
import warnings
from contextlib import suppress
from typing import NoReturn

from hardsplat.base.errors import OutOfMemory, UserError, shown
from hardsplat.base.stop import print_interrupt
from hardsplat.base.version import __version__
from hardsplat.cli.commands import COMMANDS
from hardsplat.cli.flags import AddHelp, Parser, add_setting, add_table, unknown_flag


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 2 bad input or an unfit machine, 130 interrupted, 141
    no one reads its output, 143 terminated."""
    program = argv is None
    words = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr) if program else ():
        if hasattr(stream, "reconfigure"):
            # names of files may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    command, debugging = None, os.environ.get("HARDSPLAT_DEBUG", "0") != "0"
    try:
        flags = _parsed(words)
        command = COMMANDS[flags.pop("command")]
        with warnings.catch_warnings():
            # numpy's word for numbers of damaged files, which are counted and said by hardsplat
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
            code = command.handle(flags) or 0
        sys.stdout.flush()
        return code
    except UserError as error:
        if debugging:
            raise
        grown = error.grows_with if isinstance(error, OutOfMemory) else None
        remedy = command.remedies.get(grown) if command and grown else None
        return _failed(f"{error}: {remedy}" if remedy else f"{error}")
    except OSError as error:
        if error.filename is not None and not debugging:
            return _failed(f"{error.filename}: {error.strerror}")
        if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise  # else it is stdout, which has no name
        # so that nothing more is said when Python flushes it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # its reader has enough, as in `hardsplat doctor | head`
            return 128 + 13  # as of a program that SIGPIPE ends
        return _failed(f"the output cannot be written: {error.strerror}")
    except KeyboardInterrupt as interrupt:
        return print_interrupt(interrupt)
    finally:
        if program:  # a program that is about to end: no late exception must replace its exit code
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _failed(line: str) -> int:
    """Prints the line of an error; the exit code."""
    print(f"hardsplat: error: {shown(line)}", file=sys.stderr)
    return 2


def run() -> NoReturn:
    """`main` as a process. It waits for threads and does what was registered for its end.

    It leaves memory to the system, which Python would take a tenth of a second to give back after a
    training.
    """
    code = main()
    threading._shutdown()  # type: ignore[attr-defined]  # nothing public does these two
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser of command lines, and those of the commands by name."""
    parser, commands = _bare()
    for name, one in commands.items():
        _fill(one, name)
    return parser, commands


def _bare() -> tuple[Parser, dict[str, Parser]]:
    """As `parsers`, without flags of commands."""
    about = "Train 3D Gaussian Splatting scenes on any Vulkan GPU."
    more = "hardsplat COMMAND --help explains one; hardsplat doctor checks this machine."
    parser = Parser(prog="hardsplat", description=about, epilog=more)
    parser.add_argument("--version", action="version", version=f"hardsplat {__version__}")
    add_setting(parser, "device")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands = {}
    for name, command in COMMANDS.items():
        about = command.help[0].upper() + command.help[1:] + "."
        words = re.findall(r"^[a-z]+ (\S+):", command.flags, re.MULTILINE)
        usage = " ".join(["%(prog)s", *words, "[--flag value ...]"])
        one = commands[name] = subparsers.add_parser(
            name,
            add_help=not command.many,
            help=command.help,
            description=about,
            usage=usage,
            epilog=command.epilog,
        )
        if command.many:
            one.add_argument("-h", "--help", action=AddHelp)
    return parser, commands


def _fill(one: Parser, name: str) -> None:
    add_table(one, COMMANDS[name].flags)
    COMMANDS[name].add(one)


def _parsed(argv: list[str]) -> dict:
    """Flags of argv (and HARDSPLAT_DEVICE), with `command`."""
    parser, commands = _bare()
    argv = argv or ["--help"]
    words = _dashed([*argv[1:], "--help"] if argv[:1] == ["help"] else argv)
    if (command := _check_start(words, parser)) in COMMANDS:
        _fill(commands[command], command)
    known, unknown = parser.parse_known_args(words)
    flags = vars(known)
    if unknown and not any(word.startswith("-") for word in unknown):
        # a word behind flags that could have stood before them
        behind = words[words.index(known.command) + 1 :]
        again, unknown = commands[known.command].parse_known_intermixed_args(behind)
        flags |= vars(again)
    if unknown:
        raise unknown_flag(unknown, commands[known.command])
    if "--device" not in commands[known.command]._option_string_actions:  # it uses no GPU
        flags.pop("device", None)
    elif device := os.environ.get("HARDSPLAT_DEVICE"):
        flags.setdefault("device", device)
    return flags


def _check_start(words: list[str], parser: Parser) -> str:
    """The command. Raises UserError for a flag before it that only commands have, or none."""
    known = parser._option_string_actions  # argparse has no public list of flags
    rest = iter(words)
    for word in rest:
        name = word.split("=")[0]
        if not word.startswith("-"):
            return word
        if name not in known:
            raise unknown_flag([word], parser, "; flags of a command stand behind its name")
        if name == word and known[name].nargs is None:
            next(rest, None)  # its value
    return ""


def _dashed(argv: list[str]) -> list[str]:
    """argv with `--like_this` spelled `--like-this`; what follows `=` or a lone `--` stays."""
    end = argv.index("--") if "--" in argv else len(argv)
    dashed = [re.sub("^--[^=]+", lambda f: f[0].replace("_", "-"), word) for word in argv[:end]]
    return dashed + argv[end:]
