"""Splats of a tree of any size on a device, as many as a budget allows: those that a camera sees,
in the levels of detail that it needs."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.parallel import THREADS
from hardsplat.gpu.device.context import Device
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.streamed_sog import StreamedTree
from hardsplat.io.splats import TILES, open_splats, read_tiles
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.parameters import Parameters


class Sight(NamedTuple):
    """What a choice of levels depends on. view: (3, 4) world to camera. focal: px, the larger.
    near: world units. low, high: (2,) x / z and y / z of the edges of the image."""

    view: np.ndarray
    focal: float
    near: float
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, camera: Camera, near: float) -> Sight:
        fx, fy, cx, cy = camera.K[0, 0], camera.K[1, 1], camera.K[0, 2], camera.K[1, 2]
        low = np.array([-cx / fx, -cy / fy])
        high = np.array([(camera.width - cx) / fx, (camera.height - cy) / fy])
        return cls(camera.w2c[:3], max(fx, fy), near, low, high)


def choose_levels(
    bounds: np.ndarray, count: np.ndarray, errors: np.ndarray, sight: Sight, budget: int
) -> np.ndarray:
    """(leaves,) int64 level, -1 where the budget of splats has none for the leaf.

    bounds: (leaves, 2, 3). count, errors: (leaves, levels), finest first; count 0 where there is no
    such level. Every leaf gets its coarsest level, those in view first. Leaves in view are then
    refined where that takes most error away a splat, on the screen.
    """
    eye = -sight.view[:, :3].T @ sight.view[:, 3]
    out = np.maximum(np.maximum(bounds[:, 0] - eye, eye - bounds[:, 1]), 0)
    wide = np.linalg.norm(bounds[:, 1] - bounds[:, 0], axis=1)
    away = np.maximum(np.linalg.norm(out, axis=1), np.maximum(0.25 * wide, sight.near))
    px, seen = sight.focal / away, in_view(bounds, sight)
    levels, rows = count.shape[1], np.arange(len(count))
    coarsest = levels - 1 - (count[:, ::-1] > 0).argmax(axis=1)
    order = np.lexsort((rows, -px, ~seen))
    afforded = np.cumsum(count[order, coarsest[order]]) <= budget
    chosen = np.full(len(count), -1)
    chosen[order[afforded]] = coarsest[order[afforded]]
    left = budget - int(count[order, coarsest[order]][afforded].sum())

    with np.errstate(divide="ignore", invalid="ignore"):
        blur = np.minimum(1, (wide**2 * px**2)[:, None] / count)
    shown = errors * (px**2)[:, None] * blur
    steps: list[tuple[float, int, int, int]] = []
    for leaf in rows[seen & (chosen >= 0)]:
        before, best = int(chosen[leaf]), np.inf
        for level in range(before - 1, -1, -1):
            if not count[leaf, level]:
                continue
            cost = int(count[leaf, level] - count[leaf, before])
            gain = max(shown[leaf, before] - shown[leaf, level], 0) / max(cost, 1)
            best = min(best, gain)
            steps.append((best, leaf, level, max(cost, 0)))
            before = level
    for _, leaf, level, cost in sorted(steps, key=lambda step: -step[0]):
        if cost > left:
            break
        chosen[leaf] = level
        left -= cost
    return chosen


def in_view(bounds: np.ndarray, sight: Sight) -> np.ndarray:
    """(leaves,) bool, whether a box can be within the image: no plane of its edges has all corners
    outside."""
    which = (np.arange(8)[:, None] >> np.arange(3)) & 1
    corners = bounds[:, which, np.arange(3)]
    x, y, z = np.moveaxis(corners @ sight.view[:, :3].T + sight.view[:, 3], 2, 0)
    out = [z < sight.near]
    for values, low, high in zip((x, y), sight.low, sight.high):
        out += [values < low * z, values > high * z]
    return ~np.all(out, axis=2).any(axis=0)


SLOT = 256  # splats; runs take whole slots
CACHED = 1 << 21  # splats of chunks that stay in the host's memory
FILLED = 0.6  # share of a device's free memory that splats may take
DRAWN = 160  # bytes that drawing takes for each, besides its parameters
WIDEST = 64  # bytes of the widest buffer of these, a splat


def device_budget(device: Device, sh_degree: int) -> int:
    """Splats that a device draws at a time."""
    budget = device.memory_budget()
    free = budget.free if budget else device.memory_bytes
    each = 4 * (11 + 3 * (sh_degree + 1) ** 2) + DRAWN
    return int(min(FILLED * free / each, device.max_buffer / WIDEST))


def tree_of(file: Path, max_splats: int | None, device: Device) -> StreamedTree | None:
    """The tree of a model that is drawn by what cameras see; None for one that is drawn whole.

    file: as find_model finds it. A joined scene is drawn by tiles where it is larger than
    `max_splats`, by default what the device holds. Raises UserError where a budget is given for
    splats without a tree.
    """
    if max_splats is not None and max_splats < 1:
        raise UserError(f"--max-splats {max_splats}: expected a whole number of at least 1")
    if file.name == streamed_sog.NAME:
        return streamed_sog.read_tree(file)
    tiled = file.name == "splats.ply" and (file.parent / TILES).is_file()
    if not tiled:
        if max_splats is not None:
            what = f"{file} has no levels of detail; write them first: hardsplat lod {file}"
            raise UserError(f"--max-splats: {what}")
        return None
    splats = open_splats(file)
    most = max_splats or device_budget(device, splats.sh_degree)
    return read_tiles(file.parent) if splats.count > most else None


class StreamedSplats:
    """near: world units, where the cameras' images begin. budget: splats at most, by default what
    the device holds.

    shown: (leaves,) the level of each leaf on the device, -1 for none.
    """

    def __init__(self, tree: StreamedTree, device: Device, near: float, budget: int | None = None):
        self.tree, self.near = tree, near
        finest = int(tree.finest()[0])
        self.sh_degree = tree.chunk(int(tree.file[0, finest])).sh_degree
        self._around = _whole(tree.environment) if tree.environment else None
        extra = len(self._around) if self._around else 0
        self.total = int(np.take_along_axis(tree.count, tree.finest()[:, None], 1).sum())
        self.budget = min(self.total, budget or device_budget(device, self.sh_degree) - extra)
        if self.budget < 1:
            raise UserError(f"{tree.path}: not even its environment fits the device")
        slots = -(-(self.budget + extra) // SLOT) + len(tree.count) + 1
        self.capacity = SLOT * slots
        self.shown = np.full(len(tree.count), -1)
        self._slots: list[list[int]] = [[] for _ in tree.count]
        self._free = list(range(slots - 1, -1, -1))
        self._top = 0
        self._cache: OrderedDict[int, Gaussians] = OrderedDict()
        self._loading: dict[int, Future[Gaussians]] = {}
        self._pool = ThreadPoolExecutor(THREADS)

    @property
    def count(self) -> int:
        """Splats on the device."""
        leaves = np.flatnonzero(self.shown >= 0)
        return int(self.tree.count[leaves, self.shown[leaves]].sum())

    @property
    def loading(self) -> bool:
        return bool(self._loading)

    def begin(self, parameters: Parameters) -> None:
        """Must come first: no splats, but for the environment. parameters: with this capacity."""
        parameters.set_count(0)
        if self._around:
            self._place(parameters, None, self._around)

    def show(self, parameters: Parameters, camera: Camera, wait: bool = True) -> bool:
        """Puts what a camera sees on the device; whether anything changed.

        wait: until all of it is there; else what is in memory, and threads load the others. No
        frame may be in flight. Raises UserError for a damaged chunk.
        """
        tree = self.tree
        sight = Sight.of(camera, self.near)
        chosen = choose_levels(tree.bounds, tree.count, tree.errors, sight, self.budget)
        leaves = np.flatnonzero(chosen != self.shown)
        wanted = chosen[leaves]
        if not wait:  # the coarsest first, where there is nothing
            coarsest = tree.levels - 1 - (tree.count[leaves, ::-1] > 0).argmax(axis=1)
            wanted = np.where((self.shown[leaves] < 0) & (wanted >= 0), coarsest, wanted)
        before = np.where(self.shown[leaves] < 0, 0, tree.count[leaves, self.shown[leaves]])
        after = np.where(wanted < 0, 0, tree.count[leaves, wanted])
        files = np.where(wanted < 0, -1, tree.file[leaves, wanted])
        changed = False
        order = np.lexsort((files, after > before))
        if wait:
            self._ahead(files[order])
        for leaf, level, file in zip(leaves[order], wanted[order], files[order]):
            chunk = None if level < 0 else self._chunk(int(file), wait)
            if level >= 0 and chunk is None:
                continue
            run = None
            if chunk is not None:
                first = tree.first[leaf, level]
                run = chunk[first : first + tree.count[leaf, level]]
            changed |= self._replace(parameters, int(leaf), int(level), run)
        return changed

    def _ahead(self, files: np.ndarray) -> None:
        """Begins to load the first chunks that a view takes."""
        for file in dict.fromkeys(int(file) for file in files if file >= 0):
            if len(self._loading) >= 2 * THREADS:
                break
            self._load(file)

    def _load(self, file: int) -> None:
        if file not in self._cache and file not in self._loading:
            load = lambda: Gaussians.concatenate(list(self.tree.chunk(file).pieces()))  # noqa: E731
            self._loading[file] = self._pool.submit(load)

    def _chunk(self, file: int, wait: bool) -> Gaussians | None:
        """All splats of a file; None where it is being loaded."""
        if file not in self._cache:
            if wait or len(self._loading) < 2 * THREADS:
                self._load(file)
            loading = self._loading.get(file)
            if loading is None or not (wait or loading.done()):
                return None
            self._cache[file] = self._loading.pop(file).result()
            while len(self._cache) > 1 and sum(map(len, self._cache.values())) > CACHED:
                self._cache.popitem(last=False)
        self._cache.move_to_end(file)
        return self._cache[file]

    def _replace(
        self, parameters: Parameters, leaf: int, level: int, run: Gaussians | None
    ) -> bool:
        """Whether there was room."""
        needed = -(-len(run) // SLOT) if run is not None else 0
        if needed > len(self._free) + len(self._slots[leaf]):
            return False
        gone, self._slots[leaf] = self._slots[leaf], []
        self._free = sorted({*self._free, *gone}, reverse=True)
        if run is not None:
            self._place(parameters, leaf, run)
        parameters.hide((SLOT * slot, SLOT) for slot in set(gone) & set(self._free))
        self.shown[leaf] = level
        return True

    def _place(self, parameters: Parameters, leaf: int | None, run: Gaussians) -> None:
        """Whole slots: what is left of the last is filled with splats that cannot be seen."""
        missing = -len(run) % SLOT
        padded = run[np.concatenate([np.arange(len(run)), np.zeros(missing, np.int64)])]
        padded.opacities[len(run) :] = 0
        slots = [self._free.pop() for _ in range(len(padded) // SLOT)]
        parameters.place(
            (SLOT * slot, padded[SLOT * i : SLOT * (i + 1)]) for i, slot in enumerate(slots)
        )
        if leaf is not None:
            self._slots[leaf] = slots
        self._top = max(self._top, SLOT * (max(slots) + 1))
        parameters.set_count(self._top)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def sample(tree: StreamedTree) -> Gaussians:
    """Splats that show where a scene is, without SH bands: the coarsest of each leaf, or the first
    ones of each tile."""
    coarsest = tree.levels - 1 - (tree.count[:, ::-1] > 0).argmax(axis=1)
    files = np.unique(tree.file[np.arange(len(coarsest)), coarsest])
    parts = [next(iter(tree.chunk(int(file)).pieces())) for file in files]
    return Gaussians.concatenate(
        [
            Gaussians(g.means, g.quats, g.scales, g.opacities, g.sh[:, :1], check=False)
            for g in parts
        ]
    )


def _whole(path: Path) -> Gaussians:
    return Gaussians.concatenate(list(open_splats(path).pieces()))
