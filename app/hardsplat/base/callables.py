"""Packages that are functions of the Python API too: `hardsplat.train` holds the training, and
`hardsplat.train(...)` trains.

Importing a module of a package makes the package an attribute of `hardsplat`, which would hide a
function of that name.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Has calls of the package `hardsplat.train`, for example, go to `function`, such as
    "hardsplat.train.api:train". The first call imports that. `help` and `inspect.signature`
    of the package show those of the function."""

    def found() -> Callable:
        module, _, name = function.partition(":")
        return getattr(import_module(module), name)

    class Package(ModuleType):
        __doc__ = property(lambda self: _help(found()))
        __signature__ = property(lambda self: inspect.signature(found()))

        def __call__(self, *arguments, **named):
            return found()(*arguments, **named)

    sys.modules[package].__class__ = Package


def name_settings(
    function: Callable, types: Mapping[str, Any], defaults: Mapping[str, Any]
) -> None:
    """Has the signature of a function that takes `**settings` name them. types, defaults: of the
    settings by name, in the order of `defaults`; those without a type are none of the function."""
    own = inspect.signature(function, eval_str=True)
    named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    for name, default in defaults.items():
        if name in types:
            type = types[name] if default is not None else types[name] | None
            named.append(inspect.Parameter(name, kind, default=default, annotation=type))
    shown: Any = function
    shown.__signature__ = own.replace(parameters=named)


def _help(function: Callable) -> str:
    """The docstring of a function, with its signature after the first paragraph, a parameter a
    line."""
    summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    signature = inspect.signature(function, eval_str=True)
    lines = [f"    {each},\n" for each in signature.parameters.values()]
    kinds = [each.kind for each in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "    *,\n")
    returns = inspect.formatannotation(signature.return_annotation)
    called = f"{function.__name__}(\n{''.join(lines)}) -> {returns}"
    return f"{' '.join(summary.split())}\n\n{called}\n\n{rest}"
