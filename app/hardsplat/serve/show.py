"""`hardsplat view --serve`: the result of a training, splats from a file, or a scene before its
training, in browsers."""

from __future__ import annotations

from pathlib import Path

from hardsplat.gpu.probe import open_device
from hardsplat.model.framing import scene_bounds
from hardsplat.raster.core.parameters import Parameters
from hardsplat.serve.door import address_of, check_installed
from hardsplat.serve.editing import EditPanel
from hardsplat.serve.server import Frames
from hardsplat.view.found import around, find
from hardsplat.view.preview import cameras_of, look_of


def serve(
    target: str | Path, address: str = "", data_dir: str | Path | None = None, **asked
) -> None:
    """Shows it until Ctrl-C; see view.found.find. Raises UserError for bad input, without viser,
    and where the address cannot be had."""
    place = address_of(address)
    check_installed()
    shown = find(target, data_dir, **asked)
    scene, degree = shown.scene, shown.gaussians.sh_degree
    gpu = open_device(shown.config.run.device)
    cameras = cameras_of(scene) if scene else []
    start = scene.views[0].camera if scene else around(shown.gaussians).lens
    setting = scene_bounds(
        shown.gaussians, [camera for camera, held_out in cameras if not held_out]
    )
    parameters = Parameters(gpu, len(shown.gaussians), degree)
    frames = None
    try:
        parameters.upload(shown.gaussians)
        title, look = (
            f"{shown.title} - hardsplat",
            look_of(shown.config.scene, shown.config.raster, degree),
        )
        frames = Frames(gpu, place, title, look, setting, start, cameras, busy=False)
        text = frames.server.gui.add_markdown(f"{len(shown.gaussians)} splats")
        editor, version = shown.editor, 0
        EditPanel(frames, editor)
        print(f"view: {frames.door.url} (Ctrl-C ends)", flush=True)
        while not frames.closed:
            if editor.version != version:
                version = editor.version
                gpu.wait_idle()
                parameters.upload(editor.shown)
                text.content = f"{editor.count} splats"
            frames.turn(parameters, degree, version, wait=True)
    except KeyboardInterrupt:
        pass  # this is how it ends
    finally:
        if frames is not None:
            frames.close()
        parameters.destroy()
        gpu.close()
