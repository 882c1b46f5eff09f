"""What every rasterizer offers.

All through named buffers and images (hardsplat.contract) and planes (hardsplat.tables.quantities):
  forward:  parameters, camera, frame, counts -> `target` (colour without background, premultiplied;
      alpha = final transmittance T)
  backward: `d_image` (dL/d colour) and the forward's leftovers, which it uses up -> `d_splats2d` ->
      gradients of the parameters -> a sink
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import ComputePass, DrawPass, Pipeline
from hardsplat.raster.core.sinks import Sink


class Variants(Protocol):
    """The variants that a rasterizer is made of."""

    @property
    def names(self) -> Mapping[str, str | int]: ...  # setting -> variant


class Drawn(Protocol):
    """What a rasterizer draws: splats or blobs, in buffers by name of the contract. capacity: how
    many have room."""

    sh_degree: int

    @property
    def capacity(self) -> int: ...
    @property
    def all(self) -> Mapping[str, Buffer]: ...
    @property
    def counts(self) -> np.void: ...  # the Counts struct as it is now


class Rasterizer(Protocol):
    """width, height: of its canvas, px. room: pairs of tile and splat that fit; a frame that asks
    for more (counts.pairs_wanted) is drawn without the farthest."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def room(self) -> int: ...
    @property
    def rows(self) -> Variants: ...
    @property
    def resources(self) -> Mapping[str, Buffer | Image]: ...
    @property
    def pipelines(self) -> Mapping[str, Pipeline]: ...

    # picture: of hardsplat.tables.pictures. rest: another recorder, for what comes once `counts`
    # says how many pairs there are
    def record_forward(
        self, recorder: Recorder, picture: str = "image", rest: Recorder | None = None
    ) -> None: ...
    def record_backward(self, recorder: Recorder) -> None: ...  # where its gradients are analytic
    def record_score(
        self,
        recorder: Recorder,
        score: str,
        # after record_step, of hardsplat.raster.core.sinks.SCORES -> `d_splats2d`, which must be
        # clean
    ) -> None: ...
    def make_room(
        self,
        wanted: int | None = None,
        # for `wanted` pairs, by default those of the last frame; True: record anew, with its new
        # `resources`
    ) -> bool: ...
    def destroy(self) -> None: ...


class Trainable(Rasterizer, Protocol):
    """A rasterizer of 3D splats: what a step of training takes, and one that draws depth too
    (raster/core/depth.py)."""

    @property
    def projection(self) -> Projection: ...

    def record_step(
        self, recorder: Recorder, compare: Callable[[Recorder], None]
    ) -> None: ...  # forward, `compare` (target -> what the gradients need), gradients, sink
    def record_images(self, recorder: Recorder) -> None: ...  # projected splats -> target
    def record_again(
        self, recorder: Recorder
    ) -> None: ...  # splats whose colours alone are others -> target
    def record_draw_backward(self, recorder: Recorder) -> None: ...  # d_image -> d_splats2d


P = TypeVar("P", bound=ComputePass | DrawPass)


class Draws(Protocol):
    """What a rasterizer offers its projection when a step is recorded."""

    def record_forward(
        self, recorder: Recorder, picture: str = "image"
    ) -> None: ...  # parameters -> target
    def record_images(
        self, recorder: Recorder
    ) -> None: ...  # projected splats -> the targets of all images of the projection
    def record_backward(self, recorder: Recorder) -> None: ...  # d_image -> the sink

    @property
    def height(self) -> int: ...  # of the canvas, px


class Projection(Protocol):
    """sink: None for no backward pass. images: what a step draws, as words behind the names of
    passes and targets; "" is the image itself.

    listed: which projected splats decide on the tiles that all images share, as such a word.
    differentiates: there is a backward draw.
    """

    @property
    def sink(self) -> Sink | None: ...
    @property
    def images(self) -> tuple[str, ...]: ...
    @property
    def listed(self) -> str: ...
    @property
    def differentiates(self) -> bool: ...
    @property
    def in_order(
        self,
    ) -> bool: ...  # visible splats are sorted by depth; else there are their keys alone

    def passes(
        self, command: Mapping[str, int], picture: str = "image"
    ) -> list[
        ComputePass
    ]: ...  # command: the draw that the order is for, of hardsplat.tables.hardware
    def image(self, p: P, word: str) -> P: ...  # a forward pass, for another image than the first
    def allocate(
        self, device: Device, capacity: int
    ) -> dict[str, Buffer]: ...  # what it needs, and every rasterizer: see allocate_drawn
    def record_forward(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None: ...
    def record_backward(
        self, recorder: Recorder, run: Mapping[str, Pipeline], capacity: int
    ) -> None: ...
    def record_step(
        self,
        recorder: Recorder,
        run: Mapping[str, Pipeline],
        draws: Draws,
        compare: Callable[[Recorder], None],
        capacity: int,
    ) -> None: ...
