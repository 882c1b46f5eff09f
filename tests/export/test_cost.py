"""What files of a run cost: the PSNR that is printed is that of the written file, as it draws."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.export.convert import convert
from hardsplat.export.cost import Cost
from hardsplat.export.lod import lod
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import load_splats, save_splats
from hardsplat.page.export import PageScene, write_page
from hardsplat.page.pack import read_page
from hardsplat.raster.renderer import Renderer
from tests.helpers.splat_files import result_of, some_splats
from tests.oracle import psnr

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture(scope="module")
def opened(scene):
    return load_scene(scene)


@pytest.fixture(scope="module")
def splats(opened):
    """In front of the cameras."""
    g = some_splats(800, 1, size=0.1)
    return replace(g, means=g.means * 0.4 + opened.points.mean(axis=0), check=False)


@pytest.fixture
def run(splats, scene, tmp_path):
    return result_of(tmp_path / "run", splats, data_dir=scene)


def of_photographs(device, g, opened, antialiased=False):
    """Mean PSNR of held-out photographs, dB."""
    with Renderer(device, "tiled", antialiased=antialiased) as renderer:
        images = [renderer.forward(g, v.camera)[0] for v in opened.held_out]
    photos = [view.load() / 255 for view in opened.held_out]
    return np.mean([psnr(np.clip(i, 0, 1), p) for i, p in zip(images, photos)])


@pytest.mark.parametrize("kind", [".ply", ".spz", ".splat", ".sog"])
def test_it_is_the_psnr_of_the_file_that_was_written(device, run, splats, opened, tmp_path, kind):
    done = convert(run, path := tmp_path / f"a{kind}", quiet=True)
    cost = done.cost
    assert cost.psnr == pytest.approx(of_photographs(device, load_splats(path), opened), abs=0.01)
    assert cost.before == pytest.approx(of_photographs(device, splats, opened), abs=0.01)
    assert cost.views == f"{len(opened.test)} held-out views"
    assert kind != ".ply" or cost.psnr == pytest.approx(cost.before, abs=1e-3)


def test_a_format_that_cannot_ask_for_the_filter_is_drawn_without(
    device, splats, scene, opened, tmp_path
):
    """The fault: the source with its filter and the file without are 40 dB apart at most."""
    run = result_of(tmp_path / "run", splats, antialiased=True, data_dir=scene)
    for kind, filtered in ((".splat", False), (".spz", True)):
        cost = convert(run, path := tmp_path / f"a{kind}", quiet=True).cost
        there = of_photographs(device, load_splats(path), opened, filtered)
        assert cost.psnr == pytest.approx(there, abs=0.01)
        assert cost.before == pytest.approx(of_photographs(device, splats, opened, True), abs=0.01)


@pytest.mark.parametrize(
    "words",
    [
        "convert --up z",
        "convert --crop sphere 0 0 0 1 --up x",
        "edit --scale 3 --up z --output",
        "edit --scale 0.001 --output",
    ],
)
def test_a_file_that_was_moved_is_seen_by_cameras_that_moved(run, tmp_path, capsys, words):
    command, *flags = words.split()
    where = [*flags, tmp_path / "a.glb"] if command == "edit" else [tmp_path / "a.glb", *flags]
    assert main([command, *map(str, (run, *where)), "--quiet"]) == 0
    said = capsys.readouterr().out
    if "crop" in words:
        assert " dB " not in said  # it shows what the source does
    else:
        assert re.search(r"PSNR \d+\.\d\d dB in 2 held-out views, the same as the", said), said


def test_pages_and_levels_are_read_back(run, splats, opened, device, capsys, tmp_path):
    assert main(["export", str(run), "--min-opacity", "0"]) == 0
    found = of_photographs(device, read_page(run / "page.html")[0], opened)
    assert f"PSNR {found:.2f} dB in 2 held-out views" in capsys.readouterr().out
    lod(run, tmp_path / "lod", quiet=True)
    found = of_photographs(device, load_splats(tmp_path / "lod" / "lod-meta.json"), opened)
    assert f"PSNR {found:.2f} dB in 2 held-out views" in capsys.readouterr().out


def test_without_photographs_the_source_is_what_it_is_compared_with(
    splats, opened, tmp_path, device, caplog
):
    """From the cameras of the report."""
    run = result_of(tmp_path / "run", splats, data_dir=tmp_path / "gone")
    assert convert(run, tmp_path / "a.spz", quiet=True).cost is None
    assert "quality is not measured: " in caplog.text
    views = {view.name: view.camera for view in opened.views[:3]}
    write_page(run / "report.html", splats, PageScene(cameras=views))
    cost = convert(run, path := tmp_path / "b.splat", quiet=True).cost
    with Renderer(device, "tiled") as renderer:
        drawn = [
            [np.clip(renderer.forward(g, c)[0], 0, 1) for c in views.values()]
            for g in (splats, load_splats(path))
        ]
    wanted = np.mean([psnr(a, b) for a, b in zip(*drawn)])
    assert cost.before is None and cost.psnr == pytest.approx(wanted, abs=0.05)
    assert cost.views == "3 of its training views"


def test_a_file_of_no_run_is_not_measured(splats, tmp_path):
    save_splats(tmp_path / "a.ply", splats)
    assert convert(tmp_path / "a.ply", tmp_path / "b.spz", quiet=True).cost is None


def test_words():
    assert str(Cost(31.0, 31.2, "5 held-out views")) == (
        "as any viewer draws it, PSNR 31.00 dB in 5 held-out views, 0.20 dB less than the source"
    )
    assert "0.10 dB more than" in str(Cost(31.1, 31.0, "x"))
    assert str(Cost(45.1, None, "x")).endswith("draws it, 45.1 dB from the source in x")
    assert Cost(120, None, "x").nothing and not Cost(31.0, 31.0, "x").nothing
