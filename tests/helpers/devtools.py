"""Chromium driven through a pipe: pages that work on after they are loaded, touched, looked at."""

import base64
import io
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
from PIL import Image

_FLAGS = """--headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader
    --hide-scrollbars --no-first-run --disable-background-networking --disable-component-update
    --disable-sync --disable-quic --disable-dev-shm-usage --remote-debugging-pipe""".split()
NAMES = "chromium chromium-browser google-chrome google-chrome-stable chrome".split()
SIZE = 320, 240  # px of a page


def chromium() -> str | None:
    """The browser's executable, where this machine has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a headless Chromium with WebGL in software, whose files are in `folder`.
    complaints: what pages logged as warnings or errors. requests: URLs asked for. Raises
    AssertionError where Chromium does not answer in time.
    """

    def __init__(self, folder: Path, size=(640, 480), flags=()):
        if not (found := chromium()):
            raise RuntimeError("no Chromium on this machine (apt-get install chromium)")
        (theirs_in, self._write), (self._read, theirs_out) = os.pipe(), os.pipe()
        own = f"--user-data-dir={folder / 'profile'}", "--window-size={},{}".format(*size)
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = ["bash", "-c", shell, "browser", found, *_FLAGS, *flags, *own, "about:blank"]
        how = dict(pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **how)
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._id, self._session = b"", 0, {}
        self.complaints, self.requests = [], []
        targets = self.ask("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        shape = dict(width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setDeviceMetricsOverride", **shape)

    def ask(self, method: str, seconds: float = 120, **params) -> dict:
        """The result of a command."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params} | self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while (answer := self._next(end)).get("id") != self._id:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def open(self, url: str) -> None:
        """Begins to load a page."""
        self.ask("Page.navigate", url=url)

    def run(self, script: str):
        """The value of a JavaScript expression, which may be a promise."""
        how = dict(expression=script, awaitPromise=True, returnByValue=True)
        result = self.ask("Runtime.evaluate", **how)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 60):
        """The value of an expression as soon as it is true."""
        until = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"{script} after {seconds} s: {self.complaints}"
            time.sleep(0.05)
        return value

    def screenshot(self) -> Image.Image:
        picture = self.ask("Page.captureScreenshot", format="png")["data"]
        return Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")

    def key(self, code: str, key: str = "") -> None:
        """Presses a key and lets it go."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, code=code, key=key or code)

    def drag(self, start: tuple[int, int], end: tuple[int, int], button: str = "left") -> None:
        mask = {"left": 1, "right": 2, "middle": 4}[button]
        presses = (
            ("mousePressed", start, mask),
            ("mouseMoved", end, mask),
            ("mouseReleased", end, 0),
        )
        for kind, (x, y), held in presses:
            how = dict(type=kind, x=x, y=y, button=button, buttons=held, clickCount=1)
            self.ask("Input.dispatchMouseEvent", **how)

    def _processes(self) -> set[int]:
        """The numbers of the browser's processes. Linux alone."""
        parents = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it ended
                continue
        ours = {self._process.pid}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return ours

    def close(self) -> None:
        """Ends all of its processes, which write to the profile to the last."""
        others = self._processes()
        self._process.terminate()
        self._process.wait(20)
        end = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in others) and time.monotonic() < end:
            time.sleep(0.02)
        os.close(self._read)
        os.close(self._write)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _next(self, end: float) -> dict:
        while b"\0" not in self._buffer:
            waiting = select.select([self._read], [], [], max(0, end - time.monotonic()))[0]
            assert waiting, "Chromium does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium is gone"
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.complaints.append(str([a.get("value") for a in params["args"]]))
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found = details.get("exception", {}).get("description")
                self.complaints.append(found or details["text"])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"][:80])


def shot(browser: Browser) -> np.ndarray:
    """(H, W, 3) of what it shows, 0 to 1."""
    return np.asarray(browser.screenshot()) / 255
