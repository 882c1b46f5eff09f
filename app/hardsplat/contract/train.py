"""Training: views, rates, Adam, the loss and its results."""

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
            "float opacity_decay": "of opacities that are seen, over their rate",
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
