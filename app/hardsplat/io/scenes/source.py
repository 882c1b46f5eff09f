"""What a reader of scenes hands over, whatever the layout of the folder: posed photographs, and
points to start from; moved to the origin where float32 numbers would have too few digits for it."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import ENDINGS
from hardsplat.io.scenes.colmap_model import ColmapCamera
from hardsplat.io.scenes.values import LARGEST
from hardsplat.model.camera import Camera

WORK = "sfm"  # folder of a scene for what is neither photograph nor model
_NAMED = 3  # photographs that a message names
# distances of cameras from their mean over that from the origin, which are rounding of one place
_ROUNDING = 1e-12
# of the extent, by which float32 numbers of the size of the cameras' positions differ, and above
# which splats have no place, or their last steps are lost
COARSEST, COARSE = 1e-3, 3e-5


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
    0, and some may not be finite; colors: (N, 3) uint8.

    held_out: names of the photographs that the scene itself keeps for testing; None where it leaves
    that to --test-every. origin: of these positions, in those of the files.
    """

    label: str
    photographs: list[Posed]
    points: np.ndarray
    colors: np.ndarray
    held_out: Set[str] | None = None
    notes: tuple[str, ...] = ()
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)


def extent_of(cameras: Sequence[Camera]) -> float:
    """1.1 times the largest distance of a camera from the mean of them; 0 where that is rounding
    of one place."""
    centres = np.array([camera.position for camera in cameras])
    largest = float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).max())
    return 1.1 * largest if largest > _ROUNDING * np.abs(centres).max() else 0.0


def is_far(cameras: Sequence[Camera], coarse: float) -> str:
    """In words, where cameras stand so far from the origin that float32 numbers are coarser than
    this share of their extent; empty where they do not."""
    away = max(float(np.abs(camera.position).max()) for camera in cameras)
    step, extent = float(np.spacing(np.float32(away))), extent_of(cameras)
    if step <= coarse * extent:
        return ""
    what = f"cameras stand {away:.2g} world units from the origin and {extent:.2g} apart"
    return f"{what}, where float32 tells places {step:.1g} apart"


def near_origin(source: SceneSource) -> SceneSource:
    """The scene as it is, or moved by whole multiples of the power of ten above its extent, so that
    a photograph more or less moves it alike."""
    cameras = [posed.pinhole for posed in source.photographs]
    extent = extent_of(cameras) if cameras else 0.0
    if not extent or not (far := is_far(cameras, COARSEST)):
        return source
    unit = 10 ** np.ceil(np.log10(extent))
    origin = unit * np.round(np.mean([camera.position for camera in cameras], axis=0) / unit)
    photographs = []
    for posed in source.photographs:
        w2c = posed.pinhole.w2c.copy()
        w2c[:3, 3] += w2c[:3, :3] @ origin
        photographs.append(replace(posed, pinhole=replace(posed.pinhole, w2c=w2c)))
    at = ", ".join(f"{x:.12g}" for x in origin)
    note = f"{far}: the scene is moved, so that {at} is the origin of splats and cameras"
    return replace(
        source,
        photographs=photographs,
        points=source.points - origin,
        notes=(note, *source.notes),
        origin=(float(origin[0]), float(origin[1]), float(origin[2])),
    )


def usable(points: np.ndarray) -> np.ndarray:
    """(N,) bool: which points (N, 3) a splat can lie at."""
    return (np.abs(points) <= LARGEST).all(axis=1)


def named(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """The names of photographs that patterns match, with their folders or without, in capitals as
    written. A pattern that is the name of a photograph means that one, whatever signs it has.
    Raises UserError for a pattern that matches none, and where fewer than two are left."""
    found: set[str] = set()
    spelled = {name: {composed(name), composed(PurePosixPath(name).name)} for name in names}
    for pattern in patterns:
        asked = composed(pattern)
        mine = {name for name in names if asked in spelled[name]}
        if not mine:
            fits = [n for n in names if any(fnmatchcase(own, asked) for own in spelled[n])]
            mine = set(fits)
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
    beside = sorted(first.parent.iterdir()) if first.parent.is_dir() else []
    alike = [p.name for p in beside if p.is_file() and p.stem.lower() == first.stem.lower()]
    if alike:
        what += f", and whether {' or '.join(alike)} is meant is not clear: rename it"
    names = " ".join(shlex.quote(posed.name) for posed in missing[:_NAMED])
    names += " ..." * (len(missing) > _NAMED)
    without = f", or leave them out: --exclude {names}" * (len(missing) < len(photographs))
    raise UserError(f"{what}; {of} are missing: put them there{without}")


def without_pose(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    """A note where pictures lie beside the photographs of a scene, `paths`, that no camera has."""
    folder = root / "images"
    known = {path for path in paths if folder in path.parents}
    files: Iterable[Path] = folder.rglob("*")
    if not known:
        folder = root
        known = {path for path in paths if path.parent == root}
        files = folder.iterdir()
    stems = {path.with_suffix("") for path in known}
    others = sorted(
        path.relative_to(folder).as_posix()
        for path in (files if known else ())
        if path.suffix.lower() in ENDINGS
        and path.with_suffix("") not in stems
        and not path.name.startswith(".")
    )
    if others:
        named = ", ".join(others[:_NAMED]) + ", ..." * (len(others) > _NAMED)
        of = f"{len(others)} of {len(known) + len(others)} photographs in {folder}"
        yield f"{of} have no pose and are not trained on: {named}"


def composed(name: str) -> str:
    """A name in one of the forms that Unicode has for it: programs and file systems differ in
    theirs, which look alike."""
    return unicodedata.normalize("NFC", name)


def has_control(name: str) -> bool:
    """Whether it has control characters, which no report, terminal or model takes."""
    return bool(re.search(r"[\x00-\x1f\x7f]", name))


def slashed(name: str) -> str:
    """A path below a folder as Windows writes it, too, with slashes."""
    return name.replace("\\", "/")


def located(folder: Path, name: str) -> str | None:
    """The path below `folder`, with slashes, of the file that a name in a scene's files means;
    where there is no such file, the name itself. None for a name that leads out of the folder.

    A name may be written with backslashes, or in another form of Unicode. One that is absolute was
    written on another machine or for this folder: its longest end that is a file here is meant.
    """
    parts = PureWindowsPath(name).parts
    below = stays_below(name)
    meant = [name, slashed(name)] if below else ["/".join(parts[i:]) for i in range(1, len(parts))]
    for candidate in filter(stays_below, meant):
        for form in (candidate, *(unicodedata.normalize(f, candidate) for f in ("NFC", "NFD"))):
            if os.path.isfile(folder / form):
                return str(PurePosixPath(form))
    return str(PurePosixPath(slashed(name))) if below else None


def stays_below(name: str) -> bool:
    """Whether a name that a file gives leads nowhere but below the folder it is relative to.
    Symbolic links are the user's own and are followed.

    Read as a Windows path, in which both kinds of slash and a drive letter count: a scene means the
    same on every system.
    """
    parts = PureWindowsPath(name)
    return not (parts.drive or parts.root or ".." in parts.parts or "\0" in name)
