"""`hardsplat mesh`."""

from functools import partial
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import (
    add_groups,
    add_setting,
    add_table,
    name_position,
    settings,
    show_log,
)
from hardsplat.mesh.config import MESH_FIELDS, MESH_GROUPS, MeshConfig
from hardsplat.settings.presets import read_settings

HELP = "fit a textured triangle mesh to photographs with silhouettes, by stochastic gradients"
REMEDIES = {"texels": "lower --texture-size", "pixels": "raise --data-factor"}
FLAGS = """
scene [SCENE]: scene folder, COLMAP or transforms.json, with masks or transparent photographs; same
    as --data-dir
--config FILE.toml: a file of settings, as an earlier run left it; flags win over it
"""


def add_flags(parser):
    parser.usage = "%(prog)s SCENE [--flag value ...]"
    add_table(parser, FLAGS)
    add_groups(parser, MESH_GROUPS, add=partial(add_setting, fields=MESH_FIELDS))


def handle(flags):
    saved = flags.pop("config", None)
    name_position(flags, "scene", "data_dir", "the scene is")
    values: dict = {}
    if saved:
        names = {name: name for name in MESH_FIELDS}
        values = read_settings(Path(saved).expanduser(), MESH_FIELDS, names)
    values |= settings(flags, MESH_FIELDS)
    if values.get("data_dir") is None:
        raise UserError(
            "no scene given: hardsplat mesh SCENE, a folder with images/ and sparse/0/, "
            "or with transforms.json, and silhouettes"
        )
    data_dir = values["data_dir"].absolute()
    values.setdefault("result_dir", Path("results") / f"{data_dir.name}_mesh")
    config = MeshConfig(**values | {"data_dir": data_dir})
    from hardsplat.mesh.fit import fit_mesh

    show_log(quiet=config.quiet)
    fit_mesh(config)
