"""What is in a folder of photographs."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.files import check_listed
from hardsplat.io.media.images import ENDINGS, image_size, opened
from hardsplat.io.media.panorama import is_whole
from hardsplat.io.scenes.masks import Masks
from hardsplat.io.scenes.source import named
from hardsplat.sfm.job.cameras import CameraBody, SharedCamera, device_of, shared_cameras
from hardsplat.sfm.job.exif import Taken, taken_of

HEIC = {".heic", ".heif", ".hif"}
UNREADABLE = {".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"}
VIDEOS = set(".mp4 .mov .m4v .avi .mkv .webm .mts .m2ts .mpg .mpeg .3gp .insv .360".split())
WORK = "sfm"  # folder of a scene for what is neither photograph nor model
# folders of a scene
_OF_SCENES = rf"{WORK}|sparse|masks?|segmentations?|depths|colmap|images_\d+"
_NOT_PHOTOGRAPHS = re.compile(_OF_SCENES, re.IGNORECASE)


@dataclass
class Photograph:
    """name: path below the folder, with slashes. width, height: px, as stored: EXIF orientation is
    ignored. camera: index. mask: white where features count, or None. taken: where and how, by
    EXIF."""

    name: str
    path: Path
    width: int
    height: int
    camera: int = 0
    mask: Path | None = None
    taken: Taken = field(default_factory=Taken)

    @property
    def stamp(self) -> list:
        """Changes when the file or its mask does."""
        return [[path.name, *size_and_time(path)] for path in (self.path, self.mask) if path]


@dataclass
class PhotographFolder:
    """folder: what names are below. left_out: name and reason for each file that cannot be used."""

    folder: Path
    items: list[Photograph] = field(default_factory=list)
    cameras: list[SharedCamera] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


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
        folders[:] = [f for f in folders if not f.startswith(".")]
        if of_scene:
            folders[:] = [f for f in folders if not _NOT_PHOTOGRAPHS.fullmatch(f)]
        found = [Path(root, f) for f in files if not f.startswith(".")]
        found = [path for path in found if path.suffix.lower() in endings]
        names += [path.relative_to(folder).as_posix() for path in found]
    return sorted(names)


def find_photographs(
    scene: Path, camera_mode: str = "auto", panorama: str = "auto", exclude: Sequence[str] = ()
) -> PhotographFolder:
    """The photographs of a scene folder with their sizes, cameras and masks. panorama, exclude: as
    in SfmConfig. UserError where there are none."""
    check_listed(folder := image_folder(scene))
    found = PhotographFolder(folder)
    names = listed(folder)
    # phones save a photograph as JPEG beside
    beside = {Path(n).with_suffix(""): n for n in listed(folder, ENDINGS - HEIC)}
    for name in listed(folder, HEIC):
        if other := beside.get(Path(name).with_suffix("")):
            found.left_out[name] = f"{other} has its name and is taken"
            names.remove(name)
    stems = {Path(name).with_suffix("") for name in names}
    for name in listed(folder, UNREADABLE):
        if Path(name).with_suffix("") not in stems:
            ending = Path(name).suffix[1:].upper()
            found.left_out[name] = f"{ending} files are not read here; convert it to JPEG"
    devices, masks, without = [], Masks(scene), named(names, exclude)
    found.left_out |= dict.fromkeys(sorted(without), "--exclude")
    for name in names:
        if name in without:
            continue
        path = folder / name
        try:
            name.encode()
            if re.search(r"[\x00-\x1f\x7f]", name):
                raise ValueError
            size, device, taken = _looked_at(path)
        except UserError as error:
            found.left_out[name] = str(error).removeprefix(f"{path}: ")
        except ValueError:  # also what cannot be written as UTF-8
            why = "its name has characters that files of COLMAP cannot hold; rename it"
            found.left_out[name] = why
        else:
            if panorama == "all" and not is_whole(*size):
                shape = f"is {size[0]}x{size[1]}, and a panorama is twice as wide as high"
                found.left_out[name] = f"{shape}; leave out --panorama all to use it"
                continue
            if panorama == "all" or (panorama == "auto" and taken.panorama):
                device = CameraBody(panorama=True)
            devices.append(device)
            found.items.append(Photograph(name, path, *size, mask=masks.of(name), taken=taken))
    if not found.items:
        raise UserError(_nothing(scene, folder, found.left_out))
    sizes = [(p.width, p.height) for p in found.items]
    found.cameras, of = shared_cameras([p.name for p in found.items], sizes, devices, camera_mode)
    for photograph, camera in zip(found.items, of):
        photograph.camera = camera
    return found


def _looked_at(path: Path) -> tuple[tuple[int, int], CameraBody, Taken]:
    """Size and device of a photograph, and where it was taken, from its header. Raises UserError
    where it is no image."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow speaks of damaged EXIF, and of large pictures
        size = image_size(path)
        try:
            with opened(path) as image:
                return size, device_of(image), taken_of(image)
        except Exception:
            return size, CameraBody(), Taken()


def _nothing(scene: Path, folder: Path, left_out: dict[str, str]) -> str:
    if left_out:
        name, reason = next(iter(left_out.items()))
        return f"{folder}: none of the {len(left_out)} photographs can be used; {name}: {reason}"
    if videos := listed(folder, VIDEOS):
        count = f"{len(videos)} video{'s' * (len(videos) > 1)}"
        command = f"hardsplat sfm {shlex.quote(str(folder / videos[0]))}"
        return f"{folder}: no photographs, but {count}; name one: {command}"
    return f"{folder}: no photographs found ({' '.join(sorted(ENDINGS))})"


def size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
