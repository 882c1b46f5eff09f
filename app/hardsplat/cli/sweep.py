"""`hardsplat sweep`."""

from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import add_axis, add_groups, add_setting, settings, values_of
from hardsplat.cli.train import require_scene
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import GROUPS
from hardsplat.study.bench.axes import SWEPT
from hardsplat.study.sweep.plan import AXES, Arm, read_plan

COMMON = (
    "max_steps data_factor test_every rasterizer format blending reduction strategy cap_max seed"
).split()
EPILOG = (
    "Settings that are choices or numbers take one or more values, and every combination is "
    "trained; `all` means every choice. Where nothing of a scene has several values, all formats "
    "are compared. Formats are compared with --blending fixed."
)
# not settings of a run, or not of several
_OTHER = "device result_dir data_dir resume ckpt quiet verbose profile".split()


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
    preset, scene = flags.pop("config", None), Path(flags.pop("scene"))
    devices, scheduler = flags.pop("device", []), flags.pop("scheduler", None)
    if scheduler and isinstance(devices, list) and devices:  # not of HARDSPLAT_DEVICE
        what = "each worker of --scheduler has its own; leave it out"
        raise UserError(f"--device {' '.join(devices)}: {what}")
    quiet, result_dir = flags.pop("quiet", False), flags.pop("result_dir", None)
    planned = scene.suffix == ".toml"
    values = {name: values_of(name, flags.pop(name)) for name in AXES if name in flags}
    axes = {name: several for name, several in values.items() if len(several) > 1}
    if not planned and not axes and "format" not in values:
        axes = {"format": values_of("format", ["all"])}
    common = settings(flags if planned else {"data_dir": scene, **flags})
    common |= {name: several[0] for name, several in values.items() if name not in axes}
    arms = [Arm(preset, common, axes)]
    if planned:
        arms = read_plan(scene, arms[0])
    for arm in arms:
        require_scene(load_config(arm.preset, arm.common, sweep=planned))
    from hardsplat.study.sweep.sweep import sweep

    name = scene.stem if planned else Path(arms[0].common["data_dir"]).resolve().name
    folder = Path(result_dir).expanduser() if result_dir else Path("results") / f"{name}_sweep"
    devices = [devices] if isinstance(devices, str) else devices
    records = sweep(arms, folder, devices, scheduler, quiet)
    return int(any(r["status"] == "failed" for r in records))
