"""Pictures of results for documents: held-out renders beside their photographs.

python -m tools.pictures results/courtyard docs/images/courtyard.jpg --views 2 --scale 3
python -m tools.pictures results/pebble_mesh docs/images/pebble.jpg --views 4 --scale 2 --columns 2
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.report.page import PARTS, comparison, spread, view_of


def pairs(folder: Path, views: int, scale: int, columns: int) -> np.ndarray:
    """(H, W, 3) uint8: renders left of their photographs, `columns` pairs in a row. Raises
    UserError where the folder has no such pictures."""
    paths = [
        path.relative_to(folder / "renders").as_posix()
        for path in sorted((folder / "renders").rglob(f"*.{PARTS[0]}.png"))
    ]
    found = [
        both
        for name in spread([view_of(path)[0] for path in paths], views)
        if (both := comparison(folder, name))
    ]
    if not found:
        raise UserError(f"{folder}: has no renders with their photographs")
    wide = [np.concatenate(both, axis=1) for both in found]
    rows = [
        np.concatenate(wide[i : i + columns], axis=1)
        for i in range(0, len(wide) - len(wide) % columns, columns)
    ]
    whole = Image.fromarray(np.concatenate(rows))
    return np.asarray(
        whole.resize((scale * whole.width, scale * whole.height), Image.Resampling.BICUBIC)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="result folder of train, eval or fit-mesh")
    parser.add_argument("out", type=Path, help="the picture")
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--scale", type=int, default=1, help="times larger")
    parser.add_argument("--columns", type=int, default=1, help="pairs in a row")
    flags = parser.parse_args()
    Image.fromarray(pairs(flags.folder, flags.views, flags.scale, flags.columns)).save(
        flags.out, quality=90
    )


if __name__ == "__main__":
    main()
