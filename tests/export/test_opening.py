"""`--open`: what the system is asked to open, and what a browser is given."""

import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock
from urllib.request import urlopen

import pytest

from hardsplat.export import opening


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Addresses that were opened, on a machine with a screen."""
    addresses: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda address: addresses.append(address) or True)
    return addresses


def test_a_file_is_opened_where_there_is_a_screen(opened, monkeypatch, capsys):
    opening.open_file(Path("some page.html"))
    assert opened == [(Path.cwd() / "some page.html").as_uri()]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    opening.open_file(Path("some page.html"))
    opening.open_folder(Path.cwd())
    assert len(opened) == 1 and capsys.readouterr().err == 2 * "note: --open: no screen here\n"


def test_a_folder_is_served_while_it_is_open(tmp_path, monkeypatch, opened, capfd):
    (tmp_path / "index.html").write_text("levels")
    seen: list[bytes] = []

    def until_ctrl_c(server, *given):
        thread = threading.Thread(target=serve_forever, args=(server,))
        thread.start()
        with urlopen(opened[0]) as answer:
            seen.append(answer.read())
        left = Mock(side_effect=ConnectionResetError("a page that is left while it loads"))
        monkeypatch.setattr(opening._Handler, "send_head", left)
        with pytest.raises(OSError):
            urlopen(opened[0])
        server.shutdown()
        thread.join()
        raise KeyboardInterrupt

    serve_forever = ThreadingHTTPServer.serve_forever
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", until_ctrl_c)
    opening.open_folder(tmp_path)
    assert seen == [b"levels"] and opened[0].startswith("http://127.0.0.1:")
    assert capfd.readouterr().err == "", "a line of each request"
