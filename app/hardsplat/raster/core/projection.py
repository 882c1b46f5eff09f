"""What stands around the draws of a rasterizer: parameters -> projected splats and their order;
gradients of projected splats -> a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.raster.core.depth import depth_bytes, depth_passes
from hardsplat.raster.core.protocols import Draws, P, Projection
from hardsplat.raster.core.sinks import SCORES, Sink, other_passes, record_splats, splats_pass
from hardsplat.raster.core.sort import record_sort, sort_bytes, sort_passes
from hardsplat.tables import quantities
from hardsplat.tables.photographs import LENSES
from hardsplat.tables.pictures import PICTURES

BACKWARD_LANES = 128  # of a workgroup of project backward, for GROUP splats
GEOMETRY = (
    "means",
    "quats",
    "log_scales",
    "logit_opacities",
)  # what the projection is made of, but for colour


class PlainProjection:
    """What projections have in common that draw one image and differentiate it."""

    images: tuple[str, ...] = ("",)
    listed = ""
    in_order = True

    def image(self, p: P, word: str) -> P:
        raise ValueError(f"there is no image{word}")

    def record_step(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        draws: Draws,
        compare: Callable[[Recorder], None],
        capacity: int,
    ) -> None:
        """compare: records the loss, target -> d_image."""
        draws.record_forward(recorder)
        compare(recorder)
        draws.record_backward(recorder)


def allocate_drawn(
    device: Device, capacity: int, sink: Sink | None, others: Mapping[str, int]
) -> dict[str, Buffer]:
    """What every rasterizer has for its camera, and between the projection of up to `capacity`
    splats and its draws; with a sink d_splats2d, which is zero.

    others: bytes of further buffers by name. All of them are allocated, or with OutOfMemory none.
    """
    sizes = {"camera": 1, "frame": 1, "splats2d": capacity, "colors2d": capacity}
    if sink:
        sizes["d_splats2d"] = contract.CONSTANTS["GRADIENT_STRIDE"] * capacity
    buffers = allocate_all(
        device, {name: n * contract.itemsize(name) for name, n in sizes.items()} | dict(others)
    )
    if sink:
        buffers["d_splats2d"].fill(
            0
        )  # project/backward.comp and fits/image/sink.comp leave it clean after use
    return buffers


@dataclass(frozen=True)
class Perspective(PlainProjection):
    """3D splats: EWA projection, order by depth, analytic gradients."""

    sh_planes: int
    sink: Sink | None
    antialiased: bool = False
    lens: str = "pinhole"  # a variant of LENSES
    in_order: bool = True
    lanes: int = 0  # as of sort_passes

    @property
    def differentiates(self) -> bool:
        return self.sink is not None

    @property
    def _rows(self) -> bool:
        return self.sink is not None and self.sink.rows

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        kept = self.sink is not None and picture == "image"
        forward = project_forward(
            self.sh_planes, self.antialiased, picture, kept, self.lens, self._rows
        )
        return [
            *sort_passes(command, self.lanes)[: None if self.in_order else 1],
            forward,
            *(self._backward_passes(self.sink) if self.sink else []),
        ]

    def _backward_passes(self, sink: Sink) -> list[ComputePass]:
        gradients, stats = quantities.gradients("splat"), ("grow_stats",) if sink.grows else ()
        own = tuple(quantities.QUANTITIES[name].d for name in GEOMETRY)
        cameras, listing = (("camera_sums",), "in_order") if sink.cameras else ((), "any")
        depths = ("d_depths",) if sink.depths else ()
        return [
            ComputePass(
                name="project backward",
                shader="project/backward.comp",
                reads=(
                    *GEOMETRY,
                    "camera",
                    "frame",
                    "counts",
                    "d_splats2d",
                    "seen",
                    *directions(self._rows),
                    *stats,
                    *depths,
                ),
                writes=("d_splats2d", "d_colors", "directions", *own, *stats, *cameras),
                spec={
                    "ANTIALIASED": self.antialiased,
                    "LOCAL_SIZE": BACKWARD_LANES,
                    "LOGS": not self._rows,
                },
                slots={
                    "stats": "project/stats_grow.glsl" if sink.grows else "",
                    "listing": f"project/listing_{listing}.glsl",
                    "depth": "photographs/depth_gradient.glsl" if sink.depths else "",
                    "lens": LENSES[self.lens].slot,
                    "directions": f"project/directions_{'apart' if self._rows else 'planes'}.glsl",
                },
            ),
            splats_pass(
                sink,
                f"optim/gradient_{'rows' if self._rows else 'analytic'}.glsl",
                ("d_colors", "directions", *gradients),
                {"SH_PLANES": self.sh_planes} if self._rows else {},
            ),
            *other_passes(sink),
            *(depth_passes() if sink.depths else ()),
        ]

    def allocate(self, device: Device, capacity: int) -> dict[str, Buffer]:
        names = ("seen", "d_colors", "directions") if self.sink else ()
        sizes = {name: capacity * contract.itemsize(name) for name in names} | self.sort_bytes(
            capacity
        )
        if self._rows:
            sizes["d_directions"] = 3 * capacity * contract.itemsize("d_directions")
        if self.sink and self.sink.cameras:
            sizes["camera_sums"] = (
                9
                * (-(-capacity // contract.CONSTANTS["GROUP"]) + 1)
                * contract.itemsize("camera_sums")
            )
        if self.sink and self.sink.depths:
            sizes |= depth_bytes(capacity)
        return allocate_drawn(device, capacity, self.sink, sizes)

    def sort_bytes(self, capacity: int) -> dict[str, int]:
        """Bytes of keys and order, by buffer."""
        return {
            name: nbytes
            for name, nbytes in sort_bytes(capacity).items()
            if self.in_order or name == "keys"
        }

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """parameters, camera, frame, counts -> splats2d, order."""
        recorder.run(run["sizes"], threads=(1,))
        recorder.run(run["project"], indirect="splat_groups")
        if self.in_order:
            record_sort(recorder, run)

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int
    ) -> None:
        """d_splats2d, splats2d, parameters -> the sink."""
        recorder.run(run["project backward"], indirect="splat_groups")
        if self.sink:
            record_splats(recorder, run, self.sink, capacity)


def directions(rows: bool) -> tuple[str, ...]:
    """Where the gradients of colours by the direction of view wait for the backward pass. rows: see
    Sink."""
    return (
        ("d_directions",)
        if rows
        else tuple(quantities.QUANTITIES[name].d for name in ("means", "quats", "log_scales"))
    )


def project_forward(
    sh_planes: int,
    antialiased: bool,
    picture: str = "image",
    kept: bool = True,
    lens: str = "pinhole",
    rows: bool = False,
) -> ComputePass:
    """kept: a backward pass of the image may follow. lens: a variant of LENSES. rows: see Sink."""
    where = f"project/kept_{'apart' if rows else 'planes'}.glsl" if kept else ""
    colors = "project/colors_rows.glsl" if rows else ""
    slots = {"kept": where, "colors": colors, "lens": LENSES[lens].slot}
    spec = {"SH_PLANES": sh_planes, "ANTIALIASED": antialiased, "LOGS": not rows}
    return ComputePass(
        name="project",
        shader="project/forward.comp",
        reads=(*GEOMETRY, "sh0", *(() if rows else ("shN",)), "camera", "frame", "counts"),
        writes=("splats2d", "colors2d", "keys", *(("seen", *directions(rows)) if kept else ())),
        spec={**spec, "DEPTH": PICTURES[picture].depth},
        slots=slots,
    )


def bound(p: P, word: str, names: Mapping[str, str]) -> P:
    """The pass under another name, with other resources instead of those in `names`."""
    actual = {name: p.bind.get(name, name) for name in (*p.reads, *p.writes)}
    changed = replace(
        p,
        name=f"{p.name} {word}",
        bind={**p.bind, **{name: names[a] for name, a in actual.items() if a in names}},
    )
    if isinstance(changed, DrawPass) and changed.attachment and changed.attachment in names:
        return replace(changed, attachment=names[changed.attachment])
    return changed


def scored(draw: P, scores: bool) -> list[P]:
    """The backward draw, and with `scores` those of SCORES."""
    return [
        draw,
        *(
            replace(for_score(draw, name), spec={**draw.spec, **spec})
            for name, (spec, _) in SCORES.items()
            if scores
        ),
    ]


def for_score(p: P, score: str) -> P:
    """The pass under another name, with what the score binds."""
    return replace(p, name=f"{p.name} {score}", bind={**p.bind, **SCORES[score][1]})


def for_images(projection: Projection, passes: Sequence[P]) -> list[P]:
    """Forward passes, for every image that a step draws."""
    return [
        projection.image(p, image) if image else p for image in projection.images for p in passes
    ]
