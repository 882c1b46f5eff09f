"""The last stage of a job, in the worker's process: poses, from the matches in the database to the
files of the model."""

from __future__ import annotations

import itertools
import shutil
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pycolmap

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import replacing_folder
from hardsplat.io.media.images import read_pixels
from hardsplat.sfm.colmap.aligning import align
from hardsplat.sfm.colmap.database import NAME, TILE, match_pairs, read_matches
from hardsplat.sfm.colmap.lens import adjusted, describe, name_pinholes
from hardsplat.sfm.colmap.mapping import ATTEMPTS, GLOBAL, GO_ON, Mapper, is_sound, rank
from hardsplat.sfm.colmap.outcome import TOO_FEW, Outcome, Part, parts_of, reasons
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.sheet import SHEET, write_sheet
from hardsplat.sfm.job.state import State, digests, fingerprint

_MOST = 2 / 3  # share of the photographs that a model should hold
_AGAIN = 60  # photographs up to which a second attempt is made for those that one left out


class Poses:
    """The stage in which photographs that match each other get their poses, and what all stages of
    a job share.

    job: as run.py makes it. send(what, ...) tells how far it is, see worker.py. names, ids: of the
    photographs in the database; unreadable: why others are not there, by name.
    """

    def __init__(self, job: dict[str, Any], send: Callable[..., None]):
        self.job, self.send = job, send
        self.images, self.work = Path(job["images"]), Path(job["scene"]) / WORK
        self.path, self.state = self.work / NAME, State(self.work)
        self.pool = ThreadPoolExecutor(job["threads"])
        self.names: list[str] = []
        self.ids: list[int] = []
        self.unreadable: dict[str, str] = {}
        how = job["error"], job["threads"], job["seed"]
        self.mapper = Mapper(self.path, self.images, self.work / "mapping", *how)
        self.models: list[tuple[pycolmap.Reconstruction, str]] = []  # each with its attempt

    def compare(self, wanted: Collection[tuple[int, int]]) -> bool:
        """Matches pairs of indices into self.names; whether there were any that are new."""
        started, total = time.monotonic(), len(wanted)
        with pycolmap.Database.open(self.path) as database:
            # also those that match nowhere, which the list of all matches leaves out
            known = database.exists_matches
            todo = [(i, j) for i, j in wanted if not known(self.ids[i], self.ids[j])]
            todo.sort(key=lambda pair: (pair[0] // TILE, pair[1] // TILE, pair))
        if todo:
            before, names = total - len(todo), self.names
            self.send("begin", "matches", total, before)
            how = self.job["error"], self.job["threads"], self.job["seed"]
            new = [(names[i], names[j]) for i, j in todo]
            match_pairs(self.path, new, *how, lambda done: self.send("at", before + done))
            self.send("end", "matches", total, time.monotonic() - started)
        return bool(todo)

    def find_poses(self) -> dict[str, Any]:
        """What became of the photographs, as Outcome has it, once the model is written. Raises
        UserError where no poses are found."""
        job, target = self.job, Path(self.job["scene"]) / "sparse" / "0"
        of_job = [job[name] for name in ("mapper", "lens", "seed", "align")]
        key, record = fingerprint(self.state.get("matches"), of_job, 5), self.state.get("model", {})
        if record.get("key") == key and record["files"] == digests(target):
            return record["outcome"] | {"kept": True}
        started = time.monotonic()
        self._read_matches()
        if not len(self.matches.pairs):
            raise UserError(self._no_model())
        self.send("begin", "poses", len(self.names))
        best, attempt = self._mapped()
        best = self._finished(best)
        alignment = dict(by="none", note="--align none: the model stays as it was found")
        if job["align"] == "auto":
            alignment = align(best, {p["name"]: p["taken"] for p in job["photographs"]})
        with replacing_folder(target) as partial:
            best.write(partial)
        outcome = asdict(self._outcome(best, attempt, alignment))
        self.state.put(model={"key": key, "files": digests(target), "outcome": outcome})
        shutil.rmtree(self.mapper.work, ignore_errors=True)
        self.send("end", "poses", len(self.names), time.monotonic() - started)
        return outcome

    # -- mapping -----------------------------------------------------------------------------------

    def _mapped(self) -> tuple[pycolmap.Reconstruction, str]:
        """The best model of all attempts, and the name of its attempt."""
        globally = self.job["mapper"] == "global"
        order = sorted(ATTEMPTS, key=lambda name: globally and name != GLOBAL)
        for tried, name in enumerate(order):
            if self._worth_another(tried):
                self.send("phase", name)
                self.models += [(model, name) for model in self._map(name)]
                self.models.sort(key=lambda found: rank(found[0]))
        if not self.models:
            raise UserError(self._no_model())
        best, by = self.models[0]
        if self._missing(best):
            if self.job["method"] != "exhaustive":
                self.send("phase", "a second look")
                if self.compare(self._second_look(best)):
                    self._read_matches()
            self.send("phase", GO_ON)
            for model in self._map(GO_ON, best)[:1]:
                best = min(best, model, key=lambda model: -model.num_reg_images())
        return best, by

    def _worth_another(self, tried: int) -> bool:
        """Whether another attempt may place more photographs, at a fair price."""
        if not self.models:
            return True
        best = self.models[0][0]
        placed, missing = best.num_reg_images(), len(self._missing(best))
        few = placed < _MOST * (placed + missing)
        return missing > 0 and (few or (tried < 2 and len(self.names) <= _AGAIN))

    def _missing(self, model) -> list[int]:
        """Photographs that match others and have no pose."""
        posed = set(model.reg_image_ids())
        return [int(i) for i in np.unique(self.matches.pairs) if self.ids[i] not in posed]

    def _second_look(self, best) -> list[tuple[int, int]]:
        """Pairs of photographs that got no pose with all others, where those are few."""
        posed, every = set(best.reg_image_ids()), range(len(self.ids))
        rich = [i for i in every if self.features[self.names[i]] >= TOO_FEW]
        missing = [i for i in rich if self.ids[i] not in posed]
        if len(missing) > max(10, len(self.names) // 10):
            return []
        return sorted({(min(i, j), max(i, j)) for i in missing for j in every if i != j})

    def _map(self, attempt: str, start: pycolmap.Reconstruction | None = None) -> list:
        numbers, count = itertools.count(start.num_reg_images() if start else 1), len(self.names)

        def seen() -> None:
            self.send("at", min(next(numbers), count))

        return self._tried(attempt, lambda: self.mapper.run(attempt, seen, start)) or []

    def _tried(self, name: str, work: Callable[[], Any]) -> Any:
        """What the work returns; None where it fails, now or in an earlier process. What failed is
        in the log, and is not tried again with these matches."""
        if name in self.state.get("crashed", {}):
            return None
        self.state.put(trying=name)
        try:
            out = work()
        except Exception as error:  # COLMAP's failed checks, and what numbers without limits become
            traceback.print_exc()
            why = f"{type(error).__name__}: {reason(error)}"
            self.state.note_crash(why)
            self.send("say", f"note: {name} failed: {why}; going on without")
            return None
        self.state.put(trying="")
        return out

    def _finished(self, model: pycolmap.Reconstruction) -> pycolmap.Reconstruction:
        """The model with its last poses, cameras, points and colours."""
        self.send("phase", "last adjustment")
        threads, lens = self.mapper.threads, self.job["lens"]
        best = self._tried("last adjustment", lambda: adjusted(model, threads, lens)) or model
        self.send("phase", "points and colours")
        more = self._tried("points of two photographs", lambda: self.mapper.with_more_points(best))
        best = more if more and is_sound(more) else best
        for image in best.images.values():
            image.name = unquote(image.name)
        self._colour(best)
        name_pinholes(best)
        return best

    def _colour(self, model: pycolmap.Reconstruction) -> None:
        """Gives each point the mean colour of the pixels that it was seen in."""

        def seen(number: int) -> tuple[list[int], np.ndarray]:
            image = model.images[number]
            points = [point for point in image.points2D if point.has_point3D()]
            pixels = read_pixels(self.images / image.name)[..., :3]
            xy = np.array([point.xy for point in points], np.int64).reshape(-1, 2)
            x, y = np.clip(xy, 0, [pixels.shape[1] - 1, pixels.shape[0] - 1]).T
            return [point.point3D_id for point in points], pixels[y, x]

        ids, colours = zip(*self.pool.map(seen, model.reg_image_ids()))
        numbers, which = np.unique(np.concatenate(ids), return_inverse=True)
        sums = np.zeros((len(numbers), 4))
        np.add.at(sums, which, np.insert(np.concatenate(colours).astype(float), 3, 1, axis=1))
        for number, (*rgb, count) in zip(numbers, sums):
            model.points3D[int(number)].color = np.rint(np.array(rgb) / count).astype(np.uint8)

    # -- words -------------------------------------------------------------------------------------

    def _read_matches(self) -> None:
        with pycolmap.Database.open(self.path) as database:
            self.matches = read_matches(database, self.ids)
            counts = [database.num_keypoints_for_image(i) for i in self.ids]
            self.features = dict(zip(self.names, counts))

    def _others(self, registered: set[str]) -> list[str]:
        """A line for each model that holds photographs that the kept one lacks, the best first."""
        lines: dict[tuple[str, ...], str] = {}
        for model, _ in self.models:
            posed = set(model.reg_image_ids())
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
        if failed := self.state.get("crashed", {}):
            name, why = next(iter(failed.items()))
            few += f"; {len(failed)} attempts failed, see {self.work / 'log.txt'}; {name}: {why}"
        return f"{where}: {count} pairs match, but {why}; move sideways between photographs{few}"

    def _parts(self, registered: set[str]) -> list[Part]:
        """What does not connect, with a page of its pictures; none where all have poses."""
        (self.work / SHEET).unlink(missing_ok=True)
        if registered >= set(self.names):
            return []
        parts = parts_of(self.names, self.matches, registered)
        shown = [(part.line, part.names, part.link[:2] if part.link else ()) for part in parts]
        write_sheet(self.work / SHEET, self.images, shown)
        return parts

    def _outcome(self, model, attempt: str, alignment: Mapping[str, Any]) -> Outcome:
        posed = [model.images[number] for number in model.reg_image_ids()]
        registered = sorted(image.name for image in posed)
        parts = self._parts(set(registered))
        cameras = sorted({image.camera_id for image in posed})
        return Outcome(
            registered,
            missing={**self.unreadable} | reasons(parts, self.features),
            points=model.num_points3D(),
            error=model.compute_mean_reprojection_error(),
            track=model.compute_mean_track_length(),
            cameras=[describe(model.cameras[number]) for number in cameras],
            attempt=attempt,
            others=self._others(set(registered)),
            alignment=dict(alignment),
            parts=[asdict(part) | {"line": part.line} for part in parts],
        )
