"""What a reader of scenes hands over, whatever the layout of the folder: posed photographs, and
points to start from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.model.camera import Camera

_NAMED = 3  # missing photographs that an error names


@dataclass(frozen=True)
class Posed:
    """A photograph and where it was taken from.

    name: unique within its scene, a path with slashes. path: the file, which may be missing where
    the photograph is excluded. pinhole: the camera of the
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
    written. Raises UserError for a pattern that matches none, and where fewer than two are left."""
    found: set[str] = set()
    for pattern in patterns:
        short = {name: PurePosixPath(name).name for name in names}
        mine = {n for n in names if fnmatchcase(n, pattern) or fnmatchcase(short[n], pattern)}
        if not mine:
            close = get_close_matches(pattern, names, n=1) or [*names[:1], "none"]
            what = f"--exclude {pattern}: no photograph has this name"
            raise UserError(f"{what}; there is {close[0]}, for example")
        found |= mine
    if patterns and (left := len(names) - len(found)) < 2:
        what = f"leaves {left or 'no'} photograph of {len(names)}, and two are needed"
        raise UserError(f"--exclude {' '.join(patterns)}: {what}")
    return found


def check_there(photographs: Sequence[Posed]) -> None:
    """Raises UserError where files of photographs are missing, with what may help."""
    missing = [posed for posed in photographs if not os.path.isfile(posed.path)]
    if not missing:
        return
    first, of = missing[0].path, f"{len(missing)} of {len(photographs)} photographs"
    what = f"{first}: not found" + ", with any extension" * (not first.suffix)
    folders = sorted({posed.path.parent for posed in missing})
    there = [path for f in folders if f.is_dir() for path in sorted(f.iterdir()) if path.is_file()]
    differ = {
        "differ in upper and lower case": lambda path: str(path).lower(),
        "end otherwise": lambda path: str(path.with_suffix("")),
    }
    for how, key in differ.items():
        files = {key(path): path for path in there}
        if all(key(posed.path) in files for posed in missing):
            other = files[key(first)].name
            raise UserError(f"{what}, but {other} is; {of} {how}: rename them")
    names = " ".join(shlex.quote(posed.name) for posed in missing[:_NAMED])
    names += " ..." * (len(missing) > _NAMED)
    without = f", or leave them out: --exclude {names}" * (len(missing) < len(photographs))
    raise UserError(f"{what}; {of} are missing: put them there{without}")


def stays_below(name: str) -> bool:
    """Whether a name that a file gives leads nowhere but below the folder it is relative to.
    Symbolic links are the user's own and are followed.

    Read as a Windows path, in which both kinds of slash and a drive letter count: a scene means the
    same on every system.
    """
    parts = PureWindowsPath(name)
    return not (parts.drive or parts.root or ".." in parts.parts or "\0" in name)
