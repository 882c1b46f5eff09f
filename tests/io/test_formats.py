"""Formats of splats: round trips, layouts byte by byte, frames of reference, programs of others."""

import errno
import gzip
import json
import os
import struct
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard

from hardsplat.io.formats import FILE_FORMATS, checkpoint
from hardsplat.io.formats.clusters import scalar_codebook, scalar_labels
from hardsplat.io.formats.frames import rotated, to_ours
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from hardsplat.model.gaussians import SH_C0
from hardsplat.results.model import find_model
from hardsplat.settings.presets import load_config
from hardsplat.settings.train import TrainConfig
from hardsplat.train.run.start import near_plane_of_init
from tests.helpers.splat_files import differences, rotations, some_splats
from tests.helpers.tables import refuses

NONE = dict(means=0, shape=1e-6, opacities=1e-7, sh0=0, shN=0)
LOSS = {  # of some_splats(), about half as much again as measured; formats besides have NONE
    "compressed.ply": dict(means=0.01, shape=0.006, opacities=0.5 / 255, sh0=0.01, shN=0.0095),
    "splat": dict(means=0, shape=0.015, opacities=0.5 / 255, sh0=0.5 / 255 / SH_C0, shN=0),
    "spz": dict(means=2**-10, shape=0.08, opacities=0.5 / 255, sh0=0.5 / 255 / 0.15, shN=0.0095),
    "sog": dict(means=0.0004, shape=0.1, opacities=0.5 / 255, sh0=0.025, shN=0.08),
}


def too_far(g, path, most, slack=1e-7):
    """What the splats of a file have lost of g beyond `most`."""
    found = differences(g, load_splats(path))
    far = {what: (found[what], limit) for what, limit in most.items()}
    return {what: pair for what, pair in far.items() if pair[0] > pair[1] + slack}


@pytest.mark.parametrize("name", [name for name, row in FILE_FORMATS.items() if row.writes])
@pytest.mark.parametrize("degree", range(4))
def test_round_trip(tmp_path, name, degree):
    row = FILE_FORMATS[name]
    g = some_splats(degree=min(degree, row.highest_degree))
    path, again = (tmp_path / f"{letter}{row.suffix}" for letter in "ab")
    save_splats(path, g)
    assert not too_far(g, path, LOSS.get(name, NONE))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    save_splats(again, load_splats(path))
    if not row.morton:
        assert again.stat().st_size == path.stat().st_size
    for value in (True, False):
        save_splats(path, g, antialiased=value)
        assert is_antialiased(path) == (value and row.keeps_filter)


def test_a_name_that_no_format_has(tmp_path):
    (tmp_path / "a.ksplat").write_bytes(b"splats")
    for action in (lambda path: save_splats(path, some_splats(3, 0)), load_splats):
        refuses("a.ksplat: splats (come|are written) as .*ply", action, tmp_path / "a.ksplat")
    refuses("is a folder|Is a directory", load_splats, tmp_path)


def spz_bytes(version, bits=12, degree=1):
    """Two splats, by hand, in SPZ's own axes."""
    means = np.array([[1, -2, 3], [-0.5, 0.25, 1023.5]])
    head = [b"NGSP", version, 2, degree, bits, 1]
    fixed = np.rint(means * 2**bits).astype("<i4")
    positions = b"".join(int(v).to_bytes(3, "little", signed=True) for v in fixed.ravel())
    if version == 1:
        positions = means.astype("<f2").tobytes()
    if version < 3:  # x, y, z of (w, x, y, z) = (.7, .1, -.5, -.5) and (1, 0, 0, 0)
        turns = bytes([round(127.5 + 127.5 * v) for v in (0.1, -0.5, -0.5, 0, 0, 0)])
    else:  # w is the largest: index 3; then x, y, z as sign and 9 bits of the share of sqrt(1/2)
        x, y, z = ((v < 0) << 9 | round(abs(v) / 0.5**0.5 * 511) for v in (0.1, -0.5, -0.5))
        turns = struct.pack("<II", 3 << 30 | x << 20 | y << 10 | z, 3 << 30)
    sh = bytes(range(100, 100 + 3 * [0, 3, 8, 15, 24][degree])) * 2
    opacities, colors, scales = (bytes(v) for v in ([255, 51], [128, 0, 255] * 2, [160, 96, 0] * 2))
    streams = [positions, opacities, colors, scales, turns, sh]
    if version < 4:
        start = struct.pack("<4sIIBBBB", *head, 0)
        return gzip.compress(start + b"".join(streams) + b"vendor's extension")
    extension = b"\x02\x00\xbe\xad\x04\x00\x00\x00abcd"
    streams = [stream for stream in streams if stream]
    packed = [zstandard.compress(stream) for stream in streams]
    table = b"".join(struct.pack("<QQ", len(p), len(s)) for p, s in zip(packed, streams))
    start = struct.pack("<4sIIBBBBI12x", *head, len(packed), 32 + len(extension))
    return start + extension + table + b"".join(packed)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_spz_by_hand(tmp_path, version):
    path, flip = tmp_path / "a.spz", np.diag([1, -1, -1])
    path.write_bytes(spz_bytes(version))
    g = load_splats(path)
    # right, up, back -> right, down, forward
    np.testing.assert_allclose(g.means, [[1, 2, -3], [-0.5, -0.25, -1023.5]])
    np.testing.assert_allclose(g.opacities, [1, 0.2])
    np.testing.assert_allclose(g.scales, np.exp([[0, -4, -10]] * 2), rtol=1e-6)
    color = np.array([0.5 / 255, -0.5, 0.5]) / 0.15
    np.testing.assert_allclose(g.sh[:, 0], [color] * 2, rtol=1e-4)
    # functions y, z, x, of which y and z change sign
    bands = (np.arange(100, 109).reshape(3, 3) - 128) / 128 * [[-1], [-1], [1]]
    np.testing.assert_allclose(g.sh[0, 1:], bands, atol=1e-7)
    turn = flip @ rotations([[0.7, 0.1, -0.5, -0.5]])[0] @ flip
    limit = 0.02 if version < 3 else 0.004
    np.testing.assert_allclose(rotations(g.quats[:1])[0], turn, atol=limit)
    assert is_antialiased(path)
    if version == 4:  # which alone has a fourth band; it is lost
        path.write_bytes(spz_bytes(4, degree=4))
        assert load_splats(path).sh_degree == 3


def test_sog_says_what_its_specification_asks_for(tmp_path):
    save_splats(tmp_path / "a.sog", some_splats(1000, 2))
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        meta = json.loads(archive.read("meta.json"))
        images = [archive.read(name) for name in archive.namelist() if name.endswith(".webp")]
        assert all(image[8:16] == b"WEBPVP8L" for image in images)  # lossless
        files = {f for k in ("means", "scales", "quats", "sh0", "shN") for f in meta[k]["files"]}
        assert files == set(archive.namelist()) - {"meta.json"}
    assert meta["version"] == 2 and meta["count"] == 1000 and meta["shN"]["bands"] == 2
    assert {len(meta[name]["codebook"]) for name in ("scales", "sh0", "shN")} == {256}


def glb_bytes(gltf, binary):
    text = json.dumps(gltf).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(binary))
    parts = (text, 0x4E4F534A), (binary, 0x004E4942)
    return head + b"".join(struct.pack("<II", len(data), kind) + data for data, kind in parts)


def read_glb(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 12)
    return json.loads(data[20 : 20 + length]), data[28 + length :]


SPLATTING = "KHR_gaussian_splatting"
KIND = {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}


def test_labels_are_those_of_the_nearest_entry():
    values = np.random.default_rng(0).normal(size=(7000, 3)).astype(np.float32)
    book = scalar_codebook(values, 256)
    far = np.abs(values[..., None] - book).min(axis=-1)
    np.testing.assert_allclose(np.abs(values - book[scalar_labels(values, book)]), far, atol=1e-6)


def test_glb_says_what_its_specification_asks_for(tmp_path):
    g, path = some_splats(100, 1), tmp_path / "a.glb"
    save_splats(path, g)
    gltf, binary = read_glb(path)
    primitive = gltf["meshes"][0]["primitives"][0]
    assert gltf["asset"]["version"] == "2.0" and gltf["extensionsUsed"] == [SPLATTING]
    assert primitive["mode"] == 0 and primitive["extensions"][SPLATTING].items() >= KIND.items()
    assert len(binary) == gltf["buffers"][0]["byteLength"]
    assert all(v["byteOffset"] % 4 == 0 for v in gltf["bufferViews"])
    position = gltf["accessors"][primitive["attributes"]["POSITION"]]
    flipped = g.means * [-1, -1, 1]  # right, down, forward -> left, up, forward
    assert position["min"] == flipped.min(axis=0).tolist()
    assert position["max"] == flipped.max(axis=0).tolist()
    positions = np.frombuffer(binary, "<f4", 300).reshape(100, 3)
    np.testing.assert_array_equal(positions, flipped)
    data = path.read_bytes()
    assert len(data) == struct.unpack_from("<I", data, 8)[0]


def nested_glb() -> tuple[dict, bytes]:
    """Two nodes share a mesh: interleaved rows, rotations and opacities as integers."""
    table = np.zeros(2, [("position", "<f4", 3), ("opacity", "<u2"), ("pad", "<u2")])
    table["position"], table["opacity"] = [[1, 2, 3], [4, 5, 6]], [65535, 13107]
    turns = np.array([[0, 0, 0, 127], [0, 0, 90, 90]], "i1")  # xyzw: none, and a quarter about z
    scales = np.array([[1, 2, 3], [1, 1, 1]], "<f4")
    binary = table.tobytes() + turns.tobytes() + scales.tobytes() + COLORS.tobytes()
    views = [(0, 32), (32, 8), (40, 48)]
    views = [dict(buffer=0, byteOffset=at, byteLength=length) for at, length in views]
    views[0]["byteStride"] = 16
    accessors = {  # view, offset, type of components, shape
        "POSITION": (0, 0, 5126, "VEC3"),
        f"{SPLATTING}:OPACITY": (0, 12, 5123, "SCALAR"),
        f"{SPLATTING}:ROTATION": (1, 0, 5120, "VEC4"),
        f"{SPLATTING}:SCALE": (2, 0, 5126, "VEC3"),
        f"{SPLATTING}:SH_DEGREE_0_COEF_0": (2, 24, 5126, "VEC3"),
    }
    names = {name: i for i, name in enumerate(accessors)}
    keys = "bufferView byteOffset componentType type".split()
    rows = [dict(zip(keys, row), count=2) for row in accessors.values()]
    rows[1]["normalized"] = rows[2]["normalized"] = True
    nodes = [
        dict(children=[1], translation=[10, 0, 0]),
        dict(mesh=0, scale=[2, 2, 2]),
        dict(mesh=0, rotation=[0, 0, 0.5**0.5, 0.5**0.5]),
    ]
    primitive = dict(attributes=names, mode=0, extensions={SPLATTING: dict(KIND)})
    gltf = dict(asset={"version": "2.0"}, scene=0, scenes=[dict(nodes=[0, 2])], nodes=nodes)
    gltf |= dict(meshes=[dict(primitives=[primitive])], accessors=rows, bufferViews=views)
    return gltf | dict(buffers=[dict(byteLength=len(binary))]), binary


COLORS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], "<f4")


def test_glb_with_nodes_quantized_and_interleaved_attributes(tmp_path):
    path = tmp_path / "a.glb"
    path.write_bytes(glb_bytes(*nested_glb()))
    g = rotated(load_splats(path), to_ours("LUF").T)  # as the file has it
    means = [[-2, 1, 3], [-5, 4, 6], [12, 4, 6], [18, 10, 12]]
    np.testing.assert_allclose(g.means, means, atol=1e-5)
    np.testing.assert_allclose(g.opacities, [1, 0.2, 1, 0.2], atol=1e-6)
    scales = [[1, 2, 3], [1, 1, 1], [2, 4, 6], [2, 2, 2]]
    np.testing.assert_allclose(g.scales, scales, rtol=1e-5)
    quarter = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    turns = [quarter, quarter @ quarter, np.eye(3), quarter]
    np.testing.assert_allclose(rotations(g.quats), turns, atol=0.01)
    np.testing.assert_allclose(g.sh[:, 0], [*COLORS, *COLORS], atol=1e-6)


def test_checkpoints_of_training_are_read_and_their_run_is_found(tmp_path):
    g = some_splats(50, 1)
    path = checkpoint.path_of(tmp_path, 7)
    checkpoint.save(path, checkpoint.Checkpoint.initial(g, 1))
    assert max(differences(g, load_splats(path)).values()) < 1e-6
    (tmp_path / "config.toml").write_text("max_steps = 7\n")
    file, config = find_model(path)
    assert file == path and config.run.max_steps == 7
    refuses("interrupted run without splats.ply", find_model, tmp_path)
    save_splats(tmp_path / "alone.spz", g, antialiased=True)
    (tmp_path / "config.toml").unlink()
    assert find_model(tmp_path / "alone.spz")[1].raster.antialiased


@pytest.mark.parametrize("unit, near", [(1.0, 0.01), (1e-2, 1e-5)])
def test_splats_of_small_units_have_a_near_plane_of_their_size(tmp_path, unit, near):
    g, path = some_splats(50, 1), tmp_path / "alone.ply"
    distances = np.linalg.norm(g.means - np.median(g.means, axis=0), axis=1)
    means = (unit * 1.001 / np.quantile(distances, 0.8) * g.means).astype(np.float32)
    save_splats(path, replace(g, means=means, opacities=np.full_like(g.opacities, 0.5)))
    assert find_model(path)[1].scene.near_plane == near
    begun = near_plane_of_init(TrainConfig(), path)  # by a training
    assert begun == (None if unit == 1 else (1e-5, f"{path} has splats in small units"))
    assert near_plane_of_init(load_config(None, {"near_plane": 0.2}), path) is None
    (tmp_path / "config.toml").write_text("near_plane = 0.2\n")  # a run knows its own
    assert find_model(path)[1].scene.near_plane == 0.2


def test_result_folders_of_other_trainers_are_told_by_their_splats(tmp_path):
    for iteration, time in ((30000, 2), (7000, 1)):
        path = tmp_path / f"point_cloud/iteration_{iteration}/point_cloud.ply"
        save_splats(path, some_splats(5, 0))
        os.utime(path, (time, time))
    save_splats(tmp_path / "input.ply", some_splats(5, 0))
    refuses("there is .*iteration_30000/point_cloud.ply: name that", find_model, tmp_path)


@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".splat", ".spz", ".sog"])
def test_splat_transform_reads_what_we_write(tmp_path, suffix, splat_transform):
    path, theirs = tmp_path / f"a{suffix}", tmp_path / "theirs.ply"
    save_splats(path, some_splats(700, 1))
    splat_transform(path, theirs)
    found = differences(load_splats(path), load_splats(theirs))
    # It decodes rotations of .splat by 255 steps where the original has 256.
    assert max(found.values()) < (0.02 if suffix == ".splat" else 1e-5), found


@pytest.mark.parametrize("suffix", [".compressed.ply", ".spz", ".sog", ".glb"])
def test_we_read_what_splat_transform_writes(tmp_path, suffix, splat_transform):
    g = some_splats(700, 1)
    save_splats(tmp_path / "a.ply", g)
    splat_transform(tmp_path / "a.ply", tmp_path / f"theirs{suffix}")
    most = dict(means=0.02, shape=0.1, opacities=0.005, sh0=0.03, shN=0.08)
    most = NONE if suffix == ".glb" else most
    assert not too_far(g, tmp_path / f"theirs{suffix}", most, 1e-6)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_spz_of_a_folder_that_cannot_be_written(tmp_path, monkeypatch, version):
    path, make = tmp_path / "a.spz", tempfile.TemporaryFile
    path.write_bytes(spz_bytes(version))
    wanted = load_splats(path)

    def refused(*args, dir=None, **how):
        if dir is not None and Path(dir) == tmp_path:
            raise OSError(errno.EROFS, "Read-only file system")
        return make(*args, dir=dir, **how)

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    assert np.array_equal(load_splats(path).means, wanted.means)
