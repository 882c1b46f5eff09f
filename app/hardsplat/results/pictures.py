"""Pictures of held-out views as a run leaves them below renders/: renders and photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import short_name
from hardsplat.io.media.images import read_rgb8, save_png
from hardsplat.model.framing import spread

PARTS = ("render", "photo")  # of a held-out view
MOST_VIEWS = 8  # that a page shows


def comparison_name(view: str, part: str) -> str:
    """The path below renders/ of a view's picture. part: one of PARTS. No two views share one: the
    view's own path, extension and all, comes first, shortened where files cannot have it."""
    return f"{short_name(view)}.{part}.png"


def write_comparison(folder: Path, view: str, render: np.ndarray, photo: np.ndarray) -> None:
    """Writes both pictures of a view, (H, W, 3) float in 0..1 or uint8, below `folder`. Raises
    UserError where one cannot be written."""
    for part, image in zip(PARTS, (render, photo)):
        save_png(folder / comparison_name(view, part), image)


def comparison(folder: Path, view: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(render, photograph), (H, W, 3) uint8 each, as a run left them; None where one is missing or
    damaged, or they differ in size."""
    files = [folder / "renders" / comparison_name(view, part) for part in PARTS]
    try:
        render, photo = map(read_rgb8, files)
    except UserError:
        return None
    return (render, photo) if render.shape == photo.shape else None


def some_of(views: Sequence[str], most: int = MOST_VIEWS) -> list[str]:
    """All views, or so many of them, evenly spaced."""
    return [views[i] for i in spread(len(views), most)]
