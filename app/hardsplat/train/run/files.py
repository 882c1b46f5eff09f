"""What a run leaves in its folder, made by threads while it trains: photographs, renders, splats,
checkpoints, the report; metrics.json last, when all else is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import outcome
from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import reason
from hardsplat.base.files import sync_later
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.media.images import over, save_png, to_uint8
from hardsplat.model.camera import Camera
from hardsplat.model.sky import Sky
from hardsplat.results.folder import write_json
from hardsplat.results.pictures import comparison_name, some_of
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train.features import save_found
from hardsplat.train.features.feature import Found
from hardsplat.train.job.job import Job
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.session.session import Session

T = TypeVar("T")
REPORT = "report.html"
LATE = 1 << 25  # bytes of splats from which a finished run has them synced after its end


class RunFiles:
    """The files of a run. All but `finish` and `drop_checkpoints` return at once."""

    def __init__(self, folder: Path, session: Session, photographs: PhotographLoader):
        self.folder, self.photographs, self._session = folder, photographs, session
        self.scene, self.background = photographs.scene, photographs.background
        self._photos_saved = self._late = False  # late: large files are synced after the end
        self._prepared = False
        # the report's viewer, and the render that it begins with
        self._viewer: Future[str | None] | None = None
        self._first: Future[Future[np.ndarray] | None] = Future()
        self._unsynced: tuple[Path, ...] = ()  # what a finished run has left to be synced
        # renders, which threads make, and photographs that the report shows
        self._shown: dict[str, tuple[Future[np.ndarray], np.ndarray]] = {}

    @property
    def job(self) -> Job:
        return self._session.job

    def begin(self) -> None:
        """Makes what can be made before the first step: the held-out photographs as pictures."""
        self._photos_saved = self.photographs.each_held_out(self._save_photo)

    def _save_photo(self, name: str, photo: np.ndarray) -> None:
        background = BACKGROUNDS[self.job.config.scene.background]
        save_png(self._path(name, "photo"), over(photo, background))

    def _path(self, name: str, part: str) -> Path:
        return self.folder / "renders" / comparison_name(name, part)

    # -- on the way --------------------------------------------------------------------------------

    def comparison(self, m: Measured) -> None:
        """The render of a held-out view and its photograph; some are kept for the report."""
        assert m.target is not None

        def work() -> np.ndarray:
            image = m.image
            assert image is not None
            render = to_uint8(image)
            save_png(self._path(m.name, "render"), render)
            if not self._photos_saved:
                save_png(self._path(m.name, "photo"), m.photo)
            return render

        render = self.background.do("renders", work, m.target.nbytes + m.source.nbytes)
        if m.name in some_of([self.scene.views[i].name for i in self.scene.test]):
            self._shown[m.name] = render, m.photo

    def splats(
        self,
        planes: Mapping[str, np.ndarray],
        *names: str,
        over: bool = False,
        sky: Sky | None = None,
    ) -> Future:
        """Splats from their trained values, (planes, N, width) by name, as PLY files of these
        names. over: see last_checkpoint. sky: behind them, which becomes splats too."""
        from hardsplat.io.splats import save_planes

        nbytes = _bytes_of(planes)
        self._late = over and nbytes > LATE

        def work() -> None:
            durable, antialiased = not self._late, self.job.config.raster.antialiased
            all_planes, of_sky = self.with_sky(planes, sky)
            if sky is not None:
                from hardsplat.io.sky import save_sky

                save_sky(self.folder, sky, of_sky, durable)
            for name in names:
                save_planes(self.folder / name, all_planes, antialiased, durable)

        return self.background.do("splats", work, nbytes, line="splats")

    def with_sky(
        self, planes: Mapping[str, np.ndarray], sky: Sky | None
    ) -> tuple[Mapping[str, np.ndarray], int]:
        """Splats and those of the sky, and how many the sky has."""
        if sky is None:
            return planes, 0
        from hardsplat.io.sky import with_sphere

        views = self.job.views
        return with_sphere(planes, sky, views.cameras, views.extent)

    def checkpoint(self, state: Checkpoint) -> Future:
        """A checkpoint; older ones go, but for those of --save-steps."""
        work, nbytes = partial(self._checkpoint, state), _bytes_of(state.buffers)
        return self.background.do("checkpoint", work, nbytes, line="checkpoint")

    def drop_checkpoints(self) -> None:
        """Deletes all checkpoints, after those that are being written."""
        work = partial(checkpoints.prune, self.folder, (), 0)
        outcome(self.background.do("checkpoints", work, line="checkpoint"), "the checkpoints")

    def last_checkpoint(self, state: Checkpoint, log: Future[dict], over: bool) -> None:
        """The checkpoint after the last step, written while held-out views are measured. log: its
        log, which is known after that.

        over: the run is, and the command waits for its files. Large ones are then synced to the
        disk after its end, see sync_later; the checkpoint before this one, which stays, is synced.
        """
        # its memory is taken anyhow, and nothing may wait for it
        work = partial(self._checkpoint, state, log, durable=not over)
        self.background.do("checkpoint", work, line="checkpoint")

    def _checkpoint(
        self, state: Checkpoint, log: Future[dict] | None = None, durable: bool = True
    ) -> None:
        checkpoints.save(checkpoints.path_of(self.folder, state.step), state, durable, log)
        checkpoints.prune(self.folder, self.job.config.run.save_steps)

    def learnt(self, state: Checkpoint, held_out: Sequence[Camera]) -> None:
        """What was found of photographs, where anything was. held_out: refined cameras of the
        held-out views, if there are any."""
        found = Found(self.folder, self.job, self.scene, state.buffers, held_out)
        self.background.do("learnt", partial(save_found, found))

    def prepare(self) -> None:
        """Has what draws the report imported, once: it takes half a second."""
        if not self._prepared and self.job.part.reports:
            self._prepared = True
            self.background.do("report", _prepare, line="report")

    def viewer(
        self, planes: Mapping[str, np.ndarray], name: str | None, sky: Sky | None = None
    ) -> None:
        """The report's viewer of splats from their trained values, which begins at the held-out
        view `name`. Made while held-out views are measured. sky: see splats."""

        def work() -> str | None:
            from hardsplat.report.run import shown_of, viewer_of

            c = self.job.config
            shown = shown_of(self.scene, c.scene, c.raster.antialiased, name)
            return viewer_of(self.with_sky(planes, sky)[0], shown, self._first_render)

        if self.job.part.reports:
            guarded = partial(_guarded, work, "the report has no view in 3D")
            self._viewer = self.background.do("viewer", guarded, line="viewer")

    def _first_render(self) -> np.ndarray | None:
        render = self._first.result()
        return render.result() if render else None

    def picture(self, name: str | None) -> None:
        """What the viewer begins with: the render of that view, where it is one of those that were
        shown."""
        if not self._first.done():
            self._first.set_result(self._shown[name][0] if name in self._shown else None)

    # -- at the end --------------------------------------------------------------------------------

    def report(self, metrics: dict, clock: PhaseClock) -> None:
        """Begins with the report and its curves. metrics: as `finish` will be given them."""
        metrics["seconds"]["parts"] = clock.read()
        self.picture(None)
        if self.job.part.reports:
            work, lost = (
                partial(self._write_report, metrics),
                f"{self.folder / REPORT} is not written",
            )
            self.background.do("report", partial(_guarded, work, lost), line="report")

    def finish(self, metrics: dict, clock: PhaseClock) -> dict:
        """Waits for all that was started, then writes metrics.json with the seconds of all phases
        and of what was waited for, and returns it. Raises UserError for a file that cannot be
        written; of a report a note says so."""
        metrics["seconds"]["files"] = self.background.finish(self.job.config.run.quiet)
        metrics["seconds"]["parts"] = clock.read()
        path = self.folder / "metrics.json"
        write_json(path, metrics, durable=not self._late)
        if self._late:
            last = checkpoints.path_of(self.folder, metrics["steps"])
            self._unsynced = self.folder / "splats.ply", path, self.folder, last, last.parent
        return metrics

    def sync(self) -> None:
        """Has what is not on the disk yet written there by a process that outlives this one: last
        of all, since the file system makes others wait meanwhile."""
        if self._unsynced:
            sync_later(*self._unsynced)
            self._unsynced = ()

    def _write_report(self, metrics: dict) -> None:
        from hardsplat.report.run import write_report

        shown = {name: (render.result(), photo) for name, (render, photo) in self._shown.items()}
        viewer = self._viewer.result() if self._viewer else None
        write_report(self.folder, metrics, shown, viewer)

    def close(self) -> None:
        """Drops what was not started."""
        self.picture(None)
        self.background.close()


def _bytes_of(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(values.nbytes for values in arrays.values())


def _prepare() -> None:
    from hardsplat.report.run import prepare

    with suppress(Exception):  # what fails here does so again at the end, which says it
        prepare()


def _guarded(work: Callable[[], T], lost: str) -> T | None:
    """The result of work that belongs to the report. Where it fails, a note says what is lost."""
    try:
        return work()
    except Exception as error:  # any at all: nothing that was trained depends on the report
        tqdm.write(f"note: {lost}: {reason(error)}")
        return None
