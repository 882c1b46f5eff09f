"""Pictures of results for documents: held-out renders beside their photographs, of one result or
of several.

python -m tools.pictures results/courtyard out/courtyard.jpg --views 2 --scale 3
python -m tools.pictures results/pebble_mesh docs/images/pebble.jpg --views 4 --scale 2 --columns 2
python -m tools.pictures results/one results/blocks docs/images/seams.jpg --differences 8
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.base.errors import UserError
from hardsplat.results.pictures import PARTS, comparison, some_of, view_of


def compared(folders: list[Path], views: int, louder: int = 0) -> list[np.ndarray]:
    """(H, W, 3) uint8 of each view: its render in each folder, and right of them its photograph.
    louder: below each render is its largest difference of a channel, so many times; 0 for none.
    Raises UserError where a folder has no such pictures."""
    first = folders[0] / "renders"
    paths = [p.relative_to(first).as_posix() for p in sorted(first.rglob(f"*.{PARTS[0]}.png"))]
    found = []
    for name in some_of([view_of(path)[0] for path in paths], views):
        both = [pair for folder in folders if (pair := comparison(folder, name))]
        if len(both) == len(folders):
            renders, photo = [render for render, _ in both], both[0][1]
            found.append(np.concatenate([*renders, photo], axis=1))
            if louder:
                apart = [abs(r.astype(int) - photo).max(2, keepdims=True) for r in renders]
                dark = [np.minimum(louder * a, 255) * np.ones(3) for a in apart]
                row = np.concatenate([*dark, np.full(photo.shape, 255)], axis=1)
                found[-1] = np.concatenate([found[-1], row.astype(np.uint8)])
    if not found:
        raise UserError(f"{folders[0]}: has no renders with their photographs")
    return found


def together(wide: list[np.ndarray], scale: int, columns: int) -> np.ndarray:
    """(H, W, 3) uint8: pictures of one size, `columns` in a row."""
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
    parser.add_argument(
        "folders", type=Path, nargs="+", help="result folders of hardsplat train, eval or fit-mesh"
    )
    parser.add_argument("out", type=Path, help="the picture")
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--scale", type=int, default=1, help="times larger")
    parser.add_argument("--differences", type=int, default=0, help="below renders, times so many")
    parser.add_argument("--columns", type=int, default=1, help="pairs in a row")
    flags = parser.parse_args()
    found = compared(flags.folders, flags.views, flags.differences)
    Image.fromarray(together(found, flags.scale, flags.columns)).save(flags.out, quality=90)


if __name__ == "__main__":
    main()
