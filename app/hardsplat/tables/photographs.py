"""What photographs differ in: exposure and colour, and the lenses of their cameras."""

from __future__ import annotations

from dataclasses import dataclass

from hardsplat.tables import quantities as trained

# How a photograph's exposure and colour make its image of the rendered one: files in
# shaders/photographs/exposure, and the quantities that they train.


@dataclass(frozen=True)
class Exposure:
    """slot: the file that fills <exposure>, with the image and its gradient; "" where the image
    stays as it is. chain: the file that fills <chain>, from sums over the pixels to gradients of
    quantities."""

    slot: str
    chain: str
    note: str
    responds: bool = False  # cameras have a response, unless there is one alone

    @property
    def quantities(self) -> tuple[trained.Quantity, ...]:
        """What it trains, of photographs and of cameras."""
        name = next(name for name, row in EXPOSURES.items() if row is self)
        return tuple(
            q
            for q in trained.QUANTITIES.values()
            if q.chosen and q.chosen[0] == "exposure" and name in q.chosen[1]
        )


# fmt: off
EXPOSURES = {
    "none": Exposure("", "", "one set of colours explains all photographs"),
    "auto": Exposure(
        "",
        "",
        "affine where a fit of colours explains much of the error of photographs that are held "
        "back, else none",
    ),
    "affine": Exposure(
        "photographs/exposure/affine.glsl", "photographs/exposure/affine_chain.glsl",
        "a 3x4 map of colour for each photograph (Kerbl et al. 2023, exposure "
        "compensation of their code), and vignetting of each camera (PPISP)"),
    "ppisp": Exposure(
        "photographs/exposure/ppisp.glsl", "photographs/exposure/ppisp_chain.glsl",
        "exposure and white balance for each photograph, vignetting and response for "
        "each camera (PPISP, arXiv 2601.18336)", responds=True),
}
# fmt: on


# How a camera's lens makes its image: shaders/include/lens_*.glsl.


@dataclass(frozen=True)
class LensModel:
    """slot: the file that fills <lens>, with the projection of a splat and its gradient."""

    slot: str
    note: str


# fmt: off
LENSES = {
    "pinhole": LensModel(
        "include/lens_pinhole.glsl",
        "straight lines stay straight; photographs of other lenses are undistorted"),
    "distorted": LensModel(
        "include/lens_distorted.glsl", "each camera distorts as it does: not at all, as COLMAP's "
        "FULL_OPENCV or as its OPENCV_FISHEYE"),
}
