"""What browsers may say: the schema of every message of viser's page that has a use here. Others,
and those that break it, are refused before viser sees them."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct, convert
from msgspec.msgpack import Decoder

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
            if message.uuid not in elements or message.updates.keys() != {"value"}:
                raise ValueError("no element of this page has such a value")
            convert(message.updates["value"], elements[message.uuid])
    except (MsgspecError, ValueError, RecursionError) as error:
        raise RefusedMessage(str(error)[:120]) from None
