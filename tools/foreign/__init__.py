"""Splats drawn by viewers that nobody here wrote, in headless Chromium from given cameras:
PlayCanvas' engine, which SuperSplat is made of, and Spark on three.js. tools/setup installs both.

An HTML page beside this module drives each: `window.load` shows a file, `window.draw` gives the
picture of a camera.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image

from hardsplat.io.formats import format_to_read
from hardsplat.io.formats.frames import to_ours
from hardsplat.model.camera import Camera
from tests.helpers.devtools import Browser

NODE = Path(sys.prefix, "node", "node_modules")
_PAGES = Path(__file__).parent
_FAR = 1000.0  # times the near distance of a camera is too near for some scenes; world units


@dataclass(frozen=True)
class Viewer:
    """page: its HTML file. package: of npm, that has the version. formats: suffixes that it opens.
    original: settings, and edits of its shaders, with which it draws as the original 3DGS does."""

    page: str
    package: str
    formats: tuple[str, ...]
    original: dict[str, object]

    @property
    def folder(self) -> Path:
        return NODE / self.package

    @property
    def version(self) -> str:
        return json.loads((self.folder / "package.json").read_text())["version"]


VIEWERS = {
    "playcanvas": Viewer(
        "playcanvas.html",
        "playcanvas",
        (".ply", ".compressed.ply", ".sog", ".glb"),
        {
            "minPixelSize": 0,  # smaller splats are left out
            "dataFormat": "large",  # of what is drawn
            "edits": [
                # its unit is half a pixel
                ["gsplatCornerVS", "+ 0.3", "+ 1.2"],
                # which ends at 0
                ["gsplatPS", "(exp(x * -4.0) - EXP4) * INV_EXP4", "exp(x * -4.0)"],
            ],
        },
    ),
    "spark": Viewer(
        "spark.html",
        "@sparkjsdev/spark",
        (".ply", ".compressed.ply", ".spz", ".sog", ".splat"),
        {
            # by itself it draws all splats with the filter of antialiased ones
            "preBlurAmount": 0.3,
            "blurAmount": 0.0,
            "sortRadial": False,
            "maxStdDev": 3.33,  # where a splat ends, instead of sqrt(8)
            "accumExtSplats": True,  # numbers of 32 bits instead of 16 and less
        },
    ),
}


def missing() -> str | None:
    """What is not installed, in words."""
    lacks = [v.package for v in VIEWERS.values() if not v.folder.is_dir()]
    return f"no {' and '.join(lacks)} of npm" if lacks else None


class Foreign:
    """A browser with one of VIEWERS, as it comes or as the original. folder: for the browser's own
    files."""

    def __init__(self, viewer: str, folder: Path, original: bool = False):
        self.viewer, self._files = VIEWERS[viewer], {}
        handler = partial(_Handler, self._files)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            self._browser = Browser(folder)
            how = quote(json.dumps(self.viewer.original if original else {}))
            address = f"http://127.0.0.1:{self._server.server_port}"
            self._browser.open(f"{address}/pages/{self.viewer.page}#{how}")
            self._browser.wait("window.ready")
        except BaseException:
            self._stop()
            raise

    def pictures(
        self,
        path: Path,
        cameras: Sequence[Camera],
        background: Sequence[float] = (0.0, 0.0, 0.0),
        near: float = 0.01,
    ) -> Iterator[np.ndarray]:
        """(H, W, 3) float32 of 0..1 of each camera, in hardsplat's world. Raises AssertionError
        where the viewer does not open the file."""
        turn = np.eye(4)
        turn[:3, :3] = to_ours(format_to_read(path).frame)  # viewers keep the axes of a file
        self._files[name := f"/splats/{quote(path.name)}"] = path
        given = json.dumps([name, path.name, list(background)])
        self._browser.run(f"window.load(...{given})")
        for camera in cameras:
            (fx, _, cx), (_, fy, cy), _ = camera.K.tolist()
            about = dict(fx=fx, fy=fy, cx=cx, cy=cy, near=near, far=_FAR)
            about |= dict(width=camera.width, height=camera.height)
            about["w2c"] = (camera.w2c @ turn).tolist()
            data = self._browser.run(f"window.draw({json.dumps(about)})")
            png = base64.b64decode(data.partition(",")[2])
            with Image.open(io.BytesIO(png)) as image:
                yield np.asarray(image.convert("RGB"), np.float32) / 255

    @property
    def complaints(self) -> list[str]:
        return self._browser.complaints

    def close(self) -> None:
        self._browser.close()
        self._stop()

    def _stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Foreign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(SimpleHTTPRequestHandler):
    """Pages, packages of npm, and the files that are named."""

    def __init__(self, files: dict[str, Path], *given):
        self._named = files
        super().__init__(*given)

    def translate_path(self, path: str) -> str:
        path = path.partition("?")[0]
        if path in self._named:
            return str(self._named[path])
        for start, folder in (("/pages/", _PAGES), ("/node/", NODE)):
            inside = (folder / path.removeprefix(start)).resolve()
            if path.startswith(start) and inside.is_relative_to(folder.resolve()):
                return str(inside)
        return str(_PAGES / "nothing")

    def log_message(self, *_) -> None:
        pass
