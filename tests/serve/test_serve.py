"""--serve: who may come in, what browsers get, and that nothing they do harms a training."""

import hmac
import http.client
import socket
import time
from contextlib import closing
from urllib.parse import urlsplit

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.model.framing import scene_bounds
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Camera, Renderer
from hardsplat.serve import clients
from hardsplat.serve import server as served
from hardsplat.serve.clients import rotation, wxyz_of
from hardsplat.serve.door import Address, Door, address_of, free_port, open_server
from hardsplat.serve.server import Frames
from hardsplat.serve.watch import Server
from hardsplat.train.run.trainer import train
from hardsplat.train.watchers.watch import Watcher
from hardsplat.view.screen import Look
from tests.helpers.drawing import gaussians_of
from tests.helpers.goldens import random_scene
from tests.helpers.training import settings
from tests.helpers.viser_client import Viewer
from tests.oracle import psnr

PATIENCE = 60.0  # s


def test_addresses():
    wanted = {"": ("127.0.0.1", None), "9000": ("127.0.0.1", 9000), "0.0.0.0:80": ("0.0.0.0", 80)}
    wanted |= {"[::1]:0": ("::1", 0), "gpu.lan:8080": ("gpu.lan", 8080)}
    for text, address in wanted.items():
        assert address_of(text) == Address(*address)
    for text in "scenes/garden 0.0.0.0 host: host:x 70000 :8080 -1 1.5".split():
        with pytest.raises(UserError, match="expected PORT or HOST:PORT"):
            address_of(text)


def test_a_port_that_is_taken():
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            free_port(Address("127.0.0.1", port))
    with pytest.raises(UserError, match="cannot listen on 203.0.113.1:8080"):
        free_port(Address("203.0.113.1", 8080))


class Headers(dict):
    def get_all(self, name):
        value = self.get(name, [])
        return value if isinstance(value, list) else [value]


HOST = "127.0.0.1:8080"
EVIL = "evil.example:8080"
HEADERS = [
    ({"Host": HOST}, True),
    ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, True),
    ({"Host": HOST, "Origin": "http://evil.example"}, False),  # a page of somebody else's
    ({"Host": EVIL, "Origin": f"http://{EVIL}"}, False),  # a name that was made to point here
    ({"Host": HOST, "Origin": "null"}, False),
    ({"Host": [HOST, "evil.example"]}, False),
    ({}, False),
]


@pytest.mark.parametrize("headers, comes_in", HEADERS)
def test_pages_of_others_stay_out(headers, comes_in):
    own = Door(Address(), 8080)
    known = Headers(headers, Cookie=f"{own.cookie}={own.token}")
    assert (own.refusal("/", known) is None) == comes_in


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
def test_no_address_is_without_a_token(host, monkeypatch):
    """Other users and pages of the machine reach 127.0.0.1 too."""
    compared, same = [], hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both) or same(*both))
    own, other = (Door(address_of(f"{host}:{port}"), port) for port in (8080, 8081))
    at = {"Host": f"{host}:8080"}
    assert f":8080/?token={own.token}" in own.url and own.token != other.token
    for bad in ("/", "/?token=", "/?token=wrong", f"/?token={other.token}", "/?token=%FF"):
        assert own.refusal(bad, Headers(at))[0] == 403, bad
    assert own.refusal(f"/?token={own.token}", Headers(at))[0] == 303 and len(compared) == 4
    both = "; ".join(f"{each.cookie}={each.token}" for each in (own, other))
    assert own.refusal("/", Headers(at, Cookie=both)) is None


def test_a_token_is_asked_of_everybody_from_outside():
    guarded = Door(Address("0.0.0.0", 8080), 8080)

    def asked(path="/", **more):
        return guarded.refusal(path, Headers({"Host": "gpu.lan:8080"}, **more))

    assert guarded.token in guarded.url and len(guarded.token) > 20
    assert asked()[0] == 403 == asked("/?token=wrong")[0]
    status, answer, _ = asked(f"/?token={guarded.token}")
    assert status == 303 and answer["Location"] == "/" and "HttpOnly" in answer["Set-Cookie"]
    cookie = answer["Set-Cookie"].split(";")[0]
    assert asked(Cookie=f"other=1; {cookie}") is None
    assert asked(Cookie=cookie, Origin="http://evil.example")[0] == 403
    for bad in (f"{guarded.cookie}=x", "=;;=", f"{cookie}x", "\x00"):
        assert asked(Cookie=bad)[0] == 403, bad


@pytest.fixture
def viser():
    return pytest.importorskip("viser", reason="--serve takes viser: pip install 'hardsplat[web]'")


def test_the_token_guards_page_and_websocket(viser):
    from websockets.exceptions import InvalidStatus

    server, guarded = open_server(Address("127.0.0.2", 0), "test")
    try:
        url = urlsplit(guarded.url)
        page, camera = f"http://{url.netloc}/", Camera(np.eye(4), np.diag([16, 16, 1]), 16, 16)
        server_of = lambda: http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)

        def get(path, **headers):
            with closing(server_of()) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.getheader("Set-Cookie"), answer.read()

        assert get("/")[0] == get("/index.html?token=")[0] == get("/../door.py")[0] == 403
        status, cookie, _ = get(f"/?{url.query}")
        assert status == 303
        given = {"Cookie": cookie.split(";")[0]}
        status, _, text = get("/", **given)
        assert status == 200 and b"<html" in text
        with pytest.raises(InvalidStatus):
            Viewer(page, camera)
        Viewer(page, camera, headers=given).close()
    finally:
        server.stop()


def test_without_viser_it_says_what_to_install(tmp_path, monkeypatch, capsys, scene):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["train", str(scene), "--result-dir", str(tmp_path / "run"), "--serve"]) == 2
    assert "--serve needs viser: pip install 'hardsplat[web]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_quaternions_of_rotations_and_back():
    rng = np.random.default_rng(0)
    for _ in range(50):
        q = rng.normal(size=4) * [1, *rng.uniform(0.01, 3, 3)]
        assert np.allclose(rotation(wxyz_of(rotation(q))), rotation(q), atol=1e-12)
    for axis in np.eye(4):
        assert np.allclose(np.abs(wxyz_of(rotation(axis))), axis)


def wait_for(what, turn) -> None:
    """Until what() is true; turn() in between."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "nothing came"
        turn()


@pytest.fixture
def quick(monkeypatch):
    """Cameras rest soon, and frames follow each other as fast as they can."""
    monkeypatch.setattr(clients, "TOUCH", 0.05)
    for name, value in {"REFRESH": 0.001, "RESTING": 1.0, "TOUCHED": 1.0}.items():
        monkeypatch.setattr(served, name, value)


def test_browsers_see_what_the_renderer_draws(viser, device, quick):
    """Two browsers of different size have cameras of their own; a camera is clicked."""
    scene = random_scene(5, 60, 64, 48, 1)
    gaussians, K = gaussians_of(scene)[0], scene["K"].copy()
    K[:2, 2], K[0, 0] = (32, 24), K[1, 1]  # browsers look straight ahead, in square pixels
    shifted = scene["w2c"] @ (np.eye(4) + 0.2 * np.eye(4, k=3))
    cameras = [Camera(scene["w2c"], K, 64, 48), Camera(shifted, K, 64, 48).resized(96, 72)]
    with Renderer(device, format="float32") as renderer:
        wanted = [np.clip(renderer.forward(gaussians, c)[0], 0, 1) for c in cameras]
    parameters = Parameters(device, 60, 1)
    parameters.upload(gaussians)
    look = Look(HardwareOptions(format="float32"), near_plane=0.01, sh_degree=1)
    views = cameras[0], [(cameras[0], False), (cameras[1], True)]
    setting = scene_bounds(gaussians)
    frames = Frames(device, Address(port=0), "test", look, setting, *views, busy=False)
    try:
        viewers = [Viewer(frames.door.url, camera) for camera in cameras]

        def settled(since=(0, 0)):
            fresh = all(len(v.images) > n for v, n in zip(viewers, since))
            sent = [c.sent is not None and not c.sending and not c.moving for c in frames.clients]
            return fresh and sent == [True, True]

        def turn():
            frames.turn(parameters, 1, 0, wait=True)

        wait_for(settled, turn)
        shapes = [w.shape for w in wanted]
        wait_for(lambda: [v.images[-1].shape for v in viewers] == shapes, turn)
        for viewer, image in zip(viewers, wanted):
            assert psnr(viewer.images[-1] / 255, image) > 30
        drawn = frames.frames
        for _ in range(5):
            turn()
        assert frames.frames == drawn  # nothing changed

        before, seen = len(viewers[0].images), lambda: viewers[0].images[-1] / 255
        first = next(c for c in frames.clients if c.handle.camera.image_width == 64)
        first._picture.value = "depth"
        wait_for(lambda: settled((before, 0)) and psnr(seen(), wanted[0]) < 20, turn)
        assert psnr(viewers[1].images[-1] / 255, wanted[1]) > 30
        frames._jump(first.handle.client_id, cameras[1])
        there = cameras[1].position
        wait_for(lambda: np.allclose(first.handle.camera.position, there), turn)

        viewers[0].vanish()
        wait_for(lambda: len(frames.clients) == 1, turn)
        viewers[1].look(cameras[0])
        wait_for(lambda: viewers[1].images[-1].shape == wanted[0].shape, turn)
    finally:
        frames.close()
        frames.close()
        parameters.destroy()


class Then(Watcher):
    """Does one thing after the other, each as soon as its condition holds."""

    def __init__(self, *steps):
        self.steps, self.end = list(steps), time.monotonic() + PATIENCE

    def turn(self, run, wait=False):
        assert time.monotonic() < self.end, f"{len(self.steps)} steps are left"
        if self.steps and self.steps[0][0]():
            self.steps.pop(0)[1](run)


def test_browsers_follow_pause_save_and_stop_a_training(
    viser, on_device, scene, tmp_path, monkeypatch, quick
):
    monkeypatch.setattr("hardsplat.train.run.stops.BATCH_SECONDS", 1e9)
    server, viewers, seen = Server(0), [], {}
    camera = Camera(np.eye(4), [[40, 0, 24], [0, 40, 16], [0, 0, 1]], 48, 32)

    def connect(run):
        sizes = ((48, 32), (64, 48))
        viewers.extend(Viewer(server.url, camera.resized(*size)) for size in sizes)

    def vanish(run):
        viewers[0].vanish()
        seen["images"] = len(viewers[1].images)

    def pause(run):
        server._toggle()
        seen["paused at"] = run.session.step

    def resume(run):
        step = run.session.step
        assert step == seen["paused at"] and (run.folder / f"ckpts/ckpt_{step}.npz").is_file()
        server._toggle()

    def differ(viewer):
        images = viewer.images
        return len(images) > 1 and np.abs(images[0].astype(int) - images[-1]).mean() > 0.1

    def followed() -> bool:
        told = any("step" in text for text in viewers[1].texts)
        return told and len(viewers[1].images) > seen["images"] + 2

    def stop(run):
        server._ask_to_stop()

    then = Then(
        (lambda: server.url, connect),
        (lambda: len(viewers) == 2 and all(map(differ, viewers)), vanish),
        (followed, pause),
        (lambda: server.paused, lambda run: server._asked.add("save")),
        (lambda: not server._asked, resume),
        (lambda: not server.paused, stop),
        (lambda: server._stop.label == "Stop: click again", stop),
    )
    metrics = train(settings(scene, tmp_path / "run", max_steps=100_000), [server, then])
    assert not then.steps and metrics["steps"] < 100_000
    assert server.url is None


def test_a_paused_training_goes_on_when_everybody_has_left(
    viser, on_device, scene, tmp_path, monkeypatch
):
    monkeypatch.setattr("hardsplat.serve.watch.DESERTED", 0.1)
    server = Server(0)
    then = Then((lambda: server.url, lambda run: server._toggle()))
    assert train(settings(scene, tmp_path / "run", max_steps=10), [server, then])["steps"] == 10
