"""Templates to files, images to data URIs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import imageio.v3 as iio
import numpy as np
from PIL import Image  # makes pictures smaller, for which imageio has nothing

from hardsplat.base.files import replacing, written
from hardsplat.page.export import template
from hardsplat.report import charts

BUDGET = 6_000_000  # bytes of a page's pictures before base64, which adds a third
# px of a picture's longer side, the first at which all fit the budget
SIDES = (1280, 960, 640, 420, 280, 180, 120)
_TEMPLATES = Path(__file__).parent / "templates"
_LOSSLESS = 1 << 16  # px of a picture that is small enough to be shown exactly


@dataclass(frozen=True)
class EncodedImage:
    """uri: WebP as a data URI. width, height: px as embedded."""

    uri: str
    width: int
    height: int


def write_page(path: Path, name: str, **values) -> Path:
    """Renders a template of this package, where all text is escaped, into a file that appears whole
    or not at all. UserError where it cannot be written."""
    text = template_of(name).render(**values)
    with written(path), replacing(path, durable=False) as partial:  # it can be made again
        # names of files may hold bytes that are no text
        partial.write_text(text, encoding="utf-8", errors="replace")
    return path


def template_of(name: str):
    """A template of this package."""
    return template(name, _TEMPLATES)


def plot(figure) -> str:
    """A figure as a data URI: an image of its own, so that nothing within can clash with the page
    or another plot."""
    return data_uri("image/svg+xml", charts.svg(figure))


def pictures(images: Sequence[np.ndarray], budget: int = BUDGET) -> list[EncodedImage]:
    """(H, W, 3) or (H, W) uint8 arrays as WebP, all made smaller until together they take no more
    than `budget` bytes or are as small as they get."""
    with ThreadPoolExecutor() as pool:  # encoding leaves Python to others
        for side in SIDES:
            encoded = list(pool.map(_encoded, images, [side] * len(images)))
            if sum(len(data) for data, _ in encoded) <= budget:
                break
    return [EncodedImage(data_uri("image/webp", data), *size) for data, size in encoded]


def _encoded(image: np.ndarray, side: int) -> tuple[bytes, tuple[int, int]]:
    picture = Image.fromarray(image)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    lossless = picture.width * picture.height <= _LOSSLESS and picture.width == image.shape[1]
    webp: dict = dict(plugin="pillow", extension=".webp", is_batch=False, quality=88)
    data = iio.imwrite("<bytes>", np.asarray(picture), **webp, lossless=lossless)
    return data, picture.size


def data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
