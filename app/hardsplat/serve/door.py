"""Who may come in: the address that browsers connect to, its token, and pages of others that must
stay out."""

from __future__ import annotations

import hmac
import http
import logging
import secrets
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hardsplat.base.errors import UserError

HOST, PORT = "127.0.0.1", 8080  # where nothing else is said; the next port that is free
TRIES = 100  # ports
COOKIE = "hardsplat_token"
_ANY = ("0.0.0.0", "::")  # every address of this machine
_LOCK = threading.Lock()
LARGEST = 1 << 20  # bytes of a message; a page's own have some 300
log = logging.getLogger("websockets.server.hardsplat")
# what is no request, as of programs that try ports, or no message, gets no traceback
_BROKEN = ("opening handshake failed", "connection handler failed")
log.addFilter(lambda record: record.msg not in _BROKEN)
# nor does a message with values that viser's own handlers do not expect; hardsplat's are elsewhere
_UNEXPECTED = "coro=<WebsockMessageHandler._handle_incoming_message()"
logging.getLogger("asyncio").addFilter(lambda record: _UNEXPECTED not in record.getMessage())


@dataclass(frozen=True)
class Address:
    """host: by number or name. port: None for the first free one from PORT on."""

    host: str = HOST
    port: int | None = None

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in (HOST, "localhost", "::1")


def address_of(text: str | None) -> Address:
    """From "", PORT, HOST:PORT or [IPV6]:PORT. Raises UserError for anything else."""
    if not text:
        return Address()
    host, _, port = text.rpartition(":")
    valid = port.isascii() and port.isdigit() and 0 <= int(port) <= 65535
    if not valid or (":" in text and not host):
        raise UserError(f"--serve {text}: expected PORT or HOST:PORT, such as 8080 or 0.0.0.0:8080")
    return Address(host.strip("[]") or HOST, int(port))


def free_port(address: Address) -> int:
    """A port of that address that can be listened on. Raises UserError where there is none."""
    ports = [address.port] if address.port is not None else range(PORT, PORT + TRIES)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    for port in ports:
        try:
            with socket.create_server((address.host, port), family=family) as probe:
                return probe.getsockname()[1]
        except OSError as error:
            reason = error.strerror or str(error)
    where = f"ports {PORT} to {PORT + TRIES - 1} of {address.host}"
    if address.port is not None:
        where = f"{address.host}:{address.port}"
    other = "choose another port, or an address of this machine"
    raise UserError(f"--serve: cannot listen on {where}: {reason}; {other}")


class Door:
    """Lets requests in, or not. token: what all requests must know, since other users and pages of
    the same machine reach it too.

    Browsers send pages of other sites to any address, also to 127.0.0.1: a request must name this
    server as its host, and come from a page of its own.
    """

    def __init__(self, address: Address, port: int):
        self.address, self.port = address, port
        self.token = secrets.token_urlsafe(16)

    @property
    def cookie(self) -> str:
        """Its name. Servers of one host share their cookies, whatever their ports."""
        return f"{COOKIE}_{self.port}"

    @property
    def url(self) -> str:
        """What to type into a browser."""
        host = socket.gethostname() if self.address.host in _ANY else self.address.host
        place = f"[{host}]" if ":" in host else host
        return f"http://{place}:{self.port}/?token={self.token}"

    def refusal(
        self, path: str, headers: Any
    ) -> tuple[http.HTTPStatus, dict[str, str], str] | None:
        """None for a request that may come in; else status, headers and text of the answer.
        headers: a mapping, as of websockets."""
        forbidden = http.HTTPStatus.FORBIDDEN
        host, origin = _one(headers, "Host"), _one(headers, "Origin")
        try:
            named, query = urlsplit(f"//{host}").hostname, urlsplit(path).query
            place = host if origin is None else urlsplit(origin).netloc
        except ValueError:
            return forbidden, {}, "no address\n"
        if self.address.local and named not in (HOST, "localhost", "::1"):
            return forbidden, {}, "this server is for pages of its own machine\n"
        if place != host:
            return forbidden, {}, "this server is for its own page\n"
        cookie = f"{self.cookie}={self.token}"
        if (asked := parse_qs(query).get("token")) and _same(asked[0], self.token):
            answer = {"Location": "/", "Set-Cookie": f"{cookie}; HttpOnly; SameSite=Strict; Path=/"}
            return http.HTTPStatus.SEE_OTHER, answer | {"Referrer-Policy": "no-referrer"}, ""
        if any(_same(part.strip(), cookie) for part in (_one(headers, "Cookie") or "").split(";")):
            return None
        return forbidden, {}, "open the URL that hardsplat printed, with its token\n"


def _same(given: str, wanted: str) -> bool:
    # bytes that are no text come as surrogates
    return hmac.compare_digest(given.encode(errors="surrogatepass"), wanted.encode())


def _one(headers: Any, name: str) -> str | None:
    """The only header of that name; None where there is none, "" where there are several."""
    found = headers.get_all(name)
    return found[0] if len(found) == 1 else "" if found else None


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps viser from printing, which it does through rich."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


def open_server(address: Address, label: str) -> tuple[Any, Door]:
    """A viser server behind a door. Raises UserError where the address cannot be had."""
    import viser
    import websockets.asyncio.server as served

    door = Door(address, free_port(address))
    serve, behind = served.serve, []

    def guarded(handler: Any, host: str, port: int, *, process_request: Any, **others: Any) -> Any:
        """websockets' serve, which asks the door about requests before viser."""

        def request(connection: Any, request: Any) -> Any:
            refused = door.refusal(request.path, request.headers)
            if refused is None:
                return process_request(connection, request)
            status, headers, text = refused
            response = connection.respond(status, text)
            response.headers.update(headers)
            return response

        behind.append(port)
        others |= {"max_size": LARGEST, "logger": log}
        return serve(handler, host, port, process_request=request, **others)

    with _LOCK, quiet():  # viser's own banner knows no token
        # viser has no hook for requests; it calls this in the constructor
        setattr(served, "serve", guarded)  # noqa: B010
        try:
            server = viser.ViserServer(address.host, door.port, label=label, verbose=False)
        finally:
            setattr(served, "serve", serve)  # noqa: B010
    if not behind:
        with quiet():
            server.stop()
        what = f"viser {viser.__version__} does not listen through websockets"
        how = "pip install 'hardsplat[web]' installs one that does"
        raise UserError(f"--serve: {what}, so no one could be kept out: {how}")
    door.port = server.get_port()
    # a browser may go while its picture is under way
    warnings.filterwarnings("ignore", "Queued a .* on a closed connection", UserWarning)
    # viser would open a tunnel to a server of its own for any client that asks
    setattr(server, "request_share_url", lambda verbose=True: None)  # noqa: B010
    return server, door
