"""A small scene of our own, on which variants of a rasterizer are timed against each other;
app/hardsplat/raster/core/choose.py decides by it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.device.context import Device, DeviceLost
from hardsplat.gpu.device.instance import ValidationError
from hardsplat.gpu.passes import shader
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.core.frame import camera_data, frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.sinks import STORE

SIZES = ((640, 480), (320, 240), (160, 120), (80, 60))  # px; on a CPU the last
SLOW = 20.0  # ms of a frame: then a smaller one
REPEATS = 3  # timed frames, after one that warms up
HOPELESS = 1.5  # times the best: after such a frame no more are drawn


def scene(width: int, height: int) -> tuple[Gaussians, Camera]:
    """Splats as a trained scene shows them to one of its cameras, always the same.

    Half axes (to alpha = 1/255) are log-normal around 3.7 x 1.8 px. Splats are faint and solid,
    one for 2 px, which makes about 90 a pixel."""
    rng = np.random.default_rng(0)
    n, focal = width * height // 2, float(width)
    z, angle, opacity = rng.uniform(2, 6, n), rng.uniform(0, np.pi, n), rng.uniform(0.02, 0.7, n)
    half = np.minimum(np.exp(rng.normal(0, 1.05, n)), 0.25 * width / 3.7)[:, None] * (3.7, 1.8, 1.8)
    scales = half * (z / focal / np.sqrt(2 * np.log(255 * opacity)))[:, None]
    x, y = (rng.uniform(-0.5, 0.5, n) * side * z / focal for side in (width, height))
    quats = np.stack([np.cos(angle / 2), np.zeros(n), np.zeros(n), np.sin(angle / 2)], 1)
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    sh, camera = rng.normal(0, 0.7, (n, 1, 3)), Camera(np.eye(4), K, width, height)
    return Gaussians(np.stack([x, y, z], 1), quats, scales, opacity, sh), camera


def mark() -> str:
    """A text that changes with the trial scene and its sizes."""
    gaussians, _ = scene(*SIZES[-1])
    digest = hashlib.sha256(gaussians.means.tobytes() + gaussians.scales.tobytes())
    return f"{SIZES} {digest.hexdigest()}"


class Trial:
    """Times rasterizers that `make` builds, as HardwareRasterizer is; `sources(options)` are the
    shaders of one.

    spent: seconds that their frames took, without compiling. size: of the scene, px. Raises
    OutOfMemory with nothing allocated.
    """

    def __init__(
        self, device: Device, make: Callable, sources: Callable, size: tuple[int, int] = SIZES[-1]
    ):
        self.device, self.make, self.sources, self.spent = device, make, sources, 0.0
        gaussians, self.camera = scene(*size)
        with ExitStack() as stack:
            self.parameters = Parameters(device, len(gaussians), 0, gradients="all")
            stack.callback(self.parameters.destroy)
            self.parameters.upload(gaussians)
            self._stack = stack.pop_all()
        shape = (self.camera.height, self.camera.width, 4)
        self._d_image = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)

    @classmethod
    def fitting(cls, device: Device, make: Callable, sources: Callable, options: Any) -> Trial:
        """With the largest scene of which `options` draw a frame quickly here."""
        for size in SIZES[-1:] if device.physical.kind == "CPU" else SIZES:
            trial = cls(device, make, sources, size)
            trial.prepare([options])
            ms, _ = trial.attempt(options, best=0.0)  # a single frame
            if ms is None or ms <= SLOW or size == SIZES[-1]:
                break
            trial.destroy()
        trial.spent = 0.0
        return trial

    def prepare(self, candidates: Iterable[Any]) -> None:
        """Compiles their shaders in parallel; what fails will fail again when it is timed."""
        found = set()
        for options in candidates:
            with suppress(UserError):
                found |= self.sources(options)

        def one(source: shader.ShaderSource) -> None:
            with suppress(UserError, shader.ShaderError):
                shader.compile_source(source)

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, found))

    def ms(self, options: Any, best: float = float("inf")) -> float:
        """Milliseconds of the fastest of a few frames, forward and backward. best: of the others so
        far, what is far above it is not drawn again."""
        with ExitStack() as stack:
            width, height = self.camera.width, self.camera.height
            raster = self.make(self.device, self.parameters, width, height, options, sink=STORE)
            stack.callback(raster.destroy)
            raster.resources["camera"].upload(camera_data(self.camera))
            raster.resources["frame"].upload(frame_data(0, (0.0, 0.0, 0.0), 0.2))
            raster.resources["d_image"].upload(self._d_image)

            def run() -> Recorder:
                recorder = Recorder(self.device, raster.resources, timed=True)
                stack.callback(recorder.destroy)
                raster.record_forward(recorder)
                raster.record_backward(recorder)
                recorder.end().run_once()
                return recorder

            start = time.perf_counter()
            found: list[float] = []
            recorder = run()
            if raster.reserve_pairs():
                recorder = run()
            while len(found) < REPEATS and not (found and min(found) > HOPELESS * best):
                recorder.run_once()
                found.append(sum(recorder.times().values()))
            self.spent += time.perf_counter() - start
        return min(found)

    def attempt(self, options: Any, best: float = float("inf")) -> tuple[float | None, str]:
        """(milliseconds, ""), or (None, why) for what the device cannot build or hold."""
        try:
            return self.ms(options, best), ""
        except (DeviceLost, ValidationError):
            raise
        except Exception as error:
            # a driver's refusal to build a pipeline has as many types as drivers have results
            return None, f"{type(error).__name__}: {error}".splitlines()[0]

    def destroy(self) -> None:
        self._stack.close()
