"""--serve: who may come in, what browsers get, and that nothing they do harms a training."""

import hashlib
import hmac
import http.client
import math
import os
import re
import socket
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.edit.editor import Editor
from hardsplat.model.framing import scene_bounds
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Camera, Renderer
from hardsplat.train import run_training as train
from hardsplat.train.watchers.watch import Watcher
from hardsplat.view.splats.screen import Appearance
from tests.helpers import needs
from tests.helpers.drawing import splats_of
from tests.helpers.goldens import random_scene
from tests.helpers.training import settings
from tests.oracle import psnr

msgspec = needs.module("msgspec")

from hardsplat.serve import door  # noqa: E402
from hardsplat.serve import server as served  # noqa: E402
from hardsplat.serve.door import (  # noqa: E402
    Address,
    Door,
    RefusedMessage,
    address_of,
    check_message,
    free_port,
    open_server,
)
from hardsplat.serve.editing import MARK, EditPanel  # noqa: E402
from hardsplat.serve.server import Frames, rotation, uuid_of, wxyz_of  # noqa: E402
from hardsplat.serve.watch import Server  # noqa: E402
from tests.helpers.viser_client import Viewer  # noqa: E402

Meta = msgspec.Meta
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
    ({"Host": "["}, False),
    ({"Host": HOST, "Origin": "http://["}, False),
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
    wrong = ("", "wrong", other.token, "%FF", "\udcff", f"{own.token}\ud800")
    for bad in ("/", *(f"/?token={token}" for token in wrong)):
        assert own.refusal(bad, Headers(at))[0] == 403, bad
    for bad in ("\udcff", f'"{own.token}\udcff"'):
        assert own.refusal("/", Headers(at, Cookie=f"{own.cookie}={bad}"))[0] == 403, bad
    assert own.refusal(f"/?token={own.token}", Headers(at))[0] == 303 and len(compared) >= 6
    both = "; ".join(f"{each.cookie}={each.token}" for each in (own, other))
    assert own.refusal("/", Headers(at, Cookie=both)) is None


def test_only_public_names_of_viser_are_imported():
    """Others go with its next version."""
    private = re.compile(r"from viser import .*\b_\w|(from|import) viser\.(\w+\.)*_\w")
    files = Path(door.__file__).parent.glob("*.py")
    assert not [path.name for path in files if private.search(path.read_text())]


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
    return needs.module("viser")


def test_the_token_guards_page_and_websocket(viser, caplog):
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
            Viewer(page, camera)
        Viewer(page, camera, headers=given).close()
    finally:
        server.stop()


def test_without_viser_it_says_what_to_install(tmp_path, monkeypatch, capsys, scene):
    for name in [name for name in sys.modules if name.startswith("hardsplat.serve")]:
        monkeypatch.delitem(sys.modules, name)
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
    monkeypatch.setattr(served, "TOUCH", 0.05)
    for name, value in {"REFRESH": 0.001, "RESTING": 1.0, "TOUCHED": 1.0}.items():
        monkeypatch.setattr(served, name, value)


def test_browsers_see_what_the_renderer_draws(viser, device, quick):
    """Two browsers of different size have cameras of their own; a camera is clicked."""
    scene = random_scene(5, 60, 64, 48, 1)
    gaussians, K = splats_of(scene)[0], scene["K"].copy()
    K[:2, 2], K[0, 0] = (32, 24), K[1, 1]  # browsers look straight ahead, in square pixels
    shifted = scene["w2c"] @ (np.eye(4) + 0.2 * np.eye(4, k=3))
    cameras = [Camera(scene["w2c"], K, 64, 48), Camera(shifted, K, 64, 48).resized(96, 72)]
    with Renderer(device, format="float32") as renderer:
        wanted = [np.clip(renderer.forward(gaussians, c)[0], 0, 1) for c in cameras]
    parameters = Parameters(device, 60, 1)
    parameters.upload(gaussians)
    look = Appearance(HardwareOptions(format="float32"), near_plane=0.01, sh_degree=1)
    views = cameras[0], [(cameras[0], False), (cameras[1], True)]
    setting = scene_bounds(gaussians)
    frames = Frames(device, Address(port=0), "test", look, setting, *views, busy=False)
    try:
        viewers = [Viewer(frames.door.url, camera) for camera in cameras]
        told = lambda *words: all(v.notified == list(words) for v in viewers)
        wait_for(lambda: told("drawing ..."), lambda: time.sleep(0.01))

        def settled(since=(0, 0)):
            fresh = all(len(v.images) > n for v, n in zip(viewers, since))
            sent = [c.sent is not None and not c.sending and not c.moving for c in frames.clients]
            return fresh and sent == [True, True]

        def turn():
            frames.turn(parameters, 1, 0, wait=True)

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
        viewers[1].look(cameras[0])
        wait_for(lambda: viewers[1].images[-1].shape == wanted[0].shape, turn)
    finally:
        frames.close()
        frames.close()
        parameters.destroy()


def test_the_page_edits(viser, device, quick, tmp_path):
    """A click marks, another brushes, a drag selects; buttons delete, undo and save."""
    scene = random_scene(5, 60, 64, 48, 1)
    gaussians, K = splats_of(scene)[0], scene["K"].copy()
    K[:2, 2], K[0, 0] = (32, 24), K[1, 1]
    camera = Camera(scene["w2c"], K, 64, 48)
    parameters = Parameters(device, 60, 1)
    parameters.upload(gaussians)
    look = Appearance(HardwareOptions(format="float32"), near_plane=0.01, sh_degree=1)
    frames = Frames(
        device, Address(port=0), "", look, scene_bounds(gaussians), camera, [(camera, False)],
        busy=False,
    )  # fmt: skip
    editor = Editor(gaussians, tmp_path)
    try:
        panel, viewer = EditPanel(frames, editor), Viewer(frames.door.url, camera)
        assert panel.buttons["Delete"].color == "red" and panel.buttons["Keep"].color is None

        def turn():
            frames.turn(parameters, 1, 0, wait=True)

        def value(element, to):
            updates = {"value": to}
            viewer.send(dict(type="GuiUpdateMessage", uuid=uuid_of(element), updates=updates))

        def point(*places, modifier=None):
            click = dict(ray_origin=(0, 0, 0), ray_direction=(0, 0, 1)) if len(places) == 1 else {}
            rays = dict(ray_origin=None, ray_direction=None) | click
            kind = "click" if click else "rect-select"
            viewer.send(
                dict(
                    type="ScenePointerMessage",
                    event_type=kind,
                    screen_pos=places,
                    modifier=modifier,
                    **rays,
                )
            )

        wait_for(lambda: viewer.images and frames.clients[0].camera() is not None, turn)
        value(panel._click, MARK)
        point((0.5, 0.5))
        wait_for(lambda: len(editor.marks) == 1, turn)
        ray = editor.marks[0] @ scene["w2c"][:3, :3].T + scene["w2c"][:3, 3]
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
        before = frames.door.refused
        point((0.5, 0.5), (9.0, 0.5))
        value(panel._radius, 1e9)
        wait_for(lambda: frames.door.refused == before + 2, turn)
    finally:
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
    monkeypatch.setattr("hardsplat.train.run.trainer.BATCH_SECONDS", 1e9)
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


POSE = dict(wxyz=[1, 0, 0, 0], position=[0, 0, 0.5], look_at=[0, 0, 1], up_direction=[0, -1, 0])
CAMERA = dict(type="ViewerCameraMessage", **POSE, fov=0.8, near=0.01, far=1e3)
CAMERA |= dict(image_height=32, image_width=48)
CLICK = dict(type="SceneNodeClickMessage", name="/cameras/00000", instance_index=None)
CLICK |= dict(ray_origin=[0, 0, 0], ray_direction=[0, 0, 1], screen_pos=[0.5, 0.5])
CLICK |= dict(modifier=None, owner="")
PICTURE = dict(type="GuiUpdateMessage", uuid="p", updates={"value": "depth"})
DEGREE = dict(type="GuiUpdateMessage", uuid="d", updates={"value": 2})
ELEMENTS = {"p": Literal["image", "depth"], "d": Annotated[int, Meta(ge=0, le=3)]}
POINTED = dict(type="ScenePointerMessage", event_type="click", screen_pos=[[0.5, 0.5]])
POINTED |= dict(ray_origin=[0, 0, 0], ray_direction=[0, 0, 1], modifier=None)
WRONG = [  # a message, what differs in it, and what the answer names
    (CAMERA, dict(position=[0, 0]), "of length 3, got 2 - at `$.position`"),
    (CAMERA, dict(position=[0, 0, math.nan]), "at `$.position[2]`"),
    (CAMERA, dict(position=[0, 0, 1e12]), "<= 1000000000.0 - at `$.position[2]`"),
    (CAMERA, dict(position=[0, 0, True]), "got `bool` - at `$.position[2]`"),
    (CAMERA, dict(wxyz=[5e-324, 0, 0, 0]), "wxyz: expected numbers of length 1"),
    (CAMERA, dict(wxyz=[0, 0, 0, 0]), "wxyz: expected numbers of length 1"),
    (CAMERA, dict(wxyz=[11, 0, 0, 0]), "at `$.wxyz[0]`"),
    (CAMERA, dict(wxyz="1000"), "at `$.wxyz`"),
    (CAMERA, dict(look_at=CAMERA["position"]), "look_at: expected another place than position"),
    (CAMERA, dict(fov=4.0), "at `$.fov`"),
    (CAMERA, dict(fov=0), ">= 0.001 - at `$.fov`"),
    (CAMERA, dict(image_width=2.5), "Expected `int`, got `float` - at `$.image_width`"),
    (CAMERA, dict(image_width=2**63), "at `$.image_width`"),
    (CAMERA, dict(color=1), "unknown field `color`"),
    (CAMERA, dict(type="ShareUrlRequest"), "Invalid value 'ShareUrlRequest'"),
    (CAMERA, dict(type=["x"]), "at `$.type`"),
    (PICTURE, dict(updates={"value": "volume"}), "Invalid enum value 'volume'"),
    (PICTURE, dict(updates={"value": ["depth"]}), "Expected `str`, got `array`"),
    (PICTURE, dict(updates={"value": "x" * 60_000}), "Invalid enum value 'xxx"),
    (PICTURE, dict(updates={"removed": True}), "no element of this page has such a value"),
    (PICTURE, dict(uuid="q"), "no element of this page has such a value"),
    (PICTURE, dict(updates=[]), "at `$.updates`"),
    (DEGREE, dict(updates={"value": -5}), "Expected `int` >= 0"),
    (DEGREE, dict(updates={"value": True}), "Expected `int`, got `bool`"),
    (CLICK, dict(name=None), "at `$.name`"),
    (CLICK, dict(ray_origin=[0]), "at `$.ray_origin`"),
    (POINTED, dict(screen_pos=[[0, 0], [1, 1]]), "expected a ray and one place, or two places"),
    (POINTED, dict(ray_origin=None), "expected a ray and one place, or two places"),
    (POINTED, dict(screen_pos=[[9, 0]]), "at `$.screen_pos[0][0]`"),
]


def test_messages_of_the_page_fit_the_schema():
    for good in (CAMERA, CLICK, CLICK | dict(ray_origin=None), POINTED, PICTURE, DEGREE):
        check_message(msgspec.msgpack.encode(good), ELEMENTS)
    for message, wrong, answer in WRONG:
        with pytest.raises(RefusedMessage) as refused:
            check_message(msgspec.msgpack.encode(message | wrong), ELEMENTS)
        assert answer in str(refused.value) and len(str(refused.value)) < 200, refused.value
    for raw in ("text", b"", b"\xc1", b"\x81\xa4type", b"\x91" * 50_000, b"\x90" * 70_000):
        with pytest.raises(RefusedMessage):
            check_message(raw, ELEMENTS)


class Fuzzer(Watcher):
    """Sends 2 000 mutated messages while a run trains, which goes on from its half afterwards."""

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

        from tests.helpers.mutations import mutated

        try:
            camera, closed = Camera(np.eye(4), [[40, 0, 24], [0, 40, 16], [0, 0, 1]], 48, 32), 0
            while not self.server.url:
                time.sleep(0.01)
            viewer = Viewer(self.server.url, camera)
            while len(viewer.elements.keys() & ELEMENT_TYPES) < 3 or not viewer.images:
                assert time.monotonic() < self.end, viewer.elements
                time.sleep(0.01)
            updates = [
                dict(type="GuiUpdateMessage", uuid=viewer.elements[kind], updates={"value": value})
                for kind, value in ELEMENT_TYPES.items()
            ]
            valid = [viewer.camera_message(camera), CLICK, *updates]
            for number in range(2_000):
                try:
                    viewer.send(mutated(self.rng, valid))
                    if number % 500 == 499:  # too much, and no text: the connection is closed
                        viewer.send(b"\x00" * (2 << 20))
                except ConnectionClosed:
                    closed += 1
                    viewer = Viewer(self.server.url, camera)
            answered = bool(self.server.refused or closed)
            viewer = Viewer(self.server.url, camera)  # it still shows pictures
            while not viewer.images:
                assert time.monotonic() < self.end, "no picture after the last message"
                time.sleep(0.01)
            assert answered
        except BaseException as error:
            self.failed = error


ELEMENT_TYPES = {"GuiDropdownMessage": "depth", "GuiSliderMessage": 1, "GuiCheckboxMessage": True}


def test_mutated_messages_do_not_change_a_training(viser, on_device, scene, tmp_path, quick, capfd):
    """2 000 of them, while it trains; its result has the same bytes as without."""
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
    assert server.refused > 1_000
    out, err = capfd.readouterr()
    assert "note: a message of a browser was refused: " in out + err
    assert "Traceback" not in out + err
    assert fuzzed == trained("alone", [])
