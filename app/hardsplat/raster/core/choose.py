"""`auto`: which rows of the registries suit a device, by timing them once on a small scene
(app/hardsplat/raster/core/trial.py).

Greedy, option by option: what is 3 % faster than the best so far, forward and backward together and
twice, takes its place. Options that are still to come have the rows that come first with what was
chosen so far. The outcome is kept on disk per device and driver, with a digest of what was
compared, for every set of options that were named, which stay as they are. HARDSPLAT_AUTO=first
takes the first rows and times nothing, as does a device without a clock.

Backends can be compared in the same way: by options with a field `rasterizer`, and a `make` that
looks it up in BACKENDS.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import json_of, replacing
from hardsplat.base.version import __version__
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import shader
from hardsplat.raster.core.trial import Trial, mark

MARGIN = 0.03  # of noise that no row is changed for
BUDGET = 2.0  # seconds of frames after which the rows so far must do
log = logging.getLogger("hardsplat")


def timing_enabled() -> bool:
    """Whether to time at all: HARDSPLAT_AUTO, `time` (default) or `first`."""
    word = os.environ.get("HARDSPLAT_AUTO") or "time"
    if word not in ("time", "first"):
        raise UserError(f"HARDSPLAT_AUTO is {word}: choose time or first")
    return word == "time"


Rows = dict[str, str | int]  # row by option
Choices = Mapping[str, Sequence[str | int]]
# options -> of each option the row that they name, or the first that runs; raises UserError for
# what does not go together
First = Callable[[Any], Mapping[str, str | int]]


def choose(
    device: Device,
    backend: str,
    options: Any,
    first: First,
    choices: Choices,
    make: Callable,
    sources: Callable,
) -> Any:
    """`options` with a row for each of `choices`: option -> the rows that run here.

    make, sources: see Trial. Raises UserError for a HARDSPLAT_AUTO that means nothing.
    """
    start = replace(options, **_start(options, first, choices))
    alone = all(len(names) < 2 for names in choices.values())
    if alone or not timing_enabled() or not device.timestamp_ns:
        return start
    known: dict[tuple, dict] = device.shared("choices", dict)
    path, given = _path(device), _given(backend, options, choices)
    key, candidates = (path, given), {choice: list(names) for choice, names in choices.items()}
    if known.get(key, {}).get("candidates") != candidates:
        found, digest = _load(path).get(given), _digest(options, first, candidates, sources)
        if found and found["candidates"] == candidates and found["digest"] == digest:
            log.debug("variants for %s, remembered from %s:", device.name, found["date"])
        else:
            if not (said := device.shared("choosing", Event)).is_set():
                said.set()
                log.info("choosing variants for %s, once ...", device.name)
            found = {**_timed(device, options, first, candidates, make, sources), "digest": digest}
            if found["ms"]:
                _save(path, device, given, found)
        for line in lines(found):
            log.debug("  %s", line)
        known[key] = found
    return replace(options, **known[key]["rows"])


def greedy(
    trial: Trial, options: Any, first: First, choices: Choices
) -> tuple[Rows, dict[str, dict[str, float]]]:
    """(row by option, milliseconds by choice and row timed). No milliseconds at all where not even
    the first rows run."""
    rows = _start(options, first, choices)
    table: dict[str, dict[str, float]] = {}
    best, why = trial.attempt(replace(options, **rows))
    if best is None:
        log.debug("  %s does not run here: %s", rows, why)
        return rows, table
    decided: Rows = {}
    for choice, names in choices.items():
        if len(names) < 2:
            continue
        candidates = _candidates(options, decided, choice, names, first, choices)
        others = {name: each for name, each in candidates.items() if name != rows[choice]}
        table[choice] = {str(rows[choice]): best}  # by words, as JSON has them
        if trial.spent < BUDGET:
            trial.prepare(replace(options, **each) for each in others.values())
        for name, candidate in others.items():
            if trial.spent >= BUDGET:
                break
            ms, why = trial.attempt(replace(options, **candidate), best)
            if ms is None:
                log.debug("  %s %s left out: %s", choice, name, why)
                continue
            # It must win twice: clocks rise with work, and others may have been at work too.
            if ms < (1 - MARGIN) * best:
                best = min(best, trial.attempt(replace(options, **rows))[0] or best)
                ms = max(ms, trial.attempt(replace(options, **candidate))[0] or float("inf"))
            table[choice] |= {str(rows[choice]): best, str(name): ms}
            if ms < (1 - MARGIN) * best:
                rows, best = candidate, ms
        decided[choice] = rows[choice]
    return rows, table


def _start(options: Any, first: First, choices: Iterable[str]) -> Rows:
    """The rows that come first for these options."""
    names = first(options)
    return {choice: names[choice] for choice in choices}


def _candidates(
    options: Any,
    decided: Rows,
    choice: str,
    names: Sequence[str | int],
    first: First,
    choices: Iterable[str],
) -> dict[str | int, Rows]:
    """name of a row of an option -> the rows that come first with it and with those decided. Names
    that do not go with these are left out."""
    out = {}
    for name in names:
        with suppress(UserError):
            out[name] = _start(replace(options, **decided, **{choice: name}), first, choices)
    return out


def lines(found: Mapping) -> list[str]:
    """What was chosen and why, a line an option."""
    out = []
    for choice, row in found["rows"].items():
        timed = found["ms"].get(choice, {})
        others = sorted((ms, name) for name, ms in timed.items() if name != str(row))
        if not others:
            alone = len(found["candidates"][choice]) < 2
            why = "the only one that runs" if alone else "the first that runs, no other was timed"
            out.append(f"{choice} {row}: {why}")
            continue
        (next_ms, name), ms = others[0], timed[str(row)]
        note = f", less than {100 * MARGIN:g} % faster" if next_ms < ms else ""
        out.append(f"{choice} {row}: {ms:.3g} ms, next {name}: {next_ms:.3g} ms{note}")
    return out


def remembered(device: Device) -> dict[str, dict]:
    """What was chosen on this device, by the options that were given."""
    return _load(_path(device))


def _timed(
    device: Device,
    options: Any,
    first: First,
    candidates: Choices,
    make: Callable,
    sources: Callable,
) -> dict:
    rows, date = _start(options, first, candidates), datetime.now().isoformat(" ", "minutes")
    found: dict[str, Any] = {"date": date, "candidates": candidates, "rows": rows, "ms": {}}
    try:
        trial = Trial.fitting(device, make, sources, replace(options, **rows))
    except OutOfMemory as error:
        log.debug("  nothing was timed: %s", error)
        return found
    try:
        found["rows"], found["ms"] = greedy(trial, options, first, candidates)
    finally:
        trial.destroy()
    return found


def _given(backend: str, options: Any, choices: Choices) -> str:
    named = {
        n: v for n, v in asdict(options).items() if n not in choices and v not in ("auto", None)
    }
    return ", ".join([backend, *(f"{name} {value}" for name, value in named.items())])


def _path(device: Device) -> Path:
    return shader.cache_file("variants", __version__, device.name, device.physical.driver)


def _digest(options: Any, first: First, choices: Choices, sources: Callable) -> str:
    """Digest of the trial scene and of the rows and shaders of all candidates.

    When one of these changes, times no longer hold."""
    rows = [
        each
        for choice, names in choices.items()
        for each in _candidates(options, {}, choice, names, first, choices).values()
    ]
    found: set[shader.ShaderSource] = set()
    for each in rows:
        with suppress(UserError):
            found |= sources(replace(options, **each))
    text = " ".join([mark(), repr(rows), *sorted(map(shader.key, found))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _load(path: Path) -> dict[str, dict]:
    """Choices by what was given; none where there is no file, or not one of ours."""
    try:
        choices = json_of(path.read_text())["choices"]
        for found in choices.values():
            lines(found)
            rows, candidates = found["rows"], found["candidates"]
            known = all(rows[choice] in names for choice, names in candidates.items())
            if not (known and isinstance(found["date"], str) and isinstance(found["digest"], str)):
                return {}
        return choices
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _save(path: Path, device: Device, given: str, found: dict) -> None:
    try:
        with replacing(path) as partial:
            about = {"device": device.name, "driver": device.physical.driver}
            choices = {**_load(path), given: found}
            partial.write_text(json.dumps({**about, "choices": choices}, indent=1))
    except OSError:
        pass  # a read-only home costs a timing per run, nothing else
