"""Which variant of a registry a device runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.settings.option import flag as flag_of


class Variant(Protocol):
    """One entry of a registry in hardsplat.tables."""

    @property
    def needs(self) -> tuple[str, ...]: ...  # names of gpu/device/capabilities.py


V = TypeVar("V", bound=Variant)


# Contributing lanes of 32 from which a subgroup's sum replaces atomics, as `auto` times them.
THRESHOLDS = (1, 4, 8, 16, 24)


def threshold_of(device: Device, lanes_of_32: int) -> int:
    """Lanes of this device's subgroups, of which they are the same share."""
    return max(1, lanes_of_32 * device.subgroup_size // 32)


def thresholds(device: Device, first: int) -> list[int]:
    """THRESHOLDS that differ on this device; `first` stays where others are the same."""
    different = {threshold_of(device, n): n for n in (*THRESHOLDS, first)}
    return sorted(different.values())


def runnable(device: Device, registry: Mapping[str, Variant], option: str = "") -> list[str]:
    """Names of the variants that the device runs, in the order of the registry. option: that names
    them; its rows whose pipelines the driver does not survive are left out, see
    hardsplat.gpu.crashes."""
    return [name for name, row in registry.items() if not lacking(device, row, f"{option} {name}")]


def lacking(device: Device, row: Variant, variant: str) -> list[str]:
    """What a device lacks for a row, in words. variant: its option and name."""
    missing = device.capabilities.missing(row.needs)
    died = device.killed.get(variant)
    return [*missing, died] if died else missing


def resolve(
    device: Device, kind: str, registry: Mapping[str, Variant], name: str, option: str
) -> str:
    """The name itself, or for 'auto' the first variant's that runs here. Raises UserError that says
    what is missing."""
    flag = flag_of(option)
    running = runnable(device, registry, option)
    missing = {n: ", ".join(lacking(device, v, f"{option} {n}")) for n, v in registry.items()}
    if name == "auto":
        if not running:
            why = "; ".join(f"{n}: {words}" for n, words in missing.items())
            raise UserError(f"{device.name} can run no {kind} ({why}); see hardsplat doctor")
        return running[0]
    if name not in registry:
        known = ", ".join(registry)
        raise UserError(f"{flag} {name}: there is no such {kind}; choose from {known}")
    if name not in running:
        instead = f"use {flag} {running[0]}" if running else "no other runs here either"
        raise UserError(f"{flag} {name}: {device.name} lacks {missing[name]}; {instead}")
    return name


def ahead(registry: Mapping[str, V], name: str) -> dict[str, V]:
    """The registry with one of its rows before the others."""
    return {name: registry[name], **registry}
