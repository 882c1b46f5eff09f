"""Training: views, rates, Adam, the loss and its results; poses, exposure and depth of photographs;
densification."""

from hardsplat.contract.layout import subsystem
from hardsplat.contract.splats import MAX_PLANES

# Training: views and their order, learning rates, settings of Adam.
TRAIN = subsystem(
    "train",
    "views, schedule, learning rates and Adam",
    uses=("core",),
    structs={
        "StepSettings": {
            "uint seed": "seed of every random draw",
            "uint background_mode": "0 black, 1 white, 2 random per step",
            "float near_plane": "world units",
            "uint max_sh_degree": "highest SH band",
            "uint sh_degree_interval": "steps between raising the SH degree",
            "float beta1": "Adam: decay of the first moments",
            "float beta2": "Adam: decay of the second moments",
            "uint splat_planes": "planes of splats, the first ones of rate_plans",
            "uint fetched": "1 where `photos` has the photograph of the step alone",
        },
        "AdamSettings": {
            "float beta1": "decay of the first moments",
            "float beta2": "decay of the second moments",
            "float eps": "keeps the division finite",
            "float opacity_decay": "of opacities, over their rate",
        },
        # The rate of step s is exp(mix(log(first), log(last), (s - since) / (until - since))), or
        # `first` where both are equal (expon_lr_func of Kerbl et al. 2023).
        "RatePlan": {
            "float first": "rate of step 0",
            "float last": "rate from step `until` on",
            "uint until": "steps",
            "uint every": "steps from one that moves the plane to the next",
            "uint sh_degree": "the plane is at rest below this SH degree",
            "uint warm_up": "steps over which the rate rises linearly from 0; 0 for none",
            "uint since": "step up to which the rate is `first`",
            "uint ends": "step from which the plane is at rest; 0 for never",
        },
        "PlaneList": {
            "uint count": "planes in the list",
            f"uint at[{MAX_PLANES}]": "planes of splats that this step moves",
        },
    },
    buffers={
        "80 StepSettings step_settings": "settings of begin_step",
        "81 AdamSettings adam_settings": "settings of Adam",
        "82 Camera views[views]": "training cameras",
        "83 uvec2 schedule[steps]": "(view, first element of its photograph) of step s at s % "
        "HISTORY",
        "84 RatePlan rate_plans[planes]": "how the learning rate of each plane goes on",
        "85 float rates[planes]": "learning rate of each plane in this step; 0 where the plane "
        "rests",
        "86 PlaneList moved_planes": "planes of splats whose rate is not 0",
    },
)

# The loss: photographs, weights of its terms, what the derivative of SSIM needs, and the results of
# a step.
MAX_TERMS = 16

LOSS = subsystem(
    "loss",
    "photographs, loss and metrics",
    uses=("image",),
    constants={
        "int SSIM_RADIUS = 5": "11x11 window, sigma 1.5 (Wang et al. 2004)",
        f"uint MAX_TERMS = {MAX_TERMS}": "terms that a loss can have",
        "uint IGNORED = 0x00FFFFFF": "word of `photos` where a mask takes the pixel out of loss "
        "and metrics: no premultiplied colour has it",
    },
    structs={
        "StepRecord": {
            f"float terms[{MAX_TERMS}]": "mean of each term of the loss, without its weight",
            "float mse": "mean squared error",
            "uint visible": "splats that the view showed",
            "uint splats": "splats alive",
            "uint pairs": "pairs of tile and splat that the step has, low word",
            "uint pairs_high": "the same, high word",
            "uint checkpoints": "checkpoints of buckets that the step has",
        },
        "LossTerms": {
            f"float weight[{MAX_TERMS}]": "weight of each term",
            f"uint first[{MAX_TERMS}]": "of a term of parameters: its first region in term_sums",
            f"uint regions[{MAX_TERMS}]": "of a term of parameters: its regions, one a plane of "
            "the quantity; 0 for terms of pixels",
            f"uint width[{MAX_TERMS}]": "of a term of parameters: numbers of an item in a plane",
            f"uint items[{MAX_TERMS}]": "of a term of parameters: items; of splats 0, whose number "
            "is counts.splats",
            "uint groups": "workgroups that a region can hold",
        },
        "ColorMap": {"vec4 rows[3]": "red, green, blue: factors of red, green, blue and 1"},
    },
    buffers={
        "70 uint photos[photograph bytes]": "photographs, rows of camera.size.x: RGBA8 with red in "
        "the low byte, colour times alpha; in training RGB8 where that is enough",
        "76 float color_moments[128][10][3]": "sums over a half of the image by a workgroup, of "
        "the clamped render s and the photograph w: r s, g s, b s, r w, g w, b w, s, w, w^2, count",
        "77 uniform ColorMap color_map": "colours that a measurement sees instead of the render",
        "119 uint photographs[photograph bytes]": "in host memory: all photographs, where `photos` "
        "has the one of the step; each begins at a multiple of four pixels",
        "71 float ssim_grads[9][pixels]": "per channel dSSIM/d(E[x], E[x^2], E[xy]), nine planes "
        "of camera.size",
        f"72 float loss_sums[pixel groups][{MAX_TERMS + 1}]": "squared error, then each term of "
        "pixels, summed over a workgroup; row by row over the tiles of camera.size",
        "73 StepRecord history[steps]": "results of step s at s % HISTORY",
        "74 uniform LossTerms loss_terms": "weights of the loss's terms, and where their sums are",
        "75 float term_sums[terms][groups]": "values of a term of parameters, summed over a "
        "workgroup of the optimizer, region by region",
    },
)


# Refinement of poses and intrinsics: what a photograph's camera gets from the splats.
POSE = subsystem(
    "pose",
    "gradients of cameras",
    uses=("core",),
    buffers={
        "162 float camera_sums[groups][9]": "over the visible splats of a workgroup: dL/d shift of "
        "all splats (3) and turn of them about the camera (3), world frame; dL/d log focal "
        "length, dL/d centre (2)"
    },
)

# Exposure and colour of photographs: what the loss compares instead of the rendered image.
EXPOSURE = subsystem(
    "exposure",
    "exposure and colour of photographs",
    uses=("image",),
    constants={
        "uint EXPOSURE_SUMS = 52": "numbers that a workgroup sums for the gradient of exposure at "
        "most, in whole rounds of shaders/photographs/exposure/sum_all.glsl"
    },
    buffers={
        "160 float exposure_sums[pixel groups][52]": "gradients of exposure and colour, summed "
        "over a workgroup; row by row over the tiles of camera.size"
    },
)

# Depth of photographs: what is known of it, and what the splats show of it.
DEPTH = subsystem(
    "depth",
    "depth of photographs",
    uses=("image",),
    structs={
        "DepthSettings": {
            "float weight": "of the mean absolute difference of disparities at step 0",
            "float last": "at step `until`, reached exponentially",
            "uint until": "steps",
            "float extent": "disparities are the scene's extent, world units, over depth",
        },
        "KeptFrame": {"vec3 background": "of the frame, while depth is drawn over black"},
    },
    buffers={
        "163 DepthSettings depth_settings": "settings of the loss of depth",
        "164 uint disparities[photograph bytes]": "two float16 a word, at the places of `photos`: "
        "extent over depth, 0 where none is known",
        "165 float depth_shares[views]": "one over the pixels of each photograph whose disparity "
        "is known; 0 where there is none",
        "166 vec3 kept_colors[splats]": "colours of visible splats, while depth stands in their "
        "place",
        "167 KeptFrame kept_frame": "what of the frame is something else while depth is drawn",
        "168 float d_depths[splats]": "of visible splats: dL/d depth, per world unit",
    },
)


TICKETS = 4096
REFINE = subsystem(
    "refine",
    "cloning, splitting, relocating and pruning of splats",
    uses=("core",),
    constants={
        f"uint TICKETS = {TICKETS}": "budget: classes of drawn numbers",
        "uint NO_TICKET = 0xFFFFFFFF": "budget: of splats that are no candidates",
        "float PRUNE_SCALE3D = 0.1": "scale above which a splat is pruned after the first reset, "
        "share of extent",
        "float PRUNE_SCREEN = 0.0": "screen radius above which it is, px; 0: never, as Inria's "
        "code and gsplat (published: 20)",
    },
    structs={
        "GrowStat": {
            "float grad": "sum of |d_mean2d| in NDC units over the views that saw the splat",
            "float views": "number of those views",
            "float radius": "largest 3-sigma screen radius seen, px",
        },
        "ScoreStat": {
            "float grad": "sum over pixels of the absolute value of d_mean2d in NDC units, over "
            "the scored views that saw the splat",
            "float views": "number of those views",
            "float edges": "T alpha times the strength of edges in the photograph, summed over "
            "pixels and views",
            "float blended": "T alpha, likewise",
        },
        "RefineSettings": {
            "float extent": "scene radius, world units",
            "float grow_grad2d": "mean gradient above which a splat is cloned or split, NDC units",
            "float grow_scale3d": "clone below, split above this scale, share of extent",
            "float prune_opa": "opacity below which a splat is pruned; MCMC: at which it is dead, "
            "and the least that sharing leaves",
            "uint reset_every": "steps between opacity resets",
            "float reset_opacity": "opacity ceiling after a reset",
            "float noise_lr": "MCMC: noise of the means over their learning rate, per squared "
            "extent",
            "uint budget": "budget: splats at the end of growth",
            "uint first_step": "budget: step at which growth begins",
            "uint last_step": "budget: step at which growth ends",
            "float growth": "budget: power of the progress of growth that splats follow",
            "float grow_absolute": "budget: mean absolute gradient above which a splat may be "
            "split, NDC units",
            "float grow_least": "budget: that where splats with larger ones are fewer than there "
            "is room for, NDC units",
            "float thinned": "budget: share of the splats that a turn of thinning leaves",
        },
    },
    buffers={
        "90 RefineSettings refine_settings": "settings of densification",
        "91 GrowStat grow_stats[splats]": "adaptive: statistics since the last densification",
        "92 uint flags[splats]": "2 * rank within its workgroup, + 1 where a splat grows or lives; "
        "MCMC: see densify/mcmc/weigh.comp",
        "93 uint flag_sums[groups]": "flagged splats per workgroup, then those of all before; the "
        "last is the total",
        "94 uint holes[splats]": "places to fill when dead splats are compacted",
        "95 uint copies[]": "MCMC, in the memory of holes: how many copies of a splat are to be "
        "made",
        "96 uint tickets[]": "budget, in the memory of holes: classes of drawn numbers, the least "
        "of which win; NO_TICKET for splats that are no candidates",
        f"97 uint ticket_counts[{TICKETS}]": "candidates of each class; zero between refinements",
        "98 uint admitted[1]": "classes that win",
        "87 uint turn[1]": "putting splats in another order: the plane and role whose turn it is; "
        "0 in between",
        "88 uint moved[]": "the same, in the memory of splats2d: what one plane will hold",
        "79 uint followed[]": "the same: numbers of splats that a strategy keeps",
        "89 ScoreStat score_stats[splats]": "budget: what scores found, of which a refinement "
        "leaves a share",
    },
)
