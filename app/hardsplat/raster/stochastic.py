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
from dataclasses import dataclass, replace

from hardsplat import contract
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import ComputePass, DrawPass, Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.base import SINKS, Perspective, Stochastic, allocate_drawn, project_forward
from hardsplat.raster.sort import record_sort, sort_bytes, sort_passes

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
        slots={**row.slots, "gradient": "project/stochastic.glsl"},
    )


def _steps(options: Stochastic) -> dict[str, int | float]:
    names = {"MEANS": "means", "QUATS": "quats", "SCALES": "scales", "OPACITIES": "opacities", "SH0": "sh0", "SHN": "shN"}
    return {"HOLD": options.gradient_hold} | {f"STEP_{word}": float(getattr(options, f"{name}_perturbation")) for word, name in names.items()}


@dataclass(frozen=True)
class Perturbed(Perspective):
    """As Perspective, but the gradients are those of pairs of perturbed images. Its plain forward pass keeps nothing."""

    estimator: Stochastic = Stochastic()

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        perturb = perturb_passes(self.estimator, self.sh_planes, self.sink, self.antialiased)
        forward = project_forward(self.sh_planes, self.antialiased, picture, kept=False)
        return [*sort_passes(command), forward, *perturb, estimate_pass(self.estimator, self.sink)]

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        sizes = {"splats2d_minus": capacity, "splats2d_cover": capacity, "mean_steps": capacity, "seen": capacity}
        sizes["splat_differences"] = self.estimator.gradient_pairs * contract.plane_stride(capacity)
        return allocate_drawn(device, capacity, None, {name: n * contract.itemsize(name) for name, n in sizes.items()} | sort_bytes(capacity))

    def record_pair(self, recorder: Recorder, run: Mapping[str, Pipeline], pair: int) -> None:
        """parameters, camera, frame, counts -> splats2d of both signs and of what covers them. The first pair of a frame sorts for all."""
        if pair == 0:
            recorder.run(run["sizes"], threads=(1,))
        recorder.run(run[f"perturb {pair}"], indirect="splat_groups")
        if pair == 0:
            record_sort(recorder, run)

    def record_estimate(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """splat_differences -> the sink."""
        recorder.run(run["estimate"], indirect="sink")


def projection(sh_planes: int, sink: str | None, antialiased: bool, estimator: Stochastic | None) -> Perspective:
    """Of 3D splats, with gradients as the options of a rasterizer say."""
    return Perturbed(sh_planes, sink, antialiased, estimator) if estimator and sink else Perspective(sh_planes, sink, antialiased)


def record_gather(recorder: Recorder, run: Mapping[str, Pipeline], pair: int, height: int) -> None:
    """loss_differences (used up), splats2d_cover -> splat_differences of this pair."""
    recorder.run(run["gather scan"], threads=(height * GROUP,))
    recorder.run(run[f"gather {pair}"], indirect="splat_groups")
