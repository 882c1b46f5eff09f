"""A job in the worker's process: features, matches and poses. Each stage goes on where an earlier
process was stopped."""

from __future__ import annotations

import itertools
import shutil
import traceback
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pycolmap

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import replacing_folder
from hardsplat.io.media.images import read_pixels
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.io.scenes.source import WORK
from hardsplat.sfm.colmap import mapping, matching
from hardsplat.sfm.colmap.agreement import agreement
from hardsplat.sfm.colmap.aligning import align
from hardsplat.sfm.colmap.features import find_features
from hardsplat.sfm.colmap.outcome import SHEET, Outcome, Part, parts_of, reasons, write_sheet
from hardsplat.sfm.job.state import State, digests, fingerprint

_FOCAL = 1.2  # first guess where EXIF says nothing: focal length over the longer side, as in COLMAP
_MOST = 2 / 3  # share of the photographs that a model should hold
_AGAIN = 60  # photographs up to which a second attempt is made for those that one left out


class PoseJob:
    """Photographs that become a model.

    job: as run.py makes it. send(what, ...) tells how far it is, see process.py. names: of the
    photographs in the database, by index; unreadable: why others are not there, by name.
    """

    def __init__(self, job: dict[str, Any], send: Callable[..., None]):
        self.job, self.send = job, send
        self.images, self.work = Path(job["images"]), Path(job["scene"]) / WORK
        self.path, self.state = self.work / matching.NAME, State(self.work)
        self.pool = ThreadPoolExecutor(job["threads"])
        self.names: list[str] = []
        self.unreadable: dict[str, str] = {}
        self.how = job["error"], job["threads"], job["seed"]
        self.mapper = mapping.Mapper(self.path, self.images, self.work / "mapping", *self.how)
        # each with its rank and its attempt, the best first
        self.models: list[tuple[tuple[float, float, bool], pycolmap.Reconstruction, str]] = []

    def run(self) -> dict[str, Any]:
        """What became of the photographs, as Outcome has it, once the model is written. Raises
        UserError where no poses are found."""
        job, target = self.job, Path(self.job["scene"]) / "sparse" / "0"
        self.find_features()
        if job["method"] != "exhaustive":
            self.send("begin", "comparing", len(self.names))
        self.compare(matching.choose(job["method"], self.path, job["threads"]))
        self.send("begin", "poses", len(self.names))
        best, attempt = self.mapped()
        best = self._finished(best)
        alignment = dict(by="none", note="--align none: the model stays as it was found")
        if job["align"] == "auto":
            alignment = align(best, {p["name"]: p["taken"] for p in job["photographs"]})
        with replacing_folder(target) as partial:
            best.write(partial)
        outcome = asdict(self._outcome(best, attempt, alignment))
        self.state.put(model={"key": job["key"], "files": digests(target), "outcome": outcome})
        shutil.rmtree(self.mapper.work, ignore_errors=True)
        return outcome

    def find_features(self) -> None:
        """Features into the database: into an empty one where photographs changed, or are to be
        searched in another way."""
        job, there = self.job, self.state.get("features", {})
        settings = job["camera_model"], job["image_size"], job["max_features"], 4
        wanted = {p["name"]: fingerprint(settings, p) for p in job["photographs"]}
        if not self.path.is_file() or any(wanted.get(name) != there[name] for name in there):
            for path in self.work.glob(f"{matching.NAME}*"):  # and its journals
                path.unlink()
        self.state.put(features=wanted)
        with pycolmap.Database.open(self.path) as database:
            done = set(matching.names_in(database))
            todo = [p for p in job["photographs"] if p["name"] not in done]
            self.send("begin", "features", len(wanted), len(done))
            for photograph, found in zip(todo, self.pool.map(self._features_of, todo)):
                name, camera = photograph["name"], photograph["camera"] + 1
                if isinstance(found, str):
                    self.unreadable[name] = found
                    continue
                if not database.exists_camera(camera):
                    database.write_camera(self._camera(camera, photograph), use_camera_id=True)
                matching.write_image(database, name, camera, *found)
                self.send("at", database.num_images())
            # a rig for each camera, and a frame for each image
            pycolmap.apply_rig_config([], database)
            self.names = matching.names_in(database)
        if len(self.names) < 2:
            name, why = next(iter(self.unreadable.items()))
            bad = f"{len(self.unreadable)} of {len(wanted)} photographs cannot be read"
            raise UserError(f"{self.images}: {bad}, which leaves too few; {name}: {why}")

    def _camera(self, number: int, first: dict[str, Any]) -> pycolmap.Camera:
        (width, height), focal = first["size"], first["taken"]["focal"]
        model = self.job["camera_model"]
        if first["panorama"]:
            focal, model = 1.0, PANORAMA  # it has none, and none is looked for
        elif first["taken"]["in_mm"] and not focal:  # COLMAP has a list of sensors
            with suppress(RuntimeError, ValueError):
                found = pycolmap.infer_camera_from_image(self.images / first["name"])
                if found.has_prior_focal_length and (found.width, found.height) == (width, height):
                    focal = found.mean_focal_length()
        guess = focal or _FOCAL * max(width, height)
        row = pycolmap.Camera.create_from_model_name(number, model, guess, width, height)
        row.has_prior_focal_length = bool(focal)
        return row

    def _features_of(self, photograph):
        """Keypoints and descriptors; a string with the reason where the photograph cannot be
        read."""
        path, mask = self.images / photograph["name"], photograph["mask"]
        mask = mask and Path(self.job["scene"]) / mask
        size, most = self.job["image_size"], self.job["max_features"]
        try:
            return find_features(path, mask, photograph["panorama"], size, most)
        except UserError as error:
            return str(error).removeprefix(f"{path}: ")

    def compare(self, wanted: Collection[tuple[int, int]]) -> None:
        """Matches those of the pairs of indices that were not matched before."""
        with pycolmap.Database.open(self.path) as database:
            # also those that match nowhere
            known = database.exists_matches
            todo = sorted((i, j) for i, j in wanted if not known(i + 1, j + 1))
        if todo:
            self.state.put(crashed={})  # with other matches it is worth a try
            before = len(wanted) - len(todo)
            self.send("begin", "matches", len(wanted), before)
            named = [(self.names[i], self.names[j]) for i, j in todo]
            for done in matching.match(self.path, named, *self.how):
                self.send("at", before + done)
        with pycolmap.Database.open(self.path) as database:
            self.matches = matching.read_matches(database)
            numbers = range(1, len(self.names) + 1)
            counts = map(database.num_keypoints_for_image, numbers)
            self.features = dict(zip(self.names, counts))

    def mapped(self) -> tuple[pycolmap.Reconstruction, str]:
        """The best model of all attempts, and the name of its attempt."""
        globally = self.job["mapper"] == "global"
        order = sorted(mapping.ATTEMPTS, key=lambda name: globally and name != mapping.GLOBAL)
        for tried, name in enumerate(order):
            left = len(self._missing(next(iter(self._agreeing()), None)))
            many = left > (1 - _MOST) * len(self._missing(None))
            if left and (many or (tried < 2 and len(self.names) <= _AGAIN)):
                self.models += [(self.mapper.rank(model), model, name) for model in self._map(name)]
                self.models.sort(key=lambda found: found[0])
        if not self.models:
            raise UserError(self._no_model())
        _, best, by = self.models[0]
        every = range(len(self.names))
        missing = {*every} - {number - 1 for number in best.reg_image_ids()}
        if self.job["method"] != "exhaustive" and 0 < len(missing) <= max(10, len(every) // 10):
            others = itertools.product(missing, every)  # a second look
            self.compare({(min(pair), max(pair)) for pair in others if pair[0] != pair[1]})
            self.send("begin", "poses", len(every))
        if self._missing(best):
            best = min([best, *self._map(mapping.GO_ON, best)], key=self.mapper.rank)
        return best, by

    def _agreeing(self) -> list[pycolmap.Reconstruction]:
        """The models that matches agree with, the best first."""
        return [model for (*_, contradicted), model, _ in self.models if not contradicted]

    def _missing(self, model: pycolmap.Reconstruction | None) -> list[int]:
        """Photographs that match others and have no pose."""
        posed = set(model.reg_image_ids()) if model else ()
        return [i for i in np.unique(self.matches.pairs).tolist() if i + 1 not in posed]

    def _map(self, attempt: str, start: pycolmap.Reconstruction | None = None) -> list:
        numbers, count = itertools.count(start.num_reg_images() if start else 1), len(self.names)

        def seen() -> None:
            self.send("at", min(next(numbers), count))

        self.send("phase", attempt)
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
        best = (
            self._tried("last adjustment", lambda: mapping.adjusted(model, threads, lens)) or model
        )
        self.send("phase", "points and colours")
        more = self._tried("points of two photographs", lambda: self.mapper.with_more_points(best))
        best = more if more and mapping.is_sound(more) else best
        for image in best.images.values():
            image.name = unquote(image.name)
        self._colour(best)
        mapping.name_pinholes(best)
        return best

    def _colour(self, model: pycolmap.Reconstruction) -> None:
        """Gives each point the mean colour of the pixels that it was seen in."""

        def seen(number: int) -> tuple[np.ndarray, np.ndarray]:
            image = model.images[number]
            points = [point for point in image.points2D if point.has_point3D()]
            pixels = read_pixels(self.images / image.name)[..., :3]
            xy = np.array([point.xy for point in points], np.int64).reshape(-1, 2)
            x, y = np.clip(xy, 0, [pixels.shape[1] - 1, pixels.shape[0] - 1]).T
            return np.array([point.point3D_id for point in points], np.int64), pixels[y, x]

        ids, colours = map(np.concatenate, zip(*self.pool.map(seen, model.reg_image_ids())))
        numbers, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
        sums = np.zeros((len(numbers), 3))
        np.add.at(sums, which, colours)
        for number, colour in zip(numbers.tolist(), np.rint(sums / counts[:, None])):
            model.points3D[number].color = colour.astype(np.uint8)

    def _others(self, registered: set[str]) -> list[str]:
        """A line for each model that holds photographs that the kept one lacks, the best first."""
        lines = []
        for model in self._agreeing():
            posed = [self.names[number - 1] for number in sorted(model.reg_image_ids())]
            if more := [name for name in posed if name not in registered]:
                what = f"of which {len(more)} have no pose here ({more[0]} to {more[-1]})"
                lines.append(f"{len(posed)} photographs, {what}")
        return list(dict.fromkeys(lines))

    def _no_model(self) -> str:
        where = f"{self.images}: no poses found for these {len(self.names)} photographs"
        if not (count := len(self.matches.pairs)):
            advice = "take many of one place, each overlapping the next by two thirds"
            return f"{where}: no two of them show the same thing; {advice}"
        few = "; these are few, take 30 or more" if len(self.names) < 10 else ""
        if len(parts := self._parts(set())) > 1:
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
        write_sheet(self.work / SHEET, self.images, parts)
        return parts

    def _outcome(self, model, attempt: str, alignment: dict[str, Any]) -> Outcome:
        posed = [model.images[number] for number in model.reg_image_ids()]
        registered = sorted(image.name for image in posed)
        parts = self._parts(set(registered))
        cameras = sorted({image.camera_id for image in posed})
        return Outcome(
            registered,
            missing=self.unreadable | reasons(parts, self.features),
            points=model.num_points3D(),
            error=model.compute_mean_reprojection_error(),
            track=model.compute_mean_track_length(),
            cameras=[_described(model.cameras[number]) for number in cameras],
            attempt=attempt,
            others=self._others(set(registered)),
            alignment=alignment,
            parts=[asdict(part) | {"line": part.line} for part in parts],
            agreement=agreement(model, self.path, self.mapper.error),
        )


def _described(camera: pycolmap.Camera) -> str:
    values = ", ".join(f"{value:.5g}" for value in camera.params)
    lens = f", {camera.params_info}: {values}" * (camera.model.name != PANORAMA)
    return f"camera {camera.camera_id}: {camera.model.name} {camera.width}x{camera.height}{lens}"
