"""The last stage of a job, in the worker's process: poses, from the matches in the database to the
files of the model."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.base.errors import UserError
from hardsplat.sfm.colmap import database as db
from hardsplat.sfm.colmap import mapping
from hardsplat.sfm.colmap.adjusting import add_points, name_pinholes, refine, straighten, take_poses
from hardsplat.sfm.colmap.aligning import Alignment, align
from hardsplat.sfm.colmap.comparing import Comparison
from hardsplat.sfm.colmap.outcome import DOUBTFUL, TOO_FEW, Outcome, reasons
from hardsplat.sfm.colmap.parts import Part, parts_of
from hardsplat.sfm.colmap.patches import found_again
from hardsplat.sfm.colmap.start import explained, find_start, read_alike, read_matches
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.plan import SMALL, match_error
from hardsplat.sfm.job.sheet import SHEET, write_sheet
from hardsplat.sfm.job.state import State, digests, fingerprint

_MANY = 100  # photographs, beyond which all poses are adjusted less often
# photographs without a pose, or a tenth of all, that are compared with all others
_SECOND_LOOK = 10
_FEW_POINTS = 15  # that a pose found then must explain, half of what the first ones must
PATCH_ERRORS = 2  # errors of a match that a patch may lie off where poses expect it


@dataclass
class Poses:
    """job, send: as for Stages. state: which stages are done. names, ids: of the photographs in the
    database. unreadable: why others are not there, by name."""

    job: Mapping[str, Any]
    send: Callable[..., None]
    state: State
    names: Sequence[str]
    ids: Sequence[int]
    unreadable: Mapping[str, str]
    pool: ThreadPoolExecutor

    def __post_init__(self):
        job = self.job
        self.scene, self.images = Path(job["scene"]), Path(job["images"])
        self.work, self.model = self.scene / WORK, self.scene / "sparse" / "0"
        self.path = self.work / db.NAME
        size, of = job["image_size"], job["cameras"]
        errors = [match_error(c["width"], c["height"], size, c["panorama"]) for c in of]
        many = len(self.names) > _MANY
        self.settings = mapping.Settings(max(errors), job["threads"], job["seed"], many)

    def find(self) -> dict[str, Any]:
        """What became of the photographs, as Outcome has it, once the model is written. Raises
        UserError where no poses are found."""
        job = self.job
        of_job = job["mapper"], job["straighten"], job["seed"], job["align"], job["taken"], 3
        key = fingerprint(self.state.get("matches"), *of_job)
        record = self.state.get("model")
        if record.get("key") == key and record.get("files") == digests(self.model):
            return record["outcome"] | {"kept": True}
        started = time.monotonic()
        self._read_matches()
        if not len(self.matches.pairs):
            raise UserError(self._no_model())
        self.send(stage="poses", total=len(self.names), done=0)
        globally = job["mapper"] == "global"
        best, share = self._map_globally() if globally else self._map_incrementally()
        if self._look_again(best):
            best, share = self._go_on(best)
        best = self._adjusted(best)
        self.send(phase="points and colours")
        best = add_points(best, self.path, self.images, self.work / "mapping", self.settings)
        mapping.colour(best, self.images, self.pool)
        name_pinholes(best)
        found = Alignment("none", "--align none: the model stays as it was found")
        if job["align"] == "auto":
            found = align(best, job["taken"])
        mapping.write_model(best, self.scene, self.work)
        outcome = asdict(self._outcome(best, share, found))
        self.state.put("model", {"key": key, "files": digests(self.model), "outcome": outcome})
        shutil.rmtree(self.work / "mapping", ignore_errors=True)
        self.send(end="poses", seconds=time.monotonic() - started)
        return outcome

    def _adjusted(self, model):
        """The model with its last poses and cameras."""
        self.send(phase="last adjustment")
        refine(model, self.settings)
        best = model
        cameras = model.cameras.values()
        small = max(max(camera.width, camera.height) for camera in cameras) < SMALL
        if small and not any(db.is_panorama(camera) for camera in cameras):
            self.send(phase="more of each point")
            best = found_again(model, self.images, PATCH_ERRORS * self.settings.error, self.pool)
            refine(best, self.settings)
        if self.job["straighten"]:
            best = straighten(best, self.settings)
        if best is not model:
            take_poses(model, best, self.settings)
        return model

    def _read_matches(self) -> None:
        with pycolmap.Database.open(self.path) as database:
            self.matches = read_matches(database, self.ids)
            self.alike = read_alike(database, self.ids)
            self.features = [database.num_keypoints_for_image(i) for i in self.ids]

    def _look_again(self, model) -> bool:
        """Compares photographs that got no pose with all others, where only some pairs were
        compared; whether they match any."""
        posed = {image.name for image in model.images.values() if image.has_pose}
        rich = zip(self.names, self.features)
        missing = [i for i, (name, n) in enumerate(rich) if name not in posed and n >= TOO_FEW]
        if not missing or len(missing) > max(_SECOND_LOOK, len(self.names) // 10):
            return False
        self.send(phase="a second look")
        with pycolmap.Database.open(self.path) as database:
            comparison = Comparison(database, self.ids, self.job["image_size"], self.job["seed"])
            others = range(len(self.ids))
            pairs = {(min(i, j), max(i, j)) for i in missing for j in others if i != j}
            comparison.run(comparison.left(sorted(pairs)), self.pool, lambda done: None)
        self._read_matches()
        return bool(np.isin(self.matches.pairs, missing).any())

    def _go_on(self, model):
        """The model with more photographs, and the share of the matches that it explains."""
        start = self.work / "mapping" / "first"
        start.mkdir(parents=True, exist_ok=True)
        model.write(start)
        models = self._map(self.work / "mapping" / "all", start=start, fewest=_FEW_POINTS)
        best = models[0] if models else model
        return best, explained(best, self.matches)

    def _map_globally(self):
        """The largest model, and the share of the matches that it explains."""
        models = mapping.map_globally(self.path, self.images, self.work / "mapping", self.settings)
        if not models:
            raise UserError(self._no_model())
        return models[0], explained(models[0], self.matches)

    def _map(self, folder: Path, **how) -> list:
        return mapping.map_incrementally(self.path, self.images, folder, self.settings, **how)

    def _map_incrementally(self):
        """From a start that explains its matches, or as COLMAP would where there is none; the model
        that explains most photographs' matches, and the share."""
        folder, count = self.work / "mapping", len(self.names)

        def tell(tried: int) -> None:
            self.send(phase=f"start {tried + 1}")

        found = find_start(self.path, self.matches, folder, self._map, tell)
        results = []
        for start in [found[0], None] if found else [None]:
            self.send(phase="")
            numbers = itertools.count(1)

            def seen(numbers=numbers) -> None:
                self.send(done=min(next(numbers), count))

            models = self._map(folder / "all", start=start, on_image=seen)
            results += [(model, explained(model, self.matches)) for model in models[:1]]
            if results and results[-1][1] >= DOUBTFUL:
                break
        if not results:
            raise UserError(self._no_model())
        return max(results, key=lambda result: result[0].num_reg_images() * result[1])

    def _no_model(self) -> str:
        where = f"{self.images}: no poses found for these {len(self.names)} photographs"
        if not (count := len(self.matches.pairs)):
            advice = "take many of one place, each overlapping the next by two thirds"
            return f"{where}: no two of them show the same thing; {advice}"
        few = "; these are few, take 30 or more" if len(self.names) < 10 else ""
        parts = self._parts(set())
        if len(parts) > 1:
            few = f"; they are {len(parts)} parts that do not connect: {self.work / SHEET}"
        why = "from too nearly the same point or with too little in common"
        return f"{where}: {count} pairs match, but {why}; move sideways between photographs{few}"

    def _parts(self, registered: set[str]) -> list[Part]:
        """What does not connect, with a page of its pictures; none where all have poses."""
        (self.work / SHEET).unlink(missing_ok=True)
        if registered >= set(self.names):
            return []
        m = self.matches
        parts = parts_of(self.names, m.pairs, registered, self.alike, m.still)
        shown = [(part.line, part.names, part.link[:2] if part.link else ()) for part in parts]
        write_sheet(self.work / SHEET, self.images, shown)
        return parts

    def _outcome(self, model, share: float, alignment: Alignment) -> Outcome:
        posed = [image for image in model.images.values() if image.has_pose]
        registered, m = sorted(image.name for image in posed), self.matches
        why = reasons(self.names, self.features, m.pairs, m.inliers, set(registered))
        numbers = sorted({image.camera_id for image in posed})
        return Outcome(
            registered,
            missing={**self.unreadable} | why,
            points=model.num_points3D(),
            error=model.compute_mean_reprojection_error(),
            track=model.compute_mean_track_length(),
            cameras=[mapping.describe(model.cameras[number]) for number in numbers],
            explained=share,
            mapper=self.job["mapper"],
            alignment=asdict(alignment),
            parts=[asdict(part) | {"line": part.line} for part in self._parts(set(registered))],
        )
