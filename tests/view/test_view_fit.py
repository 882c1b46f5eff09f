"""The window of a fit, for real: on a display without a screen (Xvfb), read back."""

import time
from threading import Timer

import glfw
import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory
from hardsplat.fit.blobs import Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.view.fit_preview import FitPreview
from hardsplat.view.gui import widgets
from tests.helpers.xvfb import NEEDS_DISPLAY

pytestmark = NEEDS_DISPLAY
CURVE = {"step": [5], "psnr": [12.5]}
SECONDS = 20.0  # a busy machine may take


@pytest.fixture
def session(gpu):
    """Of 24x18 pixels, after a few steps over white."""
    photo = np.random.default_rng(0).integers(0, 255, (18, 24, 3), dtype=np.uint8)
    found = FitSession(gpu, FitConfig(max_steps=5, background="white"), photo, 30)
    found.set(Blobs.scattered(30, photo / 255, 0))
    found.run(5)
    found.runner.drain()
    yield found
    found.destroy()
    gpu.check_validation()


def until(done, turn) -> bool:
    """Whether done() came true, with turns in between."""
    end = time.perf_counter() + SECONDS
    while not done() and time.perf_counter() < end:
        turn()
    return done()


@pytest.mark.parametrize("size", [(24, 18), (72, 54), (72, 80), (12, 9)])
def test_the_window_shows_the_image(session, gpu, display, size):
    """Pixel by pixel, three times as large, in another shape, and half as large."""
    image = 255 * np.clip(session.image(), 0, 1)
    expected = {24: image, 12: image.reshape(9, 2, 12, 2, 3).mean((1, 3))}
    expected = expected.get(size[0], image.repeat(3, 0).repeat(3, 1))
    if size[1] == 80:
        expected = np.pad(expected, ((13, 13), (0, 0), (0, 0)), constant_values=0.12 * 255)
    preview = FitPreview(size)
    preview.open(gpu, session, "a.png")
    assert preview.shown
    glfw.set_window_pos(preview.viewer.window.handle, 0, 0)

    def close() -> bool:
        """To a step of 8 bits."""
        found = display.pixels()[: size[1], : size[0]].astype(float)
        return np.abs(found - expected).max() <= 1.01

    assert until(close, lambda: preview.turn(session, CURVE))
    preview.close()
    preview.close()


def test_the_panel_pauses_steps_and_stops(session, gpu, display):
    widgets.PLACES.clear()
    preview = FitPreview((800, 500))
    preview.open(gpu, session, "a.png")
    glfw.set_window_pos(preview.viewer.window.handle, 0, 0)
    turn = lambda: preview.turn(session, CURVE)
    assert until(lambda: "Pause" in widgets.PLACES and preview.viewer.pictures, turn)
    assert preview.batch_seconds > 0 and "Save now" not in widgets.PLACES
    display.do("mousemove", *map(round, widgets.PLACES["Pause"]), "click", 1)
    timer = Timer(2.0, lambda: setattr(preview.viewer.inputs, "steps", 1))
    timer.start()
    assert until(lambda: preview.viewer.inputs.paused, turn)
    timer.join()
    assert preview.batch_seconds == 0 and not preview.stopped
    Timer(0.2, lambda: preview.viewer.asked.add("stop")).start()
    turn()  # which waits
    assert preview.stopped and preview.shown
    preview.close()


def test_closing_the_window_and_failing_let_the_fit_go_on(session, gpu, monkeypatch, capsys):
    preview = FitPreview((24, 18))
    preview.open(gpu, session, "a.png")
    glfw.set_window_should_close(preview.viewer.window.handle, True)
    preview.turn(session, CURVE)
    assert not preview.shown
    preview.turn(session, CURVE)

    def full(*_):
        raise OutOfMemory("full")

    preview.open(gpu, session, "a.png")
    monkeypatch.setattr("hardsplat.view.fit_preview.build", full)
    assert until(lambda: not preview.shown, lambda: preview.turn(session, CURVE))
    assert "the window is closed: full" in capsys.readouterr().out
