"""PSNR and SSIM on held-out views, measured on the GPU; `hardsplat eval`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.api import finished
from hardsplat.camera import Camera
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.gpu.context import Device
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.pipelines import build_all
from hardsplat.gpu.probe import open_device
from hardsplat.gpu.recorder import Recorder
from hardsplat.io.formats.base import ahead
from hardsplat.io.images import over
from hardsplat.io.masks import kept, kept_pixels
from hardsplat.io.scene import Scene, View, load_images, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.presets import SAVED_NAME
from hardsplat.progress import Bar
from hardsplat.raster import BACKENDS, fastest
from hardsplat.raster.frame import camera_data, frame_data
from hardsplat.raster.parameters import Parameters
from hardsplat.raster.rasterizer import Rasterizer
from hardsplat.train.camera_colors import CameraColors
from hardsplat.train.fitted import color_fitted
from hardsplat.train.intrinsics import focused_scene, load_intrinsics
from hardsplat.train.loss import METRIC_PASSES, allocate_metrics, read_metrics, record_metrics
from hardsplat.train.lpips import Lpips
from hardsplat.train.photos import pack
from hardsplat.train.report import check_folder, make_folder, write_json
from hardsplat.train.result import find_model, home_of, run_of
from hardsplat.variants.formats import FORMATS

Colored = Callable[[np.ndarray], np.ndarray]
BACKGROUNDS = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0), "random": (0.0, 0.0, 0.0)}  # random is for training only


@dataclass
class Measured:
    name: str
    psnr: float
    ssim: float
    target: np.ndarray | None  # (H, W, 4) as it was drawn, see api.finished; None where no picture was asked for
    photo: np.ndarray  # (H, W, 3) uint8, over the background
    fitted_psnr: float | None = None  # after a fit of colours, where that was asked for
    fitted_ssim: float | None = None
    background: np.ndarray | tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def image(self) -> np.ndarray | None:
        """(H, W, 3) float32, not clamped; None where it was not asked for. Made anew each time, in the thread that wants it."""
        return None if self.target is None else finished(self.target, self.background)[0]


class Evaluator:
    """Renders views with a rasterizer and measures them. Its own camera, frame and photograph leave a training run's alone."""

    def __init__(self, device: Device, raster: Rasterizer, width: int, height: int):
        self.device, self.raster, self.width, self.height = device, raster, width, height
        sizes = {"camera": contract.itemsize("camera"), "frame": contract.itemsize("frame"), "photos": width * height * 4}
        self._own = {name: Buffer(device, size, name, host=True) for name, size in sizes.items()}  # read once a view, so that a copy would take longer
        self._own |= allocate_metrics(device, width, height)
        self._fitted: Image | None = None  # made when it is asked for
        self._record()

    def _record(self) -> None:
        self.resources = {**self.raster.resources, **self._own}
        self._recorder = Recorder(self.device, self.resources)
        self.raster.record_forward(self._recorder)
        record_metrics(self._recorder, build_all(self.device, METRIC_PASSES), self.width, self.height)
        self._recorder.end()

    def measure(
        self,
        name: str,
        camera: Camera,
        photo: np.ndarray,
        frame: np.ndarray,
        picture: bool = True,
        fitted: bool = False,
        colored: Colored | None = None,
        words: np.ndarray | None = None,
    ) -> Measured:
        """frame: a contract Frame struct (SH degree, background, near plane). picture: the image is wanted, not its measures alone.

        fitted: also after a fit of colours. colored: what the camera that took the photograph does to an image, before that fit. words: pack(photo), where it is there."""
        self.resources["camera"].upload(camera_data(camera))
        self.resources["frame"].upload(frame)
        self.resources["photos"].upload(pack(photo) if words is None else words)
        self._recorder.run_once()
        if self.raster.make_room():
            self._recorder.destroy()
            self._record()
            self._recorder.run_once()
        target = self.resources["target"].download()[: camera.height, : camera.width] if picture or fitted else None
        psnr, ssim = read_metrics(self.resources, camera, kept_pixels(photo))
        shown = over(photo, frame["background"])
        measured = Measured(name, psnr, ssim, target, shown, background=frame["background"])
        if fitted and (image := measured.image) is not None:
            after = self._measure_fitted(color_fitted(colored(image) if colored else image, shown, kept(photo)), camera, kept_pixels(photo))
            measured.fitted_psnr, measured.fitted_ssim = after
        return measured

    def _measure_fitted(self, image: np.ndarray, camera: Camera, pixels: int) -> tuple[float, float]:
        """(PSNR, SSIM) of an image in the place of the render, against the photograph that was measured last."""
        if self._fitted is None:
            self._fitted = Image(self.device, self.width, self.height, FORMATS["float32"].vk, np.float32, "fitted")
        texels = np.zeros((self.height, self.width, 4), np.float32)
        texels[: camera.height, : camera.width, :3] = image
        self._fitted.upload(texels)
        recorder = Recorder(self.device, {**self.resources, "target": self._fitted})
        record_metrics(recorder, build_all(self.device, METRIC_PASSES), self.width, self.height)
        recorder.end()
        recorder.run_once()
        recorder.destroy()
        return read_metrics(self.resources, camera, pixels)

    def destroy(self) -> None:
        self._recorder.destroy()
        if self._fitted is not None:
            self._fitted.destroy()
        for resource in self._own.values():
            resource.destroy()


def evaluation_frame(config: TrainConfig) -> np.ndarray:
    return frame_data(config.sh_degree, BACKGROUNDS[config.background], config.near_plane)


def measure_all(
    device: Device,
    raster: Rasterizer,
    views: Sequence[View],
    frame: np.ndarray,
    quiet: bool,
    photos: Iterable[np.ndarray] | None = None,
    pictures: bool = True,
    cameras: Sequence[Camera] | None = None,
    fitted: bool = False,
    colors: CameraColors | None = None,
) -> Iterator[Measured]:
    """Views one by one. The canvas must hold the largest of them. photos: of these views, where they have been read already. pictures: of all views, or else of the first alone.

    cameras: in the place of those of the views. fitted: also after a fit of colours, of images as their cameras made them by `colors`."""
    evaluator = Evaluator(device, raster, raster.width, raster.height)
    try:
        photographs = load_images(views, progress=False) if photos is None else photos
        packed = ahead(photographs, lambda photo: (photo, pack(photo)))
        for i, (view, (photo, words)) in enumerate(zip(Bar(views, desc="measuring", unit="view", leave=False, disable=quiet), packed)):
            colored = partial(colors, number=view.number) if colors else None
            yield evaluator.measure(view.name, cameras[i] if cameras else view.camera, photo, frame, pictures or i == 0, fitted, colored, words)
    finally:
        evaluator.destroy()


def summary(measured: Sequence[Measured]) -> dict:
    """Means and the table of views, as it goes into JSON. fitted_psnr, fitted_ssim: after a fit of colours, where that was measured."""
    names = [name for name in ("psnr", "ssim", "fitted_psnr", "fitted_ssim") if measured and getattr(measured[0], name) is not None]
    views = [{"name": m.name, **{name: getattr(m, name) for name in names}} for m in measured]
    return {**{name: float(np.mean([view[name] for view in views])) for name in names}, "views": views}


def canvas_of(scene: Scene) -> tuple[int, int]:
    """Width and height that hold every view."""
    return max(v.camera.width for v in scene.views), max(v.camera.height for v in scene.views)


def save_comparison(folder: Path, m: Measured) -> None:
    """Render and photograph, named like the view."""
    from hardsplat.report.page import write_comparison  # plots and templates, which training imports in a thread

    image = m.image
    assert image is not None, "measured without pictures"
    write_comparison(folder, m.name, image, m.photo)


def _refined(gpu: Device, config: TrainConfig, gaussians: Gaussians, scene: Scene) -> list[Camera]:
    """The cameras of the held-out views where the splats show most of them."""
    from hardsplat.train.held_out import refine_held_out  # a session, which most measurements do without

    gradient = "analytic" if config.gradient == "stochastic" else config.gradient
    config = replace(config, rasterizer=fastest(gpu, config), gradient=gradient)
    return refine_held_out(gpu, config, gaussians, scene, scene.test)


def evaluate_run(result: str, data_dir: str | None = None, result_dir: str | None = None, device: str | None = None, pose_opt: bool = False, lpips: str | None = None) -> dict:
    """`hardsplat eval`: measures a run folder or a PLY on the held-out views of its scene and writes eval.json and comparisons.

    pose_opt: also from refined poses of those views, which a run with that setting has anyhow. lpips: a variant of VARIANTS in lpips.py, measured too.
    """
    ply, config = find_model(result, data_dir, device)
    if config.data_dir is None:
        raise UserError(f"{ply}: no {SAVED_NAME} beside it says which scene it shows; add --data-dir SCENE")
    distance = Lpips(lpips) if lpips else None
    out = Path(result_dir) if result_dir else home_of(ply)
    check_folder(out)
    scene = load_scene(config.data_dir, config.data_factor, config.test_every, config.mask_mode, config.undistort)
    if not scene.test:
        raise UserError(f"{config.data_dir}: no view is held out (--test-every {config.test_every}); nothing to measure")
    if config.intrinsics_opt:
        scene = focused_scene(scene, load_intrinsics(run_of(ply)))
    colors = CameraColors.load(run_of(ply)) if config.exposure != "none" else None
    gaussians = load_splats(ply)
    make_folder(out)
    gpu = open_device(config.device)
    parameters = Parameters(gpu, len(gaussians), gaussians.sh_degree)
    parameters.upload(gaussians)
    backend, lens = BACKENDS[fastest(gpu, config)], "distorted" if any(v.camera.distortion for v in scene.views) else "pinhole"
    raster = backend.rasterizer(gpu, parameters, *canvas_of(scene), replace(backend.options.of(config), lens=lens), sink=None)
    frame = frame_data(gaussians.sh_degree, BACKGROUNDS[config.background], config.near_plane)
    measures, distances = [], []
    for m in measure_all(gpu, raster, scene.held_out, frame, config.quiet, fitted=True, colors=colors):
        measures.append(replace(m, target=None))
        if distance and (image := m.image) is not None:
            distances.append(distance(image, m.photo))
        save_comparison(out / "renders", m)
    table = {**summary(measures), "splats": len(gaussians), "ply": str(ply), "device": gpu.name, "format": config.format}
    if pose_opt or config.pose_opt:
        cameras = _refined(gpu, config, gaussians, scene)
        again = measure_all(gpu, raster, scene.held_out, frame, config.quiet, cameras=cameras, fitted=True, colors=colors)
        table["refined"] = summary([replace(m, target=None) for m in again])
    raster.destroy()
    parameters.destroy()
    if distance:
        table["lpips"] = {"mean": float(np.mean(distances)), "views": distances, **distance.named}
    write_json(out / "eval.json", table)
    _say(table)
    print(f"written: {out / 'eval.json'}, renders and their photographs in {out / 'renders'}")
    return table


def _say(table: dict) -> None:
    lines = [*table["views"], {**table, "name": f"mean of {len(table['views'])} held-out views"}]
    lines += [{**table["refined"], "name": "mean with refined poses"}] if "refined" in table else []
    for line in lines:
        print(f"{line['name']:32s} PSNR {line['psnr']:6.2f} dB  SSIM {line['ssim']:.4f}   with colours fitted {line['fitted_psnr']:6.2f} dB  {line['fitted_ssim']:.4f}")
    if lpips := table.get("lpips"):
        print(f"LPIPS {lpips['mean']:.4f} ({lpips['variant']}: {lpips['what']}; version {lpips['version']})")
