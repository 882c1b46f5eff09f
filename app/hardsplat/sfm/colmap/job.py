"""A job in the worker's process: what its stages share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pycolmap

from hardsplat.sfm.colmap.database import NAME, match_pairs
from hardsplat.sfm.job.photographs import WORK
from hardsplat.sfm.job.state import State


class Job:
    """job: as run.py makes it. send(what, ...) tells how far it is, see worker.py.

    names, ids: of the photographs in the database; unreadable: why others are not there, by name.
    """

    def __init__(self, job: dict[str, Any], send: Callable[..., None]):
        self.job, self.send = job, send
        self.images, self.work = Path(job["images"]), Path(job["scene"]) / WORK
        self.path, self.state = self.work / NAME, State(self.work)
        self.pool = ThreadPoolExecutor(job["threads"])
        self.names: list[str] = []
        self.ids: list[int] = []
        self.unreadable: dict[str, str] = {}

    def compare(self, wanted: Collection[tuple[int, int]]) -> bool:
        """Matches pairs of indices into self.names; whether there were any that are new."""
        started, total = time.monotonic(), len(wanted)
        with pycolmap.Database.open(self.path) as database:
            # also those that match nowhere, which the list of all matches leaves out
            known = database.exists_matches
            todo = [(i, j) for i, j in sorted(wanted) if not known(self.ids[i], self.ids[j])]
        if todo:
            before, names = total - len(todo), self.names
            self.send("begin", "matches", total, before)
            how = self.job["error"], self.job["threads"], self.job["seed"]
            new = [(names[i], names[j]) for i, j in todo]
            match_pairs(self.path, new, *how, lambda done: self.send("at", before + done))
            self.send("end", "matches", total, time.monotonic() - started)
        return bool(todo)
