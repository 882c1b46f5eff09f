"""Scenes of transforms.json in its three conventions: cameras by hand, the courtyard both ways, and every way a file can be wrong."""

import json
import os

import cv2
import numpy as np
import pytest
from PIL import Image

from hardsplat.errors import UserError
from hardsplat.io import masks as masks_module
from hardsplat.io.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.images import over, save_png
from hardsplat.io.lens import Lens
from hardsplat.io.masks import Masks, downsampled, masked
from hardsplat.io.scene import load_scene
from hardsplat.presets import load_config
from hardsplat.train.command import evaluate_run
from hardsplat.train.start import initial_gaussians
from hardsplat.train.trainer import train
from tests.training import settings
from tools.make_scene import make_scene

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


def single(root, count=3, suffix=".png", **top):
    """A transforms.json of `count` frames at images/0.png ... and these files."""
    frames = [{"file_path": f"images/{i}{suffix}", "transform_matrix": pose([i, 2 * i, 0])} for i in range(count)]
    for i in range(count):
        save_png(root / "images" / f"{i}.png", pixels(i))
    write(root, "transforms.json", frames, **{"fl_x": 33.0, "fl_y": 44.0, "cx": 19.0, "cy": 16.0, "w": W, "h": H, **top})
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
        frames = [{"file_path": f"./{split}/r_{i}", "rotation": 0.01, "transform_matrix": pose([i, count, 4])} for i in range(count)]
        write(root, f"transforms_{split}.json", frames, camera_angle_x=ANGLE)
        for i in range(count):
            (root / split).mkdir(exist_ok=True)
            Image.fromarray(pixels(10 * count + i, 4 if alpha else 3)).save(root / split / f"r_{i}.png")
    return root


def refusal(action, *args, **named):
    with pytest.raises(UserError) as caught:
        action(*args, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- cameras ---


@pytest.mark.parametrize("centre, columns, world, pixel", [
    # The identity looks along -z with +y up: a point ahead, right and up of it lies right of and above the principal point.
    ((0, 0, 0), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), (1, 0.5, -2), (19 + 33 / 2, 16 - 44 / 4)),
    ((5, -1, 2), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), (5, -1, -7), (19, 16)),
    # Looking along +x, +z up, so right is -y.
    ((1, 1, 1), ((0, -1, 0), (0, 0, 1), (-1, 0, 0)), (5, 0, 3), (19 + 33 / 4, 16 - 44 * 2 / 4)),
])  # fmt: skip
def test_where_a_point_lands(tmp_path, centre, columns, world, pixel):
    def change(data):
        data["frames"][0]["transform_matrix"] = pose(centre, columns)

    camera = load_scene(edit(single(tmp_path), change)).views[0].camera
    np.testing.assert_allclose(camera.position, centre, atol=1e-12)
    x, y, z = camera.K @ (camera.w2c[:3, :3] @ world + camera.w2c[:3, 3])
    assert z > 0
    np.testing.assert_allclose((x / z, y / z), pixel, atol=1e-12)


def test_both_conventions_give_the_same_scene(tmp_path):
    size = dict(views=9, width=32, height=24, points=200, supersample=1)
    assert make_scene(tmp_path / "colmap", **size) == make_scene(tmp_path / "json", layout="transforms", **size)
    one, other = load_scene(tmp_path / "colmap"), load_scene(tmp_path / "json")
    assert [f"images/{v.name}" for v in one.views] == [v.name for v in other.views]
    for a, b in zip(one.views, other.views):
        np.testing.assert_allclose(a.camera.w2c, b.camera.w2c, atol=1e-12)
        np.testing.assert_allclose(a.camera.K, b.camera.K)
        np.testing.assert_array_equal(a.load(), b.load())
    np.testing.assert_allclose(one.points, other.points, rtol=1e-6)  # float32 on the way
    np.testing.assert_array_equal(one.colors, other.colors)
    assert (one.train, one.test) == (other.train, other.test) and one.extent == pytest.approx(other.extent)
    assert not one.notes and not other.notes

    make_scene(tmp_path / "colmap", layout="transforms", **size)
    both = load_scene(tmp_path / "colmap")
    assert [v.name for v in both.views] == [v.name for v in one.views]
    assert any("has a COLMAP model and transforms.json: cameras are from" in note for note in both.notes)


def test_nerf_synthetic(tmp_path):
    scene = load_scene(synthetic(tmp_path), test_every=2)
    assert [v.name for v in scene.views] == ["test/r_0.png", "test/r_1.png", "train/r_0.png", "train/r_1.png", "train/r_2.png"]
    assert scene.test == [0, 1] and scene.train == [2, 3, 4]  # the scene's own split, whatever --test-every
    camera = scene.views[2].camera
    focal = 0.5 * W / np.tan(0.5 * ANGLE)
    np.testing.assert_allclose(camera.K, [[focal, 0, W / 2], [0, focal, H / 2], [0, 0, 1]])
    assert len(scene.points) == 0 and scene.points.shape == (0, 3)
    (tmp_path / "transforms_test.json").unlink()
    assert [v.name for v in load_scene(tmp_path).views][-1] == "val/r_0.png" and load_scene(tmp_path).test == [3]
    (tmp_path / "transforms_val.json").unlink()
    assert load_scene(tmp_path, test_every=3).test == [0]


def test_instant_ngp(tmp_path):
    """Its own scale, offset and aabb_scale move no camera; sizes may be floats, names relative with a dot, fisheye a flag."""
    single(tmp_path, aabb_scale=16, scale=0.33, offset=[0.5, 0.5, 0.5], w=float(W), h=float(H), k1=0.0, is_fisheye=False)
    scene = load_scene(edit(tmp_path, lambda data: data["frames"][1].update(file_path="./images/1.png", sharpness=20.5)))
    np.testing.assert_allclose(scene.views[1].camera.position, [1, 2, 0], atol=1e-12)
    assert [v.name for v in scene.views] == ["images/0.png", "images/1.png", "images/2.png"] and scene.test == [0]
    assert load_scene(edit(tmp_path, lambda data: data.update(is_fisheye=True))).views[0].lens.fisheye


def test_intrinsics_of_a_frame_win(tmp_path):
    scene = load_scene(edit(single(tmp_path), lambda data: data["frames"][1].update(fl_x=50.0, cy=11.5)))
    np.testing.assert_allclose(scene.views[0].camera.K, [[33, 0, 19], [0, 44, 16], [0, 0, 1]])
    np.testing.assert_allclose(scene.views[1].camera.K, [[50, 0, 19], [0, 44, 11.5], [0, 0, 1]])


def test_down_sampled_photographs(tmp_path):
    single(tmp_path)
    (made,) = {(v.camera.width, v.camera.height, v.path.parent.name) for v in load_scene(tmp_path, 2).views}
    assert made == (W // 2, H // 2, "images")
    for i in range(3):
        save_png(tmp_path / "images_2" / f"{i}.png", pixels(i)[::2, ::2])
    view = load_scene(tmp_path, 2).views[1]
    assert view.path.parent.name == "images_2" and view.name == "images/1.png"
    np.testing.assert_array_equal(view.load(), pixels(1)[::2, ::2])
    np.testing.assert_allclose(view.camera.K[:2], [[16.5, 0, 9.5], [0, 22, 8]])


@pytest.mark.parametrize("model, names, coefficients", [
    ("OPENCV", ("k1", "k2", "p1", "p2"), (0.03, -0.01, 0.002, -0.001)),
    ("OPENCV", ("k1", "k2", "p1", "p2", "k3"), (0.03, -0.01, 0.002, -0.001, 0.005)),
    ("OPENCV_FISHEYE", ("k1", "k2", "k3", "k4"), (0.03, -0.01, 0.002, -0.001)),
])  # fmt: skip
def test_distortion_is_undone_on_load(tmp_path, model, names, coefficients):
    scene = load_scene(single(tmp_path, camera_model=model, **dict(zip(names, coefficients))))
    view, K = scene.views[1], np.array([[33.0, 0, 19], [0, 44, 16], [0, 0, 1]])
    fisheye = model == "OPENCV_FISHEYE"
    assert (view.lens.fisheye, view.lens.coefficients[: len(names)]) == (fisheye, coefficients) and not any(view.lens.coefficients[len(names) :])
    assert view.lens == Lens(view.lens.label, fisheye, view.lens.coefficients, tuple(K.ravel().tolist()), W, H)
    half = np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
    make = cv2.fisheye.initUndistortRectifyMap if fisheye else cv2.initUndistortRectifyMap
    maps = make(K - half, np.array(coefficients), np.eye(3), view.camera.K - half, (W, H), cv2.CV_32FC1)
    expected = cv2.remap(pixels(1), *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    np.testing.assert_array_equal(view.load(), expected)
    assert any("3 of 3 photographs are undistorted on load" in note for note in scene.notes)


# --- points and splits ---


def test_points_of_the_colmap_model_move_as_the_poses_did(tmp_path):
    rng = np.random.default_rng(0)
    xyz, rgb = rng.normal(size=(5, 3)), rng.integers(0, 256, (5, 3), dtype=np.uint8)
    camera, image = ColmapCamera(1, "SIMPLE_PINHOLE", 4, 4, np.ones(3)), ColmapImage(1, "a.jpg", 1, np.array([1.0, 0, 0, 0]), np.zeros(3))
    write_model(tmp_path / "colmap" / "sparse" / "0", {1: camera}, {1: image}, ColmapPoints(xyz, rgb, np.zeros(5)))
    applied = [[0, 1, 0, 3], [1, 0, 0, 0], [0, 0, -1, -2]]
    scene = load_scene(single(tmp_path, applied_transform=applied))
    np.testing.assert_allclose(scene.points, np.stack([xyz[:, 1] + 3, xyz[:, 0], -xyz[:, 2] - 2], axis=1))
    np.testing.assert_array_equal(scene.colors, rgb)


def test_without_points_the_start_is_random(tmp_path):
    scene = load_scene(single(tmp_path))
    config = settings(tmp_path, init_num_pts=50, init_extent=0.7)
    means = initial_gaussians(config, scene).means
    assert means.shape == (50, 3) and 0.5 < np.abs(means).max() <= 0.7


def test_the_quick_preset_trains_a_scene_without_points(tmp_path, on_device):
    """Its random start was once larger than its own cap."""
    config = load_config("quick", {"data_dir": single(tmp_path / "s"), "result_dir": tmp_path / "out", "max_steps": 2, "quiet": True, "rasterizer": "hardware"})
    assert train(config)["splats"] == config.init_num_pts <= config.cap_max / 2


def test_lists_of_nerfstudio(tmp_path):
    names = [f"images/{i}.png" for i in range(5)]
    scene = load_scene(single(tmp_path, 5, train_filenames=names[:2], val_filenames=names[2:3], test_filenames=names[3:]), test_every=1)
    assert [v.name for v in scene.views] == names[:2] + names[3:] and (scene.train, scene.test) == ([0, 1], [2, 3])
    scene = load_scene(single(tmp_path, 5, val_filenames=names[2:3]))
    assert (len(scene.views), scene.test) == (5, [2])
    scene = load_scene(single(tmp_path, 5, train_filenames=names[1:]), test_every=2)
    assert [v.name for v in scene.views] == names[1:] and scene.test == [0, 2]


# --- masks ---


def save_masks(root, keep, names):
    for name in names:
        save_png(root / "masks" / name, keep)


def test_masks(tmp_path):
    """By mask_path, or in masks/ beside images/; pixels that mix in an ignored one are ignored, at any size."""
    keep = np.ones((H, W), bool)
    keep[:11, 7:20] = False
    ignored = np.array([255, 255, 255, 0], np.uint8)
    save_png(single(tmp_path) / "elsewhere" / "m.png", np.where(keep, 255, 0).astype(np.uint8))
    scene = load_scene(edit(tmp_path, lambda data: data["frames"][1].update(mask_path="elsewhere/m.png")))
    assert [v.mask is not None for v in scene.views] == [False, True, False]
    loaded = scene.views[1].load()
    np.testing.assert_array_equal(loaded[keep], np.concatenate([pixels(1), np.full((H, W, 1), 255)], axis=2)[keep])
    assert (loaded[~keep] == ignored).all() and scene.views[0].load().shape == (H, W, 3)
    half = load_scene(tmp_path, 2).views[1].load()
    np.testing.assert_array_equal((half == ignored).all(axis=2), ~keep.reshape(H // 2, 2, W // 2, 2).all(axis=(1, 3)))
    assert any("1 of 3 photographs have masks" in note for note in scene.notes)

    save_masks(tmp_path, keep.astype(float), ["0.png", "2.png.png"])
    assert [v.mask.name for v in load_scene(tmp_path).views] == ["0.png", "m.png", "2.png.png"]


@pytest.mark.parametrize("photo, there, used", [
    ("a.jpg", ["a.jpg"], "a.jpg"),
    ("a.jpg", ["a.jpeg"], "a.jpeg"),
    ("a.png", ["a.jpg"], "a.jpg"),
    ("a.jpg", ["a.jpg.png"], "a.jpg.png"),
    ("a.jpg", ["a.jpg.JPG"], "a.jpg.JPG"),
    ("a.JPG", ["a.png"], "a.png"),
    ("sub/a.jpg", ["a.png", "sub/a.PNG"], "sub/a.PNG"),
    ("a.jpg", ["a.png", "a.jpg", "a.jpg.jpg", "a.jpg.png"], "a.jpg.png"),  # the first of several: the photograph's name and an ending more,
    ("a.jpg", ["a.png", "a.jpg"], "a.jpg"),  # then its own name,
    ("a.jpg", ["a.jpeg", "a.png", "a.webp"], "a.png"),  # then another ending
    ("a.jpg", ["b.png", "a.txt", "a.jpg.txt", "sub/a.jpg"], None),
    ("a.b.jpg", ["a.b.png", "a.png"], "a.b.png"),
])  # fmt: skip
def test_names_of_masks(tmp_path, photo, there, used):
    for name in there:
        (tmp_path / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "masks" / name).write_bytes(b"")
    found = Masks(tmp_path).of(photo)
    assert found == (used and tmp_path / "masks" / used)


def test_a_mask_may_be_a_jpeg_and_is_decoded_once(tmp_path, monkeypatch):
    keep = np.kron(np.random.default_rng(0).integers(0, 2, (3, 5)), np.ones((10, 8))).astype(bool)
    (single(tmp_path) / "masks").mkdir()
    Image.fromarray(np.where(keep, np.uint8(255), np.uint8(0))).save(tmp_path / "masks" / "1.jpeg")  # not quite black and white
    view, read, reads = load_scene(tmp_path).views[1], masks_module.read_mask, []
    monkeypatch.setattr(masks_module, "read_mask", lambda path: (reads.append(path), read(path))[1])
    loaded = [view.load() for _ in range(3)]
    assert reads == [tmp_path / "masks" / "1.jpeg"]
    np.testing.assert_array_equal((loaded[0] == [255, 255, 255, 0]).all(axis=2), ~keep)
    assert all(np.array_equal(again, loaded[0]) for again in loaded)
    Image.fromarray(np.full((H, W), 255, np.uint8)).save(view.mask)
    os.utime(view.mask, ns=(0, 1))
    assert (view.load()[..., 3] == 255).all() and len(reads) == 2  # another file


def test_masks_survive_downsampling():
    keep = np.ones((H, W), np.uint8)
    keep[:11, 7:20] = 0
    small = downsampled(masked(pixels(), 255 * keep), W // 2, H // 2)
    np.testing.assert_array_equal((small == [255, 255, 255, 0]).all(axis=2), ~keep.reshape(H // 2, 2, W // 2, 2).all(axis=(1, 3)))
    assert downsampled(pixels(), W // 2, H // 2).shape == (H // 2, W // 2, 3)


def test_masks_of_a_colmap_scene(tmp_path):
    make_scene(tmp_path, views=3, width=16, height=12, points=20, supersample=1)
    save_masks(tmp_path, np.eye(12, 16), ["view_0001.png", "view_0002.jpg.png"])
    views = load_scene(tmp_path).views
    assert [v.mask is not None for v in views] == [False, True, True]
    assert (views[1].load()[~np.eye(12, 16, dtype=bool)] == [255, 255, 255, 0]).all()


def test_masks_that_cannot_be_right(tmp_path):
    save_masks(single(tmp_path), np.ones((H, W)), ["other.png"])
    assert "masks: no mask has the name of a photograph; images/0.png wants 0.png" in refusal(load_scene, tmp_path)
    save_masks(tmp_path, np.ones((H, W + 1)), ["0.png"])
    assert "0.png: is 41x30, but its photograph is 40x30" in refusal(load_scene, tmp_path)
    save_masks(tmp_path, np.zeros((H, W)), ["0.png"])
    assert "0.png: keeps no pixel" in refusal(load_scene(tmp_path).views[0].load)
    edit(tmp_path, lambda data: data["frames"][1].update(mask_path="masks/9.png"))
    assert "9.png not found; remove mask_path" in refusal(load_scene, tmp_path)


def test_what_a_mask_hides_does_not_train(tmp_path, on_device):
    """Two scenes that differ only below their masks end in the same splats and the same measurements."""
    keep, results = np.ones((H, W)), []
    keep[8:20, 10:30] = 0
    for name, hidden in (("one", 0), ("other", 255)):
        scene = single(tmp_path / name, 4)
        save_masks(scene, keep, [f"{i}.png" for i in range(4)])
        for i in range(4):
            save_png(scene / "images" / f"{i}.png", np.where(keep[..., None] > 0, pixels(i), hidden).astype(np.uint8))
        metrics = train(settings(scene, tmp_path / f"{name} run", init_num_pts=300, max_steps=6, strategy="none", background="white"))
        results.append((metrics["evaluations"][-1]["psnr"], metrics["evaluations"][-1]["ssim"]))
    # Atomics add in any order, hence not to the bit.
    assert results[0] == pytest.approx(results[1], rel=1e-4)


# --- transparency ---


def test_transparent_photographs_keep_their_alpha(tmp_path):
    scene = load_scene(synthetic(tmp_path))
    raw, loaded = pixels(30, 4).astype(float), scene.views[2].load()
    alpha = raw[..., 3:] / 255
    assert loaded.shape == (H, W, 4)
    np.testing.assert_array_equal(loaded[..., 3], raw[..., 3])
    for background in ((0, 0, 0), (1, 1, 1), (0.2, 0.9, 0.4)):
        np.testing.assert_allclose(over(loaded, background), alpha * raw[..., :3] + (1 - alpha) * 255 * np.array(background), atol=1.001)
    assert load_scene(synthetic(tmp_path / "opaque", alpha=False)).views[2].load().shape == (H, W, 3)


@pytest.mark.parametrize("background", ["white", "random"])
def test_a_synthetic_scene_trains_and_is_measured(tmp_path, on_device, background, capsys):
    config = settings(synthetic(tmp_path / "scene"), tmp_path / "run", background=background, init_num_pts=200, max_steps=4, strategy="none")
    metrics = train(config)
    assert metrics["steps"] == 4 and np.isfinite(metrics["evaluations"][-1]["psnr"])
    measured = evaluate_run(str(tmp_path / "run"))
    assert [v["name"] for v in measured["views"]] == ["test/r_0.png", "test/r_1.png"]
    assert measured["psnr"] == pytest.approx(metrics["evaluations"][-1]["psnr"], abs=1e-3)
    photo = np.array(Image.open(tmp_path / "run" / "renders" / "test" / "r_0.png.photo.png"))
    shown = (1.0, 1.0, 1.0) if background == "white" else (0.0, 0.0, 0.0)
    np.testing.assert_array_equal(photo, over(load_scene(tmp_path / "scene").views[0].load(), shown))


# --- refusals ---


def frame(**changes):
    return lambda data: data["frames"][1].update(changes)


def top(**changes):
    return lambda data: data.update(changes)


WRONG = {
    "no frames": (lambda data: data.pop("frames"), "transforms.json: holds no list of frames"),
    "empty frames": (top(frames=[]), "holds no list of frames"),
    "frame is no object": (lambda data: data["frames"].insert(0, 3), "frame 1: has no file_path"),
    "no file_path": (lambda data: data["frames"][1].pop("file_path"), "frame 2: has no file_path"),
    "no pose": (lambda data: data["frames"][1].pop("transform_matrix"), "frame 2 (images/1.png): has no transform_matrix"),
    "NaN pose": (frame(transform_matrix=pose([np.nan, 0, 0])), "transform_matrix has a NaN or infinite number"),
    "infinite pose": (frame(transform_matrix=pose([np.inf, 0, 0])), "transform_matrix has a NaN or infinite number"),
    "ragged pose": (frame(transform_matrix=[[1, 0], [1]]), "transform_matrix is not a 4x4 matrix of numbers"),
    "text in pose": (frame(transform_matrix="identity"), "transform_matrix is not a 4x4 matrix of numbers"),
    "scaled pose": (frame(transform_matrix=(np.diag([2.0, 2, 2, 1])).tolist()), "its 3x3 is a rotation scaled by 2"),
    "mirrored pose": (frame(transform_matrix=np.diag([-1.0, 1, 1, 1]).tolist()), "is a reflection"),
    "transposed pose": (frame(transform_matrix=np.transpose(pose([1, 2, 3])).tolist()), "instead of 0 0 0 1"),
    "no focal": (lambda data: data.pop("fl_x"), "neither fl_x nor camera_angle_x"),
    "text focal": (top(fl_x="wide"), "fl_x is wide, expected a finite number"),
    "NaN focal": (top(fl_x=np.nan), "fl_x is nan, expected a finite number"),
    "negative focal": (top(fl_x=-3), "needs positive focal lengths"),
    "absurd angle": (lambda data: (data.pop("fl_x"), data.update(camera_angle_x=4.0)), "camera_angle_x is 4, expected an angle in radians"),
    "half a pixel": (top(w=40.5), "image size 40.5x30 is not in whole pixels"),
    "model": (top(camera_model="EQUIRECTANGULAR"), "camera_model EQUIRECTANGULAR is not supported"),
    "k4": (top(k4=0.1), "k4 of a perspective camera"),
    "missing image": (frame(file_path="images/9.png"), "9.png not found"),
    "missing image without extension": (frame(file_path="images/9"), "images/9 not found, with any extension"),
    "outside": (frame(file_path="../other/1.png"), "file_path leads out of"),
    "absolute": (frame(file_path="/tmp/1.png"), "file_path leads out of"),
    "twice": (frame(file_path="./images/0.png"), "two frames have this photograph"),
    "size": (top(w=41), "0.png: is 40x30, but its camera"),
    "no ply": (top(ply_file_path="points.ply"), "points.ply not found; remove it there to start from random points"),
    "ply is no path": (top(ply_file_path=3), "ply_file_path is '3', expected the path of a file below"),
    "ply is a folder": (top(ply_file_path="images"), "images not found"),
    "ply outside": (top(ply_file_path="../points.ply"), "ply_file_path: '../points.ply' leads out of"),
    "ply absolute": (top(ply_file_path="/etc/hostname"), "ply_file_path: '/etc/hostname' leads out of"),
    "ply on a drive": (top(ply_file_path="C:points.ply"), "leads out of"),
    "mask outside": (frame(mask_path="a/../../m.png"), "frame 2 (images/1.png): mask_path: 'a/../../m.png' leads out of"),
    "mask absolute": (frame(mask_path="/etc/hostname"), "mask_path: '/etc/hostname' leads out of"),
    "mask of Windows": (frame(mask_path="..\\m.png"), "leads out of"),
    "mask with a zero byte": (frame(mask_path="a\0b"), "leads out of"),
    "mask is no path": (frame(mask_path=["m.png"]), "expected the path of a file below"),
    "lists": (top(test_filenames="images/1.png"), "test_filenames is not a list"),
    "listed": (top(test_filenames=["images/9.png"]), "test_filenames has images/9.png, which is the file_path of no frame"),
}


@pytest.mark.parametrize("change, message", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_clear_line(tmp_path, change, message):
    got = refusal(load_scene, edit(single(tmp_path), change), test_every=0)
    assert message in got and str(tmp_path) in got


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"frames": 3}', "\ufeff{", "[" * 100_000, '{"frames": [' + "1" * 5000 + "]}"])
def test_what_is_not_json(tmp_path, text):
    single(tmp_path)
    (tmp_path / "transforms.json").write_text(text)
    assert str(tmp_path / "transforms.json") in refusal(load_scene, tmp_path)
    (tmp_path / "transforms.json").write_bytes(b"\xff\xfe{")
    assert "not valid JSON" in refusal(load_scene, tmp_path)


def test_both_splits_may_not_share_a_photograph(tmp_path):
    synthetic(tmp_path)
    (tmp_path / "transforms_test.json").write_bytes((tmp_path / "transforms_train.json").read_bytes())
    assert "train/r_0.png is in transforms_train.json too" in refusal(load_scene, tmp_path)


def test_a_damaged_cloud(tmp_path):
    single(tmp_path, ply_file_path="points.ply")
    (tmp_path / "points.ply").write_bytes(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n")
    assert "points.ply: property y is missing" in refusal(load_scene, tmp_path)
