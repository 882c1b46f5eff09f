"""GLSL to SPIR-V: resolves includes and slots, calls glslang's executable, keeps the result under a
hash of the expanded source.

`#include "file.glsl"` looks in shaders/include, then shaders/, then among the headers that
`hardsplat.contract` writes; each file enters once. `#include <slot>` enters the file that the
caller names for that slot: a variant is another file in the slot, never a maze of `#if`. A filled
slot defines FILLED_slot; a file that tests FILLED_slot has a default, so that the slot may stay
empty.
"""

from __future__ import annotations

import hashlib
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


def expand(source: ShaderSource) -> str:
    """The complete text of a module, with #line marks naming our files."""
    slots = dict(source.slots)
    unused = set(slots)
    seen: set[str] = set()

    def find(name: str, user: str) -> str:
        """The label of an include: its path below SHADERS, the same on every system, since it is
        part of the key."""
        for label in (f"include/{name}", name):
            if (SHADERS / label).is_file():
                return label
        if is_header(name):
            return name
        where = f"{SHADERS / 'include'} or {SHADERS}, nor a header of the contract"
        raise ShaderError(f"{user}: include {name} is not in {where}")

    def lines(label: str):
        if label in seen:
            return
        seen.add(label)
        yield f'#line 1 "{label}"'
        text = header(label) if is_header(label) else (SHADERS / label).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            match = _INCLUDE.match(line)
            name, slot = match.groups() if match else (None, None)
            if slot in slots:
                unused.discard(slot)
                name = slots[slot]
            elif slot is not None and f"FILLED_{slot}" not in text:
                filled = sorted(slots) or "none"
                why = f"slot <{slot}> was not filled; filled: {filled}"
                raise ShaderError(f"{label}:{number}: {why}")
            if name is None:
                yield "" if match else line
                continue
            yield from lines(find(name, f"{label}:{number}"))
            yield f'#line {number + 1} "{label}"'

    head = ["#version 460", "#extension GL_GOOGLE_cpp_style_line_directive : require"]
    head += [f"#define FILLED_{slot}" for slot in sorted(slots)]
    head += [f"#define {name} {value}" for name, value in source.macros]
    body = list(lines(find(source.path, "pass")))
    if unused:
        raise ShaderError(f"{source.path}: no #include <{min(unused)}> in it")
    return "\n".join(head + body) + "\n"


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
    return hashlib.sha256(f"{source.stage}\n{text}".encode()).hexdigest()[:32]


def compile_source(source: ShaderSource) -> bytes:
    """SPIR-V of a module: from the wheel, else from the cache, else compiled now."""
    text = expand(source)
    name = _hash(source, text) + ".spv"
    cached = cache_dir() / "spirv" / name
    for path in (SPIRV / name, cached):
        if path.is_file():
            return path.read_bytes()
    spirv = run_glslang(text, source)
    # a read-only home costs a compile per run, nothing else
    with suppress(OSError), replacing(cached, durable=False) as partial:
        partial.write_bytes(spirv)
    return spirv


def run_glslang(text: str, source: ShaderSource) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out, module = Path(folder) / "module.spv", Path(folder) / f"module.{source.stage}"
        module.write_text(text, encoding="utf-8")
        command = [compiler(), "-V", "--target-env", "vulkan1.2", "-o", str(out), str(module)]
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
