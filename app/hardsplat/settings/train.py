"""All settings of a training run: defaults, help, units and limits live in the owners alone.

Flags (`hardsplat.cli`), presets and the file saved with a result (`presets.py`) all come from their
fields, where names are flat. Names follow gsplat's simple_trainer; values are those of the original
3DGS (Kerbl et al. 2023) but for what configs/published.toml sets back.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from hardsplat.base.errors import UserError
from hardsplat.settings.densify import DensifySettings
from hardsplat.settings.learning import AdamSettings, GradientSettings, LossSettings, ModelSettings
from hardsplat.settings.option import Owner, flag, part
from hardsplat.settings.photographs import (
    DepthSettings,
    ExposureSettings,
    IntrinsicsSettings,
    PoseSettings,
)
from hardsplat.settings.rasterizers import RasterSettings
from hardsplat.settings.run import BlockSettings, RunSettings
from hardsplat.settings.scene import SceneSettings, StartSettings
from hardsplat.tables import quantities
from hardsplat.tables.gradients import finds_statistics
from hardsplat.tables.layouts import A_SCENE

DETERMINISTIC = {"rasterizer": "tiled", "tile_backward": "gather"}  # what that setting stands for


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Owner):
    """all settings of one run"""

    scene: SceneSettings = part(SceneSettings)
    start: StartSettings = part(StartSettings)
    run: RunSettings = part(RunSettings)
    raster: RasterSettings = part(RasterSettings)
    model: ModelSettings = part(ModelSettings)
    loss: LossSettings = part(LossSettings)
    adam: AdamSettings = part(AdamSettings)
    gradient: GradientSettings = part(GradientSettings)
    exposure: ExposureSettings = part(ExposureSettings)
    poses: PoseSettings = part(PoseSettings)
    intrinsics: IntrinsicsSettings = part(IntrinsicsSettings)
    depth: DepthSettings = part(DepthSettings)
    densify: DensifySettings = part(DensifySettings)
    blocks: BlockSettings = part(BlockSettings)
    # settings that the user named, by load_config; presets name others
    typed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @classmethod
    def of(cls, **flat: Any) -> Self:
        """Settings by their flat names. Raises UserError like the owners, TypeError for others."""
        if unknown := flat.keys() - FIELDS.keys():
            raise TypeError(f"no settings: {', '.join(sorted(unknown))}")
        return cls.made(flat)

    def changed(self, **flat: Any) -> Self:
        """Other values of some settings, by their flat names."""
        return self.of(**self.flat() | flat)

    @property
    def names_near_plane(self) -> bool:
        """Whether the near plane is not left to the scene: the user named it, or the run that is
        continued or repeated, whose saved settings have the value alone."""
        is_default = self.scene.near_plane == FIELDS["near_plane"].default
        return "near_plane" in self.typed or not is_default

    def check_gradient(self) -> None:
        """UserError where splats would grow by statistics that the gradients do not come with, or
        quantities of photographs would have none."""
        if self.gradient.gradient == "stochastic":
            chosen = [q.chosen for q in quantities.of_photographs(self.flat()) if q.chosen]
            without = [
                f"--no{flag(name)[1:]}" if values == (True,) else f"{flag(name)} none"
                for name, values in chosen
            ]
            without += ["--depth-lambda 0"] * bool(self.depth.depth_lambda)
            without += ["--flat-lambda 0"] * bool(self.loss.flat_lambda)
            if without:
                raise UserError(
                    "--gradient stochastic finds no gradients of photographs, cameras, depths and "
                    f"thickness: add {without[0]} or --gradient analytic"
                )
        grows, gradient = self.densify.strategy in ("adaptive", "budget"), self.gradient.gradient
        if grows and not finds_statistics(gradient):
            raise UserError(
                f"--gradient {gradient} finds no gradients of positions on screen, by "
                "which the adaptive strategy grows: add --strategy mcmc or --strategy none"
            )

    def __post_init__(self):
        run, scene = self.run, self.scene
        if run.resume and run.ckpt:
            raise UserError(
                "--resume and --ckpt exclude each other: the newest checkpoint, or the named one"
            )
        if scene.mask_mode == "opacity":
            if scene.background in ("white", "sphere"):
                raise UserError(
                    f"--mask-mode opacity takes --background random, not {scene.background}: "
                    "leave out one of the two"
                )
            object.__setattr__(self, "scene", replace(scene, background="random"))
        estimates, blocks = self.gradient.gradient == "stochastic", self.blocks.blocks is not None
        if scene.region and self.densify.strategy != "budget":
            raise UserError(
                f"--region belongs to --strategy budget; this run has {self.densify.strategy}: "
                "leave it out or add --strategy budget"
            )
        if scene.region and blocks:
            raise UserError("--region and --blocks exclude each other: leave out one of the two")
        if scene.background == "sphere" and (estimates or blocks):
            other = "--gradient stochastic" if estimates else "--blocks"
            raise UserError(
                f"--background sphere does not go with {other}: leave out one of the two"
            )
        if run.deterministic:
            raster = self.raster.flat()
            changed = [n for n in DETERMINISTIC if raster[n] != FIELDS[n].default]
            check_deterministic({name: raster[name] for name in changed})
            object.__setattr__(self, "raster", RasterSettings.made(raster | DETERMINISTIC))


OWNERS: dict[str, type[Owner]] = {
    name: owner for owner in TrainConfig.owners() for name in owner.options()
}
FIELDS: dict[str, Field] = {name: owner.options()[name] for name, owner in OWNERS.items()}
GROUPS: dict[str, tuple[Field, ...]] = {
    owner.__doc__ or "": tuple(owner.options().values()) for owner in dict.fromkeys(OWNERS.values())
}
NAMES: dict[str, str] = {
    word: f.name for f in FIELDS.values() for word in (f.name, *f.metadata["aka"])
}  # for suggestions


def scene_folder(data_dir: Path | None) -> Path:
    """The scene that a setting names. Raises UserError where it names none."""
    if data_dir is None:
        raise UserError(f"which scene? hardsplat train SCENE, where SCENE is {A_SCENE}")
    return data_dir


def chosen_settings(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name whose owner is chosen, and those that choose one. flat: all settings."""
    return {
        name: value
        for name, value in flat.items()
        if OWNERS[name].chosen(flat) or name == OWNERS[name].flag
    }


def check_owners(named: Mapping[str, str], flat: Mapping[str, Any]) -> None:
    """UserError where the run, of all these settings by name, does not choose the owner of one that
    was named. named: where each setting was named, as the error begins."""
    for name, where in named.items():
        owner = OWNERS[name]
        if name != owner.flag and not owner.chosen(flat):
            chosen_by = flag(owner.flag)
            own = (v for v in owner.values if name.startswith(f"{v}_"))  # ppisp_warm_up: of ppisp
            value, found = next(own, owner.values[0]), flat[owner.flag]
            has = "none" if found is False else found
            add = chosen_by if value is True else f"{chosen_by} {value}"
            if flat["deterministic"] and owner.flag in DETERMINISTIC:
                why = f"{where} belongs to {add}, and --deterministic takes {chosen_by} {found}"
                raise UserError(f"{why}: leave out one of the two")
            what = f"{where} belongs to {add}; this run has {has}"
            raise UserError(f"{what}: leave it out or add {add}")


def check_deterministic(named: Mapping[str, Any]) -> None:
    """UserError where settings that were named are others than those that `deterministic`
    stands for."""
    for name, needed in DETERMINISTIC.items():
        if named.get(name, needed) not in (needed, "auto"):
            raise UserError(
                f"--deterministic takes {flag(name)} {needed}, not "
                f"{named[name]}: leave out one of the two"
            )
