"""Barriers between passes, from what they declare."""

import pytest

from hardsplat.gpu.commands import recorder
from hardsplat.gpu.commands.recorder import Barriers


@pytest.fixture
def recorded(monkeypatch):
    """The barriers that were recorded, in order: "compute" or "all"."""
    kinds = []
    monkeypatch.setattr(recorder, "compute_barrier", lambda *_: kinds.append("compute"))
    monkeypatch.setattr(recorder, "barrier", lambda *_: kinds.append("all"))
    return kinds


@pytest.mark.parametrize("reads, writes", [({"a"}, set()), (set(), {"a"}), (set(), {"b"})])
def test_draws_wait_for_what_compute_passes_have_seen_alone(recorded, reads, writes):
    """A barrier of compute passes neither shows a draw their writes nor ends reads."""
    order = Barriers(None).order
    order({"b"}, {"a", "c"}, computes=True)
    order({"c"}, {"d"}, computes=True)
    assert recorded == ["compute"]
    order({"a"}, {"e"}, computes=True)  # which has seen it
    assert recorded == ["compute"]
    order(reads, writes)
    assert recorded == ["compute", "all"]


def test_what_no_pass_touches_again_needs_no_barrier(recorded):
    order = Barriers(None).order
    order({"b"}, {"a"}, computes=True)
    order({"a"}, {"d"}, computes=True)
    order({"b", "e"}, set())  # a draw that reads what passes read
    assert recorded == ["compute"]
