"""`hardsplat compare`: the same views for both, the table, the page; bad input."""

import re

import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.io.splats import load_splats
from hardsplat.study.compare import compare
from hardsplat.train.measure.command import evaluate_run
from tests.helpers.splat_files import points_of, result_of


@pytest.fixture
def results(scene, tmp_path, on_device):
    """Two result folders of the tiny scene: its points as splats, and half of them."""
    steps = {"all": 1, "half": 2}
    return [result_of(tmp_path / n, points_of(scene, steps[n]), data_dir=scene) for n in steps]


def test_both_are_measured_as_eval_does(results, scene, capsys):
    first, second = results
    assert main(["compare", str(first), str(second)]) == 0
    said = capsys.readouterr().out
    page = (second / "compare.html").read_text()
    for folder, letter in zip(results, "AB"):
        table = evaluate_run(str(folder))
        count = len(load_splats(folder / "splats.ply"))
        size = (folder / "splats.ply").stat().st_size / 1e6
        line = f"{letter} {folder}: PSNR {table['psnr']:.2f} dB  SSIM {table['ssim']:.4f}"
        assert f"{line}, {count:,} splats, {size:.2f} MB" in said
        assert f"{table['psnr']:.2f}" in page and f"{table['views'][0]['psnr']:.2f}" in page
    views = evaluate_run(str(first))["views"]
    assert page.count('class="slider"') == len(views) == page.count("<summary>photograph</summary>")
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)  # nothing from the network
    assert f"<code>{scene.name}</code>" in page
    assert not (first / "compare.html").exists()


def test_the_first_names_the_size_of_views(results):
    """The second was trained on smaller images."""
    first, second = results
    text = (second / "config.toml").read_text()
    (second / "config.toml").write_text(re.sub(r"data_factor = \d+", "data_factor = 2", text))
    alone = compare(first, first, second / "same.html")
    both = compare(first, second, second / "both.html")
    assert [v["psnr"][0] for v in both["views"]] == [v["psnr"][0] for v in alone["views"]]
    assert all(v["psnr"][0] == v["psnr"][1] for v in alone["views"])
    assert np.mean([v["psnr"][0] - v["psnr"][1] for v in both["views"]]) != 0


def test_bad_input(results, error_of, tmp_path, scene):
    first, second = results
    assert "not found" in error_of("compare", first, tmp_path / "nothing")
    assert "a page ends in .html" in error_of("compare", first, second, "page.png")
    (second / "compare.html").touch()
    assert "exists; add --overwrite" in error_of("compare", first, second)
    other = tmp_path / "elsewhere"
    text = (second / "config.toml").read_text().replace(str(scene), str(other))
    (second / "config.toml").write_text(text)
    assert "they show two scenes" in error_of("compare", first, second, "--overwrite")
    alone = tmp_path / "alone.ply"
    (first / "splats.ply").rename(alone)
    assert "add --data-dir SCENE" in error_of("compare", alone, alone)
