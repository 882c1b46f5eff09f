"""Runs write no reports, unless a test asks for the fixture `reports`."""

import pytest


@pytest.fixture
def reports():
    """Runs of the test write their reports."""


@pytest.fixture(autouse=True)
def few_reports(request):
    if "reports" not in request.fixturenames:
        request.getfixturevalue("without_reports")
