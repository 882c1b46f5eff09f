"""Each program in examples/ runs and leaves what it says."""

import ast
import html
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hardsplat
from tests.helpers import needs

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(on_device, monkeypatch, tmp_path, capsys):
    """run("name.py", arguments...) -> what it prints."""
    monkeypatch.chdir(tmp_path)

    def example(name, *arguments):
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return example


@pytest.fixture
def splats(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "ball.ply"
    means, colors = rng.normal(size=(200, 3)), rng.integers(0, 255, (200, 3)).astype(np.uint8)
    ball = hardsplat.Gaussians.from_points(means, colors, sh_degree=1, opacity=0.9)
    hardsplat.save_splats(path, ball)
    return path


def test_all_are_listed_and_tested():
    names = {path.name for path in EXAMPLES.glob("*.py")}
    listed = {name for name in names if f"]({name})" in (EXAMPLES / "README.md").read_text()}
    tested = {name for name in names if f'run("{name}"' in Path(__file__).read_text()}
    assert listed == names == tested


def test_render_orbit(run, splats):
    printed = run("render_orbit.py", splats, "orbit.gif", "--views", 4, "--size", 48, 32)
    assert printed == "4 frames in orbit.gif\n"
    with Image.open("orbit.gif") as gif:
        assert (gif.n_frames, gif.size) == (4, (48, 32))
        first = np.asarray(gif.convert("RGB")).astype(int)
        gif.seek(2)
        other = np.asarray(gif.convert("RGB")).astype(int)
    assert first.std() > 5 and np.abs(first - other).mean() > 2  # the ball, from two sides


def test_fit_photograph(run):
    ramp = np.linspace(0, 255, 32 * 24 * 3).reshape(24, 32, 3)
    Image.fromarray(ramp.astype(np.uint8)).save("ramp.png")
    printed = run("fit_photograph.py", "ramp.png", "--blobs", 5, 40, "--steps", 20)
    few, many = map(float, re.findall(r" blobs: (\S+) dB", printed))
    assert many > few and Path("results/fit/40/reconstruction.png").is_file()


def test_custom_loss(run, device, scene):
    needs.module("torch", needs.EVERYTHING)
    from hardsplat.torch import configure, engines

    def psnr(steps):
        printed = run("custom_loss.py", scene, "out.ply", "--steps", steps, "--device", "cpu")
        return float(printed.split("PSNR ")[1].split()[0])

    configure(device)
    try:
        first, last = psnr(1), psnr(40)
    finally:
        engines.close()
    assert last > first + 1 and len(hardsplat.load_splats("out.ply")) == 300


def test_the_notebook(on_device, scene, tmp_path, monkeypatch):
    """Its cells run one after the other, on the tiny scene, and show what they say."""
    (tmp_path / "examples").mkdir()
    monkeypatch.chdir(tmp_path / "examples")  # as Jupyter does
    cells = json.loads((EXAMPLES / "train_and_show.ipynb").read_text())["cells"]
    space, shown = {}, []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"]).replace("../scenes/courtyard", str(scene))
        text = text.replace("max_steps=400, cap_max=15_000", "max_steps=20")
        *body, last = ast.parse(text).body
        exec(compile(ast.Module(body, []), "cell", "exec"), space)
        shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), space))
    said, both, figure, page, shape = shown
    assert said is None and space["result"].psnr > 5  # it is printed
    assert both.size == (960, 360) and np.ptp(np.asarray(both)[:, 480:]) > 50
    assert len(shape) == 3 and shape[2] == 3
    assert figure.axes and figure._repr_svg_().lstrip().startswith("<?xml")
    frame = page._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html') and 'height="500"' in frame
    source = html.unescape(frame.split('srcdoc="')[1].split('"')[0])
    assert source == page.html and "Content-Security-Policy" in source
    assert (tmp_path / "results/notebook/metrics.json").is_file()


def test_convert_and_open(run, splats, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert "out.spz: 200 splats" in run("convert_and_open.py", splats, "out.spz")
    assert opened == [(Path.cwd() / "out.html").as_uri()]
    assert Path("out.html").stat().st_size > 10_000
    assert len(hardsplat.load_splats("out.spz")) == 200
