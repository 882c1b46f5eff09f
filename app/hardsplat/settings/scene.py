"""Settings of the scene, and of the first splats."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsplat.settings.option import Owner, option
from hardsplat.tables.layouts import A_SCENE


@dataclass(frozen=True, kw_only=True)
class SceneSettings(Owner):
    """scene"""

    data_dir: Path | None = option(
        None, f"the scene: {A_SCENE}", shown="SCENE", aka="source_path source"
    )
    data_factor: int = option(
        1,
        "train on images this many times smaller (MipNeRF-360: 4 outdoors, 2 indoors)",
        min=1,
        aka="resolution",
    )
    test_every: int = option(
        8,
        "hold out every N-th image by file name, where the scene has no test split; 0: none",
        aka="llffhold eval_split_every",
    )
    exclude: tuple[str, ...] = option(
        (), "photographs left out, by name or pattern (IMG_01*)", shown="none"
    )
    region: tuple[float, ...] = option(
        (),
        "train this place in detail and the rest coarsely: a box x0,y0,z0,x1,y1,z1 or a sphere "
        "x,y,z,radius",
        unit="world units",
        shown="everywhere",
        min=-1e30,
        max=1e30,
    )
    background: str = option(
        "black",
        "behind the splats; sphere: a sky that is optimized",
        choices=("black", "white", "random", "sphere"),
        aka="white_background random_background random_bkgd",
    )
    mask_mode: str = option(
        "ignore",
        "pixels that masks leave out: ignore: no loss; transparent: they show the background; "
        "opacity: nothing may stand there, which takes --background random",
        choices=("ignore", "transparent", "opacity"),
    )
    near_plane: float = option(
        0.01,
        "splats nearer to the camera are skipped (the original 3DGS: 0.2); less in scenes of small "
        "units, unless it is named",
        unit="world units",
        min=1e-12,
    )
    undistort: bool = option(
        True,
        "undistort photographs on load; otherwise splats are drawn as lenses see them, which keeps "
        "the edges of wide photographs",
    )

    @property
    def reading(self) -> dict[str, Any]:
        """How load_scene reads the scene, but for `undistort`."""
        names = "data_factor", "test_every", "mask_mode", "exclude"
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class StartSettings(Owner):
    """first splats"""

    init: Path | None = option(
        None, "start from these splats: a result folder, or a file that is read", shown="none"
    )
    init_type: str = option(
        "sfm", "start from the scene's points, if any, or random ones", choices=("sfm", "random")
    )
    init_num_pts: int = option(100_000, "splats of a random start", unit="splats", min=1)
    init_extent: float | None = option(
        None,
        "half the side of the cube of random splats, around the origin",
        unit="world units",
        min=1e-6,
        shown="by the cameras, around what they show",
    )
    init_opa: float = option(0.1, "opacity of a new splat", min=0.001, max=0.999)
    init_scale: float = option(
        1.0, "size of a new splat over the distance to its neighbours", min=1e-6
    )
