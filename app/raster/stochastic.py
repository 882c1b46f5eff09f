"""Stochastic gradients: every parameter perturbed at once, two images, their difference gathered splat by splat.

Deliot, Heitz & Belcour, "Transforming a Non-Differentiable Rasterizer into a Differentiable One with Stochastic Gradient Estimation" (I3D 2024, arXiv
2404.09758); the estimator is that of Spall (1992). With signs s and steps c, theta+- = theta +- c s, and l_p what pixel p has of the loss,

    g_k = s_k / (2 c_k) * D,   D = sum over the pixels p that the splat of k covers of (l_p(theta+) - l_p(theta-)).

One number D a splat makes all of its gradients. Signs of others average out, so the mean of g_k is dL/d theta_k up to O(c^2); where the splat covers nothing it
changes nothing, so leaving those pixels out costs no truth and saves noise. No derivative of the rasterizer, and no order of fragments but that of blending.

Common random numbers: both images have one view, background, depth order and culling, and all pairs of a step share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app import contract
from app.gpu.context import Device
from app.gpu.memory import Buffer
from app.gpu.passes import ComputePass, DrawPass, Pipeline
from app.gpu.recorder import Recorder
from app.raster.base import SINKS, Stochastic, allocate_rows

GROUP = contract.CONSTANTS["GROUP"][0]
_MINUS = {"splats2d": "splats2d_minus", "target": "target_minus"}


def bound(p: ComputePass | DrawPass, word: str, names: Mapping[str, str]) -> ComputePass | DrawPass:
    """The same pass under another name, with other resources in the place of those in `names`."""
    actual = {row: p.bind.get(row, row) for row in (*p.reads, *p.writes)}
    changes = {"attachment": names.get(p.attachment, p.attachment)} if isinstance(p, DrawPass) else {}
    return replace(p, name=f"{p.name} {word}", bind={**p.bind, **{row: names[a] for row, a in actual.items() if a in names}}, **changes)


def minus(p: ComputePass | DrawPass) -> ComputePass | DrawPass:
    """A forward pass, for the splats perturbed against their signs."""
    return bound(p, "minus", _MINUS)


def covers(p: ComputePass | DrawPass) -> ComputePass | DrawPass:
    """A forward pass, for what covers both perturbed splats."""
    return bound(p, "cover", {"splats2d": "splats2d_cover"})


def perturb_passes(options: Stochastic, sh_planes: int, sink: str, antialiased: bool) -> list[ComputePass]:
    """One for each pair."""
    spec = {"SH_PLANES": sh_planes, "ANTIALIASED": antialiased, "ALL_PLANES": SINKS[sink].all_planes, **_steps(options)}
    return [
        ComputePass(
            f"perturb {pair}",
            "project/perturb.comp",
            reads=(*contract.PARAMETERS, "camera", "frame", "counts"),
            writes=("indirect", "splats2d", "splats2d_minus", "splats2d_cover", "mean_steps", "splat_differences", "keys", "seen"),
            spec={**spec, "PAIR": pair},
        )
        for pair in range(options.gradient_pairs)
    ]


def gather_passes(options: Stochastic) -> list[ComputePass]:
    """By rows of pixels: the running sums, then one for each pair."""
    scan = ComputePass("gather scan", "gather/scan.comp", reads=("camera", "loss_differences"), writes=("loss_differences",))
    reads = ("camera", "counts", "seen", "splats2d_cover", "loss_differences")
    rows = [ComputePass(f"gather {pair}", "gather/rows.comp", reads, ("splat_differences",), {"PAIR": pair}) for pair in range(options.gradient_pairs)]
    return [scan, *rows]


def estimate_pass(options: Stochastic, sink: str) -> ComputePass:
    """splat_differences -> gradients of all parameters -> the sink."""
    row = SINKS[sink]
    return ComputePass(
        "estimate",
        "project/sink.comp",
        reads=("frame", "counts", "seen", "mean_steps", "splat_differences", *row.reads),
        writes=row.writes,
        spec={"VISIBLE_ONLY": row.visible_only, "PAIRS": options.gradient_pairs, **_steps(options)},
        slots={"sink": row.slot, "gradient": "project/stochastic.glsl"},
    )


def _steps(options: Stochastic) -> dict[str, int | float]:
    names = {"MEANS": "means", "QUATS": "quats", "SCALES": "scales", "OPACITIES": "opacities", "SH0": "sh0", "SHN": "shN"}
    return {"HOLD": options.gradient_hold} | {f"STEP_{word}": float(getattr(options, f"{name}_perturbation")) for word, name in names.items()}


def allocate_perturbed(device: Device, capacity: int, pairs: int) -> dict[str, Buffer]:
    """What base.allocate_projected is for analytic gradients. Plain forward passes leave their d_geometry in the memory of splats2d_cover."""
    stride = contract.plane_stride(capacity)
    sizes = {"camera": 1, "frame": 1, "splats2d": capacity, "splats2d_minus": capacity, "splats2d_cover": stride, "seen": capacity}
    return allocate_rows(device, sizes | {"mean_steps": capacity, "splat_differences": pairs * stride})


def without_derivative(project: ComputePass) -> ComputePass:
    """The plain projection, where nothing reads its d_geometry."""
    return replace(project, bind={"d_geometry": "splats2d_cover"})


def record_gather(recorder: Recorder, run: Mapping[str, Pipeline], pair: int, height: int) -> None:
    """loss_differences (used up), splats2d_cover -> splat_differences of this pair."""
    recorder.run(run["gather scan"], threads=(height * GROUP,))
    recorder.run(run[f"gather {pair}"], indirect="splat_groups")
