"""COLMAP models: both formats against bytes packed by hand, the real bonsai model, every kind of damage, and fuzzing."""

import os
import re
import struct
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from hardsplat.errors import UserError
from hardsplat.io.colmap import CAMERA_MODELS, ColmapCamera, ColmapImage, ColmapPoints, read_model, write_model

SHARED = Path(os.environ.get("HARDSPLAT_SHARED", Path(__file__).parents[1] / ".." / "shared"))
BONSAI = SHARED / "data" / "bonsai"

CAMERAS = struct.pack("<Q IiQQ4d IiQQ4d", 2, 7, 1, 640, 480, 500, 510, 320, 240, 3, 2, 100, 50, 90, 50, 25, 0.125)
IMAGE_5 = struct.pack("<I4d3dI", 5, 0.5, 0.5, -0.5, 0.5, 1, 2, 3, 7) + b"a/b c.jpg\0" + struct.pack("<Q ddq ddq", 2, 1, 2, -1, 3, 4, 9)
IMAGE_6 = struct.pack("<I4d3dI", 6, 2, 0, 0, 0, -1, 0, 0.1, 3) + "ü.png".encode() + b"\0" + struct.pack("<Q", 0)
IMAGES = struct.pack("<Q", 2) + IMAGE_5 + IMAGE_6
POINT_9 = struct.pack("<Q3d3BdQ 4I", 9, 0.1, -2, 3e5, 255, 0, 7, 0.5, 2, 5, 0, 6, 1)
POINT_4 = struct.pack("<Q3d3BdQ", 4, 1, 2, 3, 1, 2, 3, -1, 0)
POINTS = struct.pack("<Q", 2) + POINT_9 + POINT_4
BINARY = {"cameras.bin": CAMERAS, "images.bin": IMAGES, "points3D.bin": POINTS}

TEXT = {
    "cameras.txt": "# a comment\n\n7 PINHOLE 640 480 500 510 320 240\n3 SIMPLE_RADIAL 100 50 90 50 25 0.125\n",
    "images.txt": "# c\n5 0.5 0.5 -0.5 0.5 1 2 3 7 a/b c.jpg\n1 2 -1 3 4 9\n# c\n6 2 0 0 0 -1 0 0.1 3 ü.png\n\n",
    "points3D.txt": "9 0.1 -2 3e5 255 0 7 0.5 5 0 6 1\n4 1 2 3 1 2 3 -1\n",
}


@pytest.fixture
def model(tmp_path):
    """model(files...) -> a folder with these files; None leaves one out."""

    def write(base, **changed):
        for name, content in {**base, **{k.replace("_", "."): v for k, v in changed.items()}}.items():
            if content is not None:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


def refusal(folder):
    with pytest.raises(UserError) as caught:
        read_model(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    return message


@pytest.mark.parametrize("files", [BINARY, TEXT], ids=["binary", "text"])
def test_reads_what_was_packed_by_hand(model, files):
    cameras, images, points = read_model(model(files))
    assert list(cameras) == [7, 3] and list(images) == [5, 6]
    c = cameras[7]
    assert (c.id, c.model, c.width, c.height, c.params.tolist()) == (7, "PINHOLE", 640, 480, [500, 510, 320, 240])
    assert cameras[3].model == "SIMPLE_RADIAL" and cameras[3].params.tolist() == [90, 50, 25, 0.125]
    i = images[5]
    assert (i.id, i.name, i.camera_id, i.qvec.tolist(), i.tvec.tolist()) == (5, "a/b c.jpg", 7, [0.5, 0.5, -0.5, 0.5], [1, 2, 3])
    assert images[6].name == "ü.png" and images[6].camera_id == 3
    assert points.xyz.dtype == np.float64 and points.xyz.tolist() == [[0.1, -2, 3e5], [1, 2, 3]]
    assert points.rgb.dtype == np.uint8 and points.rgb.tolist() == [[255, 0, 7], [1, 2, 3]]
    assert points.error.tolist() == [0.5, -1]


def test_pose_is_world_to_camera_from_wxyz(model):
    image = read_model(model(BINARY))[1][5]
    expected = np.eye(4)
    expected[:3, :3] = Rotation.from_quat([0.5, -0.5, 0.5, 0.5]).as_matrix()  # scipy: xyzw
    expected[:3, 3] = 1, 2, 3
    np.testing.assert_allclose(image.w2c, expected, atol=1e-15)
    np.testing.assert_allclose(ColmapImage(1, "a", 1, np.array([2.0, 0, 0, 0]), np.zeros(3)).w2c, np.eye(4))


def test_camera_models_as_in_colmap():
    ids = {row[0] for row in CAMERA_MODELS.values()}
    assert ids == set(range(len(CAMERA_MODELS)))
    assert CAMERA_MODELS["SIMPLE_PINHOLE"] == (0, 1, 3) and CAMERA_MODELS["OPENCV"] == (4, 2, 8)
    assert CAMERA_MODELS["FULL_OPENCV"] == (6, 2, 12) and CAMERA_MODELS["THIN_PRISM_FISHEYE"] == (10, 2, 12)


@pytest.mark.parametrize("first, second", [(True, False), (False, True)], ids=["binary to text", "text to binary"])
def test_round_trip_is_exact(tmp_path, first, second):
    rng = np.random.default_rng(0)
    cameras = {i + 1: ColmapCamera(i + 1, name, 640, 480, rng.uniform(0.1, 1e3, n)) for i, (name, (_, _, n)) in enumerate(CAMERA_MODELS.items())}
    images = {i: ColmapImage(i, f"set {i % 3}/ä{i}.jpg", 1 + i % 18, rng.normal(size=4), rng.normal(size=3) * 1e5) for i in range(40)}
    points = ColmapPoints(rng.normal(size=(200, 3)), rng.integers(0, 256, (200, 3), dtype=np.uint8), rng.uniform(size=200))
    write_model(tmp_path / "a", cameras, images, points, binary=first)
    write_model(tmp_path / "b", *read_model(tmp_path / "a"), binary=second)
    assert sorted(p.suffix for p in (tmp_path / "b").iterdir()) == [".bin" if second else ".txt"] * 3
    got_cameras, got_images, got = read_model(tmp_path / "b")
    assert list(got_cameras) == list(cameras) and list(got_images) == list(images)
    for a, b in zip(cameras.values(), got_cameras.values()):
        assert (a.id, a.model, a.width, a.height) == (b.id, b.model, b.width, b.height)
        np.testing.assert_array_equal(a.params, b.params)
    for a, b in zip(images.values(), got_images.values()):
        assert (a.id, a.name, a.camera_id) == (b.id, b.name, b.camera_id)
        np.testing.assert_array_equal(np.r_[a.qvec, a.tvec], np.r_[b.qvec, b.tvec])
    for field in ("xyz", "rgb", "error"):
        np.testing.assert_array_equal(getattr(points, field), getattr(got, field))
        assert getattr(got, field).dtype == getattr(points, field).dtype and getattr(got, field).flags.writeable


def test_binary_is_preferred_and_rigs_and_frames_are_ignored(model):
    model(TEXT, points3D_txt="9 0 0 0 0 0 0 0\n")
    assert len(read_model(model({}))[2].xyz) == 1
    folder = model(BINARY, rigs_bin=b"junk", frames_bin=b"")
    assert len(read_model(folder)[2].xyz) == 2


@pytest.mark.skipif(not BONSAI.is_dir(), reason=f"the bonsai scene is not at {BONSAI}; set HARDSPLAT_SHARED")
def test_real_model():
    start = time.perf_counter()
    cameras, images, points = read_model(BONSAI / "sparse" / "0")
    assert time.perf_counter() - start < 3  # 0.05 s measured; key points and tracks as Python objects take 10 s
    assert len(images) == 292 and points.xyz.shape == (82737, 3)
    (camera,) = cameras.values()
    assert camera.model == "SIMPLE_PINHOLE" and (camera.width, camera.height) == (800, 533)
    assert camera.params[0] == pytest.approx(826.86, abs=0.01)
    assert points.error.mean() == pytest.approx(0.47, abs=0.005)
    # Points must lie in front of a camera that they project into: a wrong quaternion or translation order breaks this.
    inside = []
    for image in list(images.values())[::40]:
        x, y, z = image.w2c[:3, :3] @ points.xyz.T + image.w2c[:3, 3:]
        u, v = camera.params[0] * np.array([x, y]) / z + camera.params[1:, None]
        inside.append(((z > 0) & (u > 0) & (u < 800) & (v > 0) & (v < 533)).mean())
    assert min(inside) > 0.2


def changed(data, offset, layout, *values):
    out = bytearray(data)
    struct.pack_into(layout, out, offset, *values)
    return bytes(out)


NAN = float("nan")
Q, T, NAME = 8 + 4, 8 + 4 + 32, 8 + 64  # offsets in IMAGES
DAMAGE = {
    "missing file": ({"images_bin": None}, r"not a complete COLMAP model, images.bin not found"),
    "empty file": ({"cameras_bin": b""}, r"cameras.bin: truncated"),
    "truncated camera": ({"cameras_bin": CAMERAS[:-1]}, r"cameras.bin: truncated"),
    "truncated image": ({"images_bin": IMAGES[:-9]}, r"images.bin: .*(truncated|does not end)"),
    "truncated key points": ({"images_bin": struct.pack("<Q", 1) + IMAGE_5[:-1]}, r"images.bin: truncated"),
    "truncated track": ({"points3D_bin": struct.pack("<Q", 1) + POINT_9[:-1]}, r"points3D.bin: truncated"),
    "truncated point": ({"points3D_bin": POINTS[:-1]}, r"points3D.bin: truncated"),
    "bytes left over": ({"points3D_bin": POINTS + b"x"}, r"points3D.bin: 1 bytes follow the last record"),
    "absurd cameras": ({"cameras_bin": changed(CAMERAS, 0, "<Q", 2**63)}, r"announces 9223372036854775808 cameras, too many for its 120 bytes"),
    "absurd images": ({"images_bin": changed(IMAGES, 0, "<Q", 10**12)}, r"announces 1000000000000 images"),
    "absurd points": ({"points3D_bin": changed(POINTS, 0, "<Q", 2**64 - 1)}, r"announces 18446744073709551615 points"),
    "absurd key points": ({"images_bin": changed(IMAGES, 8 + len(IMAGE_5) - 56, "<Q", 2**64 - 1)}, r"images.bin: truncated"),
    "absurd track": ({"points3D_bin": changed(POINTS, len(POINTS) - 8, "<Q", 2**64 - 1)}, r"points3D.bin: truncated"),
    "unterminated name": ({"images_bin": struct.pack("<Q", 1) + IMAGE_5[:64] + b"n" * 99}, r"image name at byte 72 does not end"),
    "endless name": ({"images_bin": struct.pack("<Q", 1) + IMAGE_5[:64] + b"n" * 5000 + bytes(9)}, r"image name at byte 72 does not end"),
    "name not UTF-8": ({"images_bin": changed(IMAGES, NAME, "B", 0xFF)}, r"image name at byte 72 is not UTF-8"),
    "name with a line break": ({"images_bin": changed(IMAGES, NAME, "B", 10)}, r"image 5: name '\\n/b c.jpg' is empty or has control"),
    "empty name": ({"images_bin": struct.pack("<Q", 1) + IMAGE_6[:64] + bytes(9)}, r"image 6: name '' is empty"),
    "NaN rotation": ({"images_bin": changed(IMAGES, Q, "<d", NAN)}, r"image 5 \(a/b c.jpg\): its pose has a NaN"),
    "infinite translation": ({"images_bin": changed(IMAGES, T, "<d", float("inf"))}, r"image 5 .*: its pose has a NaN or infinite"),
    "zero quaternion": ({"images_bin": changed(IMAGES, Q, "<4d", 0, 0, 0, 0)}, r"image 5 .*: its rotation quaternion is zero"),
    "missing camera": ({"images_bin": changed(IMAGES, T + 24, "<I", 8)}, r"refers to camera 8, which the cameras file does not have"),
    "image twice": ({"images_bin": struct.pack("<Q", 2) + IMAGE_5 + IMAGE_5}, r"image 5 .*: this id appears twice"),
    "name twice": ({"images_bin": struct.pack("<Q", 2) + IMAGE_5 + struct.pack("<I", 6) + IMAGE_5[4:]}, r"image 6 .*: two images have this name"),
    "no images": ({"images_bin": struct.pack("<Q", 0)}, r"images.bin: holds no images"),
    "NaN point": ({"points3D_bin": changed(POINTS, 16, "<d", NAN)}, r"point 1 of 2 has a NaN or infinite position"),
    "point beyond float32": ({"points3D_bin": changed(POINTS, len(POINT_9) + 16, "<d", 1e39)}, r"point 2 of 2 has a NaN or infinite"),
    "no points": ({"points3D_bin": struct.pack("<Q", 0)}, r"points3D.bin: holds no points"),
    "unknown model": ({"cameras_bin": changed(CAMERAS, 12, "<i", 18)}, r"camera 7: unknown camera model id 18"),
    "negative model": ({"cameras_bin": changed(CAMERAS, 12, "<i", -1)}, r"camera 7: unknown camera model id -1"),
    "camera twice": ({"cameras_bin": changed(CAMERAS, 64, "<I", 7)}, r"camera 7 appears twice"),
    "zero width": ({"cameras_bin": changed(CAMERAS, 16, "<Q", 0)}, r"camera 7: image size 0x480"),
    "absurd height": ({"cameras_bin": changed(CAMERAS, 24, "<Q", 2**60)}, r"camera 7: image size 640x1152921504606846976"),
    "zero focal length": ({"cameras_bin": changed(CAMERAS, 40, "<d", 0)}, r"camera 7: focal length 0 is not positive"),
    "negative focal length": ({"cameras_bin": changed(CAMERAS, 32, "<d", -500)}, r"camera 7: focal length -500 is not positive"),
    "NaN parameter": ({"cameras_bin": changed(CAMERAS, len(CAMERAS) - 8, "<d", NAN)}, r"camera 3: a parameter is NaN"),
}


@pytest.mark.parametrize("files, message", DAMAGE.values(), ids=DAMAGE)
def test_damaged_binary_is_one_clear_line(model, files, message):
    assert re.search(message, refusal(model(BINARY, **files)))


TEXT_DAMAGE = {
    "missing": ({"cameras_txt": None}, "cameras.txt not found"),
    "not UTF-8": ({"images_txt": b"5 \xff\n"}, "images.txt: not UTF-8 text at byte 2"),
    "camera fields": ({"cameras_txt": "7 PINHOLE 640\n"}, "cameras.txt:1: expected `CAMERA_ID MODEL"),
    "camera model": ({"cameras_txt": "7 PINHOLES 640 480 1 1 1 1\n"}, "cameras.txt:1: unknown camera model PINHOLES"),
    "camera parameters": ({"cameras_txt": "7 PINHOLE 640 480 1 1 1\n"}, "camera 7: PINHOLE has 4 parameters, the file gives 3"),
    "negative size": ({"cameras_txt": "7 PINHOLE -640 480 1 1 1 1\n"}, "camera 7: image size -640x480"),
    "negative id": ({"cameras_txt": "-7 PINHOLE 640 480 1 1 1 1\n"}, "cameras.txt:1: expected"),
    "image fields": ({"images_txt": "\n5 1 0 0 0 1 2 3 7\n\n"}, "images.txt:2: expected `IMAGE_ID QW"),
    "image number": ({"images_txt": "5 1 0 0 zero 1 2 3 7 a.jpg\n\n"}, "images.txt:1: expected `IMAGE_ID QW"),
    "NaN pose": ({"images_txt": "5 nan 0 0 0 1 2 3 7 a.jpg\n\n"}, "image 5 (a.jpg): its pose has a NaN"),
    "no key point lines": ({"images_txt": "5 1 0 0 0 1 2 3 7 a\n6 1 0 0 0 1 2 3 7 b\n"}, "images.txt:2: expected `X Y POINT3D_ID"),
    "NUL in name": ({"images_txt": "5 1 0 0 0 1 2 3 7 a\0b\n\n"}, "control characters"),
    "no images": ({"images_txt": "# nothing\n"}, "holds no images"),
    "point fields": ({"points3D_txt": "9 1 2 3 4 5 6\n"}, "points3D.txt:1: expected `POINT3D_ID X Y Z"),
    "colour": ({"points3D_txt": "9 1 2 3 4 256 6 0\n"}, "points3D.txt:1: expected `POINT3D_ID X Y Z"),
    "infinite point": ({"points3D_txt": "9 1 2 inf 4 5 6 0\n"}, "point 1 of 1 has a NaN or infinite position"),
    "no points": ({"points3D_txt": ""}, "holds no points"),
}


@pytest.mark.parametrize("files, message", TEXT_DAMAGE.values(), ids=TEXT_DAMAGE)
def test_damaged_text_is_one_clear_line(model, files, message):
    assert message in refusal(model(TEXT, **files))


def test_no_model_and_a_folder_in_place_of_a_file(tmp_path):
    assert "cameras.bin, images.bin, points3D.bin not found" in refusal(tmp_path)
    for name in BINARY:
        (tmp_path / name).mkdir()
    assert "cameras.bin" in refusal(tmp_path)


def test_a_folder_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot be written: File exists"):
        write_model(tmp_path / "file", *read_model(model(BINARY)))


def test_text_cannot_hold_every_name(tmp_path):
    cameras = {1: ColmapCamera(1, "SIMPLE_PINHOLE", 4, 4, np.ones(3))}
    images = {1: ColmapImage(1, " a.jpg", 1, np.array([1.0, 0, 0, 0]), np.zeros(3))}
    points = ColmapPoints(np.zeros((1, 3)), np.zeros((1, 3), np.uint8), np.zeros(1))
    with pytest.raises(UserError, match="' a.jpg': a text model cannot hold"):
        write_model(tmp_path, cameras, images, points, binary=False)


def spoiled(data, rng):
    """Truncation, flipped bits, overwritten numbers, a repeated stretch, or noise."""
    out, kind = bytearray(data), rng.integers(5)
    at = int(rng.integers(len(out)))
    if kind == 0:
        return bytes(out[:at])
    if kind == 1:
        for i in rng.integers(len(out), size=rng.integers(1, 4)):
            out[i] ^= 1 << rng.integers(8)
        return bytes(out)
    if kind == 2:
        out[at : at + 8] = [b"\xff" * 8, bytes(8), b"\0" * 6 + b"\xf0\x7f", rng.bytes(8)][rng.integers(4)]
        return bytes(out)
    if kind == 3:
        return bytes(out[:at] + out[int(rng.integers(len(out))) :])
    return rng.bytes(at)


@pytest.mark.parametrize("files", [BINARY, TEXT], ids=["binary", "text"])
@pytest.mark.parametrize("part", range(3), ids=["cameras", "images", "points"])
def test_fuzz_gives_a_model_or_a_user_error(model, files, part):
    rng = np.random.default_rng(part)
    name = list(files)[part]
    good = files[name] if isinstance(files[name], bytes) else files[name].encode()
    folder = model(files)
    outcomes, slowest = set(), 0.0
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(500):
                (folder / name).write_bytes(spoiled(good, rng))
                start = time.perf_counter()
                try:
                    _, images, points = read_model(folder)
                    outcomes.add("read")
                    assert np.isfinite(points.xyz).all() and all(np.isfinite(i.w2c).all() for i in images.values())
                except UserError as error:
                    outcomes.add("refused")
                    assert "\n" not in str(error) and str(folder) in str(error)
                slowest = max(slowest, time.perf_counter() - start)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcomes == {"read", "refused"}
    assert slowest < 1.0 and peak < 2_000_000
