"""Times training steps of many splats of which a view shows few: the floors of a house.

    python -m tools.scale_bench SCENE FLOORS:SPLATS:HOW:GIB...

Every floor has the points of the scene, jittered, as many as come to SPLATS in all, and its cameras
with their photographs. HOW: `device`, as with --visible-adam; `packed`; `out-of-core`. GIB: limit
of the device's memory, 0 for none. Prints a line of JSON for each case: milliseconds of a step and
of its passes, shares that views show, memory of device and host.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardsplat.gpu.device.context import Device
from hardsplat.io.formats.checkpoint import Checkpoint, shapes
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.model import morton
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.tables import quantities
from hardsplat.train.job.job import Job
from hardsplat.train.job.views import Views, canvas_of
from hardsplat.train.session.session import Session
from hardsplat.train.step.batch import BatchResult
from hardsplat.train.step.photos import Photos

FIXED = dict(rasterizer="tiled", strategy="none", visible_adam=True, exposure="none", images="host")
FIXED |= dict(sh_degree_interval=1, average_steps=0, max_steps=100_000, max_epochs=0, quiet=True)
VIEWS, WARM, STEPS, BATCH = 48, 52, 192, 8
APART, SPREAD = 8.0, 0.01  # floors, and splats from their points, in extents of the scene


@dataclass(frozen=True)
class Case:
    floors: int
    splats: int
    how: str
    gib: float

    @classmethod
    def of(cls, word: str) -> Case:
        floors, splats, how, gib = word.split(":")
        return cls(int(floors), int(float(splats)), how, float(gib))


class House:
    """Floors of a scene. `up`: from one to the next, world units."""

    def __init__(self, scene: Scene):
        self.scene = scene
        up = -np.mean([view.camera.w2c[1, :3] for view in scene.views], 0)
        self.up = APART * scene.extent * up / np.linalg.norm(up)
        self.points = scene.points[morton.order_by_rank(scene.points)].astype(np.float32)
        step = max(1, len(scene.train) // 8)
        self.views = [scene.views[i] for i in scene.train][::step][:8]
        self.photographs = [view.load() for view in self.views]

    def seen(self, floors: int) -> tuple[Views, list[np.ndarray]]:
        """Some of the views of all floors, with their photographs."""
        cameras = []
        for floor in range(floors):
            for view in self.views:
                c, w2c = view.camera, np.array(view.camera.w2c)
                w2c[:3, 3] -= w2c[:3, :3] @ (floor * self.up)
                cameras.append(Camera(w2c, c.K, c.width, c.height, c.distortion))
        order = np.random.default_rng(1).permutation(len(cameras))[:VIEWS]
        cameras = [cameras[i] for i in order]
        views = Views(cameras, canvas_of(cameras), self.scene.extent)
        return views, [self.photographs[i % len(self.views)] for i in order]

    def splats(self, case: Case, views: Views) -> Checkpoint:
        """Splats of SH degree 3 at step 0."""
        rng, each = np.random.default_rng(0), case.splats // case.floors
        n, spread = each * case.floors, np.float32(SPREAD * self.scene.extent)
        places = self.points[np.arange(each, dtype=np.int64) * len(self.points) // each]
        means = rng.standard_normal((case.floors, each, 3), np.float32) * spread + places
        means += (np.arange(case.floors)[:, None, None] * self.up).astype(np.float32)
        smaller = np.float32(np.log(0.25 * spread * (2e6 / each) ** 0.5))
        arrays = {
            "means": means.reshape(1, n, 3),
            "quats": rng.random((1, n, 4), np.float32) - np.float32(0.5),
            "log_scales": smaller + np.float32(0.3) * rng.random((1, n, 3), np.float32),
            "logit_opacities": 4 * rng.random((1, n, 1), np.float32) - 3,
            "sh0": rng.random((1, n, 3), np.float32) - np.float32(0.5),
            "shN": np.zeros((15, n, 3), np.float32),
        }
        found = shapes(3, {"splat": n, **views.items})
        others = [q for q in quantities.QUANTITIES.values() if q.of != "splat"]
        arrays |= {q.name: np.full(found[q.name], q.first, np.float32) for q in others}
        return Checkpoint(0, 3, arrays, fresh=True)


def timed(device: Device, house: House, config: TrainConfig, case: Case) -> Mapping[str, object]:
    """What a case takes. Raises OutOfMemory where it does not fit."""
    views, photographs = house.seen(case.floors)
    packed, outside = case.how != "device", case.how == "out-of-core"
    job = replace(Job.of(config, views, device), packed=packed, out_of_core=outside)
    photos = Photos(device, photographs, config.run.images, 2 * config.run.batch_steps)
    results: list[BatchResult] = []
    session = Session(device, job, photos, results.append)
    try:
        session.restore(house.splats(case, views))
        session.run(4)
        session.run(WARM - 4)
        session.drain()
        results.clear()
        for _ in range(STEPS // BATCH):
            session.run(BATCH)
        session.drain()
        peak = device.memory_peak()
        return _summary(results) | {f"{name}_bytes": n for name, n in peak.items()}
    finally:
        session.destroy()


def _summary(results: Sequence[BatchResult]) -> dict[str, object]:
    records, passes = np.concatenate([r.records for r in results]), defaultdict(list)
    for result in results:
        for name, ms in result.stages.items():
            passes[name].append(ms)
    means = {name: round(float(np.mean(ms)), 4) for name, ms in passes.items()}
    shares = records["visible"] / records["splats"]
    return {
        "splats": int(records["splats"][-1]),
        "step_ms": 1e3 * sum(r.seconds for r in results) / len(records),
        "shown": float(shares.mean()),
        "most_shown": float(shares.max()),
        "mse": float(records["mse"].mean()),
        "pass_ms": dict(sorted(means.items(), key=lambda item: -item[1])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene")
    parser.add_argument("cases", nargs="+", type=Case.of)
    parser.add_argument("--data-factor", type=int, default=1)
    args = parser.parse_args()
    config = TrainConfig.of(data_dir=args.scene, data_factor=args.data_factor, **FIXED)
    c = config.scene
    house = House(load_scene(c.data_dir, c.data_factor, c.test_every, c.mask_mode))
    device = Device()
    whole = device.memory_bytes
    for case in args.cases:
        device.memory_limit = int(case.gib * 2**30)
        device.memory_bytes = device.memory_limit or whole
        begun = time.perf_counter()
        found = timed(device, house, config, case)
        print(json.dumps({**vars(case), **found, "seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
