"""`hardsplat view`: a window on what found.py finds, one after the other."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hardsplat.base.errors import UserError
from hardsplat.base.stop import StopRequest
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.formats.streamed_sog import StreamedTree
from hardsplat.raster.core.parameters import Parameters
from hardsplat.render.streaming import StreamedSplats, tree_of
from hardsplat.settings.train import TrainConfig
from hardsplat.view import window
from hardsplat.view.found import Viewable, find, starts_of
from hardsplat.view.splats.editing import EditInputs
from hardsplat.view.splats.inputs import Inputs
from hardsplat.view.viewer import Viewer


def view(
    target: str | Path, data_dir: str | Path | None = None, max_splats: int | None = None, **asked
) -> None:
    """Shows it until the window is closed; see `find`. max_splats: as `render` has it. Raises
    UserError for bad input and without a window; KeyboardInterrupt after Ctrl-C."""
    opened: list[Device] = []

    def device_of(config: TrainConfig) -> Device:
        opened[:] = opened or [open_device(config.run.device, window.start())]
        return opened[0]

    tree_for = lambda file, config: tree_of(file, max_splats, device_of(config))  # noqa: E731
    found = find(target, data_dir, tree_for, **asked)
    gpu = device_of(found.config)
    loader = ThreadPoolExecutor(1, thread_name_prefix="opening")
    shown = _shown(found, gpu, max_splats)
    viewer: Viewer | None = None
    with StopRequest(b"") as stopping:
        try:
            viewer = Viewer(gpu, _title(found), found.look, shown.inputs, folder=Path())
            coming: Future[Viewable] | None = None
            while not (viewer.closed or stopping.asked):
                shown.turn(viewer)
                if (path := viewer.take_opened()) and coming is None:
                    coming = loader.submit(find, path, None, tree_for, **asked)
                    viewer.facts.loading = True
                if coming and coming.done() and viewer.idle:
                    viewer.facts.loading = False
                    shown = _next(coming, shown, viewer, max_splats)
                    coming = None
        finally:
            if viewer is not None:
                viewer.close()
            shown.close()
            loader.shutdown(wait=False, cancel_futures=True)
    if stopping.asked:
        raise KeyboardInterrupt(stopping.asked)


def _next(
    coming: Future[Viewable], shown: Whole | Streamed, viewer: Viewer, max_splats: int | None
) -> Whole | Streamed:
    """What was opened, in place of what is shown; with a note that again where it cannot be."""
    try:
        found = coming.result()
        following = _shown(found, viewer.device, max_splats)
    except UserError as error:
        viewer.inputs.say(str(error))
        return shown
    viewer.show(following.inputs, found.look, _title(found))
    shown.close()
    return following


def _title(found: Viewable) -> str:
    return f"{found.title} - hardsplat"


def _shown(found: Viewable, gpu: Device, max_splats: int | None) -> Whole | Streamed:
    return Streamed(found, found.tree, gpu, max_splats) if found.tree else Whole(found, gpu)


class Whole:
    """Splats that are all on the device, and can be edited."""

    def __init__(self, found: Viewable, gpu: Device):
        self.degree, self.editor, self._version = found.gaussians.sh_degree, found.editor, 0
        starts, parts = starts_of(found.scene, found.gaussians), ("opening", "edit")
        self.inputs = EditInputs(*starts, sh_degree=self.degree, parts=parts, editor=self.editor)
        self.parameters = Parameters(gpu, len(found.gaussians), self.degree)
        self.parameters.upload(found.gaussians)

    def turn(self, viewer: Viewer) -> None:
        if self.editor.version != self._version and viewer.idle:
            self._version = self.editor.version
            self.parameters.upload(self.editor.shown)
            self.inputs.changed = True
        viewer.facts.splats, viewer.facts.total = self.editor.count, 0
        viewer.turn(self.parameters, self.degree, wait=True)

    def close(self) -> None:
        self.parameters.destroy()


class Streamed:
    """What the camera sees of a tree, coarse at once, finer as it comes from the disk."""

    def __init__(self, found: Viewable, tree: StreamedTree, gpu: Device, budget: int | None):
        self.splats = StreamedSplats(tree, gpu, found.config.scene.near_plane, budget)
        degree = self.splats.sh_degree
        starts = starts_of(found.scene, found.gaussians)
        self.inputs = Inputs(*starts, sh_degree=degree, parts=("opening",))
        self.parameters = Parameters(gpu, self.splats.capacity, degree)
        self.splats.begin(self.parameters)

    def turn(self, viewer: Viewer) -> None:
        splats, facts = self.splats, viewer.facts
        if viewer.camera and viewer.idle:
            self.inputs.changed |= splats.show(self.parameters, viewer.camera, wait=False)
        facts.splats, facts.total, facts.loading = splats.count, splats.total, splats.loading
        viewer.turn(self.parameters, splats.sh_degree, wait=True)

    def close(self) -> None:
        self.parameters.destroy()
        self.splats.close()
