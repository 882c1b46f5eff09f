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

from hardsplat.base.errors import UserError
from hardsplat.base.files import replacing, short_name, written
from hardsplat.io.media.images import read_rgb8, save_png
from hardsplat.page.export import template
from hardsplat.report import charts

BUDGET = 6_000_000  # bytes of a page's pictures before base64, which adds a third
# px of a picture's longer side, the first at which all fit the budget
SIDES = (1280, 960, 640, 420, 280, 180, 120)
_TEMPLATES = Path(__file__).parent / "templates"
MOST_VIEWS = 8
PARTS = ("render", "photo")  # of a held-out view, below renders/
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
    text = template(name, _TEMPLATES).render(**values)
    with written(path), replacing(path, durable=False) as partial:  # it can be made again
        # names of files may hold bytes that are no text
        partial.write_text(text, encoding="utf-8", errors="replace")
    return path


def prepare() -> None:
    """Imports and reads what pages are made of, and encodes a picture."""
    template("run.html", _TEMPLATES)
    pictures([np.zeros((8, 8, 3), np.uint8)])


def plot(figure) -> str:
    """A figure as a data URI: an image of its own, so that nothing within can clash with the page
    or another plot."""
    return _uri("image/svg+xml", charts.svg(figure))


def pictures(images: Sequence[np.ndarray], budget: int = BUDGET) -> list[EncodedImage]:
    """(H, W, 3) or (H, W) uint8 arrays as WebP, all made smaller until together they take no more
    than `budget` bytes or are as small as they get."""
    with ThreadPoolExecutor() as pool:  # encoding leaves Python to others
        for side in SIDES:
            encoded = list(pool.map(_encoded, images, [side] * len(images)))
            if sum(len(data) for data, _ in encoded) <= budget:
                break
    return [EncodedImage(_uri("image/webp", data), *size) for data, size in encoded]


def _encoded(image: np.ndarray, side: int) -> tuple[bytes, tuple[int, int]]:
    picture = Image.fromarray(image)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    lossless = picture.width * picture.height <= _LOSSLESS and picture.width == image.shape[1]
    how: dict = dict(plugin="pillow", extension=".webp", is_batch=False, quality=88)
    data = iio.imwrite("<bytes>", np.asarray(picture), **how, lossless=lossless)
    return data, picture.size


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def comparison_name(view: str, part: str) -> str:
    """The path below renders/ of a view's picture. part: one of PARTS. No two views share one: the
    view's own path, extension and all, comes first, shortened where files cannot have it."""
    return f"{short_name(view)}.{part}.png"


def view_of(name: str) -> tuple[str, str]:
    """(view, part) of a path below renders/: what comparison_name was given, shortened as there.
    Raises ValueError for other names."""
    view, part = name.removesuffix(".png").rsplit(".", 1)
    if not name.endswith(".png") or part not in PARTS:
        raise ValueError(f"{name} is no picture of a comparison")
    return view, part


def write_comparison(folder: Path, view: str, render: np.ndarray, photo: np.ndarray) -> None:
    """Writes both pictures of a view, (H, W, 3) float in 0..1 or uint8, below `folder`. Raises
    UserError where one cannot be written."""
    for part, image in zip(PARTS, (render, photo)):
        save_png(folder / comparison_name(view, part), image)


def comparison(folder: Path, view: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(render, photograph), (H, W, 3) uint8 each, as a run left them; None where one is missing or
    damaged, or they differ in size."""
    files = [folder / "renders" / comparison_name(view, part) for part in PARTS]
    try:
        render, photo = map(read_rgb8, files)
    except UserError:
        return None
    return (render, photo) if render.shape == photo.shape else None


def spread(names: Sequence[str], most: int = MOST_VIEWS) -> list[str]:
    """All names, or so many of them, evenly spaced from the first on."""
    n = len(names)
    return [names[i * n // min(n, most)] for i in range(min(n, most))]
