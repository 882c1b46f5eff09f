"""Messages that no page sends, made from ones that it does."""

import msgspec
import numpy as np

from tests.helpers.spoiling import spoiled_bytes, spoiled_values


def mutated(rng: np.random.Generator, messages: list[dict]) -> bytes | str:
    """One of the messages as MessagePack, of which something is wrong."""
    message = messages[rng.integers(len(messages))]
    if rng.integers(8) == 0:  # text
        return "".join(map(chr, rng.integers(32, 0x2FF, rng.integers(0, 50))))
    try:
        raw = msgspec.msgpack.encode(spoiled_values(message, rng))
        if rng.integers(4):
            return raw
    except (OverflowError, UnicodeEncodeError):  # what MessagePack has no word for
        raw = msgspec.msgpack.encode(message)
    return spoiled_bytes(raw, rng)
