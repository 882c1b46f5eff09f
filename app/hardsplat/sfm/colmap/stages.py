"""The stages of a job, in the worker's process: features, matches, and poses by poses.py. Each goes
on where an earlier process was stopped, or is left out when it is done."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pycolmap

from hardsplat.base.errors import UserError
from hardsplat.io.media.panorama import MODEL as PANORAMA
from hardsplat.sfm.colmap import database as db
from hardsplat.sfm.colmap import pairs
from hardsplat.sfm.colmap.features import find_features
from hardsplat.sfm.colmap.poses import Poses
from hardsplat.sfm.job.state import fingerprint

_FOCAL = 1.2  # first guess where EXIF says nothing: focal length over the longer side, as in COLMAP


class Stages(Poses):
    """All stages of a job, one after the other."""

    def run(self) -> dict[str, Any]:
        self._prepare()
        with pycolmap.Database.open(self.path) as database:
            self._find_features(database)
        self._find_matches()
        return self.find_poses()

    # -- features ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Leaves an empty database where photographs changed or features are to be found in another
        way; new photographs are added to an old one."""
        job, there = self.job, self.state.get("features", {})
        settings = job["camera_model"], job["image_size"], job["max_features"], 3
        wanted = {p["name"]: fingerprint(settings, p) for p in job["photographs"]}
        if not self.path.is_file() or any(wanted.get(name) != there[name] for name in there):
            for path in self.work.glob(f"{db.NAME}*"):  # and its journals
                path.unlink()
            self.state.put(matches="", model={}, crashed={})
        self.state.put(features=wanted)

    def _find_features(self, database: pycolmap.Database) -> None:
        started, total = time.monotonic(), len(self.job["photographs"])
        for photograph in self.job["photographs"]:
            if not database.exists_camera(number := photograph["camera"] + 1):
                database.write_camera(self._camera(number, photograph), use_camera_id=True)
        done = db.ids_by_name(database)
        todo = [p for p in self.job["photographs"] if p["name"] not in done]
        self.send("begin", "features", total, total - len(todo))
        last, found_in = max(done.values(), default=0), self.pool.map(self._features_of, todo)
        for number, (photograph, found) in enumerate(zip(todo, found_in), 1):
            if isinstance(found, str):
                self.unreadable[photograph["name"]] = found
            else:
                name, camera = photograph["name"], photograph["camera"] + 1
                db.write_image(database, last + number, name, camera, *found)
            self.send("at", total - len(todo) + number)
        # a rig for each camera, and a frame for each image
        pycolmap.apply_rig_config([], database)
        spent = time.monotonic() - started if len(todo) > len(self.unreadable) else 0
        self.send("end", "features", total, spent)

    def _camera(self, number: int, first: dict[str, Any]) -> pycolmap.Camera:
        """The camera of which this is the first photograph."""
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
        how = photograph["panorama"], self.job["image_size"], self.job["max_features"]
        try:
            return find_features(path, mask and Path(mask), *how)
        except UserError as error:
            return str(error).removeprefix(f"{path}: ")

    # -- matches -----------------------------------------------------------------------------------

    def _find_matches(self) -> None:
        job = self.job
        with pycolmap.Database.open(self.path) as database:
            found = db.ids_by_name(database)
            self.names = [p["name"] for p in self.job["photographs"] if p["name"] in found]
            self.ids = [found[name] for name in self.names]
            if len(self.names) < 2:
                name, reason = next(iter(self.unreadable.items()))
                bad = f"{len(self.unreadable)} of {len(self.job['photographs'])} photographs"
                what = f"{bad} cannot be read, which leaves too few; {name}: {reason}"
                raise UserError(f"{self.images}: {what}")
            key = fingerprint(self.state["features"], self.names, job["method"], job["seed"])
            if self.state.get("matches") == key:
                return
        self.send("begin", "comparing", len(self.ids))
        self.compare(pairs.choose(job["method"], self.path, self.ids, job["threads"]))
        self.state.put(matches=key, crashed={})
