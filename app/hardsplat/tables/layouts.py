"""How cameras and photographs may lie in the folder of a scene. A layout is a row here, and the
module of its name in hardsplat/io/scenes, which has `read(root, data_factor)`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """has: what a folder of this layout has, in words. cameras: files, or folders with a slash
    behind, of which one at least is there."""

    has: str
    cameras: tuple[str, ...]

    def lies_in(self, folder: Path) -> bool:
        folders = (folder / name for name in self.cameras if name.endswith("/"))
        files = (folder / name for name in self.cameras if not name.endswith("/"))
        return any(path.is_dir() for path in folders) or any(path.is_file() for path in files)


# of a folder with several the first is read
LAYOUTS = {
    "colmap": Layout("images/ and sparse/0/", ("sparse/",)),
    "transforms": Layout("transforms.json", ("transforms.json", "transforms_train.json")),
}
A_SCENE = f"a folder with {', or with '.join(row.has for row in LAYOUTS.values())}"


def layouts_of(folder: Path) -> list[str]:
    """Names of the layouts that a folder has; none where it is no scene with cameras."""
    return [name for name, row in LAYOUTS.items() if row.lies_in(folder)]
