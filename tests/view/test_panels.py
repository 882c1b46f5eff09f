"""Buttons of the window, pressed with the mouse of a display without a screen."""

import glfw
import numpy as np
import pytest

from hardsplat.edit.editor import Editor
from hardsplat.view.gui import widgets
from hardsplat.view.panels.training import duration, thinned
from hardsplat.view.splats.editing import EditInputs
from tests.helpers.xvfb import NEEDS_DISPLAY
from tests.view.test_view import Seen, device  # noqa: F401

pytestmark = NEEDS_DISPLAY
SIZE = 720, 560


@pytest.fixture
def window(device, display, tmp_path, request):  # noqa: F811
    """A window with panels on 40 splats, and tools that edit them."""
    widgets.PLACES.clear()
    seen = Seen(device, display, tmp_path, size=SIZE)
    editor = Editor(seen.gaussians, tmp_path)
    old = seen.inputs
    inputs = EditInputs(old.controls, old.points, sh_degree=1, parts=("edit",), editor=editor)
    seen.inputs = inputs
    seen.viewer.show(inputs, seen.viewer.look, "panels")
    seen.editor = editor
    display.do("mousemove", 5, 550)
    seen.frames(2)
    yield seen
    seen.close()


def press(seen, name: str, done, button: str = "1") -> None:
    """Presses a button until `done`, which it is not yet."""
    seen.until(lambda: name in widgets.PLACES, f"the button {name}")
    assert not done()
    seen.display.do("mousemove", *map(round, widgets.PLACES[name]), "mousedown", button)
    seen.frames(1)
    seen.display.do("mouseup", button)
    seen.until(done, f"the button {name}")


def test_a_button_is_lit_while_the_mouse_is_there(window):
    x, y = map(round, widgets.PLACES["depth"])
    look = lambda: window.display.pixels()[y, x + 40].tolist()
    unlit = look()
    window.display.do("mousemove", x, y)
    window.until(lambda: look() != unlit, "a light")
    window.display.do("mousemove", 790, 590)
    window.until(lambda: look() == unlit, "its end")


def test_panels_change_what_is_shown(window):
    i, viewer = window.inputs, window.viewer
    width = SIZE[0] - viewer.interface.side
    assert 300 < width < 500
    plain = window.headless(i.controls.camera(width, SIZE[1]))

    def left() -> np.ndarray:
        """The middle of what shows splats, where nothing lies over them."""
        return window.display.pixels()[100:400, :width] / 255

    def close() -> bool:
        i.changed = True
        return np.mean((left() - plain[100:400]) ** 2) < 10**-4.5

    window.until(close, "the image")
    press(window, "outlines", lambda: i.picture == "outlines")
    window.until(lambda: np.mean((left() - plain[100:400]) ** 2) > 1e-3, "outlines")
    press(window, "image", lambda: i.picture == "image")
    window.until(close, "the image")
    press(window, "Cameras", lambda: viewer.interface.ui.panel == "Cameras")
    press(window, "camera 2", lambda: i.point == 2)
    plain = window.headless(i.controls.camera(width, SIZE[1]))
    window.until(close, "the other camera")
    press(window, "Picture", lambda: viewer.interface.ui.panel == "Picture")
    press(window, "First view", lambda: i.point == 0)
    press(window, "Level", lambda: i.point is None)
    press(window, "Target", lambda: viewer.interface.ui.panel == "Target")
    press(window, "unorm8", lambda: viewer.facts.rows["format"] == "unorm8")
    press(window, "float32", lambda: viewer.facts.rows["format"] == "float32")


def test_tools_edit(window):
    i, editor = window.inputs, window.editor
    press(window, "Edit", lambda: window.viewer.interface.ui.panel == "Edit")
    press(window, "rectangle", lambda: i.tool == "rectangle")
    before = i.controls.position.copy()
    window.display.do("mousemove", 30, 100, "mousedown", 1)
    window.until(lambda: i.corner is not None, "a corner")
    window.display.do("mousemove", 350, 300)
    window.frames(2)
    window.display.do("mouseup", 1)
    window.until(lambda: editor.selecting, "a selection")
    assert np.array_equal(before, i.controls.position)  # the tool has the mouse, not the camera
    press(window, "Delete", lambda: editor.count < 40)
    press(window, "Undo", lambda: editor.count == 40)
    assert [step.do for step in editor.steps] == []


def test_keys_reach_the_window_but_not_while_a_path_is_typed(window, display):
    glfw.focus_window(window.handle)
    display.do("key", "h")
    window.until(lambda: window.inputs.help, "help")
    display.do("key", "Escape")
    window.until(lambda: not window.inputs.help, "no help")
    window.inputs.browsing = True
    window.frames(3)
    display.do("type", "g")
    window.frames(3)
    assert window.inputs.tuning.degree is None
    display.do("key", "Escape")
    window.until(lambda: not window.inputs.browsing, "no dialog")
    window.frames(2)
    display.do("key", "g")
    window.until(lambda: window.inputs.tuning.degree == 0, "a degree")


def test_a_narrow_window_has_buttons_too(window):
    """Its panels lie over the splats, under the toolbar, and go as they came."""
    i, interface = window.inputs, window.viewer.interface
    glfw.set_window_size(window.handle, 390, 470)
    window.until(lambda: window.viewer.window.size[0] == 390, "a narrow window")
    widgets.PLACES.clear()
    press(window, "Panels", lambda: interface.ui.side > 0)
    assert interface.side == 0  # the splats keep the window
    press(window, "depth", lambda: i.picture == "depth")
    press(window, "Panels", lambda: interface.ui.side == 0)
    press(window, " ? ", lambda: i.help)
    assert all(x < 390 for x, _ in widgets.PLACES.values())


def test_figures_for_people():
    assert [duration(s) for s in (None, 5, 3725)] == ["-", "0 min 05 s", "1 h 02 min"]
    points = np.column_stack([np.arange(1000.0), np.full(1000, 3.0)])
    few = thinned(points, 10)
    assert few.shape == (10, 2) and (few[:, 1] == 3).all() and few[0, 0] == 49.5
