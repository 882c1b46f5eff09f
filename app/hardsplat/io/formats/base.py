"""What all formats of splats share: splats in pieces, and the checks that keep a hostile file from
taking memory or ending in a traceback."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import ensure_folder
from hardsplat.model.gaussians import OWN, Gaussians

if TYPE_CHECKING:
    from _typeshed import SupportsRead

# splats in memory at a time while a file is read or written: 8 MB at SH degree 3, and some copies
PIECE = 1 << 15
# bytes that a byte of a compressed file may become; more is taken for a decompression bomb, except
MOST_EXPANSION = 256
SMALL = 8 << 20  # bytes, which any machine has
COEFFICIENTS = (1, 4, 9, 16)  # of SH degree 0 to 3, the constant one included
_THREADS = 4  # that make pieces while one is written
P = TypeVar("P")
T = TypeVar("T")


class Lost:
    """How many splats a format cannot hold as they are, by what became of them and what helps; the
    words go behind "12 of 300 splats"."""

    FEW, SOME = 1e-3, 1e-2  # of all splats, fewer of which are not worth a word

    def __init__(self):
        self._numbers: Counter[str] = Counter()
        self._least: dict[str, float] = {}

    def note(self, which: np.ndarray, what: str, least: float = FEW) -> None:
        """Adds splats of a piece. which: (N,) or (N, ...) bool; a splat counts once. least: share
        of all splats from which on it is told."""
        self._numbers[what] += int(which.reshape(len(which), -1).any(axis=1).sum())
        self._least[what] = least

    def told(self, count: int) -> Iterator[str]:
        """Sentences about a file of that many splats."""
        for what, number in self._numbers.items():
            if number and number >= self._least[what] * count:
                yield f"{number:,} of {count:,} splats {what}"


@dataclass(frozen=True)
class SplatStream:
    """Splats in pieces of at most PIECE, from a file that is being read or from memory.

    count: splats of all pieces together. sh_degree: 0 to 3, the same in every piece. pieces: a
    function that begins again with each call. antialiased: they were trained with the 2D filter of
    Mip-Splatting and must be drawn with it. extra: further trained quantities that every piece has.
    seen: from which directions training views see each splat, (count, (sh_degree + 1)^2), see
    hardsplat.export.contribution.SeenSplats; None where it is unknown. remarks: sentences about a
    file, for those who read all of it.
    """

    count: int
    sh_degree: int
    pieces: Callable[[], Iterator[Gaussians]]
    antialiased: bool = False
    extra: tuple[str, ...] = ()
    seen: np.ndarray | None = None
    remarks: tuple[str, ...] = ()


def in_the_mean(seen: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """(N, 3) the coefficient of degree 0 that equals coefficients (N, K - 1, 3) of higher degrees
    in the mean over the directions that splats are seen from, (N, K)."""
    shares = seen[:, 1:] / np.where(seen[:, :1] > 0, seen[:, :1], np.inf)
    return np.einsum("nk,nkc->nc", shares, bands)


def with_means(
    splats: SplatStream, rounded: Callable[[np.ndarray, slice], np.ndarray]
) -> Iterator[Gaussians]:
    """Pieces whose colour of degree 0 makes up for what a format changes of higher degrees, where
    it is known from which directions splats are seen. rounded: (bands (n, K - 1, 3), which splats)
    -> the same as the format has them."""
    for span, g in placed(splats.pieces()):
        if splats.seen is not None and splats.sh_degree:
            sh = g.sh.copy()
            change = g.sh[:, 1:] - rounded(g.sh[:, 1:], span)
            sh[:, 0] += in_the_mean(splats.seen[span], change)
            g = replace(g, sh=sh, check=False)
        yield g


def size_of(path: Path) -> int:
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size


def in_memory(gaussians: Gaussians, antialiased: bool = False) -> SplatStream:
    n, extra = len(gaussians), tuple(gaussians.extra)
    pieces = lambda: (gaussians[at : at + PIECE] for at in range(0, n, PIECE))  # noqa: E731
    return SplatStream(n, gaussians.sh_degree, pieces, antialiased, extra)


def of_planes(planes: Mapping[str, np.ndarray], antialiased: bool = False) -> SplatStream:
    """Splats from their trained values, (planes, N, width) by name."""
    count, extra = planes["means"].shape[1], tuple(name for name in planes if name not in OWN)

    def pieces() -> Iterator[Gaussians]:
        for at, n in spans(count):
            yield Gaussians.from_planes({name: v[:, at : at + n] for name, v in planes.items()})

    return SplatStream(count, degree_of(1 + planes["shN"].shape[0]), pieces, antialiased, extra)


def ahead(
    pieces: Iterable[P], work: Callable[[P], T], most: int = _THREADS, pool: Executor | None = None
) -> Iterator[T]:
    """work(piece) of every piece in order, which a pool, by default of threads, does at most `most`
    pieces ahead."""
    waiting: deque[Future[T]] = deque()
    with nullcontext(pool) if pool else ThreadPoolExecutor(most) as workers:
        try:
            for piece in pieces:
                waiting.append(workers.submit(work, piece))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def spans(count: int, size: int = PIECE) -> Iterator[tuple[int, int]]:
    """(first, number) of consecutive pieces."""
    for first in range(0, count, size):
        yield first, min(size, count - first)


def placed(pieces: Iterable[Gaussians]) -> Iterator[tuple[slice, Gaussians]]:
    """Each piece, and which splats of all it has."""
    at = 0
    for piece in pieces:
        yield slice(at, at + len(piece)), piece
        at += len(piece)


def even(pieces: Iterator[Gaussians], size: int) -> Iterator[Gaussians]:
    """Regroups splats into pieces of exactly `size`, but for the last."""
    held: list[Gaussians] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= size:
            whole = Gaussians.concatenate(held)
            yield from (whole[at : at + n] for at, n in spans(len(whole) - len(whole) % size, size))
            held = [whole[len(whole) - len(whole) % size :]]
    if sum(map(len, held)):
        yield Gaussians.concatenate(held)


@contextmanager
def reading(path: Path, what: str = "truncated or damaged") -> Iterator[None]:
    """Turns whatever a parser raises on a damaged file into a UserError of one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # parsers and decompressors raise almost anything
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        raise UserError(f"{path}: {what}: {reason(error)}") from error


def exactly(file: SupportsRead[bytes], size: int) -> bytes:
    """The next `size` bytes. Raises EOFError where there are fewer."""
    data = file.read(size)
    if len(data) != size:
        raise EOFError(f"{size} bytes were expected and {len(data)} are there")
    return data


def check_expansion(path: Path, raw: int, packed: int) -> None:
    """Refuses `packed` bytes that announce `raw` bytes once decompressed, where no honest file
    does."""
    if raw > max(SMALL, MOST_EXPANSION * packed):
        claim = f"announces {raw} bytes in {packed} compressed ones, which no splats reach"
        raise UserError(f"{path}: {claim}; damaged, or a decompression bomb")


@contextmanager
def archive_in(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """The zip in a file. Refuses one whose members claim more bytes than it can hold, or are packed
    by other methods than numpy and SOG use, whose memory a file may choose."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise UserError(f"{path}: not {kind}, or cut short")
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        check_expansion(path, sum(info.file_size for info in infos), size_of(path))
        for info in infos:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                name = f"{info.filename[:80]} in it"
                raise UserError(f"{path}: {name} is neither stored nor deflated; pack it again so")
        yield archive


def check_count(path: Path, count: int) -> None:
    if count < 1:
        raise UserError(f"{path}: has no splats")


def scratch(target: Path) -> IO[bytes]:
    """A temporary file without a name, in the folder of `target`, which has space for large files
    where /tmp may be memory."""
    ensure_folder(target.parent)
    return tempfile.TemporaryFile(dir=target.parent)


def degree_of(coefficients: int) -> int:
    """The SH degree with that many coefficients a channel, the constant one included. Raises
    ValueError for other numbers."""
    if coefficients not in COEFFICIENTS:
        known = "splats have 1, 4, 9 or 16, for degrees 0 to 3"
        raise ValueError(f"{coefficients} SH coefficients a channel; {known}")
    return COEFFICIENTS.index(coefficients)


def to_bytes(values: np.ndarray) -> np.ndarray:
    """uint8, rounded and clipped."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def unit(quats: np.ndarray) -> np.ndarray:
    """(N, 4) of length 1; zeros stay."""
    length = np.linalg.norm(quats.astype(np.float64), axis=1, keepdims=True)
    return quats / np.where(length > 0, length, 1)


def smallest_three(quats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) index of the largest component, and (N, 3) the others in their order, in
    -sqrt(1/2)..sqrt(1/2), of the unit quaternion whose largest is positive."""
    q = unit(quats)
    largest = np.abs(q).argmax(axis=1)
    q = q * np.where(np.take_along_axis(q, largest[:, None], 1) < 0, -1, 1)
    return largest, np.take_along_axis(q, OTHERS[largest], 1)


def from_smallest_three(largest: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N, 4) quaternions of length 1, the inverse of smallest_three."""
    out = np.empty((len(largest), 4), np.float32)
    np.put_along_axis(out, OTHERS[largest], others.astype(np.float32), 1)
    rest = np.maximum(0, 1 - (others.astype(np.float64) ** 2).sum(1, keepdims=True))
    np.put_along_axis(out, largest[:, None], np.sqrt(rest).astype(np.float32), 1)
    return out


def sizes(g: Gaussians) -> np.ndarray:
    """(N,) the middle one of the scales, by which the outline of a splat is no narrower from most
    directions."""
    a, b, c = g.scales.T
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def finite_log_scales(g: Gaussians) -> np.ndarray:
    """(N, 3) float32 logarithms. A scale can underflow to 0 in float32; its logarithm would be
    unreadable."""
    return np.log(np.maximum(g.scales, np.finfo(np.float32).tiny))


# components besides the one at each index
OTHERS = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
