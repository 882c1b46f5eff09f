"""`hardsplat train`."""

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

from hardsplat.base.clock import PhaseClock, process_began
from hardsplat.base.errors import UserError
from hardsplat.cli.flags import add_groups, add_table, name_position, settings, show_log
from hardsplat.settings.presets import SAVED_NAME, load_config
from hardsplat.settings.train import GROUPS

HELP = "train a scene"
# s until Python hands over to a thread that waits for it; by default ten times that, for which the
# one that feeds the GPU or measures would wait each time
SWITCHING = 5e-4
REMEDIES = {
    "splats": "lower --cap-max or --sh-degree",
    "random splats": "lower --init-num-pts",
    "pixels": "raise --data-factor",
}
COMMON = (
    "result_dir max_steps data_factor test_every background strategy cap_max sh_degree rasterizer "
    "device resume quiet"
).split()
FLAGS = """
scene [SCENE]: scene folder, COLMAP or transforms.json; same as --data-dir
--config NAME|FILE.toml: preset from configs/, or a file of settings; flags win over it
--sfm: SCENE is photographs without poses, or a video: find the poses first, as hardsplat sfm does
--view: a window that shows the splats while they are trained
--serve [[HOST:]PORT]: show them in browsers while they are trained; without HOST only to this
    machine
"""


def add_flags(parser):
    parser.usage = "%(prog)s SCENE [--flag value ...]"  # all sixty would bury it
    add_table(parser, FLAGS)
    for colour in ("random", "white"):
        parser.add_argument(
            f"--{colour}-background",
            dest="background",
            action="store_const",
            const=colour,
            help=f"same as --background {colour}",
        )
    add_groups(parser, GROUPS, COMMON)


def handle(flags):
    parts = PhaseClock("imports", process_began())
    sys.setswitchinterval(SWITCHING)
    preset, address = flags.pop("config", None), flags.pop("serve", None)
    with_window, with_sfm = flags.pop("view", False), flags.pop("sfm", False)
    if address:
        from hardsplat.serve.door import address_of

        address_of(address)  # before anything else: the scene may have been taken for it
    name_position(flags, "scene", "data_dir", "the scene is")
    values = settings(flags)
    photographs = values.get("data_dir")  # or a video, whose scene is the folder next to it
    if with_sfm and photographs:
        from hardsplat.sfm.run import scene_of

        values["data_dir"] = scene_of(photographs)
    config = load_config(preset, values)
    if with_sfm and not config.run.resume:
        find_poses(photographs or config.scene.data_dir, config)
    require_scene(config)
    device = (
        None if with_window else opening(config.run.device)
    )  # a window asks for more of a device
    # what is resumed has a checkpoint, or else no one wants its photographs
    with nullcontext() if config.run.resume else reading(config, parts) as photographs:
        from hardsplat.train.run.trainer import train

        show_log(config.run.verbose, config.run.quiet)
        watchers = [with_window and _window(), _server(address)]
        train(config, list(filter(None, watchers)), parts, device, photographs)


def opening(wanted):
    """The device, which a thread opens while this one imports what trains: drivers take their
    time."""
    from hardsplat.gpu.probe import open_device

    threads = ThreadPoolExecutor(1, "device")
    device = threads.submit(open_device, wanted)
    threads.shutdown(wait=False)
    return device


@contextmanager
def reading(config, parts):
    """The photographs, which threads decode while this one imports what trains."""
    from hardsplat.results.folder import check_folder, folder_of
    from hardsplat.train.run.photographs import Photographs

    parts.begin("load")
    check_folder(folder_of(config))
    photographs = Photographs.of(config)
    parts.begin("imports")
    try:
        yield photographs
    finally:
        photographs.close()


POSES = ("sparse", "transforms.json", "transforms_train.json")


def find_poses(photographs, config):
    """What `hardsplat sfm` does with its defaults, unless the scene has poses."""
    from hardsplat.sfm.job.config import SfmConfig
    from hardsplat.sfm.run import sfm

    if config.scene.data_dir and _has_poses(config.scene.data_dir):
        print(f"note: {config.scene.data_dir} has poses already; --sfm has nothing to do")
    else:
        sfm(SfmConfig(data=photographs, quiet=config.run.quiet))


def _has_poses(folder):
    return any((folder / name).exists() for name in POSES)


def require_scene(config):
    """Raises UserError where --data-dir is no folder that could be a scene."""
    folder = config.scene.data_dir
    if folder is None:
        raise UserError(
            "no scene given: hardsplat train SCENE, a folder with images/ and sparse/0/, "
            "or with transforms.json"
        )
    if not folder.exists():
        raise UserError(f"scene {folder} does not exist")
    saved = (folder / SAVED_NAME).is_file()
    if config.run.resume:
        if not saved and (folder / "ckpts").is_dir():
            raise UserError(
                f"{folder}: its {SAVED_NAME} is missing, which says how to resume: hardsplat train "
                f"SCENE --result-dir {shlex.quote(str(folder))} --resume"
            )
        return
    if _has_poses(folder):
        return
    if saved and not (folder / "images").exists():
        raise UserError(
            f"{folder}: this is a result folder; add --resume to continue it, or give its scene"
        )
    if near := _scene_near(folder):
        raise UserError(
            f"{folder}: no camera poses are in this folder, but {near} is a scene: "
            f"hardsplat train {shlex.quote(str(near))}"
        )
    if found := _photographs(folder):
        raise UserError(
            f"{folder}: {found} without camera poses; add --sfm to find them first "
            f"(hardsplat sfm {folder} does that alone)"
        )


def _scene_near(path):
    """The scene whose images a folder holds, or the first one that lies in it; None where there is
    neither."""
    if not path.is_dir():
        return None
    if path.name.startswith("images") and _has_poses(path.parent):
        return path.parent
    inside = (folder for folder in sorted(path.iterdir()) if folder.is_dir())
    return next(filter(_has_poses, inside), None)


def _photographs(path):
    """`a video`, `12 photographs` or nothing: what `path` has for hardsplat sfm."""
    from hardsplat.sfm.job.photographs import image_folder, is_video, listed

    if is_video(path):
        return "a video"
    count = len(listed(image_folder(path))) if path.is_dir() else 0
    return f"{count} photograph{'s' * (count > 1)}" if count else ""


def _server(address):
    """The pages of --serve; None without it."""
    if address is None:
        return None
    from hardsplat.serve.watch import Server

    return Server(address)


def _window():
    """The window of --view; None, and why, where there can be none."""
    try:
        from hardsplat.view.preview import TrainingWindow

        return TrainingWindow(stays=True)
    except UserError as error:
        print(f"note: {error}; training continues without --view", file=sys.stderr)
