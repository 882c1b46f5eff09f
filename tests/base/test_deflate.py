"""Streams that threads compress are those of zlib and gzip."""

import gzip
import random
import zlib

import pytest

from hardsplat.base.deflate import deflated, gzipped


@pytest.mark.parametrize("sizes", [[], [0], [7], [16, 70_000, 0, 1, 40_000, *[3_000] * 40]])
def test_all_pieces_come_back(sizes):
    rng = random.Random(0)
    pieces = [bytes(rng.choices(b"splats", k=size)) for size in sizes]
    found = b"".join(gzipped(iter(pieces), 9))
    assert gzip.decompress(found) == b"".join(pieces)


def test_a_piece_repeats_what_was_before():
    piece = random.Random(0).randbytes(30_000)
    found = b"".join(deflated([piece] * 20, 6))
    assert len(found) < 1.2 * len(piece)
    assert zlib.decompress(found, -15) == 20 * piece
