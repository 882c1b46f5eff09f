"""Densification: statistics of splats, the settings it goes by, and scratch."""

from hardsplat.contract.layout import BufferSpec, Field, Subsystem

REFINE = Subsystem(
    "refine",
    "cloning, splitting, relocating and pruning of splats",
    structs={
        "GrowStat": (
            Field("grad", "float", "sum of |d_mean2d| in NDC units over the views that saw the splat"),
            Field("views", "float", "number of those views"),
            Field("radius", "float", "largest 3-sigma screen radius seen, px"),
        ),
        "RefineSettings": (
            Field("extent", "float", "scene radius, world units"),
            Field("grow_grad2d", "float", "mean gradient above which a splat is cloned or split, NDC units"),
            Field("grow_scale3d", "float", "clone below, split above this scale, share of extent"),
            Field("prune_opa", "float", "opacity below which a splat is pruned"),
            Field("prune_scale3d", "float", "scale above which a splat is pruned after the first reset, share of extent"),
            Field("prune_screen", "float", "screen radius above which a splat is pruned after the first reset, px"),
            Field("reset_every", "uint", "steps between opacity resets"),
            Field("reset_opa", "float", "opacity ceiling after a reset"),
            Field("min_opacity", "float", "MCMC: opacity at which a splat is dead, and the least that sharing leaves"),
            Field("noise_lr", "float", "MCMC: noise of the means over their learning rate, per squared extent"),
        ),
    },
    buffers=(
        BufferSpec(90, "refine_settings", "RefineSettings", (1,), "what densification goes by", single=True),
        BufferSpec(91, "grow_stats", "GrowStat", ("splats",), "statistics since the last densification"),
        BufferSpec(92, "flags", "uint", ("splats",), "2 * rank within its workgroup, + 1 where a splat grows or lives; MCMC: see mcmc/weigh.comp"),
        BufferSpec(93, "flag_sums", "uint", ("groups",), "flagged splats per workgroup, then those of all before; the last is the total"),
        BufferSpec(94, "holes", "uint", ("splats",), "places to fill when dead splats are compacted"),
        BufferSpec(95, "copies", "uint", (), "MCMC, in the memory of holes: how many copies of a splat are to be made"),
    ),
    uses=("core",),
)
