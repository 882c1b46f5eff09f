"""Text over the picture: a font atlas rendered at start-up from a font that matplotlib ships, and a grid of characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont  # fonts, for which imageio has nothing

FIRST, LAST = 32, 126  # printable ASCII
COLUMNS, ROWS = 96, 40


@lru_cache
def atlas(px: int) -> tuple[np.ndarray, tuple[int, int]]:
    """(coverage (LAST - FIRST + 1, height, width) uint8, (width, height) of a cell) of a monospaced font of that size."""
    import matplotlib  # takes a while

    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"), px)
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


def grid(lines: Sequence[str]) -> np.ndarray:
    """The contract's `text` (ROWS, COLUMNS) uint32: codes, 0 beyond the end of a line. What is not ASCII becomes a question mark."""
    out = np.zeros((ROWS, COLUMNS), np.uint32)
    for codes_of_line, line in zip(out, lines):
        codes = np.array([ord(c) if FIRST <= ord(c) <= LAST else ord("?") for c in line[:COLUMNS]], np.uint32)
        codes_of_line[: len(codes)] = codes
    return out
