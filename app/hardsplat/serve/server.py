"""Draws for all browsers, one frame at a time, between whatever else the GPU does."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from scipy.spatial.transform import Rotation
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.edit.steps import Similarity
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, submit
from hardsplat.model.camera import Camera
from hardsplat.model.framing import SceneBounds, spread
from hardsplat.raster.core.parameters import Parameters
from hardsplat.render.paths import intrinsics
from hardsplat.serve.door import Address, open_server, quiet
from hardsplat.tables.pictures import ANYWHERE
from hardsplat.view.splats.screen import REFRESH, Appearance, Screen, coarse

TOUCH = 0.5  # s that a move of the camera lasts
LONGEST = 1920  # px of a picture's longer side


class Client:
    """handle: viser's. elements: of the door, to which this browser's are added. Its camera may
    change at any time, in another thread; `camera` makes one of what is known now."""

    def __init__(self, handle: Any, sh_degree: int, elements: dict[str, Any]):
        self.handle, self.sending, self.sent_at = handle, False, -np.inf
        self.moved_at = time.perf_counter()
        self.sent: tuple | None = None  # what the last picture was of
        # until the first picture is there
        self._waiting = handle.add_notification(
            "drawing ...", "The first picture comes.", loading=True, with_close_button=False
        )
        with handle.gui.add_folder("View"):
            gui, most = handle.gui, max(sh_degree, 1)
            self._picture = gui.add_dropdown("picture", ANYWHERE, initial_value="image")
            disabled = sh_degree == 0
            self._degree = gui.add_slider("colour degree", 0, most, 1, sh_degree, disabled=disabled)
        self.elements = {uuid_of(self._picture): Literal[ANYWHERE]}
        self.elements[uuid_of(self._degree)] = Annotated[int, Meta(ge=0, le=most)]
        elements |= self.elements
        handle.camera.on_update(self._moved)

    def _moved(self, _: Any) -> None:
        self.moved_at = time.perf_counter()

    @property
    def moving(self) -> bool:
        return time.perf_counter() - self.moved_at < TOUCH

    @property
    def picture(self) -> str:
        return self._picture.value

    def degree(self, highest: int) -> int:
        return max(0, min(self._degree.value, highest))

    def camera(self, scale: int = 1) -> Camera | None:
        """What it looks at, in pixels that are `scale` of its own wide; None while its window has
        no size."""
        seen = self.handle.camera
        try:
            width, height, fov = int(seen.image_width), int(seen.image_height), float(seen.fov)
            wxyz = np.asarray(seen.wxyz, np.float64)
            position = np.asarray(seen.position, np.float64)
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None  # nothing has arrived yet
        finite = np.isfinite(wxyz).all() and np.isfinite(position).all() and wxyz.any()
        if min(width, height) < 1 or not 0.01 < fov < 3.1 or not finite:
            return None
        shrink = max(max(width, height) / LONGEST, 1.0) * scale
        width, height = max(1, round(width / shrink)), max(1, round(height / shrink))
        w2c = np.eye(4)
        w2c[:3, :3] = rotation(wxyz).T
        w2c[:3, 3] = -w2c[:3, :3] @ position
        return Camera(w2c, intrinsics(fov, width, height), width, height)

    def jump(self, camera: Camera) -> None:
        """Has the browser look through a camera, as far as it can: in its middle, without roll."""
        # viser raises ValueError where rounding leaves no distance to what the browser looks at
        with suppress(ValueError), self.handle.atomic():
            self.handle.camera.wxyz = wxyz_of(camera.w2c[:3, :3].T)
            self.handle.camera.position = camera.position
            self.handle.camera.fov = camera.fov

    def send(self, image: np.ndarray, quality: int) -> None:
        """image: (H, W, 3) uint8. Compresses it and hands it to viser."""
        self.handle.scene.set_background_image(image, format="jpeg", jpeg_quality=quality)
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        self.handle.flush()


def uuid_of(element: Any) -> str:
    """viser's name for a GUI element in messages, for which it has nothing public."""
    return element._impl.uuid


def rotation(wxyz: np.ndarray) -> np.ndarray:
    """(3, 3) of a quaternion of any length."""
    return Rotation.from_quat(np.roll(wxyz / np.linalg.norm(wxyz), -1)).as_matrix()


def wxyz_of(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a (3, 3) rotation."""
    return np.roll(Rotation.from_matrix(R).as_quat(), 1)


# share of the time that frames may take while others use the GPU, and while a camera moves
RESTING, TOUCHED = 0.03, 0.5
KEPT = 10.0  # s for which what draws a picture that no client shows any more is kept
MOST_FRUSTA = 200
TRAINED, HELD_OUT = (40, 110, 200), (220, 130, 40)  # colours of cameras


@dataclass(eq=False)
class Frames:
    """What is drawn in browsers. cameras: of photographs, and whether they are held out. busy:
    others use the GPU, which must hardly notice.

    Raises UserError as open_server does.
    """

    device: Device
    address: InitVar[Address]
    label: InitVar[str]
    look: Appearance
    setting: InitVar[SceneBounds]
    start: InitVar[Camera]
    cameras: InitVar[Sequence[tuple[Camera, bool]]]
    busy: bool

    def __post_init__(self, address, label, setting, start, cameras):
        self.closed, self.frames, self._noted = False, 0, False
        self._clients: dict[int, Client] = {}
        self._lock = threading.Lock()
        # by picture, and when it was last wanted
        self._screens: dict[str, tuple[Screen, float]] = {}
        self._spans: dict[str, tuple[float, float] | None] = {}  # of palettes, by picture
        self._flying: tuple[Client, Screen, Camera, tuple, int] | None = None
        # ms of a frame in full; s that the last frame took, compression included
        self._full_ms = self._cost = 0.0
        self._drawn_at = -np.inf
        self._sender = ThreadPoolExecutor(1, "hardsplat-serve")
        self._fence = Fence(self.device)
        try:
            self.server, self.door = open_server(address, label)
        except BaseException:
            self._fence.destroy()
            raise
        self.server.gui.configure_theme(show_share_button=False, show_logo=False)
        self.server.scene.set_up_direction(tuple(setting.up))
        initial = self.server.initial_camera
        initial.position, initial.fov = start.position, start.fov
        initial.look_at, initial.up = setting.centre, setting.up
        self._place(cameras, setting)
        self.server.on_client_connect(self._come)
        self.server.on_client_disconnect(self._go)

    def allow(self, element: Any, kind: Any) -> Any:
        """The GUI element, of which browsers may change the value to others of that type."""
        self.door.elements[uuid_of(element)] = kind
        return element

    def _place(self, cameras: Sequence[tuple[Camera, bool]], setting: SceneBounds) -> None:
        """Cameras as frusta, which browsers jump to when they are clicked."""
        chosen = [cameras[i] for i in spread(len(cameras), MOST_FRUSTA)]
        away = [np.linalg.norm(camera.position - setting.centre) for camera, _ in chosen]
        scale = 0.05 * max(float(np.median(away)), 1e-6) if away else 1.0
        self._frusta: list[tuple[Any, Camera]] = []
        for i, (camera, held_out) in enumerate(chosen):
            color, turn = HELD_OUT if held_out else TRAINED, wxyz_of(camera.w2c[:3, :3].T)
            frustum = self.server.scene.add_camera_frustum(
                f"/cameras/{i:05d}", camera.fov, camera.width / camera.height, scale=scale,
                color=color, wxyz=turn, position=camera.position, visible=False,
            )  # fmt: skip
            frustum.on_click(lambda event, i=i: self._jump(event.client_id, self._frusta[i][1]))
            self._frusta.append((frustum, camera))
        if self._frusta:
            hint = "Click one to look through it. Orange ones are held out."
            shown = self.server.gui.add_checkbox("cameras", False, hint=hint)
            self._shown = self.allow(shown, bool)
            self._shown.on_update(lambda _: self._show_frusta())

    def _show_frusta(self) -> None:
        with self.server.atomic():
            for frustum, _ in self._frusta:
                frustum.visible = self._shown.value

    def go_along(self, moved: Similarity) -> None:
        """Cameras, and what browsers see, move as splats do."""
        with self.server.atomic():
            for i, (frustum, before) in enumerate(self._frusta):
                camera = moved.camera(before)
                frustum.wxyz, frustum.position = wxyz_of(camera.w2c[:3, :3].T), camera.position
                frustum.scale *= moved.factor
                self._frusta[i] = frustum, camera
        for client in self.clients:
            if (seen := client.camera()) is not None:
                client.jump(moved.camera(seen))

    def _jump(self, client_id: int | None, camera: Camera) -> None:
        with self._lock:
            client = self._clients.get(client_id) if client_id is not None else None
        if client is not None:
            client.jump(camera)

    def camera_of(self, client_id: int | None) -> Camera | None:
        """What a browser looks at; None where that is not known."""
        with self._lock:
            client = self._clients.get(client_id) if client_id is not None else None
        return client.camera() if client is not None else None

    # -- in viser's threads

    def _come(self, handle: Any) -> None:
        client = Client(handle, self.look.sh_degree, self.door.elements)
        with self._lock:
            self._clients[handle.client_id] = client

    def _go(self, handle: Any) -> None:
        with self._lock:
            client = self._clients.pop(handle.client_id, None)
        for uuid in client.elements if client else ():
            self.door.elements.pop(uuid, None)

    # -- in the thread that has the GPU

    @property
    def clients(self) -> list[Client]:
        with self._lock:
            return list(self._clients.values())

    @property
    def touched(self) -> bool:
        """Whether a camera moves."""
        return any(client.moving for client in self.clients)

    def turn(
        self, parameters: Parameters, sh_degree: int, state: object, wait: bool = False
    ) -> None:
        """Sends the frame that is done, and queues another one where one is due. Waits for nothing,
        with `wait` as long as a frame lasts.

        parameters: as they are now. sh_degree: highest band in use. state: something that differs
        when the splats do. Raises UserError, with the server closed, when frames cannot go on;
        DeviceLost is one.
        """
        if self.closed:
            return
        if self.door.refused and not self._noted:
            self._noted = True
            tqdm.write(f"note: a message of a browser was refused: {self.door.why}")
        try:
            self._land()
            if self._flying is None and self._due():
                self._next(parameters, sh_degree, state)
            if wait and self._flying is not None:
                self._fence.wait()
                self._land()
            elif wait:
                time.sleep(REFRESH / 4)
        except UserError:
            self.close()
            raise

    def _land(self) -> None:
        if self._flying is None or not self._fence.done():
            return
        (client, screen, camera, key, scale), self._flying = self._flying, None
        self._fence.reset()
        self.frames += 1
        ms = screen.ms()
        if scale == 1:
            self._full_ms = ms
        self._cost = ms / 1000
        picture, span = key[1], screen.respan(camera)
        # once more, with the palette that fits, where that differs
        client.sent = key if span == self._spans.get(picture) else None
        self._spans[picture] = span
        client.sending, client.sent_at = True, time.perf_counter()
        image, quality = screen.pixels(camera.width, camera.height), 85
        if scale > 1 or client.moving:
            quality = 60
        self._sender.submit(self._send, client, image, quality)

    def _send(self, client: Client, image: np.ndarray, quality: int) -> None:
        begun = time.perf_counter()
        try:
            if client in self.clients:
                client.send(image, quality)
        except Exception:  # it has gone, whatever that looks like within viser
            self._go(client.handle)
        finally:
            client.sending = False
            self._cost += time.perf_counter() - begun

    def _due(self) -> bool:
        """Not more often than eyes need, nor than leaves others their share of the GPU."""
        share = (TOUCHED if self.touched else RESTING) if self.busy else 1.0
        return time.perf_counter() - self._drawn_at >= max(REFRESH, self._cost / share)

    def _next(self, parameters: Parameters, sh_degree: int, state: object) -> None:
        """The frame of the client that waits longest: those that move first."""
        for client in sorted(self.clients, key=lambda c: (not c.moving, c.sent_at)):
            scale = coarse(self._full_ms) if client.moving else 1
            camera = client.camera(scale)
            if client.sending or camera is None:
                continue
            picture, degree = client.picture, client.degree(sh_degree)
            key = state, picture, degree, camera.w2c.tobytes(), camera.K.tobytes(), id(parameters)
            if client.sent == key:
                continue
            screen = self._screen(picture, parameters, camera)
            screen.place(camera, degree)
            submit(self.device, [screen.commands], self._fence)
            self._flying, self._drawn_at = (client, screen, camera, key, scale), time.perf_counter()
            return

    def _screen(self, picture: str, parameters: Parameters, camera: Camera) -> Screen:
        """What draws a picture of that size."""
        now = time.perf_counter()
        for name, (old, at) in list(self._screens.items()):
            if name != picture and now - at > KEPT:
                old.destroy()
                del self._screens[name]
                self._spans.pop(name, None)
        if picture not in self._screens:
            self._screens[picture] = Screen(self.device, self.look, captured="host"), now
        screen = self._screens[picture][0]
        self._screens[picture] = screen, now
        seen = [client.camera() for client in self.clients if client.picture == picture]
        cameras = [camera, *filter(None, seen)]
        size = max(c.width for c in cameras), max(c.height for c in cameras)
        screen.fit(parameters, size, picture)
        return screen

    def close(self) -> None:
        """Frees everything, after the frame in flight. May be called again."""
        if self.closed:
            return
        self.closed = True
        if self.door.refused > 1:
            tqdm.write(f"note: {self.door.refused} messages of browsers were refused")
        with quiet():
            self.server.stop()
        self._sender.shutdown()
        if self._flying is not None:
            with suppress(DeviceLost):
                self._fence.wait()
        for screen, _ in self._screens.values():
            screen.destroy()
        self._fence.destroy()
