"""The scaffold: a coarse training of the whole scene. It decides and finds what all blocks share:
exposures, poses, intrinsics, and whether opacities are regularized. A block that moved its own
cameras would drift from its neighbours."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import json_of
from hardsplat.io.formats.checkpoint import newest
from hardsplat.io.formats.npz import arrays_of
from hardsplat.io.scenes.poses import FOLDER as POSES
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.model.region import Region
from hardsplat.settings.presets import SAVED_NAME, config_from_file, of_length
from hardsplat.settings.train import TrainConfig, scene_folder
from hardsplat.tables import quantities
from hardsplat.train import EXPOSURES_FILE, INTRINSICS_FILE, ScenePart, focused_scene, moved

STEPS, SPLATS = 7_000, (20_000, 2_000_000)
EPOCHS = 10  # that photographs train it at least, since it solves what differs in them
SHARE = 3  # of the splats of the whole scene, one in so many
SMALLEST_SIDE = 400  # px of photographs that are not made smaller
CAMERAS = ("turn", "shift", "intrinsics")  # what it found of them becomes the scene's


def train_scaffold(
    config: TrainConfig, scene: Scene, folder: Path, steps: int, budget: int
) -> None:
    """Trains the whole scene coarsely, unless that was done. folder: its run folder. steps, budget:
    of a training in one piece."""
    if (folder / "metrics.json").is_file():
        return
    smallest = min(min(v.camera.width, v.camera.height) for v in scene.views)
    factor = 2 if smallest >= 2 * SMALLEST_SIDE else 1
    steps = min(max(STEPS, EPOCHS * len(scene.train)), steps)
    most = int(np.clip(budget // SHARE, *SPLATS))
    own: dict = dict(result_dir=folder, resume=(folder / "ckpts").is_dir(), blocks=None)
    own |= dict(data_factor=factor * config.scene.data_factor, cap_max=min(budget, most))
    own |= dict(sh_degree=min(1, config.model.sh_degree), early_stop=False)
    own |= dict(save_steps=(steps,), eval_steps=(steps,), exposure_until=1.0)
    from hardsplat.train import PhotographLoader, run_training  # which blocks import later

    # its factor is not the user's, to whom that of the whole scene was said
    typed = config.typed | {"data_factor"}
    settings = replace(of_length(config, steps).changed(**own), typed=typed)
    s = settings.scene
    coarse = load_scene(scene_folder(s.data_dir), undistort=s.undistort, **s.reading)
    n, most = len(coarse.points), settings.densify.cap_max
    if n > most:  # as evenly as the points of a model come
        kept = np.linspace(0, n - 1, most).astype(np.int64)
        coarse = replace(coarse, points=coarse.points[kept], colors=coarse.colors[kept])
    run_training(settings, photographs=PhotographLoader(coarse), followed=True)


@dataclass(frozen=True)
class Scaffold:
    """folder: of the scaffold. config: its settings, with the exposures that `auto` found.
    opacity_decay: how fast its opacities decayed in the end, 0 where it did not overfit.
    step_seconds: of a step, in the mean. found: (planes, items, width) by quantity of photographs
    and cameras."""

    folder: Path
    config: TrainConfig
    opacity_decay: float
    step_seconds: float
    found: Mapping[str, np.ndarray]

    @property
    def splats(self) -> Path:
        """The file of its splats."""
        return self.folder / "splats.ply"

    @classmethod
    def of(cls, folder: Path) -> Scaffold:
        """What a scaffold left in its folder. Raises UserError where that is missing or damaged."""
        try:
            table = json_of((folder / "metrics.json").read_text(encoding="utf-8"))
            config = config_from_file(folder / SAVED_NAME)
            flat, found = config.flat(), dict[str, np.ndarray]()
            own = [q for kind in quantities.ORDER[1:] for q in quantities.chosen(kind, flat)]
            if own:
                with arrays_of(newest(folder) or folder / "ckpts") as data:
                    found = {q.name: data[q.name] for q in own}
            looks = table["validation"]["looks"]
            decay = max(looks[-1]["decay"] if looks else 0.0, config.adam.opacity_decay)
            seconds = table["seconds"]["training"] / max(table["steps"], 1)
            return cls(folder, config, decay, seconds, found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{folder}: not a scaffold that is trained ({reason(error)})"
            raise UserError(f"{what}; delete it to train it again") from None

    def settings(self, given: TrainConfig, ends: bool = False) -> TrainConfig:
        """`given` as blocks have it: cameras are refined already, and the near plane is that which
        the whole scene chose, unless the user named one. ends: as a polish has it, which is without
        exposures where blocks end without them."""
        lit = given.exposure.exposure == "auto" and self.config.exposure.corrected
        until = 1.0 if lit else given.exposure.exposure_until  # as auto decides
        exposure = self.config.exposure.exposure if self.config.exposure.corrected else "none"
        if ends and until < 1:
            exposure = "none"
        own: dict[str, Any] = {"exposure": exposure, "exposure_until": until}
        if not (given.loss.opacity_reg or given.adam.opacity_decay):
            own["opacity_decay"] = self.opacity_decay
        if not given.names_near_plane:
            own["near_plane"] = self.config.scene.near_plane
        return given.changed(pose_opt=False, intrinsics_opt=False, **own)

    def decided(self, given: TrainConfig) -> dict[str, Any]:
        """The settings, by name, that it decides in the place of `given` for all blocks."""
        settings = self.settings(given).flat()
        return {name: settings[name] for name in ("exposure", "exposure_until", "near_plane")}

    def scene(self, scene: Scene) -> Scene:
        """The scene with the cameras that the scaffold found. Raises UserError where those are of
        other photographs."""
        if "intrinsics" in self.found:
            scene = focused_scene(scene, self.found["intrinsics"][0])
        cameras = [scene.views[i].camera for i in scene.train]
        known = {v.shape[1] for n, v in self.found.items() if _of_photographs(n)}
        if known - {len(cameras)}:
            what = f"{self.folder} knows {known.pop()} training photographs"
            raise UserError(f"{what}, {scene.name} has {len(cameras)}: delete it to train it again")
        if "turn" in self.found:
            views = list(scene.views)
            for i, camera in zip(scene.train, moved(cameras, self.found)):
                views[i] = replace(views[i], camera=camera)
            scene = replace(scene, views=views)
        return scene

    def part(self, scene: Scene, photographs: Collection[str], region: Region | None) -> ScenePart:
        """What a run on some of the scene's training photographs, by name, is given. region: where
        its splats may grow."""
        views = [scene.views[i] for i in scene.train]
        mine = [i for i, view in enumerate(views) if view.name in photographs]
        cameras = 1 + max(views[i].number for i in mine)
        own = {n: v for n, v in self.found.items() if n not in CAMERAS}
        rows = {n: v[:, mine] if _of_photographs(n) else v[:, :cameras] for n, v in own.items()}
        return ScenePart(region, rows)

    def leave(self, folder: Path, settings: TrainConfig) -> None:
        """Copies to a result folder what measuring and other programs read of photographs and
        cameras. settings: of the blocks, whose splats may need exposures. Raises UserError where it
        cannot be written."""
        exposed = settings.exposure.exposure_until == 1
        try:
            for name in (INTRINSICS_FILE, *[EXPOSURES_FILE] * exposed):
                if (self.folder / name).is_file():
                    shutil.copy(self.folder / name, folder / name)
            if (self.folder / POSES).is_dir():
                shutil.copytree(self.folder / POSES, folder / POSES, dirs_exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}") from None

    def __str__(self) -> str:
        """What there is to say of it, in words."""
        said = [f"--exposure {self.config.exposure.exposure}"]
        said += ["poses"] * ("turn" in self.found) + ["intrinsics"] * ("intrinsics" in self.found)
        said += [f"--opacity-decay {self.opacity_decay:.3g}"] * bool(self.opacity_decay)
        return ", ".join(said)


def _of_photographs(name: str) -> bool:
    return quantities.QUANTITIES[name].of == "photograph"
