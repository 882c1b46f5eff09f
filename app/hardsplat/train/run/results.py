"""What a run leaves in its folder, made by threads while it trains: photographs, renders, splats,
checkpoints, the report; metrics.json last, when all else is there.

The report of a long run is made by a process of its own, see hardsplat.report.apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hardsplat.base.clock import PhaseClock
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.media.images import over, save_png, to_uint8
from hardsplat.model.camera import Camera
from hardsplat.results.folder import write_json
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import BACKGROUNDS, Measured
from hardsplat.train.run.photographs import Photographs

if TYPE_CHECKING:
    from hardsplat.report.apart import Apart
    from hardsplat.report.maker import Maker

REPORT = "report.html"
# s of training that are left, from which a process of its own has been started by the time that
# there is a report to make
LONG = 4.0


class Results:
    """The files of a run. All but `finish` return at once. apart: the report may be made by another
    process."""

    def __init__(
        self, folder: Path, config: TrainConfig, photographs: Photographs, apart: bool = False
    ):
        self.folder, self.config, self.photographs, self._may_apart = (
            folder,
            config,
            photographs,
            apart,
        )
        self.scene, self.background = photographs.scene, photographs.background
        self._photos_saved = False
        self._making: Future[Maker | Apart] | None = None
        self._shown: dict[
            str, tuple[Future[np.ndarray], np.ndarray]
        ] = {}  # renders, which threads make, and photographs that the report shows

    def begin(self) -> None:
        """What can be made before the first step: the held-out photographs as pictures."""
        self._photos_saved = self.photographs.each_held_out(self._save_photo)

    def _save_photo(self, name: str, photo: np.ndarray) -> None:
        save_png(self._path(name, "photo"), over(photo, BACKGROUNDS[self.config.scene.background]))

    def _path(self, name: str, part: str) -> Path:
        from hardsplat.report.page import comparison_name

        return self.folder / "renders" / comparison_name(name, part)

    # -- on the way --------------------------------------------------------------------------------

    def comparison(self, m: Measured) -> None:
        """The render of a held-out view beside its photograph; some are kept for the report."""
        from hardsplat.report.page import spread

        assert m.target is not None

        def work() -> np.ndarray:
            image = m.image
            assert image is not None
            render = to_uint8(image)
            save_png(self._path(m.name, "render"), render)
            if not self._photos_saved:
                save_png(self._path(m.name, "photo"), m.photo)
            return render

        render = self.background.do("renders", work, m.target.nbytes + m.photo.nbytes)
        if m.name in spread([self.scene.views[i].name for i in self.scene.test]):
            self._shown[m.name] = render, m.photo

    def splats(self, planes: Mapping[str, np.ndarray], *names: str) -> Future:
        """Splats from their trained values, (planes, N, width) by name, as PLY files of these
        names."""
        from hardsplat.io.splats import save_planes

        def work():
            for name in names:
                save_planes(self.folder / name, planes, self.config.raster.antialiased)

        return self.background.do(
            "splats", work, sum(values.nbytes for values in planes.values()), line="splats"
        )

    def checkpoint(self, state: Checkpoint) -> Future:
        """A checkpoint; older ones go, but for those of --save-steps."""
        return self.background.do(
            "checkpoint",
            partial(self._checkpoint, state),
            sum(values.nbytes for values in state.buffers.values()),
            line="checkpoint",
        )

    def last_checkpoint(self, state: Checkpoint, log: Future[dict], over: bool) -> None:
        """The checkpoint after the last step, written while held-out views are measured. log: its
        log, which is known after that.

        over: the run is, and the command waits for this file. It is then not synced to the disk,
        which takes some 10 s a GB and is all that a finished run would wait for: splats.ply is
        synced, and so is the checkpoint before this one, which stays.
        """
        self.background.do(
            "checkpoint", partial(self._checkpoint, state, log, durable=not over), line="checkpoint"
        )  # its memory is taken anyhow, and nothing may wait for it

    def _checkpoint(
        self, state: Checkpoint, log: Future[dict] | None = None, durable: bool = True
    ) -> None:
        checkpoints.save(checkpoints.path_of(self.folder, state.step), state, durable, log)
        checkpoints.prune(self.folder, self.config.run.save_steps)

    def learnt(self, state: Checkpoint, held_out: Sequence[Camera]) -> None:
        """What was learnt of photographs, where anything was. held_out: refined cameras of the
        held-out views, if there are any."""
        from hardsplat.train.measure.learnt import save_learnt

        if (
            self.config.exposure.exposure != "none"
            or self.config.poses.pose_opt
            or self.config.intrinsics.intrinsics_opt
        ):
            self.background.do(
                "learnt", lambda: save_learnt(self.folder, self.config, self.scene, state, held_out)
            )

    def prepare(self, seconds_left: float) -> None:
        """Has whatever will make the report made ready, once. seconds_left: of training, about."""
        if self._making is None:
            apart = self._may_apart and seconds_left > LONG
            self._making = self.background.do("report", partial(_maker, apart), line="report")

    def viewer(self, planes: Mapping[str, np.ndarray], name: str | None) -> None:
        """The report's viewer of splats from their trained values, which begins at the held-out
        view `name`. Made from memory while held-out views are measured."""

        def work(maker):
            from hardsplat.report.maker import for_viewer
            from hardsplat.report.run import shown_of

            antialiased = self.config.raster.antialiased
            shown = shown_of(self.scene, self.config.scene, antialiased, name)
            maker.viewer(for_viewer(planes, list(shown.cameras.values())), shown)

        self._report(work)

    def picture(self, name: str | None) -> None:
        """What the viewer begins with: the render of that view, where it is one of those that were
        shown."""
        render = self._shown[name][0].result if name in self._shown else lambda: None
        self._report(lambda maker: maker.picture(render()))

    def plots(self, metrics: dict) -> None:
        """Those plots of the report that do without the last measurement. metrics: as `finish` will
        be given them, but for that."""
        self._report(lambda maker: maker.plots(metrics))

    def _report(self, work: Callable[[Maker | Apart], object]) -> None:
        """Has work(whatever makes the report) done, after what was asked for before."""
        self.prepare(0)
        assert self._making is not None
        making = self._making
        self.background.do("report", lambda: work(making.result()), line="report")

    # -- at the end --------------------------------------------------------------------------------

    def finish(self, metrics: dict, parts: PhaseClock) -> dict:
        """Writes plots and the report, waits for all that was begun, then writes metrics.json with
        the seconds of all `parts`, and returns it.

        A report that cannot be written costs a note. Raises UserError for other files.
        """
        metrics["seconds"]["parts"] = parts.read()
        self._report(lambda maker: self._write_report(maker, metrics))
        self.background.finish(self.config.run.quiet)
        metrics["seconds"]["parts"] = parts.read()
        write_json(self.folder / "metrics.json", metrics)
        return metrics

    def _write_report(self, maker: Maker | Apart, metrics: dict) -> None:
        shown = {name: (render.result(), photo) for name, (render, photo) in self._shown.items()}
        if note := maker.report(self.folder, metrics, shown):
            tqdm.write(f"note: {note}")

    def close(self) -> None:
        """Drops what has not begun."""
        self.background.close()
        if (
            self._making
            and self._making.done()
            and not self._making.cancelled()
            and not self._making.exception()
        ):
            self._making.result().close()


def _maker(apart: bool) -> Maker | Apart:
    if apart:
        from hardsplat.report.apart import Apart

        return Apart()
    from hardsplat.report.maker import Maker

    maker = Maker()
    maker.warm()
    return maker


def is_complete(folder: Path, steps: int) -> bool:
    """Whether a run of so many steps has written all its files: metrics.json is the last of
    them."""
    try:
        return (
            json.loads((folder / "metrics.json").read_text())["steps"] == steps
            and (folder / "splats.ply").is_file()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False
