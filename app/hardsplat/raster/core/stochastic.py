"""Stochastic gradients: every parameter perturbed at once, two images, their difference gathered
splat by splat.

Deliot, Heitz & Belcour, "Transforming a Non-Differentiable Rasterizer into a Differentiable One
with Stochastic Gradient Estimation" (I3D 2024, arXiv 2404.09758); the estimator is that of Spall
(1992). With signs s and steps c, theta+- = theta +- c s, and l_p what pixel p has of the loss,

    g_k = s_k / (2 c_k) * D,   D = sum over the pixels p that the splat of k covers of (l_p(theta+)
        - l_p(theta-)).

One number D a splat makes all of its gradients. Signs of others average out, so the mean of g_k is
dL/d theta_k up to O(c^2); where the splat covers nothing it changes nothing, so leaving those
pixels out costs no truth and saves noise. No derivative of the rasterizer, and no order of
fragments but that of blending.

Common random numbers: both images have one view, background, depth order and culling, and all pairs
of a step share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.projection import GEOMETRY, P, Perspective, bound, drawn_bytes
from hardsplat.raster.core.sinks import Sink, record_splats, splats_pass
from hardsplat.raster.core.sort import ranking_lanes, record_sort, sort_bytes, sort_passes
from hardsplat.settings.rasterizers import Stochastic
from hardsplat.tables.gradients import GRADIENTS
from hardsplat.tables.photographs import LENSES

GROUP = contract.CONSTANTS["GROUP"]
_MINUS = {"splats2d": "splats2d_minus", "colors2d": "colors2d_minus", "target": "target_minus"}
_COVER = {"splats2d": "splats2d_cover", "colors2d": "colors2d_cover"}


@dataclass(frozen=True)
class Perturbed(Perspective):
    """3D splats, whose gradients are those of pairs of perturbed images. The plain forward pass
    keeps nothing."""

    estimator: Stochastic = Stochastic()  # noqa: RUF009  frozen

    images = ("", " minus")
    listed = " cover"

    @property
    def differentiates(self) -> bool:
        return False

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        perturb = [*self._perturb_passes(), *self._gather_passes()]
        if self.sink:  # splat_differences -> gradients of all parameters -> the sink
            spec = {"PAIRS": self.estimator.gradient_pairs}
            reads = ("mean_steps", "splat_differences")
            perturb.append(splats_pass(self.sink, "optim/gradient_stochastic.glsl", reads, spec))
        return [*sort_passes(command, self.lanes), self._forward_pass(picture, False), *perturb]

    def image(self, p: P, word: str) -> P:
        return bound(p, word.strip(), _MINUS if word == " minus" else _COVER)

    def _perturb_passes(self) -> list[ComputePass]:
        images = ("", "_minus", "_cover")
        projected = (f"{name}{which}" for name in ("splats2d", "colors2d") for which in images)
        reads = (*GEOMETRY, "sh0", "shN", "camera", "frame", "counts")
        writes = (*projected, "mean_steps", "splat_differences", "keys", "seen")
        shader, slots = "project/perturb.comp", {"lens": LENSES[self.lens].slot}
        return [
            ComputePass(
                f"perturb {pair}", shader, reads, writes, {**self._spec, "PAIR": pair}, slots
            )
            for pair in range(self.estimator.gradient_pairs)
        ]

    def _gather_passes(self) -> list[ComputePass]:
        """By rows of pixels: the running sums, then one for each pair."""
        shader, written = "project/gather_scan.comp", ("loss_differences",)
        scan = ComputePass("gather scan", shader, ("camera", *written), written)
        rows, cover = "project/gather_rows.comp", ("splats2d_cover", "colors2d_cover")
        reads, writes = ("camera", "counts", "seen", *cover, *written), ("splat_differences",)
        pairs = range(self.estimator.gradient_pairs)
        return [
            scan,
            *(ComputePass(f"gather {n}", rows, reads, writes, {"PAIR": n}) for n in pairs),
        ]

    def nbytes(self, capacity: int) -> dict[str, int]:
        names = (*_MINUS.values(), *_COVER.values(), "mean_steps", "seen")
        sizes = {name: capacity for name in names if name != "target_minus"}
        sizes["splat_differences"] = self.estimator.gradient_pairs * capacity
        return drawn_bytes(capacity, None) | contract.nbytes(sizes) | sort_bytes(capacity)

    def record_estimate(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        draw_and_compare: Callable[[], None],
        height: int,
        capacity: int,
    ) -> None:
        """See Projection; the first pair of a frame sorts for all."""
        recorder.run(run["sizes"], threads=(1,))
        for pair in range(self.estimator.gradient_pairs):
            recorder.run(run[f"perturb {pair}"], indirect="splat_groups")
            if pair == 0:
                record_sort(recorder, run)
            draw_and_compare()
            # loss_differences (used up), the covers -> splat_differences of this pair
            recorder.run(run["gather scan"], threads=(height * GROUP,))
            recorder.run(run[f"gather {pair}"], indirect="splat_groups")
        if self.sink:
            record_splats(recorder, run, self.sink, capacity)


def projection(
    device: Device,
    sh_planes: int,
    sink: Sink | None,
    antialiased: bool,
    estimator: Stochastic | None,
    lens: str = "pinhole",
    in_order: bool = True,
) -> Perspective:
    """The projection of 3D splats, with the gradients that the options ask for. lens: of LENSES.
    in_order: sorted by depth, as those with stochastic gradients always are."""
    missing = device.capabilities.missing(GRADIENTS["stochastic"].needs)
    if estimator and sink and missing:
        raise UserError(
            f"--gradient stochastic: {device.name} lacks {', '.join(missing)}; use "
            "--gradient analytic"
        )
    lanes = ranking_lanes(device)
    if estimator and sink:
        return Perturbed(sh_planes, sink, antialiased, lens, lanes=lanes, estimator=estimator)
    return Perspective(sh_planes, sink, antialiased, lens, in_order, lanes)
