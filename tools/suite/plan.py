"""What a suite trains: a TOML file of scenes and presets.

    seeds = [1, 2, 3]

    [scenes.lego]                 # a folder of that name below --data; `folder` names another
    every = 3                     # every third training photograph alone
    altered = true                # photographs of other light, see tools.suite.lane
    target = 35.0                 # dB, of "seconds until"
    settings = { background = "white", cap_max = 300_000 }
    anchors = { gsplat = [[34.7, 29.45], [184.6, 30.96]] }    # another trainer's seconds and dB,
        for the plots

    [presets.fast]                # settings by name, over those of the scene
    config = "fast"               # a preset of configs/ or a TOML file, below the scene's settings
    max_steps = 12_000

    [presets.bold]
    base = "fast"                 # whatever it does not say itself
    scenes = ["lego"]             # by default all; so seeds, by default those of the plan
    of.lego = { cap_max = 500_000 }

Runs come seed by seed, then in the order of the presets, then of the scenes: whatever is there
early is a table of all with one seed.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.settings.option import check_known
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import NAMES, TrainConfig

_OWN = ("base", "config", "scenes", "seeds", "of")  # keys of a preset that are no settings


@dataclass(frozen=True)
class Run:
    """One training. overrides: settings over those of the preset file `config`, where there is
    one."""

    preset: str
    scene: str
    seed: int
    config: str | None
    overrides: dict[str, Any] = field(hash=False)

    @property
    def key(self) -> str:
        """Name of the run: it changes with whatever it trains."""
        told = json.dumps([self.config, self.overrides], sort_keys=True)
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        return f"{self.preset}-{self.scene}-{self.seed}-{digest}"

    def settings(self, folder: Path, result: Path) -> TrainConfig:
        """folder: of the scene. result: for what the training writes."""
        return load_config(
            self.config,
            {
                **self.overrides,
                "seed": self.seed,
                "data_dir": folder,
                "result_dir": result,
                "quiet": True,
                "save_steps": (),
                "checkpoint_every": 0,
            },
        )


@dataclass(frozen=True)
class Anchor:
    """What another trainer reached: (seconds of training, held-out PSNR in dB)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Plan:
    """folders: of the scenes, below that of all data. every: training photographs of a scene from
    one that is taken to the next. altered: scenes whose photographs get other light. targets: dB by
    scene, where there is one. anchors: of other trainers, by scene."""

    runs: list[Run]
    folders: dict[str, str]
    every: dict[str, int]
    altered: set[str]
    targets: dict[str, float]
    anchors: dict[str, list[Anchor]]


def read_plan(path: Path) -> Plan:
    """Reads and checks a plan. UserError for whatever is wrong with it."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the plan {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path}: not a valid TOML file: {error}") from None
    scenes = found.get("scenes", {})
    presets = found.get("presets", {})
    seeds = found.get("seeds", [42])
    if not scenes or not presets:
        raise UserError(
            f"{path}: a plan has scenes and presets, as [scenes.NAME] and [presets.NAME]"
        )
    runs: list[Run] = []
    for name in presets:
        preset = _whole(path, presets, name)
        settings = {key: value for key, value in preset.items() if key not in _OWN}
        for seed in preset.get("seeds", seeds):
            for scene in preset.get("scenes", list(scenes)):
                if scene not in scenes:
                    raise UserError(
                        f"{path}: preset {name} asks for scene {scene}, which the plan "
                        "does not have"
                    )
                overrides = {
                    **scenes[scene].get("settings", {}),
                    **settings,
                    **preset.get("of", {}).get(scene, {}),
                }
                check_known(overrides, NAMES)
                runs.append(Run(name, scene, seed, preset.get("config"), overrides))
    anchors = {
        s: [
            Anchor(name, tuple((float(t), float(db)) for t, db in points))
            for name, points in v.get("anchors", {}).items()
        ]
        for s, v in scenes.items()
    }
    first = list(dict.fromkeys(run.seed for run in runs))
    runs.sort(key=lambda run: first.index(run.seed))
    return Plan(
        runs,
        {s: v.get("folder", s) for s, v in scenes.items()},
        {s: v.get("every", 1) for s, v in scenes.items()},
        {s for s, v in scenes.items() if v.get("altered")},
        {s: v["target"] for s, v in scenes.items() if "target" in v},
        anchors,
    )


def _whole(path: Path, presets: dict[str, dict], name: str, above: tuple[str, ...] = ()) -> dict:
    """A preset over those that it is based on."""
    if name not in presets or name in above:
        raise UserError(
            f"{path}: preset {above[-1] if above else name} is based on {name}, which "
            f"{'is based on it' if name in above else 'the plan does not have'}"
        )
    preset = presets[name]
    base = preset.get("base")
    if base is None:
        return preset
    below = _whole(path, presets, base, (*above, name))
    of = {
        s: {**below.get("of", {}).get(s, {}), **preset.get("of", {}).get(s, {})}
        for s in (*below.get("of", {}), *preset.get("of", {}))
    }
    return {**below, **preset, "of": of}
