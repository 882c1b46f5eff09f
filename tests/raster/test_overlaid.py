"""Scratch of a step that lies in one memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardsplat.contract.footprint import bytes_per_splat, most_splats
from hardsplat.gpu.commands import recorder
from hardsplat.gpu.commands.recorder import Barriers
from hardsplat.gpu.memory.resources import overlaps, placed
from hardsplat.raster.backends import training_needs
from hardsplat.raster.tiled import rasterizer
from tests.helpers.training import open_session, settings

LIFE = st.tuples(st.integers(0, 5), st.integers(0, 3)).map(lambda t: (t[0], t[0] + t[1]))
BUFFERS = st.lists(st.tuples(st.integers(1, 1_000_000), LIFE), min_size=1, max_size=8)


@given(BUFFERS)
def test_what_lives_in_one_part_does_not_overlap(buffers):
    sizes = {str(i): size for i, (size, _) in enumerate(buffers)}
    lives = {str(i): life for i, (_, life) in enumerate(buffers)}
    places, most = placed(sizes, lives)
    spans = {name: range(at, at + sizes[name]) for name, at in places.items()}
    assert spans.keys() == sizes.keys() and max(span.stop for span in spans.values()) <= most
    for a in sizes:
        for b in sizes.keys() - {a}:
            if lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]:
                assert spans[a].stop <= spans[b].start or spans[b].stop <= spans[a].start
    alone = [size for size, life in buffers if life == (0, 5)]
    assert most >= sum(alone)


@pytest.fixture(params=[True, False], ids=["in order", "local"])
def in_order(request, monkeypatch):
    monkeypatch.setattr(rasterizer, "is_local", lambda row, lanes: not request.param)


OWN = dict(rasterizer="tiled", strategy="budget", sh_degree=3, max_steps=40)


@pytest.mark.parametrize("strategy", ["budget", "adaptive", "mcmc"])
def test_no_pass_reads_what_is_overwritten(device, scene, monkeypatch, in_order, strategy):
    """Along every recording of a session: steps, with scores too, and what is between them.
    Whatever two buffers may overlap by their lives does, wherever it is placed."""
    found, order = [], Barriers.order
    lost: dict[Barriers, dict[str, str]] = {}
    lives = rasterizer.LIVES if in_order else {**rasterizer.LIVES, **rasterizer._LOCAL}

    def possible(resources):
        spans = {name: lives[name] for name in lives.keys() & resources.keys()}
        return {
            a: {b for b, span in spans.items() if span[1] < begin or end < span[0]}
            for a, (begin, end) in spans.items()
        }

    def ordered(self, reads, writes, *more, **how):
        gone = lost.setdefault(self, {})
        found.extend((name, gone[name]) for name in reads if name in gone)
        for name in writes:
            gone.pop(name, None)
            over = self._overlaps.get(name, set())
            found.extend((name, other) for other in over & (reads | writes))
            gone.update(dict.fromkeys(over, name))
        order(self, reads, writes, *more, **how)

    monkeypatch.setattr(recorder, "overlaps", possible)
    monkeypatch.setattr(Barriers, "order", ordered)
    session = open_session(device, settings(scene, **{**OWN, "strategy": strategy}))
    for name in session.drawing._actions:
        session.drawing.action(name)
    resources = session.drawing.raster.resources
    assert "checkpoints" in overlaps(resources) and len(lost) > 3 and found == []
    many = {name: 10_000 * resources[name].nbytes for name in overlaps(resources)}
    assert placed(many, rasterizer.LIVES)[1] < 0.7 * sum(many.values())


def test_as_much_memory_is_taken_as_is_said(device, scene, monkeypatch):
    """With room for more splats, pairs as reckoned and half the checkpoints, as trainings begin."""
    monkeypatch.setattr(rasterizer, "FEWEST_PAIRS", 1)
    monkeypatch.setattr(rasterizer, "is_local", lambda row, lanes: False)
    each = training_needs("tiled", 3, "float32", 0, ("score_stats",))
    each["checkpoints"] = replace(each["checkpoints"], total=each["checkpoints"].total / 2)
    session = open_session(device, settings(scene, **OWN))
    taken = []
    for room in (20_000, 60_000):
        session._rebuild(room)
        taken.append(device.usage.on_device)
    said = 40_000 * bytes_per_splat(each)
    assert taken[1] - taken[0] == pytest.approx(said, rel=0.01)
    apart = sum(need.total for need in each.values())
    assert most_splats(each, 2**30, 2**40, 2**40) > most_splats(each, 2**30, 2**25, 2**40)
    assert most_splats(each, 2**30, 60_000_000, 2**40) == int(0.9 * 2**30 / apart)


def test_a_training_is_the_same_without(device, scene, monkeypatch, in_order):
    left = []
    for lives in (rasterizer.LIVES, {}):
        monkeypatch.setattr(rasterizer, "LIVES", lives)
        session = open_session(device, settings(scene, **OWN, deterministic=True))
        for _ in range(4):
            session.run(5)
            session.drain()
            session.drawing.raster.reserve_pairs(1 << 21)  # which replaces the memory
            session.refine()
        state = session.store.snapshot(session.step)
        left.append({name: values.tobytes() for name, values in state.buffers.items()})
        session.destroy()
    assert left[0] == left[1]
