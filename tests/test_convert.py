"""`hardsplat convert`: what is kept, turned and ordered, in pieces, and what is refused."""

import re
import tracemalloc

import numpy as np
import pytest

from hardsplat import morton
from hardsplat.api import Renderer
from hardsplat.cli import main
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.export.contribution import contributions, directions_seen
from hardsplat.export.convert import convert, importance
from hardsplat.gaussians import Gaussians
from hardsplat.io.formats import FILE_FORMATS, writable
from hardsplat.io.formats.base import in_memory
from hardsplat.io.frames import rotated, upright
from hardsplat.io.scene import load_scene
from hardsplat.io.splats import is_antialiased, load_splats, save_splats
from hardsplat.presets import save_config
from tests.oracle import sh as harmonics
from tests.splat_files import covariances, differences, some_splats


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


def run(*argv):
    return main(["convert", *map(str, argv), "--quiet"])


def test_files_of_several_pieces_are_as_those_written_at_once(big, tmp_path):
    g = load_splats(big)
    assert len(g) == 149_999
    for suffix in (".ply", ".npz", ".splat", ".glb"):  # in the order of the file
        done = convert(big, tmp_path / f"a{suffix}", quiet=True)
        save_splats(tmp_path / f"b{suffix}", g)
        assert (done.read, done.written) == (150_000, 149_999) and done.size == (tmp_path / f"b{suffix}").stat().st_size
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes() or suffix == ".npz"  # whose members carry the time
    for suffix in (".spz", ".compressed.ply"):  # sorted on the disk here, in memory there
        convert(big, tmp_path / f"a{suffix}", quiet=True)
        save_splats(tmp_path / f"b{suffix}", g)
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_morton_order_puts_neighbours_beside_each_other(small, tmp_path):
    convert(small, tmp_path / "a.ply", morton=True, quiet=True)
    g, before = load_splats(tmp_path / "a.ply"), load_splats(small)
    assert max(differences(before, g).values()) < 1e-6
    keys = morton.keys(g.means, g.means.min(axis=0), g.means.max(axis=0))
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    steps = lambda g: np.linalg.norm(np.diff(g.means, axis=0), axis=1).mean()
    assert steps(g) < 0.5 * steps(before)
    corners = morton.keys(np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1.0]]), np.zeros(3), np.ones(3))
    bits = int("1" * 21, 2)
    assert corners.tolist() == [0, *(sum((bits >> i & 1) << (3 * i + axis) for i in range(21)) for axis in (2, 1, 0)), 2**63 - 1]


def test_fewer_bands_and_fewer_splats(small, tmp_path):
    g, out = load_splats(small), tmp_path / "a.npz"
    convert(small, out, sh_degree=1, min_opacity=0.5, quiet=True)
    wanted = g.opacities >= 0.5
    back = load_splats(out)
    assert back.sh_degree == 1 and len(back) == wanted.sum() and np.array_equal(back.sh, g.sh[wanted, :4])

    for crop, inside in (
        (("box", "-1", "0", "-9", "1", "2", "9"), (np.abs(g.means[:, 0]) <= 1) & (g.means[:, 1] >= 0) & (g.means[:, 1] <= 2)),
        (("sphere", "1", "0", "0", "1.5"), np.linalg.norm(g.means - [1, 0, 0], axis=1) <= 1.5),
    ):
        convert(small, out, crop=crop, overwrite=True, quiet=True)
        assert np.array_equal(load_splats(out).means, g.means[inside]) and 0 < inside.sum() < 400

    convert(small, out, max_splats=100, overwrite=True, quiet=True)
    weight = g.opacities * (g.scales[:, 0] * g.scales[:, 1] + g.scales[:, 1] * g.scales[:, 2] + g.scales[:, 2] * g.scales[:, 0])
    most = np.sort(np.argsort(-weight)[:100])
    assert np.array_equal(load_splats(out).means, g.means[most])  # in the order of the file

    convert(small, out, max_splats=7, weigh=lambda first, piece: np.zeros(len(piece)), overwrite=True, quiet=True)  # all alike: the first ones
    assert np.array_equal(load_splats(out).means, g.means[:7])
    seen = []
    convert(small, out, max_splats=7, weigh=lambda first, piece: seen.append(first) or importance(first, piece), overwrite=True, quiet=True)
    assert seen == [0]


def test_splats_of_a_result_are_chosen_by_what_they_contribute(scene, device, tmp_path, caplog):
    opened = load_scene(scene)
    g = Gaussians.from_points(opened.points, opened.colors, 1)
    hidden = g.means[:50] + 100.0  # far from all cameras, and larger than any other
    g = Gaussians(np.concatenate([g.means, hidden]), *(np.concatenate([x, x[:50]]) for x in (g.quats, g.scales, g.opacities, g.sh)))
    g.scales[-50:] = 3.0
    cameras = [opened.views[i].camera for i in opened.train[:2]]
    weights = contributions(g, cameras, device=device)
    with Renderer(device, "tiled") as renderer:
        seen = sum(float((1 - renderer.forward(g, camera)[1]).sum()) for camera in cameras)
    assert weights.sum() == pytest.approx(seen, rel=1e-4) and (weights[-50:] == 0).all()

    (tmp_path / "run").mkdir()
    save_splats(tmp_path / "run/splats.ply", g)
    save_config(TrainConfig(data_dir=scene, data_factor=2), tmp_path / "run/config.toml")
    convert(tmp_path / "run", tmp_path / "a.npz", max_splats=100, quiet=True)
    assert np.abs(load_splats(tmp_path / "a.npz").means).max() < 50
    convert(tmp_path / "run/splats.ply", tmp_path / "b.npz", max_splats=100, quiet=True)
    assert (np.abs(load_splats(tmp_path / "b.npz").means).max(axis=1) > 50).sum() == 50
    (tmp_path / "run/config.toml").unlink()
    convert(tmp_path / "run", tmp_path / "c.npz", max_splats=100, quiet=True)
    assert "chosen by opacity and size" in caplog.text and (tmp_path / "c.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("up", [None, "z"])
def test_sog_of_a_result_keeps_colours_as_its_training_views_see_them(scene, device, tmp_path, caplog, up):
    """A palette of 64 entries for 300 splats of random bands: the mean colour over the directions of view stays, as long as those are known."""
    opened = load_scene(scene)
    g = Gaussians.from_points(opened.points, opened.colors, 2)[np.arange(300)]
    g.sh[:, 0] *= 0.5
    g.sh[:, 1:] = np.random.default_rng(0).normal(0, 0.1, g.sh[:, 1:].shape)
    (tmp_path / "run").mkdir()
    save_splats(tmp_path / "run/splats.ply", g)
    save_config(TrainConfig(data_dir=scene, data_factor=2), tmp_path / "run/config.toml")
    cameras = [opened.views[i].camera for i in opened.train]
    seen = directions_seen(g, 2, cameras, device=device)
    away = g.means - cameras[0].position
    basis, alone = harmonics.basis(away / np.linalg.norm(away, axis=1, keepdims=True), 2), directions_seen(g, 2, cameras[:1], device=device)
    np.testing.assert_allclose(alone, alone[:, :1] / basis[:, :1] * basis, atol=1e-4 * alone.max())
    assert (alone[:, 0] > 0).any()

    def error(source):
        """Of the mean colour, and of the colour in any direction."""
        convert(source, tmp_path / "a.sog", up=up, overwrite=True, quiet=True)
        packed = rotated(load_splats(tmp_path / "a.sog"), np.eye(3) if up is None else upright(up).T)
        nearest = ((g.means[:, None] - packed.means[None]) ** 2).sum(axis=2).argmin(axis=1)
        change = packed.sh[nearest] - g.sh
        return np.abs(np.einsum("nk,nkc->nc", seen / seen.sum(), change)).sum(), np.abs(change[:, 1:]).mean()

    (known, bands), (unknown, bands_too) = error(tmp_path / "run"), error(tmp_path / "run/splats.ply")
    assert known < 0.35 * unknown and bands_too / 1.2 < bands < 1.2 * bands_too
    assert "training views look in" not in caplog.text
    (tmp_path / "run/config.toml").unlink()
    assert error(tmp_path / "run")[0] == pytest.approx(unknown) and "training views look in" in caplog.text


def test_up_turns_the_scene(small, tmp_path):
    g = load_splats(small)
    for suffix in (".ply", ".spz", ".glb"):
        convert(small, tmp_path / f"a{suffix}", up="z", sh_degree=2, quiet=True)
        found = differences(rotated(g, upright("z")), load_splats(tmp_path / f"a{suffix}"))
        assert found["means"] < 0.002 and found["shape"] < 0.08 and found["shN"] < 0.01
    import json
    import struct

    data = (tmp_path / "a.glb").read_bytes()  # what was z in the file is y in glTF
    gltf = json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])
    assert gltf["accessors"][0]["max"][1] == pytest.approx(float(g.means[:, 2].max()), abs=1e-6)


def test_the_command(small, tmp_path, capsys):
    out = tmp_path / "out.spz"
    assert main(["convert", str(small), str(out), "--max-splats", "300", "--crop", "sphere", "-0.5", "0", "0", "99", "--min_opacity", "0.02"]) == 0
    text = capsys.readouterr().out
    assert re.fullmatch(rf"{out}: 300 of 400 splats, \d+\.\d\d MB, 1/\d+\.\d of what was read, in \d+\.\d s\n", text)
    assert run(small, out) == 2
    assert capsys.readouterr().err == f"hardsplat: error: {out}: exists; add --overwrite to replace it\n"
    assert run(small, out, "--overwrite") == 0
    assert run(out, out, "--overwrite") == 0  # onto itself
    assert len(load_splats(out)) == 400
    (tmp_path / "result").mkdir()
    small.rename(tmp_path / "result/splats.ply")
    assert run(tmp_path / "result", tmp_path / "new/a.glb") == 0  # a result folder, a folder to make


BAD = {
    "no such file": (["{in}x.ply", "{out}.ply"], "inx.ply: cannot be read: No such file"),
    "no such format": (["{in}.ply", "{out}.obj"], "out.obj: splats are written as .compressed.ply, .ply"),
    "format that is not read": (["{in}.obj", "{out}.ply"], "in.obj: splats come as .ply, .npz"),
    "degree": (["{in}.ply", "{out}.ply", "--sh-degree", "3"], "--sh-degree 3: expected a degree of 0 to 2, which "),
    "opacity": (["{in}.ply", "{out}.ply", "--min-opacity", "2"], "--min-opacity 2.0: expected a number of 0 to 1"),
    "splats": (["{in}.ply", "{out}.ply", "--max-splats", "0"], "--max-splats 0: expected a whole number of at least 1"),
    "shape": (["{in}.ply", "{out}.ply", "--crop", "cone", "1"], "--crop cone 1: expected box X0 Y0 Z0 X1 Y1 Z1, or sphere X Y Z RADIUS"),
    "numbers": (["{in}.ply", "{out}.ply", "--crop", "box", "0", "0", "0", "1", "1"], "--crop box 0 0 0 1 1: expected box"),
    "NaN": (["{in}.ply", "{out}.ply", "--crop", "sphere", "0", "0", "nan", "1"], "--crop sphere 0 0 nan 1: expected box"),
    "nothing left": (["{in}.ply", "{out}.ply", "--crop", "sphere", "99", "0", "0", "1"], "none of its 400 splats is left; --crop or --min-opacity leaves nothing"),
    "up": (["{in}.ply", "{out}.ply", "--up", "up"], "argument --up: invalid choice: 'up'"),
    "file as folder": (["{in}.ply", "{in}.ply/a.ply"], "in.ply/a.ply: cannot be written: "),
}


@pytest.mark.parametrize("argv, words", BAD.values(), ids=BAD)
def test_bad_input(small, tmp_path, capsys, argv, words):
    assert run(*(word.replace("{in}", str(tmp_path / "in")).replace("{out}", str(tmp_path / "out")) for word in argv)) == 2
    err = capsys.readouterr().err
    assert err.startswith("hardsplat: error: ") and err.count("\n") == 1 and words in err
    assert [p.name for p in tmp_path.iterdir()] == ["in.ply"]


def test_a_folder_is_no_file_to_write(small, tmp_path):
    (tmp_path / "a.ply").mkdir()
    with pytest.raises(UserError, match="a.ply: is a folder; name a file"):
        convert(small, tmp_path / "a.ply", overwrite=True)


@pytest.mark.parametrize("suffix", writable())
def test_a_failed_conversion_leaves_the_old_file_and_nothing_else(small, tmp_path, monkeypatch, suffix):
    out = tmp_path / f"out{suffix}"
    out.write_bytes(b"old")
    row = next(r for r in FILE_FORMATS.values() if r.suffix == suffix and r.writes)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match=f"out{re.escape(suffix)}: cannot be written: No space left on device"):
        convert(small, out, overwrite=True)
    assert out.read_bytes() == b"old" and {p.name for p in tmp_path.iterdir()} == {"in.ply", out.name} and row


def test_antialiased_splats_in_a_format_that_cannot_say_so(small, tmp_path, caplog):
    save_splats(tmp_path / "aa.ply", load_splats(small), antialiased=True)
    convert(tmp_path / "aa.ply", tmp_path / "a.splat", quiet=True)
    assert "a.splat: .splat cannot say that its splats are antialiased" in caplog.text
    with pytest.raises(UserError, match="--classic: a file alone does not say"):
        convert(tmp_path / "aa.ply", tmp_path / "b.ply", classic=True, quiet=True)
    assert not (tmp_path / "b.ply").exists()


def test_antialiased_splats_for_viewers_without_the_filter(scene, device, tmp_path):
    """Drawn without the filter they show almost what they show with it, in every format and order; unchanged they do not."""
    opened, rng = load_scene(scene), np.random.default_rng(3)
    g = Gaussians.from_points(opened.points, opened.colors, 1)
    g.scales *= rng.uniform(0.1, 0.4, g.scales.shape).astype(np.float32)  # well below a pixel
    g.opacities[:] = rng.uniform(0.3, 0.9, len(g))
    (tmp_path / "run").mkdir()
    save_splats(tmp_path / "run/splats.ply", g, antialiased=True)
    save_config(TrainConfig(data_dir=scene, antialiased=True), tmp_path / "run/config.toml")
    cameras = [opened.views[i].camera for i in opened.train[:3]]
    with Renderer(device, "tiled", antialiased=True) as renderer:
        wanted = renderer.forward(g, cameras)[0]
    with Renderer(device, "tiled") as renderer:
        before = np.abs(renderer.forward(g, cameras)[0] - wanted).mean()
        for name, flags in {"a.ply": {"classic": True}, "a.splat": {}, "a.npz": {"classic": True, "morton": True}}.items():
            convert(tmp_path / "run", tmp_path / name, quiet=True, **flags)
            assert not is_antialiased(tmp_path / name)
            got = load_splats(tmp_path / name)
            assert np.abs(renderer.forward(got, cameras)[0] - wanted).mean() < 0.25 * before, name
    assert is_antialiased(tmp_path / "run/splats.ply")
    convert(tmp_path / "run", tmp_path / "same.ply", quiet=True)
    assert is_antialiased(tmp_path / "same.ply") and np.array_equal(load_splats(tmp_path / "same.ply").opacities, load_splats(tmp_path / "run/splats.ply").opacities)


@pytest.mark.parametrize("suffix", [".spz", ".glb"])
def test_memory_is_that_of_a_piece(tmp_path, suffix):
    """Of 0.3 million splats of degree 3, which are 71 MB: sorted on the disk, and not."""
    g, path = some_splats(30_000, 3), tmp_path / "in.ply"
    many = in_memory(Gaussians(*(np.tile(v, (10, *[1] * (v.ndim - 1))) for v in (g.means, g.quats, g.scales, g.opacities, g.sh))))
    FILE_FORMATS["ply"].write(path, many)
    del many
    save_splats(tmp_path / f"small{suffix}", some_splats(10, 0))  # imports
    tracemalloc.start()
    try:
        convert(path, tmp_path / f"a{suffix}", quiet=True)
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


def test_covariances_survive_every_axis(small, tmp_path):
    """A turn there and back: --up of what went up."""
    convert(small, tmp_path / "a.ply", up="x", quiet=True)
    convert(tmp_path / "a.ply", tmp_path / "b.ply", up="-y", quiet=True)
    a, b = load_splats(tmp_path / "a.ply"), load_splats(tmp_path / "b.ply")
    np.testing.assert_allclose(covariances(a), covariances(b), rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(a.means, b.means)
