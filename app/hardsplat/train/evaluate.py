"""PSNR and SSIM on held-out views, measured on the GPU; `hardsplat eval`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat import contract
from hardsplat.api import finished
from hardsplat.camera import Camera
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.passes import build_all
from hardsplat.gpu.probe import open_device
from hardsplat.gpu.recorder import Recorder
from hardsplat.io.images import over
from hardsplat.io.masks import kept_pixels
from hardsplat.io.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.presets import SAVED_NAME
from hardsplat.raster import BACKENDS, fastest
from hardsplat.raster.frame import camera_row, frame_row
from hardsplat.raster.parameters import Parameters
from hardsplat.raster.rasterizer import Rasterizer
from hardsplat.report.page import write_comparison
from hardsplat.train.loss import METRIC_PASSES, allocate_metrics, read_metrics, record_metrics
from hardsplat.train.photos import pack
from hardsplat.train.report import check_folder, make_folder, write_json
from hardsplat.train.result import find_model

BACKGROUNDS = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0), "random": (0.0, 0.0, 0.0)}  # random is for training only


@dataclass
class Measured:
    name: str
    psnr: float
    ssim: float
    image: np.ndarray  # (H, W, 3) float32, not clamped
    photo: np.ndarray  # (H, W, 3) uint8, over the background


class Evaluator:
    """Renders views with a rasterizer and measures them. Its own camera, frame and photograph leave a training run's alone."""

    def __init__(self, device: Device, raster: Rasterizer, width: int, height: int):
        self.device, self.raster, self.width, self.height = device, raster, width, height
        self._own = {n: Buffer(device, contract.itemsize(n), n) for n in ("camera", "frame")}
        self._own["photos"] = Buffer(device, width * height * 4, "photos")
        self._own |= allocate_metrics(device, width, height)
        self._record()

    def _record(self) -> None:
        self.resources = {**self.raster.resources, **self._own}
        self._recorder = Recorder(self.device, self.resources)
        self.raster.record_forward(self._recorder)
        record_metrics(self._recorder, build_all(self.device, METRIC_PASSES), self.width, self.height)
        self._recorder.end()

    def measure(self, name: str, camera: Camera, photo: np.ndarray, frame: np.ndarray) -> Measured:
        """frame: a contract Frame row (SH degree, background, near plane)."""
        self.resources["camera"].upload(camera_row(camera))
        self.resources["frame"].upload(frame)
        self.resources["photos"].upload(pack(photo))
        self._recorder.run_once()
        if self.raster.make_room():
            self._recorder.destroy()
            self._record()
            self._recorder.run_once()
        image, _ = finished(self.resources["target"].download()[: camera.height, : camera.width], frame["background"])
        psnr, ssim = read_metrics(self.resources, camera, kept_pixels(photo))
        return Measured(name, psnr, ssim, image, over(photo, frame["background"]))

    def destroy(self) -> None:
        self._recorder.destroy()
        for resource in self._own.values():
            resource.destroy()


def evaluation_frame(config: TrainConfig) -> np.ndarray:
    return frame_row(config.sh_degree, BACKGROUNDS[config.background], config.near_plane)


def measure_all(device: Device, raster: Rasterizer, scene: Scene, indices: list[int], frame: np.ndarray, quiet: bool) -> Iterator[Measured]:
    """Views one by one. The canvas must hold the largest of them."""
    views = [scene.views[i] for i in indices]
    evaluator = Evaluator(device, raster, raster.width, raster.height)
    try:
        for view in tqdm(views, desc="measuring", unit="view", leave=False, disable=quiet):
            yield evaluator.measure(view.name, view.camera, view.load(), frame)
    finally:
        evaluator.destroy()


def summary(measured: list[tuple[str, float, float]]) -> dict:
    """Means and the table of views, as it goes into JSON."""
    return {
        "psnr": float(np.mean([m[1] for m in measured])),
        "ssim": float(np.mean([m[2] for m in measured])),
        "views": [{"name": n, "psnr": p, "ssim": s} for n, p, s in measured],
    }


def canvas_of(scene: Scene) -> tuple[int, int]:
    """Width and height that hold every view."""
    return max(v.camera.width for v in scene.views), max(v.camera.height for v in scene.views)


def save_comparison(folder: Path, m: Measured) -> None:
    """Render and photograph, named like the view."""
    write_comparison(folder, m.name, m.image, m.photo)


def evaluate_run(result: str, data_dir: str | None = None, result_dir: str | None = None, device: str | None = None) -> dict:
    """`hardsplat eval`: measures a run folder or a PLY on the held-out views of its scene and writes eval.json and comparisons."""
    ply, config = find_model(result, data_dir, device)
    if config.data_dir is None:
        raise UserError(f"{ply}: no {SAVED_NAME} beside it says which scene it shows; add --data-dir SCENE")
    out = Path(result_dir) if result_dir else ply.parent
    check_folder(out)
    scene = load_scene(config.data_dir, config.data_factor, config.test_every)
    if not scene.test:
        raise UserError(f"{config.data_dir}: no view is held out (--test-every {config.test_every}); nothing to measure")
    gaussians = load_splats(ply)
    make_folder(out)
    gpu = open_device(config.device)
    parameters = Parameters(gpu, len(gaussians), gaussians.sh_degree)
    parameters.upload(gaussians)
    backend = BACKENDS[fastest(gpu, config)]
    raster = backend.rasterizer(gpu, parameters, *canvas_of(scene), backend.options.of(config), sink=None)
    frame = frame_row(gaussians.sh_degree, BACKGROUNDS[config.background], config.near_plane)
    rows = []
    for m in measure_all(gpu, raster, scene, scene.test, frame, config.quiet):
        rows.append((m.name, m.psnr, m.ssim))
        save_comparison(out / "renders", m)
    raster.destroy()
    parameters.destroy()
    table = {**summary(rows), "splats": len(gaussians), "ply": str(ply), "device": gpu.name, "format": config.format}
    write_json(out / "eval.json", table)
    for name, psnr, ssim in rows:
        print(f"{name:32s} PSNR {psnr:6.2f} dB  SSIM {ssim:.4f}")
    print(f"{'mean of ' + str(len(rows)) + ' held-out views':32s} PSNR {table['psnr']:6.2f} dB  SSIM {table['ssim']:.4f}")
    print(f"written: {out / 'eval.json'}, renders and their photographs in {out / 'renders'}")
    return table
