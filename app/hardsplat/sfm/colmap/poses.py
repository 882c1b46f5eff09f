"""The last stage of a job, in the worker's process: poses, from the matches in the database to the
files of the model."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pycolmap

from hardsplat.base.errors import UserError
from hardsplat.sfm.colmap import database as db
from hardsplat.sfm.colmap import mapping
from hardsplat.sfm.colmap.adjusting import add_points, name_pinholes, refine, straighten, take_poses
from hardsplat.sfm.colmap.comparing import Comparison
from hardsplat.sfm.colmap.outcome import DOUBTFUL, TOO_FEW, Outcome, reasons
from hardsplat.sfm.colmap.patches import found_again
from hardsplat.sfm.colmap.start import explained, find_start, read_matches
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.plan import SMALL, match_error
from hardsplat.sfm.job.state import State, fingerprint, stamps

_MANY = 100  # photographs, beyond which all poses are adjusted less often
_SECOND_LOOK = (
    10  # photographs without a pose, or a tenth of all, that are compared with all others
)
PATCH_ERRORS = 2  # errors of a match that a patch may lie off where poses expect it


class Poses:
    """job, send: as for Stages. state: which stages are done. names, ids: of the photographs in the
    database. unreadable: why others are not there, by name."""

    def __init__(
        self,
        job: Mapping[str, Any],
        send,
        state: State,
        names: Sequence[str],
        ids: Sequence[int],
        unreadable: Mapping[str, str],
        pool: ThreadPoolExecutor,
    ):
        self.job, self.send, self.state, self.names, self.ids, self.unreadable, self.pool = (
            job,
            send,
            state,
            names,
            ids,
            unreadable,
            pool,
        )
        self.scene, self.images = Path(job["scene"]), Path(job["images"])
        self.work, self.model = self.scene / WORK, self.scene / "sparse" / "0"
        self.path = self.work / db.NAME
        errors = [match_error(c["width"], c["height"], job["image_size"]) for c in job["cameras"]]
        self.settings = mapping.Settings(
            max(errors), job["threads"], job["seed"], len(names) > _MANY
        )

    def find(self) -> dict[str, Any]:
        """What became of the photographs, as Outcome has it, once the model is written. Raises
        UserError where no poses are found."""
        key = fingerprint(
            self.state.get("matches"),
            self.job["mapper"],
            self.job["straighten"],
            self.job["seed"],
            2,
        )
        record = self.state.get("model")
        if record.get("key") == key and record.get("files") == stamps(self.model):
            return record["outcome"] | {"kept": True}
        started = time.monotonic()
        self._read_matches()
        if not len(self.matches.pairs):
            raise UserError(self._no_model())
        self.send(stage="poses", total=len(self.names), done=0)
        best, share = (
            self._map_globally() if self.job["mapper"] == "global" else self._map_incrementally()
        )
        if self._look_again(best):
            best, share = self._go_on(best)
        best = self._adjusted(best)
        self.send(phase="points and colours")
        best = add_points(best, self.path, self.images, self.work / "mapping", self.settings)
        mapping.colour(best, self.images, self.pool)
        name_pinholes(best)
        mapping.write_model(best, self.scene, self.work)
        outcome = self._outcome(best, share)
        self.state.put(
            "model", {"key": key, "files": stamps(self.model), "outcome": outcome.as_dict()}
        )
        shutil.rmtree(self.work / "mapping", ignore_errors=True)
        self.send(end="poses", seconds=time.monotonic() - started)
        return outcome.as_dict()

    def _adjusted(self, model):
        """The model with its last poses and cameras."""
        self.send(phase="last adjustment")
        refine(model, self.settings)
        best = model
        if max(max(camera.width, camera.height) for camera in model.cameras.values()) < SMALL:
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
            self.features = [database.num_keypoints_for_image(i) for i in self.ids]

    def _look_again(self, model) -> bool:
        """Compares photographs that got no pose with all others, where only some pairs were
        compared; whether that found any matches."""
        posed = {image.name for image in model.images.values() if image.has_pose}
        missing = [
            i
            for i, name in enumerate(self.names)
            if name not in posed and self.features[i] >= TOO_FEW
        ]
        if not missing or len(missing) > max(_SECOND_LOOK, len(self.names) // 10):
            return False
        self.send(phase="a second look")
        before = len(self.matches.pairs)
        with pycolmap.Database.open(self.path) as database:
            comparison = Comparison(database, self.ids, self.job["image_size"], self.job["seed"])
            comparison.run(
                comparison.left(
                    sorted(
                        {
                            (min(i, j), max(i, j))
                            for i in missing
                            for j in range(len(self.ids))
                            if i != j
                        }
                    )
                ),
                self.pool,
                lambda done: None,
            )
        self._read_matches()
        return len(self.matches.pairs) > before

    def _go_on(self, model):
        """The model with more photographs, and the share of the matches that it explains."""
        start = self.work / "mapping" / "first"
        start.mkdir(parents=True, exist_ok=True)
        model.write(start)
        models = mapping.map_incrementally(
            self.path, self.images, self.work / "mapping" / "all", self.settings, start=start
        )
        best = models[0] if models else model
        return best, explained(best, self.matches)

    def _map_globally(self):
        """The largest model, and the share of the matches that it explains."""
        models = mapping.map_globally(self.path, self.images, self.work / "mapping", self.settings)
        if not models:
            raise UserError(self._no_model())
        return models[0], explained(models[0], self.matches)

    def _posed(self, number: Iterator[int], count: int) -> None:
        """Says that another photograph has its pose."""
        self.send(done=min(next(number), count))

    def _map_incrementally(self):
        """From a start that explains its matches, or as COLMAP would where there is none; the model
        that explains most photographs' matches, and the share."""
        folder, count = self.work / "mapping", len(self.names)

        def map_some(names: list[str], angle: float, to: Path) -> list:
            return mapping.map_incrementally(
                self.path, self.images, to, self.settings, names=names, angle=angle
            )

        found = find_start(
            self.path,
            self.matches,
            folder,
            map_some,
            lambda tried, of: self.send(phase=f"start {tried + 1}"),
        )
        results = []
        for start in [found[0], None] if found else [None]:
            self.send(phase="")
            seen = partial(self._posed, itertools.count(1), count)
            models = mapping.map_incrementally(
                self.path, self.images, folder / "all", self.settings, start=start, on_image=seen
            )
            results += [(model, explained(model, self.matches)) for model in models[:1]]
            if results and results[-1][1] >= DOUBTFUL:
                break
        if not results:
            raise UserError(self._no_model())
        return max(results, key=lambda result: result[0].num_reg_images() * result[1])

    def _no_model(self) -> str:
        where = f"{self.images}: no poses found for these {len(self.names)} photographs"
        if not len(self.matches.pairs):
            return (
                f"{where}: no two of them show the same thing; take many of one place, each "
                "overlapping the next by two thirds"
            )
        few = "; these are few, take 30 or more" if len(self.names) < 10 else ""
        return (
            f"{where}: {len(self.matches.pairs)} pairs match, but from too nearly the same "
            f"point or with too little in common; move sideways between photographs{few}"
        )

    def _outcome(self, model, share: float) -> Outcome:
        posed = [image for image in model.images.values() if image.has_pose]
        registered, used = (
            sorted(image.name for image in posed),
            {image.camera_id for image in posed},
        )
        missing = {**self.unreadable} | reasons(
            self.names, self.features, self.matches.pairs, self.matches.inliers, set(registered)
        )
        cameras = [
            mapping.describe(camera)
            for number, camera in sorted(model.cameras.items())
            if number in used
        ]
        error, track = model.compute_mean_reprojection_error(), model.compute_mean_track_length()
        return Outcome(
            registered,
            missing,
            model.num_points3D(),
            error,
            track,
            cameras,
            share,
            self.job["mapper"],
        )
