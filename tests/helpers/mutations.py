"""Messages that no page sends, made from ones that it does."""

import math

import msgspec
import numpy as np

JUNK = [None, True, -5, 7, 2.5, 2**63, -(2**63), math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.0]
JUNK += ["", "image", "no such picture", "x" * 70_000, "\x00", b"\xff\xfe", [], [0.0, 1.0], {}]
JUNK += [[5e-324] * 4, [0.0] * 4, [math.nan] * 3, [1e300] * 3, [[[]]] * 3, {"value": {"a": [1]}}]


def mutated(rng: np.random.Generator, messages: list[dict]) -> bytes | str:
    """One of the messages as MessagePack, of which something is wrong."""
    message = dict(messages[rng.integers(len(messages))])
    how = rng.integers(8)
    if how == 0:
        return rng.bytes(rng.integers(0, 200))
    if how == 1:  # text
        return "".join(map(chr, rng.integers(32, 0x2FF, rng.integers(0, 50))))
    for _ in range(rng.integers(1, 4)):
        place, junk = message, JUNK[rng.integers(len(JUNK))]
        name = list(message)[rng.integers(len(message))]
        if isinstance(message[name], dict) and message[name] and rng.random() < 0.7:
            place = message[name] = dict(message[name])
            name = next(iter(place))
        if isinstance(place[name], list) and place[name] and rng.random() < 0.7:
            place[name] = [*place[name]]
            place, name = place[name], int(rng.integers(len(place[name])))
        if how == 2 and isinstance(name, str):
            del place[name]
        elif how == 3 and isinstance(place, dict):
            place[f"more{rng.integers(9)}"] = junk
        else:
            place[name] = junk
        if not message:
            break
    raw = msgspec.msgpack.encode(message)
    if how == 4:
        raw = raw[: rng.integers(len(raw) + 1)]
    if how == 5:
        flipped = bytearray(raw)
        flipped[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
        raw = bytes(flipped)
    return raw
