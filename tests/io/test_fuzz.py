"""Every reader of a scene's files against damage. Seeds are fixed."""

import io

import numpy as np
import pytest
from PIL import Image

from hardsplat.io.formats.ply import load_points
from hardsplat.io.media.images import image_size, read_pixels, read_upright, save_png
from hardsplat.io.media.video import VideoWriter, frames
from hardsplat.io.scenes.depths import read_depth
from hardsplat.io.scenes.masks import read_mask
from hardsplat.io.scenes.scene import load_scene
from tests.helpers import heic
from tests.helpers.spoiling import survives_bytes, survives_values

W, H = 24, 16
# libraries of images print what they find, hundreds of lines
pytestmark = pytest.mark.usefixtures("capfd")


@pytest.fixture
def photographs(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(4):
        image = rng.integers(0, 256, (H, W, 3), np.uint8)
        save_png(tmp_path / "images" / f"{i}.png", image)
        save_png(tmp_path / "masks" / f"{i}.png", np.full((H, W), 255, np.uint8))
    return tmp_path


def open_scene(root):
    """All that a training asks of a scene's files."""
    scene = load_scene(root, test_every=0)
    assert np.isfinite(scene.points).all() and np.isfinite(scene.extent) and scene.extent > 0
    for view in scene.views:
        camera = view.camera
        assert np.isfinite(camera.K).all()
        assert view.load().shape[:2] == (camera.height, camera.width)


def test_transforms_from_within(photographs):
    poses = [np.eye(4) for _ in range(4)]
    for i, pose in enumerate(poses):
        pose[:3, 3] = i, 2 * i, 0
    lens = dict(fl_x=20.0, fl_y=21.0, cx=12.0, cy=8.0, w=W, h=H, k1=0.01, camera_model="OPENCV")
    files = [{"file_path": f"images/{i}.png", "mask_path": f"masks/{i}.png"} for i in range(4)]
    views = [file | {"transform_matrix": pose.tolist()} for file, pose in zip(files, poses)]
    good = lens | {"ply_file_path": None, "test_filenames": ["images/3.png"], "frames": views}
    path = photographs / "transforms.json"
    survives_values(lambda: open_scene(photographs), path, good, 200)


@pytest.mark.parametrize("kind", ["png", "npy"])
def test_depth_maps(tmp_path, kind):
    """Their headers and their bytes; a chunk of a PNG may announce 4 GB."""
    values = np.random.default_rng(0).integers(0, 65536, (H, W), np.uint16)
    path = tmp_path / f"a.{kind}"
    np.save(path, values) if kind == "npy" else Image.fromarray(values).save(path)

    def read():
        assert read_depth(path).ndim == 2

    how = dict(seed=777, memory=30 << 20, path=path)
    survives_bytes(read, path, path.read_bytes(), 150, head=128, **how)


def test_points(tmp_path):
    names = [f"float {c}" for c in "xyz"] + [f"uchar {c}" for c in ("red", "green", "blue")]
    head = ["ply", "format ascii 1.0", "element vertex 50", *(f"property {n}" for n in names)]
    whole = "\n".join([*head, "end_header", *["1.5 2.25 3.125 4 5 6"] * 50, ""]).encode()
    path = tmp_path / "a.ply"
    survives_bytes(lambda: load_points(path), path, whole, 100)


@pytest.mark.parametrize("kind", "PNG JPEG WEBP GIF TIFF BMP PALETTE GREY16 HEIC".split())
def test_pictures(tmp_path, kind):
    rng, out, path = np.random.default_rng(0), io.BytesIO(), tmp_path / "a.any"
    exif = Image.Exif()
    exif[0x0112] = 6
    channels = 3 if kind in ("JPEG", "BMP", "GIF", "PALETTE") else 4
    image = Image.fromarray(rng.integers(0, 256, (H, W, channels), np.uint8))
    if kind == "HEIC":
        out.write(heic.BYTES)
    elif kind == "PALETTE":
        image.quantize(8).save(out, "PNG", transparency=1)
    elif kind == "GREY16":
        Image.fromarray(rng.integers(0, 65536, (H, W), np.uint16)).save(out, "PNG")
    else:
        turned = kind in ("PNG", "JPEG", "WEBP", "TIFF")
        image.save(out, kind, **({"exif": exif} if turned else {}))

    def read():
        for of in (read_pixels, read_upright):
            pixels = of(path)
            assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] in (3, 4)
        assert set(np.unique(read_mask(path))) <= {0, 255} and min(image_size(path)) > 0

    survives_bytes(read, path, out.getvalue(), 60, seed=4)


def test_videos(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "a.mp4"
    video = VideoWriter(path, 32, 32, 10)
    for _ in range(4):
        video.write(rng.integers(0, 256, (8, 8, 3), np.uint8).repeat(4, 0).repeat(4, 1))
    video.close()
    survives_bytes(lambda: list(frames(path)), path, path.read_bytes(), 60)
