"""A page of the parts of a set of photographs that do not connect, with small pictures of each."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from pathlib import Path

from PIL import ImageOps

from hardsplat.base.files import replacing, written
from hardsplat.io.media.images import opened
from hardsplat.page.export import template

SHEET = "parts.html"
_PICTURES, _PARTS = 24, 12  # shown of a part, spread evenly; parts with pictures
_SIDE = 180  # px, longer side of a picture


def write_sheet(
    path: Path, images: Path, parts: Sequence[tuple[str, Sequence[str], Sequence[str]]]
) -> None:
    """Writes the page. parts: of each a line that says what it is, the names of its photographs
    below `images`, and the two of the pair that comes nearest to a connection, or none.

    Photographs that cannot be read are named without a picture. Raises UserError where the page
    cannot be written.
    """

    def picture(name: str) -> str:
        """The photograph upright, as a data URI; empty where it cannot be read."""
        out = io.BytesIO()
        try:
            with warnings.catch_warnings(), opened(images / name) as image:
                warnings.simplefilter("ignore")
                image.draft("RGB", (_SIDE, _SIDE))
                image.thumbnail((_SIDE, _SIDE))
                ImageOps.exif_transpose(image).convert("RGB").save(out, "JPEG", quality=75)
        except Exception:  # decoders of damaged files raise almost anything
            return ""
        return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"

    page = template(SHEET, Path(__file__).parent)
    text = page.render(parts=parts, picture=picture, most=_PARTS, shown=_PICTURES)
    with written(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
