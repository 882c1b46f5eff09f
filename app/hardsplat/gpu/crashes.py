"""Variants whose pipelines end the process that builds them, on a device with its driver.

`hardsplat doctor` finds them (app/hardsplat/study/pipelines.py) and keeps them on disk. Devices
that are opened afterwards do without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hardsplat.gpu.device import cache
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.instance import PhysicalDevice


def path_of(physical: PhysicalDevice) -> Path:
    return cache.cache_file("crashes", physical.name, physical.driver)


def load(physical: PhysicalDevice) -> dict[str, str]:
    """Variant -> the pipeline that is not survived. A variant is a capability, or an option and
    its row: `reduction hybrid`."""
    return cache.remembered(path_of(physical), "killed") or {}


def save(physical: PhysicalDevice, killed: Mapping[str, str]) -> None:
    """Replaces what is kept. Without any, there is no file."""
    if killed:
        cache.remember(path_of(physical), physical, killed=dict(killed))
    else:
        with suppress(OSError):  # a read-only home
            path_of(physical).unlink(missing_ok=True)


def withdraw(device: Device, killed: Mapping[str, str]) -> None:
    """Takes these variants from a device: capabilities, and rows of options."""
    for variant, pipeline in killed.items():
        why = f"a driver that survives building {pipeline}"
        device.killed[variant] = why
        if variant in device.capabilities:
            device.capabilities.withdraw(variant, why)
