"""Runs every variant in another process, to find those that a driver does not survive.

The other process (`python -m hardsplat.study.pipelines DEVICE`) is asked by lines of JSON what to
build and run, and writes the name of a pipeline before it builds it. Where it ends, or answers
nothing for a while, that pipeline was not survived; another process goes on with the rest.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import STATISTICS
from hardsplat.gpu import crashes, probe
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.raster.backends import BACKENDS, rasterizer_named
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.raster.core.sinks import adam
from hardsplat.raster.core.sky import behind_pass
from hardsplat.raster.working.passes import cull_passes, gather_pass, step_passes
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES, loss_passes
from hardsplat.study import tried
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import FORMATS, MOMENT_FORMATS
from hardsplat.tables.gradients import GRADIENTS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, SHAPES
from hardsplat.tables.photographs import LENSES
from hardsplat.tables.reductions import ATOMICS, REDUCTIONS
from hardsplat.tables.tiles import TILE_BACKWARDS
from hardsplat.train import FEATURES, STRATEGIES, Feature, variants

PATIENCE = 120.0  # seconds for a pipeline
CRASH = "HARDSPLAT_CRASH"  # for tests: the other process ends at pipelines with this text
_SIZE, _SH_PLANES = (64, 48), 4
OPTIONS: dict[str, Mapping[str, Any]] = {
    "format": FORMATS,
    "ordering": ORDERINGS,
    "blending": BLENDINGS,
    "block": BLOCKS,
    "shape": SHAPES,
    "reduction": REDUCTIONS,
    "atomics": ATOMICS,
    "tile_backward": TILE_BACKWARDS,
}


def _working_passes() -> list[ComputePass]:
    step = step_passes(MOMENT_FORMATS["float32"].slot, STATISTICS)
    return [*cull_passes(GEOMETRY, LENSES["pinhole"].slot), gather_pass(), *step]


def _all_passes(feature: Feature) -> list[ComputePass]:
    return [p for parts in feature.every() for p in parts.passes]


# variants that a step of a training tries
_STEPS: dict[str, Iterable[str]] = {"moments": MOMENT_FORMATS, "gradient": GRADIENTS}

_TRAINING: dict[str, Callable[[], Iterable[ComputePass | DrawPass]]] = {
    "loss": lambda: [*variants(loss_passes()), *METRIC_PASSES, *FITTED_PASSES],
    "working set": _working_passes,
    "sky": lambda: [behind_pass("pinhole")],
    **{f"feature {feature.name}": partial(_all_passes, feature) for feature in FEATURES},
    **{
        f"strategy {name}": partial(strategy.passes, "float32", photo_bytes=4)
        for name, strategy in STRATEGIES.items()
    },
}


@dataclass(frozen=True)
class Request:
    """What to build and run: a rasterizer with some of its options named, the probe of a
    capability, a part of training, steps of a training with options, or an image fit.

    killed: variants that are not survived. fatal: pipelines that are not tried again.
    """

    what: str  # "rasterizer" | "probe" | "training" | "steps" | "fit"
    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    killed: Mapping[str, str] = field(default_factory=dict)
    fatal: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """The row that it is about, as `option row`, or its own name."""
        if self.options:
            return ", ".join(f"{option} {row}" for option, row in self.options.items())
        kind = {"rasterizer": "rasterizer ", "fit": "fit rasterizer "}.get(self.what, "")
        return kind + self.name


@dataclass
class Survey:
    """killed: variant -> pipeline. built: number of pipelines that are survived. ran: variants that
    drew, trained or fitted with finite numbers. failed: variant -> what was wrong with them."""

    killed: dict[str, str] = field(default_factory=dict)
    built: int = 0
    ran: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def survey(index: int) -> Survey:
    """Builds the pipelines of every variant on a device and runs it, in a process that may end."""
    out, other = Survey(), _Other(index)
    try:
        for capability in probe.CHECKED:
            if end := other.build(Request("probe", capability), out):
                out.killed[capability] = end
        for name in BACKENDS:
            _survey_rasterizer(name, other, out)
        for part in _TRAINING:
            if end := other.build(Request("training", part), out):
                out.killed[part] = end
        for option, rows in _STEPS.items():
            for row in rows:
                if end := other.build(Request("steps", options={option: row}), out):
                    out.killed[f"{option} {row}"] = end
        for row in FIT_RASTERS:
            if end := other.build(Request("fit", row), out):
                out.killed[f"rasterizer {row}"] = end
    finally:
        other.end()
    return out


def _survey_rasterizer(name: str, other: _Other, out: Survey) -> None:
    """One option is changed at a time, and a row that is not survived is left out from then on.
    Where the first rows are not survived, the first change that is stands for the row that it
    replaces. At the end each is tried again, since it may have been another row's fault."""
    taken = BACKENDS[name].options.settings()
    rows = [(option, row) for option in OPTIONS if option in taken for row in OPTIONS[option]]
    before = set(out.killed)
    end, first = other.build(Request("rasterizer", name), out), other.rows
    if end:
        for option, row in rows:
            if first.get(option) in (None, row):
                continue
            failed = _built_with(name, option, row, other, out)
            if not failed and not other.refused:
                out.killed[f"{option} {first[option]}"] = end
                break
        else:
            out.killed[f"rasterizer {name}"] = end
            return
    again = [key for key in out.killed if key not in before]
    for option, row in rows:
        variant = f"{option} {row}"
        if variant in out.killed or (not end and first.get(option) == row):
            continue  # which ran already
        if killed_at := _built_with(name, option, row, other, out):
            out.killed[variant] = killed_at
            again.append(variant)
    for variant in again:
        del out.killed[variant]
        option, _, row = variant.partition(" ")
        if end := _built_with(name, option, row, other, out):
            out.killed[variant] = end


def _built_with(name: str, option: str, row: str, other: _Other, out: Survey) -> str:
    return other.build(Request("rasterizer", name, {option: row}), out)


class _Other:
    """The process that builds, begun when there is something to build. rows: those of the last
    rasterizer, by option. refused: it does not run here."""

    def __init__(self, index: int):
        self._command = [sys.executable, "-m", "hardsplat.study.pipelines", str(index)]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._fatal: list[str] = []
        self.rows: dict[str, str] = {}
        self.refused = False

    def _begin(self) -> subprocess.Popen[str]:
        # nothing is timed: only what is built matters
        own = os.environ | {"HARDSPLAT_AUTO": "first"}
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(
            self._command, env=own, stdin=pipe, stdout=pipe, stderr=quiet, text=True
        )
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            for line in process.stdout or ():
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        self._process, self._lines = process, lines
        return process

    def build(self, request: Request, out: Survey) -> str:
        """The pipeline that was not survived; "" where all were, or the device refuses. Raises
        UserError where the device cannot even be opened."""
        process, building, self.refused = self._process or self._begin(), "", False
        known = dict(killed=out.killed, fatal=tuple(self._fatal))
        with suppress(OSError):  # it has ended, as its lines will show
            print(json.dumps(asdict(request) | known), file=process.stdin, flush=True)
        while True:
            try:
                found = json.loads(self._lines.get(timeout=PATIENCE) or "{}")
            except (queue.Empty, ValueError):
                found = {}
            if "rows" in found:
                self.rows = found["rows"]
            elif "building" in found:
                building = found["building"]
            elif found:
                out.built += found.get("done", 0)
                out.ran.update(found.get("ran", ()))
                if "failed" in found:
                    out.failed[request.variant] = found["failed"]
                self.refused = "refused" in found
                return found.get("fatal", "")
            else:
                self.end()
                if not building:
                    raise UserError("its driver ends the process that opens it: reinstall it")
                self._fatal.append(building)
                return building

    def end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def described(owner: ComputePass | DrawPass) -> str:
    """A pipeline by its pass and shaders."""
    files = (" + ".join([s.path, *(file for _, file in s.slots)]) for s in owner.sources())
    return f"{owner.name} ({', '.join(files)})"


def _rasterizer_passes(device: Device, request: Request) -> list:
    backend = BACKENDS[request.name]
    config = TrainConfig.of(rasterizer=request.name, **request.options)
    options = backend.first_runnable(device, backend.options.of(config.raster, config.gradient))
    names = backend.resolve(device, options).names
    _reply(rows={option: str(names[option]) for option in OPTIONS if option in names})
    return backend.passes(device, _SH_PLANES, *_SIZE, options, adam())


def _reply(**found) -> None:
    print(json.dumps(found), flush=True)


def _run(device: Device, request: Request) -> list[str]:
    """The variants that took part, see hardsplat.study.tried."""
    if request.what == "rasterizer":
        return tried.drawn(device, rasterizer_named(request.name), request.options)
    if request.what == "steps":
        return tried.trained(device, request.options)
    return tried.fitted(device, request.name) if request.what == "fit" else []


def _answer(device: Device, request: Request) -> None:
    device.killed.clear()
    crashes.withdraw(device, request.killed)
    try:
        if request.what == "rasterizer":
            passes = _rasterizer_passes(device, request)
        elif request.what == "training":
            passes = list(_TRAINING[request.name]())
        elif request.what == "probe":
            there = request.name in device.capabilities
            passes = list(probe.PROBES[request.name]) if there else []
        else:
            passes = []
        missing = {owner.key(): owner for owner in passes if owner.key() not in device.pipelines}
        for owner in missing.values():
            _announce(described(owner), request)
            build(device, owner)
        _announce(f"what {request.variant} runs", request)
        ran = _run(device, request)
    except _Fatal as pipeline:
        return _reply(fatal=str(pipeline))
    except tried.Unfit as error:
        return _reply(failed=str(error), done=len(missing))
    except UserError as error:
        return _reply(refused=str(error))
    return _reply(done=len(missing), ran=ran)


class _Fatal(Exception):
    """A pipeline that was not survived before."""


def _announce(text: str, request: Request) -> None:
    """Says what comes next, in case that it ends the process."""
    if text in request.fatal:
        raise _Fatal(text)
    _reply(building=text)
    if (made_up := os.environ.get(CRASH)) and made_up in text:
        os.kill(os.getpid(), signal.SIGKILL)


def main(index: str) -> None:
    device = Device(int(index))
    for line in sys.stdin:
        _answer(device, Request(**json.loads(line)))


if __name__ == "__main__":
    main(sys.argv[1])
