"""The commands: help, flags, and what does each."""

from functools import partial

from hardsplat.cli import handlers, sweep, train
from hardsplat.cli.flags import Command, add_axis, add_groups, add_setting
from hardsplat.cli.results import RESULT_COMMANDS
from hardsplat.tables.layouts import A_SCENE


def _own(place, *title):
    """What adds the settings of one command, "module:name" of their groups, which the start of
    another does without. title: of them, where they are no groups."""

    def add(parser):
        groups = handlers.imported(place)
        if title:
            groups = {title[0]: groups.values()}
        fields = {f.name: f for some in groups.values() for f in some}
        add_groups(parser, groups, add=partial(add_setting, fields=fields))

    return add


def _add_variants(parser):
    from hardsplat.study.bench.axes import AXES

    text = (
        "One or more values each; every combination is measured; `all` stands for every "
        "choice. Formats are compared with --blending fixed if nothing else is said."
    )
    group = parser.add_argument_group("variants", text)
    for name in AXES:
        add_axis(group, name)


COMMANDS = {
    "train": Command(
        "train a scene",
        f"""
scene [SCENE]: {A_SCENE}; same as --data-dir
--config NAME|FILE.toml: preset from configs/, or a file of settings; flags win over it
--sfm: SCENE is photographs without poses, or a video: find the poses first, as hardsplat sfm does
--view: a window that shows the splats while they are trained
--serve [[HOST:]PORT]: show them in browsers while they are trained; without HOST only to this
    machine
""",
        train.handle,
        train.add_settings,
        many=True,
        remedies={
            "splats": "lower --cap-max, or add --sh-degree 1",
            "random splats": "lower --init-num-pts",
            "pixels": "raise --data-factor",
        },
    ),
    "plan": Command(
        "plan the blocks of a large scene, which train --blocks then trains",
        f"""
scene [SCENE]: {A_SCENE}; same as --data-dir
--config NAME|FILE.toml: preset from configs/, or a file of settings; flags win over it
blocks: auto (as many as fit the smallest device), a number, or 2x3 (default: auto)
""",
        train.plan,
        train.add_plan_settings,
        many=True,
    ),
    **RESULT_COMMANDS,
    "bench": Command(
        "time every stage of drawing a model, forward and backward, for the variants asked for",
        """
model MODEL: splats to draw: result folder of a training, or a file of splats, see convert
--data-dir PATH: scene whose cameras are used (default: the one trained on)
--result-dir PATH: folder for bench.json and bench.md (default: print only)
--views N...: views by position in the sorted photographs (default: 8, evenly spaced)
data_factor: draw images this many times smaller (default: as trained; 1 with --data-dir)
--repeats N: draws of every view that are timed (default: 5)
--errors: also measure gradients of the first view against a float32 target
device
quiet
verbose
""",
        handlers.bench,
        _add_variants,
        remedies={"splats": "lower --sh-degree", "pixels": "raise --data-factor"},
    ),
    "sweep": Command(
        "train scenes with every combination of settings, and compare the results",
        f"""
scene SCENE|PLAN.toml: {A_SCENE}; or a file of scenes and presets, see docs/guide/sweeping.md, over
    whose settings flags win
--config NAME|FILE.toml: preset from configs/, or a file of settings; flags win over it
--result-dir PATH: folder for tables, plots and runs; runs that are done there are not made again
    (default: results/<name of the scene or plan>_sweep)
--scheduler ADDRESS: of a Dask cluster, whose workers make the runs and see the same files
--device INDEX|NAME...: Vulkan device; of several each makes one run at a time
quiet
""",
        sweep.handle,
        sweep.add_settings,
        many=True,
        epilog=sweep.EPILOG,
    ),
    "fit": Command(
        "fit 2D Gaussians to a photograph",
        """
image IMAGE: photograph: PNG, JPEG or what else Pillow reads, of any size
--view: a window that shows the fit as it goes
""",
        handlers.fit,
        _own("fit.config:FIT_FIELDS", "settings"),
        remedies={"blobs": "lower --blobs", "pixels": "make the image smaller"},
    ),
    "fit-mesh": Command(
        "fit a textured triangle mesh to photographs with silhouettes, by stochastic gradients",
        f"""
scene [SCENE]: {A_SCENE}, and masks or transparent photographs; same as --data-dir
--config FILE.toml: a file of settings, as an earlier run left it; flags win over it
""",
        handlers.fit_mesh,
        _own("fitmesh.config:MESH_GROUPS"),
        remedies={"texels": "lower --texture-size", "pixels": "raise --data-factor"},
    ),
    "sfm": Command(
        "find the camera poses of photographs, or of a video, and write them as a COLMAP model",
        """
input [INPUT]: folder of photographs, scene folder with images/, or a video; same as --data
""",
        handlers.sfm,
        _own("sfm.job.config:SFM_GROUPS"),
    ),
    "doctor": Command(
        "show the Vulkan devices and which variants run on them",
        """
device
""",
        handlers.doctor,
    ),
}
