"""Runs every variant in another process, to find those that a driver does not survive.

The other process is asked what to build and run, and names a pipeline before it builds it. Where it
ends, or answers nothing for a while, that pipeline was not survived; another process goes on with
the rest. What is run is an image, a training or a fit of the smallest size.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import STATISTICS
from hardsplat.fit.blobs import Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.gpu import crashes, probe
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes.declared import ComputePass, DrawPass
from hardsplat.gpu.passes.pipelines import build
from hardsplat.raster.backends import BACKENDS, rasterizer_named
from hardsplat.raster.core.choose import trial_scene
from hardsplat.raster.core.projection import GEOMETRY
from hardsplat.raster.core.sinks import adam
from hardsplat.raster.core.working import working_passes
from hardsplat.raster.renderer import Renderer
from hardsplat.settings.train import TrainConfig
from hardsplat.settings.typed import RasterizerName
from hardsplat.step.loss import FITTED_PASSES, METRIC_PASSES, loss_passes
from hardsplat.step.photos import Photos
from hardsplat.study.variants import REGISTRIES, option_of
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import MOMENT_FORMATS
from hardsplat.tables.photographs import LENSES
from hardsplat.train import (
    FEATURES,
    STRATEGIES,
    DeviceFacts,
    Facts,
    Feature,
    Session,
    Views,
    decide,
    variants,
)

PATIENCE = 120.0  # seconds for a pipeline
CRASH = "HARDSPLAT_CRASH"  # for tests: the other process ends at pipelines with this text
_SIZE, _SH_PLANES = (64, 48), 4
_TRIED, _STEPS_TRIED = (32, 24), 2  # px; steps of a training and of a fit
# those of rasterizers, and those that a step of a training tries
_STEP = ("moments", "gradient")
_FLAGS: dict[str, Mapping[str, Any]] = {
    option_of(flag): rows for _, flag, rows in REGISTRIES if flag and flag.startswith("--")
}
OPTIONS = {option: rows for option, rows in _FLAGS.items() if option not in _STEP}
_STEPS = {option: _FLAGS[option] for option in _STEP}


def _all_passes(feature: Feature) -> list[ComputePass]:
    return [p for parts in feature.every() for p in parts.passes]


_TRAINING: dict[str, Callable[[], Iterable[ComputePass | DrawPass]]] = {
    "loss": lambda: [*variants(loss_passes()), *METRIC_PASSES, *FITTED_PASSES],
    "working set": lambda: working_passes(
        GEOMETRY, LENSES["pinhole"].slot, MOMENT_FORMATS["float32"].slot, STATISTICS
    ),
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

    def build(variant: str, request: Request) -> None:
        if end := other.build(request, out):
            out.killed[variant] = end

    try:
        for capability in probe.CHECKED:
            build(capability, Request("probe", capability))
        for name in BACKENDS:
            _survey_rasterizer(name, other, out)
        for part in _TRAINING:
            build(part, Request("training", part))
        for option, rows in _STEPS.items():
            for row in rows:
                build(f"{option} {row}", Request("steps", options={option: row}))
        for row in FIT_RASTERS:
            build(f"rasterizer {row}", Request("fit", row))
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
        self._index, self._fatal = index, list[str]()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection
        self.rows: dict[str, str] = {}
        self.refused = False

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, its_own = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._index, its_own), daemon=True)
        self._process.start()
        its_own.close()

    def build(self, request: Request, out: Survey) -> str:
        """The pipeline that was not survived; "" where all were, or the device refuses. Raises
        UserError where the device cannot even be opened."""
        if self._process is None:
            self._begin()
        building, self.refused = "", False
        with suppress(OSError):  # it has ended, as its answers will show
            known = replace(request, killed=dict(out.killed), fatal=tuple(self._fatal))
            self._connection.send(known)
        while True:
            found: dict[str, Any] = {}
            with suppress(EOFError, OSError):
                found = self._connection.recv() if self._connection.poll(PATIENCE) else {}
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
            self._process.join()
            self._connection.close()
            self._process = None


# -- in the other process


def described(owner: ComputePass | DrawPass) -> str:
    """A pipeline by its pass and shaders."""
    files = (" + ".join([s.path, *(file for _, file in s.slots)]) for s in owner.sources())
    return f"{owner.name} ({', '.join(files)})"


Reply = Callable[[dict], None]


def _serve(index: int, connection: Connection) -> None:
    """Answers requests for a device, by its index, until nobody asks any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what drivers say
    os.environ["HARDSPLAT_AUTO"] = "first"  # nothing is timed: only what is built matters
    device = Device(index)
    while True:
        _answer(device, connection.recv(), connection.send)


def _answer(device: Device, request: Request, reply: Reply) -> None:
    device.killed.clear()
    crashes.withdraw(device, request.killed)
    try:
        passes: list = []
        if request.what == "rasterizer":
            passes, rows = _rasterizer_passes(device, request)
            reply({"rows": rows})
        elif request.what == "training":
            passes = list(_TRAINING[request.name]())
        elif request.what == "probe" and request.name in device.capabilities:
            passes = list(probe.PROBES[request.name])
        missing = {owner.key(): owner for owner in passes if owner.key() not in device.pipelines}
        for owner in missing.values():
            _announce(described(owner), request, reply)
            build(device, owner)
        _announce(f"what {request.variant} runs", request, reply)
        reply({"done": len(missing), "ran": _run(device, request)})
    except _Fatal as pipeline:
        reply({"fatal": str(pipeline)})
    except _Unfit as error:
        reply({"failed": str(error), "done": len(missing)})
    except UserError as error:
        reply({"refused": str(error)})


class _Fatal(Exception):
    """A pipeline that was not survived before."""


def _announce(text: str, request: Request, reply: Reply) -> None:
    """Says what comes next, in case that it ends the process."""
    if text in request.fatal:
        raise _Fatal(text)
    reply({"building": text})
    if (made_up := os.environ.get(CRASH)) and made_up in text:
        os.kill(os.getpid(), signal.SIGKILL)


def _rasterizer_passes(device: Device, request: Request) -> tuple[list, dict[str, str]]:
    backend = BACKENDS[request.name]
    config = TrainConfig.of(rasterizer=request.name, **request.options)
    options = backend.first_runnable(device, backend.options.of(config.raster, config.gradient))
    names = backend.resolve(device, options).names
    rows = {option: str(names[option]) for option in OPTIONS if option in names}
    return backend.passes(device, _SH_PLANES, *_SIZE, options, adam()), rows


def _run(device: Device, request: Request) -> list[str]:
    """The variants that took part, as `option row`. Raises UserError for what the device refuses,
    and _Unfit for numbers that are not finite."""
    if request.what == "rasterizer":
        return _drawn(device, rasterizer_named(request.name), request.options)
    if request.what == "steps":
        return _trained(device, request.options)
    return _fitted(device, request.name) if request.what == "fit" else []


class _Unfit(Exception):
    """What came out is not finite."""


def _check(what: str, arrays: Iterable[np.ndarray]) -> None:
    if not all(np.isfinite(values).all() for values in arrays):
        raise _Unfit(f"{what} are not finite")


def _drawn(device: Device, rasterizer: RasterizerName, options: Mapping[str, str]) -> list[str]:
    gaussians, camera = trial_scene(*_TRIED)
    given: dict[str, Any] = {**options}
    with Renderer(device, rasterizer, **given) as renderer:
        image, through = renderer.forward(gaussians, camera)
        _check("images", (image, through))
        _check("gradients", renderer.backward(np.ones_like(image)).values())
        names = renderer.raster.rows.names
    return [f"rasterizer {rasterizer}", *(f"{option} {row}" for option, row in names.items())]


def _trained(device: Device, options: Mapping[str, str]) -> list[str]:
    gaussians, camera = trial_scene(*_TRIED)
    config = TrainConfig.of(strategy="none", max_steps=_STEPS_TRIED, sh_degree=0, **options)
    facts = Facts(Views([camera], _TRIED, 1.0), DeviceFacts.of(device, config))
    photo = np.full((camera.height, camera.width, 3), 128, np.uint8)
    photos = Photos(device, [photo], "gpu", 2 * config.run.batch_steps)
    session = None
    try:
        session = Session(device, decide(config, facts), photos, lambda batch: None)
        session.start(gaussians)
        session.run(_STEPS_TRIED)
        session.drain()
        splats = session.store.gaussians()
        _check("splats", (splats.means, splats.scales, splats.opacities, splats.sh))
    finally:
        if session:
            session.destroy()
    return [f"{option} {row}" for option, row in options.items()]


def _fitted(device: Device, rasterizer: str) -> list[str]:
    width, height = _TRIED
    photo = np.full((height, width, 3), 128, np.uint8)
    config = FitConfig(rasterizer=rasterizer, max_steps=_STEPS_TRIED)
    session = FitSession(device, config, photo, config.blobs_for(width * height))
    try:
        session.set(Blobs.scattered(8, photo.astype(np.float32) / 255, 0))
        for _ in range(_STEPS_TRIED):
            session.run(1)
        blobs, _ = session.get()
        _check("blobs", (blobs.planes, session.image()))
    finally:
        session.destroy()
    return [f"fit rasterizer {rasterizer}"]
