"""What a reader of scenes hands over, whatever the layout of the folder: posed photographs, and
points to start from."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.model.camera import Camera


@dataclass(frozen=True)
class Posed:
    """A photograph and where it was taken from.

    name: unique within its scene, a path with slashes. path: the file. pinhole: the camera of the
    full-size photograph, without distortion. lens: the same camera as the files have it. mask: the
    picture of what counts, white, or None. divisor: how many times smaller the file is than that
    camera.
    """

    name: str
    path: Path
    pinhole: Camera
    lens: ColmapCamera
    mask: Path | None = None
    divisor: int = 1


@dataclass(frozen=True)
class SceneSource:
    """label: where the cameras are from, for messages. points: (N, 3) float64 world units, N may be
    0; colors: (N, 3) uint8.

    held_out: names of the photographs that the scene itself keeps for testing; None where it leaves
    that to --test-every.
    """

    label: str
    photographs: list[Posed]
    points: np.ndarray
    colors: np.ndarray
    held_out: Set[str] | None = None
    notes: tuple[str, ...] = ()


def named(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """The names of photographs that patterns match, with their folders or without, in capitals as
    written. Raises UserError for a pattern that matches none, and where all are matched."""
    found: set[str] = set()
    for pattern in patterns:
        short = {name: PurePosixPath(name).name for name in names}
        mine = {n for n in names if fnmatchcase(n, pattern) or fnmatchcase(short[n], pattern)}
        if not mine:
            close = get_close_matches(pattern, names, n=1) or [*names[:1], "none"]
            what = f"--exclude {pattern}: no photograph has this name"
            raise UserError(f"{what}; there is {close[0]}, for example")
        found |= mine
    if patterns and len(found) == len(names):
        raise UserError(f"--exclude {' '.join(patterns)}: leaves no photograph of {len(found)}")
    return found


def stays_below(name: str) -> bool:
    """Whether a name that a file gives leads nowhere but below the folder it is relative to.
    Symbolic links are the user's own and are followed.

    Read as a Windows path, in which both kinds of slash and a drive letter count: a scene means the
    same on every system.
    """
    parts = PureWindowsPath(name)
    return not (parts.drive or parts.root or ".." in parts.parts or "\0" in name)
