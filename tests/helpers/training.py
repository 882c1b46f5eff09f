"""A tiny scene and short runs on it, for the tests of training."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.formats.checkpoint import Checkpoint
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.step.photos import Photos
from hardsplat.step.runner import StepRunner
from hardsplat.train.features.depth import depth_inputs
from hardsplat.train.job.facts import DeviceFacts, Facts, Views, training_views
from hardsplat.train.job.job import Job, decide
from hardsplat.train.run.start import initial_gaussians
from hardsplat.train.session.session import Session
from hardsplat.train.strategies import STRATEGIES
from hardsplat.train.strategies.strategy import Strategy
from tests.helpers.goldens import random_scene
from tests.helpers.tables import COMMON
from tests.oracle import loss as oracle_loss
from tests.oracle.render import render

SMALL = dict(strategy="adaptive", rasterizer="hardware", batch_steps=5, moments="float32")
SMALL |= dict(refine_start_iter=5, refine_every=10, grow_grad2d=1e-3, sh_degree=1, quiet=True)
SMALL |= dict(eval_steps=(), save_steps=())
OPENED: list[Session] = []  # of the test that runs; the fixture sessions_end destroys them


def settings(scene: Path, result_dir: Path | None = None, **changes) -> TrainConfig:
    """A run of 30 steps that densifies early, unless `changes` say otherwise."""
    own = {"max_steps": 30} | SMALL | changes
    return TrainConfig.of(data_dir=scene, result_dir=result_dir, **own)


def one_photograph_fits(monkeypatch) -> list[int]:
    """Memory for two photographs in flight, one a batch; the list: steps of each batch."""
    monkeypatch.setattr("hardsplat.step.photos.SHARE_OF_MEMORY", 0.0)
    run, batches = StepRunner.run, []

    def noted(runner, order, *given):
        batches.append(len(order))
        run(runner, order, *given)

    monkeypatch.setattr(StepRunner, "run", noted)
    return batches


def strategy_of(config: TrainConfig) -> Strategy:
    return STRATEGIES[config.densify.strategy](config.densify, config.run.max_steps)


def splats_of(config: TrainConfig, scene: Scene) -> Gaussians:
    """The first splats of a run."""
    return initial_gaussians(config.start, scene, config.model.sh_degree, config.run.seed)


def job_of(device, config: TrainConfig, views: Views, **facts) -> Job:
    return decide(config, Facts(views, DeviceFacts.of(device, config), **facts))


def open_session(device, config: TrainConfig, batches: list | None = None) -> Session:
    """A session at step 0, which ends with the test. batches: gets the BatchResult of each."""
    c = config.scene
    scene = load_scene(c.data_dir, c.data_factor, c.test_every, c.mask_mode)
    views = [scene.views[i] for i in scene.train]
    job = job_of(device, config, training_views(scene), splats=len(scene.points))
    how = dict(ring=2 * config.run.batch_steps, fetches=not config.depth.depth_lambda)
    photos = Photos(device, [v.load() for v in views], config.run.images, **how)
    on_batch = (lambda result: None) if batches is None else batches.append
    sizes, known = [(v.camera.height, v.camera.width) for v in views], {}
    if config.depth.depth_lambda:
        maps = [np.random.default_rng(i).uniform(0, 1, size) for i, size in enumerate(sizes)]
        known = depth_inputs(maps, job.views.extent, photos)
    OPENED.append(Session(device, job, photos, on_batch, known))
    OPENED[-1].start(splats_of(config, scene))
    return OPENED[-1]


def frozen(device, config, cameras, photos, size=None, extent=1.0, depths=None, **more) -> Session:
    """A session whose splats stay as they are, which ends with the test. size: of the canvas, by
    default that of the first camera. depths: see features/depth.py. more: of Views."""
    views = Views(cameras, size or (cameras[0].width, cameras[0].height), extent, **more)
    photos = Photos(device, photos, "gpu", 2 * config.run.batch_steps)
    job = replace(job_of(device, config, views, frozen=True), validation=())
    known = depth_inputs(depths, extent, photos) if depths else {}
    OPENED.append(Session(device, job, photos, lambda batch: None, known))
    return OPENED[-1]


class OneStep:
    """A step of photographs of noise and of splats that stay as they are.

    scene: see random_scene. cameras: one by default. values: what trained quantities of photographs
    and cameras have before it, by name. step: steps before it; all bands of colour are in use after
    2. more: see frozen. view: whose step it was. before: its values, float64.
    """

    def __init__(self, device, scene, changes, cameras=None, values=None, step=2, **more):
        self.scene, self.size = scene, (scene["width"], scene["height"])
        cameras = cameras or [Camera(scene["w2c"], scene["K"], *self.size)]
        rng, shape = np.random.default_rng(7), (*self.size[::-1], 3)
        self.photos = [rng.integers(0, 256, shape, np.uint8) for _ in cameras]
        own = dict(sh_degree=2, sh_degree_interval=1, strategy="none", format="float32")
        config = TrainConfig.of(**own | dict(near_plane=0.01) | changes)
        self.session = frozen(device, config, cameras, self.photos, **more)
        self.splats = {n: scene[n] for n in ("means", "quats", "scales", "opacities", "sh")}
        self.session.start(Gaussians(*self.splats.values()))
        state = self.session.snapshot()
        state.step = step
        for name, items in (values or {}).items():
            state.buffers[name][0] = items
        self.session.restore(state)
        self.session.run(1)
        self.session.drain()
        self.view = int(self.struct("Frame")["view"])
        self.before = {n: state.buffers[n][0][self.view].astype(float) for n in values or {}}
        self.seen = self.session.resources["seen"].download(np.uint32, state.splats) > 0

    def struct(self, name: str) -> np.void:
        """A struct of the contract, as the step left it."""
        return self.session.resources[name.lower()].download(contract.dtype(name))[0]

    def gradient(self, name: str) -> np.ndarray:
        """(items, width) float64, of splats that were not seen 0."""
        p = self.session.store.parameters
        found = p.read(f"d_{name}", p.items(name, len(self.seen)))[0].astype(np.float64)
        return found * self.seen[:, None] if name in COMMON else found

    def loss(self, camera: Camera, change=lambda image: image, **more) -> float:
        """By the oracle, of the splats as this camera shows them, and as they are then changed."""
        size = dict(width=self.size[0], height=self.size[1], sh_degree=2)
        image = render(**self.splats, **size, w2c=camera.w2c, K=camera.K, **more).image
        return oracle_loss.l1_dssim(change(image), self.photos[self.view] / 255)[0]


def partly_outside() -> dict:
    """60 splats, of which some are so far outside that the Jacobian of a pinhole is clamped."""
    s = random_scene(1, 60, 48, 32, 2)
    right, forward = s["w2c"][0, :3], s["w2c"][2]
    depth = s["means"][:6] @ forward[:3] + forward[3]
    s["means"][:6] += 1.2 * right * depth[:, None] / s["K"][0, 0] * 48 / 2
    s["scales"][:6] *= 4
    return s


def densified(session: Session, times: int, room: int = 0) -> set[int]:
    """Returns its capacities over `times` densifications. room: splats that have room before."""
    if room:
        session._grow(room)
    capacities = {session.store.parameters.capacity}
    for _ in range(times):
        session.run(1)
        session.densify()
        capacities.add(session.store.parameters.capacity)
    return capacities


def same_state(a, b) -> bool:
    """Two checkpoints agree in every bit of their splats, and in the step."""
    equal = all(a.buffers[name].tobytes() == b.buffers[name].tobytes() for name in a.buffers)
    of = lambda state: (state.step, state.sh_degree, state.buffers.keys())
    return equal and of(a) == of(b)


def resumed_exactly(device, config: TrainConfig, folder: Path) -> Checkpoint:
    """The state after 14 steps, the same where the run went on from a checkpoint of step 8."""
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
