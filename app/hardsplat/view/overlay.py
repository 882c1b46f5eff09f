"""Text over the picture: a font atlas rendered at start-up from a font that matplotlib ships, and a
grid of characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont  # fonts, for which imageio has nothing

FIRST, LAST = 32, 126  # printable ASCII
COLUMNS, ROWS = 96, 40
LEGEND = 24 * "\0"  # in a line of text: the place of a palette


@lru_cache
def atlas(px: int) -> tuple[np.ndarray, tuple[int, int]]:
    """(coverage (LAST - FIRST + 1, height, width) uint8, (width, height) of a cell) of a monospaced
    font of that size."""
    import matplotlib  # takes a while

    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
    font = ImageFont.truetype(str(file), px)
    ascent, descent = font.getmetrics()
    width, height = round(font.getlength("M")), ascent + descent
    out = np.zeros((LAST - FIRST + 1, height, width), np.uint8)
    for code in range(FIRST, LAST + 1):
        glyph = Image.new("L", (width, height))
        ImageDraw.Draw(glyph).text((0, 0), chr(code), 255, font=font)
        out[code - FIRST] = np.asarray(glyph)
    return out, (width, height)


def packed(coverage: np.ndarray) -> np.ndarray:
    """The contract's `glyphs`: four bytes a word, the first in the low one."""
    raw = coverage.reshape(-1)
    return np.concatenate([raw, np.zeros(-raw.size % 4, np.uint8)]).view("<u4")


def panel(lines: Sequence[str]) -> list[str]:
    """Lines of one width, with a space on both sides, so that their ground is a rectangle. None of
    no lines."""
    width = min(COLUMNS, 2 + max(map(len, lines), default=0))
    return [f" {line}".ljust(width)[:width] for line in lines]


def bar_of(lines: Sequence[str]) -> tuple[int, int, int] | None:
    """(column, row, characters) of the LEGEND in some lines; None where there is none."""
    found = ((line.find(LEGEND), row, len(LEGEND)) for row, line in enumerate(lines))
    return next((bar for bar in found if bar[0] >= 0), None)


def grid(lines: Sequence[str]) -> np.ndarray:
    """The contract's `text` (ROWS, COLUMNS) uint32: codes, 0 beyond the end of a line. What is not
    ASCII becomes a question mark, the LEGEND is left free."""
    out = np.zeros((ROWS, COLUMNS), np.uint32)
    for codes_of_line, line in zip(out, lines):
        line = line.replace(LEGEND, " " * len(LEGEND))[:COLUMNS]
        codes = [ord(c) if FIRST <= ord(c) <= LAST else ord("?") for c in line]
        codes_of_line[: len(codes)] = codes
    return out
