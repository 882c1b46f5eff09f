"""Which variant of a registry a device runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device


class Variant(Protocol):
    """One entry of a registry in hardsplat.variants."""

    @property
    def needs(self) -> tuple[str, ...]: ...  # names of gpu/device/capabilities.py


V = TypeVar("V", bound=Variant)


def runnable(device: Device, registry: Mapping[str, Variant]) -> list[str]:
    """Names of the variants that the device runs, in the order of the registry."""
    return [
        name for name, variant in registry.items() if not device.capabilities.missing(variant.needs)
    ]


def resolve(device: Device, kind: str, registry: Mapping[str, V], wanted: str, flag: str) -> V:
    """The variant that was asked for, or for 'auto' the first that runs here. Raises UserError that
    says what is missing."""
    running = runnable(device, registry)
    if wanted == "auto":
        if not running:
            lacking = "; ".join(
                f"{name}: {', '.join(device.capabilities.missing(variant.needs))}"
                for name, variant in registry.items()
            )
            raise UserError(f"{device.name} can run no {kind} ({lacking}); see hardsplat doctor")
        return registry[running[0]]
    if wanted not in registry:
        raise UserError(
            f"{flag} {wanted}: there is no such {kind}; choose from {', '.join(registry)}"
        )
    if wanted not in running:
        missing = ", ".join(device.capabilities.missing(registry[wanted].needs))
        instead = f"use {flag} {running[0]}" if running else "no other runs here either"
        raise UserError(f"{flag} {wanted}: {device.name} lacks {missing}; {instead}")
    return registry[wanted]


def ahead(registry: Mapping[str, V], name: str) -> dict[str, V]:
    """The registry with one of its rows before the others."""
    return {name: registry[name], **registry}


def name_of(registry: Mapping[str, V], variant: V) -> str:
    """The name of a variant in its registry."""
    return next(name for name, each in registry.items() if each is variant)
