"""`--open`: what was written, in the program that the system has for it."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Prints nothing of requests."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *request: object) -> None:
        """Prints nothing of pages that are left while they load."""


def open_file(path: Path) -> None:
    """Opens a page in the browser, or a mesh in the program of its kind of file."""
    if _screen():
        _open(path.absolute().as_uri())


def open_folder(folder: Path) -> None:
    """Serves a folder to this machine alone and opens it in the browser, until Ctrl-C: browsers
    load no levels of detail from a disk."""
    if not _screen():
        return
    handler = partial(_Handler, directory=str(folder))
    with _Server(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        _open(url)
        print(f"open at {url} until Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _open(address: str) -> None:
    if not webbrowser.open(address):
        print("note: no program was found that opens it", file=sys.stderr)


def _screen() -> bool:
    """Whether there is a screen; says so where there is none. A browser of a terminal would take
    the place of the command."""
    there = sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not there:
        print("note: --open: no screen here", file=sys.stderr)
    return there
