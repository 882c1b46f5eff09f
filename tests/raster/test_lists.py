"""Fragments listed in any order give the gradients of fragments that wait for each other."""

import itertools

import numpy as np
import pytest

from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.resources import Owned
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware import draws
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.tables.formats import FORMATS
from hardsplat.view.splats.screen import Appearance, Screen
from tests.helpers.drawing import PARAMETERS, agrees, splats_of
from tests.helpers.goldens import random_scene, relative_l2
from tests.helpers.training import open_session, settings
from tests.raster.test_hardware import TOLERANCE, in_range

SIZE = (61, 47)  # no multiple of a block
NONE = 0xFFFFFFFF
FROM_LISTS = dict(format="float32", ordering="lists")


WAYS = {
    "fixed": (dict(), dict(segments=4), dict(segments=3, block="1x1"), dict(reduction="atomic")),
    "lists": (dict(), dict(block="1x1"), dict(reduction="quad"), dict(reduction="hybrid")),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("blending", WAYS)
def test_lists_agree_with_the_oracle(device, blending, format):
    """Nothing is blended in the format: float16 errs as float32, others by one rounding."""
    scene = in_range(random_scene(5, 300, *SIZE, 1, overlap=12))
    whole = blending == "lists" and FORMATS[format].resolved
    limits = TOLERANCE["float32" if whole else format]
    for options in WAYS[blending]:
        options = dict(format=format, ordering="lists", blending=blending, **options)
        with Renderer(device, **options) as renderer:
            agrees(renderer, scene, limits, options)


def chained(lists: np.ndarray, fragments: np.ndarray) -> list[list[int]]:
    """The fragments of each list, the one that came last first."""
    chains = []
    for at in lists[:, 0].tolist():
        chain = []
        while at != NONE:
            chain.append(at)
            at = int(fragments[at, 1])
        chains.append(chain)
    return chains


@pytest.mark.parametrize("arrival", ["reversed", "shuffled"])
def test_fragments_may_come_in_any_order(device, arrival):
    """The lists are linked anew, as if fragments had come otherwise, and sorted again."""
    rng, scene = np.random.default_rng(7), random_scene(7, 400, *SIZE, 0, overlap=40)
    gaussians, camera = splats_of(scene)
    with Renderer(device, **FROM_LISTS, segments=2) as renderer:
        renderer.forward(gaussians, camera)
        wanted = renderer.backward(scene["weight"])
        renderer.forward(gaussians, camera)
        raster, resources = renderer.raster, renderer.resources
        used = int(renderer.parameters.counts["pairs_wanted"])
        lists = resources["fragment_lists"].download(np.uint32).reshape(-1, 2)
        fragments = resources["fragments"].download(np.uint32, 2 * used).reshape(-1, 2)
        chains = chained(lists, fragments)
        assert sorted(itertools.chain(*chains)) == list(range(used)) and max(map(len, chains)) > 20
        for number, chain in enumerate(chains):
            chain = chain[::-1] if arrival == "reversed" else rng.permutation(chain).tolist()
            for at, behind in zip(chain, [*chain[1:], NONE]):
                fragments[at, 1] = behind
            lists[number, 0] = chain[0] if chain else NONE
        resources["fragment_lists"].upload(lists)
        resources["fragments"].upload(fragments)
        recorder, (across, down) = Recorder(device, resources), raster.lists.blocks
        recorder.run(raster.pipelines["list sort"], threads=(across, down * raster.segments))
        recorder.end().run_once()
        recorder.destroy()
        found = renderer.backward(scene["weight"])
    for name in PARAMETERS:  # the same sums in another order
        assert relative_l2(found[name], wanted[name]) < 1e-5, name


def test_room_is_made_and_fragments_without_it_are_left_out(device, monkeypatch, caplog):
    scene = random_scene(3, 300, *SIZE, 0, overlap=60)
    gaussians, camera = splats_of(scene)
    monkeypatch.setattr(draws, "FIRST_PER_BLOCK", 1)
    asked = lambda renderer: int(renderer.parameters.counts["pairs_wanted"])
    for blending in ("fixed", "lists"):
        with Renderer(device, **FROM_LISTS, blending=blending) as renderer:
            agrees(renderer, scene, what=blending)  # forward() makes room
            assert renderer.raster.pair_capacity >= asked(renderer) > 5_000
    monkeypatch.setattr(device, "max_buffer", 100_000)
    for blending in ("fixed", "lists"):
        with Renderer(device, **FROM_LISTS, blending=blending) as renderer:
            for _ in range(2):
                found, T = renderer.forward(gaussians, camera)
                cut = renderer.backward(scene["weight"])
            assert renderer.raster.pair_capacity == 12_500 < asked(renderer)
            lists = renderer.resources["fragment_lists"].download(np.uint32).reshape(-1, 2)
            fragments = renderer.resources["fragments"].download(np.uint32).reshape(-1, 2)
            heads = lists[lists[:, 0] != NONE, 0]
            assert heads.max() < len(fragments) == 12_500
            assert sorted(itertools.chain(*chained(lists, fragments))) == list(range(12_500))
        assert np.isfinite(found).all() and T.min() >= 0 and T.max() <= 1
        for name in PARAMETERS:
            assert np.isfinite(cut[name]).all() and np.abs(cut[name]).max() > 0
    note = f", 12500 fit on {device.name}: the others are not drawn"
    assert len(caplog.messages) == 2 and all(m.endswith(note) for m in caplog.messages)


@pytest.mark.parametrize("blending", ["fixed", "lists"])
def test_finished_pixels_of_unfinished_blocks_take_no_more(device, blending):
    """Three opaque splats finish one pixel of a block; a wide one behind has no gradient there."""
    K = np.array([[64, 0, 8.5], [0, 64, 8.5], [0, 0, 1.0]])
    camera, wide = Camera(np.eye(4), K, 16, 16), 0.5
    sizes = np.array([[0.002] * 3] * 3 + [[wide] * 3])
    means = np.array([[0, 0, z] for z in (2.0, 2.1, 2.2, 3.0)])
    quats, opacities = np.eye(4)[[0] * 4], np.array([0.999, 0.999, 0.999, 0.5])
    gaussians = Gaussians(means, quats, sizes, opacities, np.ones((4, 1, 3)))
    weight = np.zeros((16, 16, 3), np.float32)
    weight[8, 8] = 1
    with Renderer(device, **FROM_LISTS, blending=blending) as renderer:
        _, T = renderer.forward(gaussians, camera)
        found = renderer.backward(weight)
        assert T[8, 8] < 1e-4 < T[8, 9] and T[9, 8] > 1e-4
        assert np.abs(found["sh"][0]).max() > 0
        assert not found["sh"][3].any() and not found["opacities"][3].any()


class Unordered:
    """Capabilities without any order of fragments."""

    def __init__(self, real):
        self.real = real

    def __contains__(self, name):
        return name not in ("interlock", "raster_order") and name in self.real

    def missing(self, needs):
        return [n for n in needs if n not in self]


def trained(device, config, steps):
    """(mean squared error of the last steps, rows) of a training."""
    batches = []
    session = open_session(device, config, batches)
    session.run(steps)
    session.drain()
    names = dict(session.raster.rows.names)
    squared = np.concatenate([batch.records["mse"] for batch in batches])
    return squared[-16:].mean(), names


def test_a_device_that_orders_nothing_trains(device, scene, monkeypatch):
    """The error comes down as far by exact gradients from lists as with fragments that wait."""
    run = dict(rasterizer="hardware", sh_degree=1, strategy="mcmc", init_opa=0.5)
    config = settings(scene, **run)
    by_order, _ = trained(device, config, 100)
    monkeypatch.setattr(device, "capabilities", Unordered(device.capabilities))
    by_lists, names = trained(device, config, 100)
    assert names["ordering"] == "lists"
    first, _ = trained(device, config, 1)
    assert abs(by_lists - by_order) < 0.02 * (first - by_order), (first, by_order, by_lists)


def test_a_window_counts_the_fragments_of_its_own_picture(device):
    """Those of a training, whose steps come behind it, are others."""
    gaussians, camera = splats_of(random_scene(5, 300, *SIZE, 1, overlap=12))
    look = Appearance(HardwareOptions(format="float32", blending="lists"), sh_degree=1)
    parameters, screen = Parameters(device, len(gaussians), 1), Screen(device, look)
    parts = Owned([parameters, screen])
    parameters.upload(gaussians)

    def picture() -> np.ndarray:
        screen.place(camera, 1)
        screen.commands.run_once()
        parameters.set_count(len(gaussians))  # as if a step had found no pairs
        return screen.pixels(*SIZE)

    try:
        screen.fit(parameters, SIZE, "image")
        wanted = picture()
        assert screen.complete()
        screen._raster._resize_lists(64, 0)
        screen._record(screen._raster)
        assert np.abs(picture() - wanted.astype(int)).max() > 50
        assert not screen.complete()
        np.testing.assert_array_equal(picture(), wanted)
        assert screen.complete()
    finally:
        parts.destroy()


def test_windows_draw_medians_front_to_back(device):
    """Also where the image of a run comes of the blending unit."""
    gaussians, camera = splats_of(random_scene(5, 300, *SIZE, 1, overlap=40))
    parts, found = Owned(), []
    parameters = parts.add(Parameters(device, len(gaussians), 1))
    parameters.upload(gaussians)
    try:
        for blending in ("lists", "fixed", "auto"):
            options = HardwareOptions(format="float32", blending=blending)
            screen = parts.add(Screen(device, Appearance(options, sh_degree=1)))
            screen.fit(parameters, SIZE, "median")
            screen.place(camera, 1)
            screen.commands.run_once()
            found.append(screen._values.array(np.float32).copy())
        assert np.unique(found[0]).size > 50
        for values in found[1:]:
            np.testing.assert_array_equal(values, found[0])
    finally:
        parts.destroy()
