"""What mouse and keys do to the camera and to what is shown, without a window."""

import numpy as np
import pytest

from hardsplat.edit.editor import Editor
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.tables.keys import actions
from hardsplat.view.splats.controls import STEEPEST, Controls, fitted, placed
from hardsplat.view.splats.editing import EditInputs
from hardsplat.view.splats.inputs import LEFT, PHOTOS, Inputs, Viewpoint
from tests.helpers.drawing import fresh_seed


def some_camera(rng, width=64, height=48) -> Camera:
    Q, R = np.linalg.qr(rng.normal(size=(3, 3)))
    Q = Q * np.sign(np.diag(R))
    Q[:, 2] *= np.sign(np.linalg.det(Q))
    w2c, K = np.eye(4), np.eye(3)
    w2c[:3, :3], w2c[:3, 3] = Q, rng.normal(size=3)
    K[0, 0], K[0, 2], K[1, 1], K[1, 2] = rng.uniform((30, 20, 30, 15), (90, 40, 90, 30))
    return Camera(w2c, K, width, height)


def some_controls(rng) -> Controls:
    return Controls(some_camera(rng), rng.normal(size=3), 5 * rng.normal(size=3))


def project(camera: Camera, points: np.ndarray) -> np.ndarray:
    """(N, 2) px of (N, 3) points of the world."""
    p = points @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]
    return (p @ camera.K.T)[:, :2] / p[:, 2:]


@pytest.fixture
def rng():
    return np.random.default_rng(fresh_seed())


def test_a_camera_projects_what_is_in_front_of_it(rng):
    camera = some_camera(rng)
    points = camera.position + rng.normal(size=(400, 3))
    places, depths = camera.projected(points)
    which, pixels, ahead = camera.pixels(points)
    assert len(which) and (pixels == np.floor(places[which]).T).all()
    assert (depths[which] == ahead).all() and (depths <= 0).any()
    assert (np.isnan(places) == (depths <= 0)[:, None]).all()


@pytest.mark.parametrize("tool", ["look", "mark", "brush"])
def test_an_arrow_drags_its_mark_along_an_axis(rng, tmp_path, tool):
    camera = some_camera(rng, 640, 480)
    K = np.array([[500.0, 0, 320], [0, 500.0, 240], [0, 0, 1]])
    middle = camera.position + 5 * camera.w2c[2, :3]
    controls, many = Controls(Camera(camera.w2c, K, 640, 480), rng.normal(size=3), middle), 200
    means = controls.pivot + rng.normal(size=(many, 3))
    colors = rng.integers(0, 255, (many, 3)).astype(np.uint8)
    editor = Editor(Gaussians.from_points(means, colors, 0), tmp_path)
    i = EditInputs(controls, editor=editor)
    i.window, i.tool = (640, 480), tool
    editor.marks = [controls.pivot, controls.pivot + controls.rotation @ [0.1, 0.1, 0.1]]
    assert not i.arrows()  # before the panel is open
    i.scale = 1.0
    i.act("box")
    arrow = max(i.arrows(), key=lambda a: np.hypot(*np.subtract(a.tip, a.foot)))
    foot, way = np.array(arrow.foot), np.subtract(arrow.tip, arrow.foot)
    assert 20 < np.hypot(*way) < 120
    before, view = [mark.copy() for mark in editor.marks], controls.rotation.copy()
    i.cursor = tuple(foot + 0.9 * way)
    i.on_press(LEFT)
    i.on_drag(LEFT, *(0.25 * way), False, 480)
    version = editor.version
    i.on_release(LEFT)
    assert editor.version > version and i.held is None  # the box was selected again
    assert len(editor.marks) == 2 and (controls.rotation == view).all()
    moved = editor.marks[arrow.mark] - before[arrow.mark]
    assert np.abs(np.delete(moved, arrow.axis)).max() == 0 and moved[arrow.axis] > 0
    assert (editor.marks[1 - arrow.mark] == before[1 - arrow.mark]).all()
    now = project(controls.camera(640, 480), editor.marks[arrow.mark][None])[0]
    # the arrow is short beside the distance, so that perspective changes little
    assert np.linalg.norm(now - foot - 0.25 * way) < 0.1 * np.hypot(*way)


def ways(camera: Camera, points: np.ndarray) -> np.ndarray:
    """(N, 3) unit vectors from a camera to points, as it sees them."""
    p = points @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]
    return p / np.linalg.norm(p, axis=1, keepdims=True)


def test_cameras_move_with_the_splats(rng, tmp_path):
    points, means = some_inputs(rng).points, rng.normal(size=(50, 3))
    colors = rng.integers(0, 255, (50, 3)).astype(np.uint8)
    editor = Editor(Gaussians.from_points(means, colors, 0), tmp_path)
    i = EditInputs(some_controls(rng), points, editor=editor)
    up = i.controls.up
    i.keyframe()

    def seen() -> list[np.ndarray]:
        (key,) = editor._keys
        cameras = i._home, key, *(point.camera for point in i.points)
        return [ways(camera, editor.shown.means) for camera in cameras]

    before = seen()
    editor.marks = list(rng.normal(size=(3, 3)))
    i.act("floor")
    assert "floor" in i.note
    i.measure(7.0)
    assert i.note == "A to B is 7"
    assert not np.allclose(editor.shown.means, means) and not np.allclose(i.controls.up, up)
    assert np.allclose(seen(), before, atol=1e-3)
    i.act("undo")
    i.act("undo")
    assert np.allclose(i.points[2].camera.w2c, points[2].camera.w2c)
    assert np.allclose(i.controls.up, up)


def test_the_view_along_an_axis_keeps_what_is_in_the_middle(rng):
    i = Inputs(some_controls(rng))
    pivot = i.controls.pivot
    i.face(np.array([0.0, 0.0, -1.0]))
    assert np.allclose(i.controls.forward, [0, 0, -1]) and np.allclose(i.controls.pivot, pivot)


@pytest.mark.parametrize("size", [(64, 48), (640, 480), (100, 480), (333, 50), (1, 1)])
def test_a_fitted_camera_has_the_whole_image_undistorted_in_the_middle(rng, size):
    camera = some_camera(rng)
    seen = np.column_stack([rng.normal(size=(20, 2)), rng.uniform(1, 5, 20)])
    points = (seen - camera.w2c[:3, 3]) @ camera.w2c[:3, :3]
    scale = min(size[0] / 64, size[1] / 48)
    corner = (np.array(size) - scale * np.array([64, 48])) / 2
    wanted = scale * project(camera, points) + corner
    assert np.allclose(project(fitted(camera, *size), points), wanted, atol=1e-9)
    assert (corner >= 0).all() and np.isclose(corner.min(), 0)
    x, y, w, h = placed(camera, *size)
    assert x >= 0 and y >= 0 and x + w <= size[0] and y + h <= size[1]
    assert np.abs(np.array([x, y, w, h]) - [*corner, scale * 64, scale * 48]).max() <= 1


@pytest.mark.parametrize("way", [1, -1])
def test_nothing_turns_over_at_the_poles(rng, way):
    c = some_controls(rng)
    for _ in range(50):
        c.look(0.3, 0.2 * way)
        assert abs(c.forward @ c.up) <= np.sin(STEEPEST) + 1e-9
        assert abs(c.rotation[0] @ c.up) < 1e-9 and c.rotation[1] @ c.up < 0
    assert np.isclose(c.forward @ c.up, -way * np.sin(STEEPEST))
    c.aim(-way * c.up)  # there itself
    assert np.allclose(c.rotation @ c.rotation.T, np.eye(3))
    c.look(0.1, -0.5 * way)
    assert np.isfinite(c.rotation).all() and abs(c.rotation[0] @ c.up) < 1e-9


def some_inputs(rng, n=5, **settings) -> Inputs:
    points = [Viewpoint(f"v{i}", some_camera(rng), lambda: None) for i in range(n)]
    start = points[1].camera if n else some_camera(rng)
    return Inputs(Controls(start, [0, -1, 0], [0, 0, 5]), points, 1, **settings)


def test_arrows_jump_from_camera_to_camera_and_around(rng):
    i = some_inputs(rng)
    assert i.point == 1
    keys = "ArrowRight ArrowLeft ArrowLeft ArrowLeft ArrowUp ArrowDown Home".split()
    for key, expected in zip(keys, (2, 1, 0, 4, 4, 4, 1)):
        i.on_key(key)
        wanted = i.points[expected].camera.w2c
        assert i.point == expected and np.allclose(i.controls.camera(64, 48).w2c, wanted)
    i.on_drag(0, 5, 0, False, 100)
    assert i.point is None  # no photograph fits any more
    i.on_key("ArrowRight")
    assert i.point == 2


def state(i: Inputs) -> dict:
    clocks = ("touched_at", "moved_at", "_noted_at", "changed", "controls")
    kept = {name: value for name, value in vars(i).items() if name not in clocks}
    c = i.controls
    return kept | {"at": c.position.tobytes(), "towards": c.rotation.tobytes()}


@pytest.mark.parametrize("key", actions("opening", "training"))
def test_every_key_does_something_and_has_a_frame_drawn(rng, key):
    i = some_inputs(rng, can_pause=True, parts=("opening",))
    i.on_drag(1, 3, 3, False, 100)
    i.controls.jump(some_camera(rng))  # neither level nor one of the points
    i.photo, i.changed = PHOTOS[1], False
    i.picture = "alpha" if i.keys[key] != ("show", "alpha") else "image"
    i.help = key == "Escape"
    before = state(i)
    i.on_key(key)
    assert i.changed and state(i) != before
