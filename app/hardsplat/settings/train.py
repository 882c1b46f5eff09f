"""Every setting of a training run: defaults, help, units and limits live here and nowhere else.

Flags (`hardsplat.cli`), presets and the file saved beside a result (`presets.py`) all come from
these fields. Names follow gsplat's simple_trainer; values are those of the original 3DGS (Kerbl et
al. 2023) but for what configs/published.toml sets back.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.settings.option import checked, option, variant
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from hardsplat.tables.gradients import GRADIENTS, finds_statistics
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, SHAPES
from hardsplat.tables.photographs import EXPOSURES
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS
from hardsplat.tables.tiles import TILE_BACKWARDS

STRATEGIES = (
    "budget",
    "adaptive",
    "mcmc",
    "none",
)  # the names in hardsplat.train.strategies, which takes Vulkan to import
RASTERIZERS = (
    "hardware",
    "tiled",
)  # the names in hardsplat.raster.BACKENDS, which takes Vulkan to import

DETERMINISTIC = {"rasterizer": "tiled", "tile_backward": "gather"}  # what that setting stands for


@dataclass(frozen=True, kw_only=True)
class Scene:
    """scene and initialization"""

    data_dir: Path | None = option(
        None,
        "scene folder: COLMAP model in sparse/0 and photographs in images, or transforms.json",
        shown="SCENE",
        aka="source_path source",
    )
    data_factor: int = option(
        1,
        "train on images this many times smaller (MipNeRF-360: 4 outdoors, 2 indoors)",
        min=1,
        aka="resolution",
    )
    test_every: int = option(
        8,
        "hold out every N-th image by sorted file name, where the scene has no test split; 0: none",
        aka="llffhold eval_split_every",
    )
    images: str = option(
        "auto",
        "keep training images on the GPU, in host memory from where each step fetches "
        "one, or stream them; auto: host on GPUs with memory of their own, else by memory",
        choices=("auto", "gpu", "host", "stream"),
        aka="data_device",
    )
    background: str = option(
        "black",
        "colour behind the splats",
        choices=("black", "white", "random"),
        aka="white_background random_background random_bkgd",
    )
    mask_mode: str = option(
        "ignore",
        "pixels that masks leave out: ignore: they have no say; transparent: they show "
        "the background; opacity: nothing may stand there, which takes --background "
        "random",
        choices=("ignore", "transparent", "opacity"),
    )
    near_plane: float = option(
        0.2, "splats nearer to the camera are skipped (gsplat: 0.01)", unit="world units", min=1e-6
    )
    init: Path | None = option(
        None,
        "start from these splats: a result folder, or a file in any format that is read",
        shown="none",
    )
    init_type: str = option(
        "sfm",
        "start from the scene's points, if it has any, or from random ones",
        choices=("sfm", "random"),
    )
    init_num_pts: int = option(100_000, "random start: splats", unit="splats", min=1)
    init_extent: float = option(
        1.3,
        "random start: half the side of the cube around the origin",
        unit="world units",
        min=1e-6,
    )
    init_opa: float = option(0.1, "opacity of a new splat", min=0.001, max=0.999)
    init_scale: float = option(
        1.0, "size of a new splat over the distance to its neighbours", min=1e-6
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """run and results"""

    result_dir: Path | None = option(
        None,
        "folder for all that the run writes",
        shown="results/<scene name>",
        aka="model_path output_path export_path",
    )
    max_steps: int = option(
        25_000, "training steps, one view each", unit="steps", min=1, aka="iterations total_steps"
    )
    max_epochs: int = option(
        230,
        "most steps for each photograph, though never fewer than 7000 in all; 0, or "
        "--max-steps or a step of a schedule named: no such limit",
        unit="steps",
    )
    eval_steps: tuple[int, ...] = option(
        (7_000, 30_000),
        "steps after which held-out views are measured; always also the last",
        unit="steps",
        min=1,
        aka="test_iterations",
    )
    save_steps: tuple[int, ...] = option(
        (7_000, 30_000),
        "steps after which a PLY is saved; always also the last",
        unit="steps",
        min=1,
        aka="save_iterations ply_steps export_every",
    )
    checkpoint_every: int = option(
        5_000,
        "steps between checkpoints; 0: only at the end or when interrupted",
        unit="steps",
        aka="checkpoint_iterations",
    )
    resume: bool = option(
        False,
        "continue from the newest checkpoint in the result folder, with the settings saved there",
    )
    ckpt: Path | None = option(
        None, "continue from this checkpoint", shown="none", aka="start_checkpoint checkpoint"
    )
    log: str = option(
        "jsonl",
        "what other programs can follow: metrics.jsonl or metrics.csv in the result "
        "folder, or its folder tensorboard, which also has pictures",
        choices=("none", "jsonl", "csv", "tensorboard"),
        aka="logger tb_every",
    )
    seed: int = option(42, "seed of view order, random start and splits")
    quiet: bool = option(False, "no progress bar", aka="disable_progress")
    verbose: bool = option(False, "say which variants auto chose for the device, and why")
    profile: bool = option(False, "report GPU milliseconds of every stage")


@dataclass(frozen=True, kw_only=True)
class Rasterizing:
    """device and rasterizer"""

    device: str | None = option(
        None,
        "Vulkan device, by index or part of its name (also HARDSPLAT_DEVICE)",
        shown="chosen automatically",
    )
    rasterizer: str = option(
        "auto",
        "hardware: quads through the graphics pipeline; tiled: tiles of pixels in "
        "compute shaders; auto: the faster one here",
        choices=("auto", *RASTERIZERS),
        aka="backend",
    )
    antialiased: bool = option(
        False,
        "opacities compensate for the 0.3 px^2 added to splats, the 2D filter of Mip-Splatting",
        aka="antialiasing mip",
    )
    format: str = option("float16", "render target of the image", choices=tuple(FORMATS))
    state_format: str = option(
        "same",
        "per-pixel state of fragments that wait, and of depth segments; same: as "
        "--format; blocks keep float32 or, for the others, halves",
        choices=("same", *FORMATS),
    )
    blending: str = variant(
        BLENDINGS,
        "images: by the blending unit, in the shader, or from lists",
        auto="lists with --ordering lists, else the first that runs",
    )
    ordering: str = variant(
        ORDERINGS, "what brings overlapping fragments in order; lists: on every device"
    )
    reduction: str = variant(REDUCTIONS, "how fragments' gradients are summed before the atomics")
    hybrid_threshold: int = option(
        16,
        "contributing lanes of 32 from which a subgroup sum replaces quad sums",
        unit="lanes",
        min=1,
    )
    atomics: str = variant(ATOMICS, "how gradients are added to memory")
    block: str = variant(BLOCKS, "backward pass: pixels that one fragment stands for")
    shape: str = variant(SHAPES, "primitives that a splat is drawn as")
    segments: int = option(
        0,
        "depth segments that fixed-function blending draws to canvases of their own, so "
        "that fragments wait less; 0: as many as are the fastest here",
    )
    least_transmittance: float = option(
        1e-4,
        "transmittance in front of a depth segment below which its backward pass leaves "
        "pixels out; more than the default "
        "is faster, and gradients of what is hardly seen are missing",
        max=0.5,
    )
    tile_backward: str = variant(
        TILE_BACKWARDS, "tiled: how gradients are found and summed", auto="the first that runs here"
    )
    tile_threshold: int = option(
        8,
        "tiled, distwar: contributing lanes of 32 from which a sum replaces atomics",
        unit="lanes",
        min=1,
    )
    deterministic: bool = option(
        False,
        "every run of one seed on one device leaves the same splats, bit by bit: tiled, "
        "gradients gathered",
    )
    batch_steps: int = option(50, "steps per submission to the GPU", unit="steps", min=1)
    cap_max: int = option(
        0,
        "most splats, which budget grows to; 0: what fits (budget: by the photographs; "
        "mcmc: 1 000 000)",
        unit="splats",
        shown="what fits",
        aka="max_splats",
    )


@dataclass(frozen=True, kw_only=True)
class Learning:
    """model, loss and Adam"""

    average_steps: int = option(
        1_250,
        "the run ends with the average of splats over so many of its last steps; 0: with "
        "the last step",
        unit="steps",
        scales=0,
    )
    sh_degree: int = option(3, "spherical-harmonic degree of colour", max=3)
    sh_degree_interval: int = option(
        1_250, "steps after which the next degree joins", unit="steps", min=1, scales=1
    )
    ssim_lambda: float = option(
        0.2, "weight of D-SSIM; L1 has the rest", max=1, aka="lambda_dssim ssim_weight"
    )
    l2_share: float = option(
        0.0,
        "share of L1 that the squared error takes the place of, weighed so that both are "
        "as steep at an error of 0.05",
        max=1,
    )
    # The rate of means falls exponentially, so neither of its ends can be 0.
    means_lr: float = option(
        1.6e-4,
        "rate of means at the first step",
        unit="scene extents",
        min=1e-15,
        aka="position_lr_init lr_mean",
    )
    rates_final: float = option(
        0.25,
        "share of their first values that the rates without an end of their own reach at "
        "max_steps, exponentially",
        min=1e-6,
        max=1,
    )
    rates_hold: float = option(
        0.5, "share of the steps over which those rates stay what they are", max=0.999
    )
    means_lr_final: float = option(
        1.6e-6,
        "rate of means at max_steps, reached exponentially",
        unit="scene extents",
        min=1e-15,
        aka="position_lr_final lr_mean_end",
    )
    scales_lr: float = option(1e-2, "rate of log scales", aka="scaling_lr lr_scale")
    opacities_lr: float = option(
        0.05,
        "rate of logit opacities (0.05 as first published, and in gsplat; Inria's code "
        "took 0.025 later)",
        aka="opacity_lr lr_opac",
    )
    quats_lr: float = option(2e-3, "rate of quaternions", aka="rotation_lr lr_rotation")
    sh0_lr: float = option(5e-3, "rate of the constant colour band", aka="feature_lr lr_coeffs_dc")
    shN_lr: float = option(
        5e-3 / 20,
        "rate of the higher colour bands, for every step that --shN-every counts",
        aka="lr_coeffs_sh",
    )
    shN_every: int = option(
        4,
        "steps from one update of the higher colour bands, three quarters of what Adam "
        "moves, to the next (published: 1)",
        unit="steps",
        min=1,
    )
    adam_beta1: float = option(0.9, "Adam: decay of the mean", max=0.99999)
    adam_beta2: float = option(0.999, "Adam: decay of the variance", max=0.99999)
    adam_eps: float = option(1e-15, "Adam: keeps the division finite", min=1e-30)
    moments: str = option(
        "auto",
        "Adam: how its moments are stored; bfloat16: in half the memory, rounded at "
        "random, steps a few percent less exact; auto: so, where the device stores 16 "
        "bits",
        choices=("auto", *MOMENT_FORMATS),
    )
    gradient: str = option(
        "auto",
        "analytic; stochastic: from two perturbed images, its defaults are in "
        "configs/stochastic.toml; auto: analytic",
        choices=("auto", *GRADIENTS),
    )
    gradient_pairs: int = option(
        1,
        "stochastic: pairs of perturbed images a step, whose estimates are averaged",
        unit="pairs",
        min=1,
        max=16,
    )
    perturbation: float = option(
        1.0,
        "stochastic: sizes of all perturbations over those in the table of what is trained",
        min=1e-3,
        max=100,
    )
    visible_adam: bool = option(
        False,
        "Adam: leave splats alone that a step does not see, momentum too (gsplat); "
        "published: all move",
    )


@dataclass(frozen=True, kw_only=True)
class Capture:
    """photographs that differ"""

    exposure: str = option(
        "none",
        "photographs differ in exposure: affine: each has a map of colour; ppisp: "
        "exposure and white balance, and its camera vignetting and response",
        choices=tuple(EXPOSURES),
    )
    affine_lr: float = option(
        0.02, "rate of affine exposures at the first step", min=1e-15, aka="exposure_lr_init"
    )
    affine_lr_final: float = option(
        0.002,
        "rate of affine exposures at max_steps, reached exponentially",
        min=1e-15,
        aka="exposure_lr_final",
    )
    ppisp_lr: float = option(
        0.02,
        "rate of ppisp, and of vignetting with affine, at the first step (published: "
        "0.002, with which every photograph moves at every step)",
        min=1e-15,
    )
    ppisp_lr_final: float = option(
        0.002, "rate of ppisp at max_steps, reached exponentially", min=1e-15
    )
    ppisp_warm_up: int = option(
        500, "steps over which the rate of ppisp rises from 0", unit="steps", scales=1
    )
    pose_opt: bool = option(
        False, "poses of photographs are refined too, the mean of all staying where it is"
    )
    pose_lr: float = option(
        1e-3, "rate of poses at the first step", unit="rad, and scene extents", min=1e-15
    )
    pose_lr_final: float = option(
        1e-5,
        "rate of poses at max_steps, reached exponentially",
        unit="rad, and scene extents",
        min=1e-15,
    )
    pose_warm_up: int = option(
        1_000, "steps over which the rates of poses and intrinsics rise from 0", unit="steps"
    )
    intrinsics_opt: bool = option(
        False, "focal lengths and principal points of cameras are refined too"
    )
    intrinsics_lr: float = option(
        2e-4, "rate of intrinsics at the first step", unit="of the focal length", min=1e-15
    )
    intrinsics_lr_final: float = option(
        2e-6,
        "rate of intrinsics at max_steps, reached exponentially",
        unit="of the focal length",
        min=1e-15,
    )
    undistort: bool = option(
        True,
        "photographs of lenses that distort are undistorted on load; otherwise splats "
        "are drawn as those lenses see them, which keeps the edges of wide photographs",
    )
    depth_lambda: float = option(
        0.0,
        "weight of depths in the loss at first, of points of the model or of maps in "
        "depths/; a hundredth of it is left at max_steps (gsplat: 0.01)",
        unit="per scene extent over depth",
        max=1e6,
    )
    exposure_reg: float = option(
        1.0,
        "ppisp: weights of what keeps vignetting and response plain, over those published",
        max=1e6,
    )


@dataclass(frozen=True, kw_only=True)
class Densifying:
    """densification"""

    strategy: str = option(
        "budget",
        "how splats come and go. budget: by scores, towards --cap-max; adaptive: cloned, "
        "split and pruned as published; mcmc: relocated and added by opacity; none: not "
        "at all",
        choices=STRATEGIES,
    )
    refine_start_iter: int = option(
        600, "no densification up to this step", unit="steps", aka="densify_from_iter", scales=100
    )
    refine_stop_iter: int = option(
        15_000,
        "no densification or reset from here on",
        unit="steps",
        aka="densify_until_iter growth_stop_iter",
        scales=0,
    )
    refine_every: int = option(
        100, "steps between densifications", unit="steps", min=1, aka="densification_interval"
    )
    grow_grad2d: float = option(
        2.2e-4,
        "mean gradient of the 2D position above which a splat grows (published: 0.0002)",
        unit="NDC",
        aka="densify_grad_threshold growth_grad_threshold",
    )
    grow_scale3d: float = option(
        0.01, "scale above which it is split, not cloned", unit="scene extents", aka="percent_dense"
    )
    prune_opa: float = option(0.005, "opacity below which a splat is removed", max=1)
    prune_scale3d: float = option(
        0.1, "scale above which a splat is removed, after the first reset", unit="scene extents"
    )
    prune_screen: float = option(
        0.0,
        "radius on screen above which a splat is removed, after the first reset; 0: "
        "never, as Inria's code and gsplat",
        unit="px",
    )
    reset_every: int = option(
        0,
        "steps between opacity resets (published: 3000); 0: never",
        unit="steps",
        aka="opacity_reset_interval",
        scales=1500,
    )
    reset_opa: float = option(0.01, "most opacity that a reset leaves", min=0.001, max=0.999)
    grow_absolute: float = option(
        3e-4,
        "budget: mean absolute gradient of the 2D position above which a splat may be split",
        unit="NDC",
    )
    grow_least: float = option(
        7.5e-5,
        "budget: the same where those are fewer than there is room for; 0: none with less",
        unit="NDC",
    )
    score_every: int = option(
        10, "budget: steps from one that draws scores to the next", unit="steps", min=1
    )
    overfit_check: int = option(
        3_750,
        "budget: step up to which six training photographs are set apart, to see by them "
        "whether the others are learnt by heart; 0: none are",
        unit="steps",
        scales=300,
    )
    overfit_epochs: int = option(
        120,
        "budget: the run is shortened to so many steps for each photograph where those "
        "are learnt by heart; 0: never",
        unit="steps",
    )
    prune_to: float = option(
        1.0,
        "budget: share of the grown splats that is left of them, those that show most",
        min=0.001,
        max=1,
    )
    prune_to_iter: int = option(
        20_000,
        "budget: step at which so few are left; pruning begins at refine_stop_iter",
        unit="steps",
        scales=0,
    )
    prune_opacity_reg: float = option(
        0.0,
        "budget: weight of the mean opacity in the loss from refine_stop_iter to "
        "prune_to_iter, on top of --opacity-reg",
        max=1e6,
    )
    min_opacity: float = option(0.005, "mcmc: opacity at which a splat is dead", min=1e-6, max=0.5)
    noise_lr: float = option(
        5e5, "mcmc: noise of the means over their rate, in a scene of extent 1", max=1e12
    )
    opacity_reg: float = option(0.0, "weight of the mean opacity in the loss (mcmc: 0.01)", max=1e6)
    scale_reg: float = option(
        0.0, "weight of the mean scale in the loss (mcmc: 0.05)", unit="per scene extent", max=1e6
    )


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Scene, Run, Rasterizing, Learning, Capture, Densifying):
    """All settings of one run, checked: a value of the wrong type or out of range raises
    UserError."""

    def __post_init__(self):
        for name in FIELDS:
            object.__setattr__(self, name, checked(name, getattr(self, name), name, FIELDS))
        if self.resume and self.ckpt:
            raise UserError(
                "--resume and --ckpt exclude each other: the newest checkpoint, or the named one"
            )
        if self.mask_mode == "opacity":
            if self.background == "white":
                raise UserError(
                    "--mask-mode opacity takes --background random, not white: leave out "
                    "one of the two"
                )
            object.__setattr__(self, "background", "random")
        if self.deterministic:
            check_deterministic(
                {
                    name: value
                    for name in DETERMINISTIC
                    if (value := getattr(self, name)) != FIELDS[name].default
                }
            )
            for name, needed in DETERMINISTIC.items():
                object.__setattr__(self, name, needed)


GROUPS: dict[str, tuple[Field, ...]] = {
    group.__doc__ or "": fields(group) for group in TrainConfig.__bases__
}
FIELDS: dict[str, Field] = {f.name: f for group in GROUPS.values() for f in group}
NAMES: dict[str, str] = {
    word: f.name for f in FIELDS.values() for word in (f.name, *f.metadata["aka"])
}  # for suggestions


def scene_folder(data_dir: Path | None) -> Path:
    """The scene that a setting names. Raises UserError where it names none."""
    if data_dir is None:
        raise UserError(
            "which scene? hardsplat train SCENE, where SCENE is a folder with images/ and sparse/0/"
        )
    return data_dir


def check_deterministic(named: Mapping[str, Any]) -> None:
    """UserError where settings that somebody named are others than those that `deterministic`
    stands for."""
    for name, needed in DETERMINISTIC.items():
        if named.get(name, needed) not in (needed, "auto"):
            raise UserError(
                f"--deterministic takes --{name.replace('_', '-')} {needed}, not "
                f"{named[name]}: leave out one of the two"
            )


def check_gradient(config: TrainConfig) -> None:
    """UserError where splats would grow by statistics that the gradients do not come with, or
    quantities of photographs would have none."""
    if config.gradient == "stochastic" and (
        config.exposure != "none" or config.pose_opt or config.intrinsics_opt or config.depth_lambda
    ):
        cameras = "--no-pose-opt" if config.pose_opt else "--no-intrinsics-opt"
        flag = (
            "--exposure none"
            if config.exposure != "none"
            else cameras
            if config.pose_opt or config.intrinsics_opt
            else "--depth-lambda 0"
        )
        raise UserError(
            "--gradient stochastic finds no gradients of exposures, cameras and depths: "
            f"add {flag} or --gradient analytic"
        )
    if config.strategy in ("adaptive", "budget") and not finds_statistics(config.gradient):
        raise UserError(
            f"--gradient {config.gradient} finds no gradients of positions on screen, by "
            "which the adaptive strategy grows: add --strategy mcmc or --strategy none"
        )
