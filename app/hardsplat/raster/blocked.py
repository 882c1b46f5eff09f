"""What the ways of drawing backward have in common: a canvas in blocks of pixels, each drawn by one fragment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hardsplat.gpu.context import Device
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import Pipeline
from hardsplat.gpu.recorder import Recorder
from hardsplat.raster.draws import blocks_of
from hardsplat.raster.rows import Rows


class Lists(Protocol):
    """Lists that a way goes by, with room for pairs: of a cell and a splat, or of a block and one."""

    def record(self, recorder: Recorder, run: Mapping[str, Pipeline]) -> None: ...
    def allocate(self, device: Device, capacity: int, room: int) -> Mapping[str, Buffer | Image]: ...  # for splats and pairs; all or, with OutOfMemory, nothing
    def first_room(self, capacity: int) -> int: ...  # for pairs, before frames say how many there are
    def most(self, device: Device, capacity: int) -> int: ...  # pairs that there can be
    def pair_bytes(self, room: int) -> dict[str, int]: ...  # by buffer


@dataclass(frozen=True)
class Blocked:
    """Of a canvas of width x height px."""

    rows: Rows
    width: int
    height: int

    @property
    def lists(self) -> Lists | None:
        """What the way goes by besides the order of the splats."""
        return None

    @property
    def _blocks(self) -> tuple[int, int]:
        """Across and down."""
        return blocks_of(self.rows.block, self.width, self.height)


@dataclass(frozen=True)
class Segmented(Blocked):
    """The canvas in depth segments. threshold: contributing lanes of a subgroup from which it is summed whole. scores: with draws of SCORES."""

    segments: int
    threshold: int
    scores: bool = False
