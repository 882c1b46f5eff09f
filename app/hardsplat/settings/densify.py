"""Settings of densification and of its strategies."""

from dataclasses import dataclass

from hardsplat.settings.option import Owner, option, part, share, steps, weight

# the names of strategies of hardsplat.train, which takes Vulkan to import
STRATEGIES = ("budget", "adaptive", "mcmc", "none")
EXTENTS = "scene extents"


@dataclass(frozen=True, kw_only=True)
class AdaptiveSettings(Owner):
    """strategy adaptive"""

    flag, values = "strategy", ("adaptive",)
    grow_grad2d: float = option(
        2.2e-4,
        "mean gradient of the 2D position above which a splat grows (published: 0.0002)",
        unit="NDC",
        aka="densify_grad_threshold growth_grad_threshold",
    )
    grow_scale3d: float = option(
        0.01, "scale above which it is split, not cloned", unit=EXTENTS, aka="percent_dense"
    )


@dataclass(frozen=True, kw_only=True)
class BudgetSettings(Owner):
    """strategy budget"""

    flag, values = "strategy", ("budget",)
    grow_absolute: float = option(
        3e-4, "mean absolute gradient of 2D positions above which a splat may split", unit="NDC"
    )
    score_every: int = steps(10, "steps from one that draws scores to the next", min=1)
    hold_back: bool = option(
        True,
        "hold a few photographs back: their error decides when the main phase of a run ends, how "
        "strongly opacities decay, and whether exposures are trained",
    )
    prune_to: float = share(
        1.0, "share of the grown splats that is left, those that contribute most", min=0.001
    )
    prune_to_iter: int = steps(
        14_400, "step at which so few are left; pruning begins at refine_stop_iter", scales=0
    )
    prune_opacity_reg: float = weight(
        0.0, "weight of the mean opacity in the loss while they are pruned, beside --opacity-reg"
    )


@dataclass(frozen=True, kw_only=True)
class McmcSettings(Owner):
    """strategy mcmc"""

    flag, values = "strategy", ("mcmc",)
    noise_lr: float = option(
        5e5, "noise of the means over their rate, in a scene of extent 1", max=1e12
    )


@dataclass(frozen=True, kw_only=True)
class DensifySettings(Owner):
    """densification"""

    strategy: str = option(
        "budget",
        "how splats are added and removed. budget: by scores, towards --cap-max; adaptive: cloned, "
        "split and pruned as published; mcmc: relocated and added by opacity; none: not at all",
        choices=STRATEGIES,
    )
    refine_start_iter: int = steps(
        430, "no densification up to this step", aka="densify_from_iter", scales=100
    )
    refine_stop_iter: int = steps(
        8_000,
        "no densification or reset from here on",
        aka="densify_until_iter growth_stop_iter",
        scales=0,
    )
    refine_every: int = steps(
        100, "steps between densifications", min=1, aka="densification_interval"
    )
    cap_max: int = option(
        0,
        "most splats, which budget grows to; 0: what fits, of budget by the photographs",
        unit="splats",
        shown="what fits",
        aka="max_splats",
    )
    prune_opa: float = share(
        0.02,
        "opacity below which a splat is removed (published: 0.005), and with mcmc is dead",
        aka="min_opacity",
    )
    reset_every: int = steps(
        0,
        "steps between opacity resets (published: 3000); 0: never",
        aka="opacity_reset_interval",
        scales=1500,
    )
    adaptive: AdaptiveSettings = part(AdaptiveSettings)
    budget: BudgetSettings = part(BudgetSettings)
    mcmc: McmcSettings = part(McmcSettings)
