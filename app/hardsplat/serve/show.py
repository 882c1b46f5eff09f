"""`hardsplat view --serve`: the result of a training, splats from a file, or a scene before its
training, in browsers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.gpu.probe import open_device
from hardsplat.model.framing import scene_bounds
from hardsplat.raster.core.parameters import Parameters
from hardsplat.serve.door import address_of, check_installed
from hardsplat.serve.server import Frames
from hardsplat.view.preview import cameras_of, look_of
from hardsplat.view.show import around, find


def serve(
    target: str | Path,
    address: str = "",
    data_dir: str | Path | None = None,
    data_factor: int | None = None,
    device: str | None = None,
    format: str | None = None,
) -> None:
    """Shows it until Ctrl-C. Raises UserError for bad input, without viser, and where the address
    cannot be had."""
    place = address_of(address)
    check_installed()
    shown = find(target, data_dir, data_factor)
    if not len(shown.gaussians):
        raise UserError(f"{target}: has no splats")
    scene, config = (
        shown.scene,
        shown.config.changed(format=format or shown.config.raster.hardware.format),
    )
    gpu = open_device(device or config.run.device)
    degree = shown.gaussians.sh_degree
    cameras = cameras_of(scene) if scene else []
    controls = around(shown.gaussians)
    start = controls.camera(controls.lens.width, controls.lens.height)
    if scene:
        start = scene.views[0].camera
    trained = [scene.views[i].camera for i in scene.train] if scene else []
    setting = scene_bounds(shown.gaussians, trained)
    parameters = Parameters(gpu, len(shown.gaussians), degree)
    frames = None
    try:
        parameters.upload(shown.gaussians)
        title, look = f"{shown.title} - hardsplat", replace(look_of(config), sh_degree=degree)
        frames = Frames(gpu, place, title, look, setting, start, cameras, busy=False)
        frames.server.gui.add_markdown(f"{len(shown.gaussians)} splats")
        print(f"view: {frames.door.url} (Ctrl-C ends)", flush=True)
        while not frames.closed:
            frames.turn(parameters, degree, 0, wait=True)
    except KeyboardInterrupt:
        pass  # this is how it ends
    finally:
        if frames is not None:
            frames.close()
        parameters.destroy()
        gpu.close()
