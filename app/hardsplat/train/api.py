"""`hardsplat.train`: a training run from Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Unpack

from hardsplat.base.callables import name_settings
from hardsplat.base.errors import UserError
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.scenes.values import json_in
from hardsplat.io.splats import is_antialiased, load_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.page.export import PageScene, write_page
from hardsplat.results.metrics import held_out_views, last_evaluation, quality
from hardsplat.settings.option import check_known
from hardsplat.settings.presets import SAVED_NAME, load_config, read_saved
from hardsplat.settings.train import FIELDS, NAMES, TrainConfig
from hardsplat.settings.typed import TrainSettings
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.run.trainer import Trainer
from hardsplat.train.watchers.watch import Running, Watcher, Watchers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DEGREE = 1  # of colour in a notebook, which is saved with what it shows


class Progress:
    """A run between two batches of steps, as `on_batch` gets it.

    step: steps done, of max_steps, which photographs may lower. loss: mean over the last batch.
    psnr: of its training views, dB. splats: how many there were in it. seconds: of training so far,
    without measurements and files. steps_per_second: of the last batch.
    """

    def __init__(self, run: Running):
        log, session = run.log, run.session
        self._run, self.step, self.max_steps = run, log.steps[-1], session.schedule.steps
        self.loss, self.psnr, self.splats = log.losses[-1], log.psnrs[-1], log.splats[-1]
        self.seconds = log.seconds[-1]
        self.steps_per_second = session.runner.steps_per_second

    def gaussians(self) -> Gaussians:
        """A copy of the splats as they are now. Waits for the steps that are queued, which takes
        milliseconds, and copies 100 to 240 bytes a splat."""
        self._run.session.drain()
        with self._run.log.off_clock("copies"):
            return self._run.session.store.gaussians()

    def save(self) -> None:
        """Writes a checkpoint and splats.ply into the result folder, now."""
        self._run.save()

    def stop(self) -> None:
        """Ends the run here, as if this had been its last step."""
        self._run.stop()


class _Callback(Watcher):
    """Calls `on_batch` in its turn when a batch was done since the last one."""

    title = "on_batch"

    def __init__(self, on_batch: Callable[[Progress], object]):
        self._on_batch, self._seen = on_batch, 0

    def turn(self, run: Running, wait: bool = False) -> None:
        if len(run.log.steps) > self._seen:
            self._seen = len(run.log.steps)
            self._on_batch(Progress(run))

    def open(self, run: Running) -> None:
        self._seen = len(run.log.steps)  # those of the run that this one continues

    begin_again = open


@dataclass(frozen=True)
class InlinePage:
    """A page as the value of a notebook's cell. html: the whole page. height: px."""

    html: str
    height: int

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self.height}" style="border: 0" allow="fullscreen"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


@dataclass(frozen=True)
class Result:
    """What a training left. folder: the result folder, as `hardsplat train` writes it. metrics:
    what its metrics.json holds."""

    folder: Path
    metrics: dict = field(repr=False)

    def __str__(self) -> str:
        """Five lines: what was trained, how well, how large, where it is, how to see it."""
        m, last = self.metrics, last_evaluation(self.metrics)
        shown = "not measured: no held-out views"
        if last:
            shown = f"{quality(last)} on {held_out_views(len(last['views']))}"
        return "\n".join(
            (
                f"{Path(m['scene']).name}: {m['steps']} steps on {m['device']['name']}",
                shown,
                f"{m['splats']:,} splats, {m['seconds']['training']:.1f} s of training",
                f"result: {self.folder}",
                f"look around in it: hardsplat view {shlex.quote(str(self.folder))}",
            )
        )

    @cached_property
    def gaussians(self) -> Gaussians:
        """The trained splats, read from splats.ply."""
        return load_splats(self.folder / "splats.ply")

    @property
    def antialiased(self) -> bool:
        """Whether they must be drawn with the 2D filter: hardsplat.Renderer(antialiased=...)."""
        return is_antialiased(self.folder / "splats.ply")

    @property
    def psnr(self) -> float | None:
        """dB, mean over the held-out views after the last step, of what any viewer draws of
        splats.ply, but for a sky, see `psnr_as_splats` in metrics; None where none is held out."""
        last = last_evaluation(self.metrics)
        return last["psnr"] if last else None

    def show(self, height: int = 600) -> InlinePage:
        """The splats in a page that a notebook shows as the value of a cell, from the training
        cameras where the scene is there. height: px. Raises UserError where no splat is left."""
        config = TrainConfig.of(**read_saved(self.folder / SAVED_NAME))
        scene, cameras = config.scene, _cameras(config)
        behind, filtered = BACKGROUNDS[scene.background], config.raster.antialiased
        shown = PageScene(self.folder.name, cameras, scene.near_plane, behind, filtered)
        with TemporaryDirectory() as below:
            path = Path(below) / "page.html"
            write_page(path, self.gaussians, shown, sh_degree=min(self.gaussians.sh_degree, DEGREE))
            return InlinePage(path.read_text(), height)

    def plot(self) -> Figure:
        """A matplotlib figure of loss, PSNR and number of splats by step, which a notebook shows as
        the value of a cell."""
        # plots, which training imports in a thread
        from hardsplat.report import charts

        figure = charts.curves(self.metrics)
        # notebooks show figures of pyplot alone by themselves
        figure._repr_svg_ = lambda: charts.svg(figure).decode()
        return figure


def _cameras(config: TrainConfig) -> dict[str, Camera]:
    if config.scene.data_dir is None:
        return {}
    try:
        scene = load_scene(config.scene.data_dir, **config.scene.reading)
    except UserError:  # it has gone
        return {}
    return {scene.views[i].name: scene.views[i].camera for i in scene.train}


def load_result(folder: str | Path) -> Result:
    """What an earlier training left in its folder. Raises UserError where there is no result."""
    path = Path(folder) / "metrics.json"
    metrics = json_in(path)
    if not isinstance(metrics, dict) or not {"steps", "evaluations", "curve"} <= set(metrics):
        raise UserError(f"{path}: is not of a training; give a result folder of hardsplat train")
    return Result(path.parent, metrics)


def train(
    scene: str | Path | Scene,
    on_batch: Callable[[Progress], object] | None = None,
    *,
    preset: str | Path | None = None,
    config: str | Path | None = None,
    watchers: Sequence[Watcher] = (),
    **settings: Unpack[TrainSettings],
) -> Result:
    """Trains splats from posed photographs, as `hardsplat train` does, and returns the result.

    scene: its folder, see docs/guide/training.md, or a Scene, for example one of
    `Scene.of_images`. on_batch: called between batches (a second of training at most) when another
    one is done; what it raises is printed, and it is not called again. preset: a name in configs/
    or a .toml file; config: the same, as the flag is called. watchers: other observers, such as
    `hardsplat.Server`. settings: the flags of `hardsplat train`.

    Raises UserError for bad input; KeyboardInterrupt after Ctrl-C, with everything saved. The
    device is closed at the end.
    """
    check_known(settings, NAMES)
    if preset is not None and config is not None:
        raise UserError("preset and config are two names of one thing: leave out one of the two")
    preset = config if preset is None else preset
    if isinstance(scene, Scene):
        if clashing := {"data_factor", "test_every", "resume"} & settings.keys():
            raise UserError(
                f"{min(clashing)}: a Scene has its photographs and held-out views already; "
                "give its folder instead"
            )
        own = {**settings, "data_dir": None}
        folder = load_config(preset, own).run.result_dir or Path("results") / scene.name
        resolved = load_config(preset, {**own, "result_dir": folder})
    else:
        resolved = load_config(preset, {**settings, "data_dir": scene})
    watchers = [*watchers, *([_Callback(on_batch)] if on_batch else [])]
    surfaces = [names] if (names := Watchers(watchers).surfaces) else []
    with closing(open_device(resolved.run.device, *surfaces)) as device:
        loader = PhotographLoader(scene) if isinstance(scene, Scene) else None
        with Trainer(resolved, watchers, device, loader) as run:
            return Result(run.folder, run.train())


name_settings(train, TrainSettings.__annotations__, {n: f.default for n, f in FIELDS.items()})
