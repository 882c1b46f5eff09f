"""Files of the photographs that a scene names, also where they were converted or renamed since: of
another ending, or in capitals or not."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from hardsplat.io.media.images import ENDINGS
from hardsplat.io.scenes.source import composed, located

_ENDING = re.compile(r"\.[a-z][a-z0-9]{1,4}$")  # not the number in frame.0001


class PhotographFiles:
    """Finds photographs below a folder.

    Where no file has a photograph's name, the one picture beside it is taken that has the name but
    for its ending and for capitals, unless two photographs would be that one. endings: what a name
    may lack, in order.
    """

    def __init__(self, folder: Path, endings: Sequence[str] = ("",)):
        self.folder, self.endings = folder, endings
        self._taken: set[str] = set()
        self._others: list[tuple[str, str]] = []  # names that were asked for, and those found
        self._listed = lru_cache(maxsize=None)(self._list)

    def of(self, names: Sequence[str]) -> list[str | None]:
        """Of each name, the file below the folder, with slashes; the name itself where there is
        none, and None for a name that leads out."""
        found = [self._exact(name) for name in names]
        missing = [n for n, file in enumerate(found) if file and not self._is_file(file)]
        self._taken.update(file for n, file in enumerate(found) if file and n not in set(missing))
        alike = {n: self._alike(found[n] or "") for n in missing}
        counts = Counter(alike.values())
        for n, file in alike.items():
            if file and counts[file] == 1:
                self._taken.add(file)
                self._others.append((found[n] or "", file))
                found[n] = file
        return found

    def notes(self, label: str) -> Iterator[str]:
        """What to say of photographs that were found by another name. label: of what names them."""
        if self._others:
            asked, file = self._others[0]
            many = f"{len(self._others)} photographs are" if len(self._others) > 1 else "one is"
            name = PurePosixPath(asked).name
            what = f"{many} another kind of file, or in other capitals, than {label} names"
            yield f"{what}: {self.folder / file} is used for {name}"

    def _exact(self, name: str) -> str | None:
        own = None if name in ("", ".") else located(self.folder, name)
        if own and self._is_file(own):
            return own
        files = (located(self.folder, name + ending) for ending in self.endings)
        return next((file for file in files if file and self._is_file(file)), own)

    def _alike(self, name: str) -> str | None:
        path = PurePosixPath(name)
        there = self._listed(path.parent).get(_stem(path.name), [])
        free = [file for file in there if file not in self._taken]
        return free[0] if len(free) == 1 else None

    def _list(self, below: PurePosixPath) -> dict[str, list[str]]:
        """Pictures of a folder by stem."""
        out: dict[str, list[str]] = {}
        folder = self.folder / below
        for name in sorted(os.listdir(folder)) if os.access(folder, os.R_OK) else ():
            path = below / name
            if path.suffix.lower() in ENDINGS and name[0] != "." and self._is_file(str(path)):
                out.setdefault(_stem(name), []).append(str(path))
        return out

    def _is_file(self, below: str) -> bool:
        return os.path.isfile(self.folder / below)


def _stem(name: str) -> str:
    """Equal for names that differ in their ending or in capitals alone."""
    return _ENDING.sub("", composed(name).lower())
