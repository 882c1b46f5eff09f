"""Runs write no reports, unless a test asks for the fixture `reports`, and hardly refine the poses
of held-out photographs: both take longer than the runs."""

import pytest


@pytest.fixture
def reports():
    """Runs of the test write their reports."""


@pytest.fixture(autouse=True)
def quick_ends(request, monkeypatch):
    monkeypatch.setattr("hardsplat.train.measure.refining.STEPS_A_VIEW", 4)
    if "reports" not in request.fixturenames:
        request.getfixturevalue("without_reports")
