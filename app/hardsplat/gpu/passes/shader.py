"""GLSL to SPIR-V: resolves includes and slots, calls glslang's executable, keeps the result under a
hash of the expanded source and of how it is compiled.

`#include "file.glsl"` looks in shaders/include, then shaders/, then among the headers that
`hardsplat.contract` writes; each file enters once. `#include <slot>` enters the file that the
caller names for that slot: a variant is another file in the slot, never a maze of `#if`. A filled
slot defines FILLED_slot; a file that tests FILLED_slot has a default, so that the slot may stay
empty. A process reads each file once: it finds changes when it is started again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing
from hardsplat.base.paths import SHADERS, SPIRV
from hardsplat.contract.glsl import header, is_header
from hardsplat.gpu.device.cache import cache_dir

_Pairs = Mapping[str, str]
STAGES = ("comp", "vert", "geom", "frag")
_FLAGS = ("-V", "--target-env", "vulkan1.2")  # of glslang

_INCLUDE = re.compile(r'^\s*#include\s+(?:"([^"]+)"|<([^>]+)>)\s*$')


class ShaderError(Exception):
    """A shader that does not compile; the message holds glslang's lines, with file and line of our
    sources."""


@dataclass(frozen=True)
class ShaderSource:
    """What a SPIR-V module is made from. `slots` and `macros` are sorted tuples of pairs so that a
    ShaderSource can be a key; a slot without a file is left out."""

    path: str
    slots: tuple[tuple[str, str], ...] = ()
    macros: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, path: str, slots: _Pairs | None = None, macros: _Pairs | None = None
    ) -> ShaderSource:
        filled = sorted((name, file) for name, file in (slots or {}).items() if file)
        return cls(path, tuple(filled), tuple(sorted((macros or {}).items())))

    @property
    def stage(self) -> str:
        stage = Path(self.path).suffix[1:]
        if stage not in STAGES:
            one = f"one of {', '.join(STAGES)}"
            raise ShaderError(f"{self.path}: the stage is the file's ending, {one}")
        return stage


@functools.cache
def _file(folder: Path, label: str) -> str | None:
    """The text of a file, read once a process; None where it is not there."""
    try:
        with open(os.path.join(folder, label), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


@functools.cache
def _parts(text: str) -> tuple[list[tuple[str, int, str | None, str | None]], str]:
    """(the includes of a file: the text since the one before, its own line, the file or the slot
    that it names; the text after the last)."""
    includes: list[tuple[str, int, str | None, str | None]] = []
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if "#include" in line and (match := _INCLUDE.match(line)):
            includes.append(("".join(lines), number, match[1], match[2]))
            lines = []
        else:
            lines.append(line + "\n")
    return includes, "".join(lines)


def expand(source: ShaderSource) -> str:
    """The complete text of a module, with #line marks naming our files."""
    slots = dict(source.slots)
    unused = set(slots)
    seen: set[str] = set()
    out = ["#version 460\n", "#extension GL_GOOGLE_cpp_style_line_directive : require\n"]
    out += [f"#define FILLED_{slot}\n" for slot in sorted(slots)]
    out += [f"#define {name} {value}\n" for name, value in source.macros]

    def add(name: str, user: str) -> None:
        """Adds an include. Its label, the path below SHADERS, is the same on every system, since it
        is part of the key."""
        for label in (f"include/{name}", name):
            if (text := _file(SHADERS, label)) is not None:
                break
        else:
            if not is_header(name):
                where = f"{SHADERS / 'include'} or {SHADERS}, nor a header of the contract"
                raise ShaderError(f"{user}: include {name} is not in {where}")
        if label in seen:
            return
        seen.add(label)
        out.append(f'#line 1 "{label}"\n')
        text = header(name) if text is None else text
        includes, rest = _parts(text)
        for before, number, file, slot in includes:
            out.append(before)
            if slot in slots:
                unused.discard(slot)
                file = slots[slot]
            elif slot is not None and f"FILLED_{slot}" not in text:
                filled = sorted(slots) or "none"
                why = f"slot <{slot}> was not filled; filled: {filled}"
                raise ShaderError(f"{label}:{number}: {why}")
            if file is None:
                out.append("\n")
                continue
            add(file, f"{label}:{number}")
            out.append(f'#line {number + 1} "{label}"\n')
        out.append(rest)

    add(source.path, "pass")
    if unused:
        raise ShaderError(f"{source.path}: no #include <{min(unused)}> in it")
    return "".join(out)


def compiler() -> str:
    """Path of glslang's executable, or a UserError with how to get it."""
    for name in ("glslangValidator", "glslang"):
        if path := shutil.which(name):
            return path
    raise UserError(
        "no GLSL compiler: install glslang (Debian/Ubuntu: apt-get install "
        "glslang-tools; macOS: brew install glslang; or the Vulkan SDK)"
    )


def key(source: ShaderSource) -> str:
    return _hash(source, expand(source))


def _hash(source: ShaderSource, text: str) -> str:
    how = " ".join((source.stage, *_FLAGS))
    return hashlib.sha256(f"{how}\n{text}".encode()).hexdigest()[:32]


def compile_source(source: ShaderSource) -> bytes:
    """SPIR-V of a module: from the wheel, else from the cache, else compiled now."""
    text = expand(source)
    name = _hash(source, text) + ".spv"
    cached = os.path.join(cache_dir(), "spirv", name)
    for path in (os.path.join(SPIRV, name), cached):
        with suppress(OSError), open(path, "rb") as file:
            return file.read()
    spirv = run_glslang(text, source)
    # a read-only home costs a compile per run, nothing else
    with suppress(OSError), replacing(Path(cached), durable=False) as partial:
        partial.write_bytes(spirv)
    return spirv


def run_glslang(text: str, source: ShaderSource) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out, module = Path(folder) / "module.spv", Path(folder) / f"module.{source.stage}"
        module.write_text(text, encoding="utf-8")
        command = [compiler(), *_FLAGS, "-o", str(out), str(module)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0 and out.is_file():
            return out.read_bytes()
        lines = (done.stdout + done.stderr).splitlines()
        report = [line for line in lines if line.startswith(("ERROR", "WARNING"))] or lines[:20]
        said = [f"{source.path} does not compile:", *map(_with_line, report)]
        raise ShaderError("\n".join(said))


def _with_line(said: str) -> str:
    """A line of glslang's report, with the line that it is about where no file has that."""
    place = re.match(r"\w+: (contract/\w+\.glsl):(\d+): ", said)
    if not place:
        return said
    return f"{said}\n    {header(place[1]).splitlines()[int(place[2]) - 1].strip()}"
