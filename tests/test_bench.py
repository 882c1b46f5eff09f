"""`hardsplat bench`: a row a variant, every pass in a stage, errors that tell formats apart, files and plots, bad input in one line."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hardsplat import contract, trained
from hardsplat.cli import main
from hardsplat.config import TrainConfig
from hardsplat.errors import OutOfMemory
from hardsplat.footprint import PURPOSES, by_purpose, purposes
from hardsplat.gaussians import Gaussians
from hardsplat.gpu import queue
from hardsplat.gpu.bandwidth import COPY, copy_bandwidth
from hardsplat.gpu.memory import allocate_all, staging_of
from hardsplat.gpu.pipelines import build
from hardsplat.gpu.recorder import Recorder
from hardsplat.io.ply import save_ply
from hardsplat.io.scene import load_scene
from hardsplat.io.splats import load_splats
from hardsplat.presets import save_config
from hardsplat.study import bench as module
from hardsplat.study import measure
from hardsplat.study.bench import Subject, Timing, bench, variants, views_of
from hardsplat.study.floors import floor_bytes
from hardsplat.study.measure import GRADIENTS, STAGES, Bench, stage_of
from hardsplat.study.sizes import count_of, resized
from hardsplat.study.tables import atomic_of, telling, varying
from hardsplat.variants.formats import FORMATS
from hardsplat.variants.moments import MOMENT_FORMATS

ONCE = Timing(repeats=1)


@pytest.fixture(scope="module")
def model(scene, tmp_path_factory):
    loaded = load_scene(scene)
    path = tmp_path_factory.mktemp("bench") / "splats.ply"
    splats = Gaussians.from_points(loaded.points, loaded.colors, sh_degree=1, opacity=0.5)
    splats.scales *= np.array([1.0, 0.6, 0.3], np.float32)  # a sphere's rotation has no gradient but that of rounding
    save_ply(path, splats)
    return path


@pytest.fixture
def on_device(device, monkeypatch):
    monkeypatch.setattr(module, "open_device", lambda wanted: device)
    return device


@pytest.mark.parametrize("upstream", ["random", "loss"])
def test_rows_stages_and_files(on_device, waiting, scene, model, tmp_path, upstream):
    chosen = dict(format=["float32", "unorm8"], block=["1x1"], ordering=[waiting])
    for name in ("bench.json", "bench_old.png", "other.png"):
        (tmp_path / name).touch()
    results = bench(Subject(model, scene, views=[1, 2]), Timing(upstream, 1, errors=True, error_views="all"), chosen, result_dir=tmp_path, quiet=True)
    assert [r.options["format"] for r in results] == ["float32", "unorm8"] and varying(results) == ["format"]
    for result in results:
        assert set(result.stages) == set(STAGES) and (result.stages["loss"] > 0) == (upstream == "loss") == (result.memory["loss"] > 0)
        assert result.total == pytest.approx(result.forward + result.backward) and result.visible > 0 and all(n > 0 for n in result.fragments.values())
        assert set(result.floors) == {s for s in ("project", "sort", "loss", "project backward", "optimizer") if result.stages[s]} and set(result.rates) == set(result.fragments)
        assert result.memory["parameters"] == 300 * 23 * 4 and result.memory["optimizer"] == pytest.approx(
            2 * 300 * 23 * MOMENT_FORMATS[result.options["moments"]].nbytes, rel=0.01
        )
        assert result.memory["sort"] == result.sort["allocated"] > result.sort["bytes"] and result.sort["visible"] == result.visible
    assert max(results[0].errors.values()) < 1e-4 < max(results[1].errors.values())
    assert min(results[0].cosines.values()) > 1 - 1e-6 > min(results[1].cosines.values())
    written = json.loads((tmp_path / "bench.json").read_text())
    assert len(written["rows"]) == 2 and written["about"]["error_views"] == [1, 2] and written["about"]["device"]["name"] == on_device.name
    assert {"commit", "command", "date", "copy_bytes_per_second"} <= set(written["about"])
    text = (tmp_path / "bench.md").read_text()
    assert all(f"## {title}" in text for title in ("Stages", "Stages over their floor", "Memory", "Memory of the sort", "Gradient error"))
    assert "state_format as format" in text and sorted(p.name for p in tmp_path.glob("bench_*.png")) == ["bench_errors.png", "bench_memory.png", "bench_stages.png"]
    assert {p.name for p in (tmp_path / "earlier_1").iterdir()} == {"bench.json", "bench_old.png"} and (tmp_path / "other.png").exists()


def test_sizes_and_thresholds(on_device, scene, model, tmp_path):
    axes = dict(reduction=["atomic", "hybrid"], hybrid_threshold=[8, 16])
    results = bench(Subject(model, scene, views=[1], splats=[0.5, 2]), ONCE, axes, result_dir=tmp_path, quiet=True)
    found = [(r.splats, r.options["reduction"], r.options.get("hybrid_threshold")) for r in results]
    assert found == [(n, *result) for n in (150, 600) for result in (("atomic", None), ("hybrid", 8), ("hybrid", 16))]
    assert [atomic_of(r, results) for r in results] == [results[0]] * 3 + [results[3]] * 3
    assert telling(results, varying(results), lambda r: r.memory) == (["splats"], [results[0], results[3]])
    text = (tmp_path / "bench.md").read_text()
    assert "## Size x reduction" in text and f"| 600 | atomic | - | {results[3].stages['backward draw']:.4g} | 1.000 |" in text
    assert {"bench_sizes.png", "bench_threshold.png"} <= {p.name for p in tmp_path.iterdir()}


def test_moments(on_device, scene, model, capsys):
    results = bench(Subject(model, scene, views=[1]), Timing(repeats=1, errors=True), {"moments": ["float32", "bfloat16"], "blending": ["fixed"]}, quiet=True)
    assert varying(results) == ["moments"] and [r.memory["optimizer"] for r in results] == pytest.approx([2 * 300 * 23 * 4, 300 * 23 * 4], rel=0.01)
    assert results[1].floors["optimizer"] < 0.8 * results[0].floors["optimizer"]
    assert results[0].errors == pytest.approx(results[1].errors, rel=0.1, abs=1e-6)
    on_device.capabilities.withdraw("storage_16bit", "core feature x")
    try:
        results = bench(Subject(model, scene, views=[1]), ONCE, {"moments": ["float32", "bfloat16"]}, quiet=True)
    finally:
        on_device.capabilities.names.add("storage_16bit")
        del on_device.capabilities.why_not["storage_16bit"]
    assert [r.options["moments"] for r in results] == ["float32"] and "lacks core feature x; use --moments float32" in capsys.readouterr().err


def test_a_gpu_is_warm_before_it_is_timed(device, scene, model, monkeypatch):
    """Frames are drawn, several at once, for as long as it takes; none on a CPU."""
    drawn, seconds, now = [], 0.2, [0.0]

    def complete(device, *commands):
        """In 0.01 s a frame, by a clock of our own."""
        queue.complete(device, *commands)
        now[0] += 0.01 * len(commands)
        drawn.append(len(commands))

    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(measure, "complete", complete)
    monkeypatch.setattr(measure, "WARM_SECONDS", seconds)
    job = Bench(device, load_scene(scene).views[:2], "random", 1)
    job.use(load_splats(model))
    job.measure("hardware", {})
    assert drawn == []
    monkeypatch.setattr(device, "physical", replace(device.physical, kind="discrete GPU"))
    assert job.measure("hardware", {}).total > 0
    assert max(drawn) > 1 and 2 * seconds <= 0.01 * sum(drawn) + 1e-9 < 2 * (seconds + 0.01 * max(drawn))  # for both views, and no longer than a submission more


def test_a_variant_that_does_not_fit_leaves_the_others(on_device, scene, model, tmp_path, monkeypatch, capsys):
    measure = Bench.measure

    def full(self, rasterizer, options):
        if options["reduction"] == "quad":
            raise OutOfMemory("no room")
        return measure(self, rasterizer, options)

    monkeypatch.setattr(Bench, "measure", full)
    results = bench(Subject(model, scene, views=[1]), ONCE, {"reduction": ["quad", "atomic"]}, result_dir=tmp_path, quiet=True)
    assert [r.options["reduction"] for r in results] == ["atomic"]
    out, err = capsys.readouterr()
    assert err == "skipped 300 splats, hardware, reduction quad: no room\n" and "- 300 splats, hardware, reduction quad: no room" in out
    assert json.loads((tmp_path / "bench.json").read_text())["skipped"] == ["300 splats, hardware, reduction quad: no room"]
    assert main(["bench", str(model), "--data-dir", str(scene), "--quiet", "--reduction", "quad"]) == 2
    assert "measured none of the variants asked for; the last: 300 splats, hardware, reduction quad: no room" in capsys.readouterr().err


def test_a_size_that_the_device_cannot_hold_is_left_out(on_device, scene, model, monkeypatch, capsys):
    staging_of(on_device)  # of more than what is left; every earlier test has made it, but this one may run alone
    monkeypatch.setattr(on_device, "max_buffer", 1 << 20)
    monkeypatch.setattr(module, "copy_bandwidth", lambda device: None)
    results = bench(Subject(model, scene, views=[1], splats=[100, 1]), ONCE, {}, quiet=True)
    assert [(r.splats, r.floors) for r in results] == [(300, {})]
    out, err = capsys.readouterr()
    assert err.startswith("skipped 30000 splats, hardware: buffer splats2d needs 1 MiB") and "over their floor" not in out


def test_errors_are_relative_l2_and_cosine(device, scene, model, monkeypatch):
    job = Bench(device, load_scene(scene).views[:2], "random", 1)
    job.use(load_splats(model))
    rng = np.random.default_rng(5)
    made = {kind: [{n: rng.standard_normal((7, 3)).astype(np.float32) for n in GRADIENTS} for _ in range(2)] for kind in ("float32", "unorm8")}
    monkeypatch.setattr(job, "gradients", lambda rasterizer, options, view: made[options["format"]][view])
    for all_views, views in ((False, 1), (True, 2)):
        errors, cosines = job.errors("hardware", {"format": "unorm8"}, all_views)
        for n in GRADIENTS:
            a, b = (np.concatenate([made[kind][v][n].ravel() for v in range(views)]).astype(np.float64) for kind in ("unorm8", "float32"))
            assert errors[n] == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(b), rel=1e-6)
            assert cosines[n] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-6)


def test_variants_without_a_threshold_come_once():
    found = list(variants({"reduction": ["atomic", "hybrid"], "hybrid_threshold": [8, 16], "format": ["unorm8"]}))
    assert found == [{"reduction": "atomic", "format": "unorm8"}, *({"reduction": "hybrid", "hybrid_threshold": t, "format": "unorm8"} for t in (8, 16))]
    assert list(variants({"format": ["unorm8"], "reduction": ["atomic", "hybrid"]}, known=["format"])) == [{"format": "unorm8"}]


def test_subsets_nest_and_copies_are_moved(model):
    splats = load_splats(model)
    results = [{tuple(m) for m in resized(splats, n).means} for n in (30, 100, 300)]
    assert [len(r) for r in results] == [30, 100, 300] and results[0] < results[1] < results[2]
    larger = resized(splats, 750)
    assert len(larger) == 750 and np.array_equal(larger.means[:300], splats.means) and np.array_equal(larger.sh[300:600], splats.sh)
    moved = np.abs(larger.means[300:600] - splats.means)
    assert (moved.max(axis=1) > 0).all() and np.median(moved / splats.scales.mean(axis=1, keepdims=True)) < 1
    assert [count_of(x, 300) for x in (0.001, 0.5, 1, 100, 101)] == [1, 150, 300, 30_000, 101]


def test_floors_follow_the_contract():
    found = floor_bytes(splats=1000, visible=400, sh_degree=1, pixels=600, target_bytes=8)
    assert found["project"] == 1000 * (11 * 4 + 8) + 400 * (12 * 4 + 13 * 4)
    assert found["sort"] == 1000 * 4 + 400 * (8 + 2 * 16 + 8 + 4)
    assert found["loss"] == 600 * (8 + 4 + 16)
    assert found["project backward"] == 1000 * 4 + 400 * (13 * 4 + 2 * 36 + 2 * 12)
    assert found["optimizer"] == 1000 * 6 * 23 * 4
    half = floor_bytes(splats=1000, visible=400, sh_degree=1, pixels=600, target_bytes=8, moment_bytes=2)
    assert half == found | {"optimizer": found["optimizer"] - 1000 * 4 * 23 * 2}


def test_every_purpose_is_of_the_contract():
    named = [name for names in purposes().values() for name in names]
    planes = {name for kind in trained.ORDER for name in (*trained.values(kind), *trained.moments(kind), *trained.gradients(kind, stored=True))} | {*trained.averages()}
    assert len(set(named)) == len(named) and set(named) <= {*contract.SPECS, *planes}
    assert by_purpose({"shN": 5, "keys": 2, "means": 1, "camera": 7}) == dict.fromkeys(PURPOSES, 0) | {"parameters": 6, "sort": 2, "other": 7}


def test_copy_bandwidth(device):
    assert 1e8 < copy_bandwidth(device, 8 << 20) < 1e14


def test_the_copy_moves_every_vector(device, monkeypatch):
    """Also when the dispatch folds: 5 workgroups, 2 a row."""
    monkeypatch.setitem(contract.CONSTANTS, "MAX_GROUPS_X", 2)
    n = 5 * contract.CONSTANTS["GROUP"]
    values = np.random.default_rng(3).random((n, 4 * COPY.spec["VECTORS"]), np.float32)
    buffers = allocate_all(device, {"source": values.nbytes, "copied": values.nbytes})
    buffers["source"].upload(values)
    recorder = Recorder(device, buffers)
    recorder.run(build(device, COPY), threads=(n,))
    recorder.end().run_once()
    assert np.array_equal(buffers["copied"].download(np.float32), values.ravel())
    for part in (recorder, *buffers.values()):
        part.destroy()


def test_every_pass_has_its_stage():
    names = {
        "sizes": "project",
        "project": "project",
        "project backward": "project backward",
        "sort scatter 3": "sort",
        "tile sort count 0": "tiles",
        "list sort": "lists",
        "draw": "forward draw",
        "resolve": "forward draw",
        "adam": "optimizer",
    }
    names |= {"begin forward": "forward draw", "draw backward": "backward draw", "begin backward": "backward draw", "loss ssim": "loss", "more": "other"}
    assert {name: stage_of(name) for name in names} == names


def test_views(scene):
    loaded = load_scene(scene)
    assert views_of(loaded, []) == list(range(8)) and views_of(loaded, [2]) == [2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--views", "99"], "--views 99: the scene has 9 views, 0 to 8"),
        (["--splats", "-1"], "--splats -1: expected a number above 0: up to 100 as a multiple of the model, else a number of splats"),
        (["--repeats", "0"], "--repeats 0: at least 1 draw must be timed"),
        (["--hybrid-threshold", "x"], "--hybrid-threshold: expected a whole number, got 'x'"),
        (["--data-factor", "0"], "--data-factor: expected a whole number of at least 1, got 0"),
        (["--format", "nosuch"], "--format: expected one of unorm8, unorm16, float16, float32, got 'nosuch'"),
    ],
)
def test_bad_input(on_device, scene, model, capsys, flags, message):
    assert main(["bench", str(model), "--data-dir", str(scene), *flags]) == 2
    assert capsys.readouterr().err == f"hardsplat: error: {message}\n"


def test_npz(tmp_path, capsys):
    path, n = tmp_path / "splats.npz", 5
    arrays = dict(means=np.ones((n, 3)), quats=np.ones((n, 4)), opacities=np.zeros(n), scales=np.zeros((n, 3)), sh0=np.ones((n, 1, 3)))
    np.savez(path, **arrays, shN_i8=np.full((n, 3, 3), 64, np.int8))
    splats = load_splats(path)
    assert splats.sh_degree == 1 and np.allclose(splats.opacities, 0.5) and np.allclose(splats.scales, 1) and np.allclose(splats.sh[:, 1:], 0.5)
    np.savez(path, means=arrays["means"])
    assert main(["bench", str(path), "--data-dir", str(tmp_path)]) == 2
    assert "no array quats" in capsys.readouterr().err
    assert main(["bench", str(tmp_path), "--data-dir", str(tmp_path)]) == 2  # a result folder without splats
    assert f"{tmp_path / 'splats.ply'}: " in capsys.readouterr().err


def test_a_result_knows_its_scene(on_device, scene, model, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/splats.ply").write_bytes(Path(model).read_bytes())
    assert main(["bench", str(tmp_path / "run"), "--quiet"]) == 2
    assert capsys.readouterr().err.endswith("splats.ply: nothing says which scene it shows, and views are what is timed; add --data-dir SCENE\n")
    save_config(TrainConfig(data_dir=scene, data_factor=2), tmp_path / "run/config.toml")
    for flags, factor in (([], 2), (["--data-factor", "1"], 1), (["--data-dir", str(scene)], 1)):
        assert main(["bench", str(tmp_path / "run"), "--quiet", "--views", "0", "--repeats", "1", "--result-dir", str(tmp_path / "out"), *flags]) == 0
        about = json.loads((tmp_path / "out/bench.json").read_text())["about"]["scene"]
        assert (about["folder"], about["data_factor"], about["width"]) == (str(scene), factor, 32 // factor)


def test_a_result_folder_that_cannot_be_is_said_first(scene, model, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["bench", str(model), "--data-dir", str(scene), "--result-dir", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"hardsplat: error: cannot make the folder {tmp_path / 'file'}: File exists; choose another --result-dir\n"


def test_all_stands_for_every_choice(monkeypatch):
    asked = []
    monkeypatch.setattr("hardsplat.study.bench.bench", lambda subject, timing, axes, **_: asked.append(axes))
    assert not main(["bench", "model.ply", "--format", "all"]) and asked == [{"format": list(FORMATS)}]
