"""Numbers that a format cannot hold: splats stay or are counted, and take no others along."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import cKDTree

from hardsplat.cli import main
from hardsplat.io.formats import FILE_FORMATS, writable
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.model import chunks, morton
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.pack import pack, unpack
from tests.helpers.splat_files import some_splats

N = 2000


def beside(**values) -> Gaussians:
    """some_splats and one more with these values."""
    g = some_splats(N, 1)
    other = replace(g[:1], **{k: np.float32(v) for k, v in values.items()}, check=False)
    return Gaussians.concatenate([g, other])


def sized(factor: float, offset: float = 0.0) -> Gaussians:
    g = some_splats(N, 1)
    means = g.means * np.float32(factor) + np.float32(offset)
    return replace(g, means=means, scales=g.scales * np.float32(factor), check=False)


def colored(constant: float, bands: float) -> Gaussians:
    g = some_splats(N, 1)
    return replace(g, sh=g.sh * np.array([constant, *[bands] * 3])[:, None], check=False)


def read_back(path, g) -> Gaussians:
    if path == "page":
        return unpack(pack(g))
    save_splats(path, g)
    return load_splats(path)


def displaced(g: Gaussians, back: Gaussians) -> int:
    """How many of g's first N splats are farther than half their size from any that can be seen."""
    seen = back.means[back.opacities > 0].astype(np.float64)
    far = cKDTree(seen).query(g.means[:N].astype(np.float64))[0]
    return int((far > np.median(g.scales[:N], axis=1) / 2).sum())


@pytest.mark.parametrize("kind", [*writable(), "page"])
@pytest.mark.parametrize("far", [[[1e5, 0, 0]], [[0, -3e8, 2e9]], [[-60, 0, 0]]])
def test_a_splat_that_is_far_out_displaces_no_others(tmp_path, caplog, kind, far):
    path = kind if kind == "page" else tmp_path / f"a{kind}"
    g = beside(means=far)
    back = read_back(path, g)
    assert displaced(g, back) <= 4  # 2 of compressed PLY without the one
    visible = back.opacities > 0
    assert visible.sum() == N + 1
    out = back.means[visible][np.abs(back.means[visible]).max(axis=1) > 40]
    kept = np.allclose(out, far, rtol=1e-2, atol=1)
    told = [m for m in caplog.messages if f"1 of {N + 1:,} splats lie too far out" in m]
    assert kept if kind != ".spz" else kept != bool(told)
    if told:  # in the same direction, and as large as it was from the middle
        (again,) = out
        assert again @ far[0] / np.linalg.norm(again) / np.linalg.norm(far[0]) > 0.999
        share = np.linalg.norm(again) / np.linalg.norm(far[0])
        size = back.scales[visible][np.abs(back.means[visible]).max(axis=1) > 40]
        wanted = np.maximum(np.sort(g.scales[-1]) * share, np.exp(-10))
        np.testing.assert_allclose(np.sort(size[0]), wanted, rtol=0.1)


BEYOND = {  # what some format does not hold, and what it says then
    "units of a tenth of a millimetre": (sized(1e4), "are larger than"),
    "units of ten kilometres": (sized(1e-4), "are smaller than 5e-05 units"),
    "far from the origin": (sized(1, 3e5), "are smaller than the step of positions"),
    "strong harmonics": (colored(1, 30), "have harmonics beyond"),
    "bright": (colored(12, 1), "than 1, which they became|have colours beyond"),
}


@pytest.mark.parametrize("kind", writable())
@pytest.mark.parametrize("g, words", BEYOND.values(), ids=BEYOND)
def test_what_a_format_does_not_hold_is_told(tmp_path, caplog, kind, g, words):
    path = tmp_path / f"a{kind}"
    back = read_back(path, g)
    nearest = cKDTree(back.means.astype(np.float64)).query(g.means.astype(np.float64))[1]
    back = back[nearest]
    # .splat has no bands, and what the palette of SOG loses is a share of them
    k = 1 if kind == ".sog" else back.sh.shape[1]
    logs = [np.log(np.sort(these.scales, axis=1)[:, 1:]) for these in (g, back)]
    change = np.abs(logs[0] - logs[1]).max(axis=1) > 0.2
    change |= np.linalg.norm(back.means - g.means, axis=1) > np.median(g.scales, axis=1)
    change |= (np.abs(back.sh[:, :k] - g.sh[:, :k]).reshape(N, -1) > 0.3).any(axis=1)
    told = [m for m in caplog.messages if m.startswith(f"{path}: ")]
    assert bool(told) == (change.mean() > 0.02), (change.mean(), caplog.messages)
    assert not told or any(part in m for m in told for part in words.split("|"))
    assert all("keep" in m or "edit" in m for m in told)


def test_ordinary_splats_are_written_without_a_word(tmp_path, caplog):
    g = some_splats(3000, 3)
    for row in FILE_FORMATS.values():
        if row.writes:
            save_splats(tmp_path / f"a{row.suffix}", g)
            assert len(load_splats(tmp_path / f"a{row.suffix}")) == 3000
    assert not caplog.messages


def test_runs_are_cut_where_coordinates_jump_and_nowhere_else():
    rng = np.random.default_rng(0)
    near = rng.uniform(0, 1, (700, 3))
    means = np.concatenate([near, near[:100] + 1e6, near[:300]])
    ends = chunks.runs(means, np.full(1100, 0.01), np.full(3, 2047.0))
    assert ends.tolist() == [256, 512, 700, 800, 1056, 1100]
    assert chunks.runs(near, np.full(700, 0.01), np.full(3, 2047.0)).tolist() == [256, 512, 700]
    rows, copies = chunks.filled(ends)
    assert len(rows) == 5 * 256 + 44 and copies.sum() == 68 + 156
    assert rows[~copies].tolist() == list(range(1100)) and set(rows[copies]) == {699, 799}


def test_morton_order_puts_far_points_last():
    near = np.random.default_rng(0).uniform(0, 1, (1000, 3))
    far = np.float64([[1e9, 0, 0], [50, 0, 0], [0, -1e4, 0]])
    found = morton.order(np.concatenate([far, near]))
    assert found[-3:].tolist() == [1, 2, 0]
    assert (found[:-3] == morton.order(near) + 3).all()


def test_edit_brings_a_scene_into_units_that_spz_holds(tmp_path, capsys):
    save_splats(tmp_path / "a.ply", sized(1e4))
    words = [str(tmp_path / "a.ply"), "--scale", "1e-4", "-o", str(tmp_path / "b.spz")]
    assert main(["edit", *words]) == 0
    assert "splats are larger" not in capsys.readouterr().err
    assert np.median(load_splats(tmp_path / "b.spz").scales) == pytest.approx(0.03, rel=0.1)
