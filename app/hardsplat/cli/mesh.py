"""`hardsplat mesh`."""

from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.cli.flags import add_setting, settings, show_log
from hardsplat.mesh.config import MESH_FIELDS, MESH_GROUPS, MeshConfig
from hardsplat.settings.presets import read_settings

HELP = "fit a textured triangle mesh to photographs with silhouettes, by stochastic gradients"
REMEDIES = {"texels": "lower --texture-size", "pixels": "raise --data-factor"}


def add_flags(parser):
    parser.usage = "%(prog)s SCENE [--flag value ...]"
    parser.add_argument(
        "scene",
        nargs="?",
        metavar="SCENE",
        help="scene folder, COLMAP or transforms.json, with masks or transparent photographs; "
        "same as --data-dir",
    )
    parser.add_argument(
        "--config",
        metavar="FILE.toml",
        help="a file of settings, as an earlier run left it; flags win over it",
    )
    for title, fields in MESH_GROUPS.items():
        group = parser.add_argument_group(title)
        for f in fields:
            add_setting(group, f.name, MESH_FIELDS)


def handle(flags):
    saved = flags.pop("config", None)
    if "scene" in flags:
        if "data_dir" in flags:
            raise UserError("the scene is given twice: as SCENE and as --data-dir")
        flags["data_dir"] = flags.pop("scene")
    values = (
        read_settings(Path(saved).expanduser(), MESH_FIELDS, {n: n for n in MESH_FIELDS})
        if saved
        else {}
    )
    values |= settings(flags, MESH_FIELDS)
    if values.get("data_dir") is None:
        raise UserError(
            "no scene given: hardsplat mesh SCENE, a folder with images/ and sparse/0/, "
            "or with transforms.json, and silhouettes"
        )
    data_dir = values["data_dir"].absolute()
    config = MeshConfig(
        **{"result_dir": Path("results") / f"{data_dir.name}_mesh"}
        | values
        | {"data_dir": data_dir}
    )
    from hardsplat.mesh.fit import fit_mesh

    show_log(quiet=config.quiet)
    fit_mesh(config)
