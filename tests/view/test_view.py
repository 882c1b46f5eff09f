"""The window, for real: on Xvfb, with what it shows compared with headless renders."""

import math
import time
from functools import partial
from unittest.mock import Mock

import glfw
import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.export.levels import write_levels
from hardsplat.gpu import surface as surface_module
from hardsplat.io.formats.base import in_memory
from hardsplat.io.scenes.masks import downsampled
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.renderer import Renderer
from hardsplat.step.runner import StepRunner
from hardsplat.train import run_training as train
from hardsplat.view.preview import TrainingWindow
from hardsplat.view.splats.controls import Controls, fitted, placed
from hardsplat.view.splats.inputs import NOTCH, Inputs, Viewpoint
from hardsplat.view.splats.screen import Appearance
from hardsplat.view.viewer import Viewer
from tests.helpers.training import settings
from tests.helpers.xvfb import NEEDS_DISPLAY
from tests.oracle import psnr

pytestmark = NEEDS_DISPLAY
W, H = 64, 48
GREY = (0.2, 0.3, 0.4)
SECONDS = 20.0  # a busy machine may take


@pytest.fixture
def device(gpu):
    gpu.check_validation()
    yield gpu
    gpu.check_validation()


def some_gaussians(rng, n=40, planes=4) -> Gaussians:
    spread = np.array([2, 1.5, 2])
    means = rng.uniform(-spread, spread, (n, 3)) + [0, 0, 5]
    sh = rng.normal(0, 0.2, (n, planes, 3))
    sh[:, 0] += rng.uniform(-1, 1.5, (n, 3))
    scales, opacities = rng.uniform(0.05, 0.4, (n, 3)), rng.uniform(0.2, 0.95, n)
    return Gaussians(means, rng.normal(size=(n, 4)), scales, opacities, sh)


def some_cameras(rng, n=3) -> list[Camera]:
    out, first = [], Camera(np.eye(4), [[60, 0, W / 2 + 1], [0, 58, H / 2 - 2], [0, 0, 1]], W, H)
    for _ in range(n):
        controls = Controls(first, [0.1, -1, 0], [0, 0, 5])
        controls.orbit(*rng.uniform(-0.4, 0.4, 2))
        out.append(controls.camera(W, H))
    return out


class Seen:
    """A viewer of random splats in the display's upper left corner, as large as its cameras."""

    def __init__(self, device, display, folder, format="float16", size=(W, H), renderer=None):
        rng, n = np.random.default_rng(), 40
        self.gaussians, self.cameras = some_gaussians(rng, n), some_cameras(rng)
        self.display = display
        self.photos = rng.integers(0, 256, (3, H, W, 3)).astype(np.uint8)
        points, photos = [], self.photos
        for i, camera in enumerate(self.cameras):
            points.append(Viewpoint(f"photograph {i}", camera, partial(photos.__getitem__, i)))
        controls = Controls(self.cameras[0], [0, -1, 0], [0, 0, 5])
        self.inputs = Inputs(controls, points, 0, can_pause=True, sh_degree=1)
        self.inputs.panels = False
        self.parameters = Parameters(device, n, 1)
        self.parameters.upload(self.gaussians)
        look = Appearance(HardwareOptions(format=format), GREY)
        self.viewer = Viewer(device, "seen", look, self.inputs, folder, size=size)
        self.handle = self.viewer.window.handle
        glfw.set_window_pos(self.handle, 0, 0)
        self.renderer = renderer or Renderer(device, format=format)

    def turn(self) -> None:
        self.viewer.turn(self.parameters, 1, wait=True)

    def until(self, done, what: str) -> None:
        end = time.perf_counter() + SECONDS
        while not done():
            assert time.perf_counter() < end, f"{what} took more than {SECONDS} s"
            self.turn()

    def frames(self, n: int = 3) -> None:
        """Waits until n more pictures were drawn and are in the window."""
        for _ in range(n):
            self.inputs.changed, before = True, self.viewer.pictures
            self.until(lambda: self.viewer.pictures > before, "a picture")
            last = self.viewer.face.frames
            self.until(lambda: self.viewer.face.frames > last, "a frame")

    def shows(self, expected: np.ndarray, least: float = 45.0) -> None:
        """Waits until the window shows this image (height, width, 3) of 0..1 to so many dB."""
        h, w = expected.shape[:2]
        found = [0.0]

        def close() -> bool:
            self.inputs.changed = True
            found[0] = psnr(self.display.pixels()[:h, :w] / 255, expected + 1e-6)
            return found[0] >= least

        try:
            self.until(close, f"an image to {least} dB")
        except AssertionError as error:
            raise AssertionError(f"{error}; it came to {found[0]:.1f} dB") from None

    def headless(self, camera: Camera | None = None, sh_degree=1) -> np.ndarray:
        camera = camera or self.inputs.controls.camera(*self.viewer.window.size)
        return np.clip(self.renderer.forward(self.gaussians, camera, sh_degree, GREY)[0], 0, 1)

    def close(self) -> None:
        self.viewer.close()
        self.parameters.destroy()
        self.renderer.close()


@pytest.fixture
def seen(device, display, tmp_path, request):
    """Takes the arguments of Seen as its parameter, where a test has some."""
    out = Seen(device, display, tmp_path, **getattr(request, "param", {}))
    yield out
    out.close()


def test_every_camera_shows_what_a_headless_render_does(seen):
    images = [seen.headless(camera) for camera in seen.cameras]
    assert min(map(psnr, images, images[1:])) < 40  # they differ
    seen.shows(seen.headless(seen.cameras[0]))
    for camera in (*seen.cameras[1:], seen.cameras[0]):
        seen.inputs.on_key("ArrowRight")
        seen.shows(seen.headless(camera))


def test_splats_and_interface_on_one_device(device, display, tmp_path, monkeypatch):
    """As on a GPU: pictures of several sizes, a photograph, and other pictures in between."""
    monkeypatch.setattr("hardsplat.view.viewer.slow", lambda device: False)
    seen = Seen(device, display, tmp_path)
    assert seen.viewer.face.device is device
    seen.shows(seen.headless(seen.cameras[0]))
    seen.inputs.on_key("ArrowRight")
    seen.shows(seen.headless(seen.cameras[1]))
    for key in ("Digit6", "Digit2", "Digit1"):
        seen.inputs.on_key(key)
        seen.frames(2)
    glfw.set_window_size(seen.handle, 200, 150)
    seen.until(lambda: seen.viewer.window.size == (200, 150), "another size")
    seen.shows(seen.headless(fitted(seen.cameras[1], 200, 150)))
    seen.inputs.photo = "over"
    h, w = 150, 200
    expected = downsampled(seen.photos[1], w, h)
    seen.shows(expected / 255, 50)
    seen.close()


def test_mouse_and_keys_through_the_display(seen, display):
    seen.frames(1)
    start = seen.inputs.controls.camera(W, H)
    display.do("mousemove", 20, 20)
    seen.frames(1)
    display.do("mousedown", 1, "mousemove", 32, 14)
    seen.until(lambda: not np.allclose(seen.inputs.controls.camera(W, H).w2c, start.w2c), "a drag")
    display.do("mouseup", 1)
    seen.frames(1)
    expected = Controls(start, [0, -1, 0], [0, 0, 5])
    expected.orbit(12 * 0.004, -6 * 0.004)
    assert np.allclose(seen.inputs.controls.camera(W, H).w2c, expected.camera(W, H).w2c)
    seen.shows(seen.headless())
    distance = seen.inputs.controls.distance
    display.do("click", 4)
    nearer = distance * math.exp(-NOTCH)
    seen.until(lambda: np.isclose(seen.inputs.controls.distance, nearer), "the wheel")
    glfw.focus_window(seen.handle)
    display.do("key", "Right")
    seen.until(lambda: seen.inputs.point == 1, "an arrow key")
    seen.shows(seen.headless(seen.cameras[1]))
    position = seen.inputs.controls.position
    display.do("keydown", "w")
    controls = seen.inputs.controls
    seen.until(lambda: (controls.position - position) @ controls.forward > 0.01, "flying")
    display.do("keyup", "w")
    seen.frames(1)
    seen.shows(seen.headless())


def test_photographs(seen):
    seen.inputs.on_key("ArrowRight")
    photo, camera = seen.photos[1] / 255, seen.cameras[1]
    seen.inputs.on_key("KeyO")
    half = W // 2, H
    x, y, w, h = placed(camera, *half)
    both = np.full((H, W, 3), 0.12)
    render = seen.headless(fitted(camera, *half))
    both[:, : half[0]] = 0.4 * render + 0.6 * 0.12  # darker beyond what the photograph shows
    both[y : y + h, x : x + w] = render[y : y + h, x : x + w]
    x += half[0]
    both[y : y + h, x : x + w] = downsampled(seen.photos[1], w, h) / 255
    seen.shows(both)
    seen.inputs.on_key("KeyO")
    seen.shows(0.5 * photo + 0.5 * seen.headless(camera))
    seen.inputs.on_key("KeyO")
    seen.shows(photo, 55)
    seen.inputs.on_drag(1, 3, 0, False, H)
    seen.shows(seen.headless())  # no photograph was taken from there
    seen.inputs.on_key("ArrowLeft")
    seen.shows(seen.photos[0] / 255, 55)
    seen.inputs.on_key("KeyO")
    seen.shows(seen.headless(seen.cameras[0]))


LOST = ("VkErrorOutOfDateKhr", "VkErrorSurfaceLostKhr", "VkSuboptimalKhr")
CALLS = [("vkAcquireNextImageKHR", name) for name in (*LOST, "VkNotReady")]
CALLS += [("vkQueuePresentKHR", name) for name in LOST]


@pytest.mark.parametrize("function, name", CALLS)
def test_lost_swapchains(seen, monkeypatch, function, name):
    seen.frames(1)
    painter = seen.viewer.face.device
    real, told = painter.proc(function), []

    def lost(*arguments):
        if told:
            return real(*arguments)
        told.append(name)
        if function == "vkQueuePresentKHR" or name == "VkSuboptimalKhr":
            real(*arguments)  # the work is queued all the same
        raise getattr(surface_module.vk, name)

    monkeypatch.setitem(painter._procs, function, lost)
    seen.inputs.on_key("ArrowRight")
    seen.shows(seen.headless(seen.cameras[1]))
    while not told:  # an image was at hand already, so that none was asked for
        seen.frames(1)
    seen.shows(seen.headless(seen.cameras[1]))
    assert told == [name]


def test_ctrl_c_amid_a_frame(seen, monkeypatch):
    """Which is queued, but not known to be in flight."""
    seen.frames(1)
    painter = seen.viewer.face.device
    real = painter.proc("vkQueuePresentKHR")

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setitem(painter._procs, "vkQueuePresentKHR", interrupted)
    with pytest.raises(KeyboardInterrupt):
        seen.frames()
    seen.viewer.close()


@pytest.mark.parametrize("how", ["the window manager", "a key"])
def test_closing(seen, how):
    seen.frames(1)
    seen.inputs.changed = True
    seen.turn()  # with a frame in flight, maybe
    if how == "a key":
        seen.inputs.on_key("Control+KeyQ")
    else:
        glfw.set_window_should_close(seen.handle, True)
    seen.until(lambda: seen.viewer.closed, "closing")
    seen.turn()
    assert not seen.viewer.shown


@pytest.fixture
def training(on_device, scene, tmp_path):
    """training(preview, **settings) -> metrics of a deterministic run that grows."""
    way = {"rasterizer": "tiled", "tile_backward": "gather", "max_steps": 40}

    def run(name, preview=None, **changes):
        config = settings(scene, tmp_path / name, **{**way, **changes})
        return train(config, [preview] if preview else [])

    return run


class Watched(TrainingWindow):
    """A preview that calls `watch(preview, run)` after each turn, with a frame each turn."""

    batch_seconds = math.inf  # so that a busy machine makes the same batches

    def __init__(self, watch=lambda preview, run: None):
        super().__init__(size=(32, 24))
        self.watch, self.turns = watch, 0

    def turn(self, run, wait=False):
        if self.viewer and not self.viewer.closed:
            self.viewer._drawn_at = -1e9
        super().turn(run, wait)
        self.turns += 1
        assert self.turns < 5000
        self.watch(self, run)


def test_a_window_shows_what_is_trained_and_does_not_change_it(
    training, device, display, scene, tmp_path
):
    """After growth, with training drained, it equals a headless render of the splats."""
    view, compared, pictures = load_scene(scene).views[0], [], []  # where the window begins

    def watch(preview, run):
        session, viewer = run.session, preview.viewer
        pictures.append(viewer.pictures)
        if session.step < 30 or compared:
            return
        session.drain()
        glfw.set_window_pos(viewer.window.handle, 0, 0)
        viewer.inputs.panels = False
        gaussians, near = session.store.gaussians(), session.job.config.scene.near_plane
        with Renderer(device) as renderer:
            image, _ = renderer.forward(gaussians, view.camera, 0, near=near)
        compared.append(0.0)
        end = time.perf_counter() + SECONDS
        while compared[0] < 45 and time.perf_counter() < end:
            preview.turn(run, wait=True)
            compared[0] = psnr(display.pixels()[:24, :32] / 255, np.clip(image, 0, 1))
        viewer.inputs.panels = None

    preview = Watched(watch)
    with_window, without = training("with", preview), training("without")
    assert compared[0] >= 45 and pictures[-1] > 2 and preview.viewer.closed
    assert with_window["splats"] == without["splats"] > 300
    curves = [metrics["curve"] | {"seconds": None} for metrics in (with_window, without)]
    assert len(curves[0]["loss"]) > 5 and curves[0] == curves[1]
    a, b = ((tmp_path / name / "splats.ply").read_bytes() for name in ("with", "without"))
    assert a == b


def test_the_window_answers_while_a_batch_takes_long(training, monkeypatch):
    """Where no batch is done for three looks at it, the window has a turn at each."""
    monkeypatch.setattr("hardsplat.view.preview.SLOW", 0.0)
    looks, turns, real = [], [], StepRunner.ready.fget

    def ready(batches) -> bool:
        looks.append(len(turns))
        return len(looks) % 4 == 0 and real(batches)

    monkeypatch.setattr(StepRunner, "ready", property(ready))
    waits = Watched(lambda preview, run: turns.append(None))
    training("slow", waits, max_steps=10)
    late = [b - a for a, b, number in zip(looks, looks[1:], range(1, len(looks))) if number % 4]
    assert len(late) >= 3 and all(n == 1 for n in late)


class Stepped(Watched):
    batch_seconds = TrainingWindow.batch_seconds


def test_one_step_at_a_time(training):
    """A paused run makes one step for each that is asked for."""
    made = []

    def watch(preview, run):
        i = preview.viewer.inputs
        if run.session.step >= 5 and not made and not i.paused:
            i.pause()
        elif preview.paused and not i.steps and len(made) < 4:
            made.append(run.session.step)
            i.step() if len(made) < 4 else i.pause()

    training("steps", Stepped(watch), max_steps=20, deterministic=False)
    assert np.diff(made).tolist() == [1, 1, 1]


def test_a_window_that_stays_says_that_a_stopped_run_is_done(training):
    said = []

    def watch(preview, run):
        if run.session.step >= 3 and not run.ending:
            preview.viewer.inputs.pause()
            preview.viewer.asked.add("stop")
        elif not preview.viewer.closed and preview.viewer.facts.training.done:
            said.append(preview.paused)
            preview.viewer.inputs.close()

    preview = Watched(watch)
    preview.stays = True
    assert training("stopped", preview, max_steps=20)["steps"] < 20
    assert said == [False]


def test_a_window_that_fails_lets_training_go_on(training, monkeypatch, capsys):
    refused = Mock(side_effect=UserError("cannot draw to a window of this display"))
    monkeypatch.setattr("hardsplat.view.viewer.Surface", refused)
    assert training("refused", TrainingWindow(), max_steps=5)["steps"] == 5
    assert "cannot draw to a window" in capsys.readouterr().out


def view_until_drawn(monkeypatch, target, drop="") -> tuple[Viewer, np.ndarray]:
    """(viewer, frame) of `hardsplat view` once one shows something. drop: a file dropped before."""
    found, real, end = [], Viewer.turn, time.monotonic() + SECONDS
    dropped = []

    def turn(self, *arguments, **named):
        real(self, *arguments, **named)
        if drop and not dropped:
            dropped.append(self.inputs)
            self.interface.on_drop([drop])
        if drop and self.inputs is dropped[0]:
            assert time.monotonic() < end
            return
        if self.pictures and self.idle and not self.closed and not found:
            pixels = self.screen.pixels(*self._shown.scene)
            if np.ptp(pixels) > 20 or time.monotonic() > end:  # levels of detail come later
                found.extend([self, pixels])
                self.inputs.on_key("Control+KeyQ")

    with monkeypatch.context() as patch:
        patch.setattr(Viewer, "turn", turn)
        assert main(["view", str(target)]) == 0
    return found[0], found[1]


def test_view_of_splats_a_result_and_a_scene(device, monkeypatch, scene, training, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardsplat.view.viewer.OPENED", (64, 48))
    monkeypatch.setattr("hardsplat.view.window.LEAST", 64)
    training("run", max_steps=3)
    rng = np.random.default_rng()
    save_splats(tmp_path / "a.ply", some_gaussians(rng, 50))
    save_splats(tmp_path / "b.ply", some_gaussians(rng, 30))
    g = some_gaussians(rng, 50)
    rest = dict(opacities=g.logit_opacities, scales=g.log_scales, sh0=g.sh[:, :1], shN=g.sh[:, 1:])
    np.savez(tmp_path / "a.npz", means=g.means, quats=g.quats, **rest)
    for target in ("a.ply", "a.npz"):
        viewer, pixels = view_until_drawn(monkeypatch, target)
        assert viewer.closed and not viewer.inputs.points and np.ptp(pixels) > 20
        assert np.linalg.norm(viewer.inputs.controls.pivot - np.median(g.means, axis=0)) < 2
    opened = view_until_drawn(monkeypatch, "a.npz", drop=str(tmp_path / "b.ply"))[0]
    assert opened.facts.splats == 30 and opened.inputs.editor is not None
    (tmp_path / "lod").mkdir()
    write_levels(in_memory(g), tmp_path, tmp_path / "lod", leaf=20, coarsest=20, quiet=True)
    viewer, pixels = view_until_drawn(monkeypatch, "lod")
    assert viewer.closed and np.ptp(pixels) > 20
    views = load_scene(scene).views
    for target in ("run", scene):
        viewer, pixels = view_until_drawn(monkeypatch, target)
        points = viewer.inputs.points
        assert len(points) == len(views) and viewer.inputs.point == 0 and np.ptp(pixels) > 20
        assert np.allclose(viewer.inputs.controls.camera(32, 24).w2c, views[0].camera.w2c)
        assert points[0].held_out and np.array_equal(points[0].photo(), views[0].load())
