"""Edits of splats: steps against the same in numpy, their files, `hardsplat edit`."""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from hardsplat.cli import main
from hardsplat.edit.shapes import Brush, Pinhole, Rectangle, Sphere, TurnedBox
from hardsplat.edit.steps import Edit, EditStep, load_edit, save_edit, scale, turn
from hardsplat.export.clean import clean
from hardsplat.export.convert import convert
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.results.edited import scene_of
from hardsplat.results.model import find_model
from hardsplat.train.measure.command import evaluate_run
from tests.helpers.splat_files import points_of, result_of
from tests.helpers.spoiling import survives_values
from tests.helpers.tables import refusal, refuses, rows

SEED = 5
QUAT = tuple(np.array([0.9, 0.1, -0.3, 0.2]) / np.sqrt(0.95))
W2C = np.array([[0, 0, 1, 0.1], [1, 0, 0, -0.2], [0, 1, 0, 3]])
VIEW = Pinhole(tuple(W2C.ravel()), (50, 60, 32, 24))


def splats(n=500):
    rng = np.random.default_rng(SEED)
    quats, sh = rng.normal(size=(n, 4)), rng.normal(size=(n, 16, 3))
    means, scales = rng.normal(size=(n, 3)), rng.uniform(0.01, 0.2, (n, 3))
    return Gaussians(means, quats, scales, rng.uniform(0.1, 0.9, n), sh)


STEPS = [
    EditStep("keep", TurnedBox((-1.5, -2, -2), (2, 1.5, 2), QUAT)),
    turn(QUAT),
    EditStep("delete", Sphere((0.2, 0, 0), 0.7)),
    scale(2.5),
    EditStep("move", None, (1, 2, 3)),
    EditStep("delete", Brush(VIEW, ((30, 20, 6), (40.5, 30, 4)))),
    EditStep("delete", Rectangle(VIEW, (35, 70, 200, 40))),
]


def round9(number: str) -> float:
    return round(float(number), 9)


def rounded(steps) -> list:
    words = json.dumps([step.words() for step in steps])
    return json.loads(words, parse_float=round9, parse_int=round9)


def in_numpy(g: Gaussians) -> tuple[np.ndarray, np.ndarray]:
    """Which splats STEPS leave, and where all are after them, float64."""
    turned = Rotation.from_quat(np.roll(QUAT, -1))
    middle = np.array([0.25, -0.25, 0])
    local = turned.inv().apply(g.means - middle) + middle
    keep = ((local >= [-1.5, -2, -2]) & (local <= [2, 1.5, 2])).all(1)
    means = turned.apply(g.means)
    keep &= np.linalg.norm(means - [0.2, 0, 0], axis=1) > 0.7
    means = 2.5 * means + [1, 2, 3]
    x, y, z = (means @ W2C[:, :3].T + W2C[:, 3]).T
    u, v = 50 * x / z + 32, 60 * y / z + 24
    painted = np.hypot(u - 30, v - 20) <= 6
    painted |= np.hypot(u - 40.5, v - 30) <= 4
    painted |= (u >= 35) & (u <= 200) & (v >= 40) & (v <= 70)
    return keep & ~(painted & (z > 0)), means


def test_steps_do_what_numpy_does(tmp_path):
    g, edit = splats(), Edit(tuple(STEPS))
    keep, means = in_numpy(g)
    assert 50 < keep.sum() < 450 and (keep != Edit(tuple(STEPS[:-1])).inside(g.means)).any()
    np.testing.assert_array_equal(edit.inside(g.means), keep)
    out = edit.applied(g)
    np.testing.assert_allclose(out.means, means[keep], atol=3e-6)
    np.testing.assert_allclose(out.scales, 2.5 * g.scales[keep], rtol=1e-6)
    before, after = (Rotation.from_quat(np.roll(q, -1, 1)) for q in (g.quats[keep], out.quats))
    turned = Rotation.from_quat(np.roll(QUAT, -1)) * before
    assert (turned.inv() * after).magnitude().max() < 1e-5
    save_edit(tmp_path / "a.json", STEPS)
    assert rounded(load_edit(tmp_path / "a.json").steps) == rounded(STEPS)


def test_the_command_leaves_its_source_and_a_file_to_replay(tmp_path, capsys):
    g, source = splats(), tmp_path / "in.ply"
    save_splats(source, g)
    bytes_before = source.read_bytes()
    words = "--crop box -1 -1 -1 1 1 1 sphere 0 0 0 1.2 --delete sphere 0 0 0 0.3 --move 0 0 1"
    words += " --floor 0 0 0.5 1 0 0.5 0 1 0.6 --distance 0 0 0 0 3 4 10"
    assert main(["edit", str(source), *words.split()]) == 0
    assert source.read_bytes() == bytes_before
    out = load_splats(tmp_path / "edited.ply")
    length = np.linalg.norm(g.means, axis=1)
    keep = (np.abs(g.means) <= 1).all(1) & (length <= 1.2) & (length > 0.3)
    normal = np.array([0, -0.1, 1]) / np.hypot(0.1, 1)
    height = (g.means[keep] - [0, 0, 0.5]) @ normal
    height *= np.sign(np.sign(height).sum())  # most are above
    np.testing.assert_allclose(out.means[:, 1], -2 * height, atol=1e-5)
    words = f"edit {source} --edits {tmp_path}/edited.ply.edit.json -o {tmp_path}/again.ply"
    assert main(words.split()) == 0
    assert (tmp_path / "again.ply").read_bytes() == (tmp_path / "edited.ply").read_bytes()
    assert "again.ply.edit.json" in capsys.readouterr().out


@pytest.mark.parametrize("up", ("x", "-y", "y", "0.1 -2 0.3"))
def test_up_points_up(tmp_path, up):
    save_splats(tmp_path / "in.npz", splats())
    assert main(f"edit {tmp_path}/in.npz --up {up} -o {tmp_path}/o.npz".split()) == 0
    axes = {"x": (1, 0, 0), "y": (0, 1, 0), "-y": (0, -1, 0)}
    direction = np.array(axes.get(up) or [float(x) for x in up.split()])
    heights = splats().means @ direction / np.linalg.norm(direction)
    np.testing.assert_allclose(load_splats(tmp_path / "o.npz").means[:, 1], -heights, atol=2e-6)


@pytest.fixture
def result(scene, tmp_path):
    return result_of(tmp_path / "result", points_of(scene), data_dir=scene)


def test_cameras_go_along_with_edited_splats(result, scene, tmp_path, on_device):
    """An edit, an edit of that, and what else is made of these, wherever they lie, look from them
    as the result does."""
    first, second = tmp_path / "a.ply", tmp_path / "elsewhere" / "b.npz"
    words = f"edit {result} --up 1 2 3 --scale 2.5 --move 1 0 2 -o {first}"
    assert main(words.split()) == 0
    assert main(f"edit {first} --up z --scale 2 -o {second}".split()) == 0
    third, fourth = tmp_path / "c.ply", tmp_path / "d.ply"
    assert main(f"convert {second} {third} --up=-x".split()) == 0
    clean(first, fourth, max_loss=0.0)
    given = load_scene(scene)
    before = evaluate_run(str(result), result_dir=tmp_path / "before")["psnr"]
    for file, factor in ((first, 2.5), (second, 5), (third, 5), (fourth, 2.5)):
        found, config = find_model(file)
        assert found == file and config.scene.data_dir == scene
        assert config.scene.near_plane == pytest.approx(0.01 * factor)
        moved = scene_of(file, config.scene)
        assert moved.extent == pytest.approx(factor * given.extent)
        for view, other in zip(moved.views, given.views):
            for a, b in zip(view.camera.pixels(moved.points), other.camera.pixels(given.points)):
                assert np.allclose(a, b) or np.allclose(a, factor * b)
        after = evaluate_run(str(file), result_dir=tmp_path / file.stem)["psnr"]
        assert after == pytest.approx(before, abs=0.01)
    # splats of the result again, in the place of edited ones
    fourth.unlink()
    refuses("d.ply.edit.json: exists", convert, result, fourth)
    convert(result, fourth, overwrite=True, quiet=True)
    assert not (tmp_path / "d.ply.edit.json").exists()
    (tmp_path / "a.ply.edit.json").unlink()
    assert find_model(first)[1].scene.data_dir is None


BAD = [
    ("[]", "expected {"),
    ('{"hardsplat_edit": 1, "of": 3, "steps": []}', "of: expected the path of splats"),
    ('{"hardsplat_edit": 1, "steps": 3}', "steps: expected a list"),
    ("[" * 100_000, "not valid JSON"),
]
BAD += [
    (f'{{"hardsplat_edit": 1, "steps": [{step}]}}', what)
    for step, what in rows(
        """
        {"do": "burn"} | step 1: do: expected keep
        {"do": {}} | step 1: do: expected keep
        {"do": ["keep"], "box": []} | do: expected keep
        {"do": "keep", "box": [1, 2]} | box: expected 6 numbers
        {"do": "keep", "box": [1], "sphere": []} | one shape
        {"do": "keep", "sphere": "0001"} | sphere: expected 4
        {"do": "delete", "brush": []} | list of 1 to
        {"do": "move", "by": [1, 2, NaN]} | by: expected 3
        {"do": "scale", "factor": 1e30} | factor: expected 1 numbers within
        {"do": "turn", "quat": [0, 0, 0, 0]} | of length 0
        {"do": "turn", "quat": [1,0,0,0], "x": 1} | expected quat
        """
    )
]


@pytest.mark.parametrize("text, what", BAD)
def test_damaged_files_are_refused_in_a_line(tmp_path, text, what):
    path = tmp_path / "e.json"
    path.write_text(text)
    message = refusal(load_edit, path)
    assert what in message and str(path) in message


def test_damaged_values_are_refused_in_a_line(tmp_path):
    path = tmp_path / "e.json"
    steps = [{"do": "keep", "box": [-1, -1, -1, 1, 1, 1]}, {"do": "turn", "quat": [0.7, 0.7, 0, 0]}]
    steps += [{"do": "delete", "sphere": [0, 0, 0, 0.2]}, {"do": "scale", "factor": 2.5}]
    good = {"hardsplat_edit": 1, "steps": [*steps, {"do": "move", "by": [0, 1, 2]}]}
    survives_values(lambda: load_edit(path).applied(splats(50)), path, good, 400)


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_splats_that_their_numbers_cannot_hold_are_no_result(tmp_path, error_of, factor):
    """Each step is allowed, all together are not."""
    save_splats(tmp_path / "in.ply", splats(50))
    steps = [{"do": "scale", "factor": factor}] * 20
    (tmp_path / "e.json").write_text(json.dumps({"hardsplat_edit": 1, "steps": steps}))
    said = error_of(f"edit {tmp_path}/in.ply --edits {tmp_path}/e.json -o {tmp_path}/out.ply")
    assert "50 splats do not fit into float32 where the edit scales by 1e" in said
    assert not list(tmp_path.glob("out*"))


FLAGS = [("", "nothing to do"), ("--move 1 2 3 -o {}/in.ply", "in.ply")]
FLAGS += rows(
    """
    --up 0 0 0 | --up 0 0 0: expected one of
    --up x --floor 0 0 0 1 0 0 0 1 0 | both say what is up
    --floor 0 0 0 1 1 1 2 2 2 | not on one line
    --distance 1 1 1 1 1 1 5 | two places apart
    --crop brush 1 2 3 | --crop brush 1 2 3: expected box
    --crop sphere 99 0 0 1 | leaves nothing
    --edits gone.json | gone.json: cannot be read: No such file
    """
)


@pytest.mark.parametrize("flags, what", FLAGS)
def test_flags_that_make_no_sense(tmp_path, error_of, flags, what):
    save_splats(tmp_path / "in.ply", splats(50))
    assert what in error_of(f"edit {tmp_path}/in.ply {flags.format(tmp_path)}")
