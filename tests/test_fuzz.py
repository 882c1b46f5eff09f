"""Every reader of a scene's files against damage: what comes back is whole, or a UserError of one line; never another error, a long wait or much memory.

Two kinds of damage: bytes of a file, and values within a file that is otherwise right. Seeds are fixed and part of what a failure prints.
"""

import copy
import io
import json
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from PIL import Image

from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.io.camera_path import read_camera_path
from hardsplat.io.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.images import image_size, read_pixels, read_upright, save_png
from hardsplat.io.masks import read_mask
from hardsplat.io.scene import load_scene
from hardsplat.io.video import VideoWriter, frames
from hardsplat.mesh.files import load_mesh
from hardsplat.view import shots
from hardsplat.view.shots import Framing, shots_of

W, H = 24, 16
SECONDS, MIB = 5.0, 400  # that one file may take: a picture may say that it is of 33 million pixels
STRANGE = [
    None,
    True,
    False,
    "",
    "x",
    "../x",
    "/etc/passwd",
    "a\0b",
    "x" * 5000,
    "\ud800",
    -1,
    0,
    1,
    2,
    3.5,
    -0.0,
    1e-320,
    1e30,
    1e400,
    float("nan"),
    2**31,
    2**64,
    10**400,
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
]


def survives(read, rounds: int, spoil, seed: int) -> None:
    """read() after each of so many spoil(rng): both outcomes occur, and nothing else does."""
    outcomes = set()
    for number in range(rounds):
        rng = np.random.default_rng((seed, number))
        spoil(rng)
        tracemalloc.start()
        begun = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read()
            outcomes.add("read")
        except UserError as error:
            outcomes.add("refused")
            assert "\n" not in str(error), (seed, number)
        except BaseException as error:
            raise AssertionError(f"seed {seed}, round {number}: {error!r}") from error
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert time.process_time() - begun < SECONDS and peak < MIB << 20, f"seed {seed}, round {number}: {time.process_time() - begun:.1f} s, {peak >> 20} MiB"
    assert outcomes == {"read", "refused"}, (seed, outcomes)


def spoiled_bytes(data: bytes, rng) -> bytes:
    """Flipped bits, overwritten numbers, a stretch less or twice, the end cut off."""
    out, at, kind = bytearray(data), int(rng.integers(len(data))), rng.integers(5)
    if kind < 2:
        for i in rng.integers(len(out), size=rng.integers(1, 5)):
            out[i] ^= 1 << rng.integers(8)
    elif kind == 2:
        out[at : at + 4] = [b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", rng.bytes(4)][rng.integers(4)]
    elif kind == 3:
        end = at + int(rng.integers(1, 40))
        out[at:end] = [b"", bytes(out[at:end]) * 2][rng.integers(2)]
    else:
        del out[at:]
    return bytes(out)


def spoiled_values(tree, rng):
    """A copy of JSON in which one or two places are others, not there, or twice."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.integers(1, 3)):
        place, depth = tree, rng.integers(1, 6)
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            depth -= 1
            if depth > 0 and isinstance(place[key], dict | list) and place[key]:
                place = place[key]
                continue
            kind = rng.integers(6)
            if kind == 0:
                del place[key]
            elif kind == 1 and isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
            elif kind == 2 and isinstance(place[key], int | float) and not isinstance(place[key], bool):
                place[key] *= [-1, 0, 1e3, 1e-3, 1e300][rng.integers(5)]
            else:
                place[key] = STRANGE[rng.integers(len(STRANGE))]
            break
    return tree


def photographs(root, count=4):
    rng = np.random.default_rng(0)
    for i in range(count):
        save_png(root / "images" / f"{i}.png", rng.integers(0, 256, (H, W, 3), np.uint8))
        save_png(root / "masks" / f"{i}.png", np.full((H, W), 255, np.uint8))


def open_scene(root):
    """All that a training asks of a scene's files."""
    scene = load_scene(root, test_every=0)
    assert np.isfinite(scene.points).all() and np.isfinite(scene.extent) and scene.extent > 0
    for view in scene.views:
        assert np.isfinite(view.camera.K).all() and view.load().shape[:2] == (view.camera.height, view.camera.width)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_colmap_models_from_within(tmp_path, binary):
    photographs(tmp_path)
    numbers = [0.0, -1.0, 1e-30, 1e30, 1e300, np.nan, np.inf, -0.0, 3.0, 1e5]
    models = {"PINHOLE": [20, 21, 12, 8], "OPENCV": [20, 21, 12, 8, 0.01, 0.01, 0, 0], "OPENCV_FISHEYE": [20, 21, 12, 8, 0.01, 0, 0, 0], "FOV": [20, 21, 12, 8, 0.1]}

    def spoil(rng):
        model = list(models)[rng.integers(len(models))] if rng.random() < 0.6 else "PINHOLE"
        camera = ColmapCamera(1, model, W, H, np.array(models[model], float))
        images = {i + 1: ColmapImage(i + 1, f"{i}.png", 1, np.array([1.0, 0.1 * i, 0, 0]), np.array([i, 0.0, 0.1])) for i in range(4)}
        points = ColmapPoints(rng.normal(size=(5, 3)), np.zeros((5, 3), np.uint8), np.zeros(5))
        image, strange = images[int(rng.integers(1, 5))], numbers[rng.integers(len(numbers))]
        kind = rng.integers(8)
        if kind == 0:
            camera.params[rng.integers(len(camera.params))] = strange
        elif kind == 1:
            camera.width, camera.height = int(rng.choice([0, 1, W, 2 * W, 2**40])), int(rng.choice([H, 2 * H, 0]))
        elif kind == 2:
            image.qvec[rng.integers(4)] = strange
        elif kind == 3:
            image.tvec[rng.integers(3)] = strange
        elif kind == 4:
            image.name = ["../0.png", "/etc/passwd", "1.png", "none.png", "a/b.png", "masks", ".", "\x01", "x" * 300, "C:0.png"][rng.integers(10)]
        elif kind == 5:
            image.camera_id = int(rng.integers(3))
        elif kind == 6:
            points.xyz[rng.integers(5), rng.integers(3)] = strange
        write_model(tmp_path / "sparse" / "0", {1: camera}, images, points, binary)

    survives(lambda: open_scene(tmp_path), 80, spoil, seed=1)


def test_transforms_from_within(tmp_path):
    photographs(tmp_path)
    poses = [np.eye(4) for _ in range(4)]
    for i, pose in enumerate(poses):
        pose[:3, 3] = i, 2 * i, 0
    good = {
        "fl_x": 20.0, "fl_y": 21.0, "cx": 12.0, "cy": 8.0, "w": W, "h": H, "k1": 0.01, "camera_model": "OPENCV", "ply_file_path": None, "test_filenames": ["images/3.png"],
        "frames": [{"file_path": f"images/{i}.png", "mask_path": f"masks/{i}.png", "transform_matrix": pose.tolist()} for i, pose in enumerate(poses)],
    }  # fmt: skip
    survives(lambda: open_scene(tmp_path), 200, lambda rng: (tmp_path / "transforms.json").write_text(json.dumps(spoiled_values(good, rng))), seed=2)


@pytest.mark.parametrize("kind", ["ours", "nerfstudio"])
def test_camera_paths_from_within(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(shots, "MOST_FRAMES", 500)
    pose = np.eye(4)
    if kind == "ours":
        good = {"width": 64, "height": 48, "fps": 5, "loop": True, "keyframes": [{"c2w": pose.tolist(), "fov": 50, "time": float(i)} for i in range(3)]}
    else:
        good = {"render_width": 64, "render_height": 48, "fps": 24, "camera_path": [{"camera_to_world": pose.ravel().tolist(), "fov": 60} for _ in range(3)]}
    path, splats = tmp_path / "p.json", Gaussians.from_points(np.ones((2, 3)), np.ones((2, 3), np.uint8), 0)

    def read():
        found = read_camera_path(path)
        assert 1 <= len(shots_of(Framing(str(path)), found, None, splats)) <= 500

    survives(read, 250, lambda rng: path.write_text(json.dumps(spoiled_values(good, rng))), seed=3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PALETTE", "GREY16"])
def test_pictures(tmp_path, kind):
    rng, out, path = np.random.default_rng(0), io.BytesIO(), tmp_path / "a.any"
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(rng.integers(0, 256, (H, W, 3 if kind in ("JPEG", "BMP", "GIF", "PALETTE") else 4), np.uint8))
    if kind == "PALETTE":
        image.quantize(8).save(out, "PNG", transparency=1)
    elif kind == "GREY16":
        Image.fromarray(rng.integers(0, 65536, (H, W), np.uint16)).save(out, "PNG")
    else:
        image.save(out, kind, **({"exif": exif} if kind in ("PNG", "JPEG", "WEBP", "TIFF") else {}))

    def read():
        for of in (read_pixels, read_upright):
            pixels = of(path)
            assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] in (3, 4)
        assert set(np.unique(read_mask(path))) <= {0, 255} and min(image_size(path)) > 0

    survives(read, 60, lambda rng: path.write_bytes(spoiled_bytes(out.getvalue(), rng)), seed=4)


def test_videos(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "a.mp4"
    video = VideoWriter(path, 32, 32, 10)
    for _ in range(4):
        video.write(np.kron(rng.integers(0, 256, (8, 8, 3), np.uint8), np.ones((4, 4, 1), np.uint8)))
    video.close()
    whole = path.read_bytes()
    survives(lambda: [next(iter(image.shape)) for _, image in frames(path)], 60, lambda rng: path.write_bytes(spoiled_bytes(whole, rng)), seed=5)


@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_meshes(tmp_path, suffix):
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / f"a{suffix}"
    trimesh.creation.icosahedron().export(path)
    whole = path.read_bytes()
    survives(lambda: load_mesh(path, 64), 100, lambda rng: path.write_bytes(spoiled_bytes(whole, rng)), seed=6)


def test_a_mesh_of_more_triangles_than_pixels_can_number(tmp_path, monkeypatch):
    import trimesh

    trimesh.creation.icosahedron().export(tmp_path / "a.ply")
    monkeypatch.setattr("hardsplat.mesh.files.MOST_TRIANGLES", 19)
    with pytest.raises(UserError, match="a.ply: has 20 triangles, 19 can be told apart; simplify it first"):
        load_mesh(tmp_path / "a.ply", 64)
