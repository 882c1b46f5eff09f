"""Makes the report of a run from what the run hands over as it comes, so that little is left to be
done at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hardsplat.base.errors import reason
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import OWN, Gaussians
from hardsplat.page.choose import foremost
from hardsplat.page.export import PageScene, small_viewer
from hardsplat.report import run
from hardsplat.report.page import prepare
from hardsplat.report.plots import curves, early_plots
from hardsplat.report.run import MOST_SHOWN, NAME, page_values, viewer_of

# s that the viewer waits for its picture; the caller gives one, or None, soon after the splats
_PATIENCE = 60.0


class Maker:
    """`viewer` and `plots` begin what `html` and `page` wait for. All methods are called in one
    thread."""

    def __init__(self) -> None:
        self._drawing = ThreadPoolExecutor(1, "plots")
        self._choosing = ThreadPoolExecutor(1, "viewer")
        self._picture: Future[np.ndarray | None] = Future()
        self._viewer: Future[str | None] | None = None
        self._plots: Future[dict[str, str]] | None = None
        self._drawn: Future[None] | None = None
        self._values: Future[dict] | None = None

    # -- the viewer

    def viewer(self, planes: Mapping[str, np.ndarray], shown: PageScene) -> None:
        """Begins with the viewer of these splats (see `for_viewer`). The picture of its first view
        is that of `picture`."""
        picture = lambda: self._picture.result(_PATIENCE)  # noqa: E731
        make = lambda: viewer_of(Gaussians.from_planes(planes), shown, picture)  # noqa: E731
        self._viewer = self._choosing.submit(make)

    def warm_viewer(self) -> None:
        """Makes a viewer of a few splats, for what the first one imports and loads."""
        self._choosing.submit(_first_viewer)

    def picture(self, image: np.ndarray | None) -> None:
        """(H, W, 3) uint8, what the viewer's first camera sees; None where that is not known."""
        self._picture.set_result(image)

    def html(self) -> str | None:
        """The viewer as HTML; None where there is none, because no splat is left or none was handed
        over."""
        if not self._picture.done():
            self._picture.set_result(None)
        return self._viewer.result() if self._viewer else None

    # -- plots and the page

    def warm(self) -> None:
        """Imports what draws plots and fills pages, and draws a plot of each kind: the first ones
        take a second, for which a run does not wait while it trains."""
        self._drawing.submit(_warm)

    def plots(self, metrics: dict) -> None:
        """Begins with those plots that do without the last measurement. metrics: as `draw` will be
        given them, but for that."""
        self._plots = self._drawing.submit(early_plots, metrics)

    def draw(
        self, folder: Path, metrics: dict, comparisons: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """Begins with loss.png, and with what is on the page but the viewer. comparisons: see
        page_values."""
        plots = self._plots
        early = lambda: plots.result() if plots else None  # noqa: E731
        values = lambda: page_values(folder, metrics, comparisons, early())  # noqa: E731
        self._values = self._drawing.submit(values)
        self._drawn = self._drawing.submit(save_plots, folder, metrics)

    def page(self, folder: Path, html: str | None) -> str | None:
        """Writes report.html after `draw`. What kept the page from being written, or None. Raises
        UserError where loss.png cannot be written."""
        assert self._values is not None and self._drawn is not None
        note = None
        try:
            run.write_values(folder, self._values.result(), html)
        except Exception as error:  # any at all: nothing that was trained depends on the page
            note = f"{folder / NAME} was not written: {reason(error)}"
        self._drawn.result()
        return note

    def report(
        self, folder: Path, metrics: dict, comparisons: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> str | None:
        """`draw` and `page` with the viewer that was begun."""
        self.draw(folder, metrics, comparisons)
        try:
            html = self.html()
        except Exception as error:  # any at all, as in `page`
            html = None
            run.log.info("note: the report has no view in 3D: %s", reason(error))
        return self.page(folder, html)

    def close(self) -> None:
        """Drops what has not begun, waits for what has."""
        if not self._picture.done():
            self._picture.set_result(None)
        for threads in (self._drawing, self._choosing):
            threads.shutdown(wait=True, cancel_futures=True)


def for_viewer(
    planes: Mapping[str, np.ndarray], cameras: Sequence[Camera]
) -> dict[str, np.ndarray]:
    """Picks from the trained values of splats, (planes, N, width) by name, those of the viewer:
    colour up to SH degree 1, and of very many splats those that matter most."""
    own = {name: planes[name] for name in OWN} | {"shN": planes["shN"][:3]}
    if own["means"].shape[1] > MOST_SHOWN:
        chosen = foremost(Gaussians.from_planes(own), cameras, MOST_SHOWN)
        own = {name: values[:, chosen] for name, values in own.items()}
    return own


def save_plots(folder: Path, metrics: dict) -> None:
    """loss.png: loss, PSNR and number of splats over steps. Raises UserError when it cannot be
    written."""
    from hardsplat.report.charts import save

    if metrics["curve"]["step"]:
        save(curves(metrics), folder / "loss.png")


def _warm() -> None:
    import io

    from hardsplat.report.charts import svg

    nothing = dict(step=[1, 10, 100], loss=[1.0, 0.1, 0.01])
    nothing |= dict(psnr=[10.0, 20.0, 30.0], splats=[1000, 2000, 3000])
    figure = curves({"curve": nothing, "evaluations": []})
    svg(figure)
    figure.savefig(io.BytesIO(), format="png")
    prepare()


def _first_viewer() -> None:
    n = 3000
    means, quats, sh = np.split(np.random.default_rng(0).normal(size=(n, 19)), [3, 7], axis=1)
    scales, opacities = np.full((n, 3), 0.1), np.full(n, 0.5)
    gaussians = Gaussians(means, quats, scales, opacities, sh.reshape(n, 4, 3))
    camera = Camera(np.eye(4), np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]]), 64, 48)
    picture = lambda: np.zeros((48, 64, 3), np.uint8)  # noqa: E731
    small_viewer(gaussians, PageScene("", {"a": camera}), budget_bytes=85_000, picture=picture)
