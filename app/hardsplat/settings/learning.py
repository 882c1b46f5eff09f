"""Settings of the model, the loss, Adam and gradients."""

from dataclasses import dataclass

from hardsplat.settings.option import Owner, option, part, rate, share, steps, weight
from hardsplat.tables.formats import MOMENT_FORMATS
from hardsplat.tables.gradients import GRADIENTS

EXTENTS = "scene extents"


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Owner):
    """model"""

    sh_degree: int = option(3, "spherical-harmonic degree of colour", max=3)
    sh_degree_interval: int = steps(900, "steps after which the next degree joins", min=1, scales=1)
    shN_lr: float = option(
        5e-3 / 20,
        "rate of the higher colour bands, for every step that --shN-every counts",
        aka="lr_coeffs_sh",
    )
    shN_every: int = steps(
        4, "steps from one update of the higher colour bands to the next (published: 1)", min=1
    )


@dataclass(frozen=True, kw_only=True)
class LossSettings(Owner):
    """loss"""

    ssim_lambda: float = share(
        0.2, "weight of D-SSIM; L1 has the rest", aka="lambda_dssim ssim_weight"
    )
    l2_share: float = share(
        0.0, "share of L1 that the squared error replaces, both as steep at an error of 0.05"
    )
    opacity_reg: float = weight(0.0, "weight of the mean opacity in the loss (mcmc: 0.01)")
    scale_reg: float = weight(
        0.0, "weight of the mean scale in the loss (mcmc: 0.05)", unit="per scene extent"
    )
    flat_lambda: float = weight(
        0.0,
        "weight of the mean smallest scale in the loss, which makes splats discs, for meshes (3)",
        unit="per scene extent",
    )


@dataclass(frozen=True, kw_only=True)
class AdamSettings(Owner):
    """Adam"""

    average_steps: int = steps(
        900, "last steps of the run, over which its splats are averaged; 0: none", scales=0
    )
    means_lr: float = rate(
        1.6e-4,
        "rate of means at the first step; with budget, of how far photographs look if that is less",
        unit=EXTENTS,
        aka="position_lr_init lr_mean",
    )
    means_lr_final: float = rate(
        1.6e-6,
        "rate of means at max_steps, reached exponentially",
        unit=EXTENTS,
        aka="position_lr_final lr_mean_end",
    )
    rates_final: float = share(
        0.25, "share of rates without an end of their own that is left at max_steps", min=1e-6
    )
    rates_hold: float = option(
        0.5, "share of the steps over which those rates stay what they are", max=0.999
    )
    scales_lr: float = option(1e-2, "rate of log scales", aka="scaling_lr lr_scale")
    opacities_lr: float = option(
        0.05, "rate of logit opacities (Inria's code later: 0.025)", aka="opacity_lr lr_opac"
    )
    opacity_decay: float = weight(
        0.0,
        "decay of opacities over their rate; 0, without --opacity-reg: by held-back photographs",
    )
    quats_lr: float = option(2e-3, "rate of quaternions", aka="rotation_lr lr_rotation")
    sh0_lr: float = option(5e-3, "rate of the constant colour band", aka="feature_lr lr_coeffs_dc")
    sky_lr: float = option(0.01, "rate of the colours of the sky, with --background sphere")
    adam_beta1: float = option(0.9, "decay of the mean", max=0.99999)
    moments: str = option(
        "auto",
        "how its moments are stored; bfloat16: in half the memory, rounded at random, for steps a "
        "few percent less exact; auto: so, where the device stores 16 bits",
        choices=("auto", *MOMENT_FORMATS),
    )
    visible_adam: bool = option(
        False, "leave splats alone that a step does not see, momentum too (gsplat)"
    )


@dataclass(frozen=True, kw_only=True)
class StochasticSettings(Owner):
    """stochastic gradients"""

    flag, values = "gradient", ("stochastic",)
    gradient_pairs: int = option(
        1, "pairs of perturbed images a step, averaged", unit="pairs", min=1, max=16
    )
    perturbation: float = option(
        1.0, "factor of all perturbations in the table of quantities", min=1e-3, max=100
    )


@dataclass(frozen=True, kw_only=True)
class GradientSettings(Owner):
    """gradients"""

    gradient: str = option(
        "auto",
        "analytic; stochastic: from two perturbed images (configs/stochastic.toml); auto: analytic",
        choices=("auto", *GRADIENTS),
    )
    stochastic: StochasticSettings = part(StochasticSettings)

    @property
    def estimates(self) -> int:
        """Pairs of perturbed images a step, 0 with analytic gradients."""
        return self.stochastic.gradient_pairs if self.gradient == "stochastic" else 0
