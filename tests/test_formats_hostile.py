"""Damaged and hostile files of splats: every reader gives splats or a UserError of one line, soon, and takes no memory for what is not there."""

import gzip
import io
import json
import logging
import struct
import time
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from hardsplat.errors import UserError
from hardsplat.io.formats import FILE_FORMATS
from hardsplat.io.splats import load_splats, save_splats
from tests.splat_files import some_splats
from tests.test_formats import spz_bytes

MEMORY = 30_000_000  # bytes; the largest of the files has 6 000


def refusal(path):
    with pytest.raises(UserError) as caught:
        load_splats(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return str(caught.value)


# -- mutations, from within the packing


def flipped(data, rng):
    """`data` with some bytes changed, cut, doubled, or numbers in a text replaced."""
    out, at = bytearray(data), int(rng.integers(len(data)))
    match rng.integers(5):
        case 0:
            for i in rng.integers(len(out), size=rng.integers(1, 4)):
                out[i] ^= 1 << rng.integers(8)
        case 1:
            out[at] = rng.choice(list(b" \n0123456789-e.,:{}[]()'\"\x00\xff"))
        case 2:
            out = out[:at]
        case 3:
            out = out[:at] + out[int(rng.integers(len(out))) :]
        case 4:
            size = int(rng.choice([1, 4, 8]))
            out[at : at + size] = int(rng.choice([0, 1, 255, 2**31 - 1, 2**32 - 1])).to_bytes(8, "little")[:size]
    return bytes(out)


def head_first(data, rng, head=200):
    """Mutates the beginning, which parsers act on, twice as often as the rest."""
    return flipped(data[:head], rng) + data[head:] if rng.integers(3) else flipped(data, rng)


def rezipped(data, rng):
    """The archive with one member mutated, or another compression, and checksums right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    kind = rng.integers(10)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = members[str(rng.choice(list(members)))]
    else:
        members[name] = head_first(members[name], rng, 128)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue() if rng.integers(8) else flipped(out.getvalue(), rng)


def regzipped(data, rng):
    return gzip.compress(head_first(gzip.decompress(data), rng, 16), 1) if rng.integers(4) else flipped(data, rng)


def rejsoned(data, rng):
    """A GLB whose JSON has one value replaced by another kind of thing."""
    (length,) = struct.unpack_from("<I", data, 12)
    gltf = json.loads(data[20 : 20 + length])
    at = gltf
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[rng.integers(len(keys))]
        if isinstance(at[key], (dict, list)) and len(at[key]) and rng.integers(6):
            at = at[key]
            continue
        at[key] = [None, -1, 10**30, 1e308, "x", [], {}, [0], float("nan"), 7][rng.integers(10)]
        break
    text = json.dumps(gltf).encode()
    out = data[:12] + struct.pack("<II", len(text), 0x4E4F534A) + text + data[20 + length :]
    return out if rng.integers(4) else head_first(data, rng)


CASES = {  # format -> (file, how it is mutated, times)
    "compressed.ply": (None, lambda data, rng: head_first(data, rng, 1200), 150),
    "npz": (None, rezipped, 250),
    "splat": (None, flipped, 40),
    "spz": (None, lambda data, rng: head_first(data, rng, 128), 200),
    "spz 1": (spz_bytes(1), regzipped, 60),
    "spz 3": (spz_bytes(3), regzipped, 60),
    "sog": (None, rezipped, 200),
    "glb": (None, rejsoned, 250),
    "checkpoint": ("checkpoint", rezipped, 100),
}


@pytest.mark.parametrize("name", CASES)
def test_fuzz_gives_splats_or_a_user_error(tmp_path, name):
    good, mutate, times = CASES[name]
    path = tmp_path / f"a{FILE_FORMATS[name.split(' ')[0]].suffix}"
    if good == "checkpoint":
        from hardsplat.io.formats import checkpoint

        checkpoint.save(path, checkpoint.Checkpoint.initial(some_splats(6, 1), 1))
    elif good:
        path.write_bytes(good)
    else:
        save_splats(path, some_splats(20, 1))
    good, outcomes, slowest = path.read_bytes(), set(), 0.0
    peak = 0
    load_splats(path)  # imports, which are not measured
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for seed in range(times):
                path.write_bytes(mutate(good, np.random.default_rng(seed)))
                tracemalloc.reset_peak()
                begun = time.perf_counter()
                try:
                    g = load_splats(path)
                    outcomes.add("read")
                    assert len(g) and all(np.isfinite(getattr(g, f)).all() for f in ("means", "quats", "scales", "opacities", "sh"))
                except UserError as error:
                    outcomes.add("refused")
                    assert "\n" not in str(error) and str(path) in str(error), f"seed {seed}: {error!r}"
                except BaseException as error:
                    raise AssertionError(f"seed {seed} of {name}") from error
                slowest, peak = max(slowest, time.perf_counter() - begun), max(peak, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert outcomes == {"read", "refused"}
    assert slowest < 2 and peak < MEMORY


# -- lies about sizes


def zipped(method=zipfile.ZIP_DEFLATED, **members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_npy", ".npy").replace("_webp", ".webp").replace("_json", ".json"), content)
    return out.getvalue()


def array(shape, data=b"", descr="<f4"):
    """An .npy with that header before `data`."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def npz(count, n, **other):
    parts = {name: array((count, width), bytes(4 * n * width)) for name, width in dict(means=3, quats=4, scales=3, sh0=3).items()}
    parts["opacities"] = array((count,), bytes(4 * n))
    return zipped(**{f"{name}_npy": part for name, part in (parts | other).items()})


def picture(width, height):
    """A lossless WebP of a few pixels, or the header of a PNG of any size, which is all that is there of it."""
    if width * height < 100:
        out = io.BytesIO()
        Image.new("RGBA", (width, height)).save(out, "WEBP", lossless=True)
        return out.getvalue()
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + struct.pack(">I", 9) + b"IDAT" + bytes(13)


def sog(count, size=None, **changes):
    meta = {
        "version": 2, "count": count, "means": {"mins": [0, 0, 0], "maxs": [1, 1, 1], "files": ["a.webp", "a.webp"]}, "quats": {"files": ["a.webp"]},
        "scales": {"codebook": [0.0], "files": ["a.webp"]}, "sh0": {"codebook": [0.0], "files": ["a.webp"]},
    }  # fmt: skip
    return zipped(meta_json=json.dumps(meta | changes), a_webp=picture(*(size or (8192, 8192))))


def spz_4(count, raw=None, packed=30):
    head = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, count, 0, 12, 0, 5, 32)
    return head + b"".join(struct.pack("<QQ", packed, raw or count * width) for width in (9, 1, 3, 3, 4)) + bytes(500)


LIES = {
    "npz of 10^12 rows": (".npz", npz(10**12, 1), r"array means of shape \(1000000000000, 3\) needs 12000000000000 bytes and has 12"),
    "npz of zeros": (".npz", npz(3_000_000, 3_000_000), "in .* compressed ones, which no splats reach"),
    "npz of objects": (".npz", npz(1, 1, means=array((1, 3), bytes(24), "|O")), "array means is of object"),
    "npz of structures": (".npz", npz(1, 1, means=array((1, 3), bytes(24), [("a", "<f4"), ("b", "<f4")])), "array means is of"),
    "npz of negative rows": (".npz", npz(-1, 1), "array means of shape"),
    "npz of no rows": (".npz", npz(0, 0), "has no splats"),
    "npz of other rows": (".npz", npz(2, 2, quats=array((3, 4), bytes(48))), r"array quats has shape \(3, 4\), expected \(2, 4\)"),
    "npz of 8 bands": (".npz", npz(1, 1, shN=array((1, 24, 3), bytes(288))), "25 SH coefficients a channel"),
    "npz without a header": (".npz", npz(1, 1, means=b"\x93NUMPY\x01\x00\xff\xff{(("), "not readable splats"),
    "npz of version 9": (".npz", npz(1, 1, means=b"\x93NUMPY\x09\x00" + bytes(50)), "not readable splats: array version"),
    "npz packed by lzma": (".npz", zipped(zipfile.ZIP_LZMA, means_npy=array((1, 3), bytes(12))), "means.npy in it is neither stored nor deflated"),
    "no zip": (".npz", b"PK", "not an .npz, or cut short"),
    "spz of 4 billion": (".spz", spz_4(2**32 - 1), "announces 85899345900 bytes in 612 compressed ones"),
    "spz streams of other sizes": (".spz", spz_4(10, raw=2**62), "stream of positions announces"),
    "spz streams beyond the file": (".spz", spz_4(10, packed=2**40), "stream of positions announces"),
    "spz streams of zeros": (".spz", spz_4(10), "truncated or damaged"),
    "spz version": (".spz", b"NGSP\x09" + bytes(60), "SPZ version 9; hardsplat reads 1 to 4"),
    "spz of 400 million in gzip": (".spz", gzip.compress(struct.pack("<4sIIBBBB", b"NGSP", 3, 4 * 10**8, 3, 12, 0, 0) + bytes(10**6)), "which no splats reach"),
    "spz cut short in gzip": (".spz", gzip.compress(struct.pack("<4sIIBBBB", b"NGSP", 3, 10**4, 3, 12, 0, 0) + bytes(10**3)), "the stream is cut short"),
    "no spz in gzip": (".spz", gzip.compress(b"x" * 100), "not an SPZ file"),
    "sog of 10^9": (".sog", sog(10**9), "which no splats reach"),
    "sog with a huge image": (".sog", sog(10), "image a.webp has 8192x8192 pixels for 10 splats"),
    "sog with a small image": (".sog", sog(100, (2, 2)), "image a.webp has 2x2 pixels for 100 splats"),
    "sog count": (".sog", sog(-3), "meta.json: count is -3, expected a whole number"),
    "sog codebook": (".sog", sog(4, (2, 2), scales={"codebook": [1e999], "files": ["a.webp"]}), "scales.codebook is not 1 to 256 finite numbers"),
    "sog image elsewhere": (".sog", sog(4, (2, 2), quats={"files": ["../../etc/passwd"]}), "which are not in it"),
    "sog 1": (".sog", sog(4, (2, 2), version=1), "SOG version 1; hardsplat reads version 2"),
    "sog without meta": (".sog", zipped(a_json="{}"), "no meta.json"),
    "sog deep meta": (".sog", zipped(meta_json="[" * 100_000), "truncated or damaged"),
    "splat": (".splat", bytes(33), "has 33 bytes, which are no whole splats of 32"),
    "empty splat": (".splat", b"", "has no splats"),
    "glb": (".glb", b"glTF" + bytes(50), "not a binary glTF file of version 2"),
    "glb of 10^9 bytes": (".glb", struct.pack("<4sIIII", b"glTF", 2, 10**9, 10**9, 0x4E4F534A), "truncated or damaged"),
    "ply chunks": (
        ".ply",
        b"ply\nformat binary_little_endian 1.0\nelement chunk 1000000000\nproperty float min_x\nelement vertex 3\nproperty uint packed_position\nend_header\n",
        "truncated, it announces",
    ),
}


@pytest.mark.parametrize("suffix, content, words", LIES.values(), ids=LIES)
def test_lies_are_refused_before_memory_is_taken(tmp_path, suffix, content, words):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        load_splats(path)  # imports
    tracemalloc.start()
    try:
        refusal(path)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_a_compressed_ply_with_wrong_chunks(tmp_path):
    save_splats(tmp_path / "a.compressed.ply", some_splats(300, 0))
    data = (tmp_path / "a.compressed.ply").read_bytes()
    for old, new, words in (
        (b"element chunk 2", b"element chunk 1", "has 1 chunks for 300 splats, expected 2"),
        (b"uint packed_scale", b"float packed_scale", "must be of type uint"),
        (b"property float max_z", b"property float nax_z", "property max_z of a compressed PLY is missing"),
    ):
        (tmp_path / "b.compressed.ply").write_bytes(data.replace(old, new))
        assert words in refusal(tmp_path / "b.compressed.ply")


def test_nan_in_npz_is_said(tmp_path, caplog):
    arrays = dict(means=np.ones((3, 3)), quats=np.ones((3, 4)), opacities=np.zeros(3), scales=np.zeros((3, 3)), sh0=np.ones((3, 1, 3)))
    arrays["means"][1, 1] = np.nan
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    with caplog.at_level(logging.WARNING):
        assert len(load_splats(tmp_path / "a.npz")) == 2
    assert "a.npz: left out 1 of 3 splats: 1 with NaN or infinite numbers" in caplog.text


def test_archives_of_any_kind_that_numpy_writes(tmp_path):
    """Compressed, of other types, and with arrays stored by columns."""
    g = some_splats(70_000, 1)  # two pieces
    arrays = dict(
        means=np.asfortranarray(g.means), quats=g.quats.astype(np.float64), opacities=g.logit_opacities, scales=g.log_scales, sh0=g.sh[:, :1], shN=np.asfortranarray(g.sh[:, 1:])
    )
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    back = load_splats(tmp_path / "a.npz")
    np.testing.assert_array_equal(back.means, g.means)
    np.testing.assert_array_equal(back.sh, g.sh)
    np.testing.assert_array_equal(back.quats, g.quats)
