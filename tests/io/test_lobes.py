"""Lobes of colour outside the GPU: values, turns, files, and the harmonics fitted to them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.lib.recfunctions import repack_fields
from plyfile import PlyData, PlyElement
from scipy.spatial import cKDTree

from hardsplat.base.errors import UserError
from hardsplat.export.convert import convert
from hardsplat.io.formats.base import PIECE
from hardsplat.io.formats.frames import rotated, upright
from hardsplat.io.splats import load_plain, load_splats, open_splats, save_planes, save_splats
from hardsplat.model import lobes
from hardsplat.model.camera import Camera
from hardsplat.model.framing import look_at
from hardsplat.model.gaussians import Gaussians
from hardsplat.model.lobes import values, without_lobes
from tests.helpers.splat_files import some_splats
from tests.oracle import lobes as exact
from tests.oracle import sh as harmonics


def lobed(n=50, seed=5, length=1.0) -> Gaussians:
    g, rng = some_splats(n, 0, seed=seed), np.random.default_rng(seed)
    axes, colors = rng.normal(0, length, (2, 2, n, 3)).astype(np.float32)
    g.extra = {"lobe_colors": colors, "lobe_axes": axes}
    return g


def colors_of(g: Gaussians, directions: np.ndarray) -> np.ndarray:
    """(N, 3) float64 in directions (N, 3), before the clamp."""
    Y = harmonics.basis(directions, g.sh_degree)
    color = np.einsum("nk,nkc->nc", Y, g.sh.astype(np.float64))
    if not g.extra:
        return color
    return color + exact.color(g.extra["lobe_axes"], g.extra["lobe_colors"], directions)


def turned_by(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) @ np.array(
        [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    )


def test_values_and_turns():
    g, rotation = lobed(), turned_by(0.7)
    directions = np.random.default_rng(1).normal(size=(len(g), 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    axes = g.extra["lobe_axes"]
    found = values(axes, directions[:, None].astype(np.float32))[..., 0]
    np.testing.assert_allclose(found, exact.values(axes, directions), atol=2e-6)
    peaks = np.moveaxis(axes / np.linalg.norm(axes, axis=2, keepdims=True), 0, 1)
    np.testing.assert_allclose(values(axes, peaks)[[0, 1], :, [0, 1]], 1, atol=1e-5)
    before, after = (
        colors_of(g, directions),
        colors_of(rotated(g, rotation), directions @ rotation.T),
    )
    assert np.abs(after - before).max() < 1e-5 < np.abs(colors_of(g, -directions) - before).max()


@pytest.mark.parametrize("sh_degree", [0, 3])
def test_harmonics_are_the_weighted_least_squares(sh_degree):
    g, rng = lobed(20, length=1.5), np.random.default_rng(2)
    looks = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(24)]
    K = np.array([[40.0, 0, 16], [0, 40, 16], [0, 0, 1]])
    cameras = []
    for R in looks:
        w2c = np.eye(4)
        w2c[:3, :3], w2c[2, 3] = R * np.sign(np.linalg.det(R)), 30
        cameras.append(Camera(w2c, K, 32, 32))
    weights = rng.uniform(0, 3, (24, 20)).astype(np.float32)
    weights[:, 3] = 0  # no camera sees it
    fitted = without_lobes(g, cameras, weights, sh_degree)
    assert fitted.sh.shape == (20, (sh_degree + 1) ** 2, 3) and not fitted.extra
    around, share = lobes.around().astype(np.float64), 0.02
    for i in range(20):
        rays = g.means[i] - np.array([c.position for c in cameras])
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        directions = np.concatenate([rays, around])
        w = weights[:, i] / max(weights[:, i].sum(), 1e-20)
        w = np.sqrt(np.concatenate([w, np.full(len(around), share / len(around))]))[:, None]
        wanted = colors_of(g[np.full(len(directions), i)], directions)
        Y = harmonics.basis(directions, sh_degree)
        sh = np.linalg.lstsq(w * Y, w * wanted, rcond=None)[0]
        assert np.abs(Y @ (fitted.sh[i] - sh)).max() < 2e-3


@pytest.mark.parametrize("suffix", [".ply", ".npz", ".spz", ".glb"])
def test_files(tmp_path, caplog, suffix):
    g = lobed(300)
    save_splats(path := tmp_path / f"x{suffix}", g)
    back = load_splats(path)
    if suffix in (".ply", ".npz"):
        assert not caplog.records
        for name, value in g.extra.items():
            np.testing.assert_array_equal(back.extra[name], value)
        np.testing.assert_array_equal(back.sh, g.sh)
        # a PLY has three zeros more, and the SH besides
        numbers = 26 + 51 * (suffix == ".ply")
        assert 4 * numbers * 300 < path.stat().st_size < 4 * numbers * 300 + 4000
    else:
        assert "lobes of colour became SH" in caplog.text
        assert back.sh_degree == 3 and not back.extra


def test_cameras_say_from_where_splats_are_seen(tmp_path, caplog):
    g, K = lobed(300), np.array([[40.0, 0, 32], [0, 40, 32], [0, 0, 1]])
    eyes = ([0.0, 0.5, -4], [4.0, 0, 0.5])
    cameras = [Camera(look_at(np.array(e), np.zeros(3), -np.eye(3)[1]), K, 64, 64) for e in eyes]
    wanted = without_lobes(g, cameras).sh
    assert np.abs(wanted - without_lobes(g).sh).max() > 0.05  # 0.099
    for name, load in (("x.ply", load_plain), ("x.glb", load_splats)):
        save_splats(tmp_path / name, g, cameras=cameras)
        np.testing.assert_allclose(load(tmp_path / name).sh, wanted, atol=1e-5)
    assert not caplog.records and load_splats(tmp_path / "x.ply").extra


@pytest.mark.parametrize("sh_degree, n", [(0, PIECE + 100), (1, 300)])
def test_a_ply_has_lobes_and_harmonics(tmp_path, sh_degree, n):
    """Lobes and what they are added to for hardsplat, SH for others: those that are given, and of
    the splats behind them those that are fitted for all directions alike."""
    g, degree_1, known = lobed(n), some_splats(n, 1, seed=6).sh, n - 50
    g.sh = degree_1[:, : (sh_degree + 1) ** 2]
    given = np.random.default_rng(7).normal(size=(known, 16, 3)).astype(np.float32)
    save_planes(path := tmp_path / "x.ply", g.planes(sh_degree), harmonics=given)
    names = PlyData.read(path)["vertex"].data.dtype.names
    assert names[9:54] == tuple(f"f_rest_{i}" for i in range(45)) and names[62] == "lobe_colors_0"
    assert names[-1] == f"lobe_base_{3 * (sh_degree + 1) ** 2 - 1}"
    back, splats = load_splats(path), open_splats(path)
    for name, value in {"sh": g.sh, **g.extra}.items():
        np.testing.assert_array_equal(getattr(back, name, back.extra.get(name)), value)
    plain = load_plain(path)
    assert splats.plain.sh_degree == 3 and not plain.extra
    np.testing.assert_array_equal(plain.sh[:known], given)
    np.testing.assert_allclose(plain.sh[known:], without_lobes(g[known:]).sh, atol=1e-6)
    # other programs see these alone
    written_with(path, PlyData.read(path)["vertex"].data, "(?!lobe)")
    np.testing.assert_array_equal(load_splats(path).sh, plain.sh)


def test_a_file_alone_is_converted_with_its_harmonics(tmp_path, caplog):
    """Turned, ordered and cropped with the splats, beside the lobes and in their place."""
    g = lobed(300)
    given = np.random.default_rng(7).normal(size=(300, 16, 3)).astype(np.float32)
    save_planes(path := tmp_path / "x.ply", g.planes(0), harmonics=given)
    how = dict(up="z", min_opacity=0.3, morton=True)
    names = ("both.ply", None), ("plain.ply", 3), ("x.npz", None), ("plain.npz", 3)
    for name, degree in names:
        convert(path, tmp_path / name, sh_degree=degree, **how)
    assert not caplog.records
    both, plain, lobes = (load_splats(tmp_path / n) for n in ("both.ply", "plain.ply", "x.npz"))
    assert 100 < len(both) < 250 and not plain.extra
    for name, value in lobes.extra.items():
        np.testing.assert_array_equal(both.extra[name], value)
    np.testing.assert_array_equal(both.means, plain.means)
    np.testing.assert_array_equal(both.sh, lobes.sh)
    as_npz = load_splats(tmp_path / "plain.npz")
    np.testing.assert_array_equal(as_npz.sh, plain.sh)
    assert not as_npz.extra
    np.testing.assert_array_equal(
        next(open_splats(tmp_path / "both.ply").plain.pieces()).sh, plain.sh
    )
    turned = rotated(replace(g, sh=given, extra={}), upright("z"))
    which = cKDTree(turned.means).query(plain.means)[1]
    np.testing.assert_allclose(plain.sh, turned.sh[which], atol=1e-5)
    convert(path, tmp_path / "flat.ply", sh_degree=1)
    assert "fitted for all directions alike" in caplog.text


def written_with(path, records, names: str) -> None:
    """A PLY of the properties whose names match."""
    kept = repack_fields(records[[n for n in records.dtype.names if re.match(names, n)]])
    PlyData([PlyElement.describe(kept, "vertex")]).write(path)


def test_a_ply_of_lobes_alone_is_read(tmp_path):
    """As they were before they had SH: colours are those that lobes are added to."""
    g = lobed(20)
    save_splats(path := tmp_path / "x.ply", g)
    records = PlyData.read(path)["vertex"].data.copy()
    for i in range(3):
        records[f"f_dc_{i}"] = records[f"lobe_base_{i}"]
    written_with(path, records, "(?!lobe_base|f_rest)")
    back = load_splats(path)
    assert back.sh_degree == 0 and open_splats(path).plain is None and load_plain(path).extra
    np.testing.assert_array_equal(back.sh, g.sh)
    np.testing.assert_array_equal(back.extra["lobe_axes"], g.extra["lobe_axes"])
    written_with(path, records, "(?!lobe_base_1)")
    with pytest.raises(UserError, match="has 2 properties lobe_base, which are not those of SH"):
        load_splats(path)


def test_lobes_that_are_not_finite_are_left_out(tmp_path):
    g = lobed(10)
    g.extra["lobe_axes"][1, 4, 2] = np.nan
    g.extra["lobe_axes"][0, 5] = 3e38  # which is, but not its square
    save_splats(path := tmp_path / "x.ply", g)
    assert len(load_splats(path)) == 9
    assert np.isfinite(without_lobes(g).sh[5]).all()


def test_lobes_come_whole(tmp_path):
    g = lobed(10)
    axes = {"lobe_axes": g.extra["lobe_axes"]}
    for extra, words in (
        (axes, "lobe_axes and no lobe_colors"),
        ({**g.extra, "lobe_axes": axes["lobe_axes"][:1]}, r"\(1, 10, 3\), expected \(2, 10, 3\)"),
        ({"lobe": axes["lobe_axes"]}, "extra has lobe;"),
    ):
        with pytest.raises(ValueError, match=words):
            Gaussians(g.means, g.quats, g.scales, g.opacities, g.sh, extra)
    save_splats(path := tmp_path / "x.npz", g)
    with np.load(path) as arrays:
        np.savez(path, **{name: v for name, v in arrays.items() if name != "lobe_colors"})
    with pytest.raises(UserError, match="has lobe_axes, but lobes need lobe_colors and lobe_axes"):
        load_splats(path)
