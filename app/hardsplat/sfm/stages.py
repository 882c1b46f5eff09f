"""The stages of a job, in the worker's process: features, matches, and poses by poses.py. Each goes
on where an earlier process was stopped, or is left out when it is done."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pycolmap

from hardsplat.base.errors import UserError
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.sfm.colmap import database as db
from hardsplat.sfm.colmap import pairs
from hardsplat.sfm.colmap.features import find_features, find_panorama_features
from hardsplat.sfm.colmap.matching import match_pairs
from hardsplat.sfm.colmap.poses import Poses
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.state import State, fingerprint

_FOCAL = 1.2  # first guess where EXIF says nothing: focal length over the longer side, as in COLMAP


class Stages:
    """Those of one job. send(**message) tells how far they are, see worker.py."""

    def __init__(self, job: dict[str, Any], send):
        self.job, self.send = job, send
        self.scene, self.images = Path(job["scene"]), Path(job["images"])
        self.work = self.scene / WORK
        self.work.mkdir(parents=True, exist_ok=True)
        self.path, self.state = self.work / db.NAME, State(self.work)
        self.photographs = job["photographs"]
        self.pool = ThreadPoolExecutor(job["threads"])
        self.unreadable: dict[str, str] = {}

    def run(self) -> dict[str, Any]:
        with pycolmap.Database.open(self._prepared()) as self.database:
            self._find_features()
        self._find_matches()
        found = self.names, self.ids, self.unreadable
        return Poses(self.job, self.send, self.state, *found, self.pool, self._compare).find()

    # -- features ----------------------------------------------------------------------------------

    def _prepared(self) -> Path:
        """The database, empty where photographs changed or features are to be found in another way;
        new photographs are added to an old one."""
        of_features = "camera_model", "image_size", "max_features"
        settings = fingerprint({name: self.job[name] for name in of_features}, 2)
        wanted = {
            "key": settings,
            "cameras": self.job["cameras"],
            "photographs": {p["name"]: [p["stamp"], p["camera"]] for p in self.photographs},
        }
        found = self.state.get("features")
        cameras, there = found.get("cameras", []), found.get("photographs", {})
        same = found.get("key") == settings and cameras == wanted["cameras"][: len(cameras)]
        same = same and all(wanted["photographs"].get(name) == there[name] for name in there)
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
                size, model = (camera["width"], camera["height"]), self.job["camera_model"]
                if camera["panorama"]:
                    focal, model = 1.0, PANORAMA  # it has none, and none is looked for
                guess = focal or _FOCAL * max(size)
                row = pycolmap.Camera.create_from_model_name(number, model, guess, *size)
                row.has_prior_focal_length = bool(focal)
                db.write_camera(self.database, row)
        done = db.ids_by_name(self.database)
        todo = [p for p in self.photographs if p["name"] not in done]
        before = len(self.photographs) - len(todo)
        self.send(stage="features", total=len(self.photographs), done=before)
        last = max([image.image_id for image in self.database.read_all_images()], default=0)
        ids, found_in = itertools.count(last + 1), self._ahead(self._features_of, todo)
        for number, (photograph, found) in enumerate(zip(todo, found_in), before + 1):
            name, camera = photograph["name"], photograph["camera"] + 1
            if isinstance(found, str):
                self.unreadable[name] = found
            else:
                db.write_image(self.database, next(ids), name, camera, *found)
            self.send(done=number)
        spent = time.monotonic() - started if len(todo) > len(self.unreadable) else 0
        self.send(end="features", seconds=spent)

    def _ahead(self, work, items):
        """work(item) for each, in order, by the pool's threads, of which none is more than a few
        items ahead."""
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
        mask = Path(photograph["mask"]) if photograph["mask"] else None
        find = find_features
        if self.job["cameras"][photograph["camera"]]["panorama"]:
            find = find_panorama_features
        try:
            return find(path, mask, self.job["image_size"], self.job["max_features"])
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
        size = camera["width"], camera["height"]
        known = found.has_prior_focal_length and (found.width, found.height) == size
        return float(found.params[found.focal_length_idxs()[0]]) if known else None

    # -- matches -----------------------------------------------------------------------------------

    def _find_matches(self) -> None:
        with pycolmap.Database.open(self.path) as database:
            found = db.ids_by_name(database)
            self.names = [p["name"] for p in self.photographs if p["name"] in found]
            self.ids = [found[name] for name in self.names]
            if len(self.names) < 2:
                name, reason = next(iter(self.unreadable.items()))
                bad = f"{len(self.unreadable)} of {len(self.photographs)} photographs"
                what = f"{bad} cannot be read, which leaves too few; {name}: {reason}"
                raise UserError(f"{self.images}: {what}")
            job = self.job
            key = fingerprint(self.state.get("features"), self.names, job["method"], job["seed"])
            if self.state.get("matches").get("key") == key:
                return
            pairs = self._pairs(database)
        self._compare(pairs)
        self.state.put("matches", {"key": key})

    def _pairs(self, database: pycolmap.Database) -> list[tuple[int, int]]:
        """Indices into self.names."""
        count = len(self.ids)
        if self.job["method"] == "exhaustive":
            return list(itertools.combinations(range(count), 2))
        self.send(stage="similar", total=count, done=0)
        probes = [pairs.probes(database.read_descriptors(i).data) for i in self.ids]
        similarity = pairs.similarities(probes, self.pool, lambda done: self.send(done=done))
        self.send(end="similar", seconds=0)
        if self.job["method"] == "sequential":
            return pairs.sequential(count, similarity)
        return pairs.retrieval(similarity)

    def _compare(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Matches pairs of indices into self.names; whether there were any that are new."""
        started = time.monotonic()
        with pycolmap.Database.open(self.path) as database:
            # also those that match nowhere, which the list of all matches leaves out
            known = database.exists_matches
            todo = [(i, j) for i, j in wanted if not known(self.ids[i], self.ids[j])]
        before, names = len(wanted) - len(todo), [quote(name) for name in self.names]
        if todo:
            self.send(stage="matches", total=len(wanted), done=before)
            with closing(sqlite3.connect(self.path)) as rows:
                first = rows.execute("SELECT COUNT(*) FROM matches").fetchone()[0]
            how = self.job["error"], self.job["threads"], self.job["seed"]

            def told(ever: int) -> None:
                self.send(done=before + ever - first)

            match_pairs(self.path, [(names[i], names[j]) for i, j in todo], *how, told)
            self.send(done=len(wanted))
            self.send(end="matches", seconds=time.monotonic() - started)
        return bool(todo)
