"""PLY files of splats: bytes of the original 3DGS, round trips, damage, fuzzing."""

import os

import numpy as np
import pytest

from hardsplat.io.formats.ply import load_points
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from hardsplat.model.gaussians import Gaussians
from tests.helpers.spoiling import survives_bytes
from tests.helpers.tables import refusal

# As written by the original implementation, for SH degree 1.
REST = [f"f_rest_{i}" for i in range(9)]
END = "opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3".split()
DEGREE_1 = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", *REST, *END]


def header(count, names=DEGREE_1, kind="binary_little_endian"):
    lines = ["ply", f"format {kind} 1.0", f"element vertex {count}"]
    return "\n".join([*lines, *(f"property float {n}" for n in names), "end_header\n"]).encode()


def splats(n=50, degree=3, seed=0):
    rng = np.random.default_rng(seed)
    sh = rng.normal(size=(n, (degree + 1) ** 2, 3))
    means, quats = rng.normal(size=(n, 3)), rng.normal(size=(n, 4))
    scales, opacities = np.exp(rng.normal(-4, 2, (n, 3))), rng.uniform(0.01, 0.99, n)
    return Gaussians(means, quats, scales, opacities, sh)


def test_bytes_are_those_of_the_original(tmp_path):
    sh = np.arange(24, dtype=np.float32).reshape(2, 4, 3)  # splat, band, channel
    means, quats = [[1, 2, 3], [4, 5, 6]], [[7, 8, 9, 10], [11, 12, 13, 14]]
    g = Gaussians(means, quats, np.exp([[1, 2, 3], [-1, -2, -3]]), [0.5, 0.75], sh)
    save_splats(tmp_path / "new" / "a.ply", g)
    data = (tmp_path / "new" / "a.ply").read_bytes()
    assert data.startswith(header(2))
    records = np.frombuffer(data[len(header(2)) :], "<f4").reshape(2, 26)
    # All bands of red, then of green, then of blue.
    expected = [1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 6, 9, 4, 7, 10, 5, 8, 11, 0, 1, 2, 3, 7, 8, 9, 10]
    np.testing.assert_allclose(records[0], expected, rtol=1e-6)
    np.testing.assert_allclose(records[1, [0, 9, 18, 19]], [4, 15, np.log(3), -1], rtol=1e-6)


def test_reads_ascii_doubles_any_order_and_extra_properties(tmp_path):
    names = ["extra", *DEGREE_1[::-1]]
    names = [n for n in names if not n.startswith("n")]  # normals are not needed
    values = {n: i + 0.5 for i, n in enumerate(names)}
    text = header(1, names, "ascii").decode().replace("property float", "property double")
    (tmp_path / "a.ply").write_text(text + " ".join(str(values[n]) for n in names) + "\n")
    g = load_splats(tmp_path / "a.ply")
    numbered = lambda name, *numbers: [values[f"{name}_{i}"] for i in numbers]
    assert g.means.tolist() == [[values["x"], values["y"], values["z"]]]
    assert g.quats.tolist() == [numbered("rot", *range(4))]
    bands = [numbered("f_rest", k, 3 + k, 6 + k) for k in range(3)]
    assert g.sh[0].tolist() == [numbered("f_dc", 0, 1, 2), *bands]
    np.testing.assert_allclose(g.scales[0], np.exp(numbered("scale", 0, 1, 2)), rtol=1e-6)


def test_files_of_before_are_read_by_their_standard_properties(tmp_path, caplog):
    """Lobes of colour and the opacity for the 2D filter are left out."""
    names = "lobe_colors_0 lobe_axes_5 lobe_base_2 filtered_opacity".split()
    save_splats(tmp_path / "a.ply", g := splats(3, 1))
    data = (tmp_path / "a.ply").read_bytes()[len(header(3)) :]
    records = np.frombuffer(data, "<f4").reshape(3, -1)
    more = np.concatenate([records, np.full((3, len(names)), 9, "<f4")], axis=1)
    old = tmp_path / "old.ply"
    old.write_bytes(header(3, [*DEGREE_1, *names]) + more.tobytes())
    read = load_splats(old)
    np.testing.assert_allclose(read.opacities, g.opacities, rtol=1e-5)
    np.testing.assert_array_equal(read.sh, g.sh)
    assert not read.extra and not is_antialiased(old) and not caplog.records


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.ply"
    save_splats(path, splats())
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    for target, name in ((Gaussians, "logit_opacities"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, property(full) if target is Gaussians else full)
            words = f"cannot write {path}: No space left on device"
            assert refusal(save_splats, path, splats(seed=1)) == words
        assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def body(n=2, **values):
    """n splats of degree 1, all properties 0.5 except the given ones in the last splat."""
    records = np.full((n, 26), 0.5, "<f4")
    for name, value in values.items():
        records[-1, DEGREE_1.index(name)] = value
    return records.tobytes()


def without(*names):
    return [n for n in DEGREE_1 if n not in names]


GOOD = header(2) + body()
ASCII = header(2, kind="ascii") + b"0.5 " * 26 + b"\n"
WORD = header(1, kind="ascii") + b"0.5 " * 25 + b"half\n"
RENAMED = header(2, [n.replace("f_rest_4", "f_rest_44") for n in DEGREE_1]) + body()
LISTS_FIRST = b"element face 1\nproperty list uchar int vertex_indices\nelement vertex"
ABSURD = b"element face 9999999999\nelement"


def changed(old: bytes, new: bytes) -> bytes:
    return GOOD.replace(old, new, 1)


DAMAGE = [
    (b"", "a.ply: is empty"),
    (GOOD[:200], "the PLY header does not end within 65536 bytes"),
    (changed(b"end_header", b"comment"), "the PLY header does not end"),
    (GOOD[:-1], "a.ply: truncated"),
    (header(2), "a.ply: truncated"),
    (ASCII, "truncated or damaged: element 'vertex': row 1: early end-of-file"),
    (WORD, "truncated or damaged: element 'vertex': row 0: property 'rot_3'"),
    (changed(b"vertex 2", b"vertex 1000000000000"), "announces 26000000000000 numbers and has"),
    (changed(b"vertex 2", b"vertex " + b"9" * 99), "element vertex has an absurd count 999"),
    (changed(b"element", ABSURD), "announces 10000000051 numbers"),
    (header(0), "has no vertices"),
    (changed(b"vertex", b"vortex"), "has no vertices"),
    (changed(b"float f_dc_0", b"list uint float f_dc_0"), "property f_dc_0 of vertex is a list"),
    (changed(b"property float x", b"property quad x"), "the PLY header has a line `property quad"),
    (changed(b"float nx", b"float x"), "its header has property x twice; damaged"),
    (changed(b"format", b"comment"), "the PLY header names no format of data"),
    (changed(b"element vertex", LISTS_FIRST), "face with lists stand before vertex; write it with"),
    (header(1, "xyz") + bytes(12), "property f_dc_0 is missing; is this a mesh or a point cloud"),
    (header(2, without("opacity")) + body(), "property opacity is missing"),
    (header(2, without("f_rest_8")) + body(), "has 8 f_rest properties; splats have 0, 9, 24, 45"),
    (RENAMED, "property f_rest_4 is missing"),
    (header(1) + body(1, z=np.nan), "none of its 1 splats can be drawn: 1 with NaN or infinite"),
]


@pytest.mark.parametrize("content, message", DAMAGE, ids=[message for _, message in DAMAGE])
def test_damage_is_one_clear_line(tmp_path, content, message):
    path = tmp_path / "a.ply"
    path.write_bytes(content)
    got = refusal(load_splats, path)
    assert str(path) in got and message in got


FACES = b"property list uchar int vertex_indices\n"
CAMERA = b"element camera 2\nproperty double a\nproperty char b\n"
END_HEADER = b"end_header\n"


def with_elements(before=b"", behind=b"", first=b"", last=b""):
    """GOOD with further elements in its header and their bytes."""
    start = header(2).replace(b"element vertex", before + b"element vertex")
    return start.replace(END_HEADER, behind + END_HEADER) + first + body() + last


OTHERS = {  # of MeshLab, CloudCompare, Blender, Metashape
    "no faces": with_elements(behind=b"element face 0\n" + FACES),
    "faces": with_elements(behind=b"element face 1\n" + FACES, last=b"\3" + bytes(12)),
    "no faces before": with_elements(before=b"element face 0\n" + FACES),
    "a camera before": with_elements(CAMERA, first=bytes(18)),
    "words": with_elements(before=b"comment element vertex 7\nobj_info by hand\ncomment\n"),
    "lines of Windows": header(2).replace(b"\n", b"\r\n") + body(),
    "ascii": header(2, kind="ascii").replace(END_HEADER, b"element face 1\n" + FACES + END_HEADER)
    + b"0.5 " * 26 + b"\n" + b"0.5 " * 26 + b"\n3 0 1 2\n",
}  # fmt: skip


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_elements_besides_the_splats(tmp_path, content):
    (tmp_path / "a.ply").write_bytes(content)
    g = load_splats(tmp_path / "a.ply")
    assert len(g) == 2 and (g.means == 0.5).all() and (g.sh == 0.5).all()


def test_big_endian_and_columns_of_all_types(tmp_path):
    kinds = [("short" if n.startswith("n") else "double", n) for n in DEGREE_1]
    lines = [f"property {kind} {name}" for kind, name in kinds]
    head = ["ply", "format binary_big_endian 1.0", "element vertex 3", *lines, "end_header\n"]
    records = np.zeros(3, [(n, ">i2" if k == "short" else ">f8") for k, n in kinds])
    records["x"], records["rot_0"], records["f_rest_8"] = [1, 2, 3], 1, 0.25
    (tmp_path / "a.ply").write_bytes("\n".join(head).encode() + records.tobytes())
    g = load_splats(tmp_path / "a.ply")
    assert g.means[:, 0].tolist() == [1, 2, 3] and (g.sh[:, 3, 2] == 0.25).all()


def test_points_beside_faces(tmp_path):
    head = ["ply", "format binary_little_endian 1.0", "element vertex 1"]
    head += [*(f"property float {axis}" for axis in "xyz"), "element face 0", FACES.decode()]
    data = "\n".join(head).encode() + END_HEADER + np.float32([1, 2, 3]).tobytes()
    (tmp_path / "a.ply").write_bytes(data)
    assert load_points(tmp_path / "a.ply")[0].tolist() == [[1, 2, 3]]


def test_discs_of_2dgs_become_thin_splats(tmp_path, caplog):
    path, names = tmp_path / "a.ply", [n for n in DEGREE_1 if n != "scale_2"]
    path.write_bytes(header(1, names) + np.full(25, 0.5, "<f4").tobytes())
    g = load_splats(path)
    np.testing.assert_allclose(g.scales[0], np.exp(0.5) * np.array([1, 1, 1e-3]), rtol=1e-5)
    (said,) = caplog.messages
    assert said == f"{path}: discs of 2DGS, with two scales: read as thin splats, which look alike"


def test_the_3d_filter_of_mip_splatting_is_in_what_is_drawn(tmp_path, caplog):
    """Convolution keeps the integral: opacity times the product of scales."""
    path, logs = tmp_path / "a.ply", np.log([0.1, 0.2, 0.05])
    own = body(1, **{f"scale_{i}": x for i, x in enumerate(logs)}, opacity=0.0)
    path.write_bytes(header(1, [*DEGREE_1, "filter_3D"]) + own + np.float32(0.15).tobytes())
    g = load_splats(path)
    wanted = np.sqrt(np.exp(2 * logs) + 0.15**2)
    np.testing.assert_allclose(g.scales[0], wanted, rtol=1e-5)
    np.testing.assert_allclose(g.opacities[0] * wanted.prod(), 0.5 * np.exp(logs.sum()), rtol=1e-5)
    words = "of Mip-Splatting: filter_3D was brought into scales and opacities"
    assert caplog.messages == [f"{path}: {words}"]


SIGNALLING = body(scale_1=1.25).replace(np.float32(1.25).tobytes(), b"\1\0\x80\x7f")
UNUSABLE = {
    "NaN": (body(z=np.nan), "1 with NaN or infinite numbers"),
    "infinite": (body(f_rest_7=-np.inf), "1 with NaN or infinite numbers"),
    "signalling NaN": (SIGNALLING, "1 with scales that are NaN or beyond float32"),
    "scale beyond float32": (body(scale_1=89), "1 with scales that are NaN or beyond float32"),
    "no rotation": (body(rot_0=0, rot_1=0, rot_2=0, rot_3=0), "1 with a rotation of zeros"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("records, why", UNUSABLE.values(), ids=UNUSABLE)
def test_a_splat_that_cannot_be_drawn_is_left_out_and_said(tmp_path, caplog, records, why):
    path = tmp_path / "a.ply"
    path.write_bytes(header(3) + records + body(1))
    assert len(load_splats(path)) == 2
    assert caplog.messages == [f"{path}: left out 1 of 3 splats: {why}"]


@pytest.mark.parametrize("kind", ["binary", "ascii"])
def test_fuzz_gives_splats_or_a_user_error(tmp_path, kind):
    good, path = header(4) + body(4), tmp_path / "a.ply"
    if kind == "ascii":
        good = header(4, kind="ascii") + (b"0.5 " * 25 + b"1\n") * 4

    def read():
        g = load_splats(path)
        parts = g.means, g.quats, g.scales, g.opacities, g.sh
        assert len(g) and all(np.isfinite(part).all() for part in parts)

    path.write_bytes(good)
    read()  # imports, which are not what is measured
    how = dict(head=good.index(b"end_header") + 11, warn="error", path=path)
    survives_bytes(read, path, good, 400, seconds=1, memory=4_000_000, **how)
