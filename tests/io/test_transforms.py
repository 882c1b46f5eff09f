"""Scenes of transforms.json in its three conventions, and every way a file can be wrong."""

import json

import numpy as np
import plyfile
import pytest
from PIL import Image

from hardsplat.io.media.images import over, save_png
from hardsplat.io.scenes.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.scenes.lens import Lens
from hardsplat.io.scenes.masks import Masks, read_mask
from hardsplat.io.scenes.scene import load_scene
from hardsplat.train import run_training as train
from hardsplat.train.measure.command import evaluate_run
from tests.helpers.tables import refusal, rows
from tests.helpers.training import settings

W, H = 40, 30
ANGLE = 0.9


def pixels(seed=0, channels=3):
    return np.random.default_rng(seed).integers(0, 256, (H, W, channels), dtype=np.uint8)


def pose(centre, columns=((1, 0, 0), (0, 1, 0), (0, 0, 1))):
    """transform_matrix: camera axes as columns (right, up, back), then the centre."""
    c2w = np.eye(4)
    c2w[:3, :3], c2w[:3, 3] = np.transpose(columns), centre
    return c2w.tolist()


def write(root, name, frames, **top):
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(json.dumps({**top, "frames": frames}))


def single(root, count=3, **top):
    """A transforms.json of `count` frames at images/0.png ... and these files."""
    frames = []
    for i in range(count):
        frames.append({"file_path": f"images/{i}.png", "transform_matrix": pose([i, 2 * i, 0])})
        save_png(root / "images" / f"{i}.png", pixels(i))
    lens = {"fl_x": 33.0, "fl_y": 44.0, "cx": 19.0, "cy": 16.0, "w": W, "h": H}
    write(root, "transforms.json", frames, **lens | top)
    return root


def edit(root, change):
    """Applies change(contents) to transforms.json."""
    data = json.loads((root / "transforms.json").read_text())
    change(data)
    (root / "transforms.json").write_text(json.dumps(data))
    return root


def synthetic(root, alpha=True):
    """NeRF-synthetic: three frames to train on, two to test, RGBA, no extension."""
    for split, count in (("train", 3), ("test", 2), ("val", 1)):
        frames = []
        for i in range(count):
            where = {"file_path": f"./{split}/r_{i}", "transform_matrix": pose([i, count, 4])}
            frames.append({**where, "rotation": 0.01})
            save_png(root / split / f"r_{i}.png", pixels(10 * count + i, 4 if alpha else 3))
        write(root, f"transforms_{split}.json", frames, camera_angle_x=ANGLE)
    return root


def frame(**changes):
    return lambda data: data["frames"][1].update(changes)


def top(**changes):
    return lambda data: data.update(changes)


HERE = "images/1.png"
WRITTEN = ["images\\1.png", ".\\images\\1.png", "C:\\Users\\me\\scene\\images\\1.png"]
WRITTEN += ["/home/me/scene/images/1.png", "images//1.png", "./images/1.png", "images/1"]


@pytest.mark.parametrize("written", [*WRITTEN, "{root}/images/1.png"])
def test_paths_as_other_machines_write_them(tmp_path, written):
    written = written.format(root=tmp_path)
    change = lambda data: data.update(test_filenames=[written]) or frame(file_path=written)(data)
    scene = load_scene(edit(single(tmp_path), change))
    assert [view.name for view in scene.views] == ["images/0.png", HERE, "images/2.png"]
    assert scene.test == [1]
    np.testing.assert_array_equal(scene.views[1].load(), pixels(1))


def test_photographs_that_were_converted(tmp_path):
    root = edit(single(tmp_path), frame(file_path="images/1.JPG"))
    save_png(root / "images_2" / "1.webp", pixels(7)[: H // 2, : W // 2])
    save_png(root / "masks" / "1.JPG.png", np.full((H, W, 3), 255, np.uint8))
    scene = load_scene(root)
    assert scene.views[1].path == root / HERE and scene.views[1].mask
    assert any(f"names: {root / HERE} is used for 1.JPG" in note for note in scene.notes)
    assert load_scene(root, 2).views[1].path == root / "images_2" / "1.webp"


FORMS = "images/gr\u00fcn.png", "images/gru\u0308n.png"


@pytest.mark.parametrize("stored, written", [FORMS, FORMS[::-1]], ids=["NFC", "NFD"])
def test_paths_in_another_form_of_unicode(tmp_path, stored, written):
    (single(tmp_path) / HERE).rename(tmp_path / stored)
    scene = load_scene(edit(tmp_path, frame(file_path=written)))
    assert sum(view.path == tmp_path / stored for view in scene.views) == 1


def test_a_principal_point_in_shares(tmp_path):
    scene = load_scene(single(tmp_path, cx=0.5, cy=0.4))
    np.testing.assert_allclose(scene.views[0].camera.K[:2, 2], [0.5 * W, 0.4 * H])
    words = "transforms.json: cx and cy, the principal point, are read as shares of width and"
    assert any(words in note for note in scene.notes)


def test_photographs_of_another_size_than_the_numbers_are_for(tmp_path):
    """w and h are missing."""
    root = edit(single(tmp_path), lambda data: (data.pop("w"), data.pop("h")))
    assert load_scene(root).views[0].camera.K[0, 2] == 19
    edit(root, top(cx=38, cy=32, fl_x=66, fl_y=88))
    words = "(38, 32) is not near the middle of a photograph of 40x30; add w and h, the size that"
    assert words in refusal(load_scene, root)
    edit(root, lambda data: (data.pop("cx"), data.pop("cy"), top(camera_angle_x=0.9)(data)))
    words = "fl_x 66 and camera_angle_x 0.9 do not fit a photograph of 40x30; add w and h"
    assert words in refusal(load_scene, root)
    edit(root, top(camera_angle_x=2 * np.arctan(20 / 66)))
    assert load_scene(root).views[0].camera.K[0, 0] == 66


@pytest.mark.parametrize("name", ["points3d.ply", "points3D.ply", "sparse_pc.ply"])
def test_clouds_of_points_beside(tmp_path, name):
    """Inria's code writes the first with normals next to NeRF-synthetic, nerfstudio the last."""
    kinds = [(axis, "f4") for axis in ("x", "y", "z", "nx", "ny", "nz")]
    kinds += [(color, "u1") for color in ("red", "green", "blue")]
    rows = np.zeros(2, kinds)
    rows["y"], rows["red"] = (3, np.nan), 7
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")]).write(tmp_path / name)
    scene = load_scene(synthetic(tmp_path))
    assert scene.points.tolist() == [[0, 3, 0]] and scene.colors.tolist() == [[7, 0, 0]]
    assert f"the first splats are at the points of {tmp_path / name}" in scene.notes


I = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
LANDS = [
    # The identity looks along -z with +y up: a point ahead, right and up of it lies right of and
    # above the principal point.
    ((0, 0, 0), I, (1, 0.5, -2), (19 + 33 / 2, 16 - 44 / 4)),
    ((5, -1, 2), I, (5, -1, -7), (19, 16)),
    # Looking along +x, +z up, so right is -y.
    ((1, 1, 1), ((0, -1, 0), (0, 0, 1), (-1, 0, 0)), (5, 0, 3), (19 + 33 / 4, 16 - 44 * 2 / 4)),
]


@pytest.mark.parametrize("centre, columns, world, pixel", LANDS)
def test_where_a_point_lands(tmp_path, centre, columns, world, pixel):
    change = frame(transform_matrix=pose(centre, columns))
    camera = load_scene(edit(single(tmp_path), change)).views[1].camera
    np.testing.assert_allclose(camera.position, centre, atol=1e-12)
    x, y, z = camera.K @ (camera.w2c[:3, :3] @ world + camera.w2c[:3, 3])
    assert z > 0
    np.testing.assert_allclose((x / z, y / z), pixel, atol=1e-12)


FOUR = (0.03, -0.01, 0.002, -0.001)


@pytest.mark.parametrize("names", ["k1 k2 p1 p2", "k1 k2 p1 p2 k3", "k1 k2 k3 k4"])
def test_distortion_by_its_names(tmp_path, names):
    fisheye, names = "k4" in names, names.split()
    model, coefficients = "OPENCV_FISHEYE" if fisheye else "OPENCV", (*FOUR, 0.005)[: len(names)]
    lens = dict(zip(names, coefficients))
    scene = load_scene(single(tmp_path, camera_model=model, **lens))
    view, K = scene.views[1], np.array([[33.0, 0, 19], [0, 44, 16], [0, 0, 1]])
    assert view.lens.coefficients[: len(names)] == coefficients
    assert not any(view.lens.coefficients[len(names) :])
    given = view.lens.coefficients, tuple(K.ravel().tolist())
    assert view.lens == Lens(view.lens.label, fisheye, *given, W, H)
    assert any("3 of 3 photographs are undistorted on load" in note for note in scene.notes)


def test_points_of_the_colmap_model_move_as_the_poses_did(tmp_path):
    rng = np.random.default_rng(0)
    xyz, rgb = rng.normal(size=(5, 3)), rng.integers(0, 256, (5, 3), dtype=np.uint8)
    camera = ColmapCamera(1, "SIMPLE_PINHOLE", 4, 4, np.ones(3))
    image = ColmapImage(1, "a.jpg", 1, np.array([1.0, 0, 0, 0]), np.zeros(3))
    points = ColmapPoints(xyz, rgb)
    write_model(tmp_path / "colmap/sparse/0", {1: camera}, {1: image}, points)
    applied = [[0, 1, 0, 3], [1, 0, 0, 0], [0, 0, -1, -2]]
    for scale in {}, {"applied_scale": 0.5}:
        scene = load_scene(single(tmp_path, applied_transform=applied, **scale))
        moved = xyz[:, [1, 0, 2]] * [1, 1, -1] + [3, 0, -2]
        np.testing.assert_allclose(scene.points, scale.get("applied_scale", 1) * moved)
        np.testing.assert_array_equal(scene.colors, rgb)


def test_cameras_that_are_scaled(tmp_path):
    """By their exporter, as in Blender: they stand where they stood."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = load_scene(single(tmp_path / "a"))
    root = single(tmp_path / "b")
    data = json.loads((root / "transforms.json").read_text())
    for frame in data["frames"]:
        matrix = np.array(frame["transform_matrix"])
        matrix[:3, :3] *= 0.3
        frame["transform_matrix"] = matrix.tolist()
    (root / "transforms.json").write_text(json.dumps(data))
    other = load_scene(root)
    assert len(one.views) == len(other.views) and any("scales cameras" in n for n in other.notes)
    for view, same in zip(one.views, other.views):
        np.testing.assert_allclose(view.camera.w2c, same.camera.w2c, atol=1e-12)


def save_masks(root, keep, names):
    for name in names.split():
        save_png(root / "masks" / name, keep)


def halved(hidden):
    """Pixels of half the size that mix in a hidden one."""
    return hidden.reshape(H // 2, 2, W // 2, 2).any(axis=(1, 3))


def test_masks(tmp_path):
    """By mask_path or in masks/; pixels that mix in an ignored one are ignored."""
    keep = np.ones((H, W), bool)
    keep[:11, 7:20] = False
    ignored = np.array([255, 255, 255, 0], np.uint8)
    save_png(single(tmp_path) / "elsewhere" / "m.png", np.where(keep, 255, 0).astype(np.uint8))
    scene = load_scene(edit(tmp_path, frame(mask_path="elsewhere/m.png")))
    assert [v.mask is not None for v in scene.views] == [False, True, False]
    loaded = scene.views[1].load()
    kept = np.dstack([pixels(1), np.full((H, W), 255)])[keep]
    np.testing.assert_array_equal(loaded[keep], kept)
    assert (loaded[~keep] == ignored).all() and scene.views[0].load().shape == (H, W, 3)
    half = load_scene(tmp_path, 2).views[1].load()
    np.testing.assert_array_equal((half == ignored).all(axis=2), halved(~keep))
    assert any("1 of 3 photographs have masks" in note for note in scene.notes)

    save_masks(tmp_path, keep.astype(float), "0.png 2.png.png")
    assert [v.mask.name for v in load_scene(tmp_path).views] == ["0.png", "m.png", "2.png.png"]
    save_masks(tmp_path, keep.astype(float), "images/2.png.png")
    (tmp_path / "masks" / "2.png.png").unlink()
    assert load_scene(tmp_path).views[2].mask == tmp_path / "masks" / "images" / "2.png.png"


# The first of several: the photograph's name and an ending more, then its own name, then another
# ending.
NAMES = rows(
    """
    a.jpg | a.jpg | a.jpg
    a.png | a.jpg | a.jpg
    sub/a.jpg | a.png sub/a.PNG | sub/a.PNG
    a.jpg | a.png a.jpg a.jpg.jpg a.jpg.png | a.jpg.png
    a.jpg | a.jpeg a.png a.webp | a.png
    a.jpg | b.png a.txt a.jpg.txt sub/a.jpg | -
    a.b.jpg | a.b.png a.png | a.b.png
    a.jpg | a.jpg.mask.png b.mask.png | a.jpg.mask.png
    a.jpg | a_mask.PNG | a_mask.PNG
    s/a.jpg | s/a.mask.png | s/a.mask.png
    images/a.jpg | images/a.png a.png | a.png
    images/a.jpg | images/a.png | images/a.png
    """
)


@pytest.mark.parametrize("folder", ["masks", "mask"])
@pytest.mark.parametrize("photo, there, used", NAMES)
def test_names_of_masks(tmp_path, photo, there, used, folder):
    for name in there.split():
        (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"")
    assert Masks(tmp_path).of(photo) == (tmp_path / folder / used if used != "-" else None)


WHITES = [(1, "u1"), (255, "u1"), (1, "u2"), (255, "u2"), (65535, "u2")]


@pytest.mark.parametrize("white, kind", WHITES, ids=str)
def test_white_is_one_or_the_largest_number(tmp_path, white, kind):
    keep = np.zeros((H, W), bool)
    keep[:11, 7:20] = True
    for seen in (keep, ~keep, np.ones_like(keep)):
        Image.fromarray((seen * white).astype(kind)).save(tmp_path / "a.png")
        np.testing.assert_array_equal(read_mask(tmp_path / "a.png"), np.where(seen, 255, 0))


def test_folders_that_seem_to_hold_masks_are_named(tmp_path):
    """Each of them, but not what has other names, or no picture like a photograph's."""
    single(tmp_path)
    for folder in ("segmentation", "dynamic_masks", "normals", "masked_old"):
        name = "other.png" if folder == "masked_old" else "1.jpg.png"
        save_png(tmp_path / folder / name, np.ones((H, W)))
    named = [note for note in load_scene(tmp_path).notes if "is not read: masks, white" in note]
    assert [note.split()[0].rsplit("/")[-1] for note in named] == ["dynamic_masks", "segmentation"]
    save_png(tmp_path / "mask" / "1.png", np.ones((H, W)))
    save_png(tmp_path / "masks" / "1.png", np.ones((H, W)))
    scene = load_scene(tmp_path)
    assert scene.views[1].mask == tmp_path / "masks" / "1.png"
    assert any(f"{tmp_path / 'mask'} is not read" in note for note in scene.notes)


def test_masks_that_cannot_be_right(tmp_path):
    save_masks(single(tmp_path), np.ones((H, W)), "other.png")
    words = "masks: no mask has the name of a photograph; images/0.png wants 0.png"
    assert words in refusal(load_scene, tmp_path)
    save_masks(tmp_path, np.ones((H, W + 1)), "0.png")
    assert "0.png: is 41x30, but its photograph is 40x30" in refusal(load_scene, tmp_path)
    save_masks(tmp_path, np.zeros((H, W)), "0.png")
    assert "0.png: keeps no pixel" in refusal(load_scene(tmp_path).views[0].load)
    edit(tmp_path, frame(mask_path="masks/9.png"))
    assert "9.png not found; remove mask_path" in refusal(load_scene, tmp_path)


def test_transparent_photographs_keep_their_alpha(tmp_path):
    scene = load_scene(synthetic(tmp_path))
    raw, loaded = pixels(30, 4).astype(float), scene.views[2].load()
    alpha = raw[..., 3:] / 255
    assert loaded.shape == (H, W, 4)
    np.testing.assert_array_equal(loaded[..., 3], raw[..., 3])
    for background in ((0, 0, 0), (1, 1, 1), (0.2, 0.9, 0.4)):
        mixed = alpha * raw[..., :3] + (1 - alpha) * 255 * np.array(background)
        np.testing.assert_allclose(over(loaded, background), mixed, atol=1.001)
    opaque = load_scene(synthetic(tmp_path / "opaque", alpha=False))
    assert opaque.views[2].load().shape == (H, W, 3)


@pytest.mark.parametrize("background", ["white", "random"])
def test_a_synthetic_scene_trains_and_is_measured(tmp_path, on_device, background):
    short = dict(init_num_pts=200, max_steps=4, strategy="none", background=background)
    metrics = train(settings(synthetic(tmp_path / "scene"), tmp_path / "run", **short))
    assert metrics["steps"] == 4 and np.isfinite(metrics["evaluations"][-1]["psnr"])
    measured = evaluate_run(str(tmp_path / "run"))
    assert [v["name"] for v in measured["views"]] == ["test/r_0.png", "test/r_1.png"]
    assert measured["psnr"] == pytest.approx(metrics["evaluations"][-1]["psnr"], abs=1e-3)
    photo = np.array(Image.open(tmp_path / "run/renders/test/r_0.png.photo.png"))
    loaded = load_scene(tmp_path / "scene").views[0].load()
    shown = over(loaded, (float(background == "white"),) * 3)
    np.testing.assert_array_equal(photo, shown)


def pop(*names):
    """Removes what is below these names."""

    def change(data):
        for name in names[:-1]:
            data = data[name]
        data.pop(names[-1])

    return change


matrix = lambda values: frame(transform_matrix=np.array(values).tolist())


def angle(data):
    data.pop("fl_x")
    data.update(camera_angle_x=4.0)


NUMBERS, AWAY = "transform_matrix is not a 4x4 matrix of numbers", "leads out of"
NAN = "transform_matrix has a NaN or infinite number"
WRONG = [
    (pop("frames"), "transforms.json: holds no list of frames"),
    (pop("frames", 1, "file_path"), "frame 2: has no file_path"),
    (pop("frames", 1, "transform_matrix"), "frame 2 (images/1.png): has no transform_matrix"),
    (matrix(pose([np.nan, 0, 0])), NAN),
    (frame(transform_matrix=[[1, 0], [1]]), NUMBERS),
    (matrix(np.diag([2.0, 2, 3, 1])), "it stretches by 3, 2 and 2"),
    (matrix(np.zeros((4, 4)) + np.diag([0, 0, 0, 1.0])), "its 3x3 is a rotation scaled by 0"),
    (matrix(np.diag([-1.0, 1, 1, 1])), "is a reflection"),
    (matrix(np.transpose(pose([1, 2, 3]))), "instead of 0 0 0 1"),
    (pop("fl_x"), "neither fl_x nor camera_angle_x"),
    (top(fl_x=0.8), "fl_x is 0.8, too little for pictures 40 pixels wide; give it in pixels"),
    (top(fl_x="wide"), "fl_x is wide, expected a finite number"),
    (angle, "camera_angle_x is 4, expected an angle in radians"),
    (top(w=40.5), "image size 40.5x30 is not in whole pixels"),
    (top(camera_model="ORTHOPHOTO"), "camera_model ORTHOPHOTO is not supported"),
    (top(latlong=True), "latlong says that the lens is none that is read here"),
    (top(ftheta_p0=0.0, orthographic=False), "ftheta_p0 says that the lens is none"),
    (top(is_fisheye="true"), "is_fisheye is true, expected true or false"),
    (frame(file_path="images/\x1b[31m1.png"), "file_path has control characters; rename it"),
    (frame(file_path="images/9.png"), "9.png: not found; 1 of"),
    (frame(file_path="../other/1.png"), "file_path leads out of"),
    (frame(file_path="./images/0.png"), "two frames have this photograph"),
    (top(w=41), "0.png: is 40x30, but its camera"),
    (top(ply_file_path="p.ply"), "p.ply not found; remove it there to start from random points"),
    (top(ply_file_path="../points.ply"), f"ply_file_path: '../points.ply' {AWAY}"),
    (top(ply_file_path="/etc/hostname"), f"ply_file_path: '/etc/hostname' {AWAY}"),
    (frame(mask_path="a/../../m.png"), f"(images/1.png): mask_path: 'a/../../m.png' {AWAY}"),
    (frame(mask_path="/etc/hostname"), f"mask_path: '/etc/hostname' {AWAY}"),
    (frame(mask_path=["m.png"]), "expected the path of a file below"),
    (top(test_filenames="images/1.png"), "test_filenames is not a list"),
    (top(test_filenames=["images/9.png"]), "has images/9.png, which is the file_path of no frame"),
]


@pytest.mark.parametrize("change, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_one_clear_line(tmp_path, change, message):
    got = refusal(load_scene, edit(single(tmp_path), change), test_every=0)
    assert message in got and str(tmp_path) in got
