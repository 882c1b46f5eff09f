"""Densification: statistics of splats, its settings, and scratch."""

from hardsplat.contract.layout import subsystem

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
            "float prune_opa": "opacity below which a splat is pruned",
            "uint reset_every": "steps between opacity resets",
            "float reset_opacity": "opacity ceiling after a reset",
            "float min_opacity": "MCMC: opacity at which a splat is dead, and the least that "
            "sharing leaves",
            "float noise_lr": "MCMC: noise of the means over their learning rate, per squared "
            "extent",
            "uint budget": "budget: splats at the end of growth",
            "uint first_step": "budget: step at which growth begins",
            "uint last_step": "budget: step at which growth ends",
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
    images={
        "99 weights": "of a pixel: strength of edges in the photograph, unused, 1; what scores add "
        "up over a splat's pixels"
    },
)
