"""Every setting of `hardsplat fit-mesh`, in the form of app/hardsplat/settings/train.py."""

from dataclasses import dataclass
from pathlib import Path

from hardsplat.settings.option import Owner, option
from hardsplat.tables.gradients import ATOMICS
from hardsplat.tables.layouts import A_SCENE


@dataclass(frozen=True, kw_only=True)
class MeshScene(Owner):
    """scene and first mesh"""

    data_dir: Path | None = option(
        None, f"the scene: {A_SCENE}, and silhouettes as masks or transparency", shown="SCENE"
    )
    data_factor: int = option(1, "fit to images this many times smaller", min=1)
    test_every: int = option(
        8,
        "hold out every N-th image by sorted file name, where the scene has no test split; 0: none",
    )
    images: str = option(
        "auto",
        "keep photographs on the GPU or stream them; auto: by memory",
        choices=("auto", "gpu", "stream"),
    )
    init_levels: int = option(
        3, "subdivisions of the icosahedron to begin with; 3: 642 vertices", min=0, max=7
    )
    texture_size: int = option(256, "side of the texture", unit="texels", min=16, max=8192)


@dataclass(frozen=True, kw_only=True)
class MeshOutput(Owner):
    """run and results"""

    result_dir: Path | None = option(
        None, "folder for all that the run writes", shown="results/<scene name>_mesh"
    )
    max_steps: int = option(6_000, "steps, one view each", unit="steps", min=1)
    batch_steps: int = option(50, "steps per submission to the GPU", unit="steps", min=1, max=2048)
    seed: int = option(42, "seed of view order and perturbations")
    device: str | None = option(
        None,
        "Vulkan device, by index or part of its name (also HARDSPLAT_DEVICE)",
        shown="chosen automatically",
    )
    atomics: str = option(
        "auto",
        "how losses are added to memory; auto: the first that runs here",
        choices=("auto", *ATOMICS),
    )
    quiet: bool = option(False, "no progress bar")


@dataclass(frozen=True, kw_only=True)
class Fitting(Owner):
    """estimator, Adam and subdivision"""

    alpha_weight: float = option(1.0, "weight of the silhouette; a colour channel has 1", max=1e6)
    perturb_vertices: float = option(
        0.5, "first size of the perturbations of vertices", unit="px", min=1e-3, max=1e3
    )
    perturb_texels: float = option(
        0.15, "first size of the perturbations of texels", min=1e-4, max=1
    )
    last_perturb: float = option(
        0.3, "share of both that is left at the last step", min=1e-3, max=1
    )
    vertices_lr: float = option(
        4e-3, "first rate of vertices", unit="object radii", min=1e-9, max=1
    )
    texels_lr: float = option(0.02, "first rate of texels", max=1)
    last_lr: float = option(
        0.01, "share of both rates that is left at the last step", min=1e-6, max=1
    )
    smoothing: float = option(
        0.02,
        "share of the squared Laplacian that the first step takes away from the surface",
        max=0.2,
    )
    subdivide_steps: tuple[int, ...] = option(
        (2_000,), "steps after which every triangle becomes four", unit="steps", min=1
    )


@dataclass(frozen=True, kw_only=True)
class MeshConfig(MeshScene, MeshOutput, Fitting):
    """All settings of one fit, checked: a value of the wrong type or out of range raises
    UserError."""


_OWNERS = (MeshScene, MeshOutput, Fitting)
MESH_GROUPS = {owner.__doc__ or "": tuple(owner.options().values()) for owner in _OWNERS}
MESH_FIELDS = {f.name: f for group in MESH_GROUPS.values() for f in group}
