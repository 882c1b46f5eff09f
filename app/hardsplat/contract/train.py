"""Training: views, rates, Adam, the loss and its results."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, Subsystem
from hardsplat.contract.splats import MAX_PLANES

# Training: views and their order, learning rates, what Adam is told.

TRAIN = Subsystem(
    "train",
    "views, schedule, learning rates and Adam",
    structs={
        "StepSettings": (
            Field("seed", "uint", "seed of every random draw"),
            Field("background_mode", "uint", "0 black, 1 white, 2 random per step"),
            Field("near_plane", "float", "world units"),
            Field("max_sh_degree", "uint", "highest SH band"),
            Field("sh_degree_interval", "uint", "steps between raising the SH degree"),
            Field("beta1", "float", "Adam: decay of the first moments"),
            Field("beta2", "float", "Adam: decay of the second moments"),
            Field("splat_planes", "uint", "planes of splats, the first ones of rate_plans"),
            Field("fetched", "uint", "1 where `photos` has the photograph of the step alone"),
        ),
        "AdamSettings": (
            Field("beta1", "float", "decay of the first moments"),
            Field("beta2", "float", "decay of the second moments"),
            Field("eps", "float", "keeps the division finite"),
        ),
        # The rate of step s is exp(mix(log(first), log(last), (s - since) / (until - since))), or
        # `first` where both are equal (expon_lr_func of Kerbl et al. 2023).
        "RatePlan": (
            Field("first", "float", "rate of step 0"),
            Field("last", "float", "rate from step `until` on"),
            Field("until", "uint", "steps"),
            Field("every", "uint", "steps from one that moves the plane to the next"),
            Field("sh_degree", "uint", "the plane is at rest below this SH degree"),
            Field("warm_up", "uint", "steps over which the rate rises linearly from 0; 0 for none"),
            Field("since", "uint", "step up to which the rate is `first`"),
        ),
        "PlaneList": (
            Field("count", "uint", "planes in the list"),
            Field("at", "uint", "planes of splats that this step moves", MAX_PLANES),
        ),
    },
    buffers=(
        BufferSpec(
            80, "step_settings", "StepSettings", (1,), "what begin_step goes by", single=True
        ),
        BufferSpec(81, "adam_settings", "AdamSettings", (1,), "what Adam goes by", single=True),
        BufferSpec(82, "views", "Camera", ("views",), "training cameras"),
        BufferSpec(
            83,
            "schedule",
            "uvec2",
            ("steps",),
            "(view, first element of its photograph) of step s at s % HISTORY",
        ),
        BufferSpec(
            84, "rate_plans", "RatePlan", ("planes",), "how the learning rate of each plane goes on"
        ),
        BufferSpec(
            85,
            "rates",
            "float",
            ("planes",),
            "learning rate of each plane in this step; 0 where the plane rests",
        ),
        BufferSpec(
            86,
            "moved_planes",
            "PlaneList",
            (1,),
            "planes of splats whose rate is not 0",
            single=True,
        ),
    ),
    uses=("core",),
)

# The loss: photographs, weights of its terms, what the derivative of SSIM needs, and the results of
# a step.
MAX_TERMS = 16

LOSS = Subsystem(
    "loss",
    "photographs, loss and metrics",
    constants={
        "SSIM_RADIUS": Constant(5, "int", "11x11 window, sigma 1.5 (Wang et al. 2004)"),
        "MAX_TERMS": Constant(MAX_TERMS, "uint", "terms that a loss can have"),
        "IGNORED": Constant(
            0x00FFFFFF,
            "uint",
            "word of `photos` where a mask takes the pixel out of loss and metrics: no "
            "premultiplied colour has it",
        ),
    },
    structs={
        "StepRecord": (
            Field("terms", "float", "mean of each term of the loss, without its weight", MAX_TERMS),
            Field("mse", "float", "mean squared error"),
            Field("visible", "uint", "splats that the view showed"),
            Field("splats", "uint", "splats alive"),
            Field("pairs", "uint", "pairs of tile and splat that the step asked for, low word"),
            Field("pairs_high", "uint", "the same, high word"),
        ),
        "LossTerms": (
            Field("weight", "float", "weight of each term", MAX_TERMS),
            Field(
                "first", "uint", "of a term of parameters: its first region in term_sums", MAX_TERMS
            ),
            Field(
                "regions",
                "uint",
                "of a term of parameters: its regions, one a plane of the quantity; 0 "
                "for terms of pixels",
                MAX_TERMS,
            ),
            Field(
                "width", "uint", "of a term of parameters: numbers of an item in a plane", MAX_TERMS
            ),
            Field(
                "items",
                "uint",
                "of a term of parameters: items; of splats 0, whose number is counts.splats",
                MAX_TERMS,
            ),
            Field("groups", "uint", "workgroups that a region has room for"),
        ),
    },
    buffers=(
        BufferSpec(
            70,
            "photos",
            "uint",
            ("photograph bytes",),
            "photographs, rows of camera.size.x: RGBA8 with red in the low byte, colour "
            "times alpha; in training RGB8 where that says all",
        ),
        BufferSpec(
            119,
            "photographs",
            "uint",
            ("photograph bytes",),
            "in host memory: all photographs, where `photos` has the one of the step; "
            "each begins at a multiple of four pixels",
        ),
        BufferSpec(
            71,
            "ssim_grads",
            "float",
            (9, "pixels"),
            "per channel dSSIM/d(E[x], E[x^2], E[xy]), nine planes of camera.size",
        ),
        BufferSpec(
            72,
            "loss_sums",
            "float",
            ("pixel groups", MAX_TERMS + 1),
            "squared error, then each term of pixels, summed over a workgroup; row by "
            "row over the tiles of camera.size",
        ),
        BufferSpec(73, "history", "StepRecord", ("steps",), "results of step s at s % HISTORY"),
        BufferSpec(
            74,
            "loss_terms",
            "LossTerms",
            (1,),
            "weights of the loss's terms, and where their sums are",
            single=True,
            uniform=True,
        ),
        BufferSpec(
            75,
            "term_sums",
            "float",
            ("terms", "groups"),
            "values of a term of parameters, summed over a workgroup of the optimizer, "
            "region by region",
        ),
    ),
    uses=("image",),
)
