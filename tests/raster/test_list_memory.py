"""Memory of lists: checkpoints on demand, sizes that follow what frames need, little memory."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.base.errors import OutOfMemory
from hardsplat.gpu.device.usage import MemoryBudget
from hardsplat.raster.core import rasterizer as pair_lists
from hardsplat.raster.core.rasterizer import HEADROOM, SPARE
from hardsplat.raster.renderer import Renderer
from hardsplat.raster.tiled import rasterizer
from hardsplat.step.runner import AHEAD, WINDOW, BatchResult, PairDemand
from hardsplat.train import run_training as train
from tests.helpers.drawing import PARAMETERS, agrees, clear_scene, splats_of
from tests.helpers.goldens import relative_l2
from tests.helpers.training import open_session, same_state, settings

CHECKPOINT, LITTLE = 4096, 32 * 4096  # bytes


def deep_scene(**more) -> dict:
    """Tiles with hundreds of faint splats, several buckets each."""
    return clear_scene(700, 70, 52, 0, seed=3, overlap=500, **more)


def with_places(monkeypatch, places: int) -> None:
    """No more checkpoints fit than these."""
    most = lambda self, pairs: min(places, self._buckets(pairs))
    monkeypatch.setattr(rasterizer.TiledRasterizer, "_most_checkpoints", most)


def test_gradients_do_not_depend_on_the_checkpoints_that_fit(device, monkeypatch):
    """Without checkpoints a workgroup continues from bucket to bucket."""
    scene, found = deep_scene(), {}
    for places in (1 << 20, 7, 2, 1):
        with_places(monkeypatch, places)
        with Renderer(device, "tiled") as renderer:
            agrees(renderer, scene, what=places)
            needed = int(renderer.parameters.counts["checkpoints"])
            fits = renderer.raster.checkpoint_capacity
            assert needed > 10 and (fits == places or needed <= fits)
            assert renderer.resources["checkpoints"].nbytes == fits * CHECKPOINT
            found[places] = renderer.backward(scene["weight"])
    for places, gradients in found.items():
        for name in PARAMETERS:
            error = relative_l2(gradients[name], found[1 << 20][name])
            assert error <= 1e-5, (places, name, error)


def test_buckets_that_no_pixel_reaches_have_no_checkpoint(device):
    """Opaque splats finish all pixels: a tile's first bucket alone is reached, which needs none."""
    scene = deep_scene()
    scene = {**scene, "opacities": np.full_like(scene["opacities"], 0.99)}
    with Renderer(device, "tiled") as renderer:
        renderer.forward(*splats_of(scene))
        counts, raster = renderer.parameters.counts, renderer.raster
        buckets = int(counts["pairs"]) // 64
        assert int(counts["checkpoints"]) < buckets / 2
        kinds = renderer.resources["bucket_tiles"].download(np.uint32).reshape(-1, 2)
        assert len(kinds) == raster.pair_capacity // 64 + raster.tiles


def test_capacities_follow_needs():
    for needed, give_back, capacity in (
        (1000, True, 1000),  # as it is
        (1001, False, int(1001 * HEADROOM)),
        (5000, True, 3000),  # no more than there can be
        (100, False, 1000),
        (int(1000 * SPARE / HEADROOM) + 1, True, 1000),
        (100, True, 200),  # never less than these
        (300, True, int(300 * HEADROOM)),
    ):
        assert pair_lists._fitted(1000, needed, 3000, 200, give_back) == capacity, needed


def test_lists_grow_and_are_given_back(device, monkeypatch):
    """The device counts them: buffers are as large as capacities say, and freed."""
    monkeypatch.setattr(rasterizer, "FEWEST_PAIRS", 64)
    monkeypatch.setattr(rasterizer, "PAIRS_PER_SPLAT", 1)
    monkeypatch.setattr(pair_lists, "HEADROOM", 1.15)
    names = ("checkpoints", "bucket_tiles", "pair_splats")
    with Renderer(device, "tiled") as renderer:
        renderer.forward(*splats_of(deep_scene()))
        raster, sizes = renderer.raster, []
        for pairs, checkpoints in ((12_000, 150), (11_500, 145), (1000, 16)):
            resources = raster.resources
            replaced = raster.reserve_pairs(pairs, checkpoints, give_back=True)
            assert replaced == (raster.resources is not resources) == (pairs != 11_500)
            assert raster.pair_capacity >= pairs and raster.checkpoint_capacity >= checkpoints
            sizes.append(sum(device.usage.by_name[name] for name in names))
            buffers = {name: raster.resources[name].nbytes for name in names}
            expected = raster._pair_bytes(raster.pair_capacity, raster.checkpoint_capacity)
            assert buffers == {name: expected[name] for name in names}
        assert sizes[0] == sizes[1] > 4 * sizes[2]
        exact = 1000 * 4 + 16 * CHECKPOINT + 8 * (1000 // 64 + raster.tiles)
        assert sizes[2] < 1.3 * exact + 3 * 512  # rounded up, each buffer


def test_checkpoints_of_the_beginning_are_not_given_back(device, monkeypatch):
    """More of them are, and there is a quarter more than is needed."""
    monkeypatch.setattr(rasterizer, "FEWEST_PAIRS", 1 << 14)
    with Renderer(device, "tiled") as renderer:
        renderer.forward(*splats_of(deep_scene()))
        raster = renderer.raster
        first = raster.checkpoint_capacity
        raster._most_checkpoints = lambda pairs: 1 << 12
        for needed, capacity in ((first, first), (800, 1000), (801, 1000), (1, first)):
            raster.reserve_pairs(1, needed, give_back=True)
            assert raster.checkpoint_capacity == capacity, needed


def short_of_memory(monkeypatch, limit: int) -> list[int]:
    """Allocations of lists above `limit` bytes fail; returns the sizes that were refused."""
    allocate, refused = pair_lists.allocate_overlaid, []

    def refusing(device, nbytes, lives):
        if max(nbytes.values()) > limit:
            refused.append(max(nbytes.values()))
            raise OutOfMemory("full")
        return allocate(device, nbytes, lives)

    for module in (pair_lists, rasterizer):
        monkeypatch.setattr(module, "allocate_overlaid", refusing)
    return refused


def test_without_memory_for_checkpoints_there_are_fewer(device, monkeypatch):
    scene = deep_scene()
    refused = short_of_memory(monkeypatch, LITTLE)
    with Renderer(device, "tiled") as renderer:
        agrees(renderer, scene)
        assert refused and renderer.raster.checkpoint_capacity <= LITTLE // CHECKPOINT
        before = renderer.raster.checkpoint_capacity
        renderer.raster.reserve_pairs(1000, 1 << 16)
        assert renderer.raster.checkpoint_capacity == before


def test_without_memory_for_pairs_capacities_stay(device, monkeypatch):
    with Renderer(device, "tiled") as renderer:
        renderer.forward(*splats_of(deep_scene()))
        short_of_memory(monkeypatch, 16 << 20)
        raster = renderer.raster
        before = raster.pair_capacity, raster.checkpoint_capacity
        monkeypatch.setattr(raster, "_most_pairs", lambda: 1 << 24)
        with pytest.raises(OutOfMemory):
            raster.reserve_pairs(1 << 23, 0)
        assert max(raster.resources[name].nbytes for name in raster._pair_bytes(1)) <= 16 << 20
        assert (raster.pair_capacity, raster.checkpoint_capacity) == before


def test_a_training_with_little_free_memory_is_slower_not_dead(
    on_device, scene, tmp_path, monkeypatch
):
    """Another program has nearly all: checkpoints take half of what is left at most."""
    free = 40 * CHECKPOINT
    budget = lambda self: MemoryBudget(1 << 30, (1 << 30) + free)
    monkeypatch.setattr(type(on_device), "memory_budget", budget)
    metrics = train(settings(scene, tmp_path, rasterizer="tiled", max_steps=12))
    assert metrics["splats"] > 0 and np.isfinite(metrics["curve"]["loss"]).all()
    assert metrics["variants"]["tile_backward"] == "reduce-scatter"


class Lists:
    """A rasterizer that notes what it is asked to hold."""

    def __init__(self, full=False):
        self.asked, self.full, self.pair_capacity = [], full, 1

    def reserve_pairs(self, pairs, checkpoints, give_back):
        self.asked.append((pairs, checkpoints, give_back))
        if self.full:
            raise OutOfMemory("full")


def batch(pairs: list[int], checkpoints: int, capacity: int = 1 << 20) -> BatchResult:
    records = np.zeros(len(pairs), contract.dtype("StepRecord"))
    records["pairs"], records["checkpoints"] = pairs, checkpoints
    return BatchResult(0, records, {}, (0.0, 0.0), capacity, (0.0, 0.0))


def test_needs_are_those_of_late():
    needs, lists = PairDemand(window=150), Lists()
    needs.fit(lists)
    assert not lists.asked  # nothing is known
    needs.note(batch([5000, 3000] * 10, 70))
    needs.fit(lists)
    for _ in range(7):
        needs.note(batch([1000] * 20, 20))
    needs.fit(lists)
    for _ in range(2):
        needs.note(batch([900] * 20, 10))
    needs.fit(lists)
    most, later = int(5000 * AHEAD), int(1000 * AHEAD)
    assert lists.asked == [(most, 70, False), (most, 70, True), (later, 20, True)]
    assert PairDemand(window=3)._window == WINDOW
    needs.note(batch([10, 11, 12], 0, capacity=10))  # without their farthest pairs
    assert needs.clipped_steps == 2


def test_lists_that_did_not_fit_are_not_tried_again_but_by_a_new_rasterizer():
    needs, lists = PairDemand(), Lists(full=True)
    needs.note(batch([10], 1))
    for new in (True, False, False, True):
        needs.fit(lists, new=new)
    assert len(lists.asked) == 3


@pytest.mark.parametrize("misses", [1, 2, 3])
def test_lists_whose_memory_others_have_taken(device, scene, monkeypatch, misses):
    """A run goes on with lists of before, or makes them again; or ends, but draws with none."""
    config = settings(scene, rasterizer="tiled", tile_backward="gather")
    first, second = (open_session(device, config) for _ in range(2))
    left, allocate = iter(range(misses)), pair_lists.allocate_overlaid

    def refusing(*given):
        if next(left, None) is not None:
            raise OutOfMemory("full")
        return allocate(*given)

    for session in (first, second):
        session.run(5)
        session.drain()
    raster = second.raster
    monkeypatch.setattr(pair_lists, "allocate_overlaid", refusing)
    with pytest.raises(OutOfMemory):
        raster._resize_lists(raster.pair_capacity + 1000, raster.checkpoint_capacity)
    assert (raster.pair_capacity == 0) == (misses > 1)
    if misses == 3:
        with pytest.raises(OutOfMemory):
            second.run(1)
    for session in (first, second):
        session.refine()
        session.run(5)
    assert same_state(*[session.snapshot() for session in (first, second)])


def test_lists_of_before_go_before_there_are_larger_ones(device, monkeypatch):
    monkeypatch.setattr(rasterizer, "FEWEST_PAIRS", 64)
    with Renderer(device, "tiled") as renderer:
        renderer.forward(*splats_of(deep_scene()))
        raster, used = renderer.raster, device.usage
        used.restart()
        raster.reserve_pairs(4 * raster.pair_capacity, 4 * raster.checkpoint_capacity)
        assert used.peak == used.on_device
