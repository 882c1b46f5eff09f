"""Templates to files, images to data URIs."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.errors import UserError
from hardsplat.files import replacing
from hardsplat.report import charts

BUDGET = 6_000_000  # bytes of a page's pictures before base64, which adds a third
SIDES = (1280, 960, 640, 420, 280, 180, 120)  # px of a picture's longer side, the first at which all fit the budget
MOST_VIEWS = 8
_LOSSLESS = 1 << 16  # px of a picture that is small enough to be shown exactly


@dataclass(frozen=True)
class Picture:
    """uri: WebP as a data URI. width, height: px as embedded."""

    uri: str
    width: int
    height: int


def write_page(path: Path, template: str, **values) -> Path:
    """Renders a template of this package, where all text is escaped, into a file that appears whole or not at all. UserError where it cannot be written."""
    text = _templates().get_template(template).render(**values)
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    return path


@functools.cache
def _templates():
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters["mib"] = lambda n: f"{n / 2**20:,.1f}"
    return found


def plot(figure) -> str:
    """A figure as a data URI: an image of its own, so that nothing within can clash with the page or another plot."""
    return _uri("image/svg+xml", charts.svg(figure))


def pictures(images: Sequence[np.ndarray], budget: int = BUDGET) -> list[Picture]:
    """(H, W, 3) or (H, W) uint8 arrays as WebP, all made smaller until together they take no more than `budget` bytes or are as small as they get."""
    for side in SIDES:
        encoded = [_encoded(image, side) for image in images]
        if sum(len(data) for data, _ in encoded) <= budget:
            break
    return [Picture(_uri("image/webp", data), *size) for data, size in encoded]


def _encoded(image: np.ndarray, side: int) -> tuple[bytes, tuple[int, int]]:
    picture = Image.fromarray(image)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    out = io.BytesIO()
    picture.save(out, format="WEBP", lossless=picture.width * picture.height <= _LOSSLESS and picture.width == image.shape[1], quality=88)
    return out.getvalue(), picture.size


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def comparison_name(view: str) -> str:
    """Of the file in renders/ with a view's render beside its photograph; folders of the name become part of it, since they tell cameras of a rig apart."""
    return "_".join(Path(view).with_suffix("").parts) + ".png"


def comparison(folder: Path, view: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(render, photograph), (H, W, 3) uint8 each, as a run left them; None where there is no such file, or a damaged one."""
    try:
        with Image.open(folder / "renders" / comparison_name(view)) as picture:
            both = np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError):
        return None
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:]


def spread(names: Sequence[str], most: int = MOST_VIEWS) -> list[str]:
    """All names, or so many of them, evenly spaced from the first on."""
    n = len(names)
    return [names[i * n // min(n, most)] for i in range(min(n, most))]
