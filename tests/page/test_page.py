"""hardsplat export: what packing loses, what a page holds, and what Chromium draws of it."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardsplat.base.paths import SHADERS
from hardsplat.cli import main
from hardsplat.export.levels import COARSEST
from hardsplat.export.page import LIGHT, light_degree
from hardsplat.io.splats import save_splats
from hardsplat.model import morton
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import SH_C0, Gaussians
from hardsplat.page import choose, export, pack
from hardsplat.page.export import PageScene, write_page
from hardsplat.page.merge import merged
from hardsplat.page.pack import unpack
from hardsplat.raster.renderer import Renderer
from tests.helpers.devtools import SIZE, Browser, shot
from tests.helpers.splat_files import covariances
from tests.helpers.tables import argv, refuses, rows
from tests.oracle import psnr, splat
from tests.oracle.render import ALPHA_MAX

FOLDER = Path(export.__file__).parent / "web"
STATE = "document.querySelector('.hs')?.dataset.state"


def splats(n=400, degree=1, seed=0, spread=1.0) -> Gaussians:
    """In front of `camera()`, of all shapes and opacities."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n, 3)) * [1, 0.7, 1] * spread
    sh = rng.normal(size=(n, (degree + 1) ** 2, 3)) * 0.25
    sh[:, 0] = (rng.uniform(0.1, 0.9, (n, 3)) - 0.5) / SH_C0
    scales = np.exp(rng.uniform(-4.5, -1.5, (n, 3)))
    return Gaussians(means, rng.normal(size=(n, 4)), scales, rng.uniform(0.02, 1, n), sh)


def camera(x=0.0) -> Camera:
    w2c = np.eye(4)
    w2c[0, 3], w2c[2, 3] = x, 4
    return Camera(w2c, [[300, 0, 165], [0, 290, 118], [0, 0, 1]], *SIZE)


def hardsplat_export(*words) -> int:
    return main(["export", *argv(*words)])


@pytest.mark.parametrize("degree", range(4))
def test_what_packing_loses(degree):
    g = splats(700, degree, seed=degree)
    packed = pack.pack(g)
    back, g = unpack(packed), g[morton.order(g.means)]
    nbytes = 24 * 3 + 700 * (16 + 3 * ((degree + 1) ** 2 - 1))
    assert len(packed.data) < len(zlib.decompress(packed.data)) == packed.header["bytes"] == nbytes
    np.testing.assert_allclose(back.means, g.means, atol=1.01 * 0.5 * np.ptp(g.means) / (2**14 - 1))
    np.testing.assert_allclose(back.opacities, g.opacities, atol=0.502 / 255)
    np.testing.assert_allclose(0.5 + SH_C0 * back.sh[:, 0], 0.5 + SH_C0 * g.sh[:, 0], atol=0.005)
    step = max([pack.SH_STEP, *packed.header["sh"]])
    np.testing.assert_allclose(back.sh[:, 1:], g.sh[:, 1:], atol=0.502 * step)
    size = g.scales.max(axis=1) ** 2
    error = np.abs(covariances(back) - covariances(g)).max(axis=(1, 2)) / size
    assert error.max() < 0.03, error.max()  # scales in steps of 1.2 %, rotations of 0.3 degrees


def test_splats_that_cannot_be_seen_are_left_out():
    g = splats(50)
    g.means[3, 1], g.sh[4, 0, 0], g.scales[7, 2] = np.nan, np.inf, np.inf
    g.quats[5], g.opacities[6] = 0, 0.004
    left = choose.kept(g, min_opacity=0.005)
    assert len(left) == 45 and left.sh_degree == 1 and choose.kept(g, sh_degree=0).sh_degree == 0
    np.testing.assert_array_equal(left.means, np.delete(g.means, [3, 4, 5, 6, 7], axis=0))
    words = "none of 50 splats is left: all are fainter than --min-o"
    refuses(words, choose.kept, g, min_opacity=1.0)


def test_what_is_no_longer_finite_leaves_its_group():
    g = splats(100)
    chosen = choose.choice(g.means, g.scales, g.opacities, [], 20, np.arange(100), share=0.5)
    assert len(chosen.whole) == 10 and len(chosen.rest) == 90 and len(chosen.edges) == 11
    first, second = chosen.rest[:9], chosen.rest[9:18]
    g.sh[chosen.whole[3], 1], g.means[first[2], 0], g.quats[second] = np.nan, np.inf, 0
    left = chosen.splats(g.__getitem__)
    assert len(left) == 18 and np.isfinite(left.means).all() and np.isfinite(left.sh).all()
    wanted = merged(g[np.delete(first, 2)], np.array([0]))
    np.testing.assert_allclose(left.means[9], wanted.means[0], rtol=1e-6)
    g.quats[:] = 0
    refuses("no splat is left whose numbers are finite", chosen.splats, g.__getitem__)


def test_fewer_splats_keep_the_image(device):
    """Merged splats close holes of a wall that the most important ones alone leave open."""
    rng, n = np.random.default_rng(1), 2000
    means = np.column_stack([rng.uniform(-1, 1, (n, 2)), np.zeros(n)])
    quats, scales = np.tile([1, 0, 0, 0], (n, 1)), np.exp(rng.normal(-3.3, 0.4, (n, 3)))
    g = Gaussians(means, quats, scales, np.full(n, 0.7), np.zeros((n, 1, 3)))
    few = choose.kept(g, [camera()], max_splats=200)
    first = np.argsort(-choose.importance(g.means, g.scales, g.opacities, [camera()]))[:200]
    assert len(few) == 200 and len(choose.kept(g, [camera()], max_splats=2000)) == 2000
    with Renderer(device, "tiled") as renderer:
        whole, merged, pruned = (renderer.forward(part, camera())[0] for part in (g, few, g[first]))
    assert psnr(merged, whole) > psnr(pruned, whole) + 3


def header_of(text: str) -> dict:
    return json.loads(re.search(r'class="hs-header">(.*?)</script>', text)[1])


ABROAD = r"https?:|url\(|@import|<link|<iframe|fetch\(|XMLHttp|importScripts|import\(|eval\("
ABROAD += "|innerHTML"


def test_a_page_holds_all_it_needs(tmp_path):
    g, picture = splats(), np.zeros((24, 32, 3), np.uint8)
    names = ["</script><b>.jpg", 'rig/"b".jpg']
    views = {name: camera(i) for i, name in enumerate(names)}
    shown = PageScene("<b>title</b>", views, background=(1, 1, 1), picture=picture)
    written = write_page(tmp_path / "page.html", g, shown)
    text = (tmp_path / "page.html").read_text()
    header = header_of(text)
    assert written.bytes == len(text.encode()) and written.splats == 400 and text.isascii()
    assert "<b>" not in text and [c["name"] for c in header["cameras"]] == names
    assert not re.search(ABROAD, text)
    (source,) = re.findall(r'\b(?:src|href)="([^"]*)"', text)
    assert source.startswith("data:image/webp;base64,")
    data = base64.b64decode(re.search(r'class="hs-data">([^<]*)<', text)[1])
    assert unpack(pack.Packed(header, data)).sh.shape == (400, 4, 3)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    policy = policy.replace("&#39;", "'")
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        inline = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy
    assert write_page(again := tmp_path / "again.html", g, shown) == replace(written, path=again)
    assert (tmp_path / "again.html").read_text() == text and len(list(tmp_path.iterdir())) == 2


def test_the_guide_has_the_numbers_of_the_project():
    guide = " ".join((SHADERS.parent / "docs/guide/web.md").read_text().split())
    scripts = (FOLDER / "viewer.js").read_text() + (FOLDER / "stream/load.js").read_text()
    spaced = lambda n: f"{n:,}".replace(",", " ")
    for words in (
        f"keeps the page below {LIGHT / 1e6:g} MB, and 1 at least",
        f"leave out fainter splats (default: {export.MIN_OPACITY:g})",
        f"A page holds at most {spaced(pack.MOST_SPLATS)} splats",
        f"the coarsest level, of at most {spaced(COARSEST)} splats",
        f"a smaller version of at most {export.SMALL_BYTES / 1e6:g} MB",
    ):
        assert words in guide, words
    assert "longer than 50 ms is drawn coarser" in guide and "const SLOW = 50," in scripts
    budgets = "500 000 on phones, 3 million on desktops, 1 million where the browser tells of less"
    assert budgets in guide
    assert "? 500000 : (navigator.deviceMemory ?? 8) < 8 ? 1000000 : 3000000;" in scripts


def test_shaders_have_the_numbers_of_the_project():
    text = (FOLDER / "project.frag").read_text()
    for name, value in (("DILATION", splat.DILATION), ("FRUSTUM_SLACK", splat.FOV_MARGIN)):
        assert float(re.search(rf"{name} = ([0-9.]+);", text)[1]) == value
    assert splat.ALPHA_MIN == 1 / 255 and "ALPHA_MIN = 1.0 / 255.0;" in text
    assert f"min(alpha, {ALPHA_MAX})" in (FOLDER / "splat.frag").read_text()
    basis = (SHADERS / "include/sh.glsl").read_text()
    assert all(digits in basis for digits in re.findall(r"[0-9]\.[0-9]{10,}", text))
    decode = (FOLDER / "decode.js").read_text()
    numbers = f"CHUNK = {pack.CHUNK}, POSITION_STEPS = 2 ** {pack.POSITION_BITS} - 1, WIDTH = 2048;"
    assert numbers in decode and pack.MOST_SPLATS == 2048 * 2048


def test_the_command(tmp_path, capsys, scene, device, monkeypatch):
    own = lambda _, *args, **options: Renderer(device, *args, **options)
    monkeypatch.setattr("hardsplat.export.page.Renderer", own)
    ply = tmp_path / "splats.ply"
    save_splats(ply, splats(60, degree=2), antialiased=True)
    words = "--max-splats 50 --sh_degree 1 --title T --data-dir"
    assert hardsplat_export(ply, words, scene) == 0
    text = (tmp_path / "splats.html").read_text()
    header = header_of(text)
    assert header["splats"] == 50 and header["degree"] == 1 and header["antialiased"]
    assert "<title>T</title>" in text and "data:image/webp" in text and len(header["cameras"]) == 7
    said = capsys.readouterr().out
    assert "splats.html: 0.0" in said
    assert said.endswith(f"open it in any browser: {(tmp_path / 'splats.html').as_uri()}\n")
    assert hardsplat_export(ply, tmp_path / "alone.html", "--up=z") == 0
    header = header_of((tmp_path / "alone.html").read_text())
    assert [c["name"] for c in header["cameras"]] == ["start"] and header["up"] == [0, 0, 1]
    assert header["degree"] == 2 and "SH degree" not in capsys.readouterr().out
    counts = (100_000, 600_000, 1_000_000, 4_000_000)
    assert [light_degree(n, 3) for n in counts] == [3, 2, 1, 1] and light_degree(4_000_000, 0) == 0
    monkeypatch.setattr("hardsplat.export.page.LIGHT", 1000)
    assert hardsplat_export(ply, tmp_path / "light.html") == 0
    assert header_of((tmp_path / "light.html").read_text())["degree"] == 1
    assert "(--sh-degree 2 keeps all)" in capsys.readouterr().out


REFUSED = rows(
    """
    none.ply | none.ply: not found
    splats.ply page.pdf | page.pdf: a page ends in .html
    splats.ply --max-splats 0 | --max-splats 0: expected a number of 1 to 4194304
    splats.ply --sh-degree 4 | --sh-degree 4: expected a number of 0 to 3
    splats.ply --min-opacity nan | --min-opacity nan: expected a number of 0 to 1
    splats.ply --min-opacity 1 | none of 5 splats is left
    splats.ply --data-dir nowhere | nowhere: scene folder not found
    splats.ply splats.ply/page.html | cannot write splats.ply/page.html:
    """
)


@pytest.mark.parametrize("words, message", REFUSED)
def test_what_the_command_refuses(tmp_path, monkeypatch, error_of, words, message):
    monkeypatch.chdir(tmp_path)
    save_splats("splats.ply", splats(5))
    assert message in error_of("export", words) and not list(tmp_path.glob("*.html*"))


def ready(browser: Browser) -> None:
    browser.wait(f"{STATE} == 'ready'")


@pytest.mark.parametrize("degree, antialiased", [(0, False), (1, True), (2, False), (3, False)])
def test_it_draws_what_the_renderer_draws(browser, device, tmp_path, degree, antialiased):
    g, background = splats(900, degree, seed=degree), (0.2, 0.4, 0.1)
    views = {"a": camera(), "b": camera(0.7)}
    shown = PageScene(cameras=views, antialiased=antialiased, background=background)
    write_page(tmp_path / "page.html", g, shown)
    browser.requests.clear()
    browser.open((tmp_path / "page.html").as_uri() + "#camera=1&still")
    ready(browser)
    image = shot(browser)
    with Renderer(device, "tiled", antialiased=antialiased) as renderer:
        frames = [renderer.forward(g, camera(x), background=background) for x in (0.7, 0)]
        wanted, other = (np.clip(frame[0], 0, 1) for frame in frames)
    assert psnr(image, wanted) > 42 > 25 > psnr(other, wanted)
    assert browser.complaints == []
    assert all(url.startswith(("file:///", "data:", "blob:")) for url in browser.requests)


def test_a_far_splat_leaves_the_others_where_they_are(browser, device, tmp_path):
    """Copies that fill its chunk up are not drawn."""
    g = splats(600, 0)
    far = replace(g[:1], means=np.float32([[1e6, 0, 1e6]]), check=False)
    g = Gaussians.concatenate([far, g])
    write_page(tmp_path / "page.html", g, PageScene(cameras={"a": camera()}))
    browser.open((tmp_path / "page.html").as_uri() + "#camera=0&still")
    ready(browser)
    with Renderer(device, "tiled") as renderer:
        image = renderer.forward(g, camera())[0]
    assert psnr(shot(browser), np.clip(image, 0, 1)) > 42


def test_mouse_and_keys(browser, tmp_path):
    views = {f"{i}.jpg": camera(0.2 * i) for i in range(4)}
    picture = np.zeros((24, 32, 3), np.uint8)
    write_page(tmp_path / "page.html", splats(), PageScene(cameras=views, picture=picture))
    browser.open("about:blank")
    browser.open((tmp_path / "page.html").as_uri())
    ready(browser)
    browser.wait("!document.querySelector('.hs-first')")
    stats = browser.run("document.querySelector('.hs-numbers').textContent")
    assert re.match(r"3\d\d of 400 splats, 3 draw calls, sort \d", stats)
    drawn, shots = "document.querySelector('.hs').dataset.pictures", [shot(browser)]
    size = dict(height=SIZE[1], deviceScaleFactor=1, mobile=False)
    wheel = dict(type="mouseWheel", x=160, y=120, deltaX=0, deltaY=-300)

    def changed(act, *given, **named) -> None:
        """Does something, after which the page comes to rest with another picture."""
        before = browser.run(drawn)
        act(*given, **named)
        browser.wait(f"{STATE} == 'ready' && {drawn} > {before}")
        shots.append(shot(browser))
        assert shots[-1].size != shots[-2].size or psnr(shots[-1], shots[-2]) < 40

    changed(browser.drag, (160, 120), (200, 130))
    changed(browser.drag, (160, 120), (180, 130), "right")
    changed(browser.drag, (160, 120), (180, 130), "middle")
    changed(browser.ask, "Input.dispatchMouseEvent", **wheel)
    changed(browser.key, "ArrowLeft")
    assert browser.run("document.querySelector('.hs-list').selectedOptions[0].text") == "3.jpg"
    changed(browser.key, "Home")
    assert psnr(shots[-1][60:180], shots[0][60:180] + 1e-6) > 60  # all the way back
    changed(browser.run, "location.hash = '#camera=2'")
    assert browser.run("document.querySelector('.hs-list').value") == "2"
    changed(browser.ask, "Emulation.setDeviceMetricsOverride", width=240, **size)
    browser.ask("Emulation.setDeviceMetricsOverride", width=SIZE[0], **size)
    browser.key("KeyH")
    assert browser.run("document.querySelector('.hs-help').checkVisibility()")
    assert browser.complaints == []
