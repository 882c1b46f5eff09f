"""Damaged and hostile splats: a UserError of one line, soon, and no memory for nothing."""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from hardsplat.io.formats import FILE_FORMATS, checkpoint
from hardsplat.io.splats import load_splats, save_splats
from tests.helpers.splat_files import some_splats
from tests.helpers.spoiling import spoiled_bytes, spoiled_values, survives, takes_at_most
from tests.helpers.tables import refusal
from tests.io.test_formats import spz_bytes

MEMORY = 30_000_000  # bytes; the largest of the files has 6 000
COMPRESSIONS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


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
        members[name] = spoiled_bytes(members[name], rng, 128)
    out = zipped(int(rng.choice(COMPRESSIONS)), **members)
    return out if rng.integers(8) else spoiled_bytes(out, rng)


def regzipped(data, rng):
    if rng.integers(4):
        return gzip.compress(spoiled_bytes(gzip.decompress(data), rng, 16), 1)
    return spoiled_bytes(data, rng)


def rejsoned(data, rng):
    """A GLB whose JSON has one value replaced by another kind of thing."""
    if not rng.integers(4):
        return spoiled_bytes(data, rng, 200)
    (length,) = struct.unpack_from("<I", data, 12)
    text = json.dumps(spoiled_values(json.loads(data[20 : 20 + length]), rng)).encode()
    return data[:12] + struct.pack("<II", len(text), 0x4E4F534A) + text + data[20 + length :]


def head_of(size):
    return lambda data, rng: spoiled_bytes(data, rng, size)


CASES = {  # format -> how it is mutated, times
    "compressed.ply": (head_of(1200), 150),
    "npz": (rezipped, 250),
    "spz": (head_of(128), 200),
    "spz 1": (regzipped, 60),
    "spz 3": (regzipped, 60),
    "sog": (rezipped, 200),
    "glb": (rejsoned, 250),
    "checkpoint": (rezipped, 100),
}


# test_ply.py spoils those of the original 3DGS
OTHERS = [n for n, row in FILE_FORMATS.items() if row.writes and n not in (*CASES, "ply")]


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_fuzz_gives_splats_or_a_user_error(tmp_path, name):
    (mutate, times), (kind, *version) = CASES.get(name, (spoiled_bytes, 100)), name.split(" ")
    path = tmp_path / f"a{FILE_FORMATS[kind].suffix}"
    if kind == "checkpoint":
        checkpoint.save(path, checkpoint.Checkpoint.initial(some_splats(6, 1), 1))
    elif version:
        path.write_bytes(spz_bytes(int(*version)))
    else:
        save_splats(path, some_splats(20, 1))
    good = path.read_bytes()

    def read():
        g = load_splats(path)
        parts = g.means, g.quats, g.scales, g.opacities, g.sh
        assert len(g) and all(np.isfinite(part).all() for part in parts)

    read()  # imports, which are not measured
    spoil = lambda rng: path.write_bytes(mutate(good, rng))
    survives(read, spoil, times, seconds=2, memory=MEMORY, warn="error", path=path)


def zipped(method=zipfile.ZIP_DEFLATED, /, **members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def array(shape, data=b"", descr="<f4"):
    """An .npy with that header before `data`."""
    out = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + data


def npz(count, n, **other):
    widths = dict(means=3, quats=4, scales=3, sh0=3)
    parts = {name: array((count, w), bytes(4 * n * w)) for name, w in widths.items()}
    parts["opacities"] = array((count,), bytes(4 * n))
    return zipped(**{f"{name}.npy": part for name, part in (parts | other).items()})


def picture(width, height):
    """A lossless WebP of a few pixels, or the header alone of a PNG of any size."""
    if width * height < 100:
        out = io.BytesIO()
        Image.new("RGBA", (width, height)).save(out, "WEBP", lossless=True)
        return out.getvalue()
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    check, data = struct.pack(">I", zlib.crc32(head)), struct.pack(">I", 9) + b"IDAT" + bytes(13)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + check + data


def sog(count, size=(2, 2), **changes):
    image = {"files": ["a.webp"]}
    bounds = {"mins": [0, 0, 0], "maxs": [1, 1, 1], "files": ["a.webp", "a.webp"]}
    coded = {"codebook": [0.0]} | image
    meta = dict(version=2, count=count, means=bounds, quats=image, scales=coded, sh0=coded)
    meta = json.dumps(meta | changes)
    return zipped(**{"meta.json": meta, "a.webp": picture(*size)})


def spz_4(count, raw=None, packed=30):
    head = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, count, 0, 12, 0, 5, 32)
    table = [struct.pack("<QQ", packed, raw or count * width) for width in (9, 1, 3, 3, 4)]
    return head + b"".join(table) + bytes(500)


def spz_3(count, n):
    head = struct.pack("<4sIIBBBBB", b"NGSP", 3, count, 3, 12, 0, 0, 0)
    return gzip.compress(head[:16] + bytes(n))


def glb_of(size):
    return struct.pack("<4sIIII", b"glTF", 2, size, size, 0x4E4F534A)


HUGE, FLOATS = (8192, 8192), [("a", "<f4"), ("b", "<f4")]
CHUNKS = b"ply\nformat binary_little_endian 1.0\nelement chunk 1000000000\nproperty float min_x\n"
CHUNKS += b"element vertex 3\nproperty uint packed_position\nend_header\n"


def means(raw):
    return npz(1, 1, means=raw)


INFINITE = {"codebook": [1e999], "files": ["a.webp"]}
REACHED = "in .* compressed ones, which no splats reach"
ROWS = r"means of shape \(1000000000000, 3\) needs 12000000000000 bytes and has 12"
LZMA = zipped(zipfile.ZIP_LZMA, **{"means.npy": array((1, 3), bytes(12))})
LIES = {  # suffix, what is wrong -> content, the error
    ".npz of 10^12 rows": (npz(10**12, 1), ROWS),
    ".npz of zeros": (npz(3_000_000, 3_000_000), REACHED),
    ".npz with 9 MiB of zeros": (npz(1, 1, other=bytes(9 << 20)), REACHED),
    ".npz of objects": (means(array((1, 3), bytes(24), "|O")), "array means is of object"),
    ".npz of structures": (means(array((1, 3), bytes(24), FLOATS)), "array means is of"),
    ".npz of no rows": (npz(0, 0), "has no splats"),
    ".npz of 8 bands": (npz(1, 1, shN=array((1, 24, 3), bytes(288))), "25 SH coefficients a cha"),
    ".npz of version 9": (means(b"\x93NUMPY\x09\x00" + bytes(50)), "splats: array version"),
    ".npz packed by lzma": (LZMA, "means.npy in it is neither stored nor deflated"),
    ".npz that is none": (b"PK", "not an .npz, or cut short"),
    ".spz of 4 billion": (spz_4(2**32 - 1), "announces 85899345900 bytes in 612 compressed ones"),
    ".spz streams of other sizes": (spz_4(10, raw=2**62), "stream of positions announces"),
    ".spz streams of zeros": (spz_4(10), "truncated or damaged"),
    ".spz version": (b"NGSP\x09" + bytes(60), "SPZ version 9; hardsplat reads 1 to 4"),
    ".spz of 400 million in gzip": (spz_3(4 * 10**8, 10**6), "which no splats reach"),
    ".spz cut short in gzip": (spz_3(10**4, 10**3), "90000 bytes were expected and 1000 are there"),
    ".sog of 10^9": (sog(10**9, HUGE), "which no splats reach"),
    ".sog with a huge image": (sog(10, HUGE), "image a.webp has 8192x8192 pixels for 10 splats"),
    ".sog with a small image": (sog(100), "image a.webp has 2x2 pixels for 100 splats"),
    ".sog count": (sog(-3, HUGE), "meta.json: count is -3, expected a whole number"),
    ".sog codebook": (sog(4, scales=INFINITE), "scales.codebook is not 1 to 256 finite numbers"),
    ".sog image elsewhere": (sog(4, quats={"files": ["../../etc/passwd"]}), "which are not in it"),
    ".sog 1": (sog(4, version=1), "SOG version 1; hardsplat reads version 2"),
    ".sog without meta": (zipped(**{"a.json": "{}"}), "no meta.json"),
    ".sog deep meta": (zipped(**{"meta.json": "[" * 100_000}), "truncated or damaged"),
    ".splat": (bytes(33), "has 33 bytes, which are no whole splats of 32"),
    ".splat of nothing": (b"", "has no splats"),
    ".glb": (b"glTF" + bytes(50), "not a binary glTF file of version 2"),
    ".glb of 10^9 bytes": (glb_of(10**9), "truncated or damaged"),
    ".ply chunks": (CHUNKS, "truncated, it announces"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused_before_memory_is_taken(tmp_path, name):
    content, words = LIES[name]
    path = tmp_path / f"a{name.split(' ')[0]}"
    path.write_bytes(content)
    refusal(load_splats, path)  # imports
    with takes_at_most(MEMORY):
        got = refusal(load_splats, path)
    assert re.search(words, got) and str(path) in got


def test_a_compressed_ply_with_wrong_chunks(tmp_path):
    path = tmp_path / "a.compressed.ply"
    save_splats(path, some_splats(300, 0))
    data = path.read_bytes()
    for old, new, words in (
        (b"element chunk 2", b"element chunk 1", "has 1 chunks for 300 splats, expected 2"),
        (b"uint packed_scale", b"float packed_scale", "must be of type uint"),
        (b"float max_z", b"float nax_z", "property max_z of a compressed PLY is missing"),
    ):
        path.write_bytes(data.replace(old, new))
        assert words in refusal(load_splats, path)
