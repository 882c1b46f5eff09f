"""Writes app/hardsplat/settings/typed.py: the settings of training, image fits and rasterizers as
types that editors complete.

    python -m tools.gen_settings

tests/settings/test_python.py fails where that file is out of date.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import Field
from pathlib import Path

from hardsplat.cli.flags import default_text
from hardsplat.fit.config import FIT_FIELDS
from hardsplat.raster.backends import BACKENDS
from hardsplat.settings.option import kind
from hardsplat.settings.train import FIELDS

TARGET = Path(__file__).parents[1] / "app" / "hardsplat" / "settings" / "typed.py"
_HEAD = '''"""Settings as types, for editors and type checkers.

`python -m tools.gen_settings` writes this file from the owners in app/hardsplat/settings and from
app/hardsplat/fit/config.py, which have the defaults and limits; do not edit it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict
'''
_TYPES = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    Path: "str | Path",
    tuple[int, ...]: "Sequence[int]",
    tuple[float, ...]: "Sequence[float]",
    tuple[str, ...]: "Sequence[str]",
}


def _literal(words: Iterable[str]) -> str:
    return f"Literal[{', '.join(f'{chr(34)}{word}{chr(34)}' for word in words)}]"


def _type(name: str, f: Field) -> str:
    if choices := f.metadata["choices"]:
        return _literal(choices)
    return "str | int" if name == "device" else _TYPES[kind(f)]


def _default(f: Field) -> str:
    return str(f.default) if type(f.default) is bool else default_text(f)


def _class(name: str, title: str, known: dict[str, Field], base: str = "TypedDict") -> str:
    lines = [f"class {name}({base}, total=False):", f'    """{title}"""']
    for setting, f in known.items():
        if setting not in ("data_dir", *(options() if base != "TypedDict" else ())):
            help = f'"""{f.metadata["help"]} (default: {_default(f)})"""'
            indent = dict(initial_indent="    ", subsequent_indent="    ", break_long_words=False)
            lines += [f"    {setting}: {_type(setting, f)}", *textwrap.wrap(help, 100, **indent)]
    return "\n".join(lines) + "\n"


def options() -> dict[str, Field]:
    """What rasterizers can be told outside training, by name."""
    names = dict.fromkeys(
        name for backend in BACKENDS.values() for name in backend.options.settings()
    )
    return {name: FIELDS[name] for name in names}


def text() -> str:
    """The file, as the formatter leaves it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=_text(), capture_output=True, text=True, check=True).stdout


def _text() -> str:
    return "\n\n".join(
        [
            _HEAD + f"\nRasterizerName = {_literal(BACKENDS)}\n",
            _class(
                "RasterizerOptions",
                "Options of `hardsplat.Renderer`, all of them optional. Each rasterizer "
                "has some of them.",
                options(),
            ),
            _class(
                "TrainSettings",
                "Settings of `hardsplat.train`, all of them optional.",
                FIELDS,
                "RasterizerOptions",
            ),
            _class("FitSettings", "Settings of `hardsplat.fit`, all of them optional.", FIT_FIELDS),
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(text())
    print(f"{TARGET} written")
