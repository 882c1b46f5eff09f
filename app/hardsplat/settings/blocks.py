"""Settings of scenes that are trained in blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardsplat.settings.option import option
from hardsplat.settings.owner import Owner


@dataclass(frozen=True, kw_only=True)
class BlockSettings(Owner):
    """blocks of a large scene"""

    flag, values = "blocks", ("auto",)
    blocks: str | None = option(
        None,
        "train the scene in blocks on all devices, and join them: auto (as many as fit), a number, "
        "or 2x3",
        shown="none",
    )
    block_devices: str | None = option(
        None,
        "devices that train blocks, by index or part of the name, separated by commas",
        shown="all",
    )
    cluster: str | None = option(
        None,
        "train blocks on this Dask cluster, whose workers see the same files: tcp://HOST:PORT, or "
        "the file that its scheduler wrote",
        shown="this machine",
        aka="scheduler_file",
    )
    polish_steps: int = option(
        1_500,
        "steps over all photographs after blocks are joined, where they fit one device, at most "
        "those of the training; 0: none",
        unit="steps",
    )

    @classmethod
    def chosen(cls, settings: Mapping[str, Any]) -> bool:
        return settings["blocks"] is not None
