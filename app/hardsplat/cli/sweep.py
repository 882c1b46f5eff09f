"""`hardsplat sweep`."""

from pathlib import Path

from hardsplat.cli.flags import (
    METAVARS,
    add_groups,
    add_setting,
    default_text,
    flag,
    settings,
    values_of,
)
from hardsplat.cli.train import require_scene
from hardsplat.settings.option import kind
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import FIELDS, GROUPS, scene_folder
from hardsplat.study.bench.axes import SWEPT, blending_of

COMMON = (
    "max_steps",
    "data_factor",
    "test_every",
    "rasterizer",
    "format",
    "blending",
    "reduction",
    "strategy",
    "cap_max",
    "seed",
)
HELP = "train a scene with every combination of settings, and compare the results"
_OTHER = (
    "device",
    "result_dir",
    "data_dir",
    "resume",
    "ckpt",
    "quiet",
    "verbose",
    "profile",
)  # not settings of a run, or not of several
AXES = [
    name
    for name, f in FIELDS.items()
    if name not in _OTHER and (f.metadata["choices"] or kind(f) in (int, float))
]


def add_flags(parser):
    parser.usage = "%(prog)s SCENE [--flag value ...]"
    parser.epilog = (
        "Settings that are choices or numbers take one or more values, and every "
        "combination is trained; `all` stands for every choice. "
        "Where nothing has several values, all formats are compared. Formats are "
        "compared with --blending fixed."
    )
    parser.add_argument("scene", metavar="SCENE", help="scene folder, COLMAP or transforms.json")
    parser.add_argument(
        "--config",
        metavar="NAME|FILE.toml",
        help="preset from configs/, or a file of settings; flags win over it",
    )
    parser.add_argument(
        "--result-dir",
        metavar="PATH",
        help="folder for tables, plots and runs; runs that are done there are not made again "
        "(default: results/<scene name>_sweep)",
    )
    parser.add_argument(
        "--executor",
        choices=("local", "dask"),
        help="local: one run after another; dask: on the workers of a Dask cluster (default: "
        "local)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="dask: of a running cluster, whose workers see the same files (default: a "
        "cluster of this machine)",
    )
    parser.add_argument(
        "--device",
        metavar="INDEX|NAME",
        nargs="+",
        help="Vulkan device; with --executor dask one or more, each with a worker of its own",
    )
    add_setting(parser, "quiet")
    add_groups(
        parser,
        {title: [f for f in fields if f.name not in _OTHER] for title, fields in GROUPS.items()},
        COMMON,
        _add,
    )


def _add(group, f):
    """A setting's flag; an axis takes one or more values."""
    if f.name not in AXES:
        return add_setting(group, f.name)
    choices = f.metadata["choices"]
    help = (
        f"{f.metadata['help']}{': ' + ', '.join(choices) if choices else ''} (default: "
        f"{SWEPT if f.name == 'rasterizer' else default_text(f)})"
    ).replace("%", "%%")
    group.add_argument(
        flag(f.name), nargs="+", metavar="NAME" if choices else METAVARS[kind(f)], help=help
    )


def handle(flags):
    preset = flags.pop("config", None)
    devices = flags.pop("device", [])
    how = {name: flags.pop(name) for name in ("executor", "scheduler", "quiet") if name in flags}
    result_dir = flags.pop("result_dir", None)
    values = {name: values_of(name, flags.pop(name)) for name in AXES if name in flags}
    axes = {name: several for name, several in values.items() if len(several) > 1}
    if not axes and "format" not in values:
        axes = {"format": values_of("format", ["all"])}
    common = settings({"data_dir": flags.pop("scene"), **flags}) | {
        name: several[0] for name, several in values.items() if name not in axes
    }
    config = load_config(preset, common)
    if config.blending == "auto":
        common |= blending_of(axes)
    require_scene(config)
    from hardsplat.study.sweep.sweep import sweep

    folder = (
        Path(result_dir).expanduser()
        if result_dir
        else Path("results") / f"{scene_folder(config.data_dir).name}_sweep"
    )
    records = sweep(
        preset,
        common,
        axes,
        folder,
        devices=[devices] if isinstance(devices, str) else devices,
        **how,
    )
    return int(any(r["status"] == "failed" for r in records))
