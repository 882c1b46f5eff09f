"""Settings as TOML: presets by name, and the file saved with a result. The settings themselves are
in `train.py`."""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, replace
from functools import cache
from pathlib import Path
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.base.paths import CONFIGS as PRESETS
from hardsplat.base.version import __version__
from hardsplat.settings.option import checked, flag, nearest
from hardsplat.settings.train import (
    FIELDS,
    GROUPS,
    NAMES,
    TrainConfig,
    check_deterministic,
    check_owners,
    chosen_settings,
)

MEANT = ("data_factor",)  # whose default a user's own file names on purpose
WITH_PRESETS = ("adaptive", "mcmc")  # strategies whose defaults are in files of these names
GROWTHS, LEAST_EVERY = 10, 10  # refinements of a short run, and steps from one to the next
SAVED_NAME = "config.toml"  # the resolved settings inside a result folder


def load_config(
    preset: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    sweep: bool = False,
) -> TrainConfig:
    """Defaults, then the preset (a name in configs/ or a .toml path), then overrides (flags); the
    last one wins.

    A strategy of WITH_PRESETS has the values of its preset as its defaults; so have stochastic
    gradients. Settings that are steps of a run (`scales`) stretch with max_steps, but for those
    that `overrides` name: each belongs to the max_steps of where it stands. Where one of them is
    named, or max_steps, the length of the run is meant: photographs do not shorten it (early_stop
    is off, unless it is named there too). With `resume` and no preset, the settings saved in the
    result folder take the preset's place. Without a result folder one is named after the scene.
    Settings whose owner the run does not choose are left at their defaults. UserError where flags
    or a user's own file name them, but for a sweep; UserError for all that is unknown, mistyped or
    out of range.
    """
    flags = dict(overrides or {})
    values, layers = dict(flags), []  # layers: from the highest to the lowest
    named = {name: flag(name) for name in flags}
    resumed = values.get("resume") and not preset
    if resumed:
        values = _continued(values)
    elif preset:
        file = _find_preset(preset)
        layers.append(read_saved(file) if file.name == SAVED_NAME else read_settings(file))
        if file.parent != PRESETS and file.name != SAVED_NAME:
            file_names = layers[0].items()
            own = [n for n, value in file_names if n in MEANT or value != FIELDS[n].default]
            named = {name: f"{file}: {name}" for name in own} | named
    if _first("gradient", values, *layers) == "stochastic":  # whose noise wants other rates
        layers.append(read_settings(PRESETS / "stochastic.toml"))
    strategy = _first("strategy", values, *layers)
    if strategy in WITH_PRESETS:  # whose settings belong together
        layers.append(read_settings(PRESETS / f"{strategy}.toml"))
    lengths = {"early_stop", "max_steps", *_steps()}
    meant = next((each for each in (flags, *layers) if lengths & each.keys()), {"early_stop"})
    if "early_stop" not in meant:
        values["early_stop"] = False
    flat = TrainConfig.of(**(values if resumed else _stretched(values, layers))).flat()
    if not sweep:
        check_owners(named, flat)
    if flat["data_dir"] is not None:  # so that the saved file holds from any folder
        folder = flat["data_dir"] = Path(os.path.abspath(flat["data_dir"]))
        flat["result_dir"] = flat["result_dir"] or _default_result_dir(folder)
    config = replace(TrainConfig.of(**chosen_settings(flat)), typed=frozenset(named))
    config.check_gradient()
    if config.run.deterministic:
        check_deterministic(flags)  # a flag may name a default, which the config alone cannot tell
    return config


def _first(name: str, *layers: Mapping[str, Any]) -> Any:
    """The value in the first layer that names the setting, None where none does."""
    return next((layer[name] for layer in layers if name in layer), None)


def _stretched(overrides: Mapping[str, Any], layers: list[dict[str, Any]]) -> dict[str, Any]:
    """All layers, the first one on top, and `overrides` over them. Steps that a layer names, or the
    defaults, are those of a run of the max_steps below it."""
    default = {name: FIELDS[name].default for name in _steps()}
    values: dict[str, Any] = {}
    steps = {name: (value, FIELDS["max_steps"].default) for name, value in default.items()}
    length = FIELDS["max_steps"].default
    for layer in reversed(layers):
        length = layer.get("max_steps", length)
        values |= layer
        steps |= {name: (layer[name], length) for name in default if name in layer}
    length = checked("max_steps", overrides.get("max_steps", length), "max_steps", FIELDS)
    for name, (value, of) in steps.items():
        if value and of != length:
            values[name] = _at_length(name, value, length / of)
    return _dense(values | dict(overrides), overrides)


def _dense(values: dict[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that is too short for GROWTHS refinements, with as many, unless
    something of that is named."""
    names = ("refine_start_iter", "refine_stop_iter", "refine_every")
    start, stop, every = (values.get(name, FIELDS[name].default) for name in names)
    if any(name in named for name in names) or stop >= GROWTHS * every:
        return values
    start = min(start, stop // 4)
    every = min(every, max((stop - start) // GROWTHS, LEAST_EVERY))
    return values | {"refine_start_iter": start, "refine_every": every}


def of_length(config: TrainConfig, steps: int, **changes: Any) -> TrainConfig:
    """The settings of a run that is to have so many steps in all instead of its own, with its
    schedules as a run of that length has them. changes: other settings by name."""
    flat, factor = config.flat(), steps / config.run.max_steps
    stretched = {name: _at_length(name, flat[name], factor) for name in _steps()}
    return TrainConfig.of(**flat | stretched | {"max_steps": steps} | changes)


def _steps() -> list[str]:
    return [name for name, f in FIELDS.items() if f.metadata["scales"] is not None]


def _at_length(name: str, value: Any, factor: float) -> int:
    """A step of a run that becomes so many times as long."""
    earliest = min(value, FIELDS[name].metadata["scales"])
    return max(round(value * factor), earliest) if value else value


def config_from_file(path: str | Path) -> TrainConfig:
    """The settings saved by `save_config`, exactly."""
    return TrainConfig.of(**read_saved(Path(path)))


def save_config(settings: Mapping[str, Any], path: str | Path) -> None:
    """Write settings of a training by name as TOML that `config_from_file` and `--config` read
    back, but for those whose owner is not chosen."""
    save_settings(chosen_settings(settings), path, GROUPS, "train")


def save_settings(
    values: Mapping[str, Any],
    path: str | Path,
    groups: Mapping[str, tuple[Field, ...]],
    command: str,
) -> None:
    """Write settings by name as TOML, without those that are unset (None). groups: of a command."""
    repeat = f"Repeat it: hardsplat {command} --config THIS_FILE"
    lines = [f"# hardsplat {__version__}: settings of this run, resolved. {repeat}"]
    for title, group in groups.items():
        named = [f.name for f in group if values.get(f.name) is not None]
        lines += ["", f"# {title}"] if named else []
        lines += [f"{name} = {_toml(values[name])}" for name in named]
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UserError(f"cannot write {path}: {error}") from None


def _toml(value) -> str:
    # JSON's spelling of bools, numbers, lists and strings is TOML's too, but for one control
    # character.
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def read_settings(
    path: Path, known: Mapping[str, Field] = FIELDS, names: Mapping[str, str] = NAMES
) -> dict[str, Any]:
    """The settings of a TOML file, checked one by one so that an error names the file. known,
    names: as FIELDS and NAMES, of another command."""
    values = parsed(path)
    for name in values:
        if name not in known:
            raise UserError(f"{path}: unknown key '{name}'{nearest(name, names)}")
    return {name: checked(name, value, f"{path}: {name}", known) for name, value in values.items()}


def read_saved(path: Path) -> dict[str, Any]:
    """The settings that a run saved. Those that an older version had, and choices of that version
    that are none any more, are left out with a note."""
    values = parsed(path)
    known = {name: value for name, value in values.items() if _is_known(name, value)}
    if dropped := [f"{name} = {_toml(v)}" for name, v in values.items() if name not in known]:
        _note_once(f"note: {path}: of an older version, and left out: {', '.join(dropped)}")
    return {name: checked(name, v, f"{path}: {name}", FIELDS) for name, v in known.items()}


def _is_known(name: str, value: Any) -> bool:
    choices = FIELDS[name].metadata["choices"] if name in FIELDS else ()
    return name in FIELDS and not (choices and isinstance(value, str) and value not in choices)


@cache
def _note_once(note: str) -> None:
    print(note)


def parsed(path: Path) -> dict[str, Any]:
    """A TOML file. Raises UserError where it is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read settings from {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # bad TOML or bad UTF-8
        raise UserError(f"{path}: not a valid TOML file: {error}") from None


def _find_preset(preset: str | Path) -> Path:
    path = Path(preset)
    if path.suffix or len(path.parts) > 1:
        return path.expanduser()
    names = sorted(file.stem for file in PRESETS.glob("*.toml"))
    if path.name not in names:
        known = f"there are: {', '.join(names)}; a file's name ends in .toml"
        close = nearest(path.name, {name: name for name in names})
        raise UserError(f"no preset '{preset}' ({known}){close}")
    return PRESETS / f"{preset}.toml"


def _default_result_dir(data_dir: Path) -> Path:
    return Path("results") / os.path.basename(os.path.abspath(data_dir))


def _continued(flags: dict[str, Any]) -> dict[str, Any]:
    """`flags` over the settings saved by the run to resume. Its result folder may stand where the
    scene would."""
    flags = dict(flags)
    scene = flags.get("data_dir")
    if scene and "result_dir" not in flags:
        is_result = (Path(scene) / SAVED_NAME).is_file()
        flags["result_dir"] = flags.pop("data_dir") if is_result else _default_result_dir(scene)
    if "result_dir" not in flags:
        raise UserError(
            "nothing to resume: name the result folder, hardsplat train RESULT --resume"
        )
    saved = Path(flags["result_dir"]) / SAVED_NAME
    values = read_saved(saved) if saved.is_file() else {}
    values.pop("ckpt", None)  # where that run started, not where it got to
    return values | flags
