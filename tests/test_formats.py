"""Formats of splats: what a round trip loses, layouts built here byte by byte, frames of reference, and programs that others wrote."""

import gzip
import json
import logging
import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hardsplat.errors import UserError
from hardsplat.gaussians import SH_C0, Gaussians
from hardsplat.io.formats import FILE_FORMATS, readable, writable
from hardsplat.io.formats.base import even, in_memory
from hardsplat.io.formats.clusters import Palette, scalar_codebook, scalar_labels
from hardsplat.io.frames import UPS, quaternion, rotated, to_ours, upright
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from tests.oracle import sh as harmonics
from tests.splat_files import covariances, differences, rotations, some_splats

NONE = dict(means=0, shape=1e-6, opacities=1e-7, sh0=0, shN=0)
LOSS = {  # of some_splats(), about half as much again as measured
    "ply": NONE,
    "npz": NONE,
    "glb": NONE,
    "compressed.ply": dict(means=0.01, shape=0.006, opacities=0.5 / 255, sh0=0.01, shN=0.0095),
    "splat": dict(means=0, shape=0.015, opacities=0.5 / 255, sh0=0.5 / 255 / SH_C0, shN=0),
    "spz": dict(means=2**-10, shape=0.08, opacities=0.5 / 255, sh0=0.5 / 255 / 0.15, shN=0.0095),
    "sog": dict(means=0.0004, shape=0.1, opacities=0.5 / 255, sh0=0.025, shN=0.08),
}


@pytest.mark.parametrize("name, degree", [(name, 0 if name == "splat" else degree) for name in LOSS for degree in ((1,) if name == "splat" else (0, 1, 2, 3))])
def test_round_trip(tmp_path, name, degree):
    g, path = some_splats(degree=degree), tmp_path / f"a{FILE_FORMATS[name].suffix}"
    save_splats(path, g)
    found = differences(g, load_splats(path))
    assert not {what: (found[what], most) for what, most in LOSS[name].items() if found[what] > most + 1e-7}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    again = tmp_path / f"b{FILE_FORMATS[name].suffix}"
    save_splats(again, load_splats(path))
    if LOSS[name] is NONE or name == "splat":
        assert again.stat().st_size == path.stat().st_size


def test_every_format_that_is_written_is_tested_and_read():
    assert set(LOSS) == {name for name, row in FILE_FORMATS.items() if row.writes}
    assert readable() == [".ply", ".npz", ".splat", ".spz", ".sog", ".glb"] and ".compressed.ply" in writable()


@pytest.mark.parametrize("name", [name for name, row in FILE_FORMATS.items() if row.writes])
def test_antialiased_is_kept_where_the_format_can(tmp_path, name):
    path = tmp_path / f"a{FILE_FORMATS[name].suffix}"
    for value in (True, False):
        save_splats(path, some_splats(5, 0), antialiased=value)
        assert is_antialiased(path) == (value and FILE_FORMATS[name].keeps_filter)


def test_one_splat_and_equal_splats(tmp_path):
    """The smallest files, and those in which all bounds are of no extent."""
    for n in (1, 300):
        g = some_splats(1, 2)
        g = Gaussians(*(np.repeat(v, n, axis=0) for v in (g.means, g.quats, g.scales, g.opacities, g.sh)))
        for suffix in writable():
            save_splats(tmp_path / f"a{suffix}", g)
            back = load_splats(tmp_path / f"a{suffix}")
            assert len(back) == n and np.abs(back.means - g.means).max() < 0.01 and np.abs(back.opacities - g.opacities).max() < 0.01
            np.testing.assert_allclose(covariances(back), covariances(g), atol=0.2 * covariances(g).max())


def test_a_name_that_no_format_has(tmp_path):
    for action in (lambda path: save_splats(path, some_splats(3, 0)), load_splats):
        with pytest.raises(UserError, match="a.ksplat: splats (come|are written) as .*ply"):
            action(tmp_path / "a.ksplat")
    with pytest.raises(UserError, match="is a folder|Is a directory"):
        load_splats(tmp_path)


# -- SPZ


def spz_bytes(version, bits=12, degree=1):
    """Two splats, by hand. Returns the file and what is in it, in SPZ's own axes."""
    means = np.array([[1, -2, 3], [-0.5, 0.25, 1023.5]])
    head = [b"NGSP", version, 2, degree, bits, 1]
    fixed = np.rint(means * 2**bits).astype("<i4")
    positions = means.astype("<f2").tobytes() if version == 1 else b"".join(int(v).to_bytes(3, "little", signed=True) for v in fixed.ravel())
    if version < 3:  # x, y, z of (w, x, y, z) = (.7, .1, -.5, -.5) and (1, 0, 0, 0)
        turns = bytes([round(127.5 + 127.5 * v) for v in (0.1, -0.5, -0.5, 0, 0, 0)])
    else:  # the largest of x, y, z, w is w: index 3; then x, y, z as sign and 9 bits of the share of sqrt(1/2)
        fields = [(v < 0) << 9 | round(abs(v) / 0.5**0.5 * 511) for v in (0.1, -0.5, -0.5)]
        turns = struct.pack("<II", 3 << 30 | fields[0] << 20 | fields[1] << 10 | fields[2], 3 << 30)
    coefficients = [0, 3, 8, 15, 24][degree]
    sh = bytes(range(100, 100 + 3 * coefficients)) * 2
    streams = [positions, bytes([255, 51]), bytes([128, 0, 255] * 2), bytes([160, 96, 0] * 2), turns, sh]
    if version < 4:
        return gzip.compress(struct.pack("<4sIIBBBB", *head, 0) + b"".join(streams) + b"vendor's extension")
    import zstandard

    extension = b"\x02\x00\xbe\xad\x04\x00\x00\x00abcd"
    packed = [zstandard.compress(s) for s in streams if s]
    table = b"".join(struct.pack("<QQ", len(p), len(s)) for p, s in zip(packed, [s for s in streams if s]))
    return struct.pack("<4sIIBBBBI12x", *head, len(packed), 32 + len(extension)) + extension + table + b"".join(packed)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_spz_by_hand(tmp_path, version):
    (tmp_path / "a.spz").write_bytes(spz_bytes(version))
    g = load_splats(tmp_path / "a.spz")
    np.testing.assert_allclose(g.means, [[1, 2, -3], [-0.5, -0.25, -1023.5]])  # right, up, back -> right, down, forward
    np.testing.assert_allclose(g.opacities, [1, 0.2])
    np.testing.assert_allclose(g.scales, np.exp([[0, -4, -10]] * 2), rtol=1e-6)
    np.testing.assert_allclose(g.sh[:, 0], [[0.5 / 255 / 0.15, -0.5 / 0.15, 0.5 / 0.15]] * 2, rtol=1e-4)
    bands = (np.arange(100, 109).reshape(3, 3) - 128) / 128  # functions y, z, x, of which y and z change sign
    np.testing.assert_allclose(g.sh[0, 1:], bands * [[-1], [-1], [1]], atol=1e-7)
    turn = rotations([[0.7, 0.1, -0.5, -0.5]])[0]
    flip = np.diag([1, -1, -1])
    np.testing.assert_allclose(rotations(g.quats[:1])[0], flip @ turn @ flip, atol=0.02 if version < 3 else 0.004)
    assert is_antialiased(tmp_path / "a.spz")


def test_spz_of_degree_4_loses_that_band(tmp_path):
    (tmp_path / "a.spz").write_bytes(spz_bytes(4, degree=4))
    assert load_splats(tmp_path / "a.spz").sh_degree == 3


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_spz_of_scenes_in_other_units(tmp_path, unit):
    g = some_splats(500, 0)
    g = Gaussians(g.means * unit, g.quats, g.scales * min(unit, 100), g.opacities, g.sh)
    save_splats(tmp_path / "a.spz", g)
    back = load_splats(tmp_path / "a.spz")
    off = np.abs(back.means[:, None] - g.means).max(axis=2).min(axis=0)
    assert off.max() <= max(np.abs(g.means).max() * 2**-22, np.quantile(g.scales, 0.05) / 8)


# -- SOG


def test_codebook_keeps_the_ends_and_the_many():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 0.1, 20_000), [-3, 7, 7.1]])
    book = scalar_codebook(values, 128)
    error = np.abs(book[scalar_labels(values, book)] - values)
    assert (np.diff(book) >= 0).all() and error.max() < 0.06 and np.sqrt((error**2).mean()) < 0.02


def test_palette_finds_clusters_and_its_own_entries():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(500, 9)).astype(np.float32)
    palette = Palette(np.repeat(centres, 20, axis=0), 2000)
    assert len(palette.entries) <= 2000
    np.testing.assert_allclose(palette.entries[palette.labels(centres)], centres, atol=1e-5)
    noise = rng.normal(size=(8000, 9)).astype(np.float32)  # nothing to find: still better than the nearest of as many samples
    palette = Palette(noise, 1000)
    error = ((palette.entries[palette.labels(noise)] - noise) ** 2).sum(axis=1).mean()
    exact = min(((palette.entries[None] - v) ** 2).sum(axis=2).min() for v in noise[:1])
    assert error < 0.3 * 9 and exact <= ((palette.entries[palette.labels(noise[:1])] - noise[:1]) ** 2).sum() + 1e-5


def test_sog_says_what_its_specification_asks_for(tmp_path):
    save_splats(tmp_path / "a.sog", some_splats(1000, 2))
    with zipfile.ZipFile(tmp_path / "a.sog") as archive:
        meta = json.loads(archive.read("meta.json"))
        assert {name for files in (meta[k]["files"] for k in ("means", "scales", "quats", "sh0", "shN")) for name in files} == set(archive.namelist()) - {"meta.json"}
        assert all(archive.read(name)[8:16] == b"WEBPVP8L" for name in archive.namelist() if name.endswith(".webp"))  # lossless
    assert meta["version"] == 2 and meta["count"] == 1000 and meta["shN"]["bands"] == 2
    assert len(meta["scales"]["codebook"]) == len(meta["sh0"]["codebook"]) == len(meta["shN"]["codebook"]) == 256


# -- GLB


def glb_bytes(gltf, binary):
    text = json.dumps(gltf).encode()
    text += b" " * (-len(text) % 4)
    return struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(binary), len(text), 0x4E4F534A) + text + struct.pack("<II", len(binary), 0x004E4942) + binary


def read_glb(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 12)
    return json.loads(data[20 : 20 + length]), data[28 + length :]


def test_glb_says_what_its_specification_asks_for(tmp_path):
    g = some_splats(100, 1)
    save_splats(tmp_path / "a.glb", g)
    gltf, binary = read_glb(tmp_path / "a.glb")
    primitive = gltf["meshes"][0]["primitives"][0]
    assert gltf["asset"]["version"] == "2.0" and gltf["extensionsUsed"] == ["KHR_gaussian_splatting"] and primitive["mode"] == 0
    assert primitive["extensions"]["KHR_gaussian_splatting"].items() >= {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}.items()
    assert len(binary) == gltf["buffers"][0]["byteLength"] and all(v["byteOffset"] % 4 == 0 for v in gltf["bufferViews"])
    position = gltf["accessors"][primitive["attributes"]["POSITION"]]
    flipped = g.means * [-1, -1, 1]  # right, down, forward -> left, up, forward
    assert position["min"] == flipped.min(axis=0).tolist() and position["max"] == flipped.max(axis=0).tolist()
    np.testing.assert_array_equal(np.frombuffer(binary, "<f4", 300).reshape(100, 3), flipped)
    assert (tmp_path / "a.glb").stat().st_size == struct.unpack_from("<I", (tmp_path / "a.glb").read_bytes(), 8)[0]


def test_glb_with_nodes_quantized_and_interleaved_attributes(tmp_path):
    """A scene of two nodes that share a mesh: positions and opacities in rows of one view, rotations and opacities normalized integers."""
    table = np.zeros(2, [("position", "<f4", 3), ("opacity", "<u2"), ("pad", "<u2")])
    table["position"], table["opacity"] = [[1, 2, 3], [4, 5, 6]], [65535, 13107]
    turns = np.array([[0, 0, 0, 127], [0, 0, 90, 90]], "i1")  # xyzw: none, and a quarter about z
    scales, colors = np.array([[1, 2, 3], [1, 1, 1]], "<f4"), np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], "<f4")
    binary = table.tobytes() + turns.tobytes() + scales.tobytes() + colors.tobytes()
    views = [dict(buffer=0, byteOffset=0, byteLength=32, byteStride=16), dict(buffer=0, byteOffset=32, byteLength=8), dict(buffer=0, byteOffset=40, byteLength=48)]
    accessors = [
        dict(bufferView=0, componentType=5126, count=2, type="VEC3"), dict(bufferView=0, byteOffset=12, componentType=5123, normalized=True, count=2, type="SCALAR"),
        dict(bufferView=1, componentType=5120, normalized=True, count=2, type="VEC4"), dict(bufferView=2, componentType=5126, count=2, type="VEC3"),
        dict(bufferView=2, byteOffset=24, componentType=5126, count=2, type="VEC3"),
    ]  # fmt: skip
    names = dict(zip(("POSITION", *(f"KHR_gaussian_splatting:{n}" for n in ("OPACITY", "ROTATION", "SCALE", "SH_DEGREE_0_COEF_0"))), range(5)))
    primitive = dict(attributes=names, mode=0, extensions={"KHR_gaussian_splatting": {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}})
    nodes = [
        dict(children=[1], translation=[10, 0, 0]),
        dict(mesh=0, scale=[2, 2, 2]),
        dict(mesh=0, rotation=[0, 0, 0.5**0.5, 0.5**0.5]),
    ]
    gltf = dict(
        asset={"version": "2.0"},
        scene=0,
        scenes=[dict(nodes=[0, 2])],
        nodes=nodes,
        meshes=[dict(primitives=[primitive])],
        accessors=accessors,
        bufferViews=views,
        buffers=[dict(byteLength=len(binary))],
    )
    path = tmp_path / "a.glb"
    path.write_bytes(glb_bytes(gltf, binary))
    g = load_splats(path)
    g = rotated(g, to_ours("LUF").T)  # as the file has it
    np.testing.assert_allclose(g.means, [[-2, 1, 3], [-5, 4, 6], [12, 4, 6], [18, 10, 12]], atol=1e-5)
    np.testing.assert_allclose(g.opacities, [1, 0.2, 1, 0.2], atol=1e-6)
    np.testing.assert_allclose(g.scales, [[1, 2, 3], [1, 1, 1], [2, 4, 6], [2, 2, 2]], rtol=1e-5)
    quarter = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    for found, wanted in zip(rotations(g.quats), (quarter, np.array(quarter) @ quarter, np.eye(3), quarter)):
        np.testing.assert_allclose(found, wanted, atol=0.01)
    np.testing.assert_allclose(g.sh[:, 0], [*colors, *colors], atol=1e-6)

    for change, words in (
        (lambda: nodes[1].update(scale=[1, 2, 1]), "a node mirrors, shears or stretches its splats"),
        (lambda: nodes[1].update(scale=[1, 1, -1]), "a node mirrors, shears or stretches its splats"),
        (lambda: nodes[0].update(children=[1, 1]), "node 1 is there twice"),
        (lambda: gltf["buffers"][0].update(uri="/etc/passwd"), "lies in another file"),
        (
            lambda: primitive["extensions"]["KHR_gaussian_splatting"].update(extensions={"KHR_gaussian_splatting_compression_spz_2": {}}),
            "compressed by KHR_gaussian_splatting_compression_spz_2",
        ),
    ):
        kept = json.loads(json.dumps(gltf))
        change()
        path.write_bytes(glb_bytes(gltf, binary))
        with pytest.raises(UserError, match=words):
            load_splats(path)
        gltf.update(kept)
        nodes, primitive = gltf["nodes"], gltf["meshes"][0]["primitives"][0]


# -- checkpoints


def test_checkpoints_of_training_are_read_and_their_run_is_found(tmp_path):
    from hardsplat.io.formats import checkpoint
    from hardsplat.train.result import find_model

    g = some_splats(50, 1)
    path = checkpoint.path_of(tmp_path, 7)
    checkpoint.save(path, checkpoint.Checkpoint.initial(g, 1))
    assert max(differences(g, load_splats(path)).values()) < 1e-6
    (tmp_path / "config.toml").write_text("max_steps = 7\n")
    file, config = find_model(path)
    assert file == path and config.max_steps == 7
    with pytest.raises(UserError, match="interrupted run without splats.ply"):
        find_model(tmp_path)
    save_splats(tmp_path / "alone.spz", g, antialiased=True)
    (tmp_path / "config.toml").unlink()
    assert find_model(tmp_path / "alone.spz")[1].antialiased


def test_files_made_of_a_checkpoint_leave_those_of_the_last_step_alone(tmp_path):
    from hardsplat.train.result import home_of, run_of

    run = tmp_path / "run"
    checkpoint, earlier, last, alone = run / "ckpts" / "ckpt_7.npz", run / "splats_7.ply", run / "splats.ply", tmp_path / "a.ply"
    run.mkdir()
    (run / "config.toml").touch()
    assert [home_of(file) for file in (checkpoint, earlier, last, alone)] == [run / "ckpt_7", run / "splats_7", run, tmp_path]
    assert [run_of(file) for file in (checkpoint, earlier, last, alone)] == [run, run, run, tmp_path]


# -- frames


def test_rotated_splats_look_the_same_from_a_camera_that_turned_along():
    g = some_splats(20, 3, seed=1)
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turns = [turn * np.linalg.det(turn), to_ours("RUB"), to_ours("LUF"), *map(upright, UPS)]
    directions = rng.normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for R in turns:
        assert np.allclose(R @ R.T, np.eye(3)) and np.isclose(np.linalg.det(R), 1)
        np.testing.assert_allclose(rotations(quaternion(R)[None])[0], R, atol=1e-12)
        out = rotated(g, R)
        np.testing.assert_allclose(out.means, g.means @ R.T, atol=1e-5)
        np.testing.assert_allclose(covariances(out), R @ covariances(g) @ R.T, atol=1e-6)
        before, after = harmonics.basis(directions, 3), harmonics.basis(directions @ R.T, 3)
        np.testing.assert_allclose(np.einsum("nk,nkc->nc", after, out.sh), np.einsum("nk,nkc->nc", before, g.sh), atol=1e-5)
        back = rotated(out, R.T)
        np.testing.assert_allclose(back.sh, g.sh, atol=1e-6)


def test_up_goes_up():
    for up, axis in UPS.items():
        np.testing.assert_allclose(upright(up) @ axis, [0, -1, 0], atol=1e-12)
    assert {name: to_ours(name)[:, 1].tolist() for name in ("RUB", "LUF", "RDF")} == {"RUB": [0, -1, 0], "LUF": [0, -1, 0], "RDF": [0, 1, 0]}


# -- readers and writers that others wrote


@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".spz"])
def test_gsply_reads_what_we_write(tmp_path, suffix):
    gsply = pytest.importorskip("gsply", reason="another reader of these formats: pip install -e '.[test]'")
    path = tmp_path / f"a{suffix}"
    save_splats(path, some_splats(700, 2))
    ours = load_splats(path)
    theirs = gsply.read_spz(path) if suffix == ".spz" else gsply.plyread(str(path))
    sh = np.concatenate([theirs.sh0[:, None], theirs.shN.reshape(len(ours), -1, 3)], axis=1)
    g = Gaussians.from_parameters(theirs.means, theirs.quats, theirs.scales, theirs.opacities, sh)
    g = rotated(g, to_ours(FILE_FORMATS["spz" if suffix == ".spz" else "ply"].frame))
    for name in ("means", "opacities", "sh"):
        np.testing.assert_allclose(getattr(g, name), getattr(ours, name), atol=3e-6)
    np.testing.assert_allclose(covariances(g), covariances(ours), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("suffix, options", [(".ply", {}), (".spz", {"version": 3}), (".spz", {"version": 4})])
def test_we_read_what_gsply_writes(tmp_path, suffix, options):
    gsply = pytest.importorskip("gsply", reason="another writer of these formats: pip install -e '.[test]'")
    g, path = some_splats(700, 2), tmp_path / f"a{suffix}"
    plane = rotated(g, to_ours("RUB").T) if suffix == ".spz" else g
    save_splats(tmp_path / "original.ply", plane)
    data = gsply.plyread(str(tmp_path / "original.ply"))
    gsply.write_spz(path, data, **options) if suffix == ".spz" else data.save(str(path), **options)
    found = differences(g, load_splats(path))
    most = dict(means=0.03, shape=0.09, opacities=0.003, sh0=0.02, shN=0.04) if suffix != ".ply" else dict(NONE, opacities=1e-6)
    assert not {what: (found[what], limit) for what, limit in most.items() if found[what] > limit + 1e-7}


def splat_transform(*words):
    """Runs PlayCanvas's program; skips where it is not installed."""
    program = os.environ.get("SPLAT_TRANSFORM") or shutil.which("splat-transform")
    if not program or not Path(program).exists():
        pytest.skip("another program for these formats: npm install -g @playcanvas/splat-transform, or SPLAT_TRANSFORM=.../bin/cli.mjs")
    command = ["node", program] if program.endswith("js") else [program]
    done = subprocess.run([*command, "-q", "-w", "-g", "cpu", *map(str, words)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".splat", ".spz", ".sog"])
def test_splat_transform_reads_what_we_write(tmp_path, suffix):
    save_splats(tmp_path / f"a{suffix}", some_splats(700, 1))
    splat_transform(tmp_path / f"a{suffix}", tmp_path / "theirs.ply")
    found = differences(load_splats(tmp_path / f"a{suffix}"), load_splats(tmp_path / "theirs.ply"))
    assert max(found.values()) < (0.02 if suffix == ".splat" else 1e-5), found  # it decodes rotations of .splat by 255 steps where the original has 256


@pytest.mark.parametrize("suffix", [".compressed.ply", ".spz", ".sog", ".glb"])
def test_we_read_what_splat_transform_writes(tmp_path, suffix):
    g = some_splats(700, 1)
    save_splats(tmp_path / "a.ply", g)
    splat_transform(tmp_path / "a.ply", tmp_path / f"theirs{suffix}")
    found = differences(g, load_splats(tmp_path / f"theirs{suffix}"))
    most = NONE if suffix == ".glb" else dict(means=0.02, shape=0.1, opacities=0.005, sh0=0.03, shN=0.08)
    assert not {what: (found[what], limit) for what, limit in most.items() if found[what] > limit + 1e-6}


def test_three_js_reads_our_glb(tmp_path):
    """Positions, covariances, colours and opacities, in glTF's axes."""
    three = os.environ.get("THREE_JS")
    if not three or not shutil.which("node"):
        pytest.skip("another program for .glb: npm install three, then THREE_JS=.../node_modules/three")
    g = some_splats(300, 1)
    save_splats(tmp_path / "a.glb", g)
    done = subprocess.run(["node", Path(__file__).with_name("three_splats.mjs"), three, tmp_path / "a.glb"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    theirs = {name: np.array(values).reshape(-1, size) for name, (size, values) in json.loads(done.stdout).items()}
    turn = np.diag([-1.0, -1, 1])  # right, down, forward -> left, up, forward
    np.testing.assert_allclose(theirs["position"], g.means @ turn, atol=1e-6)
    axes = turn @ rotations(g.quats) * g.scales[:, None]
    wanted = (axes @ axes.transpose(0, 2, 1))[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    np.testing.assert_allclose(theirs["covariance"], wanted, atol=1e-5 * wanted.max())
    colors = np.concatenate([0.5 + SH_C0 * g.sh[:, 0], g.opacities[:, None]], axis=1)
    assert np.abs(theirs["color"] - 255 * colors.clip(0, 1)).max() < 1.01


def test_what_is_left_out_is_said_alike_for_all_formats(tmp_path, caplog):
    for name, row in FILE_FORMATS.items():
        if row.writes and name not in ("spz", "sog", "compressed.ply"):  # whose codes cannot say NaN
            g = some_splats(4, 0)
            g.means[1], g.scales[2] = np.nan, np.inf
            path = tmp_path / f"a{row.suffix}"
            with np.errstate(all="ignore"):
                row.write(path, in_memory(g))
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert len(load_splats(path)) == 2
            assert caplog.records[0].getMessage() == f"{path}: left out 2 of 4 splats: 1 with NaN or infinite numbers, 1 with scales that are NaN or beyond float32"


def test_rows_and_pieces_keep_every_splat():
    g = some_splats(1000, 0)
    pieces = list(even((g[slice(a, b)] for a, b in ((0, 3), (3, 3), (3, 700), (700, 1000))), 256))
    assert [len(p) for p in pieces] == [256, 256, 256, 232]
    np.testing.assert_array_equal(Gaussians.concatenate(pieces).means, g.means)
