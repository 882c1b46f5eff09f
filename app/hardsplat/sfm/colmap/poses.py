"""The last stage of a job, in the worker's process: poses, from the matches in the database to the
files of the model."""

from __future__ import annotations

import itertools
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from hardsplat.base.errors import UserError, reason
from hardsplat.sfm.colmap import database as db
from hardsplat.sfm.colmap import mapping
from hardsplat.sfm.colmap.aligning import Alignment, align
from hardsplat.sfm.colmap.features import colours_at
from hardsplat.sfm.colmap.lens import adjusted, describe, name_pinholes
from hardsplat.sfm.colmap.mapping import ATTEMPTS, GO_ON, Attempt
from hardsplat.sfm.colmap.matching import Matches, read_matches
from hardsplat.sfm.colmap.outcome import TOO_FEW, Outcome, parts_of, reasons
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.sheet import SHEET, write_sheet
from hardsplat.sfm.job.state import State, digests, fingerprint

_MOST = 2 / 3  # share of the photographs that a model should hold
_AGAIN = 60  # photographs up to which a second attempt is made for those that one left out


@dataclass
class Poses:
    """job, send: as for Stages. state: which stages are done. names, ids: of the photographs in the
    database. unreadable: why others are not there, by name. compare: matches pairs of indices, and
    returns whether there were new ones."""

    job: Mapping[str, Any]
    send: Callable[..., None]
    state: State
    names: Sequence[str]
    ids: Sequence[int]
    unreadable: Mapping[str, str]
    pool: ThreadPoolExecutor
    compare: Callable[[Sequence[tuple[int, int]]], bool]

    def __post_init__(self):
        job = self.job
        self.scene, self.images = Path(job["scene"]), Path(job["images"])
        self.work, self.model = self.scene / WORK, self.scene / "sparse" / "0"
        self.path = self.work / db.NAME
        self.settings = mapping.Settings(job["error"], job["threads"], job["seed"])
        self.others: list[pycolmap.Reconstruction] = []  # models that were not kept

    def find(self) -> dict[str, Any]:
        """What became of the photographs, as Outcome has it, once the model is written. Raises
        UserError where no poses are found."""
        job = self.job
        of_job = job["mapper"], job["lens"], job["seed"], job["align"], job["taken"], 4
        key = fingerprint(self.state.get("matches"), *of_job)
        record = self.state.get("model")
        if record.get("key") == key and record.get("files") == digests(self.model):
            return record["outcome"] | {"kept": True}
        started = time.monotonic()
        self._read_matches()
        if not len(self.matches.pairs):
            raise UserError(self._no_model())
        self.send(stage="poses", total=len(self.names), done=0)
        best, attempt = self._mapped()
        best = self._finished(best)
        found = Alignment("none", "--align none: the model stays as it was found")
        if job["align"] == "auto":
            found = align(best, job["taken"])
        mapping.write_model(best, self.scene, self.work)
        outcome = asdict(self._outcome(best, attempt, found))
        self.state.put("model", {"key": key, "files": digests(self.model), "outcome": outcome})
        shutil.rmtree(self.work / "mapping", ignore_errors=True)
        self.send(end="poses", seconds=time.monotonic() - started)
        return outcome

    # -- mapping -----------------------------------------------------------------------------------

    def _mapped(self) -> tuple[pycolmap.Reconstruction, str]:
        """The best model of all attempts, and the name of its attempt."""
        best: pycolmap.Reconstruction | None = None
        by = ""
        for number, attempt in enumerate(self._attempts()):
            if best and not self._worth_another(best, number):
                break
            self.send(phase=attempt.name if number else "")
            for model in self._map(attempt):
                if best is None or mapping.rank(model) < mapping.rank(best):
                    best, model, by = model, best, attempt.name
                if model is not None:
                    self.others.append(model)
        if best is None:
            raise UserError(self._no_model())
        if self._missing(best):
            if self.job["method"] != "exhaustive":
                self.send(phase="a second look")
                if self.compare(self._second_look(best)):
                    self._read_matches()
            self.send(phase=GO_ON.name)
            for model in self._map(GO_ON, best)[:1]:
                if mapping.rank(model)[0] < mapping.rank(best)[0]:
                    best = model
        return best, by

    def _attempts(self) -> list[Attempt]:
        globally = self.job["mapper"] == "global"
        return sorted(ATTEMPTS, key=lambda attempt: globally and attempt.mapper != "global")

    def _worth_another(self, best, tried: int) -> bool:
        """Whether another attempt may place more photographs, at a fair price."""
        if not (missing := self._missing(best)):
            return False
        few = best.num_reg_images() < _MOST * (best.num_reg_images() + len(missing))
        return few or (tried < 2 and len(self.names) <= _AGAIN)

    def _missing(self, model) -> list[int]:
        """Photographs that match others and have no pose."""
        posed = {image.image_id for image in model.images.values() if image.has_pose}
        matched = np.unique(self.matches.pairs)
        return [int(i) for i in matched if self.ids[i] not in posed]

    def _second_look(self, best) -> list[tuple[int, int]]:
        """Pairs of photographs that got no pose with all others, where those are few."""
        posed = {image.image_id for image in best.images.values() if image.has_pose}
        rich = (i for i, name in enumerate(self.names) if self.features[name] >= TOO_FEW)
        missing = [i for i in rich if self.ids[i] not in posed]
        if len(missing) > max(10, len(self.names) // 10):
            return []
        every = range(len(self.ids))
        return sorted({(min(i, j), max(i, j)) for i in missing for j in every if i != j})

    def _map(self, attempt: Attempt, start: pycolmap.Reconstruction | None = None) -> list:
        numbers, count = itertools.count(start.num_reg_images() if start else 1), len(self.names)

        def seen() -> None:
            self.send(done=min(next(numbers), count))

        where = self.path, self.images, self.work / "mapping", self.settings
        return self._tried(attempt.name, lambda: mapping.map_by(attempt, *where, seen, start)) or []

    def _tried(self, name: str, work: Callable[[], Any]) -> Any:
        """What the work returns; None where it fails, now or in an earlier process. What failed is
        in the log, and is not tried again with these matches."""
        if name in self.state.crashed():
            return None
        self.state.put("trying", {"name": name})
        try:
            out = work()
        except Exception as error:  # COLMAP's failed checks, and what numbers without limits become
            traceback.print_exc()
            why = f"{type(error).__name__}: {reason(error)}"
            self.state.note_crash(why)
            self.send(note=f"{name} failed: {why}; going on without")
            return None
        self.state.put("trying", None)
        return out

    def _finished(self, model: pycolmap.Reconstruction) -> pycolmap.Reconstruction:
        """The model with its last poses, cameras, points and colours."""
        self.send(phase="last adjustment")
        threads, lens = self.settings.threads, self.job["lens"]
        better = self._tried("last adjustment", lambda: adjusted(model, threads, lens)) or model
        self.send(phase="points and colours")
        where = self.path, self.images, self.work / "mapping", self.settings
        more = self._tried("points of two photographs", lambda: mapping.add_points(better, *where))
        best = more if more and mapping.is_sound(more) else better
        self._colour(best)
        name_pinholes(best)
        for image in best.images.values():
            image.name = self.names[self.ids.index(image.image_id)]
        return best

    def _colour(self, model: pycolmap.Reconstruction) -> None:
        """Gives each point the mean colour of the pixels that it was seen in."""
        total: dict[int, np.ndarray] = {}

        def seen(image) -> tuple[list[int], np.ndarray]:
            points = [(p.point3D_id, p.xy) for p in image.points2D if p.has_point3D()]
            if not points:
                return [], np.zeros((0, 3))
            ids, places = zip(*points)
            path = self.images / self.names[self.ids.index(image.image_id)]
            return list(ids), colours_at(path, np.array(places))

        posed = [image for image in model.images.values() if image.has_pose]
        for ids, colours in self.pool.map(seen, posed):
            for point, rgb in zip(ids, colours.astype(np.float64)):
                total[point] = total.get(point, 0) + np.append(rgb, 1)
        for point, sums in total.items():
            model.points3D[point].color = np.rint(sums[:3] / sums[3]).astype(np.uint8)

    # -- words -------------------------------------------------------------------------------------

    def _read_matches(self) -> None:
        with pycolmap.Database.open(self.path) as database:
            self.matches: Matches = read_matches(database, self.ids)
            counts = [database.num_keypoints_for_image(i) for i in self.ids]
            self.features = dict(zip(self.names, counts))

    def _lines_of_others(self, registered: set[str]) -> list[str]:
        """A line for each model that was not kept and holds photographs that the kept one lacks,
        the largest first."""
        lines: dict[tuple[str, ...], str] = {}
        for model in sorted(self.others, key=mapping.rank):
            posed = {image.image_id for image in model.images.values() if image.has_pose}
            more = [n for n, i in zip(self.names, self.ids) if i in posed and n not in registered]
            if more:
                ends = more[0] if len(more) == 1 else f"{more[0]} to {more[-1]}"
                line = f"{len(posed)} photographs, of which {len(more)} have no pose here ({ends})"
                lines.setdefault(tuple(more), line)
        return list(lines.values())

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
        if failed := self.state.crashed():
            name, why = next(iter(failed.items()))
            few += f"; {len(failed)} attempts failed, see {self.work / 'log.txt'}; {name}: {why}"
        return f"{where}: {count} pairs match, but {why}; move sideways between photographs{few}"

    def _parts(self, registered: set[str]) -> list:
        """What does not connect, with a page of its pictures; none where all have poses."""
        (self.work / SHEET).unlink(missing_ok=True)
        if registered >= set(self.names):
            return []
        parts = parts_of(self.names, self.matches, registered)
        shown = [(part.line, part.names, part.link[:2] if part.link else ()) for part in parts]
        write_sheet(self.work / SHEET, self.images, shown)
        return parts

    def _outcome(self, model, attempt: str, alignment: Alignment) -> Outcome:
        posed = [image for image in model.images.values() if image.has_pose]
        registered = sorted(image.name for image in posed)
        parts = self._parts(set(registered))
        numbers = sorted({image.camera_id for image in posed})
        return Outcome(
            registered,
            missing={**self.unreadable} | reasons(parts, self.features),
            points=model.num_points3D(),
            error=model.compute_mean_reprojection_error(),
            track=model.compute_mean_track_length(),
            cameras=[describe(model.cameras[number]) for number in numbers],
            attempt=attempt,
            others=self._lines_of_others(set(registered)),
            alignment=asdict(alignment),
            parts=[asdict(part) | {"line": part.line} for part in parts],
        )
