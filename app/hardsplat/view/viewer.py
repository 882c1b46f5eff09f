"""A viewer: window, splats and interface put together, a frame at a time. Who has the splats calls
`turn` now and then.

Splats and interface are drawn apart. The window shows the last finished picture of the splats, as
often as the interface changes; on a CPU, where a picture may take seconds, another device draws the
interface.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import OutOfMemory, UserError, undone
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.queue import Fence, submit
from hardsplat.gpu.memory.resources import Owned
from hardsplat.gpu.surface import Surface
from hardsplat.io.media.images import save_png
from hardsplat.model.camera import Camera
from hardsplat.raster.core.parameters import Parameters
from hardsplat.view.gui.canvas import Canvas
from hardsplat.view.gui.ui import LOUDER, Shown, ViewerFacts
from hardsplat.view.interface import Interface
from hardsplat.view.splats.controls import placed
from hardsplat.view.splats.inputs import DRAWN_AS, Inputs
from hardsplat.view.splats.photographs import PhotographCache
from hardsplat.view.splats.screen import REFRESH, Appearance, Screen, coarse
from hardsplat.view.window import Window, start

OPENED = (1280, 800)  # px of a window to begin with, where the screen has room for it
# share of the GPU's time that pictures may take while others use it, and while the camera moves
RESTING, TOUCHED = 0.02, 0.5
TOUCH = 0.5  # s that a touch lasts
INTERFACE = 1 / 60  # s between frames of the interface, at least
IDLE = 0.25  # s between them while something goes on and nobody touches anything
SETTLED = 0.1  # s without a change of size before the swapchain follows
AFTER = 4  # frames after the last event, in which the interface comes to rest
YIELDING = 10  # priority (nice) of threads of lavapipe that draw splats


class Presenter:
    """Draws the interface into its window. device: that draws splats; apart: another one of the
    same kind draws the interface.

    Raises UserError where the device cannot draw to the window.
    """

    def __init__(self, window: Window, interface: Interface, device: Device, apart: bool):
        self.window, self.interface, self.apart, self.frames = window, interface, apart, 0
        self._events, self._awake, self._painting = -1, AFTER, False
        self._painted_at = self._resized_at = -1e9
        self._parts, self.device = Owned(), device
        with undone(self.destroy):
            if apart:
                _yield_threads()
                self.device = Device(device.name, surfaces=start())
            self.surface = self._parts.add(Surface(self.device, window.handle))
            self.canvas = self._parts.add(Canvas(self.device))
            self._painted = self._parts.add(Fence(self.device))

    def due(self, changed: bool, lively: bool) -> bool:
        """Whether a frame should and can be drawn now. changed: something to be seen did. lively:
        something goes on without events."""
        now = time.perf_counter()
        if self.window.resized:
            self.window.resized, self._resized_at = False, now
            self.surface.stale = True
        if self._events != self.window.events or changed:
            self._events, self._awake = self.window.events, AFTER
        lively = lively or self.surface.stale or self.interface.lively
        wanted = self._awake > 0 or (lively and now - self._painted_at >= IDLE)
        if not wanted or now - self._painted_at < INTERFACE or not self.window.shown:
            return False
        return self._landed() and self._fits(now) and self.surface.ready()

    def _fits(self, now: float) -> bool:
        """Whether there is a swapchain of the window's size, which it gets once that has
        settled."""
        if self.surface.stale and self.surface.width and now - self._resized_at < SETTLED:
            return False
        return self.surface.fit()

    def _landed(self) -> bool:
        if self._painting and self._painted.done():
            self._painting = False
            self._painted.reset()
            self.frames += 1
        return not self._painting

    def finish(self) -> None:
        """Waits for the frame in flight, which is short."""
        if self._painting:
            self._painted.wait()
            self._landed()

    def show(self, screen: Screen, width: int, height: int) -> None:
        """Shows the picture of a screen, which must be done, from the next frame on."""
        self.finish()
        if self.apart:
            self.canvas.textures["gui_scene"].set(screen.texels(width, height))
        else:
            image = screen.image
            self.canvas.textures["gui_scene"].take(screen.copy, image.width, image.height)
        self._awake = max(self._awake, 2)  # the second frame has windows that fit their text

    def forget(self) -> None:
        """What that picture was copied from may go: it stays."""
        self.finish()
        self.canvas.textures["gui_scene"].drop()

    def photo(self, texels: np.ndarray) -> None:
        """(height, width, 4) uint8 of a photograph."""
        self.finish()
        self.canvas.textures["gui_photo"].set(texels)

    def paint(self, region: tuple[int, int], shown: Shown) -> None:
        """Draws and presents a frame, which is due. region: px of the window that show splats."""
        self._painted_at = time.perf_counter()  # on a CPU, presenting waits for the drawing
        size = self.surface.width, self.surface.height
        drawing = self.interface.frame(size, region, shown)
        if (atlas := self.interface.atlas(drawing)) is not None:
            self.canvas.textures["gui_atlas"].set(atlas)
        place, scale = shown.place(region), shown.scale
        commands = self.canvas.draw(
            drawing, size, place, scene=shown.scene, scene_scale=scale, louder=LOUDER
        )
        self.surface.present(commands, self.canvas.image, size[0], size[1], self._painted)
        self._painting = True
        self._awake -= 1

    def destroy(self) -> None:
        """After the frame in flight, which is not known where Ctrl-C cut it short."""
        if self.device.handle is not None:
            self.device.settle()
        self._parts.destroy()
        if self.apart and self.device.handle is not None:
            self.device.close()


def _yield_threads() -> None:
    """Has threads by which Mesa draws on a CPU so far yield to those that draw the interface."""
    for name in Path("/proc/self/task").glob("*/comm"):  # none but on Linux
        with suppress(OSError):  # the thread has ended
            if name.read_text().startswith("llvmpipe"):
                os.setpriority(os.PRIO_PROCESS, int(name.parent.name), YIELDING)


def slow(device: Device) -> bool:
    """Whether a picture may take seconds, so that the interface needs a device of its own."""
    return device.physical.kind == "CPU"


@dataclass(eq=False)
class Viewer:
    """device: opened with the extensions of window.start(). inputs: what the window's keys and
    mouse change. folder: for pictures.

    busy: others use the GPU, which must hardly notice: pictures are few while the window is not
    touched. size: see Window. make_screen: of what draws pictures. room: px of a window of no size,
    where the monitor has as much. Raises UserError where this device cannot draw to the window.
    """

    device: Device
    title: str
    look: Appearance
    inputs: Inputs
    folder: Path
    busy: bool = False
    size: tuple[int, int] | None = None
    make_screen: type[Screen] = Screen
    room: tuple[int, int] | None = None

    def __post_init__(self):
        self.closed, self.pictures = False, 0
        self.facts = ViewerFacts()
        self.camera: Camera | None = None  # of the last picture
        self._full_ms = 0.0  # of a picture that was not drawn in larger pixels
        self._shown, self._next_shown = Shown(), Shown()
        self._drawn_at = -1e9
        self._scale = 1
        self._capturing = self._flying = False
        self._photo: np.ndarray | None = None
        self._parts = Owned()
        self._photographs = PhotographCache(self.look.background, self.inputs)
        with undone(self.close):
            self.window = self._parts.add(Window(self.title, self.room or OPENED, self.size))
            interface = Interface(self.window, self.inputs, self.facts, self.look)
            self.interface = self._parts.add(interface)
            own = slow(self.device)
            captured = "host" if own else "device"
            self.screen = self._parts.add(self.make_screen(self.device, self.look, captured))
            # reads what the screen has, so it is destroyed before that
            self.face = self._parts.add(Presenter(self.window, self.interface, self.device, own))
            self._fence = self._parts.add(Fence(self.device))

    @property
    def shown(self) -> bool:
        """Whether there is a window to be seen."""
        return not self.closed and self.window.shown

    @property
    def idle(self) -> bool:
        """Whether no picture is in flight, so that splats may be changed."""
        return self.closed or not self._flying or self._fence.done()

    @property
    def asked(self) -> set[str]:
        """What buttons want of who has the splats: "save", "stop"."""
        return self.interface.ui.asked

    def take_opened(self) -> str:
        """The path that the user wants to see since the last call; "" for none."""
        path, self.interface.ui.opened = self.interface.ui.opened, ""
        return path

    def show(self, inputs: Inputs, look: Appearance, title: str) -> None:
        """Goes on with other splats; those of before may go. No picture may be in flight."""
        self._landed()
        self._photographs.close()
        self.inputs, self.look, self._photo = inputs, look, None
        self.camera, self.facts.span = None, None
        self._photographs = PhotographCache(look.background, inputs)
        self.interface.ui.show(inputs, look)
        self.window.name(title)

    @property
    def paused(self) -> bool:
        return not self.closed and self.inputs.paused

    def prepare(self, parameters: Parameters) -> None:
        """Builds what the first picture takes, which is slow on some drivers, before it is due."""
        self.screen.fit(parameters, self._region, "image")

    def turn(self, parameters: Parameters, sh_degree: int, wait: bool = False) -> None:
        """Handles events, queues a picture of the splats and a frame of the interface where they
        are due. Waits for nothing, with `wait` for events, as long as a frame lasts.

        parameters: as they are now. sh_degree: highest band in use. Raises UserError, with the
        window closed, when pictures cannot go on; DeviceLost is one.
        """
        if self.closed:
            return None
        self.window.poll(INTERFACE / 2 if wait else 0.0)
        if self.window.closing or self.inputs.closing:
            return self.close()
        with undone(self.close):
            self.window.fill(self.inputs.full)
            if not self.interface.typing:
                self.inputs.fly(self.window.held, self.window.shift)
            if self._landed():
                self._next(parameters, sh_degree)
            self.inputs.noted()
            lively = self._flying or self.busy
            if self.face.due(self.inputs.changed, lively):
                self.face.paint(self._region, self._shown)
        return None

    # -- splats

    @property
    def _region(self) -> tuple[int, int]:
        """(width, height) px of the window that show splats."""
        width, height = self.window.size
        return max(1, width - self.interface.side), max(1, height)

    def _landed(self) -> bool:
        """Whether no picture is in flight. Takes down what the last one has to say."""
        if self._flying and self._fence.done():
            self._flying = False
            self._fence.reset()
            self.pictures += 1
            self._shown, screen, camera = self._next_shown, self.screen, self.camera
            self.facts.picture_ms = sum(screen.stages().values())
            self.facts.rows = screen.rows
            if self._scale == 1:
                self._full_ms = self.facts.picture_ms
            self.face.show(screen, *self._shown.scene)
            if not screen.complete():
                self.inputs.changed = True
            if camera and screen.respan(camera):
                self.inputs.changed = True
            self.facts.span = screen.span
            if self._capturing:
                self._save(*self._shown.scene)
        return not self._flying

    def _next(self, parameters: Parameters, sh_degree: int) -> None:
        now = time.perf_counter()
        if self.window.shown and self._due(now):
            self.inputs.changed = False
            commands = self._draw(parameters, sh_degree, self._region)
            submit(self.device, commands, self._fence)
            self._flying, self._drawn_at = True, now

    def _due(self, now: float) -> bool:
        """Not more often than eyes need, nor than leaves others their share of the GPU; without
        others, when something changed."""
        i, training = self.inputs, self.busy and not self.inputs.paused
        share = (TOUCHED if now - i.touched_at < TOUCH else RESTING) if training else 1.0
        coarse = self._scale > 1 and now - i.moved_at >= TOUCH
        changed = training or i.changed or i.capturing or coarse
        changed = changed or self._region != self._next_shown.region
        spent = self.facts.picture_ms / 1000 / share if training else 0.0
        return changed and now - self._drawn_at >= max(REFRESH, spent)

    def _tuned(self) -> Appearance:
        """The look, as panels have changed it."""
        t, options = self.inputs.tuning, self.look.options
        if t.format:
            options = replace(options, format=t.format)
        if t.blending:
            options = replace(options, blending=t.blending, ordering="auto")
        if self.inputs.picture == "points":
            options = replace(options, antialiased=False)
        return replace(
            self.look,
            options=options,
            background=self.look.background if t.background is None else t.background,
            near_plane=self.look.near_plane if t.near_plane is None else t.near_plane,
            splat_scale=0.0 if self.inputs.picture == "points" else t.splat_scale,
        )

    def _fit(self, parameters: Parameters, size: tuple[int, int]) -> None:
        screen, picture = self.screen, DRAWN_AS.get(self.inputs.picture, self.inputs.picture)
        screen.look = self._tuned()
        if not screen.fits(parameters, size, picture):
            self.face.forget()
            screen.fit(parameters, size, picture)

    def _draw(
        self, parameters: Parameters, sh_degree: int, region: tuple[int, int]
    ) -> list[Recorder]:
        i = self.inputs
        point = None if i.point is None else i.points[i.point]
        photo = i.photo if point is not None and point.photo is not None else "none"
        if i.picture == "error" and point is not None and point.photo is not None:
            photo = "over"
        beside = photo == "beside"
        render = (max(1, region[0] // 2), region[1]) if beside else region
        try:
            self._fit(parameters, render)
        except UserError as error:
            if isinstance(error, DeviceLost | OutOfMemory):
                raise
            i.say(str(error))  # of a target that this device cannot blend
            i.picture = "image"
            i.tune(format=None, blending=None)
            self._fit(parameters, render)
        self._capturing, i.capturing = i.capturing, False
        now = time.perf_counter()
        moving = now - i.moved_at < TOUCH and not self._capturing
        self._scale = coarse(self._full_ms) if moving else 1
        self.camera = i.controls.camera(*(-(-side // self._scale) for side in render))
        i.window = render
        place = frame = (0, 0, 0, 0)
        if point is not None and photo != "none":
            x, y, across, down = placed(point.camera, *render)
            if self._photograph(point, across, down):
                place = (x + render[0] if beside else x, y, across, down)
                frame = (x, y, across, down) if beside else frame
        size = self.camera.width, self.camera.height
        self._next_shown = Shown(region, render, size, self._scale, place, frame, i.picture)
        degree = sh_degree if i.tuning.degree is None else min(sh_degree, i.tuning.degree)
        self.screen.place(self.camera, degree)
        return [self.screen.commands]

    def _photograph(self, point, width: int, height: int) -> bool:
        """Whether the photograph of this size is there."""
        try:
            words = self._photographs.words(point, width, height)
        except UserError as error:
            self.inputs.say(str(error))
            return False
        if words is not None and words is not self._photo:
            texels = words[: width * height].view(np.uint8).reshape(height, width, 4)
            self.face.photo(texels)
            self._photo = words
        return words is not None

    def _save(self, width: int, height: int) -> None:
        self._capturing = False
        paths = (self.folder / f"screenshot_{number:03d}.png" for number in itertools.count(1))
        path = next(path for path in paths if not path.exists())
        try:
            save_png(path, self.screen.pixels(width, height))
            self.inputs.say(f"saved {path}")
        except UserError as error:
            self.inputs.say(str(error))

    def close(self) -> None:
        """Frees everything, after the frames in flight. May be called again."""
        if self.closed:
            return
        self.closed = True
        self._photographs.close()
        self.device.settle()  # a frame that Ctrl-C cut short is not known to be in flight
        self._parts.destroy()


class RunWindow:
    """A window on a run. Raises UserError without a display. Whatever goes wrong with the window
    afterwards closes it with a note, and the run continues.

    size: see Window. viewer: None before `open`.
    """

    continues = "Training continues"

    def __init__(self, size: tuple[int, int] | None = None):
        self.surfaces: Sequence[str] = start()  # extensions that the device must be opened with
        self.viewer: Viewer | None = None
        self._size = size

    @property
    def shown(self) -> bool:
        return self.viewer is not None and self.viewer.shown

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Closes the window where the block fails, but for a device that is lost."""
        try:
            yield
        except DeviceLost:
            raise
        except UserError as error:
            self.close()
            tqdm.write(f"note: the window is closed: {error}. {self.continues}")

    def close(self) -> None:
        """Before what is shown is destroyed. May be called again."""
        if self.viewer is not None:
            self.viewer.close()
