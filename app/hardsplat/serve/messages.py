"""What browsers may say: the schema of every message of viser's page that has a use here. Others,
and those that break it, are refused before viser sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

LARGEST = 65_536  # bytes of a message; a page's own have some 300
FARTHEST = 1e9  # world units, of positions
WIDEST = 32_768  # px of a window

Check = Callable[[Any], None]


class RefusedMessage(ValueError):
    """Says which part of a message is not what."""


def _expected(what: str, fits: Callable[[Any], bool]) -> Check:
    def check(value: Any) -> None:
        if not fits(value):
            raise RefusedMessage(f"expected {what}, got {repr(value)[:40]}")

    return check


def _is_number(value: Any) -> bool:
    # not True; integers beyond those of float64 have no square root
    return type(value) in (int, float) and -1e300 < value < 1e300


def number(low: float, high: float, whole: bool = False) -> Check:
    """low, high: the least and the largest value."""
    what = f"a {'whole ' * whole}number from {low:g} to {high:g}"
    return _expected(
        what, lambda v: _is_number(v) and low <= v <= high and not (whole and v != int(v))
    )


def numbers(count: int, most: float) -> Check:
    """most: the largest magnitude."""

    def fits(value: Any) -> bool:
        of_count = isinstance(value, list | tuple) and len(value) == count
        return of_count and all(_is_number(v) and abs(v) <= most for v in value)

    return _expected(f"{count} numbers within {most:g}", fits)


def direction(count: int) -> Check:
    """Numbers whose length is near 1."""
    each = numbers(count, 10.0)

    def check(value: Any) -> None:
        each(value)
        _expected(f"{count} numbers of length 1", lambda v: 0.1 < math.hypot(*v) < 10)(value)

    return check


def text(most: int) -> Check:
    """most: characters."""
    return _expected(f"at most {most} characters", lambda v: isinstance(v, str) and len(v) <= most)


def one_of(*values: Any) -> Check:
    what = f"one of {', '.join(map(str, values))}"
    return _expected(what, lambda v: any(v == known and type(v) is type(known) for known in values))


def places(most: int) -> Check:
    """One to `most` pairs of numbers: shares of a picture."""
    each = numbers(2, 4.0)

    def check(value: Any) -> None:
        what = f"1 to {most} pairs of numbers"
        _expected(what, lambda v: isinstance(v, list | tuple) and 0 < len(v) <= most)(value)
        for place in value:
            each(place)

    return check


def either(check: Check) -> Check:
    """None, or what fits."""
    return lambda value: None if value is None else check(value)


SCHEMA: dict[str, dict[str, Check]] = {
    "ViewerCameraMessage": {
        "wxyz": direction(4),
        "position": numbers(3, FARTHEST),
        "fov": number(0.001, 3.1415),
        "near": number(0, 1e12),
        "far": number(0, 1e30),
        "image_height": number(0, WIDEST, whole=True),
        "image_width": number(0, WIDEST, whole=True),
        "look_at": numbers(3, FARTHEST),
        "up_direction": direction(3),
    },
    "GuiUpdateMessage": {
        "uuid": text(64),
        "updates": _expected("a map", lambda v: type(v) is dict),
    },
    "SceneNodeClickMessage": {
        "name": text(64),
        "instance_index": either(number(0, 2**31, whole=True)),
        "ray_origin": either(numbers(3, FARTHEST)),
        "ray_direction": either(numbers(3, FARTHEST)),
        "screen_pos": numbers(2, FARTHEST),
        "modifier": either(text(32)),
        "owner": text(64),
    },
    "ScenePointerMessage": {
        "event_type": one_of("click", "rect-select"),
        "ray_origin": either(numbers(3, FARTHEST)),
        "ray_direction": either(numbers(3, FARTHEST)),
        "screen_pos": places(2),
        "modifier": either(text(32)),
    },
}
OPTIONAL = {"owner"}


def check_message(raw: Any, elements: dict[str, Check]) -> None:
    """raw: as the websocket gave it. elements: what the values of GUI elements may be, by uuid.

    Raises RefusedMessage that names message and field.
    """
    from msgspec import MsgspecError, msgpack

    if not isinstance(raw, bytes):
        raise RefusedMessage("expected bytes, got text")
    if len(raw) > LARGEST:
        raise RefusedMessage(f"expected at most {LARGEST} bytes, got {len(raw)}")
    try:
        message = msgpack.decode(raw)
    except (MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise RefusedMessage(f"no MessagePack: {str(error)[:80]}") from None
    kind = message.get("type") if isinstance(message, dict) else None
    fields = SCHEMA.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise RefusedMessage(f"no message of a known type: {repr(kind)[:40]}")
    if not fields.keys() - OPTIONAL <= message.keys() - {"type"} <= fields.keys():
        raise RefusedMessage(f"{kind}: expected the fields {', '.join(fields)}")
    for name in message.keys() - {"type"}:
        _checked(f"{kind}: {name}", fields[name], message[name])
    if kind == "ViewerCameraMessage" and math.dist(message["position"], message["look_at"]) < 1e-9:
        raise RefusedMessage(f"{kind}: look_at: expected another place than position")
    if kind == "ScenePointerMessage":
        _check_pointer(message)
    if kind == "GuiUpdateMessage":
        check, updates = elements.get(message["uuid"]), message["updates"]
        if check is None or updates.keys() != {"value"}:
            raise RefusedMessage(f"{kind}: no element of this page has such a value")
        _checked(f"{kind}: value", check, updates["value"])


def _check_pointer(message: dict) -> None:
    """A click has a ray and one place, a rectangle two places."""
    click = message["event_type"] == "click"
    rays = [message["ray_origin"], message["ray_direction"]]
    if len(message["screen_pos"]) != (1 if click else 2) or (click and None in rays):
        raise RefusedMessage("ScenePointerMessage: a ray and one place, or two places")


def _checked(where: str, check: Check, value: Any) -> None:
    try:
        check(value)
    except RefusedMessage as error:
        raise RefusedMessage(f"{where}: {error}") from None
