"""Who may come in: the address that browsers connect to, its token, pages of others that must stay
out, and messages that break the schema."""

from __future__ import annotations

import hmac
import http
import logging
import math
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta, MsgspecError, Struct, convert
from msgspec.msgpack import Decoder

from hardsplat.base.errors import UserError

LARGEST = 65_536  # bytes of a message; a page's own have some 300
FARTHEST = 1e9  # world units, of positions
WIDEST = 32_768  # px of a window

_Coordinate = Annotated[float, Meta(ge=-FARTHEST, le=FARTHEST)]
_Place = tuple[_Coordinate, _Coordinate, _Coordinate]
_Part = Annotated[float, Meta(ge=-10, le=10)]  # of a direction
_Share = Annotated[float, Meta(ge=-4, le=4)]  # of a picture
_Pixels = Annotated[int, Meta(ge=0, le=WIDEST)]
_Name = Annotated[str, Meta(max_length=64)]


class RefusedMessage(ValueError):
    """Says which part of a message is not what."""


class _Message(Struct, tag=True, forbid_unknown_fields=True):
    """Named and laid out as in viser._messages."""


class ViewerCameraMessage(_Message):
    wxyz: tuple[_Part, _Part, _Part, _Part]
    position: _Place
    fov: Annotated[float, Meta(ge=0.001, le=3.1415)]
    near: Annotated[float, Meta(ge=0, le=1e12)]
    far: Annotated[float, Meta(ge=0, le=1e30)]
    image_height: _Pixels
    image_width: _Pixels
    look_at: _Place
    up_direction: tuple[_Part, _Part, _Part]

    def __post_init__(self):
        for name in ("wxyz", "up_direction"):
            if not 0.1 < math.hypot(*getattr(self, name)) < 10:
                raise ValueError(f"{name}: expected numbers of length 1")
        if math.dist(self.position, self.look_at) < 1e-9:
            raise ValueError("look_at: expected another place than position")


class GuiUpdateMessage(_Message):
    uuid: _Name
    updates: dict[str, Any]


class SceneNodeClickMessage(_Message):
    name: _Name
    instance_index: Annotated[int, Meta(ge=0, le=2**31)] | None
    ray_origin: _Place | None
    ray_direction: _Place | None
    screen_pos: tuple[_Coordinate, _Coordinate]
    modifier: _Name | None
    owner: _Name = ""


class ScenePointerMessage(_Message):
    event_type: Literal["click", "rect-select"]
    ray_origin: _Place | None
    ray_direction: _Place | None
    screen_pos: Annotated[list[tuple[_Share, _Share]], Meta(min_length=1, max_length=2)]
    modifier: _Name | None

    def __post_init__(self):
        click, rays = self.event_type == "click", (self.ray_origin, self.ray_direction)
        if len(self.screen_pos) != (1 if click else 2) or (click and None in rays):
            raise ValueError("expected a ray and one place, or two places")


_DECODER = Decoder(
    ViewerCameraMessage | GuiUpdateMessage | SceneNodeClickMessage | ScenePointerMessage
)


def check_message(raw: Any, elements: dict[str, Any]) -> None:
    """raw: as the websocket gave it. elements: the types of values of GUI elements, by uuid.

    Raises RefusedMessage.
    """
    if not isinstance(raw, bytes):
        raise RefusedMessage("expected bytes, got text")
    if len(raw) > LARGEST:
        raise RefusedMessage(f"expected at most {LARGEST} bytes, got {len(raw)}")
    try:
        message = _DECODER.decode(raw)
        if isinstance(message, GuiUpdateMessage):
            kind = elements.get(message.uuid)  # other threads take elements away
            if kind is None or message.updates.keys() != {"value"}:
                raise ValueError("no element of this page has such a value")
            convert(message.updates["value"], kind)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise RefusedMessage(str(error)[:120]) from None


HOST, PORT = "127.0.0.1", 8080  # where nothing else is said; the next port that is free
TRIES = 100  # ports
COOKIE = "hardsplat_token"
_ANY = ("0.0.0.0", "::")  # every address of this machine
_LOCK = threading.Lock()
log = logging.getLogger("websockets.server.hardsplat")
# what is no request, as of programs that try ports, gets no traceback
log.addFilter(lambda record: record.msg != "opening handshake failed")
_BROKEN = (1002, 1007, 1009)  # close codes for what breaks the protocol, is no text, is too large


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
    for port in ports:
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
                return probe.getsockname()[1]
        except OSError as error:
            reason = error.strerror or str(error)
    where = f"ports {PORT} to {PORT + TRIES - 1} of {address.host}"
    if address.port is not None:
        where = f"{address.host}:{address.port}"
    other = "choose another port, or an address of this machine"
    raise UserError(f"--serve: cannot listen on {where}: {reason}; {other}")


class Door:
    """Lets requests and messages in, or not. token: what all requests must know, since other users
    and pages of the same machine reach it too. elements: types of the values of GUI elements, by
    uuid. refused: messages so far; why: of the last one.

    Browsers send pages of other sites to any address, also to 127.0.0.1: a request must name this
    server as its host, and come from a page of its own.
    """

    def __init__(self, address: Address, port: int):
        self.address, self.port = address, port
        self.token = secrets.token_urlsafe(16)
        self.elements: dict[str, Any] = {}
        self.refused, self.why = 0, ""

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
        if (asked := parse_qs(query).get("token")) and self._fits(asked[0]):
            cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            answer = {"Location": "/", "Set-Cookie": cookie, "Referrer-Policy": "no-referrer"}
            return http.HTTPStatus.SEE_OTHER, answer, ""
        try:
            cookies = SimpleCookie(_one(headers, "Cookie") or "")
        except CookieError:
            cookies = SimpleCookie()
        if self.cookie in cookies and self._fits(cookies[self.cookie].value):
            return None
        return forbidden, {}, "open the URL that hardsplat printed, with its token\n"

    def refuse(self, why: str) -> None:
        self.refused, self.why = self.refused + 1, why

    def _fits(self, token: str) -> bool:
        # bytes that are no text come as surrogates
        return hmac.compare_digest(token.encode(errors="surrogatepass"), self.token.encode())


class CheckedConnection:
    """A websocket of which viser gets only what fits the schema. The rest is counted."""

    def __init__(self, connection: Any, door: Door):
        self._connection, self._door = connection, door

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                raw = await self._connection.recv()
                check_message(raw, self._door.elements)
                return raw
            except ConnectionClosed as error:
                if error.sent and error.sent.code in _BROKEN:
                    self._door.refuse(f"a message that is no message: {error.sent.reason}")
                raise
            except RefusedMessage as error:
                self._door.refuse(str(error))


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
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    door = Door(address, free_port(address))
    serve, behind = served.serve, []

    def guarded(handler: Any, host: str, port: int, *, process_request: Any, **others: Any) -> Any:
        """websockets' serve, which asks the door before viser, for requests and messages."""

        def request(connection: Any, request: Any) -> Any:
            refused = door.refusal(request.path, request.headers)
            if refused is None:
                return process_request(connection, request)
            status, headers, text = refused
            body = text.encode()
            kind = {"Content-Type": "text/plain", "Content-Length": str(len(body))}
            return Response(status, status.phrase, Headers(headers | kind), body)

        def checked(connection: Any) -> Any:
            return handler(CheckedConnection(connection, door))

        behind.append(port)
        others["max_size"] = 16 * LARGEST  # more closes the connection
        others["logger"] = log
        return serve(checked, host, port, process_request=request, **others)

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
    # viser would open a tunnel to a server of its own for any client that asks
    setattr(server, "request_share_url", lambda verbose=True: None)  # noqa: B010
    return server, door
