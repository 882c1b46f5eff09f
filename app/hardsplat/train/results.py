"""What a run leaves in its folder, made by threads while it trains: photographs, renders, splats, checkpoints, the report; metrics.json last, when all else is there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.camera import Camera
from hardsplat.config import TrainConfig
from hardsplat.gaussians import Gaussians
from hardsplat.io.images import over, save_png, to_uint8
from hardsplat.io.scene import Scene, View, load_images
from hardsplat.parts import Parts
from hardsplat.train import checkpoint as checkpoints
from hardsplat.train.background import Background
from hardsplat.train.checkpoint import Checkpoint
from hardsplat.train.evaluate import BACKGROUNDS, Measured
from hardsplat.train.report import save_plots, write_json

KEPT_BYTES = 2 << 30  # of held-out photographs that stay in memory for all measurements; more of them are read for each
REPORT = "report.html"


class Results:
    """The files of a run. All but `saved`, `held_out` and `finish` return at once."""

    def __init__(self, folder: Path, config: TrainConfig, scene: Scene):
        self.folder, self.config, self.scene = folder, config, scene
        self.background = Background()
        self.background.do("imports", _import_neighbours, line="imports")
        self._photos: list[Future] | None = None
        self._viewer: Future | None = None
        self._plots: Future | None = None
        self._shown: dict[str, tuple[Future[np.ndarray], np.ndarray]] = {}  # renders, which threads make, and photographs that the report shows

    # -- held-out photographs --------------------------------------------------------------------------------------------------

    def _read_held_out(self) -> list[Future] | None:
        views = [self.scene.views[i] for i in self.scene.test]
        size = sum(4 * v.camera.width * v.camera.height for v in views)
        if size > min(KEPT_BYTES, self.background.room):
            return None
        return [self.background.do("held-out photographs", view.load) for view in views]

    def held_out(self) -> Iterator[np.ndarray]:
        """The held-out photographs in order, as View.load gives them. Raises UserError for one that cannot be read."""
        if self._photos is not None:
            return (photo.result() for photo in self._photos)
        return load_images([self.scene.views[i] for i in self.scene.test], progress=False)

    def read(self, views: Sequence[View]) -> Iterator[np.ndarray]:
        """Photographs in order, which threads begin to read now, with a bar while they are waited for. Raises UserError for one that cannot be read."""
        photos = [self.background.do("photographs", view.load) for view in views]
        self._photos = self._read_held_out()

        def images():
            for photo in tqdm(photos, desc="photographs", unit="", disable=True if self.config.quiet else None):
                yield photo.result()

        return images()

    def begin(self) -> None:
        """What can be made before the first step: the held-out photographs as pictures, and imports that the report will need."""
        self.background.do("plots", _warm_plots, line="plots")
        if self._photos is not None:
            for i, photo in zip(self.scene.test, self._photos):
                self.background.do("photographs", partial(self._save_photo, self.scene.views[i].name, photo))

    def _save_photo(self, name: str, photo: Future[np.ndarray]) -> None:
        save_png(self._path(name, "photo"), over(photo.result(), BACKGROUNDS[self.config.background]))

    def _path(self, name: str, part: str) -> Path:
        from hardsplat.report.page import comparison_name

        return self.folder / "renders" / comparison_name(name, part)

    # -- on the way ------------------------------------------------------------------------------------------------------------

    def comparison(self, m: Measured) -> None:
        """The render of a held-out view beside its photograph; some are kept for the report."""
        from hardsplat.report.page import spread

        assert m.image is not None
        image = m.image

        def work() -> np.ndarray:
            render = to_uint8(image)
            save_png(self._path(m.name, "render"), render)
            if self._photos is None:
                save_png(self._path(m.name, "photo"), m.photo)
            return render

        render = self.background.do("renders", work, image.nbytes + m.photo.nbytes)
        if m.name in spread([self.scene.views[i].name for i in self.scene.test]):
            self._shown[m.name] = render, m.photo

    def gaussians(self, planes: Mapping[str, np.ndarray]) -> Future[Gaussians]:
        """Splats from the trained values that a session or a checkpoint has, by name."""
        return self.background.do("splats", lambda: Gaussians.from_planes(planes), 2 * sum(values.nbytes for values in planes.values()))

    def splats(self, gaussians: Future[Gaussians], *names: str) -> Future:
        """The splats as PLY files of these names."""
        from hardsplat.io.ply import save_ply

        def work():
            for name in names:
                save_ply(self.folder / name, gaussians.result(), self.config.antialiased)

        return self.background.do("splats", work, line="splats")

    def checkpoint(self, state: Checkpoint, last: bool = False) -> Future:
        """A checkpoint; older ones go, but for those of --save-steps.

        last: the run is over, and the command waits for this file. It is then not synced to the disk, which takes some 10 s a GB and is all that a finished run would wait for:
        splats.ply is synced, and so is the checkpoint before this one, which stays.
        """

        def work():
            checkpoints.save(checkpoints.path_of(self.folder, state.step), state, durable=not last)
            checkpoints.prune(self.folder, self.config.save_steps)

        return self.background.do("checkpoint", work, sum(values.nbytes for values in state.buffers.values()), line="checkpoint")

    def learnt(self, state: Checkpoint, held_out: Sequence[Camera]) -> None:
        """What was learnt of photographs, where anything was. held_out: refined cameras of the held-out views, if there are any."""
        from hardsplat.train.learnt import save_learnt

        if self.config.exposure != "none" or self.config.pose_opt or self.config.intrinsics_opt:
            self.background.do("learnt", lambda: save_learnt(self.folder, self.config, self.scene, state, held_out))

    def viewer(self, gaussians: Future[Gaussians], name: str | None) -> None:
        """The report's viewer, which begins at the held-out view `name`, shown before. Made from memory while held-out views are measured."""
        from hardsplat.report.run import viewer_of

        picture = self._shown[name][0].result if name in self._shown else lambda: None
        self._viewer = self.background.do("report", lambda: viewer_of(gaussians.result(), self.scene, self.config, name, picture()), line="viewer")

    def plots(self, metrics: dict) -> None:
        """Those plots of the report that do without the last measurement. metrics: as `finish` will be given them, but for that."""
        from hardsplat.report.run import early_plots

        self._plots = self.background.do("plots", lambda: early_plots(metrics), line="plots")

    # -- at the end ------------------------------------------------------------------------------------------------------------

    def finish(self, metrics: dict, parts: Parts) -> dict:
        """Writes plots and the report, waits for all that was begun, then writes metrics.json with the seconds of all `parts`, and returns it.

        A report that cannot be written costs a note. Raises UserError for other files.
        """
        metrics["seconds"]["parts"] = parts.read()
        self.background.do("plots", lambda: save_plots(self.folder, metrics), line="plots")
        self.background.do("report", lambda: self._report(metrics), line="plots")
        self.background.finish(self.config.quiet)
        metrics["seconds"]["parts"] = parts.read()
        write_json(self.folder / "metrics.json", metrics)
        return metrics

    def _report(self, metrics: dict) -> None:
        from hardsplat.report.run import Made, write_report

        try:
            shown = {name: (render.result(), photo) for name, (render, photo) in self._shown.items()}
            write_report(self.folder, Made(metrics, shown, self._viewer.result() if self._viewer else None, self._plots.result() if self._plots else {}))
        except Exception as error:  # whatever it is: nothing that was trained depends on the page
            tqdm.write(f"note: {self.folder / REPORT} was not written: {str(error) or type(error).__name__}")

    def close(self) -> None:
        """Drops what has not begun."""
        self.background.close()


def _import_neighbours() -> None:
    import scipy.spatial  # noqa: F401


def _warm_plots() -> None:
    """Imports what draws plots, and draws one of each kind: the first ones take a second, for which nobody has to wait while it trains."""
    from hardsplat.report.charts import svg
    from hardsplat.report.run import curves

    nothing = {"step": [1, 10, 100], "loss": [1.0, 0.1, 0.01], "psnr": [10.0, 20.0, 30.0], "splats": [1000, 2000, 3000]}
    figure = curves({"curve": nothing, "evaluations": []})
    svg(figure)
    figure.savefig(io.BytesIO(), format="png")


def is_complete(folder: Path, steps: int) -> bool:
    """Whether a run of so many steps has written all its files: metrics.json is the last of them."""
    try:
        return json.loads((folder / "metrics.json").read_text())["steps"] == steps and (folder / "splats.ply").is_file()
    except (OSError, ValueError, KeyError, TypeError):
        return False
