"""A plan from above, and how held-out views that look across a border compare with the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.files import replacing
from hardsplat.blocks.plan import BlockPlan
from hardsplat.blocks.planner import shares
from hardsplat.export.contribution import SeenSplats
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.splats import load_splats
from hardsplat.model.region import OPEN

PICTURE = "plan.png"
DOTS = 50_000  # splats that are drawn
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


def draw_plan(plan: BlockPlan, means: np.ndarray, positions: np.ndarray, path: Path) -> None:
    """Writes a PNG. means: (N, 3) of the scaffold's splats. positions: (V, 3) of the cameras."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    places = plan.places(means[:: max(1, len(means) // DOTS)])
    cameras = plan.places(positions)
    low, high = np.quantile(np.concatenate([places, cameras]), [0.01, 0.99], axis=0)
    low, high = np.minimum(low, cameras.min(axis=0)), np.maximum(high, cameras.max(axis=0))
    margin = 0.03 * (high - low)
    low, high = low - margin, high + margin
    figure = Figure(figsize=(8, 8), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.plot(*places.T, ",", color="0.6", rasterized=True)
    axes.plot(*cameras.T, ".", color="tab:red", markersize=4, label=f"{len(cameras)} photographs")
    for number, block in enumerate(plan.blocks):
        corner = np.where(np.array(block.box.low) > -OPEN, block.box.low, low)
        far = np.where(np.array(block.box.high) < OPEN, block.box.high, high)
        color = f"C{number % 10}"
        (x, y), (width, height) = corner, far - corner
        axes.add_patch(Rectangle((x, y), width, height, alpha=0.12, color=color))
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=color))
        text = f"{block.name}\n{len(block.photographs)} photographs\n{block.cap:,} splats"
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)
    axes.set(xlabel="world units", ylabel="world units", title="blocks from above")
    axes.legend(loc="upper right")
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)
