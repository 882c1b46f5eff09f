"""What earlier runs did in a scene, and with which settings."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardsplat.base.files import replacing

STATE = "state.json"


def fingerprint(*settings: Any) -> str:
    """Equal for equal settings; anything that JSON holds."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


class State:
    """What stages were done with which settings: a JSON file in the work folder, whole after every
    change."""

    def __init__(self, folder: Path):
        self._path = folder / STATE
        self._values: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            values = json.loads(self._path.read_text(encoding="utf-8"))
            self._values = values if isinstance(values, dict) else {}

    def get(self, stage: str) -> dict[str, Any]:
        value = self._values.get(stage)
        return value if isinstance(value, dict) else {}

    def put(self, stage: str, value: dict[str, Any] | None) -> None:
        """None forgets the stage. Raises OSError."""
        self._values.pop(stage, None)
        if value is not None:
            self._values[stage] = value
        with replacing(self._path) as partial:
            partial.write_text(json.dumps(self._values, indent=1), encoding="utf-8")

    def crashed(self) -> dict[str, str]:
        """What failed with the matches of now, by its name: the last line of each."""
        record = self.get("crashed")
        return record["why"] if record and record["matches"] == self.get("matches") else {}

    def note_crash(self, why: str) -> str:
        """Notes that what was tried last failed; its name, empty where nothing was."""
        if name := self.get("trying").get("name", ""):
            failed = self.crashed() | {name: why}
            self.put("crashed", {"matches": self.get("matches"), "why": failed})
            self.put("trying", None)
        return name


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model, by name; empty where there is none. Copies have the same,
    whatever their times."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    contents = {path.name: path.read_bytes() for path in files if path.is_file()}
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
