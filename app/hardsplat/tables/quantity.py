"""One trained quantity: its numbers, its rate, its names in passes and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Of = Literal["splat", "photograph", "camera", "texel"]
ORDER: tuple[Of, ...] = ("splat", "photograph", "camera", "texel")
HIGHEST_DEGREE = 3  # of spherical harmonics


def one_plane(sh_degree: int) -> int:
    return 1


def from_start(plane: int) -> int:
    return 0


@dataclass(frozen=True)
class Rate:
    """A learning rate by the names of settings. last: the rate at max_steps, reached exponentially;
    share: instead, what it then is of the first one. Without both the rate is as of others.

    every: steps from one update to the next, each as far as in so many steps. warm_up: steps over
    which the rate rises from 0. per_extent: in units of the scene's extent.
    """

    setting: str
    last: str | None = None
    share: float | None = None
    every: str | None = None
    warm_up: str | None = None
    per_extent: bool = False


@dataclass(frozen=True)
class Quantity:
    """One trained quantity.

    width: numbers of an item in a plane, 1 to 4. planes: how many planes there are at an SH degree.
    first: value of new items, where nothing else says it. activation: what turns the trained
    numbers into what they mean. gradient: `plane`, written by a pass; `sh`, d_colors times the
    basis, computed when it is needed; `none`, only terms of the loss move it. joins: the SH degree
    from which a plane is in use. perturbation: what its numbers move by with stochastic gradients,
    of means a share of the shorter half axis on screen; 0 where they leave it alone. properties:
    names of its numbers in PLY files, plane by plane; `{}` is a running number. chosen: a
    setting and the values with which the quantity is trained; with others it rests. None: always
    trained. centred: its mean over all items is kept at 0. spills: out of core it is in the host's
    memory, with its moments.
    """

    name: str
    of: Of
    width: int
    rate: Rate
    activation: Literal["identity", "exp", "sigmoid", "normalize"] = "identity"
    planes: Callable[[int], int] = one_plane
    first: float = 0.0
    gradient: Literal["plane", "sh", "none"] = "plane"
    joins: Callable[[int], int] = from_start
    perturbation: float = 0.0
    properties: tuple[str, ...] = ()
    chosen: tuple[str, tuple[object, ...]] | None = None
    centred: bool = False
    spills: bool = False

    def shape(self, items: int, sh_degree: int) -> tuple[int, int, int]:
        """(planes, items, width) of its values."""
        return self.planes(sh_degree), items, self.width

    def columns(self, sh_degree: int) -> list[str]:
        """Names of an item's numbers in PLY files: `properties`, or what follows from its own name.
        Of the first number the planes one after the other, then of the next."""
        n = self.width * self.planes(sh_degree)
        names = self.properties or ((self.name,) if n == 1 else (f"{self.name}_{{}}",))
        return [names[0].format(i) for i in range(n)] if "{}" in names[0] else list(names)

    @property
    def moments(self) -> str:
        """Name of its Adam moments, as passes declare them."""
        return f"adam_{self.name}"

    @property
    def d(self) -> str:
        """Name of its gradient, as passes declare it."""
        return f"d_{self.name}"

    @property
    def average(self) -> str:
        """Name of its averages over steps, as passes declare them."""
        return f"average_{self.name}"
