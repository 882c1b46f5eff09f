"""No reports without the fixture `reports`, and poses hardly refined: both take long."""

import pytest


@pytest.fixture
def reports():
    """Runs of the test write their reports."""


@pytest.fixture(autouse=True)
def quick_ends(request, monkeypatch):
    monkeypatch.setattr("hardsplat.train.measure.refining.STEPS_A_VIEW", 4)
    if "reports" not in request.fixturenames:
        request.getfixturevalue("without_reports")
