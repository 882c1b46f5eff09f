"""What processes keep for later ones: compiled shaders, and what they found of a device."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsplat.base.errors import UserError
from hardsplat.base.files import json_of, write_json

if TYPE_CHECKING:
    from hardsplat.gpu.device.instance import PhysicalDevice


def cache_dir() -> Path:
    if own := os.environ.get("HARDSPLAT_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hardsplat")


def cache_file(kind: str, *words: str) -> Path:
    """The file, in a folder of its kind, of what holds for these words."""
    mark = hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    return cache_dir() / kind / f"{mark}.json"


def remembered(path: Path, what: str, kind: type = str) -> dict[str, Any] | None:
    """What an earlier process has found, see remember, each of this kind; None where that is not
    known."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # never found, or not a file of ours
        found = json_of(path.read_text())[what]
        if isinstance(found, dict) and all(type(each) is kind for each in found.values()):
            return found
    return None


def remember(path: Path, physical: PhysicalDevice, **found: Mapping[str, Any]) -> None:
    """Writes what was found of a device. A read-only home costs time in each run, nothing else."""
    with suppress(UserError):
        write_json(path, {"device": physical.name, "driver": physical.driver, **found})
