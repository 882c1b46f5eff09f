"""The photographs of a scene in memory, decoded by threads from the moment that the scene is known,
while the trainer is imported and built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

import numpy as np
from tqdm import tqdm

from hardsplat.base.background import Background, outcome
from hardsplat.io.media.borders import borders
from hardsplat.io.media.sharpness import BLURRED, blurs, detail
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.scenes.views import View, load_images
from hardsplat.settings.scene import SceneSettings
from hardsplat.settings.train import scene_folder

# of held-out photographs that stay in memory for all measurements; more of them are read for each
KEPT_BYTES = 2 << 30
_NAMED = 5  # blurred photographs that a note names


class PhotographLoader:
    """scene: whose photographs they are. background: the threads that decode them, free for
    more."""

    def __init__(self, scene: Scene):
        self.scene, self.background = scene, Background()
        self._blurred: Future[list[str]] | None = None
        do, held_out = self.background.do, scene.held_out
        self._training = [do("photographs", scene.views[i].load) for i in scene.train]
        size = sum(4 * view.camera.width * view.camera.height for view in held_out)
        self._held_out: list[Future[np.ndarray]] | None = None
        if size <= min(KEPT_BYTES, self.background.room):
            self._held_out = [do("held-out photographs", view.load) for view in held_out]

    @classmethod
    def of(cls, c: SceneSettings) -> PhotographLoader:
        """Begins with the scene that the settings name. Raises UserError where it cannot be
        opened."""
        return cls(load_scene(scene_folder(c.data_dir), undistort=c.undistort, **c.reading))

    def look_for_blur(self, images: Sequence[np.ndarray], quiet: bool) -> None:
        """Has a thread compare the training photographs with their neighbours, and name those that
        are blurred. images: of the training views, in order."""
        views = [self.scene.views[i] for i in self.scene.train]
        work = partial(_blurred, views, images, quiet)
        self._blurred = self.background.do("blurred photographs", work, line="blur")

    @property
    def about(self) -> dict[str, list[str]]:
        """What metrics.json says of the choice of photographs: names of those that are blurred, and
        of those excluded."""
        blurred = outcome(self._blurred, "blurred photographs") if self._blurred else []
        return {"blurred": blurred, "excluded": list(self.scene.excluded)}

    def training(self, quiet: bool) -> Iterator[np.ndarray]:
        """The training photographs in order, once, as View.load gives them, with a bar while they
        are waited for. Raises UserError for one that cannot be read."""
        begun, self._training = self._training, []  # the caller keeps them
        for photo in tqdm(begun, desc="photographs", unit="", disable=True if quiet else None):
            yield outcome(photo, "a photograph")

    def held_out(self) -> Iterator[np.ndarray]:
        """The held-out photographs in order. Raises UserError for one that cannot be read."""
        if self._held_out is not None:
            return (outcome(photo, "a photograph") for photo in self._held_out)
        return load_images(self.scene.held_out, progress=False)

    def each_held_out(self, work: Callable[[str, np.ndarray], object]) -> bool:
        """Has work(name of the view, photograph) done by threads for every held-out photograph that
        is kept in memory; whether they are."""
        for view, photo in zip(self.scene.held_out, self._held_out or ()):
            after = lambda v=view, p=photo: work(v.name, outcome(p, "a photograph"))  # noqa: E731
            self.background.do("photographs", after)
        return self._held_out is not None

    def close(self) -> None:
        """Drops what has not begun, waits for what has."""
        self.background.close()


def _blurred(views: Sequence[View], images: Sequence[np.ndarray], quiet: bool) -> list[str]:
    """Names of the photographs that are blurred, a panorama where most of its faces are. Black
    borders are named, too."""
    if not quiet and (black := borders(images)):
        where = ", ".join(f"{n} px at the {side}" for side, n in black.items())
        advice = "splats imitate it, unless masks leave it out"
        tqdm.write(f"note: photographs seem to have a black border, {where}: {advice}")
    ratios: dict[str, list[float]] = {}
    details = [detail(image) for image in images]
    kinds = [view.name.removeprefix(view.group) for view in views]
    for kind in dict.fromkeys(kinds):
        mine = [i for i, other in enumerate(kinds) if other == kind]
        for i, ratio in zip(mine, blurs([details[i] for i in mine])):
            ratios.setdefault(views[i].group, []).append(float(ratio))
    found = [name for name, values in ratios.items() if np.median(values) < BLURRED]
    if found and not quiet:
        named = ", ".join(found[:_NAMED]) + ", ..." * (len(found) > _NAMED)
        tqdm.write(
            f"note: {len(found)} of {len(ratios)} photographs look blurred next to their "
            f"neighbours: {named}; they are trained on (--exclude NAME leaves them out)"
        )
    return found
