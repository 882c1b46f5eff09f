"""What a run leaves in its folder and when, made by threads while it trains: photographs, renders,
splats, checkpoints, the report; metrics.json last, when all else is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import outcome
from hardsplat.base.clock import PhaseClock
from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import sync_later, write_json
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.media.images import over, save_png, to_uint8
from hardsplat.model.camera import Camera
from hardsplat.results.pictures import comparison_name, some_of
from hardsplat.tables.pictures import BACKGROUNDS
from hardsplat.train.features import save_found
from hardsplat.train.features.feature import Found
from hardsplat.train.job.job import Job
from hardsplat.train.measure.measure import Measured
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.session.session import Session

if TYPE_CHECKING:
    from hardsplat.page.choose import Choice
    from hardsplat.page.export import PageScene
    from hardsplat.report.charts import CurvesAhead

T = TypeVar("T")
REPORT = "report.html"
LATE = 1 << 25  # bytes of splats from which a finished run has them synced after its end


class RunFiles:
    """The files of a run. All but `finish` and `drop_checkpoints` return at once."""

    def __init__(self, folder: Path, session: Session, photographs: PhotographLoader):
        self.folder, self.photographs, self._session = folder, photographs, session
        self.scene, self.background = photographs.scene, photographs.background
        self._photos_saved = self._late = False  # late: large files are synced after the end
        self._curves: Future[CurvesAhead | None] | None = None  # of the report
        # the report's viewer, and the render that it begins with
        self._viewer: Future[str | None] | None = None
        self._choice: Future[Choice | None] | None = None  # of its splats
        self._opening_render: Future[Future[np.ndarray] | None] = Future()
        self._viewer_stopped = False
        self._unsynced: tuple[Path, ...] = ()  # what a finished run has left to be synced
        # held-out views that the report shows, renders of them, which threads make, and photographs
        self._report_names = some_of([self.scene.views[i].name for i in self.scene.test])
        self._report_renders: dict[str, tuple[Future[np.ndarray], np.ndarray]] = {}

    @property
    def job(self) -> Job:
        return self._session.job

    def save_photographs(self) -> None:
        """Makes what can be made before the first step: the held-out photographs as pictures."""
        self._photos_saved = self.photographs.each_held_out(self._save_photo)

    def _save_photo(self, name: str, photo: np.ndarray) -> None:
        background = BACKGROUNDS[self.job.config.scene.background]
        save_png(self._path(name, "photo"), over(photo, background))

    def _path(self, name: str, part: str) -> Path:
        return self.folder / "renders" / comparison_name(name, part)

    # -- on the way --------------------------------------------------------------------------------

    def save_comparison(self, m: Measured) -> None:
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
        if m.name in self._report_names:
            self._report_renders[m.name] = render, m.photo

    def save_splats(
        self, planes: Mapping[str, np.ndarray], *names: str, over: bool = False
    ) -> Future:
        """A model from its trained values, (planes, items, width) by name, as PLY files of these
        names. over: see save_last_checkpoint."""
        nbytes, views = _bytes_of(planes), self.job.views
        self._late = over and nbytes > LATE

        def work() -> None:
            from hardsplat.io.model import save_model

            durable, antialiased = not self._late, self.job.config.raster.antialiased
            cameras, extent = views.cameras, views.extent
            save_model(self.folder, names, planes, cameras, extent, antialiased, durable)

        return self.background.do("splats", work, nbytes, line="splats")

    def all_splats(self, planes: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The trained values of all splats of these files."""
        from hardsplat.io.model import all_splats

        return all_splats(planes, self.job.views.cameras, self.job.views.extent)

    def save_checkpoint(self, state: Checkpoint) -> Future:
        """A checkpoint; older ones go, but for those of --save-steps."""
        work, nbytes = partial(self._checkpoint, state), _bytes_of(state.buffers)
        return self.background.do("checkpoint", work, nbytes, line="checkpoint")

    def drop_checkpoints(self) -> None:
        """Deletes all checkpoints, after those that are being written."""
        work = partial(checkpoints.prune, self.folder, (), 0)
        outcome(self.background.do("checkpoints", work, line="checkpoint"), "the checkpoints")

    def save_last_checkpoint(self, state: Checkpoint, log: Future[dict], over: bool) -> None:
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

    def save_learnt(self, state: Checkpoint, held_out: Sequence[Camera]) -> None:
        """What was found of photographs, where anything was. held_out: refined cameras of the
        held-out views, if there are any."""
        found = Found(self.folder, self.job, self.scene, state.buffers, held_out)
        self.background.do("learnt", partial(save_found, found))

    def import_report(self) -> None:
        """Has what ends a run and draws the report imported, once: it takes half a second."""
        if self._curves is None and self.job.part.reports:
            self._curves = self.background.do("report", _import_report, line="report")

    def draw_curves(self, curve: Mapping[str, list]) -> None:
        """Draws what the last measurement will not change. curve: of the metrics, which has the
        last step."""
        if self._curves:
            self._curves = self.background.do(
                "report", partial(_drawn, self._curves, curve), line="report"
            )

    def choose_for_viewer(self, planes: Mapping[str, np.ndarray]) -> None:
        """Has the splats of the report's viewer chosen ahead, by trained values of CHOSEN_BY."""

        def work() -> Choice | None:
            from hardsplat.report.run import viewer_choice

            with suppress(Exception):  # what fails here does so again at the end, which says it
                return viewer_choice(planes, self._page_scene())
            return None

        self._choice = self.background.do("viewer", work, _bytes_of(planes), line="viewer")

    def _page_scene(self, measured: bool = True) -> PageScene:
        from hardsplat.report.run import shown_of

        c, held_out = self.job.config, self.scene.held_out
        first = held_out[0].name if measured and held_out else None
        return shown_of(self.scene, c.scene, c.raster.antialiased, first)

    def begin_viewer(self, planes: Mapping[str, np.ndarray], measured: bool) -> None:
        """The report's viewer of a model from its trained values. It is made while held-out views
        are `measured`, and begins at the first of them."""

        def work() -> str | None:
            from hardsplat.report.run import viewer_of

            shown = self._page_scene(measured)
            chosen = self._choice.result() if self._choice else None
            everything = self.all_splats(planes)
            return viewer_of(everything, shown, self._first_render, chosen, self._check)

        if self.job.part.reports:
            guarded = partial(_guarded, work, "the report has no view in 3D")
            self._viewer = self.background.do("viewer", guarded, line="viewer")

    def _first_render(self) -> np.ndarray | None:
        render = self._opening_render.result()
        return render.result() if render else None

    def _check(self) -> None:
        if self._viewer_stopped:
            raise UserError("the run was stopped")

    def end_viewer(self) -> None:
        """Has the report do without its viewer, unless that is nearly there: the run is asked
        to end."""
        self._viewer_stopped = True
        self.show_first(None)

    def show_first(self, name: str | None) -> None:
        """What the viewer begins with: the render of that view, where it is one of those that were
        shown."""
        if not self._opening_render.done():
            shown = self._report_renders.get(name) if name else None
            self._opening_render.set_result(shown[0] if shown else None)

    # -- at the end --------------------------------------------------------------------------------

    def begin_report(self, metrics: dict, clock: PhaseClock) -> None:
        """Begins with the report and its curves. metrics: as `finish` will be given them."""
        metrics["seconds"]["parts"] = clock.read()
        self.show_first(None)
        if self.job.part.reports:
            work = partial(self._write_report, metrics)
            lost = f"{self.folder / REPORT} is not written"
            self.background.do("report", partial(_guarded, work, lost), line="report")

    def finish(self, metrics: dict, clock: PhaseClock, turn: Callable[[], object]) -> dict:
        """Waits for all that was started, then writes metrics.json with the seconds of all phases
        and of what was waited for, and returns it. turn: see Background.finish. Raises UserError
        for a file that cannot be written; of a report a note says so."""
        metrics["seconds"]["files"] = self.background.finish(self.job.config.run.quiet, turn)
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

        pairs = self._report_renders.items()
        shown = {name: (render.result(), photo) for name, (render, photo) in pairs}
        ahead = self._curves.result() if self._curves else None
        viewer = self._viewer
        # curves and pictures are made meanwhile
        wait = lambda: viewer.result() if viewer else None  # noqa: E731
        write_report(self.folder, metrics, shown, wait, ahead)

    def close(self) -> None:
        """Drops what was not started, and the viewer."""
        self.end_viewer()
        self.background.close()


def _bytes_of(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(values.nbytes for values in arrays.values())


def _import_report() -> CurvesAhead | None:
    import hardsplat.model.between  # noqa: F401, of Session.finish
    from hardsplat.report.run import prepare

    with suppress(Exception):  # what fails here does so again at the end, which says it
        return prepare()
    return None


def _drawn(prepared: Future[CurvesAhead | None], curve: Mapping[str, list]) -> CurvesAhead | None:
    with suppress(Exception):  # likewise
        if ahead := prepared.result():
            ahead.draw(curve)
            return ahead
    return None


def _guarded(work: Callable[[], T], lost: str) -> T | None:
    """The result of work that belongs to the report. Where it fails, a note says what is lost."""
    try:
        return work()
    except Exception as error:  # any at all: nothing that was trained depends on the report
        tqdm.write(f"note: {lost}: {reason(error)}")
        return None
