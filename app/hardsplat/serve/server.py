"""Draws for all browsers, one frame at a time, between whatever else the GPU does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.edit.steps import Similarity
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, submit
from hardsplat.model.camera import Camera, intrinsics, quaternions, rotation_matrix
from hardsplat.model.framing import spread
from hardsplat.raster.core.parameters import Parameters
from hardsplat.serve.door import Address, open_server, quiet
from hardsplat.tables.pictures import ANYWHERE
from hardsplat.view.splats.controls import Controls
from hardsplat.view.splats.inputs import Viewpoint
from hardsplat.view.splats.screen import REFRESH, Appearance, Screen, coarse

TOUCH = 0.5  # s that a move of the camera lasts
LONGEST = 1920  # px of a picture's longer side


class Client:
    """handle: viser's. Its camera may change at any time, in another thread; `camera` makes one of
    what is known now."""

    def __init__(self, handle: Any, sh_degree: int):
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
        handle.camera.on_update(self._moved)

    def _moved(self, _: Any) -> None:
        self.moved_at = time.perf_counter()

    @property
    def moving(self) -> bool:
        return time.perf_counter() - self.moved_at < TOUCH

    @property
    def picture(self) -> str:
        return self._picture.value if self._picture.value in ANYWHERE else "image"

    def degree(self, highest: int) -> int:
        return max(0, min(self._degree.value, highest))

    def camera(self, scale: int = 1) -> Camera | None:
        """What it looks at, in pixels that are `scale` of its own wide; None where that is no
        camera, as while its window has no size."""
        seen = self.handle.camera
        sides = seen.image_width, seen.image_height
        try:
            if min(sides) < 1:
                return None
            shrink = max(max(sides) / LONGEST, 1.0) * scale
            width, height = (max(1, round(side / shrink)) for side in sides)
            w2c = np.eye(4)
            with np.errstate(all="ignore"):
                w2c[:3, :3] = rotation_matrix(*(seen.wxyz / np.linalg.norm(seen.wxyz))).T
                w2c[:3, 3] = -w2c[:3, :3] @ seen.position
                return Camera(w2c, intrinsics(seen.fov, width, height), width, height)
        except (TypeError, ValueError, OverflowError):
            return None

    def jump(self, camera: Camera) -> None:
        """Has the browser look through a camera, as far as it can: in its middle, without roll."""
        # viser raises ValueError where rounding leaves no distance to what the browser looks at
        with suppress(ValueError), self.handle.atomic():
            self.handle.camera.wxyz = wxyz_of(camera)
            self.handle.camera.position = camera.position
            self.handle.camera.fov = camera.fov

    def send(self, image: np.ndarray, quality: int) -> None:
        """image: (H, W, 3) uint8. Compresses it and hands it to viser."""
        self.handle.scene.set_background_image(image, format="jpeg", jpeg_quality=quality)
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        self.handle.flush()


def wxyz_of(camera: Camera) -> np.ndarray:
    """The unit quaternion of how a camera is turned, as viser wants it."""
    return quaternions(camera.w2c[None, :3, :3].transpose(0, 2, 1))[0]


# share of the time that frames may take while others use the GPU, and while a camera moves
RESTING, TOUCHED = 0.03, 0.5
MOST_FRUSTA = 200
TRAINED, HELD_OUT = (40, 110, 200), (220, 130, 40)  # colours of cameras


class Frames:
    """What is drawn in browsers. starts: as starts_of has them. busy: others use the GPU, which
    must hardly notice.

    Raises UserError as open_server does.
    """

    def __init__(
        self,
        device: Device,
        address: Address,
        title: str,
        look: Appearance,
        starts: tuple[Controls, Sequence[Viewpoint]],
        busy: bool,
    ):
        self.device, self.look, self.busy = device, look, busy
        self.closed, self.frames = False, 0
        self._clients: dict[int | None, Client] = {}
        self._screens: dict[str, Screen] = {}  # by picture
        self._flying: tuple[Client, Screen, Camera, tuple, int] | None = None
        # ms of a frame in full; s that the last frame took, compression included
        self._full_ms = self._cost = 0.0
        self._drawn_at = -np.inf
        self._sender = ThreadPoolExecutor(1, "hardsplat-serve")
        self.server, self.door = open_server(address, title)
        self._fence = Fence(device)
        controls, points = starts
        self.server.gui.configure_theme(show_share_button=False, show_logo=False)
        self.server.scene.set_up_direction(tuple(controls.up))
        initial = self.server.initial_camera
        initial.position, initial.fov = controls.position, controls.lens.fov
        initial.look_at, initial.up = controls.centre, controls.up
        self._place(points, controls.centre)
        self.server.on_client_connect(self._come)
        self.server.on_client_disconnect(self._go)

    def _place(self, points: Sequence[Viewpoint], centre: np.ndarray) -> None:
        """Cameras as frusta, which browsers jump to when they are clicked."""
        chosen = [points[i] for i in spread(len(points), MOST_FRUSTA)]
        away = [np.linalg.norm(point.camera.position - centre) for point in chosen]
        scale = 0.05 * max(float(np.median(away)), 1e-6) if away else 1.0
        self._frusta: list[tuple[Any, Camera]] = []
        for i, point in enumerate(chosen):
            camera, color = point.camera, HELD_OUT if point.held_out else TRAINED
            frustum = self.server.scene.add_camera_frustum(
                f"/cameras/{i:05d}", camera.fov, camera.width / camera.height, scale=scale,
                color=color, wxyz=wxyz_of(camera), position=camera.position, visible=False,
            )  # fmt: skip
            frustum.on_click(lambda event, i=i: self._jump(event.client_id, self._frusta[i][1]))
            self._frusta.append((frustum, camera))
        if self._frusta:
            hint = "Click one to look through it. Orange ones are held out."
            shown = self.server.gui.add_checkbox("cameras", False, hint=hint)
            shown.on_update(lambda _: self._show_frusta(shown.value))

    def _show_frusta(self, visible: bool) -> None:
        with self.server.atomic():
            for frustum, _ in self._frusta:
                frustum.visible = visible

    def go_along(self, moved: Similarity) -> None:
        """Cameras, and what browsers see, move as splats do."""
        with self.server.atomic():
            for i, (frustum, before) in enumerate(self._frusta):
                camera = moved.camera(before)
                frustum.wxyz, frustum.position = wxyz_of(camera), camera.position
                frustum.scale *= moved.factor
                self._frusta[i] = frustum, camera
        for client in self.clients:
            if (seen := client.camera()) is not None:
                client.jump(moved.camera(seen))

    def _jump(self, client_id: int | None, camera: Camera) -> None:
        if client := self._clients.get(client_id):
            client.jump(camera)

    def camera_of(self, client_id: int | None) -> Camera | None:
        """What a browser looks at; None where that is not known."""
        client = self._clients.get(client_id)
        return client.camera() if client else None

    # -- in viser's threads

    def _come(self, handle: Any) -> None:
        self._clients[handle.client_id] = Client(handle, self.look.sh_degree)

    def _go(self, handle: Any) -> None:
        self._clients.pop(handle.client_id, None)

    # -- in the thread that has the GPU

    @property
    def clients(self) -> list[Client]:
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
        ms = sum(screen.stages().values())
        if scale == 1:
            self._full_ms = ms
        self._cost = ms / 1000
        # once more, with the palette that fits, where that differs
        client.sent = None if screen.respan(camera) else key
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
        """What draws a picture of that size. What no client shows any more goes."""
        for name in self._screens.keys() - {picture, *(c.picture for c in self.clients)}:
            self._screens.pop(name).destroy()
        if picture not in self._screens:
            self._screens[picture] = Screen(self.device, self.look, captured="host")
        screen = self._screens[picture]
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
        with quiet():
            self.server.stop()
        self._sender.shutdown()
        if self._flying is not None:
            with suppress(DeviceLost):
                self._fence.wait()
        for screen in self._screens.values():
            screen.destroy()
        self._fence.destroy()
