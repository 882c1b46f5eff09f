"""Every setting of an image fit: defaults, help, units and limits, as
app/hardsplat/settings/train.py has those of a training run. Needs no Vulkan."""

from dataclasses import dataclass
from pathlib import Path

from hardsplat.settings.option import Owner, option, variant
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.gradients import ATOMICS

PIXELS_PER_BLOB, MOST_BLOBS = 19.2, 40_960  # of the published fits: 40 960 on 1024x768
LOSSES = ("l2", "l1-dssim")
_REDUCTIONS = dict.fromkeys(name for row in FIT_RASTERS.values() for name in row.reductions)


@dataclass(frozen=True, kw_only=True)
class FitConfig(Owner):
    """All settings of one fit, checked: a value of the wrong type or out of range raises
    UserError."""

    result_dir: Path | None = option(None, "folder for what comes of it", shown="results/NAME")
    blobs: int = option(
        0,
        "2D Gaussians; 0: one for 19.2 pixels, at most 40960",
        max=1 << 24,
        aka="splats num_points",
    )
    max_steps: int = option(2000, "steps", min=1, aka="iterations steps")
    rasterizer: str = option(
        "auto", "what draws; auto: the first that runs here", choices=("auto", *FIT_RASTERS)
    )
    reduction: str = option(
        "auto",
        "how gradients are summed, of those that the rasterizer has; auto: its first",
        choices=tuple({"auto": None} | _REDUCTIONS),
    )
    atomics: str = variant(ATOMICS, "how gradients are added to memory", "the first that runs here")
    format: str = option(
        "float32", "hardware: format of the render target", choices=("float16", "float32")
    )
    loss: str = option(
        "l2", "l2: mean squared error; l1-dssim: that of training scenes", choices=LOSSES
    )
    ssim_lambda: float = option(0.2, "l1-dssim: weight of D-SSIM", max=1)
    background: str = option(
        "black",
        "colour behind the blobs, and behind transparent pixels of the image",
        choices=("black", "white"),
    )
    densify: bool = option(
        False, "start with a quarter of the blobs and add the others where the error is"
    )
    densify_every: int = option(
        100,
        "steps between additions, which end with the first half of the steps",
        unit="steps",
        min=1,
    )
    means_lr: float = option(
        0.1, "first rate of the centres", unit="distances between blobs", min=1e-15
    )
    scales_lr: float = option(0.1, "first rate of log scales")
    angles_lr: float = option(0.1, "first rate of angles")
    colors_lr: float = option(0.03, "first rate of colours")
    opacities_lr: float = option(0.05, "first rate of logit opacities")
    final_lr: float = option(0.1, "last rates over the first ones", min=1e-6, max=1)
    seed: int = option(0, "of every random number")
    device: str | None = option(
        None,
        "Vulkan device, by index or part of its name (also HARDSPLAT_DEVICE)",
        shown="chosen automatically",
    )
    quiet: bool = option(False, "no progress bar")
    verbose: bool = option(False, "print more")

    def blobs_for(self, pixels: int) -> int:
        return self.blobs or max(1, min(round(pixels / PIXELS_PER_BLOB), MOST_BLOBS))


FIT_FIELDS = FitConfig.options()
