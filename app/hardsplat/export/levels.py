"""Levels of detail of a scene of any size, as streamed SOG.

Splats are dealt into the cells of a k-d tree on the disk. Each cell is then merged level by level,
a quarter of the splats at a time, after Kerbl et al. 2024, A Hierarchical 3D Gaussian
Representation, section 4. Memory holds some cells and chunks at a time.
"""

from __future__ import annotations

import json
import math
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import CORES, THREADS
from hardsplat.base.progress import Bar
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.base import SplatStream, ahead, in_memory
from hardsplat.io.formats.sog import META, write_folder
from hardsplat.io.order import Bucket, Dealt
from hardsplat.io.splats import log_dropped, usable_pieces
from hardsplat.model import morton
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.page.choose import reduced
from hardsplat.page.merge import covariance_diagonals, covers


class CellTree:
    """2^depth cells of about as many points, cut at medians across the longest spread.

    points: (N, 3), N >= 1, a sample of those that are placed.
    """

    def __init__(self, points: np.ndarray, depth: int):
        self.depth = depth
        nodes = (1 << depth) - 1
        self._axis, self._cut = np.zeros(nodes, np.int64), np.zeros(nodes, np.float32)
        parts = [np.asarray(points, np.float32)]
        for node in range(nodes):
            part = parts[node]
            if len(part):
                axis = self._axis[node] = part.std(axis=0).argmax()
                cut = self._cut[node] = np.median(part[:, axis])
                left = part[:, axis] < cut
                parts += [part[left], part[~left]]
            else:
                parts += [part, part]
            parts[node] = part[:0]

    def cells(self, points: np.ndarray) -> np.ndarray:
        """(N,) int64 number of the cell of each point, from left to right."""
        node = np.zeros(len(points), np.int64)
        rows = np.arange(len(points))
        for _ in range(self.depth):
            right = points[rows, self._axis[node]] >= self._cut[node]
            node = 2 * node + 1 + right
        return node - ((1 << self.depth) - 1)


RATIO = 4  # splats of a level for one of the next
CHUNK = 1 << 16  # splats of a file
COARSEST = 3 << 14  # splats of the coarsest level, at most
LEAVES = 256  # of most scenes
LEAST, MOST = 1 << 12, 1 << 16  # splats of a leaf
_SAMPLE = 1 << 20  # splats that the cells follow from
_MANY = 4_000_000  # splats from which processes are worth their start
_PROCESSES = 16  # of 0.23 GB each
_IDLE = 60  # s after which a process ends that gets nothing to do: its parent was killed
_KEPT = 0.3  # of the splats of a level, as they are in the one before: best on bonsai
_BLUR = 0.05  # error of a merge of splats of one colour


@dataclass
class _Leaf:
    """levels: splats, finest first, until they are written. counts: of each level. bounds: (2, 3).
    errors: of each level. runs: (file, first, count) of each level."""

    levels: list[Gaussians]
    counts: list[int]
    bounds: np.ndarray
    errors: list[float]
    runs: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class WrittenLevels:
    """counts: splats of each level. bytes: of the folder; of these coarsest, those of the last
    level."""

    folder: Path
    counts: list[int]
    bytes: int
    coarsest: int


def write_levels(
    splats: SplatStream,
    source: Path,
    folder: Path,
    extra: Callable[[Gaussians], dict] | None = None,
    leaf: int | None = None,
    chunk: int = CHUNK,
    coarsest: int = COARSEST,
    quiet: bool = False,
) -> WrittenLevels:
    """Writes lod-meta.json and chunks into a new folder.

    source: named in messages. extra: makes what the page needs, which goes into lod-meta.json, from
    a sample of the splats without SH bands. leaf: splats of a cell, about; by default such that
    there are LEAVES of them. chunk: splats of a file, coarsest: of the last level, at most.
    Raises UserError where no splat can be drawn, OSError where the folder cannot be written.
    """
    leaf = leaf or min(MOST, max(LEAST, splats.count // LEAVES))
    depth = max(0, math.ceil(math.log2(splats.count / leaf)))
    levels = 1 + max(0, math.ceil(math.log(splats.count / coarsest, RATIO)))
    sample, low, high = _surveyed(splats, source)
    tree = CellTree(sample.means, depth)
    with ExitStack() as stack:
        dealt = Dealt(folder / "dealt", splats.sh_degree, 1 << depth)
        stack.callback(dealt.close)
        for piece in _shown(splats, "dealing", quiet):
            dealt.put(piece, tree.cells(piece.means))
        buckets = dealt.buckets()
        groups = _grouped([len(bucket) for bucket in buckets], chunk)
        pool, most = stack.enter_context(_workers(splats.count))
        bar = stack.enter_context(
            Bar(total=splats.count, desc="merging", unit="splat", unit_scale=True, disable=quiet)
        )
        work = _Work(folder, levels, low, high, splats.antialiased)
        out = _Chunks(work, pool, most, chunk)
        tasks = ((i, [buckets[cell] for cell in cells]) for i, cells in enumerate(groups))
        leaves: list[_Leaf | None] = [None] * len(buckets)
        for cells, (made, size) in zip(groups, ahead(tasks, work.merged, most, pool)):
            out.add(made, size)
            for cell, one in zip(cells, made):
                leaves[cell] = one
            bar.update(sum(one.counts[0] for one in made))
        out.finish()
    counts = [sum(leaf.runs[level][2] for leaf in leaves if leaf) for level in range(levels)]
    meta = {
        "version": 1,
        "asset": {"generator": "hardsplat"},
        "count": sum(counts),
        "counts": counts,
        "lodLevels": levels,
        "lodErrors": True,
        "filenames": out.names,
        "tree": _tree(leaves),
    }
    if extra is not None:
        own = {"degree": splats.sh_degree, "antialiased": splats.antialiased}
        meta["hardsplat"] = own | extra(sample)
    text = json.dumps(meta, separators=(",", ":"), allow_nan=False)
    (folder / streamed_sog.NAME).write_text(text)
    return WrittenLevels(folder, counts, sum(out.bytes) + len(text), out.bytes[-1])


def _surveyed(splats: SplatStream, source: Path) -> tuple[Gaussians, np.ndarray, np.ndarray]:
    """A random sample without SH bands, and the bounds of the means. Logs splats that cannot be
    drawn."""
    rng, share, dropped = np.random.default_rng(0), min(1, _SAMPLE / splats.count), Counter[str]()
    sample, low, high = [], np.full(3, np.inf), np.full(3, -np.inf)
    for piece in usable_pieces(splats, dropped):
        if len(piece):
            low = np.minimum(low, piece.means.min(axis=0))
            high = np.maximum(high, piece.means.max(axis=0))
            chosen = rng.random(len(piece)) < share
            chosen[0] = True
            part = replace(piece, sh=piece.sh[:, :1], extra={}, check=False)
            sample.append(part[chosen])
    log_dropped(source, splats, dropped)
    return Gaussians.concatenate(sample), low, high


def _shown(splats: SplatStream, what: str, quiet: bool) -> Iterator[Gaussians]:
    with Bar(total=splats.count, desc=what, unit="splat", unit_scale=True, disable=quiet) as bar:
        for piece in usable_pieces(splats, Counter()):
            piece.extra = {}
            yield piece
            bar.update(len(piece))


def _merged(splats: Gaussians, levels: int, low: np.ndarray, high: np.ndarray) -> _Leaf:
    """The levels of a cell, each in Morton order. A level has colour of one SH degree less than
    the one before: from afar, the direction of view changes little."""
    made, bounds = [], []
    for level in range(levels):
        if level:
            bands = max(splats.sh_degree, 1) ** 2
            splats = replace(splats, sh=splats.sh[:, :bands], check=False)
            count = -(-len(splats) // RATIO)
            splats = reduced(splats, (), count, share=_KEPT) if len(splats) > 1 else splats
        splats = splats[np.argsort(morton.keys(splats.means, low, high), kind="stable")]
        half = np.sqrt(covariance_diagonals(splats))
        bounds += [(splats.means - half).min(axis=0), (splats.means + half).max(axis=0)]
        made.append(splats)
    corners = np.array([np.min(bounds, axis=0), np.max(bounds, axis=0)], np.float64)
    return _Leaf(made, [len(g) for g in made], corners, _errors(made[0], levels))


def _errors(g: Gaussians, levels: int) -> list[float]:
    """How far each level is from the finest: the surface of splats times what the colour differs
    from the mean of as many neighbours along the Morton curve as one splat of the level has."""
    weights, colors = covers(g), np.ascontiguousarray(g.sh[:, 0]) * SH_C0
    errors = [0.0]
    for level in range(1, levels):
        starts = np.arange(0, len(g), RATIO**level)
        groups = np.arange(len(g)) // RATIO**level
        sums = np.add.reduceat(weights, starts)
        means = np.add.reduceat(weights[:, None] * colors, starts) / sums[:, None]
        far = np.linalg.norm(colors - means[groups], axis=1)
        errors.append(max(errors[-1], float(weights @ (far + _BLUR * level))))
    return errors


def _tree(leaves: list[_Leaf | None]) -> dict:
    """The node over 2^n leaves, of which some are empty."""
    half = len(leaves) // 2
    if half:
        made = [_tree(part) for part in (leaves[:half], leaves[half:]) if any(part)]
        if len(made) == 1:
            return made[0]
        ends = [[node["bound"][end] for node in made] for end in ("min", "max")]
        low, high = np.min(ends[0], axis=0).tolist(), np.max(ends[1], axis=0).tolist()
        return {"bound": {"min": low, "max": high}, "children": made}
    leaf = leaves[0]
    assert leaf is not None
    low, high = ([_digits(x, bool(end)) for x in leaf.bounds[end].tolist()] for end in range(2))
    lods = {str(level): dict(zip(_RUN, run)) for level, run in enumerate(leaf.runs)}
    errors = [_digits(error, True) for error in leaf.errors]
    return {"bound": {"min": low, "max": high}, "lods": lods, "errors": errors}


_RUN = ("file", "offset", "count")


def _digits(x: float, up: bool) -> float:
    """Seven digits, away from the inside of a box."""
    step = 10.0 ** (math.floor(math.log10(abs(x))) - 6) if x else 1.0
    return float(f"{(math.ceil if up else math.floor)(x / step) * step:.7g}")


@contextmanager
def _workers(splats: int) -> Iterator[tuple[Executor, int]]:
    """What merges and writes so many splats, and how many it does at once: threads, or processes
    where there is enough to do, since threads wait for one another in Python itself. Raises
    UserError where a process is killed."""
    if splats < _MANY or CORES == 1:
        with ThreadPoolExecutor(THREADS) as threads:
            yield threads, THREADS
        return
    from loky import BrokenProcessPool, ProcessPoolExecutor

    number = min(_PROCESSES, CORES)
    pool = ProcessPoolExecutor(
        number,
        timeout=_IDLE,
        initializer=signal.signal,  # Ctrl-C is for this process, which then ends the others
        initargs=(signal.SIGINT, signal.SIG_IGN),
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        with _interrupts_held():
            pool.submit(int)  # starts all of them
        yield pool, number
    except BrokenProcessPool:
        what = f"one of {number} processes was killed, as the system does where memory is short"
        raise UserError(f"levels of detail: {what}; close other programs, and try again") from None
    finally:
        pool.shutdown(kill_workers=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C comes after the block, and never to processes that start in it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start, with the first process, would end what is held
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _grouped(counts: list[int], chunk: int) -> list[list[int]]:
    """Cells that are not empty, in order, as many as fit into a chunk together."""
    groups: list[list[int]] = []
    held = 0
    for cell in np.flatnonzero(counts).tolist():
        if not groups or held + counts[cell] > chunk:
            groups.append([])
            held = 0
        groups[-1].append(cell)
        held += counts[cell]
    return groups


@dataclass(frozen=True)
class _Work:
    """What workers do, and what all of it has in common. low, high: (3,) bounds of the means."""

    folder: Path
    levels: int
    low: np.ndarray
    high: np.ndarray
    antialiased: bool

    def merged(self, task: tuple[int, list[Bucket]]) -> tuple[list[_Leaf], int]:
        """task: a number and the cells of a chunk of the finest level. Writes that chunk; returns
        the leaves with their coarser levels, and the bytes."""
        number, cells = task
        leaves = [_merged(cell.read(), self.levels, self.low, self.high) for cell in cells]
        return leaves, self.written(_name(0, number), [leaf.levels.pop(0) for leaf in leaves])

    def written(self, name: str, parts: list[Gaussians]) -> int:
        """Writes a chunk; returns its bytes."""
        stream = in_memory(Gaussians.concatenate(parts), self.antialiased)
        return write_folder((self.folder / name).parent, stream, 1)


def _name(level: int, number: int) -> str:
    return f"{level}_{number}/{META}"


class _Chunks:
    """Runs of splats, gathered level by level into chunks, which a pool writes."""

    def __init__(self, work: _Work, pool: Executor, most: int, chunk: int):
        self._work, self._pool, self._most, self._chunk = work, pool, most, chunk
        self._held: list[list[Gaussians]] = [[] for _ in range(work.levels)]
        self._file = [-1] * work.levels
        self._numbers = [0] * work.levels
        self.names: list[str] = []
        self.bytes = [0] * work.levels
        self._writing: deque[tuple[int, Future[int]]] = deque()

    def add(self, leaves: list[_Leaf], size: int) -> None:
        """Gives leaves their runs, and takes their splats. size: bytes of the chunk that has their
        finest level."""
        self._open(0)
        self.bytes[0] += size
        first = 0
        for leaf in leaves:
            leaf.runs.append((self._file[0], first, leaf.counts[0]))
            first += leaf.counts[0]
            for level, splats in enumerate(leaf.levels, 1):
                held = self._held[level]
                if held and sum(map(len, held)) + len(splats) > self._chunk:
                    self._write(level)
                if not held:
                    self._open(level)
                leaf.runs.append((self._file[level], sum(map(len, held)), len(splats)))
                held.append(splats)
            leaf.levels = []

    def _open(self, level: int) -> None:
        self._file[level] = len(self.names)
        self.names.append(_name(level, self._numbers[level]))
        self._numbers[level] += 1

    def _write(self, level: int) -> None:
        parts, name = list(self._held[level]), self.names[self._file[level]]
        self._held[level].clear()
        self._writing.append((level, self._pool.submit(self._work.written, name, parts)))
        while len(self._writing) > self._most:
            self._landed()

    def _landed(self) -> None:
        level, done = self._writing.popleft()
        self.bytes[level] += done.result()

    def finish(self) -> None:
        """Writes what is held, and waits."""
        for level, held in enumerate(self._held):
            if held:
                self._write(level)
        while self._writing:
            self._landed()
