"""Deflate by threads: pieces are compressed side by side, each with the end of the one before it as
its dictionary."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from hardsplat.base.parallel import CORES

_WINDOW = 1 << 15  # bytes that deflate looks back
_GZIP = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"  # no name and no time; compressed as well as can be


def deflated(pieces: Iterable[bytes], level: int) -> Iterator[bytes]:
    """Parts of one stream (RFC 1951) that holds all pieces. Of long ones, some MB, few are in
    memory at a time. level: 1 to 9, as in zlib."""
    parts, before = deque[Future[bytes]](), b""
    with ThreadPoolExecutor(CORES) as pool:
        for piece in pieces:
            parts.append(pool.submit(_part, piece, before, level))
            before = piece[-_WINDOW:]
            if len(parts) > 2 * CORES:
                yield parts.popleft().result()
        yield from (part.result() for part in parts)
    yield zlib.compressobj(wbits=-15).flush()  # an empty block that ends the stream


def gzipped(pieces: Iterable[bytes], level: int) -> Iterator[bytes]:
    """Parts of a file of gzip (RFC 1952) that holds all pieces. See deflated."""
    crc = size = 0

    def counted() -> Iterator[bytes]:
        nonlocal crc, size
        for piece in pieces:
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            yield piece

    yield _GZIP
    yield from deflated(counted(), level)
    yield crc.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")


def _part(piece: bytes, before: bytes, level: int) -> bytes:
    coder = zlib.compressobj(level, wbits=-15, zdict=before)
    return coder.compress(piece) + coder.flush(zlib.Z_SYNC_FLUSH)
