"""`hardsplat sweep`."""

from pathlib import Path

from hardsplat.cli.flags import add_axis, add_groups, add_setting, settings, values_of
from hardsplat.cli.train import require_scene
from hardsplat.settings.option import kind
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import FIELDS, GROUPS, scene_folder
from hardsplat.study.bench.axes import SWEPT, blending_of

COMMON = (
    "max_steps data_factor test_every rasterizer format blending reduction strategy cap_max seed"
).split()
EPILOG = (
    "Settings that are choices or numbers take one or more values, and every combination is "
    "trained; `all` means every choice. Where nothing has several values, all formats are "
    "compared. Formats are compared with --blending fixed."
)
# not settings of a run, or not of several
_OTHER = "device result_dir data_dir resume ckpt quiet verbose profile".split()
AXES = [
    name
    for name, f in FIELDS.items()
    if name not in _OTHER and (f.metadata["choices"] or kind(f) in (int, float))
]


def add_settings(parser):
    groups = {title: [f for f in some if f.name not in _OTHER] for title, some in GROUPS.items()}
    add_groups(parser, groups, COMMON, _add)


def _add(group, name):
    """A setting's flag; an axis takes one or more values."""
    if name in AXES:
        add_axis(group, name, SWEPT if name == "rasterizer" else "")
    else:
        add_setting(group, name)


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
    if config.raster.hardware.blending == "auto":
        common |= blending_of(axes)
    require_scene(config)
    from hardsplat.study.sweep.sweep import sweep

    name = f"{scene_folder(config.scene.data_dir).name}_sweep"
    folder = Path(result_dir).expanduser() if result_dir else Path("results") / name
    devices = [devices] if isinstance(devices, str) else devices
    records = sweep(preset, common, axes, folder, devices=devices, **how)
    return int(any(r["status"] == "failed" for r in records))
