"""Settings as types, for editors and type checkers.

`python -m tools.gen_settings` writes this file from the owners in app/hardsplat/settings and from
app/hardsplat/fit/config.py, which have the defaults and limits; do not edit it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

RasterizerName = Literal["hardware", "tiled"]


class RasterizerOptions(TypedDict, total=False):
    """Options of `hardsplat.Renderer`, all of them optional. Each rasterizer has some of them."""

    format: Literal["unorm8", "unorm16", "float16", "float32"]
    """render target of the image (default: float16)"""
    state_format: Literal["same", "unorm8", "unorm16", "float16", "float32"]
    """per-pixel state of ordered fragments, and of depth segments; same: as --format; blocks keep
    float32 or, for the others, halves (default: same)"""
    blending: Literal["auto", "fixed", "programmable", "lists"]
    """images: by the blending unit, in the shader, or from lists; auto: lists with --ordering
    lists, else the first that runs (default: auto)"""
    reduction: Literal["auto", "hybrid", "quad", "subgroup", "atomic"]
    """how fragments' gradients are summed before the atomics; auto: the fastest here (default:
    auto)"""
    hybrid_threshold: int
    """contributing lanes of 32 from which a subgroup sum replaces quad sums; 0: as many as are the
    fastest here (default: 0 lanes)"""
    ordering: Literal["auto", "lists", "interlock", "raster_order"]
    """what brings overlapping fragments in order; lists: on every device; auto: the fastest here
    (default: auto)"""
    atomics: Literal["auto", "native", "cas"]
    """how gradients are added to memory; auto: the fastest here (default: auto)"""
    block: Literal["auto", "2x2", "4x2", "1x1"]
    """backward pass: pixels that one fragment stands for; auto: the fastest here (default: auto)"""
    shape: Literal["auto", "rectangle", "quad", "triangle", "geometry"]
    """primitives that a splat is drawn as; auto: the fastest here (default: auto)"""
    segments: int
    """depth segments that fixed-function blending draws to canvases of their own, so that fragments
    wait less; 0: as many as are the fastest here (default: 0)"""
    least_transmittance: float
    """transmittance in front of a depth segment below which its backward pass leaves pixels out;
    more than the default is faster, and gradients of what is hardly seen are missing (default:
    0.0001)"""
    antialiased: bool
    """opacities compensate for the 0.3 px^2 added to splats, the 2D filter of Mip-Splatting
    (default: False)"""
    gradient: Literal["auto", "analytic", "stochastic"]
    """analytic; stochastic: from two perturbed images, its defaults are in configs/stochastic.toml;
    auto: analytic (default: auto)"""
    tile_backward: Literal[
        "auto",
        "reduce-scatter",
        "per-splat",
        "distwar-butterfly",
        "distwar-serial",
        "atomic",
        "gather",
    ]
    """how gradients are found and summed; auto: the first that runs here (default: auto)"""
    tile_threshold: int
    """distwar: contributing lanes of 32 from which a sum replaces atomics; 0: as many as are the
    fastest here (default: 0 lanes)"""


class TrainSettings(RasterizerOptions, total=False):
    """Settings of `hardsplat.train`, all of them optional."""

    data_factor: int
    """train on images this many times smaller (MipNeRF-360: 4 outdoors, 2 indoors) (default: 1)"""
    test_every: int
    """hold out every N-th image by sorted file name, where the scene has no test split; 0: none
    (default: 8)"""
    exclude: Sequence[str]
    """photographs left out, by name or pattern (IMG_01*) (default: none)"""
    region: Sequence[float]
    """train this place in detail and the rest coarsely: a box x0,y0,z0,x1,y1,z1 or a sphere
    x,y,z,radius; splats are fifty times as likely to be added inside, and photographs that show it
    are drawn twice as often (default: everywhere)"""
    background: Literal["black", "white", "random", "sphere"]
    """behind the splats; sphere: a sky that is optimized (default: black)"""
    mask_mode: Literal["ignore", "transparent", "opacity"]
    """pixels that masks leave out: ignore: the loss leaves them out; transparent: they show the
    background; opacity: nothing may stand there, which takes --background random (default:
    ignore)"""
    near_plane: float
    """splats nearer to the camera are skipped (gsplat: 0.01) (default: 0.2 world units)"""
    undistort: bool
    """photographs of lenses that distort are undistorted on load; otherwise splats are drawn as
    those lenses see them, which keeps the edges of wide photographs (default: True)"""
    init: str | Path
    """start from these splats: a result folder, or a file in any format that is read (default:
    none)"""
    init_type: Literal["sfm", "random"]
    """start from the scene's points, if it has any, or from random ones (default: sfm)"""
    init_num_pts: int
    """splats of a random start (default: 100000 splats)"""
    init_extent: float
    """half the side of the cube of random splats, around the origin (default: by the cameras,
    around what they show)"""
    init_opa: float
    """opacity of a new splat (default: 0.1)"""
    init_scale: float
    """size of a new splat over the distance to its neighbours (default: 1.0)"""
    result_dir: str | Path
    """folder for all that the run writes (default: results/<scene name>)"""
    max_steps: int
    """training steps (default: 25000 steps)"""
    max_epochs: int
    """most steps for each photograph, though never fewer than 7000 in all; 0, or --max-steps or a
    step of a schedule named: no such limit (default: 230 steps)"""
    eval_steps: Sequence[int]
    """steps after which held-out views are measured; always also the last (default: 7000 30000
    steps)"""
    save_steps: Sequence[int]
    """steps after which a PLY is saved; always also the last (default: 7000 30000 steps)"""
    checkpoint_every: int
    """steps between checkpoints; 0: only at the end or when interrupted (default: 5000 steps)"""
    resume: bool
    """continue from the newest checkpoint in the result folder, with the settings saved there
    (default: False)"""
    ckpt: str | Path
    """continue from this checkpoint (default: none)"""
    log: Literal["none", "jsonl", "csv", "tensorboard"]
    """what other programs can follow: metrics.jsonl or metrics.csv in the result folder, or its
    folder tensorboard, which also has pictures (default: jsonl)"""
    seed: int
    """seed of view order, random start and splits (default: 42)"""
    quiet: bool
    """no progress bar (default: False)"""
    verbose: bool
    """print which variants auto chose for the device, and why (default: False)"""
    profile: bool
    """report GPU milliseconds of every stage (default: False)"""
    device: str | int
    """Vulkan device, by index or part of its name (also HARDSPLAT_DEVICE) (default: chosen
    automatically)"""
    images: Literal["auto", "gpu", "host", "stream"]
    """keep training images on the GPU, in host memory from where each step fetches one, or stream
    them; auto: host on GPUs with memory of their own, else by memory (default: auto)"""
    packed: bool
    """steps draw a copy of the splats that they see, and Adam moves these alone, as with --visible-
    adam: faster, and in less memory, where views show few of them (gsplat) (default: False)"""
    out_of_core: Literal["auto", "on", "off"]
    """packed, with the higher colour bands and their moments in host memory; auto: packed, or so,
    where the planned splats do not fit the device (default: auto)"""
    batch_steps: int
    """steps per submission to the GPU (default: 50 steps)"""
    deterministic: bool
    """every run of one seed on one device leaves the same splats, bit by bit: tiled, gradients
    gathered (default: False)"""
    rasterizer: Literal["auto", "hardware", "tiled"]
    """hardware: quads through the graphics pipeline; tiled: tiles of pixels in compute shaders;
    auto: the faster one here (default: auto)"""
    color: Literal["sh", "lobes"]
    """view-dependent colour: spherical harmonics, 48 numbers a splat at degree 3; lobes: a base
    colour and two lobes, 15 numbers, which files of other programs get as harmonics (default:
    sh)"""
    sh_degree: int
    """spherical-harmonic degree of colour (default: 3)"""
    sh_degree_interval: int
    """steps after which the next degree joins (default: 1250 steps)"""
    lobes_lr: float
    """rate of the colours of lobes (default: 0.0025)"""
    lobe_axes_lr: float
    """rate of their axes (default: 0.005)"""
    ssim_lambda: float
    """weight of D-SSIM; L1 has the rest (default: 0.2)"""
    l2_share: float
    """share of L1 that the squared error replaces, weighed so that both are as steep at an error of
    0.05 (default: 0.0)"""
    opacity_reg: float
    """weight of the mean opacity in the loss (mcmc: 0.01) (default: 0.0)"""
    scale_reg: float
    """weight of the mean scale in the loss (mcmc: 0.05) (default: 0.0 per scene extent)"""
    flat_lambda: float
    """weight of the mean smallest scale of splats in the loss, which makes them discs, for meshes
    (3) (default: 0.0 per scene extent)"""
    average_steps: int
    """the run ends with the average of splats over so many of its last steps; 0: with the last step
    (default: 1250 steps)"""
    means_lr: float
    """rate of means at the first step (default: 0.00016 scene extents)"""
    means_lr_final: float
    """rate of means at max_steps, reached exponentially (default: 1.6e-06 scene extents)"""
    rates_final: float
    """share of their first values that the rates without an end of their own reach at max_steps,
    exponentially (default: 0.25)"""
    rates_hold: float
    """share of the steps over which those rates stay what they are (default: 0.5)"""
    scales_lr: float
    """rate of log scales (default: 0.01)"""
    opacities_lr: float
    """rate of logit opacities (0.05 as first published, and in gsplat; Inria's code took 0.025
    later) (default: 0.05)"""
    quats_lr: float
    """rate of quaternions (default: 0.002)"""
    sh0_lr: float
    """rate of the constant colour band (default: 0.005)"""
    shN_lr: float
    """rate of the higher colour bands, for every step that --shN-every counts (default: 0.00025)"""
    shN_every: int
    """steps from one update of the higher colour bands, three quarters of what Adam moves, to the
    next (published: 1) (default: 4 steps)"""
    sky_lr: float
    """rate of the colours of the sky, with --background sphere (default: 0.01)"""
    adam_beta1: float
    """decay of the mean (default: 0.9)"""
    adam_beta2: float
    """decay of the variance (default: 0.999)"""
    adam_eps: float
    """keeps the division finite (default: 1e-15)"""
    moments: Literal["auto", "bfloat16", "float32"]
    """how its moments are stored; bfloat16: in half the memory, rounded at random, steps a few
    percent less exact; auto: so, where the device stores 16 bits (default: auto)"""
    visible_adam: bool
    """leave splats alone that a step does not see, momentum too (gsplat); published: all move
    (default: where a photograph shows less than a quarter of the model's points)"""
    gradient_pairs: int
    """pairs of perturbed images a step, averaged (default: 1 pairs)"""
    perturbation: float
    """factor of all perturbations in the table of quantities (default: 1.0)"""
    exposure: Literal["none", "auto", "affine", "ppisp"]
    """photographs differ in exposure: affine: each has a map of colour; ppisp: exposure and white
    balance, and its camera vignetting and response; auto: affine to the end where photographs show
    the points of the model in colours that differ much, else none (default: auto)"""
    exposure_until: float
    """share of the steps over which exposures are trained; after them splats are trained to look
    like the photographs as they are; 1: splats stay those of the mean photograph (default: 0.6)"""
    affine_lr: float
    """rate of affine exposures at the first step (default: 0.02)"""
    affine_lr_final: float
    """rate of affine exposures at max_steps, reached exponentially (default: 0.002)"""
    ppisp_lr: float
    """rate of ppisp, and of vignetting with affine, at the first step (published: 0.002, with which
    every photograph moves at every step) (default: 0.02)"""
    ppisp_lr_final: float
    """rate of ppisp at max_steps, reached exponentially (default: 0.002)"""
    ppisp_warm_up: int
    """steps over which the rate of ppisp rises from 0 (default: 500 steps)"""
    exposure_reg: float
    """weights of what keeps vignetting and response plain, over those published (default: 1.0)"""
    transient: Literal["off", "auto", "masks"]
    """what moves is left out of the loss, photograph by photograph: auto: found by errors that stay
    while other photographs get rid of them; masks: the same, and written as pictures into masks/ of
    the result, to be looked at, edited and used as masks of the scene (default: off)"""
    pose_opt: bool
    """poses of photographs are refined too, the mean of all staying where it is (default: False)"""
    pose_lr: float
    """rate of poses at the first step (default: 0.001 rad, and scene extents)"""
    pose_lr_final: float
    """rate of poses at max_steps, reached exponentially (default: 1e-05 rad, and scene extents)"""
    pose_warm_up: int
    """steps over which the rates of poses and intrinsics rise from 0 (default: 1000 steps)"""
    intrinsics_opt: bool
    """focal lengths and principal points of cameras are refined too (default: False)"""
    intrinsics_lr: float
    """rate of intrinsics at the first step (default: 0.0002 of the focal length)"""
    intrinsics_lr_final: float
    """rate of intrinsics at max_steps, reached exponentially (default: 2e-06 of the focal
    length)"""
    depth_lambda: float
    """weight of depths in the loss at first, of points of the model or of maps in depths/; a
    hundredth of it is left at max_steps (gsplat: 0.01) (default: 0.0 per scene extent over
    depth)"""
    strategy: Literal["budget", "adaptive", "mcmc", "none"]
    """how splats are added and removed. budget: by scores, towards --cap-max; adaptive: cloned,
    split and pruned as published; mcmc: relocated and added by opacity; none: not at all (default:
    budget)"""
    refine_start_iter: int
    """no densification up to this step (default: 600 steps)"""
    refine_stop_iter: int
    """no densification or reset from here on (default: 15000 steps)"""
    refine_every: int
    """steps between densifications (default: 100 steps)"""
    cap_max: int
    """most splats, which budget grows to; 0: what fits (budget: by photographs and points; 1 000
    000) (default: what fits)"""
    prune_opa: float
    """opacity below which a splat is removed (default: 0.005)"""
    reset_every: int
    """steps between opacity resets (published: 3000); 0: never (default: 0 steps)"""
    reset_opa: float
    """most opacity that a reset leaves (default: 0.01)"""
    grow_grad2d: float
    """mean gradient of the 2D position above which a splat grows (published: 0.0002) (default:
    0.00022 NDC)"""
    grow_scale3d: float
    """scale above which it is split, not cloned (default: 0.01 scene extents)"""
    prune_scale3d: float
    """scale above which a splat is removed, after the first reset (default: 0.1 scene extents)"""
    prune_screen: float
    """radius on screen above which a splat is removed, after the first reset; 0: never, as Inria's
    code and gsplat (default: 0.0 px)"""
    grow_absolute: float
    """mean absolute gradient of 2D positions above which a splat may split (default: 0.0003 NDC)"""
    grow_least: float
    """the same where those are fewer than there is room for; 0: no less (default: 7.5e-05 NDC)"""
    score_every: int
    """steps from one that draws scores to the next (default: 10 steps)"""
    overfit_check: int
    """step up to which some training photographs are held for validation, to see by them whether
    the run overfits the others; up to step 7000 in long runs, which end early where they gain
    little; 0: none are (default: 3750 steps)"""
    overfit_epochs: int
    """steps a photograph to which a run that overfits is shortened; 0: never (default: 120
    steps)"""
    prune_to: float
    """share of the grown splats that is left, those that contribute most (default: 1.0)"""
    prune_to_iter: int
    """step at which so few are left; pruning begins at refine_stop_iter (default: 20000 steps)"""
    prune_opacity_reg: float
    """weight of the mean opacity in the loss from refine_stop_iter to prune_to_iter, on top of
    --opacity-reg (default: 0.0)"""
    min_opacity: float
    """opacity at which a splat is dead (default: 0.005)"""
    noise_lr: float
    """noise of the means over their rate, in a scene of extent 1 (default: 500000.0)"""
    blocks: str
    """train the scene in blocks on all devices, and join them: auto (as many as fit), a number, or
    2x3 (default: none)"""
    block_devices: str
    """devices that train blocks, by index or part of the name, separated by commas (default:
    all)"""
    cluster: str
    """train blocks on this Dask cluster, tcp://HOST:PORT, whose workers see the same files
    (default: this machine)"""
    scheduler_file: str | Path
    """the same by the file that the cluster's scheduler wrote (default: none)"""
    polish_steps: int
    """steps over all photographs after blocks are joined, where they fit one device; 0: none
    (default: 1500 steps)"""


class FitSettings(TypedDict, total=False):
    """Settings of `hardsplat.fit`, all of them optional."""

    result_dir: str | Path
    """folder for what comes of it (default: results/NAME)"""
    blobs: int
    """2D Gaussians; 0: one for 19.2 pixels, at most 40960 (default: 0)"""
    max_steps: int
    """steps (default: 2000)"""
    rasterizer: Literal["auto", "binned", "hardware", "balloted", "sorted"]
    """what draws; auto: the first that runs here (default: auto)"""
    reduction: Literal[
        "auto",
        "reduce-scatter",
        "per-splat",
        "distwar-butterfly",
        "distwar-serial",
        "atomic",
        "gather",
        "hybrid",
        "quad",
        "subgroup",
    ]
    """how gradients are summed, of those that the rasterizer has; auto: its first (default:
    auto)"""
    atomics: Literal["auto", "native", "cas"]
    """how gradients are added to memory; auto: the first that runs here (default: auto)"""
    format: Literal["float16", "float32"]
    """hardware: format of the render target (default: float32)"""
    tile_pixels: int
    """sorted: pixels of a tile, and threads of its workgroup, a power of two (default: 256 px)"""
    subgroup_size: int
    """sorted, balloted: lanes of a subgroup, 8, 16, 32 or 64 where the device makes such; 0: its
    usual size (default: 0)"""
    loss: Literal["l2", "l1-dssim"]
    """l2: mean squared error; l1-dssim: that of training scenes (default: l2)"""
    ssim_lambda: float
    """l1-dssim: weight of D-SSIM (default: 0.2)"""
    background: Literal["black", "white"]
    """colour behind the blobs, and behind transparent pixels of the image (default: black)"""
    densify: bool
    """start with a quarter of the blobs and add the others where the error is (default: False)"""
    densify_every: int
    """steps between additions, which end with the first half of the steps (default: 100 steps)"""
    means_lr: float
    """first rate of the centres (default: 0.1 distances between blobs)"""
    scales_lr: float
    """first rate of log scales (default: 0.1)"""
    angles_lr: float
    """first rate of angles (default: 0.1)"""
    colors_lr: float
    """first rate of colours (default: 0.03)"""
    opacities_lr: float
    """first rate of logit opacities (default: 0.05)"""
    final_lr: float
    """last rates over the first ones (default: 0.1)"""
    frames: int
    """pictures of the time-lapse; 0: none (default: 120)"""
    seed: int
    """of every random number (default: 0)"""
    device: str | int
    """GPU to run on, by number or part of its name (hardsplat doctor lists them) (default:
    $HARDSPLAT_DEVICE, else the first)"""
    quiet: bool
    """no progress bar (default: False)"""
    verbose: bool
    """print more (default: False)"""
