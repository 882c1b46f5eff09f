"""Streamed SOG: levels written, read back, and read by others; damaged and hostile folders."""

import copy
import itertools
import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.export import levels as module
from hardsplat.export.levels import write_levels
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.base import PIECE, SplatStream, in_memory
from hardsplat.io.order import Bucket, Dealt
from hardsplat.io.splats import load_splats, open_splats, save_splats
from hardsplat.model.camera import rotation_matrix
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.page.export import PAGE
from hardsplat.page.merge import axes_of, covers, merged
from hardsplat.results.model import find_model
from tests.helpers.splat_files import covariances, differences, leaf_of, some_splats
from tests.helpers.spoiling import spoiled_bytes, spoiled_values, survives
from tests.helpers.tables import refusal

LOSS = dict(means=0.0004, shape=0.12, opacities=0.5 / 255, sh0=0.025, shN=0.09)  # of some_splats


@pytest.fixture(scope="module")
def splats():
    return some_splats(5000, 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory, splats):
    folder = tmp_path_factory.mktemp("lod")
    stream = in_memory(splats, antialiased=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dealt, "HELD", 100_000)  # so that cells are written many times
        write_levels(stream, folder, folder, leaf=700, chunk=1500, coarsest=400, quiet=True)
    assert not (folder / "dealt").exists()
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "lod")


def test_the_finest_level_is_the_scene(written, splats):
    stream = open_splats(written / streamed_sog.NAME)
    assert stream.antialiased and stream.count == 5000
    found = differences(splats, load_splats(written / streamed_sog.NAME))
    assert all(found[what] <= most for what, most in LOSS.items()), found
    assert find_model(written)[0] == written / streamed_sog.NAME
    chunk = load_splats(next(written.glob("0_*")) / "meta.json")  # SOG as a folder
    assert 0 < len(chunk) <= 1500


def test_the_tree_holds_its_splats(written):
    tree = streamed_sog.read_tree(written / streamed_sog.NAME)
    assert tree.levels == 3 and tree.count[:, 0].sum() == 5000 and len(tree.bounds) == 8
    assert (np.diff(tree.errors, axis=1) >= 0).all() and (tree.errors[:, 0] == 0).all()
    reach = np.array([[[np.inf] * 3, [-np.inf] * 3]] * 8)  # of all levels
    most = np.zeros(8)
    for file, first, n, bounds in zip(tree.file.T, tree.first.T, tree.count.T, [tree.bounds] * 3):
        for leaf in range(len(file)):
            chunk = Gaussians.concatenate(list(tree.chunk(file[leaf]).pieces()))
            run = chunk[first[leaf] : first[leaf] + n[leaf]]
            half = np.sqrt(np.einsum("nii->ni", covariances(run)))
            out = np.maximum(bounds[leaf, 0] - run.means + half, run.means + half - bounds[leaf, 1])
            assert out.max() < 0.1 * half.max()  # of what SOG rounds
            reach[leaf, 0] = np.minimum(reach[leaf, 0], (run.means - half).min(axis=0))
            reach[leaf, 1] = np.maximum(reach[leaf, 1], (run.means + half).max(axis=0))
            most[leaf] = max(most[leaf], half.max())
    assert (np.abs(reach - tree.bounds).max(axis=(1, 2)) < 0.1 * most).all()  # no larger either
    ratio = tree.count[:, 0] / tree.count[:, 1]
    assert (ratio > 3.9).all() and (ratio <= 4).all()


def test_merged_splats_have_the_moments_of_their_group():
    """Mean, covariance and cover of a group as float64 sums, but no opacity above 0.99."""
    g = some_splats(300, 1, size=0.05)
    g.opacities *= 0.05
    g.means += 5  # the mean's square is not small next to the covariance
    starts = np.array([0, 1, 4, 50])
    made, w, c = merged(g, starts), covers(g), covariances(g)
    got = covariances(made)
    for i, (a, b) in enumerate(itertools.pairwise([*starts, len(g)])):
        own, means = w[a:b] / w[a:b].sum(), g.means[a:b].astype(np.float64)
        middle = own @ means
        spread = means - middle
        wanted = np.einsum("n,nij->ij", own, c[a:b] + spread[:, :, None] * spread[:, None])
        np.testing.assert_allclose(made.means[i], middle, rtol=1e-6)
        np.testing.assert_allclose(got[i], wanted, atol=1e-5 * np.trace(wanted))
        np.testing.assert_allclose(covers(made)[i], w[a:b].sum(), rtol=1e-5)
        np.testing.assert_allclose(made.sh[i], np.tensordot(own, g.sh[a:b], 1), atol=1e-6)
    g.means[:] = 5
    g.opacities[:] = 0.9
    np.testing.assert_allclose(merged(g, starts).opacities[1:], 0.99)


@pytest.mark.parametrize("power", [50, -30])
def test_merged_splats_of_any_size(power):
    """Squares that float32 has no room for."""
    g = some_splats(60, 1, size=0.05)
    starts, times = np.array([0, 7, 30]), 2.0**power
    made = merged(g, starts)
    other = replace(g, means=g.means * np.float32(times), scales=g.scales * np.float32(times))
    again = merged(other, starts)
    np.testing.assert_allclose(again.means / times, made.means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again.opacities, made.opacities, rtol=1e-5)
    found, wanted = covariances(again) / times**2, covariances(made)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * wanted.max())


def test_a_faint_splat_far_off_leaves_the_others_their_size():
    g = some_splats(8, 1, size=0.05)
    g.means[1:] *= 0.01
    whole = merged(g[1:], np.array([0]))
    g.means[0], g.scales[0], g.opacities[0] = 30, 1e-5, 0
    wanted = covariances(whole)
    got = covariances(merged(g, np.array([0])))
    np.testing.assert_allclose(got, wanted, atol=1e-4 * wanted.max())


def test_axes_of_any_covariance():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(size=(200, 3)) * 6)
    values[:20], values[20:40], values[40:60] = (1, 1, 2), (1, 2, 2), (0, 0, 1)
    values[60:80], values[80:90] = 1, 0
    turns = np.linalg.qr(rng.normal(size=(200, 3, 3)))[0]
    turns[::2] = np.eye(3)[rng.permuted(np.tile(np.arange(3), (100, 1)), axis=1)]
    wanted = np.einsum("nik,nk,njk->nij", turns, values, turns)
    squares, quats = axes_of(wanted.transpose(1, 2, 0))
    np.testing.assert_allclose(np.linalg.norm(quats, axis=0), 1, rtol=1e-12)
    axes = rotation_matrix(*quats)
    got = np.einsum("ikn,kn,jkn->nij", axes, squares, axes)
    assert (np.abs(got - wanted).max(axis=(1, 2)) <= 1e-14 * values.max(axis=1)).all()


def test_errors_are_what_colours_differ_and_what_merging_blurs():
    g = some_splats(256, 0)
    g.sh[:] = g.sh[0]
    blur = 0.05 * covers(g).sum()
    np.testing.assert_allclose(module._errors(g, 3), [0, blur, 2 * blur], rtol=1e-6)
    g.sh[:, 0] += np.where(np.arange(256) % 2, 1, -1)[:, None] / SH_C0
    g.scales[:], g.opacities[:] = 0.1, 0.5  # so that means are those of all neighbours
    far = (3**0.5 + 0.05) * covers(g).sum()
    np.testing.assert_allclose(module._errors(g, 2), [0, far], rtol=1e-6)


def test_memory_does_not_grow_with_the_scene(tmp_path, monkeypatch):
    """What is alive at a time is bounded by pieces, held buckets and chunks."""
    monkeypatch.setattr(Dealt, "HELD", 1 << 20)
    alive, most = [0], [0]
    whole, add = Bucket.read, module._Chunks.add

    def read(self):
        found = whole(self)
        alive[0] += len(found)
        most[0] = max(most[0], alive[0])
        return found

    def added(self, leaves, size):
        alive[0] -= sum(leaf.counts[0] for leaf in leaves)
        add(self, leaves, size)

    monkeypatch.setattr(Bucket, "read", read)
    monkeypatch.setattr(module._Chunks, "add", added)
    piece = some_splats(2000, 0)
    stream = SplatStream(20_000, 0, lambda: (piece for _ in range(10)))
    made = write_levels(stream, tmp_path, tmp_path, leaf=700, chunk=2000, quiet=True)
    assert made.counts == [20_000] and most[0] <= 8000


@pytest.fixture
def many(monkeypatch):
    """Processes write levels, also of few splats."""
    monkeypatch.setattr(module, "_MANY", 0)
    monkeypatch.setattr(module, "CORES", 2)


def test_processes_write_the_same(written, splats, tmp_path, many):
    stream = in_memory(splats, antialiased=True)
    write_levels(stream, tmp_path, tmp_path, leaf=700, chunk=1500, coarsest=400, quiet=True)
    theirs, ours = (
        {f.relative_to(root): f.read_bytes() for f in root.rglob("*") if f.is_file()}
        for root in (written, tmp_path)
    )
    assert theirs == ours


def test_a_process_that_is_killed(many):
    killed = pytest.raises(UserError, match="one of 2 processes was killed")
    with killed, module._workers(1) as (pool, _):
        # Ctrl-C while they start would print what each imports
        assert signal.SIGINT in pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result()
        pool.submit(os._exit, 1).result()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("kind", ["same place", "one splat", "NaN"])
def test_odd_scenes(tmp_path, kind):
    g = some_splats(1 if kind == "one splat" else 1000, 1)
    if kind == "same place":
        g.means[:] = 1
    if kind == "NaN":
        g.means[::2] = np.nan
    write_levels(in_memory(g), tmp_path, tmp_path, leaf=100, coarsest=100, quiet=True)
    assert len(load_splats(tmp_path / streamed_sog.NAME)) == (500 if kind == "NaN" else len(g))


def test_splat_transform_reads_levels(written, tmp_path, splat_transform):
    """A chunk, by version 2; the finest level of the tree, by version 3."""
    whole = written / streamed_sog.NAME
    for path in (streamed_sog.read_tree(whole).files[0], whole):
        if path != whole or splat_transform.version >= "3":
            splat_transform(path, tmp_path / "theirs.ply")
            found = differences(load_splats(path), load_splats(tmp_path / "theirs.ply"))
            assert max(found.values()) < 1e-5, found


def test_we_read_levels_of_splat_transform(tmp_path, splat_transform):
    splats = some_splats(500, 0)
    save_splats(tmp_path / "fine.ply", splats)
    save_splats(tmp_path / "coarse.ply", splats[::5])
    (tmp_path / "out").mkdir()
    words = tmp_path / "fine.ply", "-l", 0, tmp_path / "coarse.ply", "-l", 1
    splat_transform(*words, tmp_path / "out" / streamed_sog.NAME)
    found = differences(splats, load_splats(tmp_path / "out" / streamed_sog.NAME))
    assert found["means"] < 0.02 and found["opacities"] < 0.005, found
    assert streamed_sog.read_tree(tmp_path / "out" / streamed_sog.NAME).count[:, 1].sum() == 100


def changed(folder, change):
    """The message that lod-meta.json brings after change(its JSON), which may return another."""
    path = folder / streamed_sog.NAME
    meta = json.loads(path.read_text())
    meta = change(meta) or meta
    path.write_text(meta if isinstance(meta, str) else json.dumps(meta))
    message = refusal(load_splats, path)
    assert message.startswith(f"{path}: ") and len(message) < 400
    return message


def leaf(**values):
    return lambda meta: leaf_of(meta).update(values)


def run(**values):
    return lambda meta: leaf_of(meta)["lods"]["0"].update(values)


def top(**values):
    return lambda meta: meta.update(values)


def nested(meta):
    """A tree of 10^5 levels."""
    deep = '{"children":[' * 10**5 + "{}" + "]}" * 10**5
    return json.dumps({**meta, "tree": 0}).replace('"tree": 0', f'"tree": {deep}')


def tall(meta):
    for _ in range(100):
        meta["tree"] = {"bound": meta["tree"]["bound"], "children": [meta["tree"], {}]}


HOSTILE = {
    "version": (top(version=2), "streamed SOG version 2; hardsplat reads version 1"),
    "levels": (top(lodLevels=10**9), "lodLevels is 1000000000, expected a whole number of 1 to 16"),
    "no files": (top(filenames=[]), "filenames is no list"),
    "escape": (top(filenames=["../a/meta.json"]), "'../a/meta.json', which is no meta.json below"),
    "drive": (top(filenames=["C:\\meta.json"]), "which is no meta.json below its folder"),
    "other file": (top(filenames=["0_0/means_l.webp"]), "which is no meta.json below its folder"),
    "missing": (top(filenames=["9_9/meta.json"]), "which is no meta.json below its folder"),
    "overlap": (run(offset=1), "runs of splats overlap, or leave splats of a chunk out"),
    "negative": (run(count=-5), "count is -5, expected a whole number of 1"),
    "fraction": (run(offset=0.5), "offset is 0.5, expected a whole number"),
    "file": (run(file=10**6), "file is 1000000, expected a whole number of 0 to"),
    "bounds": (leaf(bound={"min": [float("nan")] * 3, "max": [1] * 3}), "bounds of a leaf are"),
    "swapped": (leaf(bound={"min": [1] * 3, "max": [0] * 3}), "the bounds of a leaf are damaged"),
    "level": (leaf(lods={"77": {"file": 0, "offset": 0, "count": 1}}), "level '77'"),
    "empty leaf": (leaf(lods={}), "a leaf has no level"),
    "errors": (leaf(errors=[float("nan")] * 3), "the errors of a leaf are damaged"),
    "three": (lambda m: m["tree"]["children"].append({}), "other than two children"),
    "nested": (nested, "truncated or damaged"),
    "tall": (tall, "a node of the tree is damaged"),
    "no JSON": (lambda m: "{", "truncated or damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_trees(folder, name):
    change, message = HOSTILE[name]
    assert message in changed(folder, change)


def test_a_link_out_of_the_folder(folder, tmp_path):
    (folder / "0_0").rename(tmp_path / "elsewhere")
    (folder / "0_0").symlink_to(tmp_path / "elsewhere")
    assert "0_0/meta.json', which is no meta.json below" in changed(folder, copy.copy)


def test_a_chunk_with_other_splats(folder):
    tree = streamed_sog.read_tree(folder / streamed_sog.NAME)
    fine, coarse = (tree.files[number].parent for number in tree.file[0, [0, -1]])
    shutil.rmtree(fine)
    shutil.copytree(coarse, fine)
    said = refusal(load_splats, folder / streamed_sog.NAME)
    assert "splats, and lod-meta.json names" in said and "\n" not in said


def test_fuzz_gives_splats_or_a_user_error(folder):
    path = folder / streamed_sog.NAME
    good = path.read_bytes()

    def spoil(rng):
        data = json.dumps(spoiled_values(json.loads(good), rng)).encode()
        path.write_bytes(data if rng.integers(4) else spoiled_bytes(good, rng))

    load_splats(path)
    survives(lambda: load_splats(path), spoil, 60, seconds=3, memory=60_000_000, path=folder)


def test_the_command(tmp_path, splats, capfd, error_of):
    ply = tmp_path / "a.ply"
    save_splats(ply, splats)
    assert main(["lod", str(ply), "--quiet", "--title", "<T>"]) == 0
    out = tmp_path / "a_lod"
    assert {"index.html", "hardsplat.js", streamed_sog.NAME} <= {p.name for p in out.iterdir()}
    said = capfd.readouterr().out
    assert "splats by level: 5,000;" in said and f"hardsplat view {out}\n" in said
    assert f"python3 -m http.server -d {out}, then" in said
    assert "&lt;T&gt;" in (out / PAGE).read_text()
    assert 'protocol === "file:"' in (out / PAGE).read_text()  # as its hash in the policy has it
    assert json.loads((out / streamed_sog.NAME).read_text())["hardsplat"]["title"] == "<T>"
    assert "a_lod: exists; add --overwrite" in error_of("lod", str(ply))
    (out / "eval").mkdir()  # where `hardsplat eval` measured it
    assert main(["lod", str(ply), "--overwrite", "--quiet"]) == 0
    assert not (out / "eval").exists()  # what was measured is no more
    assert {path.name for path in tmp_path.iterdir()} == {"a.ply", "a_lod"}
    assert "has levels of detail already" in error_of("lod", str(out))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").touch()
    assert "holds other files" in error_of("lod", f"{ply} {tmp_path / 'mine'} --overwrite")
    assert "a.ply: is a file" in error_of("lod", f"{ply} {ply} --overwrite")
    (out / "notes.txt").touch()
    assert "other files (notes.txt)" in error_of("lod", f"{ply} {out} --overwrite")
    (out / "notes.txt").unlink()
    assert main(["convert", str(out), str(tmp_path / "back.ply")]) == 0
    assert open_splats(tmp_path / "back.ply").count == 5000 < PIECE
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["a.ply", "a_lod", "back.ply", "mine"]
