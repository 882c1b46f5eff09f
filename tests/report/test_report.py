"""report.html of a run: complete, self-contained, small, readable in grey, without script."""

import base64
import json
import re
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardsplat.base.errors import UserError
from hardsplat.io.splats import load_splats
from hardsplat.model import morton
from hardsplat.page.choose import Choice
from hardsplat.page.export import PageScene
from hardsplat.page.pack import Packed, unpack
from hardsplat.report import run as report
from hardsplat.results import pictures as saved
from hardsplat.settings.presets import save_config
from hardsplat.train import Watcher
from hardsplat.train import run_training as train
from hardsplat.train.run.trainer import Trainer
from tests.helpers.browser import open_page, parts
from tests.helpers.splat_files import some_splats
from tests.helpers.training import settings

pytestmark = pytest.mark.usefixtures("reports")


def picture(seed: int, size=(48, 64)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


DEVICE = dict(name="GPU of the test", driver="driver 1.2.3", kind="discrete GPU", host="Linux")
METRICS = dict(hardsplat="0.1.0", device=DEVICE, rasterizer="hardware", steps=40, wanted=40)
METRICS |= dict(splats=345, steps_per_second=8.0, clipped_steps=0, gpu_idle=0.01, step_ms=11.6)
METRICS |= dict(variants=dict(format="float16", reduction="hybrid"))
METRICS |= dict(seconds=dict(startup=1.0, training=5.0))
METRICS["stage_ms"] = {"begin step": 0.1, "project": 1.0, "sort count 0": 0.5, "draw": 3.0}
METRICS["stage_ms"] |= {"draw backward": 5.0, "project backward sink": 2.0}
METRICS["memory_bytes"] = {"parameters": 3 << 20, "optimizer": 6 << 20, "tiles": 0}
METRICS["memory_peak"] = {"driver": None, "allocated": 9 << 20, "host": None}
METRICS["curve"] = {"step": [10, 20, 40], "loss": [0.4, 0.3, 0.2], "psnr": [15.0, 18.0, 21.0]}
METRICS["curve"] |= {"splats": [300, 320, 345], "seconds": [None, 2.5, 5.0]}


@pytest.fixture
def finished(tmp_path):
    """finished(names of views, **changes of metrics.json) -> the folder of a run of 40 steps."""

    def make(names=("a.jpg", "rig/b.jpg"), folder="a scene", **changes):
        path = tmp_path / folder
        (path / "renders").mkdir(parents=True)
        config = settings(tmp_path / "scene", path, max_steps=40, seed=7)
        save_config(config.flat(), path / "config.toml")
        views = [{"name": name, "psnr": 20.0 + i, "ssim": 0.5} for i, name in enumerate(names)]
        same = {"splats": 300, "ssim": 0.5, "views": views}
        at = [{"step": n, "training_seconds": n / 8, "psnr": 18 + n / 20} | same for n in (20, 40)]
        metrics = METRICS | {"scene": str(path), "evaluations": at} | changes
        (path / "metrics.json").write_text(json.dumps(metrics))
        for i, name in enumerate(names):
            saved.write_comparison(path / "renders", name, picture(i), picture(100 + i))
        return path

    return make


def write_report(folder) -> Path:
    """The report of a folder's files, without a viewer."""
    report.write_report(folder, json.loads((folder / "metrics.json").read_text()))
    return folder / "report.html"


def test_it_holds_all_of_a_run(finished):
    path = write_report(finished())
    text, (embedded, _) = path.read_text(), parts(path)
    words = "a scene,GPU of the test,driver 1.2.3,21.00 dB,>345<,rig/b.jpg,11.6 ms on,forward draw,"
    for word in f"{words}9.0 MiB,float16,project backward sink".split(","):
        assert word in text, word
    changed = 'class="changed" title="seed of view order, random start and splits"'
    assert f"{changed}><td>seed</td><td>7" in text
    assert "Interrupted" not in text and "more in" not in text
    assert str(path.parent.parent) not in text, "a path of this machine"
    assert "<td>data_dir</td><td>scene</td>" in text
    assert ">0 at their" not in text and "strategy mcmc" not in text  # which was not chosen
    for got, seed in zip(embedded, (0, 100, 1, 101), strict=True):
        # Small: nothing is lost.
        assert np.array_equal(np.asarray(got.convert("RGB")), picture(seed))
    drawn = base64.b64encode((path.parent / "loss.png").read_bytes()).decode()
    assert f"data:image/png;base64,{drawn}" in text and path.stat().st_size < 400_000
    # the longest of the bars takes all of the width
    bars = {name: (width, share) for name, width, share in re.findall(BAR, text)}
    assert bars["backward draw"] == ("100.0", "43") and bars["forward draw"] == ("60.0", "26")
    assert bars["parameters"] == ("50.0", "33") and "tiles" not in bars


def test_curves_are_drawn_before_the_viewer_is_waited_for(finished):
    def viewer():
        assert (folder / "loss.png").is_file()
        return "<p>splats</p>"

    folder = finished()
    metrics = json.loads((folder / "metrics.json").read_text())
    report.write_report(folder, metrics, viewer=viewer)
    assert "<h2>The scene</h2>\n<p>splats</p>" in (folder / "report.html").read_text()


BAR = r"<tr><td>([^<]*)</td><td><div style=\"width: ([\d.]+)%.*>(\d+) %</td></tr>"
PEAKS = [(70 << 20, "70.0 MiB", "by its driver"), (None, "50.0 MiB", "as it allocates")]


@pytest.mark.parametrize("driver, words, counted", PEAKS)
def test_memory_is_that_of_the_driver_where_it_counts(finished, driver, words, counted):
    peak = {"driver": driver, "allocated": 50 << 20, "host": None}
    text = write_report(finished(memory_peak=peak)).read_text()
    assert f"<b>{words}</b><span>memory of the GPU at its peak, {counted}" in text


def test_names_are_text(finished):
    name = "<img src=x onerror=alert(1)>&.jpg"
    text = write_report(finished(names=(name,), folder="<b>scene")).read_text()
    assert "&lt;img src=x onerror=alert(1)&gt;&amp;.jpg" in text
    assert "<img src=x" not in text and "<b>scene" not in text


def test_an_interrupted_run_says_so_and_shows_no_older_renders(finished):
    path = write_report(finished(steps=30))
    text = path.read_text()
    assert "Interrupted at step 30 of 40" in text and parts(path)[0] == []
    assert "None were measured at the last step" in text
    nothing = dict(steps=0, evaluations=[], stage_ms={})
    nothing["curve"] = {name: [] for name in ("step", "loss", "psnr", "splats")}
    assert "No step was made" in write_report(finished(folder="nothing", **nothing)).read_text()


def test_damaged_and_missing_renders_are_left_out(finished):
    folder = finished(names=("a.jpg", "b.jpg", "c.jpg"))
    damaged = folder / "renders/a.jpg.render.png"
    damaged.write_bytes(damaged.read_bytes()[:200])
    (folder / "renders/b.jpg.photo.png").unlink()
    assert saved.comparison(folder, "a.jpg") is None is saved.comparison(folder, "b.jpg")
    assert len(parts(write_report(folder))[0]) == 2


def test_names_too_long_for_files(tmp_path):
    """File systems hold 255 bytes, and endings follow."""
    names = ["x" * 244, "x" * 243 + "y", "ü" * 126 + "a", f"{'f' * 250}/{'g' * 255}"]
    picture = np.zeros((2, 2, 3), np.uint8)
    for name in names:
        saved.write_comparison(tmp_path / "renders", name, picture, picture)
        assert saved.comparison(tmp_path, name) is not None
    assert sum(path.is_file() for path in (tmp_path / "renders").rglob("*")) == 2 * len(names)


TEXTS = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=9)


@given(st.lists(TEXTS, unique=True, min_size=2, max_size=5))
@example(["a/b.jpg", "a_b.jpg", "a_b.png", "a/b", "a_b", "a/b.jpg.png", "a.render.png"])
def test_no_two_views_share_a_file(views):
    names = [(view, part) for view in views for part in saved.PARTS]
    files = [saved.comparison_name(*name) for name in names]
    assert len(set(files)) == len(names)


SCRIPT = """
  const pair = document.querySelector(".pair"), slider = document.querySelector(".slider");
  slider.focus({preventScroll: true}); slider.value = 30; slider.dispatchEvent(new Event("input"));
  document.body.dataset.cut = pair.style.getPropertyValue("--cut") + " "
    + getComputedStyle(pair.children[0]).clipPath + " " + (document.activeElement === slider);
"""


def test_it_opens_in_chromium(finished, tmp_path):
    dom, shot = open_page(write_report(finished()), tmp_path, SCRIPT)
    assert "broken 0 of 5, wide false" in dom
    assert 'data-cut="30% inset(0px 70% 0px 0px) true"' in dom
    assert len(shot.getcolors(1 << 24)) > 20
    assert shot.getpixel((2, 2)) in ((255, 255, 255), (22, 23, 26))


def test_its_viewer_has_the_last_values_of_splats_that_were_chosen_before(
    on_device, scene, tmp_path, monkeypatch
):
    chosen, choose = [], report.viewer_choice

    def noted(planes, shown):
        chosen.append((planes, choose(planes, shown)))
        return chosen[-1][1]

    monkeypatch.setattr(report, "viewer_choice", noted)
    train(settings(scene, tmp_path, max_steps=40, batch_steps=5, means_lr=0.1, means_lr_final=0.1))
    ((planes, which),) = chosen
    last = load_splats(tmp_path / "splats.ply")
    assert which.count == len(last) == planes["means"].shape[1]
    g = last[which.whole]
    g, before = (part[morton.order(g.means)] for part in (g.means, planes["means"][0][which.whole]))
    step = np.ptp(g) / (2**14 - 1)
    assert np.abs(before - g).max() > 4 * step
    text = (tmp_path / "report.html").read_text()
    header = json.loads(re.search(r'class="hs-header">(.*?)</script>', text)[1])
    data = base64.b64decode(re.search(r'class="hs-data">([^<]*)<', text)[1])
    np.testing.assert_allclose(unpack(Packed(header, data)).means, g, atol=step)


def test_splats_that_were_chosen_of_another_number_are_chosen_again():
    g = some_splats(50, 1)
    few, planes = Choice(49, *(np.zeros(n, int) for n in (1, 0, 1))), g.planes(1)
    shown, nothing = PageScene("a scene"), lambda: None
    again = report.viewer_of(planes, shown, nothing, few)
    assert again == report.viewer_of(planes, shown, nothing) and '"splats": 50' in again


@pytest.mark.parametrize("part", ["viewer_of", "write_report", "write_page"])
def test_a_run_without_a_report_loses_nothing(
    on_device, scene, tmp_path, monkeypatch, capsys, part
):
    monkeypatch.setattr(f"hardsplat.report.run.{part}", Mock(side_effect=RuntimeError("no fonts")))
    metrics = train(settings(scene, tmp_path, max_steps=2))
    said = capsys.readouterr().out
    note = f"note: {tmp_path / 'report.html'} is not written: no fonts\n"
    assert said.count("no fonts") == 1 and (note in said) == (part != "viewer_of")
    assert metrics["steps"] == 2 and (tmp_path / "ckpts").is_dir()
    assert (tmp_path / "splats.ply").is_file() and (tmp_path / "metrics.json").is_file()


def test_a_run_that_is_to_end_while_it_is_measured_does_without_a_viewer(
    on_device, scene, tmp_path
):
    class Stop(Watcher):
        def turn(self, run, wait=False):
            run.stopping.asked = 2 * (run.session.step == 4)

    with Trainer(settings(scene, tmp_path, max_steps=4), [Stop()]) as run:
        metrics = run.train()
    assert (metrics["steps"], metrics["evaluations"]) == (4, [])
    assert (tmp_path / "ckpts" / "ckpt_4.npz").is_file() and (tmp_path / "splats.ply").is_file()
    text = (tmp_path / "report.html").read_text()
    assert "curves" in text.lower() and "hs-data" not in text


def test_a_run_that_is_to_end_while_it_waits_for_its_viewer_does_without(
    on_device, scene, tmp_path, monkeypatch
):
    ended = []

    def endless(planes, shown, picture, chosen, check):
        picture()
        while not ended:
            with suppress(UserError):
                check()
                time.sleep(0.01)
                continue
            ended.append(True)

    monkeypatch.setattr(report, "viewer_of", endless)
    with Trainer(settings(scene, tmp_path, max_steps=4)) as run:
        begin = run.files.begin_report

        def begun(*given):
            begin(*given)
            run.stopping.asked = 2

        monkeypatch.setattr(run.files, "begin_report", begun)
        metrics = run.train()
    assert ended and metrics["steps"] == 4 and len(metrics["evaluations"]) == 1
    assert "hs-data" not in (tmp_path / "report.html").read_text()


def test_interrupted_and_resumed_runs_have_one_too(on_device, scene, tmp_path, monkeypatch):
    config = settings(scene, tmp_path, max_steps=20, batch_steps=5)

    class Stop(Watcher):
        def turn(self, run, wait=False):
            run.stopping.asked = 2 if run.session.step else 0

    with pytest.raises(KeyboardInterrupt), Trainer(config, [Stop()]) as run:
        run.train()
    steps = json.loads((tmp_path / "metrics.json").read_text())["steps"]
    page = tmp_path / "report.html"
    assert 0 < steps < 20 and f"Interrupted at step {steps} of 20" in page.read_text()
    metrics = train(settings(scene, tmp_path, max_steps=20, batch_steps=5, resume=True))
    seconds = metrics["curve"]["seconds"]
    assert len(seconds) == len(metrics["curve"]["step"]) and seconds == sorted(seconds)
    assert seconds[0] > 0 and seconds[-1] <= metrics["seconds"]["training"]
    text = page.read_text()
    assert "Interrupted" not in text and "view_0008.jpg" in text
    assert text.count('class="hs-data"') == 1 and "worker-src blob:" in text and parts(page)
