"""Pages of hardsplat lod in Chromium: what they load, draw and refuse."""

import functools
import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from hardsplat.export import opening
from hardsplat.export.levels import write_levels
from hardsplat.io.formats import streamed_sog
from hardsplat.io.formats.base import in_memory
from hardsplat.model.camera import Camera
from hardsplat.page.export import PageScene, source, view_header, write_page, write_stream_page
from hardsplat.raster.renderer import Renderer
from hardsplat.render.streaming import Sight, choose_levels
from tests.helpers import needs
from tests.helpers.devtools import SIZE, shot
from tests.helpers.splat_files import leaf_of, some_splats
from tests.oracle import psnr

ROOT = "document.querySelector('.hs')?.dataset"


def camera(x=0.0, z=9.0) -> Camera:
    w2c = np.eye(4)
    w2c[0, 3], w2c[2, 3] = x, z
    return Camera(w2c, [[300, 0, 165], [0, 290, 118], [0, 0, 1]], *SIZE)


CAMERAS = {"far": camera(z=14), "near": camera(), "side": camera(1.0, 4.0)}


@pytest.fixture(scope="module")
def splats():
    return some_splats(6000, 2, size=0.06)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, splats):
    """Levels of 6000 splats in eight leaves and files of about 1 500."""
    path = tmp_path_factory.mktemp("lod")
    extra = lambda sample: view_header(sample, PageScene("Test", CAMERAS))
    stream = in_memory(splats)
    made = write_levels(stream, path, path, extra, leaf=900, chunk=1600, coarsest=400, quiet=True)
    assert made.counts[0] == 6000 and made.counts[-1] <= 400 and len(made.counts) == 3
    write_stream_page(path, "Test")
    return path


class Handler(opening._Handler):
    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@pytest.fixture(scope="module")
def site(tmp_path_factory, folder):
    """(folder that is served, its address); the levels are in its folder scene."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(folder, root / "scene")
    handler = functools.partial(Handler, directory=root)
    with opening._Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def open_at(browser, address, fragment) -> None:
    browser.open("about:blank")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(f"{address}/scene/#{fragment}")


def test_a_flight_loads_what_the_camera_sees(browser, site, splats, device):
    _, address = site
    open_at(browser, address, "camera=0&still&budget=1500")
    browser.wait(f"{ROOT}.state == 'ready'")
    few = int(browser.run(f"{ROOT}.splats"))
    assert 300 <= few <= 1500 and int(browser.run(f"{ROOT}.firstBytes")) < 60_000
    coarse = shot(browser)
    browser.run("location.hash = '#camera=2&still'")
    browser.wait(f"{ROOT}.state == 'ready' && {ROOT}.pictures > 1")
    assert int(browser.run(f"{ROOT}.splats")) <= 1500

    open_at(browser, address, "camera=0&still")
    browser.wait(f"{ROOT}.state == 'ready'")
    assert int(browser.run(f"{ROOT}.splats")) == 6000
    with Renderer(device, "tiled") as renderer:
        whole = np.clip(renderer.forward(splats, CAMERAS["far"])[0], 0, 1)
    fine = psnr(shot(browser), whole)
    assert fine > 37 and psnr(coarse, whole) < fine - 5, (fine, psnr(coarse, whole))
    assert browser.complaints == []
    assert all(url.startswith((address, "blob:")) for url in browser.requests)


def test_levels_are_those_that_the_program_chooses(browser, site, folder):
    _, address = site
    tree = streamed_sog.read_tree(folder / streamed_sog.NAME)
    open_at(browser, address, "camera=0&still")
    text = "\n".join(map(source, ("stream/levels.js",))).replace('"use strict";', "")
    views = [camera(x, z) for x, z in ((0, 9), (1, 3), (-3, 1), (0, 40), (2, -1))]
    for view in views:
        sight = Sight.of(view, 0.2)
        seen = dict(view=sight.view.ravel().tolist(), focal=sight.focal, near=sight.near)
        seen |= dict(low=sight.low.tolist(), high=sight.high.tolist())
        for budget in (50, 400, 900, 2000, 6000):
            call = f"[...chooseLevels(checkedTree(meta), {json.dumps(seen)}, {budget})]"
            meta = (folder / streamed_sog.NAME).read_text()
            theirs = browser.run(f"(() => {{ {text}; const meta = {meta}; return {call}; }})()")
            ours = choose_levels(tree.bounds, tree.count, tree.errors, sight, budget)
            assert theirs == ours.tolist(), (view.position, budget)


HOSTILE = {  # what is wrong with lod-meta.json -> what the page shows
    "version": (dict(version=3), "streamed SOG of version 3"),
    "levels": (dict(lodLevels=10**9), "number of levels"),
    "escape": (dict(filenames=["../../0_0/meta.json"]), "a path that is no meta.json below"),
    "host": (dict(filenames=["//example.org/meta.json"]), "a path that is no meta.json below"),
    "scheme": (dict(environment="data:,meta.json"), "a path that is no meta.json below"),
    "tree": (dict(tree=None), "a node of the tree"),
    "leaf": (dict(tree=dict(bound=dict(min=[0, 0, 0], max=[1, 1, None]), lods={})), "bounds of a"),
    "view": (dict(hardsplat=dict(near="0")), "the view"),
    "runs": (lambda meta: leaf_of(meta)["lods"]["0"].update(offset=1), "runs of splats overlap"),
    "count": (lambda meta: leaf_of(meta)["lods"]["0"].update(count=1e300), "a run of splats"),
    "bounds": (lambda meta: leaf_of(meta)["bound"].update(min=[1e9, 0, 0]), "bounds of a leaf"),
}


def test_hostile_trees_are_refused(browser, site, folder):
    root, address = site
    path, good = root / "scene" / streamed_sog.NAME, (folder / streamed_sog.NAME).read_text()
    try:
        for name, (change, message) in HOSTILE.items():
            meta = json.loads(good)
            change(meta) if callable(change) else meta.update(change)
            path.write_text(json.dumps(meta))
            open_at(browser, address, "")
            browser.wait(f"{ROOT}.state == 'failed'")
            said = browser.run("document.querySelector('.hs-message').textContent")
            assert message in said and "\n" not in said, (name, said)
            assert not any(".webp" in url for url in browser.requests)
    finally:
        path.write_text(good)


def test_a_damaged_chunk_does_not_stop_the_others(browser, site, folder):
    """One of a finest level is left out; the page ends with the coarser splats in its place."""
    root, address = site
    broken = root / "scene" / "0_0" / "meta.json"
    good = broken.read_text()
    try:
        broken.write_text(json.dumps(json.loads(good) | {"count": 10**9}))
        open_at(browser, address, "camera=0&still")
        browser.wait(f"{ROOT}.state == 'ready' && {ROOT}.splats > 3000", 90)
        assert 3000 < int(browser.run(f"{ROOT}.splats")) < 6000
    finally:
        broken.write_text(good)


EMBEDDING = """<!doctype html><html lang="en"><head><title>t</title></head><body>
<div id="place" style="width: 200px; height: 150px"></div>
<iframe src="scene/#camera=1" style="width: 90px; height: 60px" title="scene"></iframe>
<script type="module">
import { load } from "./scene/hardsplat.js";
window.shown = await load("scene/", document.querySelector("#place"), { budget: 1000 });
window.refused = await load("nowhere/", document.body).catch(error => error.message);
</script></body></html>"""


def test_other_pages_embed_it(browser, site):
    root, address = site
    (root / "other.html").write_text(EMBEDDING)
    browser.open(f"{address}/other.html")
    browser.wait("window.refused && document.querySelector('#place .hs').dataset.state == 'ready'")
    assert "nowhere/lod-meta.json cannot be loaded: 404" in browser.run("window.refused")
    place = "document.querySelector('#place .hs')"
    box = browser.run(f"(r => [r.width, r.height])({place}.getBoundingClientRect())")
    assert box == [200, 150] and int(browser.run("shown.element.dataset.splats")) <= 1000
    frame = "document.querySelector('iframe').contentDocument.querySelector('.hs')?.dataset.state"
    browser.wait(f"{frame} == 'ready'")
    before = browser.run("shown.element.dataset.pictures")
    browser.run("shown.go(2)")
    browser.wait(f"shown.element.dataset.pictures > {before}")
    browser.run("shown.stop()")
    assert not browser.run(place)


@pytest.mark.parametrize("name", ["scene/", "page.html"])
def test_accessibility(browser, site, splats, name):
    """axe-core finds nothing to complain about, with the help open."""
    axe = Path(sys.prefix, "node", "node_modules", "axe-core", "axe.min.js")
    if not axe.exists():
        pytest.skip(needs.lacking("no axe-core, which takes npm"))
    root, address = site
    write_page(root / "page.html", splats, PageScene("Test", CAMERAS))
    browser.open("about:blank")
    browser.open(f"{address}/{name}")
    browser.wait(f"{ROOT}.state == 'ready'")
    browser.key("KeyH")
    browser.run(axe.read_text() + "; 0")
    found = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    assert browser.run(found) == []


def test_touch_and_pictures(browser, site):
    """One finger orbits, two pan and zoom; the picture button saves a file."""
    _, address = site
    size = dict(width=160, height=240, deviceScaleFactor=2, mobile=True)
    try:
        browser.ask("Emulation.setDeviceMetricsOverride", **size)
        browser.ask("Emulation.setTouchEmulationEnabled", enabled=True)
        open_at(browser, address, "camera=0")
        browser.wait(f"{ROOT}.state == 'ready'")
        canvas = browser.run("(c => [c.width, c.height])(document.querySelector('canvas'))")
        assert canvas == [320, 480]
        drawn = f"{ROOT}.pictures"
        for fingers in ((40,), (40, 120)):
            before, still = browser.run(drawn), shot(browser)
            for kind, step in (("touchStart", 0), ("touchMove", 30), ("touchEnd", None)):
                points = []
                if step is not None:
                    places = [x + step * (1 - 2 * i) for i, x in enumerate(fingers)]
                    points = [dict(x=x, y=90 + step, id=i) for i, x in enumerate(places)]
                browser.ask("Input.dispatchTouchEvent", type=kind, touchPoints=points)
            browser.wait(f"{ROOT}.state == 'ready' && {drawn} > {before}")
            assert psnr(shot(browser), still) < 40
        click = "function () { window.saved = this.download; }"
        browser.run(f"HTMLAnchorElement.prototype.click = {click}")
        browser.run("document.querySelector('.hs-picture').click()")
        assert browser.wait("window.saved") == "Test.png"
    finally:
        browser.ask("Emulation.setTouchEmulationEnabled", enabled=False)
        size = dict(zip(("width", "height"), SIZE), deviceScaleFactor=1, mobile=False)
        browser.ask("Emulation.setDeviceMetricsOverride", **size)
