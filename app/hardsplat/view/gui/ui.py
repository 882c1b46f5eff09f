"""What panels are given: what they change, and what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.splats.photographs import Thumbnails
from hardsplat.view.splats.screen import Appearance

Place = tuple[int, int, int, int]  # x, y, width, height px


@dataclass(frozen=True)
class Shown:
    """A picture of the splats, and where it lies in the window.

    region: of the window that it was made for, px; render: what splats have of that. scene: the
    picture in its own px, each `scale` px wide. photo: the photograph. frame: what a photograph
    next to the render shows of it. picture: a row of SHOWN.
    """

    region: tuple[int, int] = (1, 1)
    render: tuple[int, int] = (1, 1)
    scene: tuple[int, int] = (1, 1)
    scale: int = 1
    photo: Place = (0, 0, 0, 0)
    frame: Place = (0, 0, 0, 0)
    picture: str = "image"

    def place(self, region: tuple[int, int]) -> tuple[int, int]:
        """What the picture covers of the window, px, which may have another region by now. The
        last pixels of the picture may lie beyond what splats have."""
        if region == self.region:
            return self.scale * self.scene[0], self.scale * self.scene[1]
        share = self.render[0] / self.region[0]
        return max(1, round(share * region[0])), region[1]


LOUDER = 4.0  # times that the error is shown


@dataclass
class TrainingFacts:
    """A run. left: seconds, None before that is known. losses, held_out: (N, 2) step and value."""

    step: int = 0
    steps: int = 1
    pace: float = 0.0
    left: float | None = None
    psnr: float | None = None
    loss: float | None = None
    memory: int = 0  # bytes on the device
    losses: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    psnrs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    held_out: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    done: bool = False


@dataclass
class ViewerFacts:
    """splats: that are shown; total: that there are, where they are more. rows: variants of the
    rasterizer by setting. span: numbers at the ends of a palette."""

    splats: int = 0
    total: int = 0
    loading: bool = False
    picture_ms: float = 0.0
    rows: Mapping[str, str | int] = field(default_factory=dict)
    span: tuple[float, float] | None = None
    training: TrainingFacts | None = None


class Ui:
    """inputs: what panels change. facts: what they show. look: of splats, before panels change it.

    scale: pixels of the screen for one of a screen of 96 dpi. side: px of the window that panels
    cover at its right. asked: what buttons want of the window's owner: "save", "stop". opened: a
    path that the user wants to see, "" for none. panel: the title of the one that is open.
    """

    def __init__(self, inputs: Inputs, facts: ViewerFacts, look: Appearance):
        self.facts, self.scale, self.side = facts, 1.0, 0
        self.asked: set[str] = set()
        self.opened, self.thumbnails = "", Thumbnails(())
        self.show(inputs, look)

    def show(self, inputs: Inputs, look: Appearance) -> None:
        """Goes on with other splats."""
        self.destroy()
        self.inputs, self.look, self.panel = inputs, look, ""
        self.thumbnails = Thumbnails(inputs.points)

    @property
    def fits(self) -> bool:
        """Whether the run fits an image, which is saved at its end alone; it has neither a loss nor
        held out views."""
        return "fit" in self.inputs.parts

    def destroy(self) -> None:
        """May be called again."""
        self.thumbnails.destroy()
