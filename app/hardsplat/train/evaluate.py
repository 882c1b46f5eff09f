"""PSNR and SSIM on held-out views, measured on the GPU; `hardsplat eval`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat import contract
from hardsplat.api import finished
from hardsplat.camera import Camera
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.gpu.context import Device
from hardsplat.gpu.memory import Buffer, Image
from hardsplat.gpu.passes import build_all
from hardsplat.gpu.probe import open_device
from hardsplat.gpu.recorder import Recorder
from hardsplat.io.images import over
from hardsplat.io.masks import kept, kept_pixels
from hardsplat.io.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.presets import SAVED_NAME
from hardsplat.raster import BACKENDS, fastest
from hardsplat.raster.frame import camera_row, frame_row
from hardsplat.raster.parameters import Parameters
from hardsplat.raster.rasterizer import Rasterizer
from hardsplat.report.page import write_comparison
from hardsplat.train.loss import METRIC_PASSES, allocate_metrics, read_metrics, record_metrics
from hardsplat.train.lpips import VARIANTS, Lpips
from hardsplat.train.lpips import VERSION as LPIPS_VERSION
from hardsplat.train.photos import pack
from hardsplat.train.report import check_folder, make_folder, write_json
from hardsplat.train.result import find_model
from hardsplat.variants.formats import FORMATS

BACKGROUNDS = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0), "random": (0.0, 0.0, 0.0)}  # random is for training only
_NOTHING = np.zeros((0, 0, 3))


@dataclass
class Measured:
    name: str
    psnr: float
    ssim: float
    image: np.ndarray  # (H, W, 3) float32, not clamped
    photo: np.ndarray  # (H, W, 3) uint8, over the background
    fitted_psnr: float  # after a fit of colours
    fitted_ssim: float


class Evaluator:
    """Renders views with a rasterizer and measures them. Its own camera, frame and photograph leave a training run's alone."""

    def __init__(self, device: Device, raster: Rasterizer, width: int, height: int):
        self.device, self.raster, self.width, self.height = device, raster, width, height
        self._own = {n: Buffer(device, contract.itemsize(n), n) for n in ("camera", "frame")}
        self._own["photos"] = Buffer(device, width * height * 4, "photos")
        self._own |= allocate_metrics(device, width, height)
        self._own["fitted"] = Image(device, width, height, FORMATS["float32"].vk, np.float32, "fitted")
        self._record()

    def _record(self) -> None:
        self.resources = {**self.raster.resources, **self._own}
        self._recorder = Recorder(self.device, self.resources)
        self.raster.record_forward(self._recorder)
        record_metrics(self._recorder, build_all(self.device, METRIC_PASSES), self.width, self.height)
        self._recorder.end()
        self._fitted = Recorder(self.device, {**self.resources, "target": self._own["fitted"]})
        record_metrics(self._fitted, build_all(self.device, METRIC_PASSES), self.width, self.height)
        self._fitted.end()

    def measure(self, name: str, camera: Camera, photo: np.ndarray, frame: np.ndarray) -> Measured:
        """frame: a contract Frame row (SH degree, background, near plane)."""
        self.resources["camera"].upload(camera_row(camera))
        self.resources["frame"].upload(frame)
        self.resources["photos"].upload(pack(photo))
        self._recorder.run_once()
        if self.raster.make_room():
            self._recorder.destroy()
            self._fitted.destroy()
            self._record()
            self._recorder.run_once()
        image, _ = finished(self.resources["target"].download()[: camera.height, : camera.width], frame["background"])
        pixels = kept_pixels(photo)
        psnr, ssim = read_metrics(self.resources, camera, pixels)
        shown = over(photo, frame["background"])
        texels = np.zeros((self.height, self.width, 4), np.float32)
        texels[: camera.height, : camera.width, :3] = color_fitted(image, shown, kept(photo))
        self._own["fitted"].upload(texels)
        self._fitted.run_once()
        return Measured(name, psnr, ssim, image, shown, *read_metrics(self.resources, camera, pixels))

    def destroy(self) -> None:
        self._recorder.destroy()
        self._fitted.destroy()
        for resource in self._own.values():
            resource.destroy()


def color_fitted(image: np.ndarray, photo: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """A render (H, W, 3) float32 with the exposure and colour of its photograph: the 3x4 map of colours that brings it nearest, by least squares, in 0..1.

    photo: (H, W, 3) uint8. keep: (H, W) bool, the pixels that count. What is left is what no exposure and no white balance explains (the cc_ metrics of gsplat).
    """
    shown = np.clip(image, 0, 1)
    ones = np.concatenate([shown, np.ones_like(shown[..., :1])], axis=-1).reshape(-1, 4)
    counted = ones[keep.reshape(-1)].astype(np.float64)
    target = photo.reshape(-1, 3)[keep.reshape(-1)].astype(np.float64) / 255
    matrix = np.linalg.lstsq(counted.T @ counted, counted.T @ target, rcond=1e-10)[0]
    return np.clip(ones @ matrix.astype(np.float32), 0, 1).reshape(shown.shape)


def evaluation_frame(config: TrainConfig) -> np.ndarray:
    return frame_row(config.sh_degree, BACKGROUNDS[config.background], config.near_plane)


def measure_all(
    device: Device, raster: Rasterizer, scene: Scene, indices: list[int], frame: np.ndarray, quiet: bool, cameras: Sequence[Camera] | None = None
) -> Iterator[Measured]:
    """Views one by one. The canvas must hold the largest of them. cameras: in the place of theirs."""
    views = [scene.views[i] for i in indices]
    evaluator = Evaluator(device, raster, raster.width, raster.height)
    try:
        for view, camera in zip(tqdm(views, desc="measuring", unit="view", leave=False, disable=quiet), cameras or [view.camera for view in views]):
            yield evaluator.measure(view.name, camera, view.load(), frame)
    finally:
        evaluator.destroy()


def summary(measured: Sequence[Measured]) -> dict:
    """Means and the table of views, as it goes into JSON. fitted_psnr, fitted_ssim: after `color_fitted`."""
    names = ("psnr", "ssim", "fitted_psnr", "fitted_ssim")
    views = [{"name": m.name, **{name: getattr(m, name) for name in names}} for m in measured]
    return {**{name: float(np.mean([view[name] for view in views])) for name in names}, "views": views}


def canvas_of(scene: Scene) -> tuple[int, int]:
    """Width and height that hold every view."""
    return max(v.camera.width for v in scene.views), max(v.camera.height for v in scene.views)


def save_comparison(folder: Path, m: Measured) -> None:
    """Render and photograph, named like the view."""
    write_comparison(folder, m.name, m.image, m.photo)


def _refined(gpu: Device, config: TrainConfig, gaussians: Gaussians, scene: Scene) -> list[Camera]:
    """The cameras of the held-out views where the splats show most of them."""
    from hardsplat.train.held_out import refine_held_out  # a session, which most measurements do without

    gradient = "analytic" if config.gradient == "stochastic" else config.gradient
    config = replace(config, rasterizer=fastest(gpu, config), gradient=gradient)
    return refine_held_out(gpu, config, gaussians, scene, scene.test)


def evaluate_run(result: str, data_dir: str | None = None, result_dir: str | None = None, device: str | None = None, pose_opt: bool = False, lpips: str | None = None) -> dict:
    """`hardsplat eval`: measures a run folder or a PLY on the held-out views of its scene and writes eval.json and comparisons.

    pose_opt: also from refined poses of those views, which a run with that setting has anyhow. lpips: a variant of VARIANTS in lpips.py, measured too."""
    distance = Lpips(lpips) if lpips else None
    ply, config = find_model(result, data_dir, device)
    if config.data_dir is None:
        raise UserError(f"{ply}: no {SAVED_NAME} beside it says which scene it shows; add --data-dir SCENE")
    out = Path(result_dir) if result_dir else ply.parent
    check_folder(out)
    scene = load_scene(config.data_dir, config.data_factor, config.test_every, config.mask_mode)
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
    rows, distances = [], []
    cameras = _refined(gpu, config, gaussians, scene) if pose_opt or config.pose_opt else None
    for m in measure_all(gpu, raster, scene, scene.test, frame, config.quiet):
        rows.append(replace(m, image=_NOTHING, photo=_NOTHING))
        if distance:
            distances.append(distance(m.image, m.photo))
        save_comparison(out / "renders", m)
    again = measure_all(gpu, raster, scene, scene.test, frame, config.quiet, cameras) if cameras else ()
    refined = {"refined": summary([replace(m, image=_NOTHING, photo=_NOTHING) for m in again])} if cameras else {}
    raster.destroy()
    parameters.destroy()
    table = {**summary(rows), **refined, "splats": len(gaussians), "ply": str(ply), "device": gpu.name, "format": config.format}
    if lpips:
        table["lpips"] = {"mean": float(np.mean(distances)), "views": distances, "variant": lpips, "version": LPIPS_VERSION, "what": VARIANTS[lpips].note}
    write_json(out / "eval.json", table)
    for row in (*table["views"], {**table, "name": f"mean of {len(rows)} held-out views"}):
        print(f"{row['name']:32s} PSNR {row['psnr']:6.2f} dB  SSIM {row['ssim']:.4f}   with colours fitted {row['fitted_psnr']:6.2f} dB  {row['fitted_ssim']:.4f}")
    if lpips:
        print(f"LPIPS {table['lpips']['mean']:.4f} ({lpips}: {VARIANTS[lpips].note}; version {LPIPS_VERSION})")
    if cameras:
        r = table["refined"]
        print(f"{'with refined poses':32s} PSNR {r['psnr']:6.2f} dB  SSIM {r['ssim']:.4f}   with colours fitted {r['fitted_psnr']:6.2f} dB  {r['fitted_ssim']:.4f}")
    print(f"written: {out / 'eval.json'}, renders and their photographs in {out / 'renders'}")
    return table
