"""Packages that are functions of the Python API too: `hardsplat.train` holds the training, and
`hardsplat.train(...)` trains.

Importing a module of a package makes the package an attribute of `hardsplat`, which would hide a
function of that name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def make_callable(package: str, function: str) -> None:
    """Has calls of the package `hardsplat.train`, for example, go to `function`, such as
    "hardsplat.train.api:train", which is imported by the first call."""

    class Callable(ModuleType):
        def __call__(self, *arguments, **named):
            module, _, name = function.partition(":")
            return getattr(import_module(module), name)(*arguments, **named)

    sys.modules[package].__class__ = Callable
