"""Runs of a sweep: every combination of values, with a name and an identity of its settings."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsplat.settings.presets import load_config
from hardsplat.settings.train import FIELDS, TrainConfig, looked_at
from hardsplat.study.bench.axes import SWEPT
from hardsplat.tables.reductions import REDUCTIONS

# where and how a run is made, not what it is
NOT_ITS_OWN = ("result_dir", "device", "quiet", "verbose", "profile", "resume", "ckpt")
_NAME = 80  # characters of a folder's name that speak of its settings


@dataclass(frozen=True)
class SweepJob:
    """One run. varied: the settings that tell it from the others and that its rasterizer knows.
    settings: all that matter, fit for JSON."""

    id: str
    name: str
    varied: dict[str, Any]
    settings: dict[str, Any]


def plan(
    preset: str | None, common: Mapping[str, Any], axes: Mapping[str, Sequence]
) -> list[SweepJob]:
    """A job for every combination of the axes; those that differ only in what the rasterizer does
    not know are one. Raises UserError like load_config."""
    jobs: dict[str, SweepJob] = {}
    # seeds of one combination follow each other
    axes = {name: axes[name] for name in sorted(axes, key=lambda name: name == "seed")}
    for values in itertools.product(*axes.values()):
        given = {**common, **dict(zip(axes, values))}
        config = _for_a_sweep(load_config(preset, given, sweep=True))
        flat = looked_at(config.flat())
        row = REDUCTIONS.get(config.raster.hardware.reduction)
        if row is not None and "THRESHOLD" not in row.spec:  # whose reduction has no threshold
            flat.pop("hybrid_threshold", None)
        config = TrainConfig.of(**flat)
        settings = as_json(config)
        varied = {name: flat[name] for name in axes if name in flat}
        key = identity(settings)
        jobs.setdefault(key, SweepJob(key, _name(varied, key), varied, settings))
    return list(jobs.values())


def as_json(config: TrainConfig) -> dict[str, Any]:
    """All settings that matter, as JSON has them."""
    values = {name: value for name, value in config.flat().items() if name not in NOT_ITS_OWN}
    return {n: str(v) if isinstance(v, Path) else listed(v) for n, v in values.items()}


def listed(value):
    """A setting's value as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def identity(settings: Mapping[str, Any]) -> str:
    """A hash of the settings that are not defaults: a new setting leaves that of earlier runs."""
    named = {n: value for n, value in settings.items() if value != listed(FIELDS[n].default)}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:10]


def _name(varied: Mapping[str, Any], key: str) -> str:
    words = "_".join(f"{name}-{value}" for name, value in varied.items()) or "run"
    return f"{words[:_NAME]}-{key}"


def _for_a_sweep(config: TrainConfig) -> TrainConfig:
    """Drawn by hardware, with quality measured at four points of the run and no files on its way,
    where settings name nothing else."""
    quarters = {max(1, config.run.max_steps * i // 4) for i in (1, 2, 3)}
    preferred = dict(save_steps=(), checkpoint_every=0, rasterizer=SWEPT)
    preferred["eval_steps"] = tuple(sorted(quarters))
    flat = config.flat()
    unset = {n: v for n, v in preferred.items() if flat[n] == FIELDS[n].default}
    return config.changed(**unset)
