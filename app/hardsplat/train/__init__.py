# ruff: noqa: F401  (names of other modules, for type checkers)
"""Training of scenes. `hardsplat.train(scene, **settings)` is app/hardsplat/train/api.py.

Rooms above import the names below from here alone; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardsplat.base.callables import make_callable

if TYPE_CHECKING:
    from hardsplat.train.api import load_result, train
    from hardsplat.train.features import FEATURES, variants
    from hardsplat.train.features.exposure import EXPOSURES_FILE
    from hardsplat.train.features.feature import Feature
    from hardsplat.train.features.intrinsics import INTRINSICS_FILE, load_intrinsics
    from hardsplat.train.features.poses import focused_scene, moved
    from hardsplat.train.job.facts import DeviceFacts, Facts, ScenePart, Views
    from hardsplat.train.job.job import decide
    from hardsplat.train.job.schedule import Averaging
    from hardsplat.train.measure.command import evaluate_run
    from hardsplat.train.run.photographs import PhotographLoader
    from hardsplat.train.run.start import initial_gaussians, size_notes
    from hardsplat.train.run.trainer import run_training
    from hardsplat.train.session.session import Session
    from hardsplat.train.step.resort import resort_passes
    from hardsplat.train.strategies import STRATEGIES
    from hardsplat.train.strategies.budget import budget_for
    from hardsplat.train.watchers.watch import Running, Watcher

_HOME = {  # module -> public names
    "api": "load_result train",
    "features": "FEATURES variants",
    "features.exposure": "EXPOSURES_FILE",
    "features.feature": "Feature",
    "features.intrinsics": "INTRINSICS_FILE load_intrinsics",
    "features.poses": "focused_scene moved",
    "job.facts": "DeviceFacts Facts ScenePart Views",
    "job.job": "decide",
    "job.schedule": "Averaging",
    "measure.command": "evaluate_run",
    "run.start": "initial_gaussians size_notes",
    "run.photographs": "PhotographLoader",
    "run.trainer": "run_training",
    "session.session": "Session",
    "step.resort": "resort_passes",
    "strategies": "STRATEGIES",
    "strategies.budget": "budget_for",
    "watchers.watch": "Running Watcher",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


make_callable(__name__, "hardsplat.train.api:train")
