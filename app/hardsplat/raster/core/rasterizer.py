"""What rasterizers share: their place between parameters and a projection, targets and steps.

All through named buffers and images (hardsplat.contract) and planes (hardsplat.tables.quantities):
  forward:  parameters, camera, frame, counts -> `target` (colour without background, premultiplied;
      alpha = final transmittance T)
  backward: `d_image` (dL/d colour) and the forward's leftovers, which it uses up -> `d_splats2d` ->
      gradients of the parameters -> a sink
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory, undone
from hardsplat.contract.footprint import Need
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import MEMORY, Lives, allocate_overlaid, destroy_all
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.pipelines import build, build_all
from hardsplat.gpu.passes.shader import ShaderSource
from hardsplat.raster.core import stochastic
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.projection import Projection, allocate_drawn
from hardsplat.raster.core.sinks import Sink
from hardsplat.raster.core.sky import behind_pass
from hardsplat.settings.rasterizers import Options
from hardsplat.tables.formats import FORMATS, TargetFormat

log = logging.getLogger("hardsplat")
HEADROOM = 1.5  # what is allocated over what frames need: each replacement takes some 0.3 s
CHECKPOINT_HEADROOM = 1.25  # of checkpoints, which are the most of what lives at once in a step
SPARE = 0.6  # share of a capacity below which the rest is given back
_APART: Lives = {}


class Variants(Protocol):
    """The variants that a rasterizer is made of."""

    @property
    def names(self) -> Mapping[str, str | int]: ...  # setting -> variant


class Drawn(Protocol):
    """What a rasterizer draws: at most `capacity` splats or blobs, in buffers by name of the
    contract."""

    sh_degree: int

    @property
    def capacity(self) -> int: ...
    @property
    def resources(self) -> Mapping[str, Buffer]: ...


class Plan(NamedTuple):
    """What the passes of a rasterizer follow from. divided: what divides the work of a pass, lanes
    of a subgroup or depth segments."""

    projection: Projection
    rows: Any
    width: int
    height: int
    divided: int


class Rasterizer:
    """Draws `parameters` on a canvas of width x height px. Resources: its own and those of
    `parameters`, by contract name.

    Of the class, options: what it takes. needs: what one splat takes in training, besides
    hardsplat.contract.footprint.needs. own_buffers: that no other has. overlaid: of those that
    lie in one memory while a training with analytic gradients draws. Three functions of (device,
    options) raise UserError for what the device cannot run. resolve: the rows of these options.
    first_runnable: options with the first rows that run instead of those that would be timed.
    sources: the shaders it is made of.

    sink: None for no backward pass. projection: another than of 3D splats, with a sink of its own.
    pair_capacity: pairs of a splat and a part of the canvas that fit; a frame that has more
    (counts.pairs_wanted) is drawn without some, by default the farthest. checkpoint_capacity:
    checkpoints that fit; without some (counts.checkpoints) the backward pass takes longer. lives:
    of buffers that share memory. Raises UserError for options that the device cannot run,
    OutOfMemory with nothing allocated.
    """

    options: type[Options]
    resolve: Callable[..., Variants]
    first_runnable: Callable[..., Any]
    sources: Callable[..., set[ShaderSource]]
    needs: Mapping[str, Need] = {}
    own_buffers: tuple[str, ...] = ()
    rows_of: Callable[..., Any]  # device, options, whether there are gradients -> rows
    all_passes: Callable[..., list]  # a Plan and a picture -> its passes
    rows: Variants
    resources: dict[str, Buffer | Image]
    draws_unlisted = False  # whether an image is complete whatever the capacities are
    parts = "tile"  # of the canvas, which make pairs with splats
    beyond = "the farthest are not drawn"  # what becomes of pairs that do not fit
    pair_capacity = checkpoint_capacity = 0
    least_pairs = least_checkpoints = 0  # which are not given back
    overlaid = lives = _APART
    _warned = False  # that pairs are left out

    def __init__(
        self,
        device: Device,
        parameters: Drawn,
        width: int,
        height: int,
        options: Any,
        sink: Sink | None,
        projection: Projection | None = None,
    ):
        self.device, self.width, self.height = device, width, height
        self._parameters, self._capacity = parameters, parameters.capacity
        sh_planes = (parameters.sh_degree + 1) ** 2
        self._plan = self.plan(device, sh_planes, width, height, options, sink, projection)
        self.projection, self.rows = self._plan.projection, self._plan.rows
        self.pipelines = build_all(device, self._passes())
        self._own: dict[str, Buffer | Image] = {}
        self._sky: ComputePass | None = None
        if isinstance(parameters, Parameters) and parameters.texels:
            self._sky = behind_pass(options.lens, *self._behind())
        with undone(self.destroy):
            for image in self.projection.images:
                self._add_image(f"target{image}".replace(" ", "_"), self._target())
            trained = self.projection.sink if self.projection.differentiates else None
            if trained and trained.stores:
                self._add_image("d_image", FORMATS["float32"])  # in training it is the loss's
            self._allocate(self.projection.nbytes(self._capacity))
        if options.stochastic and sink and isinstance(parameters, Parameters):
            parameters.set_perturbations(dict(options.stochastic.perturbations))
        self._collect()

    @classmethod
    def plan(
        cls,
        device: Device,
        sh_planes: int,
        width: int,
        height: int,
        options: Any,
        sink: Sink | None,
        projection: Projection | None = None,
    ) -> Plan:
        """What `all_passes` takes. Raises UserError for options that the device cannot run."""
        rows = cls.rows_of(device, options, sink is not None)
        order = cls._in_order(device, rows)
        projection = projection or stochastic.projection(
            device, sh_planes, sink, options.antialiased, options.stochastic, options.lens, order
        )
        return Plan(projection, rows, width, height, cls._divided(device, rows, height))

    @classmethod
    def passes(
        cls, device: Device, sh_planes: int, width: int, height: int, options: Any, sink: Sink
    ) -> list:
        """All that it builds at first. options: without anything left to time."""
        return cls.all_passes(*cls.plan(device, sh_planes, width, height, options, sink))

    def _passes(self, picture: str = "image") -> list[ComputePass | DrawPass]:
        return self.all_passes(*self._plan, picture)

    def _add_image(self, name: str, format: TargetFormat, tall: int = 1) -> None:
        """tall: canvases, one below the other."""
        self._own[name] = Image(
            self.device, self.width, self.height * tall, format.vk, format.texel, name
        )

    def _collect(self) -> None:
        """`resources` are another object whenever one of them is replaced."""
        self.resources = {**self._parameters.resources, **self._own}

    # what one rasterizer does differently from another

    @classmethod
    def _in_order(cls, device: Device, rows: Any) -> bool:
        """Whether splats are sorted by depth before they are drawn."""
        return True

    @classmethod
    def _divided(cls, device: Device, rows: Any, height: int) -> int:
        """`divided` of a Plan."""
        return device.subgroup_size

    def _target(self) -> TargetFormat:
        """The format of finished images."""
        return FORMATS["float32"]

    def _behind(self) -> tuple[str, int]:
        """The image that the sky is put behind, and its first row."""
        return "target", 0

    def _record_behind(self, recorder: Recorder) -> None:
        """Puts the sky behind the drawn image, where there is one."""
        if self._sky:
            recorder.run(build(self.device, self._sky), threads=(self.width, self.height))

    def _allocate(self, nbytes: dict[str, int]) -> None:
        """Its own buffers and images, but for those of pictures. nbytes: of the projection's, by
        name."""
        self._own |= allocate_drawn(self.device, nbytes)

    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None:
        """parameters, camera, frame, counts -> target. picture: of hardsplat.tables.pictures. rest:
        another recorder, for what comes once `counts` has the number of pairs."""
        raise NotImplementedError

    def record_images(self, recorder: Recorder) -> None:
        """Projected splats -> the targets of all images of the projection."""
        raise NotImplementedError

    def record_again(self, recorder: Recorder) -> None:
        """Splats whose colours alone are others than in the last draw -> target, by the same
        lists."""
        raise NotImplementedError

    def record_draw_backward(self, recorder: Recorder, score: str = "") -> None:
        """d_image, target, what the forward pass left -> d_splats2d. score: one of SCORES, then
        d_splats2d must be clean."""
        raise NotImplementedError

    # what all do alike

    def record_backward(self, recorder: Recorder, adds: bool = False) -> None:
        """d_image, target, what the forward pass left -> d_splats2d -> the sink. adds: to the
        gradients that are there, which sinks of rows can."""
        self.record_draw_backward(recorder)
        self.projection.record_backward(recorder, self.pipelines, self._capacity, adds)

    def record_step(self, recorder: Recorder, compare: Callable[[Recorder], None]) -> None:
        """parameters, camera, frame, counts -> gradients -> the sink. compare: records the loss
        between the images and what it makes of them."""
        if self.projection.differentiates:
            self.record_forward(recorder)
            compare(recorder)
            self.record_backward(recorder)
            return

        def draw_and_compare() -> None:
            self.record_images(recorder)
            compare(recorder)

        self.projection.record_estimate(
            recorder, self.pipelines, draw_and_compare, self.height, self._capacity
        )

    def destroy(self) -> None:
        destroy_all(self._own)

    # lists of pairs of splats and parts of the canvas, with as much memory as frames need

    def _possible_pairs(self) -> int:
        """Pairs of every splat with every part of the canvas."""
        return 0

    def _most_pairs(self) -> int:
        """Most pairs that descriptors reach."""
        return 0

    def _pair_bytes(self, pairs: int, checkpoints: int = 0) -> dict[str, int]:
        """Bytes of what holds so many pairs and checkpoints, by buffer."""
        return {}

    def _most_checkpoints(self, pairs: int) -> int:
        """Checkpoints of so many pairs at most, as far as memory allows."""
        return 0

    def _meet_limit(self) -> bool:
        """Frames have more pairs than a descriptor reaches. Returns whether buffers were
        replaced."""
        return False

    def reserve_pairs(
        self, pairs: int | None = None, checkpoints: int = 0, give_back: bool = False
    ) -> bool:
        """Makes buffers large enough for so many pairs and checkpoints, by default those of the
        last frame, which must be done. give_back: and not much larger. True where they were
        replaced: `resources` is another, and what was recorded must be recorded again, also after
        OutOfMemory, which leaves the capacities as they are."""
        if pairs is None:
            counts = self._parameters.resources["counts"].download(contract.dtype("Counts"))[0]
            pairs, checkpoints = pairs_wanted(counts), int(counts["checkpoints"])
        # Else there are no more pairs, and the caller looks ahead.
        limited = self._most_pairs() < min(pairs, self._possible_pairs())
        replaced = limited and self._meet_limit()
        most = self._most_pairs()
        if limited and not self._warned:
            self._warned = True
            where, what = self.device.name, self.beyond
            text = "frames have up to %s pairs of %s and splat, %s fit on %s: %s"
            log.warning(text, pairs, self.parts, most, where, what)
        capacity = _fitted(self.pair_capacity, pairs, most, self.least_pairs, give_back)
        if not checkpoints and capacity > self.pair_capacity:  # as many for a pair as there are
            share = self.checkpoint_capacity / max(self.pair_capacity, 1)
            checkpoints = int(capacity * share / CHECKPOINT_HEADROOM)
        before, ample = self.resources, (places := self.checkpoint_capacity)
        if give_back or checkpoints > places:  # else the driver need not be asked what is free
            reached, least = self._most_checkpoints(capacity), self.least_checkpoints
            ample = _fitted(places, checkpoints, reached, least, give_back, CHECKPOINT_HEADROOM)
        try:
            self._resize_lists(capacity, ample)
        except OutOfMemory:
            if ample <= places:
                raise
            self._resize_lists(capacity, places)  # without some it takes longer
        return replaced or self.resources is not before

    def _resize_lists(self, pairs: int, checkpoints: int) -> None:
        """Replaces the buffers whose size changes. Those of before go first: frames fill what they
        read, and there is never memory for both. After OutOfMemory there are those of before; none,
        and capacities of 0, where others have taken their memory."""
        sizes = self._pair_bytes(pairs, checkpoints)
        held = self.pair_capacity, self.checkpoint_capacity
        if (pairs, checkpoints) == held:
            return
        before = self._pair_bytes(*held) if self.pair_capacity else {}
        changed = {name: n for name, n in sizes.items() if n != before.get(name)}
        if not changed:
            return
        gone = set(changed)
        if gone & self.lives.keys():  # the memory that they share goes with all of them
            changed |= {name: n for name, n in sizes.items() if name in self.lives}
            gone = {*changed, MEMORY}
        self.device.wait_idle()
        for name in self._own.keys() & gone:
            self._own.pop(name).destroy()
        self.pair_capacity = self.checkpoint_capacity = 0
        try:
            self._own |= allocate_overlaid(self.device, changed, self.lives)
            self.pair_capacity, self.checkpoint_capacity = pairs, checkpoints
        except OutOfMemory:
            old = {name: n for name, n in before.items() if name in changed}
            self._own |= allocate_overlaid(self.device, old, self.lives)
            self.pair_capacity, self.checkpoint_capacity = held
            raise
        finally:
            self._collect()


def pairs_wanted(counts: np.void) -> int:
    """Pairs of tile and splat that the last frame has."""
    return int(counts["pairs_wanted"]) + (int(counts["pairs_wanted_high"]) << 32)


def _fitted(
    capacity: int, needed: int, most: int, least: int, give_back: bool, room: float = 0.0
) -> int:
    """The capacity for what is needed: that of now, unless it is too small or much too large.
    room: instead of HEADROOM."""
    ample = min(max(int(needed * (room or HEADROOM)), least), most)
    too_large = give_back and ample < SPARE * capacity
    return ample if too_large or min(needed, most) > capacity else capacity
