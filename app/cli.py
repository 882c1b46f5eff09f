"""The `hardsplat` command. A subcommand is one row of COMMANDS: its flags and its handler.

Handlers import what they run, so that help and mistyped flags answer at once and need no Vulkan.
"""

import argparse
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import NamedTuple

from app import __version__
from app.config import FIELDS, GROUPS, NAMES, checked, kind, nearest
from app.errors import UserError
from app.presets import SAVED_NAME, load_config


class Parser(argparse.ArgumentParser):
    """Raises UserError where argparse would print its usage and exit; takes no abbreviated flags."""

    def __init__(self, **settings):
        super().__init__(allow_abbrev=False, argument_default=argparse.SUPPRESS, formatter_class=_Help, **settings)

    def error(self, message):
        raise UserError(f"{message} (see {self.prog} --help)")


class _Help(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=32)


class Command(NamedTuple):
    help: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    handle: Callable[[dict], int | None]  # the flags that were given -> exit code, None for 0


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 2 bad input or an unfit machine, 130 interrupted, 143 terminated."""
    try:
        flags = _parsed(sys.argv[1:] if argv is None else argv)
        return COMMANDS[flags.pop("command")].handle(flags) or 0
    except UserError as error:
        if os.environ.get("HARDSPLAT_DEBUG", "0") != "0":
            raise
        print(f"hardsplat: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        print("hardsplat: terminated" if number == signal.SIGTERM else "hardsplat: interrupted", file=sys.stderr)
        return 128 + number
    finally:
        if argv is None:  # a program that is about to end: a late Ctrl-C must not replace its exit code
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _parsed(argv: list[str]) -> dict:
    """The flags given in argv (and HARDSPLAT_DEVICE), with `command`."""
    parser = Parser(prog="hardsplat", description="Train 3D Gaussian Splatting scenes on any Vulkan GPU.")
    parser.add_argument("--version", action="version", version=f"hardsplat {__version__}")
    _add_setting(parser, "device")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands = {}
    for name, command in COMMANDS.items():
        commands[name] = subparsers.add_parser(name, help=command.help, description=command.help[0].upper() + command.help[1:] + ".")
        command.add_flags(commands[name])

    known, unknown = parser.parse_known_args(_dashed(argv))
    flags = vars(known)
    if unknown:
        raise _unknown(unknown, commands[known.command])
    if device := os.environ.get("HARDSPLAT_DEVICE"):
        flags.setdefault("device", device)
    return flags


def _unknown(words: list[str], parser: argparse.ArgumentParser) -> UserError:
    """The error for words that `parser` left over: the first flag among them, with the real one nearest to it."""
    word = next((w for w in words if w.startswith("-")), words[0]).split("=")[0]
    if not word.startswith("-"):
        return UserError(f"unexpected argument '{word}' (see {parser.prog} --help)")
    real = parser._option_string_actions  # argparse has no public list of flags
    names = {_flag(w): _flag(name) for w, name in NAMES.items() if _flag(name) in real} | {o: o for o in real}
    return UserError(f"unknown flag '{word}'{nearest(word, names) or f' (see {parser.prog} --help)'}")


def _dashed(argv: list[str]) -> list[str]:
    """argv with `--like_this` spelled `--like-this`; what follows `=` or a lone `--` stays."""
    end = argv.index("--") if "--" in argv else len(argv)
    return [re.sub("^--[^=]+", lambda flag: flag[0].replace("_", "-"), word) for word in argv[:end]] + argv[end:]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


_METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH", tuple[int, ...]: "N"}


def _add_setting(parser, name: str) -> None:
    """The flag of one setting of TrainConfig. Values stay text, or a list of it, until `_settings` checks them."""
    f = FIELDS[name]
    help = f"{f.metadata['help']} (default: {_default(f)})".replace("%", "%%")
    if kind(f) is bool:
        parser.add_argument(_flag(name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=help)
    else:
        metavar = "{%s}" % ",".join(choices) if (choices := f.metadata["choices"]) else _METAVARS[kind(f)]
        parser.add_argument(_flag(name), nargs="*" if kind(f) == tuple[int, ...] else None, metavar=metavar, help=help)


def _default(f: Field) -> str:
    if kind(f) is bool:
        return "yes" if f.default else "no"
    if f.metadata["shown"]:
        return f.metadata["shown"]
    values = f.default if isinstance(f.default, tuple) else [f.default]
    return " ".join([*map(str, values), f.metadata["unit"]]).strip()


def _settings(flags: dict) -> dict:
    """Flags of TrainConfig as checked values; an error names the flag."""
    return {name: checked(name, _from_text(kind(FIELDS[name]), value), _flag(name)) for name, value in flags.items()}


def _from_text(kind, text):
    """The number(s) in `text`; whatever else it is, unchanged."""
    try:
        if kind in (int, float):
            return kind(text)
        if kind == tuple[int, ...]:
            return [int(word) for words in text for word in words.split(",")]
    except ValueError:
        pass  # `checked` says what was expected
    return text


def _show_log(verbose: bool = False, quiet: bool = False) -> None:
    """What the program says on its way, on stderr."""
    log = logging.getLogger("hardsplat")
    log.handlers[:] = [logging.StreamHandler()]
    log.setLevel(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)


def _add_train(parser):
    parser.usage = "%(prog)s SCENE [--flag value ...]"  # all sixty would bury it
    parser.add_argument("scene", nargs="?", metavar="SCENE", help="scene folder, COLMAP or transforms.json; same as --data-dir")
    parser.add_argument("--config", metavar="NAME|FILE.toml", help="preset from configs/, or a file of settings; flags win over it")
    for colour in ("random", "white"):
        parser.add_argument(f"--{colour}-background", dest="background", action="store_const", const=colour, help=f"same as --background {colour}")
    for title, fields in GROUPS.items():
        group = parser.add_argument_group(title)
        for f in fields:
            _add_setting(group, f.name)


def _train(flags):
    preset = flags.pop("config", None)
    if "scene" in flags:
        if "data_dir" in flags:
            raise UserError("the scene is given twice: as SCENE and as --data-dir")
        flags["data_dir"] = flags.pop("scene")
    config = load_config(preset, _settings(flags))
    if config.data_dir is None:
        raise UserError("no scene given: hardsplat train SCENE, a folder with images/ and sparse/0/, or with transforms.json")
    if not config.data_dir.exists():
        raise UserError(f"scene {config.data_dir} does not exist")
    is_scene = any((config.data_dir / name).exists() for name in ("sparse", "images", "transforms.json", "transforms_train.json"))
    if not (config.resume or is_scene) and (config.data_dir / SAVED_NAME).is_file():
        raise UserError(f"{config.data_dir}: this is a result folder; add --resume to go on with it, or give its scene")
    from app.train.trainer import train

    _show_log(config.verbose, config.quiet)
    train(config)


def _add_eval(parser):
    parser.add_argument("result", metavar="RESULT", help="result folder of a training, or a PLY")
    parser.add_argument("--data-dir", metavar="PATH", help="scene to compare with (default: the one trained on)")
    parser.add_argument("--result-dir", metavar="PATH", help="folder for the measurements (default: beside RESULT)")
    _add_setting(parser, "device")
    _add_setting(parser, "verbose")


def _eval(flags):
    from app.train.evaluate import evaluate_run

    _show_log(flags.pop("verbose", False))
    evaluate_run(flags.pop("result"), **flags)


_BENCH_AXES = ("format", "state_format", "blending", "reduction", "hybrid_threshold", "ordering", "atomics", "block", "shape", "segments", "tile_backward", "tile_threshold", "rasterizer")


def _add_bench(parser):
    parser.usage = "%(prog)s MODEL --data-dir SCENE [--flag value ...]"
    parser.add_argument("model", metavar="MODEL", help="splats to draw: .ply, or .npz with gsplat's parameter names")
    parser.add_argument("--data-dir", metavar="PATH", required=True, help="scene whose cameras (and photographs, for --upstream loss) are used")
    parser.add_argument("--result-dir", metavar="PATH", help="folder for bench.json, bench.md and plots (default: print only)")
    parser.add_argument("--views", metavar="N", nargs="+", type=int, help="views by position in the sorted photographs (default: 8, evenly spaced)")
    parser.add_argument("--data-factor", metavar="N", help="draw images this many times smaller (default: 1)")
    parser.add_argument("--splats", metavar="X", nargs="+", type=float, help="sizes of the model: up to 100 as a multiple of it, above as a number of splats; "
        "random subsets, and jittered copies above its size (default: 1)")
    parser.add_argument("--upstream", choices=("random", "loss"), help="gradients of the image: uniform random, or of L1 + D-SSIM (default: random)")
    parser.add_argument("--repeats", metavar="N", type=int, help="draws of every view that are timed (default: 5)")
    parser.add_argument("--errors", action="store_true", default=argparse.SUPPRESS, help="also measure gradients against a float32 target")
    parser.add_argument("--error-views", choices=("first", "all"), help="views that --errors takes (default: first)")
    _add_setting(parser, "device")
    _add_setting(parser, "quiet")
    _add_setting(parser, "verbose")
    group = parser.add_argument_group("variants", "One or more values each; every combination is measured.")
    for name in _BENCH_AXES:
        f = FIELDS[name]
        choices = f.metadata["choices"]
        help = f"{f.metadata['help']}{': ' + ', '.join(choices) if choices else ''} (default: {_default(f)})".replace("%", "%%")
        group.add_argument(_flag(name), nargs="+", metavar="NAME" if choices else _METAVARS[kind(f)], help=help)


def _bench(flags):
    for name in _BENCH_AXES:
        if name in flags:
            values = [checked(name, _from_text(kind(FIELDS[name]), v), where=_flag(name)) for v in flags[name]]
            flags[name] = list(dict.fromkeys(values))
    if "data_factor" in flags:
        flags |= _settings({"data_factor": flags["data_factor"]})
    from app.study.bench import bench

    _show_log(flags.pop("verbose", False), flags.get("quiet", False))
    bench(flags.pop("model"), **flags)


def _add_doctor(parser):
    _add_setting(parser, "device")


def _doctor(flags):
    from app.doctor import report

    text, exit_code = report(**flags)
    print(text)
    return exit_code


COMMANDS = {
    "train": Command("train a scene", _add_train, _train),
    "eval": Command("measure PSNR and SSIM of a result on the held-out views", _add_eval, _eval),
    "bench": Command("time every stage of drawing a model, forward and backward, for the variants asked for", _add_bench, _bench),
    "doctor": Command("show the Vulkan devices and which variants run on them", _add_doctor, _doctor),
}
