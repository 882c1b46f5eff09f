"""What stands around the draws of a rasterizer: parameters -> projected splats and their order;
gradients of projected splats -> a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.raster.core import working
from hardsplat.raster.core.sinks import SCORES, Sink, other_passes, record_splats, splats_pass
from hardsplat.raster.core.sort import record_sort, sort_bytes, sort_passes
from hardsplat.tables import quantities
from hardsplat.tables.photographs import LENSES
from hardsplat.tables.pictures import PICTURES


def _depth_passes() -> list[ComputePass]:
    """Passes that change colours for depth and back."""
    shared = ("frame", "counts", "seen", "colors2d")
    return [
        ComputePass(
            "show depth",
            "photographs/depth_show.comp",
            reads=(*shared, "camera", "means"),
            writes=("frame", "counts", "colors2d", "kept_colors", "kept_frame"),
        ),
        ComputePass(
            "show colours",
            "photographs/depth_hide.comp",
            reads=(*shared, "d_splats2d", "kept_colors", "kept_frame"),
            writes=("frame", "colors2d", "d_splats2d", "d_depths"),
        ),
    ]


# The sums of a splat, by project/backward.comp and fits/image/sink.comp; by each frame's lists.
_CLEAN = {"d_splats2d", "tile_changes"}
BACKWARD_LANES = 128  # of a workgroup of project backward, for GROUP splats
# What the projection is made of, but for colour.
GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")
P = TypeVar("P", bound=ComputePass | DrawPass)


class Projection:
    """What stands around the draws, by default with one image that is differentiated.

    sink: None for no backward pass. images: what a step draws, as words behind the names of passes
    and targets; "" is the image itself. listed: which projected splats decide on the tiles that all
    images share, as such a word. differentiates: there is a backward draw. in_order: visible splats
    are sorted by depth; else there are their keys alone.
    """

    sink: Sink | None
    images: tuple[str, ...] = ("",)
    listed = ""
    in_order = True

    @property
    def differentiates(self) -> bool:
        return self.sink is not None

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        """command: the draw that the order is for, of hardsplat.tables.hardware."""
        raise NotImplementedError

    def image(self, p: P, word: str) -> P:
        """A forward pass, for another image than the first."""
        raise ValueError(f"there is no image{word}")

    def nbytes(self, capacity: int) -> dict[str, int]:
        """Bytes of what it needs, and every rasterizer, by buffer: see drawn_bytes."""
        raise NotImplementedError

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """parameters, camera, frame, counts -> splats2d, order."""
        raise NotImplementedError

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int, adds: bool = False
    ) -> None:
        """d_splats2d, splats2d, parameters -> the sink. adds: to the gradients that are there,
        which sinks of rows can."""
        raise NotImplementedError

    def record_return(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        """What a step has changed of a working set -> the model that it is from; else nothing."""

    def record_estimate(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        draw_and_compare: Callable[[], None],
        height: int,
        capacity: int,
    ) -> None:
        """parameters -> the sink, without a backward draw. draw_and_compare: records the images,
        and the loss between them. height: of the canvas, px."""
        raise NotImplementedError


def drawn_bytes(capacity: int, sink: Sink | None) -> dict[str, int]:
    """Bytes of what every rasterizer has for its camera, and between the projection of up to
    `capacity` splats and its draws, by buffer."""
    sizes = {"camera": 1, "frame": 1, "splats2d": capacity, "colors2d": capacity}
    if sink:
        sizes["d_splats2d"] = contract.CONSTANTS["GRADIENT_STRIDE"] * capacity
    return contract.nbytes(sizes)


def allocate_drawn(device: Device, nbytes: Mapping[str, int]) -> dict[str, Buffer]:
    """Buffers by name, all of them or, with OutOfMemory, none. What passes leave clean after use is
    zero."""
    buffers = allocate_all(device, dict(nbytes))
    for name in _CLEAN & buffers.keys():
        buffers[name].fill(0)
    return buffers


@dataclass(frozen=True)
class Perspective(Projection):
    """3D splats: EWA projection, order by depth, analytic gradients."""

    sh_planes: int
    sink: Sink | None
    antialiased: bool = False
    lens: str = "pinhole"  # a variant of LENSES
    in_order: bool = True
    lanes: int = 0  # as of sort_passes

    @property
    def _rows(self) -> bool:
        return self.sink is not None and self.sink.rows

    def passes(self, command: Mapping[str, int] = {}, picture: str = "image") -> list[ComputePass]:
        kept, sort = self.sink is not None and picture == "image", sort_passes(command, self.lanes)
        backward = self._backward_passes(self.sink) if self.sink else []
        forward = self._forward_pass(picture, kept)
        moves: list[ComputePass] = []
        if self.sink and self.sink.packed:
            lens, moments = LENSES[self.lens].slot, self.sink.slots["moments"]
            moves = working.working_passes(GEOMETRY, lens, moments, self.sink.statistics)
        return [*(sort if self.in_order else sort[:1]), forward, *backward, *moves]

    @property
    def _packed(self) -> bool:
        return self.sink is not None and self.sink.packed

    def _forward_pass(self, picture: str, kept: bool) -> ComputePass:
        """kept: a backward pass of the image may follow."""
        rows, colors = self._rows, ("sh0",) if self._rows else ("sh0", "shN")
        where = f"project/kept_{'apart' if rows else 'planes'}.glsl" if kept else ""
        return ComputePass(
            "project",
            "project/forward.comp",
            (*GEOMETRY, *colors, "camera", "frame", "counts"),
            ("splats2d", "colors2d", "keys", *(("seen", *directions(rows)) if kept else ())),
            {
                **self._spec,
                "LOGS": not rows,
                "DEPTH": PICTURES[picture].depth,
                "FRONT": PICTURES[picture].front,
                "SHRUNK": self.sink is None,
            },
            {
                "kept": where,
                "colors": "project/colors_rows.glsl" if rows else "",
                "lens": LENSES[self.lens].slot,
            },
        )

    @property
    def _spec(self) -> dict[str, int | float]:
        return {"SH_PLANES": self.sh_planes, "ANTIALIASED": self.antialiased}

    def _backward_passes(self, sink: Sink) -> list[ComputePass]:
        gradients, stats = quantities.gradients("splat"), ("grow_stats",) if sink.grows else ()
        own = tuple(quantities.QUANTITIES[name].d for name in GEOMETRY)
        before = own if sink.rows else ()
        cameras, listing = (("camera_sums",), "in_order") if sink.cameras else ((), "any")
        depths = ("d_depths",) if sink.depths else ()
        given = ("camera", "frame", "counts", "d_splats2d", "seen", *directions(self._rows))
        backward = ComputePass(
            "project backward",
            "project/backward.comp",
            (*GEOMETRY, *given, *before, *stats, *depths),
            ("d_splats2d", "d_colors", "directions", *own, *stats, *cameras),
            spec={
                "ANTIALIASED": self.antialiased,
                "LOCAL_SIZE": BACKWARD_LANES,
                "LOGS": not self._rows,
                "FLAT": sink.flat,
            },
            slots={
                "stats": "project/stats_grow.glsl" if sink.grows else "",
                "listing": f"project/listing_{listing}.glsl",
                "depth": "photographs/depth_gradient.glsl" if sink.depths else "",
                "lens": LENSES[self.lens].slot,
                "directions": f"project/directions_{'apart' if self._rows else 'planes'}.glsl",
            },
        )
        splats = splats_pass(
            sink,
            f"optim/gradient_{'rows' if self._rows else 'analytic'}.glsl",
            ("d_colors", "directions", *gradients),
            {"SH_PLANES": self.sh_planes} if self._rows else {},
        )
        more = [added(p) for p in (backward, splats) if sink.rows]
        others = [*other_passes(sink), *(_depth_passes() if sink.depths else ())]
        return [backward, splats, *more, *others]

    def nbytes(self, capacity: int) -> dict[str, int]:
        names = ("seen", "d_colors", "directions") if self.sink else ()
        sizes = contract.nbytes(dict.fromkeys(names, capacity)) | self.sort_bytes(capacity)
        if self._rows:
            sizes["d_directions"] = 3 * capacity * contract.itemsize("d_directions")
        if self.sink and self.sink.cameras:
            groups = -(-capacity // contract.CONSTANTS["GROUP"]) + 1
            sizes["camera_sums"] = 9 * groups * contract.itemsize("camera_sums")
        if self.sink and self.sink.depths:
            kept = {"kept_colors": capacity, "d_depths": capacity, "kept_frame": 1}
            sizes |= contract.nbytes(kept)
        return drawn_bytes(capacity, self.sink) | sizes

    def sort_bytes(self, capacity: int) -> dict[str, int]:
        """Bytes of keys and order, by buffer."""
        sizes = sort_bytes(capacity)
        return sizes if self.in_order else {"keys": sizes["keys"]}

    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        if self._packed:
            working.record_cull(recorder, run)
        recorder.run(run["sizes"], threads=(1,))
        if self.sink and self.sink.packed:
            working.record_moves(recorder, run, False, "values", *self.sink.statistics)
        recorder.run(run["project"], indirect="splat_groups")
        if self.in_order:
            record_sort(recorder, run)

    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int, adds: bool = False
    ) -> None:
        if self._packed:
            working.record_moves(recorder, run, False, "moments")
        recorder.run(run[f"project backward{' added' * adds}"], indirect="splat_groups")
        if self.sink:
            record_splats(recorder, run, self.sink, capacity, adds)

    def record_return(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None:
        if self.sink and self.sink.packed:
            working.record_moves(recorder, run, True, "values", "moments", *self.sink.statistics)


def added(p: ComputePass) -> ComputePass:
    """Under another name, the pass that adds to the gradients of other views."""
    return replace(p, name=f"{p.name} added", spec={**p.spec, "ADDS": True})


def directions(rows: bool) -> tuple[str, ...]:
    """Where the gradients of colours by the direction of view wait for the backward pass. rows: see
    Sink."""
    if rows:
        return ("d_directions",)
    return tuple(quantities.QUANTITIES[name].d for name in ("means", "quats", "log_scales"))


def bound(p: P, word: str, names: Mapping[str, str]) -> P:
    """The pass under another name, with other resources instead of those in `names`."""
    actual = {name: p.bind.get(name, name) for name in (*p.reads, *p.writes)}
    bind = {**p.bind, **{name: names[a] for name, a in actual.items() if a in names}}
    changed = replace(p, name=f"{p.name} {word}", bind=bind)
    if isinstance(changed, DrawPass) and changed.attachment and changed.attachment in names:
        return replace(changed, attachment=names[changed.attachment])
    return changed


def scored(draw: P, scores: bool) -> list[P]:
    """The backward draw, and with `scores` those of SCORES."""
    if not scores:
        return [draw]
    each = ((for_score(draw, name), spec) for name, spec in SCORES.items())
    return [draw, *(replace(p, spec={**draw.spec, **spec}) for p, spec in each)]


def for_score(p: P, score: str) -> P:
    """The pass under another name."""
    return replace(p, name=f"{p.name} {score}")


def for_images(projection: Projection, passes: Sequence[P]) -> list[P]:
    """Forward passes, for every image that a step draws."""
    images = projection.images
    return [projection.image(p, image) if image else p for image in images for p in passes]
