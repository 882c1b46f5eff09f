"""`hardsplat convert`: what is kept, turned and ordered, in pieces, and what is refused."""

import re
import resource
from unittest.mock import patch

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.export.contribution import SeenSplats
from hardsplat.export.convert import convert
from hardsplat.export.lod import lod
from hardsplat.io.formats import FILE_FORMATS, writable
from hardsplat.io.formats.frames import rotated, upright
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.renderer import Renderer
from tests.helpers.splat_files import covariances, differences, result_of, some_splats
from tests.helpers.tables import rows
from tests.io.test_formats import read_glb
from tests.oracle import sh as harmonics

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A file of five pieces, one NaN among them."""
    path, g = tmp_path_factory.mktemp("big") / "big.ply", some_splats(150_000, 0, seed=3)
    g.means[70_000, 2] = np.nan
    save_splats(path, g)
    return path


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "in.ply"
    save_splats(path, some_splats(400, 2))
    return path


@pytest.fixture
def turned(small, tmp_path):
    """turned(name, ...) converts the small file into one of that name and reads it."""

    def turn(name, **how):
        convert(small, tmp_path / name, overwrite=True, quiet=True, **how)
        return load_splats(tmp_path / name)

    return turn


@pytest.fixture(scope="module")
def opened(scene):
    return load_scene(scene)


def cameras_of(opened):
    return [opened.views[i].camera for i in opened.train]


def run(*argv):
    return main(["convert", *map(str, argv), "--quiet"])


@pytest.mark.parametrize("suffix", writable())
def test_files_of_several_pieces_are_as_those_written_at_once(big, tmp_path, suffix):
    """Some sorted: on the disk here, in memory there."""
    g, a, b = load_splats(big), tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    done = convert(big, a, quiet=True)
    save_splats(b, g)
    assert (len(g), done.read, done.written) == (149_999, 150_000, 149_999)
    assert done.size == b.stat().st_size
    # Members of an .npz and of a .sog carry the time.
    assert suffix in (".npz", ".sog") or a.read_bytes() == b.read_bytes()


def test_fewer_bands_and_fewer_splats(small, turned):
    g = load_splats(small)
    back, kept = turned("a.npz", sh_degree=1, min_opacity=0.5), g.opacities >= 0.5
    assert back.sh_degree == 1 and len(back) == kept.sum()
    assert np.array_equal(back.sh, g.sh[kept, :4])
    x, y, _ = g.means.T
    for crop, inside in (
        ("box -1 0 -9 1 2 9", (np.abs(x) <= 1) & (y >= 0) & (y <= 2)),
        ("sphere 1 0 0 1.5", np.linalg.norm(g.means - [1, 0, 0], axis=1) <= 1.5),
    ):
        back = turned("a.npz", crop=tuple(crop.split()))
        assert np.array_equal(back.means, g.means[inside]) and 0 < inside.sum() < 400

    a, b, c = g.scales.T
    most = np.sort(np.argsort(-g.opacities * (a * b + b * c + c * a))[:100])
    means = turned("a.npz", max_splats=100).means
    assert np.array_equal(means, g.means[most])  # in the order of the file
    save_splats(small, g[np.zeros(20, int)])  # all of them alike
    assert len(turned("a.npz", max_splats=7)) == 7


def test_splats_are_chosen_by_what_they_contribute(scene, opened, device, tmp_path, caplog):
    g = Gaussians.from_points(opened.points, opened.colors, 1)
    hidden = g[np.arange(50)]
    hidden.means[:] += 100.0  # far from all cameras, and larger than any other
    hidden.scales[:] = 3.0
    g = Gaussians.concatenate([g, hidden])
    cameras = cameras_of(opened)[:2]
    weights = SeenSplats(g, cameras, device=device).contributions()
    with Renderer(device, "tiled") as renderer:
        seen = sum(float((1 - renderer.forward(g, camera)[1]).sum()) for camera in cameras)
    assert weights.sum() == pytest.approx(seen, rel=1e-4) and (weights[-50:] == 0).all()

    folder = result_of(tmp_path / "run", g, data_dir=scene, data_factor=2)

    def far(source, name):
        convert(source, tmp_path / name, max_splats=100, quiet=True, measured=False)
        return (np.abs(load_splats(tmp_path / name).means).max(axis=1) > 50).sum()

    assert far(folder, "a.npz") == 0 and far(folder / "splats.ply", "b.npz") == 50
    (folder / "config.toml").unlink()
    assert far(folder, "c.npz") == 50 and "chosen by opacity and size" in caplog.text


def test_formats_that_are_to_be_small_leave_out_what_no_view_shows(
    scene, opened, device, tmp_path, caplog
):
    g = Gaussians.from_points(opened.points, opened.colors, 1)
    behind = g[np.arange(50)]
    behind.means[:] += 100.0
    g = Gaussians.concatenate([g, behind])
    folder, cameras = result_of(tmp_path / "run", g, data_dir=scene), cameras_of(opened)
    shown = SeenSplats(g, cameras, device=device).contributions()
    order = np.argsort(shown)
    least = int((np.cumsum(shown[order]) <= 3e-4 * shown.sum()).sum())
    assert 50 <= least < 100
    for row in (row for row in FILE_FORMATS.values() if row.writes):
        done = convert(folder, tmp_path / f"a{row.suffix}", quiet=True, measured=False)
        assert done.written == len(g) - (least if row.by_views else 0)
    words = f"a.spz: leaves out {least} splats, of which training views show as good as"
    assert words in caplog.text


def test_spz_of_a_result_rounds_harmonics_by_what_views_show(scene, opened, device, tmp_path):
    g = Gaussians.from_points(opened.points, opened.colors, 3)
    g.sh[:, 1:] = np.random.default_rng(0).normal(0, 0.1, g.sh[:, 1:].shape)
    folder = result_of(tmp_path / "run", g, data_dir=scene)
    shown = SeenSplats(g, cameras_of(opened), device=device).contributions()
    convert(folder, tmp_path / "a.spz", quiet=True, measured=False)
    back = load_splats(tmp_path / "a.spz")
    nearest = ((g.means[:, None] - back.means[None]) ** 2).sum(axis=2).argmin(axis=1)
    change = back.sh[nearest] - g.sh
    error = np.abs(change[:, 1:]).max(axis=(1, 2))
    much, little = shown > np.quantile(shown, 0.9), shown < np.quantile(shown, 0.3)
    assert error[much].max() < 0.04 < np.median(error[little])
    seen = SeenSplats(g, cameras_of(opened), device=device).directions(3)
    mean = np.einsum("nk,nkc->nc", seen / np.maximum(seen[:, :1], 1e-9), change)
    # half a step of the colour
    assert np.quantile(np.abs(mean[much]), 0.95) < 0.5 / 255 / 0.15 < 0.02 < error[much].mean()


@pytest.mark.parametrize("up", [None, "z"])
def test_sog_of_a_result_keeps_colours_that_views_see(scene, opened, device, tmp_path, caplog, up):
    """Of 64 entries: the mean colour over the directions of view stays, where those are known."""
    g = Gaussians.from_points(opened.points, opened.colors, 2)[np.arange(300)]
    g.sh[:, 0] *= 0.5
    g.sh[:, 1:] = np.random.default_rng(0).normal(0, 0.1, g.sh[:, 1:].shape)
    folder = result_of(tmp_path / "run", g, data_dir=scene, data_factor=2)
    cameras = cameras_of(opened)
    seen = SeenSplats(g, cameras, device=device).directions(2)
    away = g.means - cameras[0].position
    basis = harmonics.basis(away / np.linalg.norm(away, axis=1, keepdims=True), 2)
    with patch("hardsplat.export.contribution.PART", 1):  # parts of which nothing is seen, too
        alone = SeenSplats(g, cameras[:1], device=device).directions(2)
    wanted = alone[:, :1] / basis[:, :1] * basis
    np.testing.assert_allclose(alone, wanted, atol=1e-4 * alone.max())
    assert 0 < np.count_nonzero(alone[:, 0]) < len(g)
    back = np.eye(3) if up is None else upright(up).T

    def error(source):
        """Of the mean colour, and of the colour in any direction."""
        target = tmp_path / "a.sog"
        convert(source, target, up=up, overwrite=True, quiet=True, measured=False)
        packed = rotated(load_splats(target), back)
        apart = ((g.means[:, None] - packed.means[None]) ** 2).sum(axis=2)
        change = packed.sh[apart.argmin(axis=1)] - g.sh
        mean = np.einsum("nk,nkc->nc", seen / seen.sum(), change)
        return np.abs(mean).sum(), np.abs(change[:, 1:]).mean()

    (known, bands), (unknown, bands_too) = error(folder), error(folder / "splats.ply")
    assert known < 0.35 * unknown and bands_too / 1.2 < bands < 1.2 * bands_too
    words = "packed for all views alike"
    assert words not in caplog.text
    (folder / "config.toml").unlink()
    assert error(folder)[0] == pytest.approx(unknown) and words in caplog.text


def test_up_turns_the_scene(small, turned, tmp_path):
    g = load_splats(small)
    for suffix in (".ply", ".spz", ".glb"):
        found = differences(rotated(g, upright("z")), turned(f"a{suffix}", up="z", sh_degree=2))
        assert found["means"] < 0.002 and found["shape"] < 0.08 and found["shN"] < 0.01
    gltf, _ = read_glb(tmp_path / "a.glb")  # what was z in the file is y in glTF
    top = float(g.means[:, 2].max())
    assert gltf["accessors"][0]["max"][1] == pytest.approx(top, abs=1e-6)
    # A turn there and back: --up of what went up.
    a = turned("x.ply", up="x")
    convert(tmp_path / "x.ply", tmp_path / "b.ply", up="-y", quiet=True)
    b = load_splats(tmp_path / "b.ply")
    np.testing.assert_allclose(covariances(a), covariances(b), rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(a.means, b.means)


def test_the_command(small, tmp_path, capfd, error_of):
    out, result = tmp_path / "out.spz", tmp_path / "result"
    flags = "--max-splats 300 --crop sphere -0.5 0 0 99 --min_opacity 0.02".split()
    assert main(["convert", str(small), str(out), *flags]) == 0
    sizes = r"300 of 400 splats in \d+\.\d bytes each, \d+\.\d\d MB, 1/\d+\.\d of what was read"
    assert re.fullmatch(rf"{out}: {sizes}, in \d+\.\d s\n", capfd.readouterr().out)
    assert error_of("convert", small, out) == f"{out}: exists; add --overwrite to replace it"
    assert run(small, out, "--overwrite") == 0
    assert run(out, out, "--overwrite") == 0  # onto itself
    assert len(load_splats(out)) == 400
    result.mkdir()
    small.rename(result / "splats.ply")
    assert run(result, tmp_path / "new/a.glb") == 0  # a result folder, a folder to make


BAD = rows("""
    inx.ply out.ply | inx.ply: cannot be read: No such file
    in.ply out.obj | out.obj: splats are written as .compressed.ply, .ply
    in.obj out.ply | in.obj: not found; splats come as .ply, .npz
    in.ply out.ply --sh-degree 3 | --sh-degree 3: expected a degree of 0 to 2, which
    in.ply out.ply --min-opacity 2 | --min-opacity 2.0: expected a number of 0 to 1
    in.ply out.ply --max-splats 0 | --max-splats 0: expected a whole number of at least 1
    in.ply out.ply --crop cone 1 | cone 1: expected box X0 Y0 Z0 X1 Y1 Z1, or sphere X Y Z RADIUS
    in.ply out.ply --crop box 0 0 0 1 1 | --crop box 0 0 0 1 1: expected box
    in.ply out.ply --crop sphere 0 0 nan 1 | --crop sphere 0 0 nan 1: expected box
    in.ply out.ply --crop sphere 99 0 0 1 | none of its 400 splats is left; --crop, --min-opacity
    in.ply out.ply --up up | --up: expected one of x, y, z, -x, -y, -z, got 'up'
    in.ply in.ply/a.ply | cannot write in.ply/a.ply:
""")


@pytest.mark.parametrize("argv, words", BAD)
def test_bad_input(small, tmp_path, error_of, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    assert words in error_of("convert", argv)
    assert [p.name for p in tmp_path.iterdir()] == ["in.ply"]


@pytest.mark.parametrize("suffix", writable())
def test_a_full_disk_leaves_the_old_file_alone(small, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    out.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(UserError) as caught:
            convert(small, out, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == f"cannot write {out}: File too large"
    assert out.read_bytes() == b"old"
    assert {p.name for p in tmp_path.iterdir()} == {"in.ply", out.name}


def test_the_filter_of_splats_is_said_where_a_format_can(scene, tmp_path, caplog):
    """Splats stay as they are; a format that has no word for the filter costs a warning."""
    g = some_splats(50, 1)
    result_of(tmp_path / "run", g, antialiased=True, data_dir=scene)
    for row in FILE_FORMATS.values():
        if row.writes:
            path = tmp_path / f"a{row.suffix}"
            convert(tmp_path / "run", path, quiet=True, measured=False)
            warned = any(path.name in m and "2D filter" in m for m in caplog.messages)
            assert is_antialiased(path) == row.keeps_filter == (not warned)
            if not row.by_views:  # which leave out what no view shows
                found = load_splats(path).opacities.sum()
                np.testing.assert_allclose(found, g.opacities.sum(), rtol=0.01)
    lod(tmp_path / "run", tmp_path / "lod", quiet=True)
    assert is_antialiased(tmp_path / "lod/lod-meta.json")


@pytest.mark.parametrize("name", [*(f"a{suffix}" for suffix in writable()), "a_lod"])
def test_numpy_says_nothing_of_numbers_that_are_none(tmp_path, recwarn, capsys, name):
    """Infinite, NaN, and so large that their squares are."""
    file, splats = tmp_path / "bad.ply", some_splats(300, 1)
    for row, value in enumerate((np.nan, np.inf, -np.inf, 3e38, -3e38)):
        splats.means[row, 0] = splats.sh[row + 10, 0, 0] = splats.quats[row + 20, 0] = value
    save_splats(file, splats)
    words = ["lod", file] if name == "a_lod" else ["convert", file]
    assert main([*map(str, words), str(tmp_path / name), "--quiet"]) == 0
    assert "with NaN or infinite numbers" in "".join(capsys.readouterr())
    assert not [w for w in recwarn.list if w.category is RuntimeWarning]
