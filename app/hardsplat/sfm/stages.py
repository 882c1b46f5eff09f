"""The stages of a job, in the worker's process: features, matches, poses. Each goes on where an earlier process was stopped, or is left out when it is done."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pycolmap

from hardsplat.errors import UserError
from hardsplat.sfm import database as db
from hardsplat.sfm import mapping, pairs
from hardsplat.sfm.comparing import Comparison
from hardsplat.sfm.features import find_features
from hardsplat.sfm.outcome import DOUBTFUL, TOO_FEW, Outcome, reasons
from hardsplat.sfm.photographs import WORK
from hardsplat.sfm.plan import match_error
from hardsplat.sfm.start import explained, find_start, read_matches
from hardsplat.sfm.state import State, fingerprint, stamps

_FOCAL = 1.2  # first guess where EXIF says nothing: focal length over the longer side, as in COLMAP
_MANY = 100  # photographs, beyond which all poses are adjusted less often
_SECOND_LOOK = 10  # photographs without a pose, or a tenth of all, that are compared with all others


class Stages:
    """Those of one job. send(**message) tells how far they are, see worker.py."""

    def __init__(self, job: dict[str, Any], send):
        self.job, self.send = job, send
        self.scene, self.images = Path(job["scene"]), Path(job["images"])
        self.work = self.scene / WORK
        self.work.mkdir(parents=True, exist_ok=True)
        self.path, self.model, self.state = self.work / db.NAME, self.scene / "sparse" / "0", State(self.work)
        self.photographs = job["photographs"]
        self.pool = ThreadPoolExecutor(job["threads"])
        self.unreadable: dict[str, str] = {}

    def run(self) -> dict[str, Any]:
        with pycolmap.Database.open(self._prepared()) as self.database:
            self._find_features()
            self._find_matches()
        return self._find_poses()

    # -- features ---------------------------------------------------------------------------------------------------------------

    def _prepared(self) -> Path:
        """The database, begun anew where photographs changed or features are to be found in another way; new photographs are added to an old one."""
        settings = fingerprint({k: self.job[k] for k in ("camera_model", "image_size", "max_features")}, 1)
        wanted = {"key": settings, "cameras": self.job["cameras"], "photographs": {p["name"]: [p["stamp"], p["camera"]] for p in self.photographs}}
        found = self.state.get("features")
        same = found.get("key") == settings and found.get("cameras") == wanted["cameras"][: len(found.get("cameras", []))]
        same = same and all(wanted["photographs"].get(name) == was for name, was in found.get("photographs", {}).items())
        if not same or not self.path.is_file():
            db.remove(self.work)
            for stage in ("matches", "model"):
                self.state.put(stage, None)
        self.state.put("features", wanted)
        return self.path

    def _find_features(self) -> None:
        started = time.monotonic()
        there = {camera.camera_id for camera in self.database.read_all_cameras()}
        for number, camera in enumerate(self.job["cameras"], 1):
            if number not in there:
                first = next(p for p in self.photographs if p["camera"] == number - 1)
                focal = camera["focal"] or self._focal_by_sensor(camera, first)
                size = camera["width"], camera["height"]
                db.write_camera(self.database, number, self.job["camera_model"], *size, focal or _FOCAL * max(size), bool(focal))
        done = db.ids_by_name(self.database)
        todo = [p for p in self.photographs if p["name"] not in done]
        self.send(stage="features", total=len(self.photographs), done=len(self.photographs) - len(todo))
        ids = itertools.count(max([image.image_id for image in self.database.read_all_images()], default=0) + 1)
        for number, (photograph, found) in enumerate(zip(todo, self._ahead(self._features_of, todo)), len(self.photographs) - len(todo) + 1):
            if isinstance(found, str):
                self.unreadable[photograph["name"]] = found
            else:
                db.write_image(self.database, next(ids), photograph["name"], photograph["camera"] + 1, *found)
            self.send(done=number)
        self.send(end="features", seconds=time.monotonic() - started if todo else 0)

    def _ahead(self, work, items):
        """work(item) for each, in order, by the pool's threads, of which none is more than a few items ahead."""
        pending = []
        for item in items:
            pending.append(self.pool.submit(work, item))
            if len(pending) > 2 * self.job["threads"]:
                yield pending.pop(0).result()
        while pending:
            yield pending.pop(0).result()

    def _features_of(self, photograph):
        """Features, or why there are none."""
        path = self.images / photograph["name"]
        try:
            return find_features(path, Path(photograph["mask"]) if photograph["mask"] else None, self.job["image_size"], self.job["max_features"])
        except UserError as error:
            return str(error).removeprefix(f"{path}: ")

    def _focal_by_sensor(self, camera: dict, photograph: dict) -> float | None:
        """Focal length in px from COLMAP's list of sensors, for a device that EXIF names."""
        if not camera["named"]:
            return None
        try:
            found = pycolmap.infer_camera_from_image(self.images / photograph["name"])
        except (RuntimeError, ValueError):
            return None
        known = found.has_prior_focal_length and (found.width, found.height) == (camera["width"], camera["height"])
        return float(found.params[found.focal_length_idxs()[0]]) if known else None

    # -- matches ----------------------------------------------------------------------------------------------------------------

    def _find_matches(self) -> None:
        ids = db.ids_by_name(self.database)
        self.names = [p["name"] for p in self.photographs if p["name"] in ids]
        self.ids = [ids[name] for name in self.names]
        if len(self.names) < 2:
            name, reason = next(iter(self.unreadable.items()))
            raise UserError(f"{self.images}: {len(self.unreadable)} of {len(self.photographs)} photographs cannot be read, which leaves too few; {name}: {reason}")
        key = fingerprint(self.state.get("features"), self.names, self.job["method"], self.job["seed"])
        if self.state.get("matches").get("key") == key:
            return
        started = time.monotonic()
        comparison = Comparison(self.database, self.ids, self.job["image_size"], self.job["seed"])
        wanted = self._pairs(comparison)
        todo = comparison.left(wanted)
        done = len(wanted) - len(todo)
        self.send(stage="matches", total=len(wanted), done=done)
        comparison.run(todo, self.pool, lambda more: self.send(done=done + more))
        self.state.put("matches", {"key": key})
        self.send(end="matches", seconds=time.monotonic() - started)

    def _pairs(self, comparison: Comparison) -> list[tuple[int, int]]:
        """Indices into self.names."""
        count = len(self.ids)
        if self.job["method"] == "exhaustive":
            return pairs.exhaustive(count)
        self.send(stage="similar", total=count, done=0)
        similarity = pairs.similarities([comparison.first_descriptors(i, pairs.PROBES) for i in range(count)], self.pool, lambda done: self.send(done=done))
        self.send(end="similar", seconds=0)
        return pairs.sequential(count, similarity) if self.job["method"] == "sequential" else pairs.retrieval(similarity)

    # -- poses ------------------------------------------------------------------------------------------------------------------

    def _find_poses(self) -> dict[str, Any]:
        key = fingerprint(self.state.get("matches"), self.job["mapper"], self.job["seed"], 1)
        record = self.state.get("model")
        if record.get("key") == key and record.get("files") == stamps(self.model):
            return record["outcome"] | {"kept": True}
        started = time.monotonic()
        self._read_matches()
        if not len(self.matches.pairs):
            raise UserError(self._no_model())
        self.send(stage="poses", total=len(self.names), done=0)
        best, share = self._map_globally() if self.job["mapper"] == "global" else self._map_incrementally()
        if self._look_again(best):
            best, share = self._go_on(best)
        self.send(phase="last adjustment")
        mapping.refine(best, self.job["threads"], len(self.names) > _MANY)
        self.send(phase="points and colours")
        how = self._solving()
        best = mapping.add_points(best, self.path, self.images, self.work / "mapping", replace(how, error=how.error / 2))
        mapping.colour(best, self.images, self.pool)
        mapping.write_model(best, self.scene, self.work)
        outcome = self._outcome(best, share)
        self.state.put("model", {"key": key, "files": stamps(self.model), "outcome": outcome.as_dict()})
        shutil.rmtree(self.work / "mapping", ignore_errors=True)
        self.send(end="poses", seconds=time.monotonic() - started)
        return outcome.as_dict()

    def _read_matches(self) -> None:
        with pycolmap.Database.open(self.path) as database:
            self.matches = read_matches(database, self.ids)
            self.features = [database.num_keypoints_for_image(i) for i in self.ids]

    def _look_again(self, model) -> bool:
        """Compares photographs that got no pose with all others, where only some pairs were compared; whether that found any matches."""
        posed = {image.name for image in model.images.values() if image.has_pose}
        missing = [i for i, name in enumerate(self.names) if name not in posed and self.features[i] >= TOO_FEW]
        if not missing or len(missing) > max(_SECOND_LOOK, len(self.names) // 10):
            return False
        self.send(phase="a second look")
        before = len(self.matches.pairs)
        with pycolmap.Database.open(self.path) as database:
            comparison = Comparison(database, self.ids, self.job["image_size"], self.job["seed"])
            comparison.run(comparison.left(sorted({(min(i, j), max(i, j)) for i in missing for j in range(len(self.ids)) if i != j})), self.pool, lambda done: None)
        self._read_matches()
        return len(self.matches.pairs) > before

    def _go_on(self, model):
        """The model with more photographs, and the share of the matches that it explains."""
        start = self.work / "mapping" / "first"
        start.mkdir(parents=True, exist_ok=True)
        model.write(start)
        models = mapping.map_incrementally(self.path, self.images, self.work / "mapping" / "all", self._solving(), start=start, many=len(self.names) > _MANY)
        best = models[0] if models else model
        return best, explained(best, self.matches)

    def _solving(self) -> mapping.Solving:
        errors = [match_error(c["width"], c["height"], self.job["image_size"]) for c in self.job["cameras"]]
        return mapping.Solving(max(errors), self.job["threads"], self.job["seed"])

    def _map_globally(self):
        """The largest model, and the share of the matches that it explains."""
        models = mapping.map_globally(self.path, self.images, self.work / "mapping", self._solving())
        if not models:
            raise UserError(self._no_model())
        return models[0], explained(models[0], self.matches)

    def _posed(self, number: Iterator[int], count: int) -> None:
        """Says that another photograph has its pose."""
        self.send(done=min(next(number), count))

    def _map_incrementally(self):
        """From a start that explains its matches, or as COLMAP would where there is none; the model that explains most photographs' matches, and the share."""
        folder, count = self.work / "mapping", len(self.names)
        how = self._solving()

        def map_some(names: list[str], angle: float, to: Path) -> list:
            return mapping.map_incrementally(self.path, self.images, to, how, names=names, angle=angle)

        found = find_start(self.path, self.matches, folder, map_some, lambda tried, of: self.send(phase=f"start {tried + 1}"))
        results = []
        for start in [found[0], None] if found else [None]:
            self.send(phase="")
            seen = partial(self._posed, itertools.count(1), count)
            models = mapping.map_incrementally(self.path, self.images, folder / "all", how, start=start, many=count > _MANY, on_image=seen)
            results += [(model, explained(model, self.matches)) for model in models[:1]]
            if results and results[-1][1] >= DOUBTFUL:
                break
        if not results:
            raise UserError(self._no_model())
        return max(results, key=lambda result: result[0].num_reg_images() * result[1])

    def _no_model(self) -> str:
        where = f"{self.images}: no poses found for these {len(self.names)} photographs"
        if not len(self.matches.pairs):
            return f"{where}: no two of them show the same thing; take many of one place, each overlapping the next by two thirds"
        few = "; these are few, take 30 or more" if len(self.names) < 10 else ""
        return f"{where}: {len(self.matches.pairs)} pairs match, but from too nearly the same point or with too little in common; move sideways between photographs{few}"

    def _outcome(self, model, share: float) -> Outcome:
        posed = [image for image in model.images.values() if image.has_pose]
        registered, used = sorted(image.name for image in posed), {image.camera_id for image in posed}
        missing = self.unreadable | reasons(self.names, self.features, self.matches.pairs, self.matches.inliers, set(registered))
        cameras = [mapping.describe(camera) for number, camera in sorted(model.cameras.items()) if number in used]
        error, track = model.compute_mean_reprojection_error(), model.compute_mean_track_length()
        return Outcome(registered, missing, model.num_points3D(), error, track, cameras, share, self.job["mapper"])
