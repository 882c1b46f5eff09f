"""--serve: who may come in, what browsers get, and that nothing they do harms a training."""

import gc
import hashlib
import hmac
import http.client
import os
import re
import socket
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.edit.editor import Editor
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Camera, Renderer
from hardsplat.train import run_training as train
from hardsplat.train.watchers.watch import Watcher
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.inputs import Viewpoint
from hardsplat.view.splats.screen import Appearance
from tests.helpers import needs
from tests.helpers.drawing import splats_of
from tests.helpers.goldens import random_scene
from tests.helpers.tables import refuses
from tests.helpers.training import settings
from tests.oracle import psnr

needs.module("viser")

from hardsplat.serve import door  # noqa: E402
from hardsplat.serve import server as served  # noqa: E402
from hardsplat.serve.door import Address, Door, address_of, free_port, open_server  # noqa: E402
from hardsplat.serve.editing import MARK, EditPanel  # noqa: E402
from hardsplat.serve.server import Client, Frames  # noqa: E402
from hardsplat.serve.watch import Server  # noqa: E402
from tests.helpers.mutations import mutated  # noqa: E402
from tests.helpers.viser_client import Viewer  # noqa: E402

PATIENCE = 60.0  # s
SMALL = Camera(np.eye(4), [[40, 0, 24], [0, 40, 16], [0, 0, 1]], 48, 32)


def test_addresses():
    wanted = {"": ("127.0.0.1", None), "9000": ("127.0.0.1", 9000), "0.0.0.0:80": ("0.0.0.0", 80)}
    wanted |= {"[::1]:0": ("::1", 0), "gpu.lan:8080": ("gpu.lan", 8080)}
    for text, address in wanted.items():
        assert address_of(text) == Address(*address)
    for text in "scenes/garden 0.0.0.0 host: host:x 70000 :8080 -1 1.5".split():
        refuses("expected PORT or HOST:PORT", address_of, text)


def test_a_port_that_is_taken():
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = f"cannot listen on 127.0.0.1:{port}: .*in use"
        refuses(words, free_port, Address("127.0.0.1", port))
    refuses("cannot listen on 203.0.113.1:8080", free_port, Address("203.0.113.1", 8080))


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
    ({"Host": "["}, False),
    ({"Host": HOST, "Origin": "http://["}, False),
    ({}, False),
]


@pytest.mark.parametrize("headers, comes_in", HEADERS)
def test_pages_of_others_stay_out(headers, comes_in):
    own = Door(Address(), 8080)
    known = Headers(headers, Cookie=f"{own.cookie}={own.token}")
    assert (own.refusal("/", known) is None) == comes_in


def test_only_public_names_of_viser_are_used():
    """Others go with its next version."""
    private = re.compile(r"viser import .*\b_\w|viser\.(\w+\.)*_[a-z]|\._impl\b")
    files = Path(door.__file__).parent.glob("*.py")
    assert not [path.name for path in files if private.search(path.read_text())]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "gpu.lan"])
def test_a_token_is_asked_of_everybody(host, monkeypatch):
    """Other users and pages of the machine reach 127.0.0.1 too."""
    compared, same = [], hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(both) or same(*both))
    own, other = (Door(address_of(f"{host}:{port}"), port) for port in (8080, 8081))
    assert own.url.endswith(f":8080/?token={own.token}")
    assert own.token != other.token and len(own.token) > 20

    def asked(path="/", **more):
        return own.refusal(path, Headers({"Host": f"{host}:8080"}, **more))

    wrong = ("", "wrong", other.token, "%FF", "\udcff", f"{own.token}\ud800")
    for bad in ("/", *(f"/?token={token}" for token in wrong)):
        assert asked(bad)[0] == 403, bad
    status, answer, _ = asked(f"/?token={own.token}")
    assert status == 303 and answer["Location"] == "/" and "HttpOnly" in answer["Set-Cookie"]
    cookie = answer["Set-Cookie"].split(";")[0]
    assert asked(Cookie=f"{other.cookie}={other.token}; {cookie}") is None
    assert asked(Cookie=cookie, Origin="http://evil.example")[0] == 403
    named = [f"{own.cookie}={bad}" for bad in ("x", "\udcff", f'"{own.token}\udcff"')]
    for bad in (*named, "=;;=", f"{cookie}x", "\x00"):
        assert asked(Cookie=bad)[0] == 403, bad
    assert len(compared) >= 6


def test_the_token_guards_page_and_websocket(caplog):
    from websockets.exceptions import InvalidStatus

    server, guarded = open_server(Address("127.0.0.2", 0), "test")
    try:
        url = urlsplit(guarded.url)
        page, asked = f"http://{url.netloc}/", http.client.HTTPConnection

        def get(path, **headers):
            with closing(asked(url.hostname, url.port, timeout=PATIENCE)) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.getheader("Set-Cookie"), answer.read()

        assert get("/")[0] == get("/index.html?token=")[0] == get("/../door.py")[0] == 403
        assert get("//[?token=")[0] == 403
        with closing(socket.create_connection((url.hostname, url.port))) as raw:
            lines = b"GET /?token=\xff\xfe HTTP/1.1", f"Host: {url.netloc}".encode(), b"", b""
            raw.sendall(b"\r\n".join(lines))
            assert raw.recv(100).startswith(b"HTTP/1.1 403 ")
        with closing(socket.create_connection((url.hostname, url.port))) as scanner:
            scanner.sendall(b"\x00\n")
            scanner.recv(1)
        assert not caplog.records, "a line or a traceback about what is no request"
        status, cookie, _ = get(f"/?{url.query}")
        assert status == 303
        given = {"Cookie": cookie.split(";")[0]}
        status, _, text = get("/", **given)
        assert status == 200 and b"<html" in text
        with pytest.raises(InvalidStatus):
            Viewer(page, SMALL)
        Viewer(page, SMALL, headers=given).close()
    finally:
        server.stop()


def test_values_that_no_element_takes_leave_no_traceback(caplog):
    server, guarded = open_server(Address("127.0.0.2", 0), "test")
    try:
        moved = []
        slider = server.gui.add_slider("slider", 0, 3, 1, 1)
        slider.on_update(lambda event: moved.append(event.target.value))
        viewer = Viewer(guarded.url, SMALL)
        wait_for(lambda: "GuiSliderMessage" in viewer.elements, lambda: time.sleep(0.01))
        for updates in (None, 5, {"label": 1}, {"value": "x"}, {"value": None}, {"value": 2}):
            uuid = viewer.elements["GuiSliderMessage"]
            viewer.send(dict(type="GuiUpdateMessage", uuid=uuid, updates=updates))
        wait_for(lambda: moved, lambda: time.sleep(0.01))  # those before it have been handled
        viewer.close()
    finally:
        server.stop()
    gc.collect()  # of the tasks, which tell then what they have raised
    assert moved == [2] and not caplog.records


def test_without_viser_it_says_what_to_install(tmp_path, monkeypatch, capsys, scene):
    for name in [name for name in sys.modules if name.startswith("hardsplat.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["train", str(scene), "--result-dir", str(tmp_path / "run"), "--serve"]) == 2
    assert "--serve needs viser: pip install 'hardsplat[web]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


JUNK = {  # what a page may say of its camera
    "wxyz": ([0, 0, 0, 0], [5e-324, 0, 0, 0], [np.nan] * 4, [1, 0, 0], "1000", [["a"]]),
    "position": ([0, 0], [0, 0, np.inf], "here"),
    "fov": (0, 4.0, np.nan, "wide", None),
    "image_width": (0, -5, "x", np.inf, None),
}


@pytest.mark.parametrize("name, junk", [(name, bad) for name, all in JUNK.items() for bad in all])
def test_cameras_that_are_none_are_not_drawn(name, junk):
    seen = dict(wxyz=np.array([2.0, 0, 0, 0]), position=np.zeros(3), fov=0.8)
    client = object.__new__(Client)
    client.handle = SimpleNamespace(camera=SimpleNamespace(**seen, image_width=64, image_height=48))
    assert client.camera().width == 64 and np.allclose(client.camera().w2c, np.eye(4))
    setattr(client.handle.camera, name, np.array(junk) if isinstance(junk, list) else junk)
    assert client.camera() is None


def wait_for(what, turn) -> None:
    """Until what() is true; turn() in between."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "nothing came"
        turn()


@pytest.fixture
def quick(monkeypatch):
    """Cameras rest soon, and frames follow each other as fast as they can."""
    monkeypatch.setattr(served, "TOUCH", 0.05)
    for name, value in {"REFRESH": 0.001, "RESTING": 1.0, "TOUCHED": 1.0}.items():
        monkeypatch.setattr(served, name, value)


@contextmanager
def page_of(device, gaussians, cameras):
    """(frames, turn()): a page of splats, with the last camera held out."""
    parameters = Parameters(device, len(gaussians), 1)
    parameters.upload(gaussians)
    look = Appearance(HardwareOptions(format="float32"), near_plane=0.01, sh_degree=1)
    points = [Viewpoint("", camera, None, camera is cameras[-1]) for camera in cameras]
    starts = Controls(cameras[0], [0, -1, 0], gaussians.means.mean(axis=0)), points
    frames = Frames(device, Address(port=0), "test", look, starts, busy=False)
    try:
        yield frames, lambda: frames.turn(parameters, 1, 0, wait=True)
    finally:
        frames.close()
        frames.close()
        parameters.destroy()


@pytest.fixture
def drawn():
    """60 splats, and a camera as browsers have them: straight ahead, in square pixels."""
    scene = random_scene(5, 60, 64, 48, 1)
    K = scene["K"].copy()
    K[:2, 2], K[0, 0] = (32, 24), K[1, 1]
    return splats_of(scene)[0], Camera(scene["w2c"], K, 64, 48)


def test_browsers_see_what_the_renderer_draws(device, quick, drawn, recwarn):
    """Two browsers of different size have cameras of their own; a camera is clicked."""
    gaussians, camera = drawn
    shifted = Camera(camera.w2c @ (np.eye(4) + 0.2 * np.eye(4, k=3)), camera.K, 64, 48)
    cameras = [camera, shifted.resized(96, 72)]
    with Renderer(device, format="float32") as renderer:
        wanted = [np.clip(renderer.forward(gaussians, c)[0], 0, 1) for c in cameras]
    with page_of(device, gaussians, cameras) as (frames, turn):
        viewers = [Viewer(frames.door.url, camera) for camera in cameras]
        told = lambda *words: all(v.notified == list(words) for v in viewers)
        wait_for(lambda: told("drawing ..."), lambda: time.sleep(0.01))

        def settled(since=(0, 0)):
            fresh = all(len(v.images) > n for v, n in zip(viewers, since))
            sent = [c.sent is not None and not c.sending and not c.moving for c in frames.clients]
            return fresh and sent == [True, True]

        wait_for(settled, turn)
        wait_for(lambda: told("drawing ...", ""), turn)
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
        first.send(np.zeros((2, 2, 3), np.uint8), 60)  # a picture that was under way
        viewers[1].look(cameras[0])
        wait_for(lambda: viewers[1].images[-1].shape == wanted[0].shape, turn)
    assert not recwarn.list


def test_the_page_edits(device, quick, tmp_path, drawn):
    """A click marks, a drag selects; buttons delete, undo and save."""
    gaussians, camera = drawn
    editor = Editor(gaussians, tmp_path)
    with page_of(device, gaussians, [camera]) as (frames, turn):
        panel, viewer = EditPanel(frames, editor), Viewer(frames.door.url, camera)
        assert panel.buttons["Delete"].color == "red" and panel.buttons["Keep"].color is None

        def value(element, to):
            uuid, updates = element._impl.uuid, {"value": to}
            viewer.send(dict(type="GuiUpdateMessage", uuid=uuid, updates=updates))

        def point(*places, modifier=None):
            click = len(places) == 1
            ray = dict(ray_origin=(0, 0, 0), ray_direction=(0, 0, 1))
            ray = ray if click else dict.fromkeys(ray)
            kind = dict(type="ScenePointerMessage", event_type="click" if click else "rect-select")
            viewer.send(dict(**kind, screen_pos=places, modifier=modifier, **ray))

        wait_for(lambda: viewer.images and frames.clients[0].camera() is not None, turn)
        value(panel._click, MARK)
        point((0.5, 0.5))
        wait_for(lambda: len(editor.marks) == 1, turn)
        ray = editor.marks[0] @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]
        assert abs(ray[0] / ray[2]) < 1e-3 and abs(ray[1] / ray[2]) < 1e-3  # the middle
        point((0.2, 0.2), (0.8, 0.7), modifier="shift")
        wait_for(lambda: editor.selecting, turn)
        for label, done in (
            ("Delete", lambda: editor.count < 60),
            ("Undo", lambda: editor.count == 60),
            ("Keyframe", lambda: "keyframe 1" in panel._text.content),
            ("Save", lambda: (tmp_path / "camera_path.json").exists()),
        ):
            value(panel.buttons[label], True)
            wait_for(done, turn)
        editor.marks = [editor.marks[0] + place for place in 0.5 * np.eye(3)]
        value(panel.buttons["Floor"], True)
        seen = lambda: frames._frusta[0][1].w2c
        wait_for(lambda: not np.allclose(seen(), camera.w2c), turn)
        moved = editor.moved.camera(camera)
        assert np.allclose(seen(), moved.w2c)
        assert np.allclose(frames._frusta[0][0].position, moved.position)


class Then(Watcher):
    """Does one thing after the other, each as soon as its condition holds."""

    def __init__(self, *steps):
        self.steps, self.end = list(steps), time.monotonic() + PATIENCE

    def turn(self, run, wait=False):
        assert time.monotonic() < self.end, f"{len(self.steps)} steps are left"
        if self.steps and self.steps[0][0]():
            self.steps.pop(0)[1](run)


def test_browsers_follow_pause_save_and_stop_a_training(
    on_device, scene, tmp_path, monkeypatch, quick
):
    monkeypatch.setattr("hardsplat.train.run.trainer.BATCH_SECONDS", 1e9)
    server, viewers, seen = Server(0), [], {}

    def connect(run):
        sizes = ((48, 32), (64, 48))
        viewers.extend(Viewer(server.url, SMALL.resized(*size)) for size in sizes)

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


def test_a_paused_training_goes_on_when_everybody_has_left(on_device, scene, tmp_path, monkeypatch):
    monkeypatch.setattr("hardsplat.serve.watch.DESERTED", 0.1)
    server = Server(0)
    then = Then((lambda: server.url, lambda run: server._toggle()))
    assert train(settings(scene, tmp_path / "run", max_steps=10), [server, then])["steps"] == 10


ELEMENTS = {"GuiDropdownMessage": "depth", "GuiSliderMessage": 1, "GuiCheckboxMessage": True}


class Fuzzer(Watcher):
    """Sends mutated messages while a run trains, which goes on from its half afterwards."""

    def __init__(self, server: Server, seed: int):
        self.server, self.rng = server, np.random.default_rng(seed)
        self.thread, self.failed, self.waits = threading.Thread(target=self._send), None, False
        self.end = time.monotonic() + PATIENCE

    def open(self, run):
        self.thread.start()

    @property
    def paused(self):
        return self.waits and self.thread.is_alive() and time.monotonic() < self.end

    def turn(self, run, wait=False):
        self.waits = run.session.step >= run.config.run.max_steps // 2

    def _send(self):
        from websockets.exceptions import ConnectionClosed

        try:
            self._wait(lambda: self.server.url)
            viewer = Viewer(self.server.url, SMALL)
            self._wait(lambda: viewer.images and ELEMENTS.keys() <= viewer.elements.keys())
            valid = [
                dict(type="GuiUpdateMessage", uuid=viewer.elements[kind], updates={"value": value})
                for kind, value in ELEMENTS.items()
            ]
            valid.append(viewer.camera_message(SMALL))
            for number in range(60):
                try:
                    large = b"\x00" * (2 << 20)  # for which the connection is closed
                    viewer.send(large if number == 40 else mutated(self.rng, valid))
                except ConnectionClosed:
                    viewer = Viewer(self.server.url, SMALL)
            viewer = Viewer(self.server.url, SMALL)  # it still shows pictures
            self._wait(lambda: viewer.images)
        except BaseException as error:
            self.failed = error

    def _wait(self, what) -> None:
        wait_for(what, lambda: time.sleep(0.01))


def test_mutated_messages_do_not_change_a_training(on_device, scene, tmp_path, quick):
    """Many of them, while it trains; its result has the same bytes as without."""
    seed = int(os.environ.get("HARDSPLAT_SEED", "0")) or int(time.time())
    print(f"seed {seed}")

    def trained(name, watchers):
        metrics = train(
            settings(scene, tmp_path / name, max_steps=40, deterministic=True, rasterizer="tiled"),
            watchers,
        )
        assert metrics["steps"] == 40
        return hashlib.sha256((tmp_path / name / "splats.ply").read_bytes()).hexdigest()

    server = Server(0)
    fuzzer = Fuzzer(server, seed)
    fuzzed = trained("fuzzed", [server, fuzzer])
    fuzzer.thread.join(PATIENCE)
    assert not fuzzer.failed, fuzzer.failed
    assert not fuzzer.thread.is_alive()
    assert fuzzed == trained("alone", [])
