"""What earlier runs did in a scene, and with which settings."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardsplat.base.files import json_of, replacing


class State(dict[str, Any]):
    """A JSON file in the work folder, whole after every change.

    frames: what was taken of a video. features: of which photographs there are some, how they were
    found. model: of the model that is there, with its files and outcome. trying: what is being
    tried. crashed: what failed with the matches that are there, and why, by name.
    """

    def __init__(self, folder: Path):
        self._path = folder / "state.json"
        with suppress(OSError, ValueError, TypeError):
            self.update(json_of(self._path.read_text(encoding="utf-8")))

    def put(self, **values: Any) -> None:
        """Raises OSError."""
        self.update(values)
        with replacing(self._path) as partial:
            partial.write_text(json.dumps(self, indent=1), encoding="utf-8")

    def note_crash(self, why: str) -> str:
        """Notes that what was tried last failed; its name, empty where nothing was."""
        if name := self.get("trying", ""):
            self.put(crashed=self.get("crashed", {}) | {name: why}, trying="")
        return name


def fingerprint(*settings: Any) -> str:
    """Equal for equal settings; anything that JSON holds."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model, by name; empty where there is none. Copies have the same,
    whatever their times."""
    files = [path for path in folder.glob("*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
