"""Passes declare what they read and write: no order or scratch of before changes a bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardsplat.gpu.memory.image import Image
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS
from tests.helpers.training import open_session, settings

ROOT = Path(__file__).parents[3]


def run(*words: object) -> str:
    """Runs tests/helpers/schedules.py with one thread of lavapipe, set before it starts."""
    own = {"LP_NUM_THREADS": "1", "HARDSPLAT_VALIDATION": "0", "HARDSPLAT_AUTO": "first"}
    own["PYTHONPATH"] = f"{ROOT / 'app'}:{ROOT}"
    command = [sys.executable, "-m", "tests.helpers.schedules", *map(str, words)]
    how = dict(cwd=ROOT, env=os.environ | own, capture_output=True, text=True)
    done = subprocess.run(command, **how)
    assert "differ: " in done.stdout, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(autouse=True)
def on_a_cpu(device):
    if device.physical.kind != "CPU":
        pytest.skip(f"{device.name} adds atomics in an order of its own")


def test_no_result_depends_on_what_declarations_leave_open(mixed):
    assert run(mixed) == "differ: none"


ADAM = "+".join((*quantities.gradients(), "d_colors", "directions", *quantities.values()))
UNDECLARED = [
    f"noise:{'+'.join(GEOMETRY)}@mcmc",
    f"adam:{ADAM}@tiled",
    "densify grow:flags+flag_sums+grow_stats@tiled",
    "loss reduce:loss_sums@tiled",
]


def test_a_declaration_that_is_missing_shows(scene):
    """The pass has no other resource in common with the one before it."""
    assert run(scene, *UNDECLARED) == "differ: mcmc; tiled; tiled; tiled"


def test_scratch_is_filled_before_a_step(device, scene, monkeypatch):
    """What a step has no use for holds the number afterwards; what is kept does not."""
    monkeypatch.setenv("HARDSPLAT_POISON", "step 7")
    session = open_session(device, settings(scene, strategy="budget", score_every=9))
    unused = session._owned.add(Image(device, 9, 5, FORMATS["float32"].vk, np.float32, "layers"))
    session.drawing.shared = {**session.drawing.shared, "layers": unused}
    session.drawing.record()
    session.run(1)
    session.drain()
    assert (unused.download() == 7).all()
    assert (session.resources["admitted"].download(np.float32) == 7).all()
    assert not session.resources["ticket_counts"].download(np.float32).any()
