"""A tiny scene and short runs on it, for the tests of training."""

from pathlib import Path

import numpy as np

from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import load_scene
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.measure import canvas_of
from hardsplat.train.run.start import initial_gaussians
from hardsplat.train.session.session import Session
from hardsplat.train.step.photos import Photos
from hardsplat.train.step.views import Views

SMALL = dict(strategy="adaptive", rasterizer="hardware", batch_steps=5, moments="float32")
SMALL |= dict(refine_start_iter=5, refine_every=10, grow_grad2d=1e-3, sh_degree=1, quiet=True)
SMALL |= dict(eval_steps=(), save_steps=())
OPENED: list[Session] = []  # of the test that runs; the fixture sessions_end destroys them


def settings(scene: Path, result_dir: Path | None = None, **changes) -> TrainConfig:
    """A run of 30 steps that densifies early, unless `changes` say otherwise."""
    own = {"max_steps": 30} | SMALL | changes
    return TrainConfig.of(data_dir=scene, result_dir=result_dir, **own)


def open_session(device, config: TrainConfig, batches: list | None = None) -> Session:
    """A session with the scene's first splats at step 0, which ends with the test. batches: gets
    the BatchResult of each."""
    scene = load_scene(
        config.scene.data_dir,
        config.scene.data_factor,
        config.scene.test_every,
        config.scene.mask_mode,
    )
    views = [scene.views[i] for i in scene.train]
    how = dict(ring=2 * config.run.batch_steps, fetches=not config.depth.depth_lambda)
    photos = Photos(device, [v.load() for v in views], config.run.images, **how)
    on_batch = (lambda result: None) if batches is None else batches.append
    sizes, known = [(v.camera.height, v.camera.width) for v in views], None
    if config.depth.depth_lambda:
        known = [np.random.default_rng(i).uniform(0, 1, size) for i, size in enumerate(sizes)]
    cameras, numbers = ([getattr(v, name) for v in views] for name in ("camera", "number"))
    shown = Views(cameras, canvas_of(scene), scene.extent, numbers, known)
    OPENED.append(Session(device, config, shown, photos, on_batch))
    OPENED[-1].start(initial_gaussians(config, scene))
    return OPENED[-1]


def frozen(device, config, cameras, photos, size=None, extent=1.0, **more) -> Session:
    """A session whose splats stay as they are, which ends with the test. size: of the canvas, by
    default that of the first camera. more: of Views."""
    views = Views(cameras, size or (cameras[0].width, cameras[0].height), extent, **more)
    photos = Photos(device, photos, "gpu", 2 * config.run.batch_steps)
    OPENED.append(Session(device, config, views, photos, lambda batch: None, frozen=True))
    return OPENED[-1]


def densified(session: Session, times: int, room: int = 0) -> set[int]:
    """Returns its capacities over `times` densifications. room: splats that have room before."""
    if room:
        session._grow(room, session.count())
    capacities = {session.parameters.capacity}
    for _ in range(times):
        session.run(1)
        session.densify()
        capacities.add(session.parameters.capacity)
    return capacities


def same_state(a, b) -> bool:
    """Two checkpoints agree in every bit of their splats, and in the step."""
    equal = all(a.buffers[name].tobytes() == b.buffers[name].tobytes() for name in a.buffers)
    of = lambda state: (state.step, state.sh_degree, state.buffers.keys())
    return equal and of(a) == of(b)


def resumed_exactly(device, config: TrainConfig, folder: Path) -> Checkpoint:
    """The state after 14 steps, asserted to be the same where the run went on from a checkpoint
    of step 8. folder: for that."""
    first, second = (open_session(device, config) for _ in range(2))
    first.run(8)
    path = checkpoints.path_of(folder, first.step)
    checkpoints.save(path, first.snapshot())
    second.restore(checkpoints.load(path))
    for session in (first, second):
        session.run(6)
    ends = [session.snapshot() for session in (first, second)]
    assert same_state(*ends)
    return ends[0]
