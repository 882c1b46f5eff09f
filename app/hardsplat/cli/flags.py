"""Flags of the command line, generated from the fields of TrainConfig: names, help, defaults, and
values checked with the flag's name in the error."""

import argparse
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from hardsplat.base.errors import UserError
from hardsplat.settings.option import checked, flag, kind, nearest
from hardsplat.settings.train import FIELDS, NAMES


@dataclass(frozen=True)
class Command:
    """help: a phrase without a full stop. flags: see add_table. handle(flags): does it; the exit
    code, None for 0.

    add(parser): adds more flags. many: --help shows common flags alone. remedies: what to do by
    what there is too much of, see OutOfMemory. epilog: below the help.
    """

    help: str
    flags: str
    handle: Callable[[dict[str, Any]], int | None]
    add: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    many: bool = False
    remedies: Mapping[str, str] = field(default_factory=dict)
    epilog: str | None = None


COMMON = "common flags"
_ALWAYS = ("positional arguments", "options")


_NAMED = r"^argument (--[\w-]+|[^:/]+)(?:/[^:]+)?: "
# what argparse writes, and the same as other errors of hardsplat put it
_WORDS = {
    r"invalid int value: (.*)": "expected a whole number, got {}",
    r"invalid float value: (.*)": "expected a number, got {}",
    r"invalid choice: (.*) \(choose from (.*)\)": "expected one of {1}, got {0}",
    r"expected one argument": "expected a value",
    r"expected at least one argument": "expected one value or more",
    r"expected (\d+) arguments": "expected {} values",
    r"ignored explicit argument (.*)": "takes no value, got {}",
}


class _Help(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=32)


class Parser(argparse.ArgumentParser):
    """Raises UserError where argparse would print its usage and exit; takes no abbreviated
    flags."""

    def __init__(self, **settings):
        super().__init__(
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_Help,
            **settings,
        )
        # what may begin with - and be a value; argparse has no public place for this
        numbers = self._negative_number_matcher.pattern
        self._negative_number_matcher = re.compile(f"{numbers}|^-[xyz]$|^-[0-9.][-+0-9.,e]*$")

    def error(self, message):
        if named := re.match(_NAMED, message):
            for theirs, ours in _WORDS.items():
                if found := re.fullmatch(theirs, message[named.end() :]):
                    parts = [part.replace("', '", ", ").strip("'") for part in found.groups()[1:]]
                    message = f"{named[1]}: {ours.format(*found.groups()[:1], *parts)}"
                    break
        raise UserError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action, value):  # argparse has no public place for this
        if action.dest == "command" and value not in action.choices:
            hint = nearest(value.lower(), {name: name for name in action.choices})
            raise UserError(
                f"unknown command '{value}'" + (hint or f"; there are {', '.join(action.choices)}")
            )
        super()._check_value(action, value)


class AddHelp(argparse.Action):
    """--help of a command with many flags: the common ones; with `all` behind it every one."""

    def __init__(self, option_strings, dest, **settings):
        super().__init__(
            option_strings,
            dest=argparse.SUPPRESS,
            default=argparse.SUPPRESS,
            nargs="?",
            metavar="all",
            help="show this help and exit; all: with every flag",
        )

    def __call__(self, parser, namespace, value, option_string=None):
        if value == "all":
            parser.print_help()
        else:
            groups = parser._action_groups  # argparse has no public list of them
            hidden = [group for group in groups if group.title not in (*_ALWAYS, COMMON)]
            for group in hidden:
                groups.remove(group)
            count = sum(len(group._group_actions) for group in hidden)
            parser.epilog = f"{count} more flags: {parser.prog} --help all"
            parser.print_help()
        parser.exit()


METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH"}
METAVARS |= {tuple[int, ...]: "N", tuple[float, ...]: "X", tuple[str, ...]: "NAME"}


def add_setting(parser, name: str, fields=FIELDS, help: str = "") -> None:
    """The flag of one setting, of TrainConfig by default. Values stay text, or a list of it, until
    `settings` checks them. help: instead of the setting's own."""
    f = fields[name]
    help = (help or f"{f.metadata['help']} (default: {default_text(f)})").replace("%", "%%")
    if kind(f) is bool:
        options = {"action": argparse.BooleanOptionalAction, "default": argparse.SUPPRESS}
    else:
        choices = ",".join(f.metadata["choices"])
        options = {"metavar": f"{{{choices}}}" if choices else METAVARS[kind(f)]}
        if get_origin(kind(f)) is tuple:
            options["nargs"] = "*"
    parser.add_argument(flag(name), help=help, **options)


def add_groups(parser, groups, common=(), add=add_setting) -> None:
    """Flags of settings in groups, as add(group, name) makes them: those named in `common` first,
    in that order, in a group of their own, which --help shows alone."""
    if common:
        first = parser.add_argument_group(COMMON)
        for name in common:
            add(first, name)
    for title, members in groups.items():
        group = parser.add_argument_group(title)
        for f in members:
            if f.name not in common:
                add(group, f.name)


def add_axis(parser, name: str, default: str = "") -> None:
    """The flag of a setting of TrainConfig that takes one or more values, see values_of."""
    f = FIELDS[name]
    choices = ", ".join(f.metadata["choices"])
    help = f.metadata["help"] + (f": {choices}" if choices else "")
    help = f"{help} (default: {default or default_text(f)})".replace("%", "%%")
    metavar = "NAME" if choices else METAVARS[kind(f)]
    parser.add_argument(flag(name), nargs="+", metavar=metavar, help=help)


def add_table(parser, rows: str) -> None:
    """Arguments from a table of `name METAVAR: help`, whose continued lines are indented.

    A name without dashes is positional, or where it has no METAVAR a setting of TrainConfig, of
    which help may be left out. [METAVAR] is optional, METAVAR... takes one or more values, two
    words are two numbers, {a,b} are choices, N is a whole number and X a number. A --flag without
    METAVAR is a switch, and --[no-]flag can be turned off too. -f/--flag has a short name.
    """
    for row in re.split(r"\n(?=\S)", rows.strip()):
        head, _, help = " ".join(row.split()).partition(": ")
        name, _, metavar = head.partition(" ")
        options: dict = {}
        if not metavar and not name.startswith("-"):
            add_setting(parser, name, help=help)
            continue
        if not metavar:
            both = name.startswith("--[no-]")
            options["action"] = argparse.BooleanOptionalAction if both else "store_true"
            options["default"], name = argparse.SUPPRESS, name.replace("[no-]", "")
        elif metavar.startswith("{"):
            options["choices"] = metavar[1:-1].split(",")
        elif metavar.startswith("[") and metavar.endswith("]"):
            options = {"metavar": metavar[1:-1], "nargs": "?"}
            options |= {"const": ""} if name.startswith("-") else {}
        elif " " in metavar and not metavar.endswith("..."):
            words = metavar.split()
            options = {"metavar": tuple(words), "nargs": len(words), "type": float}
        else:
            words = metavar.removesuffix("...").split()
            options = {"metavar": words[0], "type": {"N": int, "X": float}.get(words[0])}
            if metavar.endswith("..."):
                options |= {"metavar": tuple(words) if words[1:] else words[0], "nargs": "+"}
        parser.add_argument(*reversed(name.split("/")), help=help, **options)
        if name == "output":  # may be named as of the commands whose output is a flag
            parser.add_argument("-o", "--output", help=argparse.SUPPRESS)


def name_position(flags: dict, word: str, name: str, what: str) -> None:
    """Makes the positional argument `word`, where there is one, the value of the setting `name`."""
    if word in flags:
        if name in flags:
            raise UserError(f"{what} given twice: as {word.upper()} and as {flag(name)}")
        flags[name] = flags.pop(word)


def default_text(f: Field) -> str:
    if f.metadata["shown"]:
        return f.metadata["shown"]
    if kind(f) is bool:
        return "yes" if f.default else "no"
    values = f.default if isinstance(f.default, tuple) else [f.default]
    return " ".join([*map(str, values), f.metadata["unit"]]).strip()


def settings(flags: dict, fields=FIELDS) -> dict:
    """Flags of TrainConfig, or of other fields, as checked values; an error names the flag."""
    return {
        name: checked(name, from_text(kind(fields[name]), value), flag(name), fields)
        for name, value in flags.items()
    }


def from_text(kind, text):
    """The number(s) in `text`; whatever else it is, unchanged."""
    try:
        if kind in (int, float):
            return kind(text)
        if kind in (tuple[int, ...], tuple[float, ...]):
            number = get_args(kind)[0]
            return [number(word) for words in text for word in words.split(",")]
    except ValueError:
        pass  # `checked` says what was expected
    return text


def show_log(flags: dict) -> None:
    """Messages of a command on stderr, as many as --verbose, which is taken out, and --quiet
    ask for."""
    log = logging.getLogger("hardsplat")
    verbose, quiet = flags.pop("verbose", 0), flags.get("quiet")
    log.handlers[:] = [logging.StreamHandler()]
    log.setLevel(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)


def unknown_flag(words: list[str], parser: argparse.ArgumentParser, hint: str = "") -> UserError:
    """The error for words that `parser` left over: the first flag among them, with the real one
    nearest to it, or else with the hint."""
    word = next((w for w in words if w.startswith("-")), words[0]).split("=")[0]
    real = parser._option_string_actions  # argparse has no public list of flags
    if not word.startswith("-"):
        as_flag = "-o" in real and real["-o"].help != argparse.SUPPRESS
        named = f"; to write it, -o {word}" * as_flag
        return UserError(f"unexpected argument '{word}'{named} (see {parser.prog} --help)")
    names = {flag(w): flag(name) for w, name in NAMES.items() if flag(name) in real}
    # without dashes, which all have and which would make all alike
    bare = {o.lstrip("-"): offered for o, offered in (names | {o: o for o in real}).items()}
    hint = nearest(word.lstrip("-"), bare) or f"{hint} (see {parser.prog} --help)"
    return UserError(f"unknown flag '{word}'{hint}")


def values_of(name: str, words: list[str]) -> list:
    """A setting's values, checked, each once. `all`: the choices but those that stand for
    another."""
    f = FIELDS[name]
    if f.metadata["choices"] and "all" in words:
        return [c for c in f.metadata["choices"] if c not in ("auto", "same")]
    return list(
        dict.fromkeys(checked(name, from_text(kind(f), word), flag(name), FIELDS) for word in words)
    )
