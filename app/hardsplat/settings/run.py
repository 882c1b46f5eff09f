"""Settings of the run itself: its length, its files, its devices, its blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsplat.settings.option import Owner, option, steps


@dataclass(frozen=True, kw_only=True)
class RunSettings(Owner):
    """run and results"""

    result_dir: Path | None = option(
        None,
        "folder for all that the run writes",
        shown="results/<scene name>",
        aka="model_path output_path export_path",
    )
    max_steps: int = steps(18_000, "most training steps", min=1, aka="iterations total_steps")
    early_stop: bool = option(
        True,
        "end the main phase once held-back photographs stop improving, and add splats sooner for "
        "that, unless --max-steps or a step of a schedule is named",
    )
    eval_steps: tuple[int, ...] = option(
        (7_000, 30_000),
        "steps after which held-out views are measured; always also the last",
        unit="steps",
        min=1,
        aka="test_iterations",
    )
    save_steps: tuple[int, ...] = option(
        (7_000, 30_000),
        "steps after which a PLY is saved; always also the last",
        unit="steps",
        min=1,
        aka="save_iterations ply_steps export_every",
    )
    checkpoint_every: int = steps(
        5_000,
        "steps between checkpoints; 0: only at the end or when interrupted",
        aka="checkpoint_iterations",
    )
    resume: bool = option(
        False,
        "continue from the newest checkpoint in the result folder, with the settings saved there",
    )
    ckpt: Path | None = option(
        None, "continue from this checkpoint", shown="none", aka="start_checkpoint checkpoint"
    )
    log: str = option(
        "jsonl",
        "what other programs can follow in the result folder: metrics.jsonl, metrics.csv, or the "
        "folder tensorboard, which also has pictures",
        choices=("none", "jsonl", "csv", "tensorboard"),
        aka="logger tb_every",
    )
    seed: int = option(42, "seed of view order, random start and splits")
    quiet: bool = option(False, "no progress bar", aka="disable_progress")
    verbose: bool = option(False, "print each decision of the run with its reason, and phases")
    profile: bool = option(False, "report GPU milliseconds of every stage")
    device: str | None = option(
        None,
        "Vulkan device, by index or part of its name (also HARDSPLAT_DEVICE)",
        shown="chosen automatically",
    )
    images: str = option(
        "auto",
        "keep photographs on the GPU, in host memory from where each step fetches one, or stream "
        "them; auto: host on GPUs with memory of their own, else by memory",
        choices=("auto", "gpu", "host", "stream"),
        aka="data_device",
    )
    packed: bool = option(
        False,
        "steps draw a copy of the splats that they see, and Adam moves these alone: faster and "
        "smaller where views show few of them (gsplat)",
    )
    out_of_core: str = option(
        "auto",
        "packed, with the higher colour bands and their moments in host memory; auto: packed, or "
        "so, where the planned splats do not fit the device",
        choices=("auto", "on", "off"),
    )
    batch_steps: int = steps(50, "steps per submission to the GPU", min=1)
    deterministic: bool = option(
        False, "runs of one seed on one device leave the same bits: tiled, gradients gathered"
    )


@dataclass(frozen=True, kw_only=True)
class BlockSettings(Owner):
    """blocks of a large scene"""

    flag, values = "blocks", ("auto",)
    blocks: str | None = option(
        None,
        "train blocks on all devices, and join them: auto (as many as fit), a number, or 2x3",
        shown="none",
    )
    block_devices: str | None = option(
        None, "devices that train blocks, by index or part of the name, with commas", shown="all"
    )
    cluster: str | None = option(
        None,
        "train blocks on this Dask cluster, whose workers see the same files: tcp://HOST:PORT, or "
        "its scheduler's file",
        shown="this machine",
        aka="scheduler_file",
    )
    polish_steps: int = option(
        1_500,
        "most steps over all photographs after blocks are joined, if they fit one device; 0: none",
        unit="steps",
    )

    @classmethod
    def chosen(cls, settings: Mapping[str, Any]) -> bool:
        return settings["blocks"] is not None
