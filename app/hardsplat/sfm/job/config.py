"""Every setting of `hardsplat sfm`: defaults, help and limits. Names follow COLMAP, or nerfstudio's
ns-process-data."""

from dataclasses import dataclass
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.settings.option import option
from hardsplat.settings.owner import Owner

CAMERA_MODELS = "auto SIMPLE_PINHOLE PINHOLE SIMPLE_RADIAL RADIAL OPENCV FULL_OPENCV".split()
CAMERA_MODELS += "SIMPLE_RADIAL_FISHEYE RADIAL_FISHEYE OPENCV_FISHEYE".split()
CAMERA_MODES = ("auto", "single", "per-folder", "per-image")
METHODS = ("auto", "exhaustive", "sequential", "retrieval")
MAPPERS = ("auto", "incremental", "global")
ALIGNMENTS = ("auto", "none")
PANORAMAS = ("auto", "all", "none")


@dataclass(frozen=True, kw_only=True)
class Input(Owner):
    """input and output"""

    data: Path | None = option(
        None, "folder of photographs, scene folder with images/, or video", shown="INPUT"
    )
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
        "lens model, by COLMAP's name; auto: SIMPLE_RADIAL, or without distortion where "
        "there is none; OPENCV for action cameras, OPENCV_FISHEYE for fisheyes",
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

    max_image_size: int = option(
        0,
        "photographs are searched for features at this size of their longer side; 0: by count",
        unit="px",
        max=16_384,
    )
    max_num_features: int = option(
        0, "most features of a photograph; 0: by count", unit="features", max=65_536
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

    def __post_init__(self):
        super().__post_init__()
        for name in ("max_image_size", "max_num_features"):
            if 0 < (value := getattr(self, name)) < 64:
                raise UserError(f"{name} {value}: must be 64 or more, or 0")


_OWNERS = (Input, Cameras, Matching)
SFM_GROUPS = {owner.__doc__ or "": tuple(owner.options().values()) for owner in _OWNERS}
SFM_FIELDS = SfmConfig.options()
