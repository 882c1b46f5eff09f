"""Runs short cases in several ways and prints the cases whose results differ:
`python -m tests.helpers.schedules SCENE [PASS:RESOURCES@CASE...]`.

PASS:RESOURCES@CASE runs this case alone without resources, joined by +, that this pass declares.
`serial` runs one pass after the other, `reversed` those between which the declarations ask for no
barrier the other way round: a result that depends on it shows a read or a write that a pass does
not declare. Before each step scratch is filled with NaN, 1e30 or 0, which shows a read of what no
pass has written. To be run with LP_NUM_THREADS=1, with which sums of atomics have an order.
"""

import hashlib
import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hardsplat.fit.blobs import Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.passes import declared as passes
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.renderer import Renderer
from hardsplat.render.painter import Painter
from hardsplat.tables.pictures import PICTURES
from hardsplat.train.run import trainer  # noqa: F401  (the command's own imports, in their order)
from tests.helpers import meshing
from tests.helpers.drawing import splats_of
from tests.helpers.goldens import random_scene
from tests.helpers.training import OPENED, open_session, settings

TILED, GATHER = dict(rasterizer="tiled"), dict(rasterizer="tiled", tile_backward="gather")
POSES, DEPTHS = dict(pose_opt=True, pose_warm_up=1), dict(depth_lambda=0.1)
BUDGET = dict(strategy="budget", score_every=1, refine_start_iter=0)
GROWING = BUDGET | dict(grow_absolute=1e-5)
MCMC = dict(strategy="mcmc", init_opa=0.5)
OUTSIDE = dict(out_of_core="on")
TRAINED = {
    "hardware": {},
    "hardware, pixels": dict(block="1x1", state_format="float32"),
    "hardware, segments": dict(images="host", segments=2, format="float32", moments="bfloat16"),
    "hardware, programmable": dict(blending="programmable", reduction="atomic"),
    "tiled": TILED | dict(visible_adam=True, images="host"),
    "tiled, per splat": TILED | dict(tile_backward="per-splat", antialiased=True),
    "tiled, gather": GATHER | dict(moments="bfloat16"),
    "poses and ppisp": POSES | dict(exposure="ppisp", ppisp_warm_up=1),
    "poses and exposure, tiled": POSES | TILED | dict(exposure="affine"),
    "poses and intrinsics": POSES | TILED | dict(intrinsics_opt=True),
    "depths": DEPTHS,
    "depths, gather": DEPTHS | GATHER | dict(pose_opt=True),
    "mcmc": MCMC | TILED | dict(opacity_reg=0.01, scale_reg=0.01),
    "lists": GROWING | dict(ordering="lists", segments=2),
    "lists, blended": BUDGET | DEPTHS | dict(blending="lists"),
    "budget": GROWING | dict(prune_to=0.5),
    "budget, tiled": GROWING | GATHER,
    "out of core": GROWING | GATHER | OUTSIDE,
    "out of core, mcmc": MCMC | GATHER | OUTSIDE | dict(opacity_reg=0.01, moments="bfloat16"),
    "stochastic": MCMC | dict(gradient="stochastic", gradient_pairs=2),
    "stochastic, tiled": TILED | dict(gradient="stochastic", strategy="none", images="host"),
}

WAYS = (("serial", "nan"), ("reversed", "1e30"), ("serial", "0"))


def digest(*arrays: np.ndarray) -> str:
    mark = hashlib.sha256()
    for values in arrays:
        mark.update(np.ascontiguousarray(values).tobytes())
    return mark.hexdigest()[:16]


def trained(device: Device, scene: Path, changes: dict) -> str:
    batches: list = []
    session = open_session(device, settings(scene, **{"reset_every": 10, **changes}), batches)
    for _ in range(2):
        session.run(3)
        if session.job.config.densify.strategy != "none":
            session.densify()
    if session.job.strategy.resets:
        session.drawing.queue("reset")
    for name in (n for n in ("thin", "resort") if n in session.drawing._actions):
        session.drawing.queue(name)
    session.run(2)
    state = session.snapshot()
    OPENED.pop().destroy()
    return digest(*state.buffers.values(), *(b.records for b in batches))


def fitted(device: Device, config: FitConfig) -> str:
    photo = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    session = FitSession(device, config, photo, 16)
    session.set(Blobs.scattered(16, photo / 255, 3))
    session.run(3)
    blobs, moments = session.get()
    out = digest(blobs.planes, moments, np.float64(session.measure()))
    session.destroy()
    return out


def meshed(device: Device) -> str:
    rng = np.random.default_rng(0)
    mesh, camera = meshing.sheet(rng)
    photo = rng.integers(0, 256, (meshing.HEIGHT, meshing.WIDTH, 4), np.uint8)
    session = meshing.opened(device, mesh, camera, photo, meshing.smooth(rng, 5, 6, 3))
    session.run(3)
    out = digest(session.download().vertices, session.texture(), session.picture(camera))
    session.destroy()
    return out


def rendered(device: Device, rasterizer: str) -> str:
    gaussians, camera = splats_of(random_scene(1, 60, 48, 32, 2))
    with Renderer(device, rasterizer) as renderer:
        image, T = renderer.forward(gaussians, camera)
        gradients = renderer.backward(np.ones_like(image))
    backend, own = BACKENDS[rasterizer], (tuple(PICTURES), frame_data(2, (0, 0, 0), 0.01), False)
    painter = Painter(device, backend, backend.options(), gaussians, 48, 32, *own)
    painted = [painter.draw(name, camera) for name in PICTURES]
    painter.destroy()
    return digest(image, T, *gradients.values(), *painted)


def cases(device: Device, scene: Path) -> dict:
    found = {name: partial(trained, device, scene, c) for name, c in TRAINED.items()}
    fits = {"binned": "l1-dssim", "hardware": "l2", "sorted": "l2", "balloted": "l2"}
    for rasterizer, loss in fits.items():
        config = FitConfig(rasterizer=rasterizer, loss=loss)
        found[f"fit, {rasterizer}"] = partial(fitted, device, config)
    found["mesh"] = lambda: meshed(device)
    for name in ("hardware", "tiled"):
        found[f"render, {name}"] = partial(rendered, device, name)
    return found


@contextmanager
def undeclared(name: str, resources: str):
    """Takes resources, joined by +, from what the pass of that name declares."""
    less = {name: {*resources.split("+")}}
    with pytest.MonkeyPatch.context() as patch:
        for what in ("reads", "writes"):
            all_of = getattr(passes.Pipeline, what).fget
            left = lambda self, all_of=all_of: all_of(self) - less.get(self.owner.name, set())
            patch.setattr(passes.Pipeline, what, property(left))
        yield


def differ(name: str, run) -> bool:
    found = []
    for schedule, fill in WAYS if name in TRAINED else WAYS[:2]:
        os.environ |= {"HARDSPLAT_SCHEDULE": schedule, "HARDSPLAT_POISON": f"step {fill}"}
        found.append(run())
    print(name, *found)
    return len(set(found)) > 1


def main(scene: str, *missing: str) -> None:
    runs, found = cases(Device(), Path(scene)), []
    for word in missing:
        what, case = word.split("@")
        with undeclared(*what.split(":")):
            found += [case] if differ(word, runs[case]) else []
    if not missing:
        found = [name for name, run in runs.items() if differ(name, run)]
    print(f"differ: {'; '.join(found) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
