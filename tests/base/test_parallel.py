"""Tests of app/hardsplat/base/parallel.py."""

import os

import pytest

from hardsplat.base.parallel import cores_here


@pytest.mark.parametrize(
    ("limit", "cores"), [("max 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("", 2)]
)
def test_a_container_limits_processors(tmp_path, monkeypatch, limit, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    (tmp_path / "cpu.max").write_text(limit)
    assert cores_here(tmp_path / "cpu.max") == cores
