"""What is in a folder of photographs, and which of them share a camera."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hardsplat.base.errors import UserError
from hardsplat.base.files import changed_at, check_listed
from hardsplat.io.media.images import ENDINGS, of_header, stored_size
from hardsplat.io.media.panorama import is_whole
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import WORK, named
from hardsplat.sfm.job.exif import Taken, taken_of

HEIC = {".heic", ".heif", ".hif"}
RAW = {".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"}
VIDEOS = set(".mp4 .mov .m4v .avi .mkv .webm .mts .m2ts .mpg .mpeg .3gp .insv .360".split())
# folders of a scene
_OF_SCENES = rf"{WORK}|sparse|masks?|segmentations?|depths|colmap|images_\d+"
_NOT_PHOTOGRAPHS = re.compile(_OF_SCENES, re.IGNORECASE)


@dataclass
class Photograph:
    """name: path below the folder, with slashes. size: width and height, px, as stored: EXIF
    orientation is ignored. taken: what it says of itself. panorama: of all directions. mask: path
    below the scene, white where features count, or None. stamp: changes when file or mask do.
    camera: index."""

    name: str
    size: tuple[int, int]
    taken: Taken
    panorama: bool
    mask: str | None
    stamp: list
    camera: int = 0


@dataclass
class PhotographFolder:
    """folder: what names are below. left_out: name and reason for each file that cannot be used;
    spare: for each that is not wanted."""

    folder: Path
    items: list[Photograph]
    left_out: dict[str, str]
    spare: dict[str, str]


def is_video(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in VIDEOS


def image_folder(scene: Path) -> Path:
    """SCENE/images, or SCENE itself where the photographs lie in it."""
    return scene / "images" if (scene / "images").is_dir() else scene


def listed(folder: Path, endings: Set[str] = ENDINGS) -> list[str]:
    """Names of the files with these endings in `folder` and below, sorted, with slashes; hidden
    ones and those in a scene's other folders are left out."""
    names = []
    for root, folders, files in os.walk(folder):
        of_scene = Path(root) == folder and folder.name != "images"
        skipped = [f for f in folders if of_scene and _NOT_PHOTOGRAPHS.fullmatch(f)]
        folders[:] = [f for f in folders if f not in skipped and not f.startswith(".")]
        found = (Path(root, f) for f in files if not f.startswith("."))
        names += [path for path in found if path.suffix.lower() in endings]
    return sorted(path.relative_to(folder).as_posix() for path in names)


def find_photographs(
    scene: Path, camera_mode: str = "auto", panorama: str = "auto", exclude: Sequence[str] = ()
) -> PhotographFolder:
    """The photographs of a scene folder with their cameras and masks. camera_mode, panorama,
    exclude: as in SfmConfig. UserError where there are none."""
    check_listed(folder := image_folder(scene))
    items, left_out, spare, masks = [], {}, {}, Masks(scene)
    found = listed(folder, ENDINGS | RAW)
    without, others = named(found, exclude), HEIC | RAW
    # phones and cameras save a photograph as JPEG beside
    beside = {Path(n).with_suffix(""): n for n in found if Path(n).suffix.lower() not in others}
    for name in found:
        ending, other = Path(name).suffix, beside.get(Path(name).with_suffix(""), name)
        if name in without or (ending.lower() in others and other != name):
            spare[name] = "--exclude" if name in without else f"{other} has its name and is taken"
            continue
        try:
            if ending.lower() in RAW:
                raise UserError(f"{ending[1:].upper()} files are not read here; convert it to JPEG")
            size, taken = _looked_at(folder, name)
            if panorama == "all" and not is_whole(*size):
                shape = f"is {size[0]}x{size[1]}, and a panorama is twice as wide as high"
                raise UserError(f"{shape}; leave out --panorama all to use it")
        except UserError as error:
            left_out[name] = str(error).removeprefix(f"{folder / name}: ")
        else:
            whole = panorama == "all" or (panorama == "auto" and taken.panorama)
            mask = masks.of(name)
            stamp = [[path.name, changed_at(path)] for path in (folder / name, mask) if path]
            below = mask.relative_to(scene).as_posix() if mask else None
            items.append(Photograph(name, size, taken, whole, below, stamp))
    if not items:
        raise UserError(_nothing(folder, left_out | spare))
    index: dict[tuple, int] = {}
    for p in items:  # photographs of different sizes never share a camera
        inside, device = str(PurePosixPath(p.name).parent), () if p.panorama else p.taken.device
        key = {"auto": device or inside, "per-folder": inside, "per-image": p.name}
        p.camera = index.setdefault((key.get(camera_mode), p.size, p.panorama), len(index))
    return PhotographFolder(folder, items, left_out, spare)


def _looked_at(folder: Path, name: str) -> tuple[tuple[int, int], Taken]:
    """Size of a photograph and what it says, from its header. Raises UserError where it is no image
    or cannot be named."""
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name):  # the last are bytes that are no UTF-8
        raise UserError("its name has characters that files of COLMAP cannot hold; rename it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow speaks of damaged EXIF, and of large pictures
        return of_header(folder / name, lambda image: (stored_size(image), taken_of(image)))


def _nothing(folder: Path, left_out: dict[str, str]) -> str:
    if left_out:
        name, reason = next(iter(left_out.items()))
        return f"{folder}: none of the {len(left_out)} photographs can be used; {name}: {reason}"
    if videos := listed(folder, VIDEOS):
        count = f"{len(videos)} video{'s' * (len(videos) > 1)}"
        command = f"hardsplat sfm {shlex.quote(str(folder / videos[0]))}"
        return f"{folder}: no photographs, but {count}; name one: {command}"
    return f"{folder}: no photographs found ({' '.join(sorted(ENDINGS))})"
