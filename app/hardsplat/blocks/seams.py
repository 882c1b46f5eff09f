"""How held-out views that look across a border between blocks compare with the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.blocks.assign import shares
from hardsplat.blocks.plan import BlockPlan
from hardsplat.export.contribution import SeenSplats
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import load_splats

MOSTLY = 0.9  # share of what a view shows, above which it looks into one block alone


def at_seams(
    plan: BlockPlan,
    scene: Scene,
    scaffold: Path,
    views: Sequence[dict],
    near: float,
    device: str | None,
) -> dict[str, float | int | None]:
    """Mean PSNR, dB, of held-out views that look across a border and of those that do not, and how
    many there are.

    scaffold: file of its splats. views: of eval.json, in the order of the scene's held-out views.
    near: plane before which splats are not drawn, world units.
    """
    splats = load_splats(scaffold)
    cameras = [view.camera for view in scene.held_out]
    weights = SeenSplats(splats, cameras, near, device).weights()
    share = shares([block.box for block in plan.blocks], plan.places(splats.means), weights)
    across = share.max(axis=1) < MOSTLY
    psnr = np.array([view["psnr"] for view in views])

    def mean(chosen: np.ndarray) -> float | None:
        return float(psnr[chosen].mean()) if chosen.any() else None

    return {
        "across": int(across.sum()),
        "psnr_across": mean(across),
        "within": int((~across).sum()),
        "psnr_within": mean(~across),
    }
