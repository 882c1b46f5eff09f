"""`hardsplat bench`: a row a variant, stages, errors that tell formats apart, files, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

from hardsplat.base.errors import OutOfMemory
from hardsplat.cli import main
from hardsplat.io.splats import save_splats
from hardsplat.report.stages import STAGES
from hardsplat.study.bench.bench import bench
from hardsplat.study.bench.measure import Bench
from hardsplat.study.tables import section, varying
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from tests.helpers.splat_files import points_of
from tests.helpers.tables import rows


@pytest.fixture(scope="module")
def model(scene, tmp_path_factory):
    path, splats = tmp_path_factory.mktemp("bench") / "splats.ply", points_of(scene, opacity=0.5)
    # A sphere's rotation has no gradient but that of rounding.
    splats.scales *= np.array([1.0, 0.6, 0.3], np.float32)
    save_splats(path, splats)
    return path


@pytest.fixture
def run(on_device, scene, model):
    """run(axes, result_dir, ...) -> the bench's rows."""
    how = dict(data_dir=scene, views=[1], repeats=1, quiet=True)
    return lambda axes, folder, **more: bench(model, axes, result_dir=folder, **how | more)


def test_rows_stages_and_files(run, on_device, waiting, tmp_path):
    chosen = dict(format=["float32", "unorm8"], block=["1x1"], ordering=[waiting])
    for name in ("bench.json", "other.json"):
        (tmp_path / name).touch()
    results = run(chosen, tmp_path, views=[1, 2], errors=True)
    assert [r.options["format"] for r in results] == ["float32", "unorm8"]
    assert varying([r.options for r in results]) == ["format"]
    numbers = 300 * 23
    for r in results:
        assert set(r.stages) == set(STAGES)
        assert r.total == pytest.approx(r.forward + r.backward) and r.visible > 0
        assert r.fragments and all(n > 0 for n in r.fragments.values())
        moments = 2 * numbers * MOMENT_FORMATS[r.options["moments"]].nbytes
        assert r.memory["parameters"] == numbers * 4
        assert r.memory["optimizer"] == pytest.approx(moments, rel=0.01)
    exact, rough = results
    assert max(exact.errors.values()) < 1e-4 < max(rough.errors.values())
    written = json.loads((tmp_path / "bench.json").read_text())
    about = written["about"]
    assert len(written["rows"]) == 2
    assert about["device"]["name"] == on_device.name
    assert {"commit", "command", "date"} <= set(about)
    text = (tmp_path / "bench.md").read_text()
    titles = "Stages", "Memory", "Gradient error"
    assert all(f"## {title}" in text for title in titles) and "state_format as format" in text
    earlier = {p.name for p in (tmp_path / "earlier_1").iterdir()}
    assert earlier == {"bench.json"} and (tmp_path / "other.json").exists()


def test_tables_are_aligned():
    rows = [["b", "12.5", "-"], ["abcde", "-", "x"]]
    assert section("Times", "In ms.", ["name", "all", "why"], rows)[5:] == [
        "| name  |  all | why |",
        "| ----- | ---: | --- |",
        "| b     | 12.5 | -   |",
        "| abcde |    - | x   |",
    ]


def test_a_variant_that_does_not_fit_is_left_out(run, scene, model, tmp_path, monkeypatch, capsys):
    measure = Bench.measure

    def full(self, rasterizer, options):
        if options["reduction"] == "quad":
            raise OutOfMemory("no room")
        return measure(self, rasterizer, options)

    monkeypatch.setattr(Bench, "measure", full)
    results = run({"reduction": ["quad", "atomic"]}, tmp_path)
    assert [r.options["reduction"] for r in results] == ["atomic"]
    out, err = capsys.readouterr()
    skipped = "hardware, reduction quad: no room"
    assert err == f"skipped {skipped}\n" and f"- {skipped}" in out
    assert json.loads((tmp_path / "bench.json").read_text())["skipped"] == [skipped]
    flags = [str(model), "--data-dir", str(scene), "--quiet", "--reduction", "quad"]
    assert main(["bench", *flags]) == 2
    words = f"measured none of the variants asked for; the last: {skipped}"
    assert words in capsys.readouterr().err


BAD = rows(f"""
    --views 99 | --views 99: the scene has 9 views, 0 to 8
    --repeats 0 | --repeats 0: at least 1 draw must be timed
    --hybrid-threshold x | --hybrid-threshold: expected a whole number, got 'x'
    --data-factor 0 | --data-factor: expected a whole number of at least 1, got 0
    --format nosuch | --format: expected one of {", ".join(FORMATS)}, got 'nosuch'
    --result-dir file | cannot make the folder file: file is a file, not a folder; choose
""")


@pytest.mark.parametrize("flags, message", BAD)
def test_bad_input(on_device, scene, model, tmp_path, monkeypatch, error_of, flags, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert error_of("bench", model, "--data-dir", scene, flags).startswith(message)
