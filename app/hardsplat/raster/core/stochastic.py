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
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.declared import ComputePass, Pipeline
from hardsplat.raster.core.projection import (
    GEOMETRY,
    Perspective,
    allocate_drawn,
    bound,
    project_forward,
)
from hardsplat.raster.core.protocols import Draws, P
from hardsplat.raster.core.sinks import Sink, record_splats, splats_pass
from hardsplat.raster.core.sort import ranking_lanes, record_sort, sort_bytes, sort_passes
from hardsplat.settings.raster import Stochastic
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
    differentiates = False

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        forward = project_forward(
            self.sh_planes, self.antialiased, picture, kept=False, lens=self.lens
        )
        return [
            *sort_passes(command, self.lanes),
            forward,
            *self._perturb_passes(),
            *self._gather_passes(),
            *([self._estimate_pass(self.sink)] if self.sink else []),
        ]

    def image(self, p: P, word: str) -> P:
        return bound(p, word.strip(), _MINUS if word == " minus" else _COVER)

    def _perturb_passes(self) -> list[ComputePass]:
        """One for each pair."""
        spec = {"SH_PLANES": self.sh_planes, "ANTIALIASED": self.antialiased}
        projected = tuple(
            f"{name}{which}"
            for name in ("splats2d", "colors2d")
            for which in ("", "_minus", "_cover")
        )
        return [
            ComputePass(
                f"perturb {pair}",
                "project/perturb.comp",
                reads=(*GEOMETRY, "sh0", "shN", "camera", "frame", "counts"),
                writes=(*projected, "mean_steps", "splat_differences", "keys", "seen"),
                spec={**spec, "PAIR": pair},
                slots={"lens": LENSES[self.lens].slot},
            )
            for pair in range(self.estimator.gradient_pairs)
        ]

    def _estimate_pass(self, sink: Sink) -> ComputePass:
        """splat_differences -> gradients of all parameters -> the sink."""
        spec = {"PAIRS": self.estimator.gradient_pairs}
        return splats_pass(
            sink, "optim/gradient_stochastic.glsl", ("mean_steps", "splat_differences"), spec
        )

    def _gather_passes(self) -> list[ComputePass]:
        """By rows of pixels: the running sums, then one for each pair."""
        scan = ComputePass(
            "gather scan",
            "project/gather_scan.comp",
            reads=("camera", "loss_differences"),
            writes=("loss_differences",),
        )
        reads, writes = (
            ("camera", "counts", "seen", "splats2d_cover", "colors2d_cover", "loss_differences"),
            ("splat_differences",),
        )
        pairs = range(self.estimator.gradient_pairs)
        return [
            scan,
            *(
                ComputePass(
                    f"gather {pair}", "project/gather_rows.comp", reads, writes, {"PAIR": pair}
                )
                for pair in pairs
            ),
        ]

    def _record_gather(
        self, recorder: Recorder, run: Mapping[str, Pipeline], pair: int, height: int
    ) -> None:
        """loss_differences (used up), the covers -> splat_differences of this pair."""
        recorder.run(run["gather scan"], threads=(height * GROUP,))
        recorder.run(run[f"gather {pair}"], indirect="splat_groups")

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        names = (
            "splats2d_minus",
            "colors2d_minus",
            "splats2d_cover",
            "colors2d_cover",
            "mean_steps",
            "seen",
        )
        sizes = dict.fromkeys(names, capacity) | {
            "splat_differences": self.estimator.gradient_pairs * capacity
        }
        return allocate_drawn(
            device,
            capacity,
            None,
            {name: n * contract.itemsize(name) for name, n in sizes.items()} | sort_bytes(capacity),
        )

    def record_step(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        draws: Draws,
        compare: Callable[[Recorder], None],
        capacity: int,
    ) -> None:
        """The first pair of a frame sorts for all."""
        recorder.run(run["sizes"], threads=(1,))
        for pair in range(self.estimator.gradient_pairs):
            recorder.run(run[f"perturb {pair}"], indirect="splat_groups")
            if pair == 0:
                record_sort(recorder, run)
            draws.record_images(recorder)
            compare(recorder)
            self._record_gather(recorder, run, pair, draws.height)
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
    if (
        estimator
        and sink
        and (missing := device.capabilities.missing(GRADIENTS["stochastic"].needs))
    ):
        raise UserError(
            f"--gradient stochastic: {device.name} lacks {', '.join(missing)}; use "
            "--gradient analytic"
        )
    lanes = ranking_lanes(device)
    if estimator and sink:
        return Perturbed(sh_planes, sink, antialiased, lens, lanes=lanes, estimator=estimator)
    return Perspective(sh_planes, sink, antialiased, lens, in_order, lanes)
