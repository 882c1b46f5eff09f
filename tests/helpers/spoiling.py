"""Damage to files, and that readers survive it: what comes back is whole, or a UserError of one
line; never another error, a long wait or much memory. Two kinds of damage: bytes of a file, and
values within a file that is otherwise right."""

import copy
import json
import time
import tracemalloc
import warnings
from contextlib import contextmanager

import numpy as np

from hardsplat.base.errors import UserError

STRANGE = [None, True, False, "", "x", "../x", "/etc/passwd", "a\0b", "x" * 5000, "\ud800"]
STRANGE += [-1, 0, 1, 2, 3.5, -0.0, 1e-320, 1e30, 1e308, 1e400, float("nan")]
STRANGE += [2**31, 2**64, 10**400, [], {}, [[]], [1, 2], {"a": 1}]


def survives(read, spoil, rounds, seed=0, *, seconds=5.0, memory=400 << 20, warn="ignore", path=""):
    """read() after each spoil(rng) ends well or in an error that names path; both occur."""
    outcomes = set()
    for number in range(rounds):
        what = f"seed {seed}, round {number}"
        spoil(np.random.default_rng((seed, number)))
        tracemalloc.start()
        begun = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(warn)
                read()
            outcomes.add("read")
        except UserError as error:
            outcomes.add("refused")
            assert "\n" not in str(error) and str(path) in str(error), what
            assert not out_of_memory(error), f"{what}: {error}"
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        took = time.process_time() - begun
        assert took < seconds and peak < memory, f"{what}: {took:.1f} s, {peak >> 20} MiB"
    assert outcomes == {"read", "refused"}, (seed, outcomes)


def survives_bytes(read, file, good: bytes, rounds, head=0, **how) -> None:
    """read() survives damaged bytes of a file. head: see spoiled_bytes; how: of survives."""
    survives(read, lambda rng: file.write_bytes(spoiled_bytes(good, rng, head)), rounds, **how)


def survives_values(read, file, good, rounds, **how) -> None:
    """read() survives damaged values of a JSON file."""
    survives(
        read, lambda rng: file.write_text(json.dumps(spoiled_values(good, rng))), rounds, **how
    )


@contextmanager
def takes_at_most(nbytes: float):
    """What is done meanwhile takes no more memory of Python and numpy at its peak."""
    tracemalloc.start()
    try:
        yield
        assert (peak := tracemalloc.get_traced_memory()[1]) < nbytes, f"{peak} bytes"
    finally:
        tracemalloc.stop()


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error was a MemoryError: the reader asked for what the file announces."""
    return error is not None and (
        isinstance(error, MemoryError) or out_of_memory(error.__cause__ or error.__context__)
    )


def spoiled_bytes(data: bytes, rng, head: int = 0) -> bytes:
    """Bits, characters, numbers, stretches, the end. head: two in three among these first bytes."""
    if head and rng.integers(3):
        return spoiled_bytes(data[:head], rng) + data[head:]
    out, at = bytearray(data), int(rng.integers(len(data)))
    match rng.integers(6):
        case 0 | 1:
            for i in rng.integers(len(out), size=rng.integers(1, 5)):
                out[i] ^= 1 << rng.integers(8)
        case 2:
            size, number = rng.choice([1, 4, 8]), rng.choice([0, 1, 255, 2**31 - 1, 2**32 - 1, -1])
            out[at : at + size] = int(number).to_bytes(8, "little", signed=True)[:size]
        case 3:
            out[at] = rng.choice(list(b" \n0123456789-e.,:{}[]()'\"\x00\xff"))
        case 4:
            end = at + int(rng.integers(1, 40))
            out[at:end] = [b"", bytes(out[at:end]) * 2][rng.integers(2)]
        case 5:
            del out[at:]
    return bytes(out)


def spoiled_values(tree, rng):
    """A copy of JSON in which one or two places are others, not there, or twice."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.integers(1, 3)):
        place, depth = tree, rng.integers(1, 6)
        while keys := list(place) if isinstance(place, dict) else list(range(len(place))):
            key = keys[rng.integers(len(keys))]
            depth -= 1
            if depth > 0 and isinstance(place[key], dict | list) and place[key]:
                place = place[key]
                continue
            kind = rng.integers(6)
            if kind == 0:
                del place[key]
            elif kind == 1 and isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
            elif kind == 2 and type(place[key]) in (int, float):
                place[key] *= [-1, 0, 1e3, 1e-3, 1e300][rng.integers(5)]
            else:
                place[key] = copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])
            break
    return tree
