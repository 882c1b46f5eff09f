"""`hardsplat train`."""

import os
import shlex
import sys
from contextlib import closing, nullcontext

from hardsplat.base.clock import PhaseClock, process_began
from hardsplat.base.errors import UserError
from hardsplat.base.files import check_listed
from hardsplat.cli.flags import add_groups, name_position, settings, show_log
from hardsplat.cli.handlers import window_of
from hardsplat.settings.presets import SAVED_NAME, load_config
from hardsplat.settings.train import GROUPS
from hardsplat.tables.layouts import A_SCENE, layouts_of

# s until Python hands over to a thread that waits for it; by default ten times that, for which the
# one that feeds the GPU or measures would wait each time
SWITCHING = 5e-4
# of the library of linear algebra, before it is loaded: rows are given to threads in blocks, whose
# products would wait for one another's threads, which keep processors busy while they wait
PRODUCTS = "OPENBLAS_NUM_THREADS"
COMMON = (
    "result_dir max_steps data_factor test_every background strategy cap_max sh_degree rasterizer "
    "device resume quiet"
).split()


def add_settings(parser, groups=GROUPS):
    for colour in ("random", "white"):
        help = f"same as --background {colour}"
        parser.add_argument(
            f"--{colour}-background",
            help=help,
            dest="background",
            action="store_const",
            const=colour,
        )
    add_groups(parser, groups, COMMON)


def add_plan_settings(parser):
    """Those of `hardsplat plan`, whose --blocks has another default."""
    add_settings(parser, {t: [f for f in some if f.name != "blocks"] for t, some in GROUPS.items()})


def handle(flags):
    parts = PhaseClock("imports", process_began())
    sys.setswitchinterval(SWITCHING)
    preset, address = flags.pop("config", None), flags.pop("serve", None)
    with_window, with_sfm = flags.pop("view", False), flags.pop("sfm", False)
    if address:
        from hardsplat.serve.door import address_of

        address_of(address)  # before anything else: the scene may have been taken for it
    if flags.get("resume") and {"scene", "data_dir"} <= flags.keys() and "result_dir" not in flags:
        flags["result_dir"] = flags.pop("scene")  # of a run whose scene has moved
    name_position(flags, "scene", "data_dir", "the scene is")
    values = settings(flags)
    photographs = values.get("data_dir")  # or a video, whose scene is the folder next to it
    if with_sfm and photographs:
        from hardsplat.sfm.run import scene_of

        values["data_dir"] = scene_of(photographs)
    config = load_config(preset, values)
    if with_sfm and not config.run.resume:
        parts.begin("poses")
        find_poses(photographs or config.scene.data_dir, config)
        parts.begin("imports")
    require_scene(config)
    os.environ.setdefault(PRODUCTS, "1")  # `sfm` above has its own process, and needs them
    if config.blocks.blocks is not None:
        if with_window or address is not None:
            raise UserError("--view and --serve do not show blocks: leave them out")
        from hardsplat.blocks.run import train_blocks

        train_blocks(config)
        return
    from hardsplat.gpu.probe import opening

    # a window asks for more of a device
    opens = nullcontext() if with_window else opening(config.run.device)
    with opens as device, reading(config, parts) as photographs:
        from hardsplat.train import run_training

        show_log({"verbose": config.run.verbose, "quiet": config.run.quiet})
        window = "view.preview:TrainingWindow"
        watchers = [window_of(window, "training", stays=True)] if with_window else []
        if address is not None:
            from hardsplat.serve.watch import Server

            watchers.append(Server(address))
        run_training(config, [*filter(None, watchers)], parts, device, photographs)


def plan(flags):
    preset = flags.pop("config", None)
    name_position(flags, "scene", "data_dir", "the scene is")
    config = load_config(preset, {"blocks": "auto"} | settings(flags))
    require_scene(config)
    from hardsplat.blocks.run import plan_scene

    print(f"written: {plan_scene(config)}")


def reading(config, parts):
    """The photographs, as a context: threads decode them while this one imports what trains. None
    for a run that is resumed: it has a checkpoint, or else no one wants them."""
    if config.run.resume:
        return nullcontext()
    from hardsplat.results.folder import check_folder, folder_of
    from hardsplat.train import PhotographLoader

    parts.begin("load")
    check_folder(folder_of(config.run, config.scene))
    photographs = PhotographLoader.of(config.scene)
    parts.begin("imports")
    return closing(photographs)


def find_poses(photographs, config):
    """What `hardsplat sfm` does with its defaults, unless the scene has poses."""
    from hardsplat.sfm.job.config import SfmConfig
    from hardsplat.sfm.run import sfm

    if config.scene.data_dir and layouts_of(config.scene.data_dir):
        print(f"note: {config.scene.data_dir} has poses already; --sfm has nothing to do")
    else:
        sfm(SfmConfig(data=photographs, quiet=config.run.quiet))


def require_scene(config):
    """Raises UserError where --data-dir is no folder that could be a scene."""
    folder = config.scene.data_dir
    if folder is None:
        raise UserError(f"no scene given: hardsplat train SCENE, {A_SCENE}")
    if not folder.exists():
        moved = "; where it has moved, name it: --data-dir SCENE" if config.run.resume else ""
        raise UserError(f"scene {folder} does not exist{moved}")
    if folder.is_dir():
        check_listed(folder)
    saved = (folder / SAVED_NAME).is_file()
    if config.run.resume:
        again = f"hardsplat train SCENE --result-dir {shlex.quote(str(folder))}"
        if not saved and (folder / "ckpts").is_dir():
            what = f"its {SAVED_NAME} is missing, which says how to resume"
            raise UserError(f"{folder}: {what}: {again} --resume")
        if not saved and not layouts_of(folder):
            what = "neither a scene nor a run that began its first step"
            raise UserError(f"{folder}: {what}; begin it again: {again}")
    elif not layouts_of(folder):
        raise UserError(f"{folder}: {_no_scene(folder, saved)}")


def _no_scene(folder, saved):
    from hardsplat.io.scenes.colmap import model_elsewhere
    from hardsplat.sfm.job.photographs import image_folder, is_video, listed

    if not folder.is_dir() and not is_video(folder):
        return f"is a file; a scene is {A_SCENE}"
    if saved and not (folder / "images").exists():
        return "this is a result folder; add --resume to continue it, or give its scene"
    if folder.is_dir():
        inside = [path for path in sorted(folder.iterdir()) if path.is_dir()]
        outside = [folder.parent] if folder.name.startswith("images") else []
        scenes = (path for path in outside + inside if layouts_of(path))
        none = "no camera poses are in this folder, but"
        if near := next((path for path in scenes if listed(path)), None):
            return f"{none} {near} is a scene: hardsplat train {shlex.quote(str(near))}"
        if advice := model_elsewhere(folder):
            return f"{none} {advice}"
    count = len(listed(image_folder(folder))) if folder.is_dir() else 0
    found = f"{count} photograph{'s' * (count > 1)}" * bool(count)
    found = "a video" if is_video(folder) else found
    if not found:
        return f"neither camera poses nor photographs are in it; a scene is {A_SCENE}"
    alone = f"(hardsplat sfm {shlex.quote(str(folder))} does that alone)"
    return f"{found} without camera poses; add --sfm to find them first {alone}"
