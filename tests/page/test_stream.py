"""Pages of hardsplat lod in Chromium: what they load at each stage, what they draw, and what they
refuse."""

import functools
import http.server
import shutil
import threading

import numpy as np
import pytest

from hardsplat.export.levels import write_levels
from hardsplat.io.formats.base import in_memory
from hardsplat.model.camera import Camera
from hardsplat.page.export import PageScene, view_header
from hardsplat.page.stream import write_stream_page
from hardsplat.raster.renderer import Renderer
from tests.helpers import needs
from tests.helpers.splat_files import some_splats
from tests.oracle import psnr
from tools.devtools import Browser, chromium

SIZE = (320, 240)
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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(folder that is served, its address)"""
    root = tmp_path_factory.mktemp("site")
    handler = functools.partial(_Quiet, directory=root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not chromium():
        pytest.skip(needs.lacking("no Chromium"))
    with Browser(tmp_path_factory.mktemp("browser"), SIZE) as opened:
        yield opened


def shot(browser: Browser) -> np.ndarray:
    return np.asarray(browser.screenshot()) / 255


def open_at(browser, address, fragment) -> None:
    browser.open("about:blank")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(f"{address}/scene/#{fragment}")


def test_a_flight_loads_what_the_camera_sees(browser, site, folder, splats, device):
    root, address = site
    shutil.copytree(folder, root / "scene")
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
        whole = np.clip(renderer.forward(splats, CAMERAS["far"], near=0.2)[0], 0, 1)
    fine = psnr(shot(browser), whole)
    assert fine > 37 and psnr(coarse, whole) < fine - 5, (fine, psnr(coarse, whole))
    assert browser.complaints == []
    assert all(url.startswith((address, "blob:")) for url in browser.requests)
