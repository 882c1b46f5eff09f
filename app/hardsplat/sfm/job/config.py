"""Every setting of `hardsplat sfm`: defaults, help and limits; and what is chosen by how many
photographs there are. Names follow COLMAP, or nerfstudio's ns-process-data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsplat.base.parallel import CORES
from hardsplat.settings.option import Owner, option

CAMERA_MODELS = "auto SIMPLE_PINHOLE PINHOLE SIMPLE_RADIAL RADIAL OPENCV FULL_OPENCV".split()
CAMERA_MODELS += "SIMPLE_RADIAL_FISHEYE RADIAL_FISHEYE OPENCV_FISHEYE".split()
CAMERA_MODES = ("auto", "single", "per-folder", "per-image")
METHODS = ("auto", "exhaustive", "sequential", "retrieval")
MAPPERS = ("auto", "incremental", "global")
ALIGNMENTS = ("auto", "none")
PANORAMAS = ("auto", "all", "none")
EXHAUSTIVE = 60  # most photographs of which every pair is matched
GLOBAL = 400  # most photographs that are mapped one after the other
# photographs up to which the longer side, px, and the features of each, are these; COLMAP's own
# 8192 features of largest scale are hardly other ones in larger pictures
_BY_COUNT = ((100, 1600, 8192), (300, 1600, 6144), (math.inf, 1200, 4096))
_ERROR, _OF = 4.0, 640  # px: COLMAP's largest error of a match, and the photographs it belongs to


@dataclass(frozen=True, kw_only=True)
class Input(Owner):
    """input and output"""

    data: Path | None = option(None, "folder of photographs or of a scene, or video", shown="INPUT")
    out: Path | None = option(
        None,
        "scene folder to make: photographs are copied into its images/",
        shown="with the photographs",
        aka="output_dir output_path",
    )
    exclude: tuple[str, ...] = option(
        (), "photographs left out, by name or pattern (IMG_01*)", shown="none"
    )
    num_frames: int = option(
        150,
        "video: most frames to take; fewer where the camera moves little",
        unit="frames",
        min=3,
        max=10_000,
        aka="num_frames_target frames max_frames",
    )
    overwrite: bool = option(
        False, "replace a model that another program made, and do every stage again", aka="force"
    )
    seed: int = option(0, "seed of the random samples in matching and mapping", max=2**31 - 1)
    quiet: bool = option(False, "no progress")


@dataclass(frozen=True, kw_only=True)
class Cameras(Owner):
    """cameras"""

    camera_model: str = option(
        "auto",
        "lens model, by COLMAP's name; auto: SIMPLE_RADIAL, or no distortion where there is none; "
        "OPENCV for action cameras, OPENCV_FISHEYE for fisheyes",
        choices=CAMERA_MODELS,
        aka="camera_type",
    )
    camera_mode: str = option(
        "auto",
        "photographs that share a camera; auto: same device, focal length and size by "
        "EXIF, or else same folder and size",
        choices=CAMERA_MODES,
        aka="single_camera",
    )
    panorama: str = option(
        "auto",
        "photographs or a video of all directions, equirectangular, twice as wide as high; auto: "
        "those whose metadata says so; all; none",
        choices=PANORAMAS,
    )


@dataclass(frozen=True, kw_only=True)
class Matching(Owner):
    """features and matches"""

    max_image_size: int | None = option(
        None,
        "photographs are searched for features at this size of their longer side, if not smaller",
        unit="px",
        min=64,
        max=16_384,
        shown="by count",
    )
    max_num_features: int | None = option(
        None, "most features of a photograph", unit="features", min=64, max=65_536, shown="by count"
    )
    matching_method: str = option(
        "auto",
        "pairs of photographs to match; auto: sequential for a video, exhaustive for few "
        "photographs, retrieval for many",
        choices=METHODS,
        aka="matcher matching matcher_type",
    )
    mapper: str = option(
        "auto",
        "incremental: most robust; global: faster for many photographs with known focal "
        "lengths; auto: by count",
        choices=MAPPERS,
    )
    align: str = option(
        "auto",
        "turn the model upright, -y up, and scale it to metres, by GPS, gimbals and orientation in "
        "EXIF as far as they tell; none: leave it as it was found",
        choices=ALIGNMENTS,
    )
    num_threads: int = option(0, "threads; 0: one a core", unit="threads", max=1024)


@dataclass(frozen=True, kw_only=True)
class SfmConfig(Input, Cameras, Matching):
    """All settings of one reconstruction, checked: a value of the wrong type or out of range raises
    UserError."""


_OWNERS = (Input, Cameras, Matching)
SFM_GROUPS = {owner.__doc__ or "": tuple(owner.options().values()) for owner in _OWNERS}
SFM_FIELDS = SfmConfig.options()


def make_plan(config: SfmConfig, sizes: Sequence[tuple[int, int]], video: bool) -> dict[str, Any]:
    """What is done for photographs of these (width, height), px.

    image_size: px, longer side that features are found at; max_features: of a photograph; error: px
    within which a match must fit; method, mapper: as in SfmConfig, but not auto; threads: of the
    worker.

    Features are placed to a part of a pixel, so those of a small picture err by less: with 4 px,
    false matches of a 160 px picture bend its focal length by 15 %.
    """
    count = len(sizes)
    size, features = next((s, f) for most, s, f in _BY_COUNT if count <= most)
    method = "sequential" if video else "exhaustive" if count <= EXHAUSTIVE else "retrieval"
    mapper = "incremental" if count <= GLOBAL else "global"
    return {
        "image_size": config.max_image_size or size,
        "max_features": config.max_num_features or features,
        "error": _ERROR * min(1.0, max(map(max, sizes)) / _OF),
        "method": method if config.matching_method == "auto" else config.matching_method,
        "mapper": mapper if config.mapper == "auto" else config.mapper,
        "threads": config.num_threads or CORES,
    }
