"""Memory for copies of a run's state: the last copy stays whole, what a file is written of too, and
memory is used again."""

from concurrent.futures import Future

import numpy as np
import pytest

from hardsplat.base.background import Background
from hardsplat.train.run.files import HostCopies


@pytest.fixture
def background():
    made = Background(room=1 << 20)
    yield made
    made.close()


def made(copies, value, n=100):
    out = copies.begin()("means", (1, n, 3))
    out[:] = value
    copies.made()
    return out


def test_the_last_copy_stays_whole_and_memory_is_used_again(background):
    copies = HostCopies(background)
    first, second = made(copies, 1), made(copies, 2)
    assert (first == 1).all()
    third = made(copies, 3, n=90)
    assert np.shares_memory(first, third) and (second == 2).all()
    copies.begin()("means", (1, 100, 3))[:] = 9  # and fails
    copies.begin()("means", (1, 100, 3))[:] = 9
    assert (third == 3).all()


def test_what_a_file_is_written_of_stays_too(background):
    copies, file = HostCopies(background), Future()
    first = made(copies, 1)
    copies.written_by(file)
    made(copies, 2)
    third = made(copies, 3)
    assert (first == 1).all() and not np.shares_memory(first, third)
    file.set_result(None)
