"""The GPU radix sort against numpy's stable argsort."""

import dataclasses

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.allocation import POISON
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.core import sort
from hardsplat.raster.core.sort import BLOCK, SORT_PASSES, record_sort, sort_bytes, sort_passes

CULLED = contract.CONSTANTS["NOT_VISIBLE"]
LAST = (1 << contract.CONSTANTS["KEY_BITS"]) - 1
LARGEST = 300_000


class Sorter:
    """Passes recorded for one capacity. passes: others than of four digits of seven bits."""

    def __init__(self, device, capacity: int, passes=SORT_PASSES, **digits):
        names = "counts", "indirect"
        own = {name: Buffer(device, contract.itemsize(name), name) for name in names}
        self.resources = own | allocate_all(device, sort_bytes(capacity))
        self.capacity, run = capacity, build_all(device, passes)
        self.recorder = Recorder(device, self.resources, timed=True)
        self.recorder.run(run["sizes"], threads=(1,))
        record_sort(self.recorder, run, **digits)
        self.recorder.end()

    def __call__(self, keys: np.ndarray) -> np.ndarray:
        counts = np.zeros(1, contract.dtype("Counts"))
        counts["splats"], counts["capacity"], counts["visible"] = keys.size, self.capacity, POISON
        self.resources["counts"].upload(counts)
        self.resources["keys"].upload(keys)
        self.recorder.run_once()
        return self.resources["order"].download(np.uint32, self.visible)

    def poison(self) -> None:
        for name in ("indirect", "keys_alt", "order", "order_alt", "digit_counts", "digit_totals"):
            self.resources[name].fill(POISON)

    @property
    def visible(self) -> int:
        return int(self.resources["counts"].download(contract.dtype("Counts"))[0]["visible"])

    @property
    def indirect(self) -> np.void:
        return self.resources["indirect"].download(contract.dtype("Indirect"))[0]

    def destroy(self) -> None:
        self.recorder.destroy()
        for buffer in self.resources.values():
            buffer.destroy()


@pytest.fixture(scope="module")
def sorter(module_device):
    sorter = Sorter(module_device, LARGEST)
    yield sorter
    sorter.destroy()


@pytest.fixture
def fresh(sorter, device):
    """The shared sorter with absurd contents in all scratch memory."""
    sorter.poison()
    return sorter


def expected(keys: np.ndarray) -> np.ndarray:
    by_key = np.argsort(keys, kind="stable")
    return by_key[keys[by_key] != CULLED]


def depth_keys(rng, n: int, culled: float = 0.3) -> np.ndarray:
    """Bits of depths from the near plane on, as the projection writes them."""
    keys = rng.uniform(0.2, 500.0, n).astype(np.float32).view(np.uint32)
    keys -= np.float32(0.2).view(np.uint32)
    keys[rng.random(n) < culled] = CULLED
    return keys


SIZES = [0, 1, 2, 255, 256, 257, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 10_000, LARGEST]
FEW = np.array([1, 0x01000000, 0x00FF00FF, LAST, CULLED], np.uint32)


KINDS = {
    "depths": depth_keys,
    "all visible": lambda rng, n: depth_keys(rng, n, 0.0),
    "every bit": lambda rng, n: rng.integers(0, LAST + 1, n, dtype=np.uint32),
    "equal": lambda rng, n: np.full(n, 0x0490FDB, np.uint32),
    "few distinct": lambda rng, n: rng.choice(FEW, n),
    "ascending": lambda rng, n: np.arange(n, dtype=np.uint32),
    "descending": lambda rng, n: np.arange(n, 0, -1, dtype=np.uint32),
    "all culled": lambda rng, n: np.full(n, CULLED, np.uint32),
    "last visible": lambda rng, n: np.r_[[CULLED] * (n - 1), [1] * min(n, 1)].astype(np.uint32),
}


@pytest.mark.parametrize("n", SIZES)
def test_sizes(fresh, n):
    keys = depth_keys(np.random.default_rng(n), n)
    np.testing.assert_array_equal(fresh(keys), expected(keys))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [257, 3 * BLOCK + 7])
def test_kinds_of_keys(fresh, kind, n):
    keys = KINDS[kind](np.random.default_rng(7), n)
    np.testing.assert_array_equal(fresh(keys), expected(keys))


def short_digits(lanes: int) -> list:
    """Passes of six digits of six bits."""
    found, own = [sort_passes(lanes=lanes)[0]], dict(command={}, lanes=lanes, bits=6)
    for d in range(6):
        how = dict(counted=0 < d < 3, counts_next=d < 2, FIRST=d == 0)
        found += sort.digit_passes("sort", d, 6, **how, **own)
    return found


def test_ranks_by_ballots(module_device, device, monkeypatch):
    """Subgroups are narrow, digits shorter: each has a counter a subgroup in shared memory."""
    lanes = module_device.subgroup_size
    if "subgroup_tiles" not in module_device.capabilities:
        pytest.skip(f"{module_device.name} counts no ballots")
    monkeypatch.setattr(sort, "WIDE", lanes)
    sorter = Sorter(module_device, 20_000, short_digits(lanes), digits=6, bits=6)
    rng = np.random.default_rng(9)
    for n in (1, BLOCK + 1, 20_000, 0):
        for kind in KINDS:
            sorter.poison()
            keys = KINDS[kind](rng, n)
            np.testing.assert_array_equal(sorter(keys), expected(keys), err_msg=f"{kind}, {n}")
    sorter.destroy()


def test_dispatches_fold_beyond_the_guaranteed_group_count(module_device, device, monkeypatch):
    """With a limit of 2 workgroups in x, 5 blocks fold into y, with one workgroup to spare."""
    monkeypatch.setitem(contract.CONSTANTS, "MAX_GROUPS_X", 2)
    core = contract.SUBSYSTEMS["core"]
    limited = dataclasses.replace(core.constants["MAX_GROUPS_X"], value=2)
    few = dataclasses.replace(core, constants={**core.constants, "MAX_GROUPS_X": limited})
    monkeypatch.setitem(contract.SUBSYSTEMS, "core", few)
    monkeypatch.setattr(module_device, "pipelines", {})
    sorter = Sorter(module_device, 6 * BLOCK)
    sorter.poison()
    keys = depth_keys(np.random.default_rng(6), 4 * BLOCK + 9, culled=0.0)
    np.testing.assert_array_equal(sorter(keys), expected(keys))
    assert tuple(sorter.indirect["splat_blocks"]) == (2, 3, 1)
    sorter.destroy()
