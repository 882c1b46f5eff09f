"""What every rasterizer offers.

All through named buffers and images (hardsplat.contract) and planes (hardsplat.tables.quantities):
  forward:  parameters, camera, frame, counts -> `target` (colour without background, premultiplied;
      alpha = final transmittance T)
  backward: `d_image` (dL/d colour) and the forward's leftovers, which it uses up -> `d_splats2d` ->
      gradients of the parameters -> a sink
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.passes.declared import Pipeline

if TYPE_CHECKING:
    from hardsplat.raster.core.projection import Projection


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
