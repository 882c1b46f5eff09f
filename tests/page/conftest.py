"""A browser for the tests of a module."""

import pytest

from tests.helpers import needs
from tests.helpers.devtools import SIZE, Browser, chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not chromium():
        pytest.skip(needs.lacking("no Chromium"))
    with Browser(tmp_path_factory.mktemp("browser"), SIZE) as opened:
        yield opened
