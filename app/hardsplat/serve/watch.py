"""`hardsplat train --serve`: a run in browsers, which can pause, save and stop it."""

from __future__ import annotations

import time

import numpy as np
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.serve.door import address_of
from hardsplat.serve.server import REFRESH, Frames
from hardsplat.train import Running, Watcher
from hardsplat.view.found import degree_of, look_of, starts_of

BATCH_SECONDS = 0.5  # how long a batch may take while a page is open
SAID_EVERY = 0.5  # s between lines of text
SURE = 5.0  # s within which Stop must be clicked again
DESERTED = 30.0  # s after which a paused run continues when everybody has left


class Server(Watcher):
    """Shows a run in browsers. address: "", PORT, HOST:PORT or [IPV6]:PORT; without a host only
    this machine can connect. The URL has a token, without which it refuses connections.

    Raises UserError for an address that is none. Whatever goes wrong with it
    afterwards closes it with a note, and the run continues.
    """

    def __init__(self, address: str | int = ""):
        self._address = address_of(str(address))
        self._frames: Frames | None = None
        self._asked: set[str] = set()  # by buttons, in viser's threads: "save", "stop"
        self._pausing = False
        self._said, self._said_at = "", -np.inf
        self._stop_at = -np.inf
        self._seen_at = 0.0

    @property
    def _open(self) -> Frames | None:
        return self._frames if self._frames and not self._frames.closed else None

    @property
    def url(self) -> str | None:
        """What to type into a browser, while a run is shown."""
        return frames.door.url if (frames := self._open) else None

    def open(self, run: Running) -> None:
        config, rows = run.config, run.session.raster.rows.names
        look = look_of(config, config.model.sh_degree, rows)
        title, starts = f"{run.scene.name} - hardsplat", starts_of(run.scene, None)
        self._frames = Frames(run.device, self._address, title, look, starts, busy=True)
        gui = self._frames.server.gui
        self._text = gui.add_markdown("")
        self._pause = gui.add_button("Pause")
        self._pause.on_click(lambda _: self._toggle())
        save = gui.add_button("Save", hint="a checkpoint and splats.ply, now")
        save.on_click(lambda _: self._asked.add("save"))
        hint = "ends the training here, as after its last step"
        self._stop = gui.add_button("Stop", color="red", hint=hint)
        self._stop.on_click(lambda _: self._ask_to_stop())
        tqdm.write(f"view: {self.url}")

    def _toggle(self) -> None:
        self._pausing = not self._pausing
        self._pause.label = "Resume" if self._pausing else "Pause"

    def _ask_to_stop(self) -> None:
        now = time.monotonic()
        if now - self._stop_at < SURE:
            self._asked.add("stop")
        self._stop_at, self._stop.label = now, "Stop: click again"

    @property
    def shown(self) -> bool:
        return self._open is not None and bool(self._open.clients)

    @property
    def batch_seconds(self) -> float:  # type: ignore[override]
        return REFRESH if self._frames is not None and self._frames.touched else BATCH_SECONDS

    @property
    def paused(self) -> bool:
        return self._pausing and self._open is not None

    def turn(self, run: Running, wait: bool = False) -> None:
        if (frames := self._open) is None:
            return
        self._answer(run, frames)
        self._say(run, frames)
        session, frames.busy = run.session, not wait
        try:
            frames.turn(session.store.parameters, degree_of(run), session.step, wait)
        except DeviceLost:
            raise
        except UserError as error:
            tqdm.write(f"note: the page is closed: {error}. Training continues")

    def _answer(self, run: Running, frames: Frames) -> None:
        """Does what buttons asked for."""
        now = time.monotonic()
        if "save" in self._asked:
            self._asked.discard("save")
            run.save()
            self._said = ""
        if "stop" in self._asked:
            self._asked.clear()
            run.stop()
        if self._stop.label != "Stop" and now - self._stop_at > SURE:
            self._stop.label = "Stop"
        if not self._pausing or frames.clients:
            self._seen_at = now
        elif now - self._seen_at > DESERTED:
            tqdm.write("note: everybody has left the page; the paused training continues")
            self._toggle()

    def _say(self, run: Running, frames: Frames) -> None:
        now, log = time.monotonic(), run.log
        if not frames.clients or now - self._said_at < SAID_EVERY:
            return
        pace = f"{run.session.runner.steps_per_second:.1f} a second"
        if self._pausing:
            pace = "paused"
        lines = [f"**step {run.session.step:,}** of {run.session.schedule.steps:,}, {pace}"]
        if log.steps:
            lines.append(f"loss {log.losses[-1]:.4f}, PSNR {log.psnrs[-1]:.2f} dB")
            lines.append(f"{log.splats[-1]:,} splats")
        if log.evaluations:
            last = log.evaluations[-1]
            lines.append(f"held out: PSNR {last['psnr']:.2f} dB at step {last['step']:,}")
        text = "  \n".join(lines)
        if text != self._said:
            self._text.content = self._said = text
        self._said_at = now

    def close(self) -> None:
        if self._frames is not None:
            self._frames.close()
