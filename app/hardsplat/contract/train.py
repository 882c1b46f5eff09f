"""Training: views and their order, learning rates, what Adam is told."""

from hardsplat.contract.layout import BufferSpec, Field, Subsystem
from hardsplat.contract.splats import MAX_PLANES

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
        # The rate of step s is exp(mix(log(first), log(last), (s - since) / (until - since))), or `first` where both are equal (expon_lr_func of Kerbl et al. 2023).
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
        BufferSpec(80, "step_settings", "StepSettings", (1,), "what begin_step goes by", single=True),
        BufferSpec(81, "adam_settings", "AdamSettings", (1,), "what Adam goes by", single=True),
        BufferSpec(82, "views", "Camera", ("views",), "training cameras"),
        BufferSpec(83, "schedule", "uvec2", ("steps",), "(view, first element of its photograph) of step s at s % HISTORY"),
        BufferSpec(84, "rate_plans", "RatePlan", ("planes",), "how the learning rate of each plane goes on"),
        BufferSpec(85, "rates", "float", ("planes",), "learning rate of each plane in this step; 0 where the plane rests"),
        BufferSpec(86, "moved_planes", "PlaneList", (1,), "planes of splats whose rate is not 0", single=True),
    ),
    uses=("core",),
)
