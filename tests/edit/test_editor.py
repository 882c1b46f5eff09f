"""Edits in the making: what is marked and selected, undone and saved, by hand and by keys."""

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.edit.editor import HIGHLIGHT, Editor, first_hit
from hardsplat.edit.shapes import Sphere
from hardsplat.edit.steps import load_edit
from hardsplat.io.camera_path import read_camera_path
from hardsplat.io.splats import is_antialiased, load_splats
from hardsplat.model.camera import Camera
from hardsplat.model.framing import look_at
from hardsplat.model.gaussians import Gaussians
from hardsplat.tables.keys import actions
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.editing import EditInputs
from hardsplat.view.splats.inputs import LEFT
from tests.edit.test_edit import splats
from tests.helpers.splat_files import rotations
from tests.helpers.tables import refuses

SEED = 11
K = np.array([[60.0, 0, 32], [0, 60, 24], [0, 0, 1]])


def camera(position=(0.5, -1, -4)) -> Camera:
    return Camera(look_at(np.array(position), np.zeros(3), np.array([0, -1.0, 0])), K, 64, 48)


def test_rays_stop_where_half_of_the_light_is_taken():
    """Against marching: the densities of all splats at places along the ray, in their order."""
    g, rng, found = splats(60), np.random.default_rng(SEED), 0
    R = rotations(g.quats)
    t = np.linspace(0, 12, 12_001)
    for _ in range(20):
        origin = rng.normal(size=3) * 4
        ray = g.means[rng.integers(60)] - origin
        ray = ray / np.linalg.norm(ray)
        local = np.einsum("nji,ntj->nti", R, (origin + t[:, None] * ray) - g.means[:, None])
        power = ((local / g.scales[:, None]) ** 2).sum(2)
        at, away = t[power.argmin(1)], power.min(1)
        alpha = np.where((at > 0) & (away < 9), g.opacities * np.exp(-away / 2), 0)
        order = np.argsort(at)
        left = np.cumprod(1 - alpha[order])
        wanted = at[order[np.argmax(left < 0.5)]] if left[-1] < 0.5 else at[alpha.argmax()]
        hit = first_hit(g, origin, ray)
        assert hit is not None and abs((hit - origin) @ ray - wanted) < 2e-3
        found += left[-1] < 0.5
    assert found > 3
    assert first_hit(g, np.array([0, 0, -50.0]), np.array([0, 0, -1.0])) is None


def test_many_faint_splats_are_marked_where_half_of_the_light_is_gone():
    means = np.zeros((300, 3))
    means[:, 2] = np.linspace(1, 4, 300)
    quats, scales = np.tile([1.0, 0, 0, 0], (300, 1)), np.full((300, 3), 0.1)
    g = Gaussians(means, quats, scales, np.full(300, 0.008), np.zeros((300, 1, 3)))
    place = means[np.argmax(0.992 ** np.arange(1, 301) < 0.5)]
    assert np.allclose(first_hit(g, np.zeros(3), np.array([0, 0, 1.0])), place)


@pytest.fixture
def editor(tmp_path):
    return Editor(splats(), tmp_path)


def test_select_cut_undo_save(editor, tmp_path):
    g = splats()
    refuses("mark A, B first", editor.box)
    refuses("select something first", editor.delete)
    refuses("nothing to save", editor.save)
    editor.marks = [np.zeros(3), np.array([0, 0.8, 0.6])]
    inside = np.linalg.norm(g.means, axis=1) <= 1
    assert editor.length == pytest.approx(1) and inside.sum() > 50
    assert editor.sphere() == f"{inside.sum()} splats selected"
    shown = editor.shown
    assert (shown.sh[inside, 0] == np.float32(HIGHLIGHT)).all() and not shown.sh[inside, 1:].any()
    np.testing.assert_array_equal(shown.sh[~inside], g.sh[~inside])
    assert editor.delete() == f"{editor.count} splats are left" and editor.count == (~inside).sum()
    editor.measure(3)
    assert editor.length == pytest.approx(3)  # marks stay where they were on the splats
    np.testing.assert_allclose(editor.shown.means, 3 * g.means[~inside], rtol=1e-5)
    moved = editor.moved.camera(camera())
    np.testing.assert_allclose(moved.position, 3 * camera().position, atol=1e-9)
    with pytest.raises(UserError, match="nothing would be left"):
        editor.select(Sphere((0.0, 0.0, 0.0), 1e4))
        editor.delete()
    editor.undo()  # what is selected
    editor.undo()  # the scale
    np.testing.assert_allclose(editor.shown.means, g.means[~inside])
    np.testing.assert_allclose(editor.moved.camera(moved).position, camera().position, atol=1e-9)
    np.testing.assert_allclose(editor.marks, [[0, 0, 0], [0, 0.8, 0.6]], atol=1e-9)
    assert editor.key(camera()) == "keyframe 1"
    assert editor.key(camera((3, -1, 0))) == "keyframe 2"
    editor._antialiased = True
    splats_file, steps, path = editor.save()
    assert is_antialiased(splats_file)
    np.testing.assert_array_equal(load_splats(splats_file).means, g.means[~inside])
    np.testing.assert_array_equal(load_edit(steps).inside(g.means), ~inside)
    keys = read_camera_path(path)
    np.testing.assert_allclose(np.linalg.inv(keys.c2w[0]), camera().w2c, atol=1e-12)
    assert {p.name for p in editor.save()} & {"edited_2.ply", "camera_path_2.json"}
    editor.undo()
    refuses("nothing is left to undo", editor.undo)


def test_marks_and_pictures_agree_with_the_camera(editor):
    ball = Gaussians([[0.2, 0.1, 0]], [[1, 0, 0, 0]], [[0.05] * 3], [0.95], np.zeros((1, 1, 3)))
    one, seen = Editor(ball, editor._folder), camera()
    x, y, z = seen.w2c[:3, :3] @ [0.2, 0.1, 0] + seen.w2c[:3, 3]
    at = 60 * x / z + 32, 60 * y / z + 24
    one.mark(seen, *at)
    np.testing.assert_allclose(one.marks, [[0.2, 0.1, 0]], atol=1e-6)
    refuses("nothing is there", one.mark, seen, 1, 1)
    assert one.paint(seen, at[0] + 2, at[1], 1.5) == "0 splats selected"
    assert one.paint(seen, at[0] + 1, at[1], 1.5) == "1 splats selected"
    framed = one.frame(seen, at[0] + 3, at[1] - 1, at[0] - 1, at[1] + 1)
    assert framed == "1 splats selected"


def test_the_floor_is_below(editor):
    """A plane of splats, tilted, with others on one side of it."""
    rng = np.random.default_rng(SEED)
    flat, above = rng.uniform(-1, 1, (200, 3)) * [1, 0, 1], rng.uniform(0.1, 1, (50, 3))
    points = np.concatenate([flat, above * [1, -1, 1]])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn[0] *= np.linalg.det(turn)
    g = Gaussians.from_points(points @ turn.T + 3, np.zeros((250, 3), np.uint8), 0)
    tilted = Editor(g, editor._folder)
    tilted.marks = list(np.array([[0, 0, 0], [1, 0, 0], [0.2, 0, 0.7]]) @ turn.T + 3)
    tilted.floor()
    height = -tilted.shown.means[:, 1]
    np.testing.assert_allclose(height, np.concatenate([np.zeros(200), above[:, 1]]), atol=2e-6)


def test_keys_and_tools_edit(editor):
    i = EditInputs(Controls(camera(), [0, -1, 0], [0, 0, 0]), parts=("edit",), editor=editor)
    i.cursor, i.window = (32, 24), (64, 48)
    refused = ("KeyX", "select something first"), ("KeyM", "A: "), ("KeyB", "mark A, B first")
    for key, said in refused:
        i.on_key(key)
        assert i.noted().startswith(said), (key, i.noted())
    i.on_key("KeyT")
    i.on_key("BracketLeft")
    assert i.noted() == "brush of 17 px"
    i.widen(0.5)
    i.on_press(LEFT)
    i.on_drag(LEFT, 1, 1, False, 48)
    selected = int(i.noted().split()[0])
    assert 0 < selected < 500
    i.on_key("KeyX")
    assert i.noted() == f"{500 - selected} splats are left"
    i.on_key("KeyZ")
    assert editor.count == 500 and i.noted() == "undone"
    i.on_key("KeyR")
    i.cursor = (20, 15)
    i.on_press(LEFT)
    i.cursor = (44, 33)
    i.on_release(LEFT)
    framed = i.noted()
    assert framed == Editor(editor.shown, editor._folder).frame(i._camera, 20, 15, 44, 33)
    assert 0 < int(framed.split()[0]) < 500 and i.corner is None
    i.on_key("Escape")
    assert i.tool == "look"
    editor.marks = [np.zeros(3), np.array([0, 0, 0.5])]
    before = i.controls.position.copy()
    i.measure(1.0)
    np.testing.assert_allclose(i.controls.position, 2 * before)
    i.on_key("KeyJ")
    i.on_key("Enter")
    assert "edited.ply" in i.noted() and "camera_path.json" in i.noted()
    assert actions("edit").keys() - actions() < set(i.keys)
