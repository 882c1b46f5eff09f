"""A picture of a plan from above: blocks, cameras and splats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardsplat.base.files import replacing
from hardsplat.blocks.plan import BlockPlan
from hardsplat.model.region import OPEN

NAME = "plan.png"
DOTS = 50_000  # splats that are drawn


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
