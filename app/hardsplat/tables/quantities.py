"""What is trained: the one table from which buffers, moments, gradients, Adam, densification,
checkpoints, files and memory follow.

A quantity has one item a splat, photograph, camera or texel of the sky. An item is `width`
numbers in each of its planes; every plane is an allocation of its own, which shaders reach by
address (contract/glsl.py: `means(g)`, `shN(k, g)`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Of = Literal["splat", "photograph", "camera", "texel"]
ORDER: tuple[Of, ...] = ("splat", "photograph", "camera", "texel")
HIGHEST_DEGREE = 3  # of spherical harmonics
TEXELS = 128**2  # of a sky that is trained: 1.6 degrees each


@dataclass(frozen=True)
class Rate:
    """A learning rate by the names of settings. last: the rate at max_steps, reached exponentially;
    share: instead, what it then is of the first one. Without both the rate is as of others.

    every: steps from one update to the next, each as far as in so many steps. warm_up: steps over
    which the rate rises from 0. until: share of the steps after which the quantity is 0 again and
    rests; 1: it stays. per_extent: in units of the scene's extent.
    """

    setting: str
    last: str | None = None
    share: float | None = None
    every: str | None = None
    warm_up: str | None = None
    until: str | None = None
    per_extent: bool = False


@dataclass(frozen=True)
class Quantity:
    """One trained quantity.

    width: numbers of an item in a plane, 1 to 4. planes: how many planes there are at an SH degree.
    first: value of new items, where nothing else says it. gradient: `plane`, written by a pass;
    `sh`, d_colors times the basis, computed when it is needed; `none`, only terms of the loss move
    it. joins: the SH degree from which a plane is in use. perturbation: what its numbers move by
    with stochastic gradients, of means a share of the shorter half axis on screen; 0 where they
    leave it alone. properties: names of its numbers in PLY files, plane by plane; `{}` is a running
    number. chosen: a setting and the values with which the quantity is trained; with others it
    rests. None: always trained. centred: its mean over all items is kept at 0. spills: out of core
    it is in the host's memory, with its moments.
    """

    name: str
    of: Of
    width: int
    rate: Rate
    planes: Callable[[int], int] = lambda sh_degree: 1
    first: float = 0.0
    gradient: Literal["plane", "sh", "none"] = "plane"
    joins: Callable[[int], int] = lambda plane: 0
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


# Where the gradient of a plane comes from, as shaders number it.
GRADIENTS = {"GRADIENT_NONE": 0, "GRADIENT_PLANE": 1, "GRADIENT_SH": 2}


def _degree_of(plane: int) -> int:
    """The SH degree from which plane k of shN, coefficient k + 1, is in use."""
    return 1 if plane < 3 else 2 if plane < 8 else 3


def _planes(count: int) -> Callable[[int], int]:
    return lambda degree: count


_AFFINE = Rate("exposure_lr", share=0.1, until="exposure_until")
_PPISP = replace(_AFFINE, warm_up="ppisp_warm_up")
_POSE = Rate("pose_lr", share=0.01, warm_up="pose_warm_up")
_SHIFT = replace(_POSE, per_extent=True)
_INTRINSICS = Rate("intrinsics_lr", share=0.01, warm_up="pose_warm_up")
_BY_AFFINE, _BY_PPISP = ("exposure", ("affine",)), ("exposure", ("ppisp",))
_BY_BOTH = ("exposure", ("affine", "ppisp"))

# fmt: off
_ROWS = (
    Quantity("means", "splat", 3, Rate("means_lr", last="means_lr_final", per_extent=True),
             perturbation=0.1, properties=("x", "y", "z")),
    Quantity("quats", "splat", 4, Rate("quats_lr"),
             perturbation=0.02, properties=("rot_0", "rot_1", "rot_2", "rot_3")),
    Quantity("log_scales", "splat", 3, Rate("scales_lr"),
             perturbation=0.05, properties=("scale_0", "scale_1", "scale_2")),
    Quantity("logit_opacities", "splat", 1, Rate("opacities_lr"),
             perturbation=0.1, properties=("opacity",)),
    Quantity("sh0", "splat", 3, Rate("sh0_lr"), gradient="sh",
             perturbation=0.1, properties=("f_dc_0", "f_dc_1", "f_dc_2")),
    Quantity("shN", "splat", 3, Rate("shN_lr", every="shN_every"), gradient="sh",
             planes=lambda degree: (degree + 1) ** 2 - 1,
             joins=_degree_of,
             perturbation=0.05, properties=("f_rest_{}",), spills=True),
    # Exposure and colour, see shaders/photographs/exposure: every number is 0 where the image
    # stays as it is. Of a camera's numbers the fourth is shared by red, green and blue, which
    # add their own.
    Quantity("affine", "photograph", 4, _AFFINE,
             planes=_planes(3), chosen=_BY_AFFINE, centred=True),
    Quantity("exposure", "photograph", 1, _PPISP, chosen=_BY_PPISP, centred=True),
    Quantity("white_balance", "photograph", 4, _PPISP, planes=_planes(2),
             chosen=_BY_PPISP, centred=True),
    # A photograph's pose, see train/features/poses.py.
    Quantity("turn", "photograph", 3, _POSE, chosen=("pose_opt", (True,))),
    Quantity("shift", "photograph", 3, _SHIFT, chosen=("pose_opt", (True,))),
    # A camera's focal lengths and principal point, see train/features/intrinsics.py.
    Quantity("intrinsics", "camera", 3, _INTRINSICS, chosen=("intrinsics_opt", (True,))),
    Quantity("vignette_centre", "camera", 4, _PPISP, planes=_planes(2), chosen=_BY_BOTH),
    Quantity("vignette_falloff", "camera", 4, _PPISP, planes=_planes(3), chosen=_BY_BOTH),
    Quantity("response", "camera", 4, _PPISP, planes=_planes(4), chosen=_BY_PPISP, centred=True),
    # Colours of the sky by direction, less 0.5, and how much of it is seen: raster/core/sky.py.
    Quantity("sky", "texel", 4, Rate("sky_lr"), chosen=("background", ("sphere",))),
)
# fmt: on
QUANTITIES: dict[str, Quantity] = {q.name: q for q in _ROWS}


@dataclass(frozen=True)
class Offsets:
    """Where a quantity stands in the tables of shaders: `index` among quantities, its first plane,
    and the numbers of an item before its own, at the highest SH degree."""

    quantity: Quantity
    index: int
    first_plane: int
    first_number: int


def of(kind: Of) -> list[Quantity]:
    """The quantities of splats, photographs, cameras or texels, in the order of the table."""
    return [q for q in QUANTITIES.values() if q.of == kind]


def is_chosen(quantity: Quantity, settings: Mapping[str, Any]) -> bool:
    """Whether settings, by name, train a quantity."""
    return quantity.chosen is None or settings.get(quantity.chosen[0]) in quantity.chosen[1]


def is_exposure(quantity: Quantity) -> bool:
    """Whether a quantity belongs to the exposure of photographs and cameras."""
    return quantity.chosen is not None and quantity.chosen[0] == "exposure"


def chosen(kind: Of, settings: Mapping[str, Any]) -> list[Quantity]:
    """The quantities of one kind that are trained with these settings."""
    return [q for q in of(kind) if is_chosen(q, settings)]


def of_photographs(settings: Mapping[str, Any]) -> list[Quantity]:
    """What is trained of photographs and of their cameras with these settings."""
    return [*chosen("photograph", settings), *chosen("camera", settings)]


def most_planes(quantity: Quantity) -> int:
    return quantity.planes(HIGHEST_DEGREE)


def offsets() -> list[Offsets]:
    """Offsets of all quantities: splats first, then photographs, cameras, texels. Planes that a
    lower SH degree lacks leave a gap."""
    found: list[Offsets] = []
    plane = 0
    for kind in ORDER:
        number = 0
        for quantity in of(kind):
            found.append(Offsets(quantity, len(found), plane, number))
            plane += most_planes(quantity)
            number += quantity.width * most_planes(quantity)
    return found


def plane_count(kind: Of) -> int:
    """Planes of one kind in the table that shaders see, gaps included."""
    return sum(most_planes(q) for q in of(kind))


def values(kind: Of = "splat") -> tuple[str, ...]:
    """Names of the parameters, as passes declare them."""
    return tuple(q.name for q in of(kind))


def drawn() -> tuple[str, ...]:
    """Names of what an image is made of: of splats, and of the sky behind them."""
    return *values(), *values("texel")


def moments(kind: Of = "splat") -> tuple[str, ...]:
    """Names of the Adam moments, as passes declare them."""
    return tuple(q.moments for q in of(kind))


def averages(kind: Of = "splat") -> tuple[str, ...]:
    """Names of the averages over steps, as passes declare them."""
    return tuple(q.average for q in of(kind))


def gradients(kind: Of = "splat", stored: bool = False) -> tuple[str, ...]:
    """Names of the gradients that have planes of their own; with `stored` of all, as the Python API
    wants them."""
    return tuple(q.d for q in of(kind) if stored or q.gradient == "plane")


def numbers(sh_degree: int) -> int:
    return sum(q.width * q.planes(sh_degree) for q in of("splat"))
