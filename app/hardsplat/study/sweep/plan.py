"""Runs of a sweep: every combination of values, with a name and an identity of its settings; plans
of scenes and presets, see docs/guide/sweeping.md."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.base.version import __version__
from hardsplat.settings.option import checked, kind, nearest
from hardsplat.settings.presets import load_config, parsed
from hardsplat.settings.train import FIELDS, NAMES, TrainConfig, chosen_settings
from hardsplat.study.bench.axes import SWEPT, blending_of
from hardsplat.tables.gradients import REDUCTIONS

# where and how a run is made, not what it is
NOT_ITS_OWN = ("result_dir", "device", "quiet", "verbose", "profile", "resume", "ckpt")
# settings of which there may be several values
AXES = [
    name
    for name, f in FIELDS.items()
    if name not in ("data_dir", *NOT_ITS_OWN) and (f.metadata["choices"] or kind(f) in (int, float))
]
# settings whose values hold only where they are named
LEFT_TO_SCENES = ("near_plane",)
_NAME = 80  # characters of a folder's name that speak of its settings
_PLAIN = re.compile(r"[\w .-]+")  # of which files can be named


@dataclass(frozen=True)
class Arm:
    """Runs that have a preset and settings in common. axes: settings with several values. names: of
    the scene and the preset in a plan."""

    preset: str | None
    common: Mapping[str, Any]
    axes: Mapping[str, Sequence]
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepJob:
    """One run. varied: the names and settings that tell it from the others, and that its rasterizer
    knows. settings: all that matter, fit for JSON. named: those that the user named."""

    id: str
    name: str
    varied: dict[str, Any]
    settings: dict[str, Any]
    named: Sequence[str] = ()


def read_plan(path: Path, arm: Arm) -> list[Arm]:
    """Those of a plan, with the preset and settings of `arm` in the place of its own. Raises
    UserError for whatever is wrong with it."""
    found = parsed(path)
    scenes, presets = (_tables(path, found.pop(kind, {}), kind) for kind in ("scenes", "presets"))
    shared, arms = _values(f"{path}: ", found), []
    every = {n: own.pop("every", 1) for n, own in scenes.items()}
    settings = {n: _values(f"{path}: scenes.{n}.", own, True) for n, own in scenes.items()}
    if nowhere := next((name for name, own in settings.items() if "data_dir" not in own), None):
        raise UserError(f"{path}: scenes.{nowhere}: data_dir, its folder, is missing")
    for name, own in settings.items():
        own |= _thinned(f"{path}: scenes.{name}", own, every[name])
    for preset, own in presets.items():
        config, chosen = own.pop("config", None), own.pop("scenes", list(scenes))
        values = _values(f"{path}: presets.{preset}.", own)
        if not isinstance(config, str | None) or not isinstance(chosen, list):
            what = "config is a name or a file, and scenes are a list"
            raise UserError(f"{path}: presets.{preset}: {what}")
        for scene in chosen:
            if scene not in list(scenes):  # it may be anything
                raise UserError(f"{path}: presets.{preset}: there is no scene {scene}")
            whole = {**shared, **settings[scene], **values, **arm.common, **arm.axes}
            axes = {n: v for n, v in whole.items() if n in AXES and isinstance(v, list)}
            common = {n: v for n, v in whole.items() if n not in axes}
            names = {"scene": scene, "preset": preset}
            arms.append(Arm(arm.preset or config, common, axes, names))
    return arms


def _thinned(where: str, own: Mapping[str, Any], every: Any) -> dict[str, Any]:
    """The settings by which one of `every` training photographs of a scene is left."""
    if every == 1:
        return {}
    if type(every) is not int or every < 1 or "exclude" in own:
        raise UserError(f"{where}: every is a whole number, and does not go with exclude")
    from hardsplat.io.scenes.scene import load_scene  # takes numpy, which --help does without

    scene = load_scene(own["data_dir"], **TrainConfig.of(**own).scene.reading)
    names = [scene.views[i].name for i in scene.train]
    return {"exclude": tuple(name for i, name in enumerate(names) if i % every)}


def _tables(path: Path, found: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Those of a plan that are named [kind.NAME]."""
    tables = found if isinstance(found, dict) else {}
    if not tables or not all(isinstance(each, dict) for each in tables.values()):
        raise UserError(f"{path}: a plan has {kind}, each as [{kind}.NAME]")
    if odd := next((name for name in tables if not _PLAIN.fullmatch(name)), None):
        what = "files are named so: letters, digits, spaces, '.', '-' and '_' alone"
        raise UserError(f"{path}: {kind}.{odd!r}: {what}")
    return tables


def _values(where: str, values: Mapping[str, Any], of_scene: bool = False) -> dict[str, Any]:
    """Settings of a plan, checked; of axes lists where they have several values."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if name not in FIELDS:
            raise UserError(f"{where}{name}: there is no such setting{nearest(name, NAMES)}")
        if name in NOT_ITS_OWN or (name == "data_dir" and not of_scene):
            whose = "a scene's" if name == "data_dir" else "the command's, not a run's"
            raise UserError(f"{where}{name}: not here, since it is {whose}")
        several = value if name in AXES and isinstance(value, list) else [value]
        each = [checked(name, one, where + name, FIELDS) for one in several]
        out[name] = each if len(each) != 1 else each[0]
    return out


def plan(arms: Sequence[Arm]) -> list[SweepJob]:
    """A job for every combination of the axes; those that differ only in what the rasterizer does
    not know are one. Raises UserError like load_config."""
    jobs: dict[str, SweepJob] = {}
    for arm in arms:
        # seeds of one combination follow each other
        axes = {name: arm.axes[name] for name in sorted(arm.axes, key=lambda name: name == "seed")}
        for values in itertools.product(*axes.values()):
            given = {**arm.common, **dict(zip(axes, values))}
            loaded = load_config(arm.preset, given, sweep=True)
            config, named = _for_a_sweep(loaded, arm), sorted(loaded.typed)
            flat = chosen_settings(config.flat())
            row = REDUCTIONS.get(config.raster.hardware.reduction)
            if row is not None and not row.threshold:  # whose reduction has no threshold
                flat.pop("hybrid_threshold", None)
            settings = as_json(TrainConfig.of(**flat))
            varied = {**arm.names, **{name: flat[name] for name in axes if name in flat}}
            key = identity(settings, [name for name in named if name in LEFT_TO_SCENES])
            job = jobs.setdefault(key, SweepJob(key, _name(varied, key), varied, settings, named))
            if any(job.varied[n] != name for n, name in arm.names.items()):
                both = " and ".join(f"{v['preset']} on {v['scene']}" for v in (job.varied, varied))
                raise UserError(f"{both} are one run by two names: leave out one of the two")
    if not jobs:
        raise UserError("there is nothing to train: a setting has no value, or a preset no scene")
    return list(jobs.values())


def as_json(config: TrainConfig) -> dict[str, Any]:
    """All settings that matter, as JSON has them."""
    values = {name: value for name, value in config.flat().items() if name not in NOT_ITS_OWN}
    as_lists = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
    return {n: str(v) if isinstance(v, Path) else v for n, v in as_lists.items()}


def identity(settings: Mapping[str, Any], named: Sequence[str] = ()) -> str:
    """A hash of all settings and of the version. named: settings that a scene would choose."""
    all = json.dumps([__version__, settings, *named], sort_keys=True)
    return hashlib.sha256(all.encode()).hexdigest()[:10]


def _name(varied: Mapping[str, Any], key: str) -> str:
    words = "_".join(f"{name}-{value}" for name, value in varied.items()) or "run"
    return f"{words[:_NAME]}-{key}"


def _for_a_sweep(config: TrainConfig, arm: Arm) -> TrainConfig:
    """With quality measured at four points of the run and no files on its way, and but for a plan
    drawn by hardware, where settings name nothing else."""
    quarters = {max(1, config.run.max_steps * i // 4) for i in (1, 2, 3)}
    preferred: dict[str, Any] = {"save_steps": (), "checkpoint_every": 0, **blending_of(arm.axes)}
    preferred["eval_steps"] = tuple(sorted(quarters))
    if not arm.names:
        preferred["rasterizer"] = SWEPT
    flat = config.flat()
    unset = {n: v for n, v in preferred.items() if flat[n] == FIELDS[n].default}
    return config.changed(**unset)
