"""Settings of photographs that differ, and of what is refined with the splats."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardsplat.settings.option import Owner, option, rate, share, steps, weight
from hardsplat.tables.photographs import EXPOSURES


@dataclass(frozen=True, kw_only=True)
class ExposureSettings(Owner):
    """exposures"""

    flag, values = "exposure", ("affine", "ppisp", "auto")
    exposure: str = option(
        "auto",
        "photographs differ: affine: each has a map of colour; ppisp: exposure and white balance, "
        "its camera vignetting and response; auto: affine to the end where a fit of colours "
        "explains much of the error of held-back photographs, else none",
        choices=tuple(EXPOSURES),
    )
    exposure_until: float = share(
        0.6,
        "share of the steps over which exposures are trained; then splats learn to look like the "
        "photographs as they are; 1: splats stay those of the mean photograph",
    )
    exposure_lr: float = rate(
        0.02,
        "rate of exposures at the first step; a tenth is left at max_steps (ppisp's own: 0.002)",
        aka="exposure_lr_init affine_lr ppisp_lr",
    )
    ppisp_warm_up: int = steps(360, "steps over which the rate of ppisp rises from 0", scales=1)

    @property
    def corrected(self) -> bool:
        """Whether exposures are trained; `auto` has none until photographs are known."""
        return bool(EXPOSURES[self.exposure].slot)


@dataclass(frozen=True, kw_only=True)
class PoseSettings(Owner):
    """poses"""

    flag, values = "pose_opt", (True,)
    pose_opt: bool = option(
        False, "poses of photographs are refined too, the mean of all staying where it is"
    )
    pose_lr: float = rate(
        1e-3,
        "rate of poses at the first step; a hundredth of it is left at max_steps",
        unit="rad, and scene extents",
        aka="pose_lr_final",
    )
    pose_warm_up: int = steps(1_000, "steps over which rates of poses and intrinsics rise from 0")

    @classmethod
    def chosen(cls, settings: Mapping[str, Any]) -> bool:
        """Whether poses are refined, or intrinsics, whose rates rise over the same steps."""
        return bool(settings["pose_opt"] or settings["intrinsics_opt"])


@dataclass(frozen=True, kw_only=True)
class IntrinsicsSettings(Owner):
    """intrinsics"""

    flag, values = "intrinsics_opt", (True,)
    intrinsics_opt: bool = option(
        False, "focal lengths and principal points of cameras are refined too"
    )
    intrinsics_lr: float = rate(
        2e-4,
        "rate of intrinsics at the first step; a hundredth of it is left at max_steps",
        unit="of the focal length",
    )


@dataclass(frozen=True, kw_only=True)
class DepthSettings(Owner):
    """depths"""

    depth_lambda: float = weight(
        0.0,
        "weight of depths of points, or of maps in depths/, in the loss at first; a hundredth "
        "is left at max_steps (gsplat: 0.01)",
        unit="per scene extent over depth",
    )
