"""COLMAP models: bytes packed by hand, the real bonsai model, every kind of damage, fuzzing."""

import re
import struct
from functools import partial

import numpy as np
import pytest

from hardsplat.io.scenes.colmap import (
    CAMERA_MODELS,
    ColmapCamera,
    ColmapImage,
    ColmapPoints,
    model_folder,
    read_model,
    read_tracks,
    write_model,
)
from hardsplat.io.scenes.source import usable
from tests.helpers.spoiling import survives_bytes
from tests.helpers.tables import refusal

CAMERAS = struct.pack("<QIiQQ4d", 2, 7, 1, 640, 480, 500, 510, 320, 240)
CAMERAS += struct.pack("<IiQQ4d", 3, 2, 100, 50, 90, 50, 25, 0.125)
IMAGE_5 = struct.pack("<I4d3dI", 5, 0.5, 0.5, -0.5, 0.5, 1, 2, 3, 7) + b"a/b c.jpg\0"
IMAGE_5 += struct.pack("<Q ddq ddq", 2, 1, 2, -1, 3, 4, 9)
IMAGE_6 = struct.pack("<I4d3dI", 6, 2, 0, 0, 0, -1, 0, 0.1, 3) + "ü.png\0".encode()
IMAGE_6 += struct.pack("<Q", 0)
IMAGES = struct.pack("<Q", 2) + IMAGE_5 + IMAGE_6
POINT_9 = struct.pack("<Q3d3BdQ 4I", 9, 0.1, -2, 3e5, 255, 0, 7, 0.5, 2, 5, 0, 6, 1)
POINT_4 = struct.pack("<Q3d3BdQ", 4, 1, 2, 3, 1, 2, 3, -1, 0)
POINTS = struct.pack("<Q", 2) + POINT_9 + POINT_4
BINARY = {"cameras.bin": CAMERAS, "images.bin": IMAGES, "points3D.bin": POINTS}

TEXT = {
    "cameras.txt": "# a comment\n\n"
    "7 PINHOLE 640 480 500 510 320 240\n3 SIMPLE_RADIAL 100 50 90 50 25 0.125\n",
    "images.txt": "# c\n"
    "5 0.5 0.5 -0.5 0.5 1 2 3 7 a/b c.jpg\n1 2 -1 3 4 9\n# c\n6 2 0 0 0 -1 0 0.1 3 ü.png\n\n",
    "points3D.txt": "9 0.1 -2 3e5 255 0 7 0.5 5 0 6 1\n4 1 2 3 1 2 3 -1\n",
}


@pytest.fixture
def model(tmp_path):
    """model(files) -> a folder with these files; None leaves one out."""

    def write(files):
        for name, content in files.items():
            if content is not None:
                data = content if isinstance(content, bytes) else content.encode()
                (tmp_path / name).write_bytes(data)
        return tmp_path

    return write


@pytest.mark.parametrize("files", [BINARY, TEXT], ids=["binary", "text"])
def test_reads_what_was_packed_by_hand(model, files):
    cameras, images, points = read_model(model(files))
    assert list(cameras) == [7, 3] and list(images) == [5, 6]
    c, i = cameras[7], images[5]
    assert (c.id, c.model, c.width, c.height) == (7, "PINHOLE", 640, 480)
    assert c.params.tolist() == [500, 510, 320, 240]
    assert cameras[3].model == "SIMPLE_RADIAL" and cameras[3].params.tolist() == [90, 50, 25, 0.125]
    assert (i.id, i.name, i.camera_id) == (5, "a/b c.jpg", 7)
    assert (i.qvec.tolist(), i.tvec.tolist()) == ([0.5, 0.5, -0.5, 0.5], [1, 2, 3])
    assert images[6].name == "ü.png" and images[6].camera_id == 3
    assert points.xyz.dtype == np.float64 and points.xyz.tolist() == [[0.1, -2, 3e5], [1, 2, 3]]
    assert points.rgb.dtype == np.uint8 and points.rgb.tolist() == [[255, 0, 7], [1, 2, 3]]


def test_round_trip_is_exact(tmp_path):
    rng = np.random.default_rng(0)
    cameras, images = {}, {}
    for i, (name, (_, _, n)) in enumerate(CAMERA_MODELS.items(), 1):
        cameras[i] = ColmapCamera(i, name, 640, 480, rng.uniform(0.1, 1e3, n))
    for i in range(40):
        pose = rng.normal(size=4), rng.normal(size=3) * 1e5
        images[i] = ColmapImage(i, f"set {i % 3}/ä{i}.jpg", 1 + i % 18, *pose)
    rgb = rng.integers(0, 256, (200, 3), dtype=np.uint8)
    points = ColmapPoints(rng.normal(size=(200, 3)), rgb)
    write_model(tmp_path, cameras, images, points)
    got = read_model(tmp_path)
    for before, after in zip((cameras, images, {0: points}), (*got[:2], {0: got[2]})):
        assert list(before) == list(after)
        for a, b in zip(before.values(), after.values()):
            for field, value in vars(a).items():
                np.testing.assert_array_equal(getattr(b, field), value)
                assert getattr(getattr(b, field), "dtype", 0) == getattr(value, "dtype", 0)
    assert all(part.flags.writeable for part in vars(got[2]).values())


def changed(name, offset, layout, *values):
    """A file with other numbers in it."""
    out = bytearray(BINARY[name])
    struct.pack_into(layout, out, offset, *values)
    return name, bytes(out)


cameras, images, points = (partial(changed, name) for name in BINARY)


def only(file, *parts):
    """That file, of so many records, which follow."""
    return file, struct.pack("<Q", len(parts)) + b"".join(parts)


NAN, INF, HEAD_5, HEAD_6 = float("nan"), float("inf"), IMAGE_5[:64], IMAGE_6[:64]
KEYS_5 = 8 + len(IMAGE_5) - 56  # of its count
ALL, NO_END = 2**64 - 1, "image name at byte 72 does not end"
Q, T, NAME = 8 + 4, 8 + 4 + 32, 8 + 64  # offsets in IMAGES


DAMAGE = {
    "missing file": (("images.bin", None), "not a complete COLMAP model, images.bin not found"),
    "empty file": (("cameras.bin", b""), "cameras.bin: truncated"),
    "truncated image": (("images.bin", IMAGES[:-9]), "images.bin: .*(truncated|does not end)"),
    "truncated key points": (only("images.bin", IMAGE_5[:-1]), "images.bin: truncated"),
    "truncated track": (only("points3D.bin", POINT_9[:-1]), "points3D.bin: truncated"),
    "bytes left over": (("points3D.bin", POINTS + b"x"), "1 bytes follow the last record"),
    "many cameras": (cameras(0, "<Q", 2**63), f"announces {2**63} cameras, too many for its 120"),
    "many points": (points(0, "<Q", ALL), f"announces {ALL} points"),
    "many key points": (images(KEYS_5, "<Q", ALL), "images.bin: truncated"),
    "unterminated name": (only("images.bin", HEAD_5 + b"n" * 99), NO_END),
    "name not UTF-8": (images(NAME, "B", 0xFF), "image name at byte 72 is not UTF-8"),
    "name with a line break": (images(NAME, "B", 10), r"5: name '\\n/b c.jpg' is empty or has"),
    "empty name": (only("images.bin", HEAD_6 + bytes(9)), "image 6: name '' is empty"),
    "NaN rotation": (images(Q, "<d", NAN), r"image 5 \(a/b c.jpg\): its pose has a NaN"),
    "zero quaternion": (images(Q, "<4d", 0, 0, 0, 0), "5 .*: its rotation quaternion is zero"),
    "missing camera": (images(T + 24, "<I", 8), "refers to camera 8, which the cameras file does"),
    "image twice": (only("images.bin", IMAGE_5, IMAGE_5), "image 5 .*: this id appears twice"),
    "no images": (only("images.bin"), "images.bin: holds no images"),
    "unknown model": (cameras(12, "<i", 18), "camera 7: unknown camera model id 18"),
    "camera twice": (cameras(64, "<I", 7), "camera 7 appears twice"),
    "zero width": (cameras(16, "<Q", 0), "camera 7: image size 0x480"),
    "negative focal length": (cameras(32, "<d", -500), "7: focal length -500 is not positive"),
}


@pytest.mark.parametrize("file, message", DAMAGE.values(), ids=DAMAGE)
def test_damaged_binary_is_one_clear_line(model, file, message):
    name, content = file
    folder = model(BINARY | {name: content})
    got = refusal(read_model, folder)
    assert re.search(message, got) and str(folder) in got


FIELDS = "points3D.txt:1: expected `POINT3D_ID X Y Z"
TEXT_DAMAGE = [
    ("cameras", None, "cameras.txt not found"),
    ("images", b"5 \xff\n", "images.txt: not UTF-8 text at byte 2"),
    ("cameras", "7 PINHOLE 640\n", "cameras.txt:1: expected `CAMERA_ID MODEL"),
    ("cameras", "7 PINHOLES 640 480 1 1 1 1\n", "cameras.txt:1: unknown camera model PINHOLES"),
    ("cameras", "7 PINHOLE 640 480 1 1 1\n", "7: PINHOLE has 4 parameters, the file gives 3"),
    ("cameras", "7 PINHOLE -640 480 1 1 1 1\n", "camera 7: image size -640x480"),
    ("images", "5 1 0 0 zero 1 2 3 7 a.jpg\n\n", "images.txt:1: expected `IMAGE_ID QW"),
    ("images", "5 1 0 0 0 1 2 3 7 a\n1 2 -1 3 4\n", "images.txt:2: expected `IMAGE_ID QW"),
    ("images", "5 1 0 0 0 1 2 3 7 a\0b\n\n", "control characters"),
    ("points3D", "9 1 2 3 4 5 6\n", FIELDS),
    ("points3D", "9 1 2 3 4 256 6 0\n", FIELDS),
]


@pytest.mark.parametrize("part, content, message", TEXT_DAMAGE)
def test_damaged_text_is_one_clear_line(model, part, content, message):
    assert message in refusal(read_model, model(TEXT | {f"{part}.txt": content}))


HEADS = [f"{i} 1 0 0 0 1 2 3 7 " for i in range(3)]
NAMES = ["a.jpg", "my photo 1.jpg", "a b c d e f.jpg"]


@pytest.mark.parametrize("lines", ["{}\n", "{}\n\n", "{}\n# c\n1 2 -1 3.5 4e0 9\n", "{}\n\n\n"])
def test_images_with_key_points_and_without(model, lines):
    """Names of three, and six, words make a line of as many words as key points have."""
    text = "".join(lines.format(head + name) for head, name in zip(HEADS, NAMES))
    _, images, _ = read_model(model(TEXT | {"images.txt": text}))
    assert [image.name for image in images.values()] == NAMES


NO_POINTS = [("points3D.bin", None), only("points3D.bin")]


@pytest.mark.parametrize("name, content", NO_POINTS, ids=["no file", "no points"])
def test_models_without_points(model, name, content):
    assert read_model(model(BINARY | {name: content}))[2].xyz.shape == (0, 3)


@pytest.mark.parametrize("files", [BINARY, TEXT], ids=["binary", "text"])
def test_points_that_are_not_finite_are_left_out(model, files):
    """Tracks go on to count all points of the file."""
    for spoilt in (NAN, INF, 1e39):
        name, data = points(8 + 8 + 8, "<d", spoilt)
        if files is TEXT:
            name, data = "points3D.txt", TEXT["points3D.txt"].replace("-2", repr(spoilt))
        folder = model(files | {name: data})
        xyz = read_model(folder)[2].xyz
        assert xyz[usable(xyz)].tolist() == [[1, 2, 3]]
        assert [found.tolist() for found in read_tracks(folder)] == [[0, 0], [5, 6]]


def test_tracks_of_images_that_cannot_be(model):
    folder = model({**TEXT, "points3D.txt": f"1 0 0 0 0 0 0 0.5 {10**30} 0\n"})
    assert len(read_model(folder)[2].xyz) == 1
    assert "points3D.txt:1: expected `POINT3D_ID" in refusal(read_tracks, folder)


def test_points_of_a_ply_beside(model, tmp_path):
    head = "ply\nformat ascii 1.0\nelement vertex 1\n"
    head += "".join(f"property float {axis}\n" for axis in "xyz") + "end_header\n"
    folder = model(BINARY | {"points3D.bin": None, "points3D.ply": f"{head}1 2 3\n"})
    assert read_model(folder)[2].xyz.tolist() == [[1, 2, 3]]
    model(BINARY)
    assert len(read_model(folder)[2].xyz) == 2


def test_the_model_with_most_photographs_is_taken(tmp_path):
    cameras = {1: ColmapCamera(1, "SIMPLE_PINHOLE", 4, 4, np.ones(3))}
    images = [ColmapImage(i, f"{i}.jpg", 1, np.ones(4), np.zeros(3)) for i in range(9)]
    points = ColmapPoints(np.zeros((0, 3)), np.zeros((0, 3), np.uint8))

    def write(name, count):
        write_model(tmp_path / name, cameras, dict(enumerate(images[:count])), points)
        return model_folder(tmp_path)

    sparse = tmp_path / "sparse"
    assert model_folder(tmp_path) is None
    assert write("sparse", 2) == sparse
    assert write("sparse/0", 2) == sparse / "0"  # of two with as many
    assert write("sparse/10", 5) == sparse / "10"
    (sparse / "2").mkdir()
    (sparse / "2" / "cameras.txt").write_text("1 SIMPLE_PINHOLE 4 4 1 1 1\n")
    poses = [f"{i} 1 0 0 0 0 0 0 1 {i}.jpg\n\n" for i in range(7)]
    (sparse / "2" / "images.txt").write_text("".join(poses))
    assert model_folder(tmp_path) == sparse / "2"
    (sparse / "3").mkdir()
    (sparse / "3" / "cameras.bin").write_bytes(b"")
    (sparse / "0" / "images.bin").write_bytes(b"\xff" * 8)  # damaged
    assert model_folder(tmp_path) == sparse / "2"


@pytest.mark.parametrize("files", [BINARY, TEXT], ids=["binary", "text"])
@pytest.mark.parametrize("part", range(3), ids=["cameras", "images", "points"])
def test_fuzz_gives_a_model_or_a_user_error(model, files, part):
    folder = model(files)
    path = folder / list(files)[part]

    def read():
        _, images, points = read_model(folder)
        poses = [image.w2c for image in images.values()]
        assert np.isfinite(points.xyz[usable(points.xyz)]).all() and np.isfinite(poses).all()

    how = dict(seconds=1, memory=2_000_000, warn="error", path=folder)
    survives_bytes(read, path, path.read_bytes(), 500, **how)
