"""Densification: statistics of splats, the settings it goes by, and scratch."""

from hardsplat.contract.layout import BufferSpec, Constant, Field, ImageSpec, Subsystem

TICKETS = 4096

REFINE = Subsystem(
    "refine",
    "cloning, splitting, relocating and pruning of splats",
    constants={
        "TICKETS": Constant(TICKETS, "uint", "budget: classes of drawn numbers"),
        "NO_TICKET": Constant(0xFFFFFFFF, "uint", "budget: of splats that are no candidates"),
    },
    structs={
        "GrowStat": (
            Field(
                "grad", "float", "sum of |d_mean2d| in NDC units over the views that saw the splat"
            ),
            Field("views", "float", "number of those views"),
            Field("radius", "float", "largest 3-sigma screen radius seen, px"),
        ),
        "ScoreStat": (
            Field(
                "grad",
                "float",
                "sum over pixels of the absolute value of d_mean2d in NDC units, over "
                "the scored views that saw the splat",
            ),
            Field("views", "float", "number of those views"),
            Field(
                "edges",
                "float",
                "T alpha times the strength of edges in the photograph, summed over "
                "pixels and views",
            ),
            Field("errors", "float", "T alpha times the absolute error, likewise"),
            Field("blended", "float", "T alpha, likewise"),
        ),
        "RefineSettings": (
            Field("extent", "float", "scene radius, world units"),
            Field(
                "grow_grad2d",
                "float",
                "mean gradient above which a splat is cloned or split, NDC units",
            ),
            Field("grow_scale3d", "float", "clone below, split above this scale, share of extent"),
            Field("prune_opa", "float", "opacity below which a splat is pruned"),
            Field(
                "prune_scale3d",
                "float",
                "scale above which a splat is pruned after the first reset, share of extent",
            ),
            Field(
                "prune_screen",
                "float",
                "screen radius above which a splat is pruned after the first reset, px",
            ),
            Field("reset_every", "uint", "steps between opacity resets"),
            Field("reset_opa", "float", "opacity ceiling after a reset"),
            Field(
                "min_opacity",
                "float",
                "MCMC: opacity at which a splat is dead, and the least that sharing leaves",
            ),
            Field(
                "noise_lr",
                "float",
                "MCMC: noise of the means over their learning rate, per squared extent",
            ),
            Field("budget", "uint", "budget: splats at the end of growth"),
            Field("first_step", "uint", "budget: step at which growth begins"),
            Field("last_step", "uint", "budget: step at which growth ends"),
            Field(
                "grow_absolute",
                "float",
                "budget: mean absolute gradient above which a splat may be split, NDC units",
            ),
            Field(
                "grow_least",
                "float",
                "budget: that where splats with larger ones are fewer than there is room "
                "for, NDC units",
            ),
            Field("thinned", "float", "budget: share of the splats that a turn of thinning leaves"),
        ),
    },
    buffers=(
        BufferSpec(
            90, "refine_settings", "RefineSettings", (1,), "what densification goes by", single=True
        ),
        BufferSpec(
            91,
            "grow_stats",
            "GrowStat",
            ("splats",),
            "adaptive: statistics since the last densification",
        ),
        BufferSpec(
            92,
            "flags",
            "uint",
            ("splats",),
            "2 * rank within its workgroup, + 1 where a splat grows or lives; MCMC: see "
            "densify/mcmc/weigh.comp",
        ),
        BufferSpec(
            93,
            "flag_sums",
            "uint",
            ("groups",),
            "flagged splats per workgroup, then those of all before; the last is the total",
        ),
        BufferSpec(
            94, "holes", "uint", ("splats",), "places to fill when dead splats are compacted"
        ),
        BufferSpec(
            95,
            "copies",
            "uint",
            (),
            "MCMC, in the memory of holes: how many copies of a splat are to be made",
        ),
        BufferSpec(
            96,
            "tickets",
            "uint",
            (),
            "budget, in the memory of holes: classes of drawn numbers, the least of "
            "which win; NO_TICKET for splats that are no candidates",
        ),
        BufferSpec(
            97,
            "ticket_counts",
            "uint",
            (TICKETS,),
            "candidates of each class; zero between refinements",
        ),
        BufferSpec(98, "admitted", "uint", (1,), "classes that win"),
        BufferSpec(
            87,
            "turn",
            "uint",
            (1,),
            "putting splats in another order: the plane and role whose turn it is; 0 in between",
        ),
        BufferSpec(
            88, "moved", "uint", (), "the same, in the memory of splats2d: what one plane will hold"
        ),
        BufferSpec(79, "followed", "uint", (), "the same: numbers of splats that a strategy keeps"),
        BufferSpec(
            89,
            "score_stats",
            "ScoreStat",
            ("splats",),
            "budget: what scores found, of which a refinement leaves a share",
        ),
    ),
    images=(
        ImageSpec(
            99,
            "weights",
            "of a pixel: strength of edges in the photograph, absolute error, 1; what "
            "scores add up over a splat's pixels",
        ),
    ),
    uses=("core",),
)
