"""Legends of pictures that represent numbers: a bar of the palette with the numbers at its ends, in
a corner of the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont  # fonts, for which imageio has nothing

from hardsplat.tables.pictures import PICTURES

UNITS = {"depth": "depth [world units]", "count": "splats a pixel", "median": "median depth"}
UNITS |= {"surface": "depth of the surface"}
SMALLEST = 240, 120  # px of a picture that is large enough for one


class Legend:
    """picture: of UNITS. span: numbers with the first and the last colour. width, height: px of the
    pictures it is put on."""

    def __init__(self, picture: str, span: tuple[float, float], width: int, height: int):
        self.text = f"{picture} from {span[0]:.4g} to {span[1]:.4g}"
        large = width >= SMALLEST[0] and height >= SMALLEST[1]
        self._box = _drawn(picture, span, width, height) if large else None

    def put_on(self, image: np.ndarray) -> np.ndarray:
        """A copy of (H, W, 3 or 4) uint8 with the legend in its lower left corner, opaque; the
        image itself where it is too small for one."""
        if self._box is None:
            return image
        out, (h, w) = image.copy(), self._box.shape[:2]
        margin = min(h // 4, (out.shape[1] - w) // 2)
        corner = out[out.shape[0] - h - margin : out.shape[0] - margin, margin : margin + w]
        corner[..., :3], corner[..., 3:] = self._box, 255
        return out


def _drawn(picture: str, span: tuple[float, float], width: int, height: int) -> np.ndarray:
    """(h, w, 3) uint8: the numbers of both ends around their unit, and the bar below; at most nine
    tenths as wide as the picture."""
    import matplotlib  # takes a while
    from matplotlib import colormaps

    low, high = (f"{number:.3g}" for number in span)
    file = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    for px in range(min(max(11, height // 45), 40), 0, -1):
        font, pad = ImageFont.truetype(file, px), px // 2 + 1
        length = round(max(14 * px, font.getlength(low + UNITS[picture] + high) + 2 * px))
        if length + 2 * pad <= 0.9 * width:
            break
    line = sum(font.getmetrics())
    box = Image.new("RGB", (length + 2 * pad, line + px + 2 * pad), (24, 24, 24))
    draw = ImageDraw.Draw(box)
    for share, anchor, text in ((0, "la", low), (0.5, "ma", UNITS[picture]), (1, "ra", high)):
        at = pad + share * length, pad // 2
        draw.text(at, text, fill=(240, 240, 240), font=font, anchor=anchor)
    out, palette = np.array(box), colormaps[PICTURES[picture].palette]
    bar = palette(np.linspace(0, 1, length), bytes=True)[:, :3]
    out[line + pad : line + pad + px, pad : pad + length] = bar
    return out
