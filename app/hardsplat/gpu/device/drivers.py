"""The Vulkan drivers that are installed here, and why one of them does not load: what the Vulkan
loader does not report.

A driver is a library that a manifest names: a JSON file in one of the folders that the loader looks
into. Where the library cannot be loaded, for want of another package as a rule, the loader
continues without the driver and without a word. This module knows no Vulkan: it must work where
that does not. Folders and variables:
https://github.com/KhronosGroup/Vulkan-Loader/blob/main/docs/LoaderDriverInterface.md, "Driver
Discovery".
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

INSTEAD, BESIDE = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), "VK_ADD_DRIVER_FILES"
_BELOW = Path("vulkan", "icd.d")
_BITS = str(8 * struct.calcsize("P"))


@dataclass(frozen=True)
class Driver:
    """manifest: the file. library: as it names it, "" where it names none. problem: why it cannot
    be used, "" where it loads."""

    manifest: Path
    library: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.manifest}: {self.problem or f'{self.library} loads'}"


def drivers(environment: Mapping[str, str] = os.environ) -> list[Driver]:
    """All that the loader would find, each tried. Empty on Windows, where the registry has them."""
    return [_tried(path) for path in manifests(environment)]


def manifests(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The manifests that the loader would read, each once: those of VK_DRIVER_FILES alone, or all
    in its folders and those of VK_ADD_DRIVER_FILES."""
    for name in INSTEAD:
        if environment.get(name):
            return _unique(_files(environment[name]))
    found = _files(environment.get(BESIDE, ""))
    for folder in [] if sys.platform == "win32" else folders(environment):
        found += _in(folder)
    return _unique(found)


def folders(environment: Mapping[str, str]) -> list[Path]:
    """Where the loader looks, on Linux, the BSDs and macOS."""
    home = Path(environment.get("HOME") or "/")

    def listed(name: str, default: str) -> list[Path]:
        return [Path(part) for part in (environment.get(name) or default).split(os.pathsep) if part]

    roots = [
        *listed("XDG_CONFIG_HOME", str(home / ".config")),
        *listed("XDG_CONFIG_DIRS", "/etc/xdg"),
        Path("/usr/local/etc"),
        Path("/etc"),
        *listed("XDG_DATA_HOME", str(home / ".local/share")),
        *listed("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
    ]
    return [root / _BELOW for root in roots]


def explain() -> str:
    """What an error about no device adds: each driver that does not load and why, those that do, or
    where manifests were looked for."""
    if found := drivers():
        lines = [str(driver) for driver in found if driver.problem]
        if loads := [str(driver.manifest) for driver in found if not driver.problem]:
            verbs = "load, but find" if len(loads) > 1 else "loads, but finds"
            lines.append(f"{', '.join(loads)} {verbs} no device")
        return "driver manifests: " + "; ".join(lines)
    if chosen := next((name for name in INSTEAD if os.environ.get(name)), None):
        return f"{chosen}={os.environ[chosen]} names no driver manifest"
    if sys.platform == "win32":
        return "driver manifests are named in the registry, which is not looked at here"
    return "no driver manifest in " + ", ".join(map(str, _unique(folders(os.environ))))


def _files(listed: str) -> list[Path]:
    """Manifests of a variable: files, and what is in folders."""
    out = []
    for part in listed.split(os.pathsep):
        path = Path(part)
        out += _in(path) if path.is_dir() else [path] if part and path.is_file() else []
    return out


def _in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []


def _unique(paths: list[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _tried(manifest: Path) -> Driver:
    try:
        icd = json.loads(manifest.read_bytes().decode("utf-8-sig"))["ICD"]
        library = icd["library_path"]
        if not isinstance(library, str) or not library:
            raise TypeError
    except OSError as error:
        return Driver(manifest, problem=f"cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Driver(manifest, problem="is no driver manifest: it has no ICD.library_path")
    if (bits := str(icd.get("library_arch", _BITS))) != _BITS:
        problem = f"{library} is for programs of {bits} bits, this one has {_BITS}"
        return Driver(manifest, library, problem)
    # a bare name is looked for by the system
    path = manifest.parent / library if "/" in library or "\\" in library else library
    try:
        ctypes.CDLL(str(path), mode=getattr(os, "RTLD_LAZY", ctypes.DEFAULT_MODE))
    except (OSError, ValueError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        return Driver(manifest, library, line if library in line else f"{library}: {line}")
    return Driver(manifest, library)
