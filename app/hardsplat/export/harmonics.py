"""Lobes of colour as spherical harmonics, for files and pages of other programs, and what that
loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hardsplat.export.contribution import SeenSplats
from hardsplat.io.formats.base import SplatStream
from hardsplat.io.formats.frames import rotated
from hardsplat.model.camera import Camera
from hardsplat.model.framing import spread
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.lobes import DEGREE, NAMES, has_lobes, without_lobes
from hardsplat.raster.renderer import Renderer

_COMPARED = 8  # views, evenly spaced


def stream_without_lobes(
    splats: SplatStream,
    cameras: Sequence[Camera] = (),
    sh: np.ndarray | None = None,
    sh_degree: int = DEGREE,
) -> SplatStream:
    """The stream with SH of this degree instead of lobes, see without_lobes; as it is where it has
    none. sh: of all its splats, where they are known; else those that its file has beside lobes
    serve, see has_harmonics."""
    if not has_lobes(splats.extra):
        return splats

    def pieces() -> Iterator[Gaussians]:
        beside = splats.plain if sh is None and has_harmonics(splats, sh_degree) else None
        at, plain = 0, beside.pieces() if beside else iter(())
        for piece in splats.pieces():
            other = next(plain, None)
            if sh is not None:
                yield replace(piece.with_further(()), sh=sh[at : at + len(piece)], check=False)
            elif other is not None:
                yield replace(piece.with_further(()), sh=other.sh, check=False)
            else:
                yield without_lobes(piece, cameras, sh_degree=sh_degree)
            at += len(piece)

    extra = tuple(name for name in splats.extra if name not in NAMES)
    return replace(splats, sh_degree=sh_degree, pieces=pieces, extra=extra)


def has_harmonics(splats: SplatStream, sh_degree: int) -> bool:
    """Whether a file has SH of this degree beside lobes."""
    return splats.plain is not None and splats.plain.sh_degree == sh_degree


def turned(values: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """`seen`, `harmonics` or `opacities` of a SplatStream after its splats were turned by a (3, 3)
    rotation."""
    if values.ndim == 1 or (turn == np.eye(3)).all():
        return values
    zeros, flat = np.zeros((len(values), 4)), values.ndim == 2
    sh = np.broadcast_to(values[..., None], (*values.shape, 3)) if flat else values
    as_colors = Gaussians(zeros[:, :3], zeros, zeros[:, :3], zeros[:, 0], sh, check=False)
    found = rotated(as_colors, turn).sh
    return found[..., 0].copy() if flat else found


def fitted(seen: SeenSplats, sh_degree: int) -> Gaussians:
    """The splats with SH of this degree instead of lobes, by what each camera sees of each. Raises
    UserError where no device can draw them."""
    weights = np.empty((len(seen.cameras), len(seen.gaussians)), np.float16)
    for row, weight in zip(weights, seen.weights()):
        row[:] = np.minimum(weight, 6e4)
    return without_lobes(seen.gaussians, seen.cameras, weights, sh_degree)


def likeness(seen: SeenSplats, other: Gaussians) -> float:
    """PSNR between what the splats draw and what others draw in their place, dB, over views of the
    cameras."""
    errors = []
    with Renderer(seen.device, "tiled", antialiased=seen.antialiased) as renderer:
        for camera in (seen.cameras[i] for i in spread(len(seen.cameras), _COMPARED)):
            images = []
            for gaussians in (seen.gaussians, other):
                image, _ = renderer.forward(gaussians, camera, near=seen.near)
                images.append(np.clip(image, 0, 1))
            errors.append(np.mean(np.square(images[0] - images[1])))
    return float(-10 * np.log10(max(np.mean(errors), 1e-12)))
