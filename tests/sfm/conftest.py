"""What finds poses, which may not be installed."""

import pytest

from tests.helpers import needs


@pytest.fixture(scope="session")
def pycolmap():
    """Skips where it is not there. Loaded when a test begins, behind Pillow's libraries."""
    return needs.module("pycolmap")


@pytest.fixture
def align(pycolmap):
    from hardsplat.sfm.colmap.aligning import align

    return align
