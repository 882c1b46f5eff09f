"""Small scenes whose stochastic gradients are computed often, on the GPU and in float64."""

import numpy as np

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.sinks import STORE
from hardsplat.raster.renderer import Camera, Gaussians
from hardsplat.settings.train import TrainConfig
from hardsplat.step.begin import FIT_SCHEDULE_PASSES, record_end
from hardsplat.step.loss import allocate_loss, loss_passes, loss_terms, record_loss
from hardsplat.step.photos import pack
from tests.helpers.goldens import random_scene
from tests.helpers.tables import COMMON
from tests.oracle import spsa
from tests.oracle.loss import l1_dssim
from tests.oracle.render import render

BACKGROUND, LAMBDA, SEED, NEAR = np.array([0.2, 0.4, 0.6], np.float32), 0.2, 7, 0.01
STEPS = {"means": 0.1, "quats": 0.02, "log_scales": 0.05, "logit_opacities": 0.1}
STEPS |= {"sh0": 0.1, "shN": 0.05}


class Scene:
    """n splats before a camera, and a photograph of blots that is none of them. theta: trained
    parameters, float64 of what the GPU has."""

    def __init__(self, seed, n=6, width=24, height=16, sh_degree=1, overlap=3.0):
        options = dict(overlap=overlap, anisotropy=2.0, opacity=(0.3, 0.8))
        scene = random_scene(seed, n, width, height, sh_degree, **options)
        quats = scene["quats"] / np.linalg.norm(scene["quats"], axis=1, keepdims=True)
        rest = (scene[name] for name in ("scales", "opacities", "sh"))
        self.gaussians = Gaussians(scene["means"], quats, *rest)
        self.camera = {key: scene[key] for key in ("w2c", "K", "width", "height", "sh_degree")}
        g = self.gaussians
        theta = {"means": g.means, "quats": g.quats, "log_scales": np.log(g.scales)}
        theta |= {"logit_opacities": g.logit_opacities, "sh": g.sh}
        self.theta = {name: np.asarray(value, np.float64) for name, value in theta.items()}
        blocks = -(-height // 4), -(-width // 4), 3
        blots = np.random.default_rng(seed).integers(0, 256, blocks, np.uint8)
        self.photo = np.ascontiguousarray(blots.repeat(4, 0).repeat(4, 1)[:height, :width])
        self.n, self.planes = n, (sh_degree + 1) ** 2

    @property
    def target(self):
        return self.photo / 255.0

    def steps(self, sizes=STEPS) -> dict:
        """c by parameter, shaped as parameters are."""
        c = spsa.steps_of(spsa.project(**spsa.drawn(self.theta), **self.camera), self.camera, sizes)
        c["sh"] = c["sh"][:, : self.planes]
        return {name: np.broadcast_to(c[name], self.theta[name].shape) for name in spsa.FIELDS}

    def analytic(self) -> dict:
        """Gradients of the trained parameters, float64."""
        drawn = spsa.drawn(self.theta) | self.camera
        frame = render(**drawn, background=BACKGROUND, termination="none")
        return self.through(frame.backward(l1_dssim(frame.image, self.target, LAMBDA)[1]))

    def through(self, g) -> dict:
        """Gradients by linear scales and opacities -> by the trained parameters."""
        d = spsa.drawn(self.theta)
        o, out = d["opacities"], {name: g[name] for name in ("means", "quats", "sh")}
        own = {"log_scales": g["scales"] * d["scales"]}
        return out | own | {"logit_opacities": g["opacities"] * o * (1 - o)}


class Estimates:
    """What a rasterizer makes of a scene at steps 0, 1, ...: each `run` is one. options: fields
    of its options and of Stochastic."""

    def __init__(self, device, scene: Scene, rasterizer="hardware", format="float32", **options):
        self.device, self.scene = device, scene
        size = scene.camera["width"], scene.camera["height"]
        backend = BACKENDS[rasterizer]
        own = {"gradient": "stochastic", "format": format, **options}
        config = TrainConfig.of(**own)
        made = backend.options.of(config.raster, config.gradient)
        self.pairs = made.stochastic.gradient_pairs
        self.parameters = Parameters(device, scene.n, scene.camera["sh_degree"], gradients="all")
        self.raster = backend.rasterizer(device, self.parameters, *size, made, sink=STORE)
        self.own = allocate_loss(device, *size, differences=True)
        counts = {"loss_terms": 1, "history": contract.CONSTANTS["HISTORY"]}
        for name, n in {**counts, "photos": size[0] * size[1]}.items():
            self.own[name] = Buffer(device, n * contract.itemsize(name), name)
        self.resources = {**self.raster.resources, **self.own}
        self.parameters.upload(scene.gaussians)
        frame = frame_data(scene.camera["sh_degree"], BACKGROUND, NEAR)
        frame["seed"] = SEED
        terms = loss_terms(TrainConfig.of(ssim_lambda=LAMBDA, l2_share=0.0).flat())
        self.resources["loss_terms"].upload(terms)
        self.resources["frame"].upload(frame)
        camera = Camera(scene.camera["w2c"], scene.camera["K"], *size)
        self.resources["camera"].upload(camera_data(camera))
        self.resources["photos"].upload(pack(scene.photo))
        run = build_all(device, [*FIT_SCHEDULE_PASSES[1:], *loss_passes(differences=True)])
        self.recorder = Recorder(device, self.resources, timed=True)
        self.raster.record_step(self.recorder, lambda r: record_loss(r, run, *size))
        record_end(self.recorder, run)
        self.recorder.end()

    def run(self) -> np.ndarray:
        """(pairs, N): what each splat's pixels lose more with the signs than against them."""
        self.recorder.run_once()
        found = self.resources["splat_differences"].download(np.float32)
        return found.reshape(self.pairs, -1)[:, : self.scene.n].astype(np.float64)

    def images(self) -> list[np.ndarray]:
        """The last pair, backgrounds behind it."""
        out = []
        for name in ("target", "target_minus"):
            pixels = self.resources[name].download().astype(np.float64)
            out.append(pixels[..., :3] + pixels[..., 3:] * BACKGROUND)
        return out

    def estimate(self) -> dict:
        """The gradients handed to the sink, float32."""
        d = {name: self.parameters.read(f"d_{name}", self.scene.n) for name in COMMON}
        sh = np.concatenate([d["sh0"], d["shN"]]).transpose(1, 0, 2)
        out = {name: d[name][0] for name in ("means", "quats", "log_scales")}
        return out | {"logit_opacities": d["logit_opacities"][0, :, 0], "sh": sh}

    def destroy(self) -> None:
        self.recorder.destroy()
        for part in (self.raster, self.parameters, *self.own.values()):
            part.destroy()


def estimates_of(sums, s, c) -> dict:
    """Gradients from sums (N,) of differences, signs and steps by parameter."""
    return {
        name: sums.reshape(-1, *[1] * (s[name].ndim - 1)) * s[name] / (2 * c[name])
        for name in spsa.FIELDS
    }


def errors_by_samples(samples, exact, counts):
    """Relative error of means of `counts` samples: root mean square over as many disjoint runs
    of them as there are. samples (S, K), exact (K,)."""
    out = []
    for n in counts:
        means = samples[: len(samples) // n * n].reshape(-1, n, samples.shape[1]).mean(1)
        out.append(np.sqrt(np.mean(np.sum((means - exact) ** 2, 1))) / np.linalg.norm(exact))
    return np.array(out)
