"""`auto`: which rows of the registries suit a device, by timing them once on a small scene of our
own.

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
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from hardsplat.base.errors import OutOfMemory, UserError
from hardsplat.base.files import json_of
from hardsplat.base.version import __version__
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device import cache
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.instance import ValidationError
from hardsplat.gpu.passes import shader
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.sinks import STORE

SIZES = ((640, 480), (320, 240), (160, 120), (80, 60))  # px; on a CPU the last
SLOW = 20.0  # ms of a frame: then a smaller one
REPEATS = 3  # timed frames, after one that warms up
HOPELESS = 1.5  # times the best: after such a frame no more are drawn


def trial_scene(width: int, height: int) -> tuple[Gaussians, Camera]:
    """Splats as a trained scene shows them to one of its cameras, always the same.

    Half axes (to alpha = 1/255) are log-normal around 3.7 x 1.8 px. Splats are faint and solid,
    one for 2 px, which makes about 90 a pixel."""
    rng = np.random.default_rng(0)
    n, focal = width * height // 2, float(width)
    z, angle, opacity = rng.uniform(2, 6, n), rng.uniform(0, np.pi, n), rng.uniform(0.02, 0.7, n)
    half = np.minimum(np.exp(rng.normal(0, 1.05, n)), 0.25 * width / 3.7)[:, None] * (3.7, 1.8, 1.8)
    scales = half * (z / focal / np.sqrt(2 * np.log(255 * opacity)))[:, None]
    x, y = (rng.uniform(-0.5, 0.5, n) * side * z / focal for side in (width, height))
    quats = np.stack([np.cos(angle / 2), np.zeros(n), np.zeros(n), np.sin(angle / 2)], 1)
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    sh, camera = rng.normal(0, 0.7, (n, 1, 3)), Camera(np.eye(4), K, width, height)
    return Gaussians(np.stack([x, y, z], 1), quats, scales, opacity, sh), camera


def _mark() -> str:
    """A text that changes with the trial scene and its sizes."""
    gaussians, _ = trial_scene(*SIZES[-1])
    digest = hashlib.sha256(gaussians.means.tobytes() + gaussians.scales.tobytes())
    return f"{SIZES} {digest.hexdigest()}"


class Trial:
    """Times rasterizers that `make` builds, as HardwareRasterizer is; `sources(options)` are the
    shaders of one.

    spent: seconds that their frames took, without compiling. size: of the scene, px. Raises
    OutOfMemory with nothing allocated.
    """

    def __init__(
        self, device: Device, make: Callable, sources: Callable, size: tuple[int, int] = SIZES[-1]
    ):
        self.device, self.make, self.sources, self.spent = device, make, sources, 0.0
        gaussians, self.camera = trial_scene(*size)
        with ExitStack() as stack:
            self.parameters = Parameters(device, len(gaussians), 0, gradients="all")
            stack.callback(self.parameters.destroy)
            self.parameters.upload(gaussians)
            self._stack = stack.pop_all()
        shape = (self.camera.height, self.camera.width, 4)
        self._d_image = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)

    @classmethod
    def fitting(cls, device: Device, make: Callable, sources: Callable, options: Any) -> Trial:
        """With the largest scene of which `options` draw a frame quickly here."""
        for size in SIZES[-1:] if device.physical.kind == "CPU" else SIZES:
            trial = cls(device, make, sources, size)
            trial.prepare([options])
            ms, _ = trial.attempt(options, best=0.0)  # a single frame
            if ms is None or ms <= SLOW or size == SIZES[-1]:
                break
            trial.destroy()
        trial.spent = 0.0
        return trial

    def prepare(self, candidates: Iterable[Any]) -> None:
        """Compiles their shaders in parallel; what fails will fail again when it is timed."""
        found = set()
        for options in candidates:
            with suppress(UserError):
                found |= self.sources(options)

        def one(source: shader.ShaderSource) -> None:
            with suppress(UserError, shader.ShaderError):
                shader.compile_source(source)

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, found))

    def ms(self, options: Any, best: float = float("inf")) -> float:
        """Milliseconds of the fastest of a few frames, forward and backward. best: of the others so
        far, what is far above it is not drawn again."""
        with ExitStack() as stack:
            width, height = self.camera.width, self.camera.height
            raster = self.make(self.device, self.parameters, width, height, options, sink=STORE)
            stack.callback(raster.destroy)
            raster.resources["camera"].upload(camera_data(self.camera))
            raster.resources["frame"].upload(frame_data(0, (0.0, 0.0, 0.0), 0.2))
            raster.resources["d_image"].upload(self._d_image)

            def run() -> Recorder:
                recorder = Recorder(self.device, raster.resources, timed=True)
                stack.callback(recorder.destroy)
                raster.record_forward(recorder)
                raster.record_backward(recorder)
                recorder.end().run_once()
                return recorder

            start = time.perf_counter()
            found: list[float] = []
            recorder = run()
            if raster.reserve_pairs():
                recorder = run()
            while len(found) < REPEATS and not (found and min(found) > HOPELESS * best):
                recorder.run_once()
                found.append(sum(recorder.times().values()))
            self.spent += time.perf_counter() - start
        return min(found)

    def attempt(self, options: Any, best: float = float("inf")) -> tuple[float | None, str]:
        """(milliseconds, ""), or (None, why) for what the device cannot build or hold."""
        try:
            return self.ms(options, best), ""
        except (DeviceLost, ValidationError):
            raise
        except Exception as error:
            # a driver's refusal to build a pipeline has as many types as drivers have results
            return None, f"{type(error).__name__}: {error}".splitlines()[0]

    def destroy(self) -> None:
        self._stack.close()


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
# options -> of each option the row that they name, or the first that runs; raises UserError for
# what does not go together
First = Callable[[Any], Mapping[str, str | int]]


@dataclass(frozen=True)
class Search:
    """What is to be chosen: to `options` a row for each of `choices`, option -> the rows that run
    here. make, sources: see Trial."""

    backend: str
    options: Any
    first: First
    choices: Mapping[str, list[str | int]]
    make: Callable
    sources: Callable

    def choose(self, device: Device) -> Any:
        """`options` with these rows. Raises UserError for a HARDSPLAT_AUTO that means nothing."""
        alone = all(len(names) < 2 for names in self.choices.values())
        if alone or not timing_enabled() or not device.timestamp_ns:
            return self._with(self._start())
        known: dict[tuple, dict] = device.shared("choices", dict)
        path, given = _path(device), self._given()
        if known.get((path, given), {}).get("candidates") != self.choices:
            found, digest = _load(path).get(given), self._digest()
            if found and found["candidates"] == self.choices and found["digest"] == digest:
                log.debug("variants for %s, remembered from %s:", device.name, found["date"])
            else:
                if not (said := device.shared("choosing", Event)).is_set():
                    said.set()
                    log.info("choosing variants for %s, once ...", device.name)
                found = {**self._timed(device), "digest": digest}
                if found["ms"]:
                    known_rows = {**_load(path), given: found}
                    cache.remember(path, device.physical, choices=known_rows)
            for line in lines(found):
                log.debug("  %s", line)
            known[path, given] = found
        return self._with(known[path, given]["rows"])

    def greedy(self, trial: Trial) -> tuple[Rows, dict[str, dict[str, float]]]:
        """(row by option, milliseconds by choice and row timed). No milliseconds at all where not
        even the first rows run."""
        rows, decided = self._start(), Rows()
        table: dict[str, dict[str, float]] = {}
        best, why = trial.attempt(self._with(rows))
        if best is None:
            log.debug("  %s does not run here: %s", rows, why)
            return rows, table
        for choice, names in self.choices.items():
            if len(names) < 2:
                continue
            candidates = self._candidates(choice, decided)
            others = {name: each for name, each in candidates.items() if name != rows[choice]}
            table[choice] = {str(rows[choice]): best}  # by words, as JSON has them
            if trial.spent < BUDGET:
                trial.prepare(map(self._with, others.values()))
            for name, candidate in others.items():
                if trial.spent >= BUDGET:
                    break
                ms, why = trial.attempt(self._with(candidate), best)
                if ms is None:
                    log.debug("  %s %s left out: %s", choice, name, why)
                    continue
                # It must win twice: clocks rise with work, and others may have been at work too.
                if ms < (1 - MARGIN) * best:
                    best = min(best, trial.attempt(self._with(rows))[0] or best)
                    ms = max(ms, trial.attempt(self._with(candidate))[0] or float("inf"))
                table[choice] |= {str(rows[choice]): best, str(name): ms}
                if ms < (1 - MARGIN) * best:
                    rows, best = candidate, ms
            decided[choice] = rows[choice]
        return rows, table

    def _with(self, rows: Mapping[str, str | int]) -> Any:
        return replace(self.options, **rows)

    def _start(self, rows: Mapping[str, str | int] = {}) -> Rows:
        """The rows that come first with these."""
        names = self.first(self._with(rows))
        return {choice: names[choice] for choice in self.choices}

    def _candidates(self, choice: str, decided: Rows) -> dict[str | int, Rows]:
        """name of a row of an option -> the rows that come first with it and with those decided.
        Names that do not go with these are left out."""
        out = {}
        for name in self.choices[choice]:
            with suppress(UserError):
                out[name] = self._start({**decided, choice: name})
        return out

    def _timed(self, device: Device) -> dict:
        rows, date = self._start(), datetime.now().isoformat(" ", "minutes")
        found: dict[str, Any] = {"date": date, "candidates": self.choices, "rows": rows, "ms": {}}
        try:
            trial = Trial.fitting(device, self.make, self.sources, self._with(rows))
        except OutOfMemory as error:
            log.debug("  nothing was timed: %s", error)
            return found
        try:
            found["rows"], found["ms"] = self.greedy(trial)
        finally:
            trial.destroy()
        return found

    def _given(self) -> str:
        named = {
            name: value
            for name, value in asdict(self.options).items()
            if name not in self.choices and value not in ("auto", None)
        }
        return ", ".join([self.backend, *(f"{name} {value}" for name, value in named.items())])

    def _digest(self) -> str:
        """Digest of the trial scene and of the rows and shaders of all candidates. When one of
        these changes, times no longer hold."""
        rows = [each for choice in self.choices for each in self._candidates(choice, {}).values()]
        found: set[shader.ShaderSource] = set()
        for each in rows:
            with suppress(UserError):
                found |= self.sources(self._with(each))
        text = " ".join([_mark(), repr(rows), *sorted(map(shader.key, found))])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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


def _path(device: Device) -> Path:
    return cache.cache_file("variants", __version__, device.name, device.physical.driver)


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
