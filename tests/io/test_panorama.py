"""Panoramas: faces against rays, scenes that have them, and those that are none."""

import json

import numpy as np
from PIL import Image

from hardsplat.io.media.panorama import FACES, Face, face_side, is_whole
from hardsplat.io.scenes import views
from hardsplat.io.scenes.scene import load_scene
from hardsplat.train.features.intrinsics import check_lenses
from tests.helpers.tables import refusal


def ray_colours(rays: np.ndarray) -> np.ndarray:
    """(..., 3) uint8, smooth over all directions and different in each."""
    unit = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    return np.rint(127.5 + 100 * unit).astype(np.uint8)


def panorama_of(width: int) -> np.ndarray:
    """Of ray_colours, by the definition: the middle looks along +z, +x is to the right, +y down."""
    y, x = np.mgrid[: width // 2, :width] + 0.5
    along, down = 2 * np.pi * (x / width - 0.5), np.pi * (y / (width // 2) - 0.5)
    flat = np.cos(down)
    return ray_colours(np.stack([np.sin(along) * flat, np.sin(down), np.cos(along) * flat], -1))


def scene(folder, count=3, width=256, size=None, **more):
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for i in range(count):
        name = f"images/{i}.png"
        Image.fromarray(panorama_of(width)).resize(size or (width, width // 2)).save(folder / name)
        pose = np.eye(4)
        pose[:3, 3] = i, 0, i % 2
        frames.append({"file_path": name, "transform_matrix": pose.tolist()})
    about = {"camera_model": "EQUIRECTANGULAR", "frames": frames} | more
    (folder / "transforms.json").write_text(json.dumps(about))
    return folder


def test_faces_show_what_their_cameras_see(tmp_path):
    loaded = load_scene(scene(tmp_path, 5), test_every=2)
    side = face_side(256)
    names = [view.name for view in loaded.views]
    assert len(names) == 30 and names == sorted(names)
    assert loaded.notes == (f"5 panoramas are cut into 6 views of {side}x{side} each on load",)
    # split by panorama: a half of them is held out with all their faces
    assert {v.group for v in loaded.held_out} == {f"images/{i}.png" for i in (0, 2, 4)}
    assert len(loaded.held_out) == 18 and len(loaded.train) == 12
    y, x = np.mgrid[:side, :side] + 0.5
    pixels = np.stack([x, y, np.ones_like(x)], -1)
    for view in loaded.views[:6]:
        camera = view.camera
        rays = pixels @ np.linalg.inv(camera.K).T @ camera.w2c[:3, :3]
        # the pose of transforms.json has OpenGL axes: -z is forward, y up
        wanted = ray_colours(rays @ np.diag([1.0, -1, -1]))
        off = np.abs(view.load().astype(int) - wanted)
        assert off.max() <= 2, (view.name, off.max())  # measured: 1, of bilinear interpolation


def test_positions_go_to_the_panorama_and_back():
    rng = np.random.default_rng(0)
    for name in FACES:
        face = Face("", name, 512, 256, 100)
        xy = rng.uniform(0, 100, (50, 2))
        u, v = face.in_panorama(xy).T
        along, down = 2 * np.pi * (u / 512 - 0.5), np.pi * (v / 256 - 0.5)
        ray = np.stack([np.sin(along) * np.cos(down), np.sin(down), np.cos(along) * np.cos(down)])
        x, y, z = FACES[name] @ ray
        back = 50 * (1 + np.stack([x, y]) / z)
        assert (z > 0).all() and np.allclose(back.T, xy, atol=1e-9), name


def test_smaller_and_with_masks(tmp_path):
    folder = scene(tmp_path)
    half = load_scene(folder, data_factor=2)
    assert half.views[0].camera.width == face_side(128)
    assert half.views[0].load().shape == (face_side(128), face_side(128), 3)
    (folder / "masks").mkdir()
    mask = np.full((128, 256), 255, np.uint8)
    mask[96:] = 0  # what is lower than 45 degrees: the photographer
    Image.fromarray(mask).save(folder / "masks/0.png")
    opened = load_scene(folder)
    masked, count = {v.name: v for v in opened.views}, len(opened.views) // len(FACES)
    assert f"1 of {count} photographs have masks" in " ".join(opened.notes)
    up, down = (masked[f"images/0.png/{name}"].load() for name in ("up", "down"))
    kept = (down[..., 3] == 255).mean()
    assert up.shape[2] == 4 and (up[..., 3] == 255).all() and kept < 0.3, kept
    assert masked["images/1.png/up"].load().shape[2] == 3


def test_what_is_none_and_what_may_be_one(tmp_path):
    for how, words in (
        (dict(size=(256, 200)), "is 256x200, and a panorama of all directions is twice as wide"),
        (dict(size=(1, 1)), "is 1x1, and a panorama of all directions"),
        (dict(size=(16, 8)), "a panorama of 16x8 pixels has views of 5x5, too small to use"),
        (dict(w=300, h=150), "is 256x128, but its camera 1 in the model is 300x150"),
        (dict(count=1), "all 6 cameras stand at one point"),
    ):
        assert words in refusal(load_scene, scene(tmp_path, **how), test_every=0)
    assert is_whole(5760, 2880) and is_whole(1001, 500)
    assert not any(is_whole(*size) for size in [(1, 1), (2, 2), (640, 480), (0, 0), (3000, 1000)])


def test_a_photograph_is_read_once(tmp_path, monkeypatch):
    read, calls = views.read_pixels, []
    monkeypatch.setattr(views, "read_pixels", lambda path: calls.append(path) or read(path))
    loaded = load_scene(scene(tmp_path))
    images = [view.load() for view in loaded.views]
    assert len(calls) == 3 and len(images) == 18
    Image.new("RGB", (64, 32)).save(tmp_path / "images/1.png")
    changed = next(view for view in loaded.views if "1.png" in view.name)
    assert "it changed since the scene was opened" in refusal(changed.load)


def test_panoramas_have_no_intrinsics(tmp_path):
    words = "images/0.png is a panorama, which has no intrinsics"
    assert words in refusal(check_lenses, load_scene(scene(tmp_path)).views)
