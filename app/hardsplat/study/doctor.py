"""`hardsplat doctor`: Vulkan devices, features of the chosen one, variants that run on it."""

from __future__ import annotations

import math
import os
import textwrap
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

from hardsplat.base.errors import UserError
from hardsplat.contract.footprint import (
    SHOWN,
    Need,
    averages,
    bytes_per_splat,
    host_bytes,
    most_splats,
    packed,
)
from hardsplat.gpu.device import drivers
from hardsplat.settings.train import TrainConfig
from hardsplat.study.variants import REGISTRIES, option_of
from hardsplat.tables.hardware import ORDERINGS

if TYPE_CHECKING:
    from hardsplat.gpu.device.context import Device
    from hardsplat.study.pipelines import Survey

# without any of these the default rasterizer still runs
_OPTIONAL = ("backward pass of tiles", "image fits")
_SHOWN = 4  # choices of `auto`


def report(device: str | int | None = None, pipelines: bool = False) -> tuple[str, int]:
    """The text to print, and the exit code: 0 the device can run hardsplat, 1 it cannot, 2 there is
    no such device, or none. pipelines: all variants are run, in a process that may end."""
    tools = _tools()
    with ExitStack() as stack:
        try:
            from hardsplat.gpu.device import instance, usage  # fails without a Vulkan loader

            usage.memory_limit()  # whether it can be read
            opened = stack.enter_context(instance.Instance(instance.validation_wanted()))
            devices = opened.physical_devices()
            wanted = os.environ.get("HARDSPLAT_DEVICE") if device is None else str(device)
            chosen = instance.choose(devices, wanted)
        except UserError as error:
            why = str(error).removesuffix(f"; {drivers.explain()}")  # that stands above
            return "\n".join([f"not ready: {why}", "", *tools]), 2
        verdict, about, code = _about(devices.index(chosen), chosen, pipelines)
    validation = "not installed (only developers need it)"
    if instance.validation_layer():
        how = "HARDSPLAT_VALIDATION=1 turns it on, =sync looks for missing barriers too"
        validation = f"installed ({how})"
    title = "devices (choose with --device INDEX or part of the name)"
    lines = [*tools, f"validation layer  {validation}", "", title]
    for i, d in enumerate(devices):
        mark, (major, minor, *_) = "*" if d is chosen else " ", d.api_version
        lines.append(f"{mark} {i}  {d.name}  [{d.kind}]  Vulkan {major}.{minor}  {d.driver}")
    return "\n".join([verdict, "", *lines, "", *about]), code


def _tools() -> list[str]:
    """The compiler, its modules, manifests of drivers, and why the library of one does not load."""
    from hardsplat.gpu.device import cache
    from hardsplat.gpu.passes import shader

    try:
        compiler = shader.compiler()
    except UserError as error:
        compiler = str(error)
    shipped = f"shipped in {shader.SPIRV}"
    if not shader.SPIRV.is_dir():
        shipped = f"compiled on first use into {cache.cache_dir()}"
    manifests = [f"driver manifest   {driver}" for driver in drivers.drivers()]
    manifests = manifests or [f"drivers           {drivers.explain()}"]
    return [f"shader compiler   {compiler}", f"shaders           {shipped}", *manifests]


def _about(index: int, physical, pipelines: bool) -> tuple[str, list[str], int]:
    """The chosen device: verdict; features, limits, probe, pipelines, variants; exit code."""
    from hardsplat.gpu import crashes
    from hardsplat.gpu.device import capabilities, features
    from hardsplat.gpu.device.context import Device
    from hardsplat.study.pipelines import survey as run_all

    found = capabilities.query(physical.handle)
    lines, name = _features(found), physical.name
    if missing := found.missing(features.REQUIRED):
        remedy = "update its driver or choose another --device"
        return f"not ready: {name} lacks {', '.join(missing)}; {remedy}", lines, 1
    with ExitStack() as stack:
        try:
            survey = None
            if pipelines:
                survey = run_all(index)
                crashes.save(physical, survey.killed)  # for other runs
            device = stack.enter_context(closing(Device(index)))
            probed = _probe(device)
        except UserError as error:
            return f"not ready: {error}", lines, 1
        table, lacking = _variants(device, survey)
        lines += [f"  probe     {probed}", *_pipelines(survey), "", *_limits(device), "", *table]
        lines += _auto(device)
        verdict, code = _verdict(device, lacking, survey)
    return verdict, lines, code


def _verdict(device: Device, lacking: list[str], survey: Survey | None) -> tuple[str, int]:
    """The first line and the exit code. lacking: registries of which no row runs."""
    from hardsplat.raster.backends import BACKENDS

    if lacking:
        return f"not ready: {device.name} can run no {' and no '.join(lacking)}", 1
    if missing := device.capabilities.missing(("shared_memory",)):
        return f"ready to draw, not to train: {device.name} lacks {', '.join(missing)}", 0
    config, names = TrainConfig(), []
    for name, backend in BACKENDS.items():
        with suppress(UserError):
            backend.first_runnable(device, backend.options.of(config.raster, config.gradient))
            names.append(name)
    if survey:
        names = [name for name in names if f"rasterizer {name}" in survey.ran]
    if not names:
        return f"not ready: {device.name} draws with no rasterizer, see below", 1
    both = " (auto: the faster one on your scene)" if names[1:] else ""
    return f"ready: {device.name}, rasterizer {' or '.join(names)}{both}", 0


def _features(found) -> list[str]:
    missing = [(n, why) for n, why in sorted(found.why_not.items()) if n != "portability_subset"]
    lines = ["features", f"  found     {', '.join(sorted(found.names))}"]
    return lines + [f"  missing   {name}: {why}" for name, why in missing]


def _probe(device) -> str:
    from hardsplat.gpu import probe

    if not probe.probed():
        return "skipped (HARDSPLAT_PROBE=0)"
    failures = probe.probe(device)
    if failures:
        return "; ".join(f"{name} withdrawn, it lacks {why}" for name, why in failures.items())
    checked = [name for name in probe.CHECKED if name in device.capabilities]
    return f"{', '.join(checked)} work as offered" if checked else "nothing to check"


def _pipelines(survey: Survey | None) -> list[str]:
    if survey is None:
        return ["  pipelines none built, no variant tried"]
    ends = [f"{variant}: {pipeline}" for variant, pipeline in survey.killed.items()]
    lines = [
        f"  pipelines {survey.built} built and {len(survey.ran)} variants run, in another process"
    ]
    return lines + [f"            the driver ends the process that builds {end}" for end in ends]


def _limits(device) -> list[str]:
    from hardsplat.raster.backends import BACKENDS, training_needs
    from hardsplat.raster.core.sinks import moments_of

    degree, moments = TrainConfig.of().model.sh_degree, moments_of(device, "auto")
    known: dict = dict(sh_degree=degree, moments=moments, statistics=("score_stats",))
    each = {f"with --rasterizer {name}": training_needs(name, **known) for name in BACKENDS}
    tiled, most = each["with --rasterizer tiled"], f"where views show at most {SHOWN:.0%} of them"
    more = {
        f"with --packed, {most}": packed(tiled, SHOWN, out_of_core=False),
        f"with --out-of-core on, {most}": packed(tiled, SHOWN, out_of_core=True),
    }
    own = bytes_per_splat(tiled) * 1e6 / 2**20
    averaged = bytes_per_splat(averages(degree)) * 1e6 / 2**20
    memory = f"{device.memory_bytes / 2**30:.1f} GiB"
    memory += " by HARDSPLAT_MEMORY" * bool(device.memory_limit)
    if budget := device.memory_budget():
        memory += f", {budget.free / 2**30:.1f} of it free"
    return [
        "limits",
        f"  memory          {memory}",
        f"  largest buffer  {device.max_buffer / 2**20:.0f} MiB",
        f"  largest image   {device.max_image} px a side",
        f"  subgroup size   {device.subgroup_size}",
        f"  timestamps      {'yes' if device.timestamp_ns else 'no: stages are not timed'}",
        "  splats          in training, beside the photographs, about",
        *(f"{'':18}{_fitting(device, way, needs)}" for way, needs in (each | more).items()),
        f"  a million       takes {own:.0f} MiB in training with --rasterizer tiled, and of the "
        f"host's {host_bytes(tiled) * 1e6 / 2**20:.0f} out of core, {averaged:.0f} while the last "
        "steps are averaged",
    ]


def _fitting(device, way: str, each: dict[str, Need]) -> str:
    """The number of splats that fit, and what bounds it."""
    splats, by_buffer = (
        most_splats(each, memory, device.max_buffer, device.max_allocation)
        for memory in (device.memory_bytes, math.inf)
    )
    bound = "memory" if splats < by_buffer else "the largest buffer"
    size = f"{bytes_per_splat(each):.0f} bytes a splat"
    return f"{splats / 1e6:.2f} million {way}; {size}, bound by {bound}"


def _auto(device) -> list[str]:
    """The newest choices of `auto` on this device, by the options that it was given."""
    from hardsplat.raster.core import choose

    if not choose.timing_enabled():
        return ["auto", "  takes the first that runs (HARDSPLAT_AUTO=first)"]
    out = []
    remembered = choose.remembered(device).items()
    newest = sorted(remembered, key=lambda item: item[1]["date"], reverse=True)
    for given, found in newest[:_SHOWN]:
        out.append(f"  for {textwrap.shorten(given, 80)}, timed {found['date']}")
        out += [f"    {line}" for line in choose.lines(found)]
    first = "  times the variants that run when it is first asked, and remembers the fastest"
    return ["auto", *(out or [first])]


def _variants(device: Device, survey: Survey | None) -> tuple[list[str], list[str]]:
    """The table of all registry rows, and the registries of which none runs."""
    from hardsplat.raster.core.resolve import runnable as runnable_of

    lines, lacking = ["variants"], []
    width = max(len(name) for _, _, rows in REGISTRIES for name in rows)
    for title, flag, rows in REGISTRIES:
        runnable = runnable_of(device, rows, option_of(flag or ""))
        if not runnable and title not in _OPTIONAL:
            lacking.append(title)
        lines.append(f"  {title}{f' ({flag})' if flag else ''}")
        option = (flag or title).replace("--", "").replace("-", "_")  # as its process names it
        cells = {name: _row(device, name, rows, flag, runnable) for name in rows}
        cells |= {
            n: _tried(f"{option} {n}", rows[n].note, survey) for n, c in cells.items() if not c
        }
        lines += [f"    {name:{width}}  {cell}" for name, cell in cells.items()]
    return lines, lacking


def _tried(variant: str, note: str, survey: Survey | None) -> str:
    """The cell of a row that lacks nothing."""
    if survey and variant in survey.failed:
        return f"fails: {survey.failed[variant]}"
    ran = survey and variant in survey.ran
    return f"{'runs' if ran else 'should run (not tried)':12}  {note}"


def _row(device, name: str, rows, flag: str | None, runnable: list[str]) -> str:
    """Why a row does not run, or not with all; "" where nothing is missing."""
    from hardsplat.raster.core.resolve import lacking

    row, capabilities = rows[name], device.capabilities
    if missing := lacking(device, row, f"{option_of(flag or '')} {name}"):
        instead = "nothing stands in for it here"
        if runnable:
            instead = f"use {flag} {runnable[0]}" if flag else f"{runnable[0]} is used"
        return f"does not run: lacks {', '.join(dict.fromkeys(missing))}; {instead}"
    unordered = all(each.listed or capabilities.missing(each.needs) for each in ORDERINGS.values())
    if getattr(row, "ordered", False) and not row.listed and unordered:
        other = f"{flag} {next(n for n, r in rows.items() if not r.ordered)}"
        why = "no fragment waits for another here, see --ordering"
        return f"does not run: {why}; use {other}"
    if missing := capabilities.missing(getattr(row, "blend_needs", ())):
        return f"runs with --blending programmable only: lacks {', '.join(missing)}"
    return ""
