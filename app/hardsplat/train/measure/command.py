"""`hardsplat eval`: PSNR and SSIM of a result on the held-out views of its scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.results.folder import check_folder, make_folder, write_json
from hardsplat.results.model import find_model, home_of, run_of
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.train import TrainConfig
from hardsplat.train.measure.camera_colors import CameraColors
from hardsplat.train.measure.lpips import Lpips
from hardsplat.train.measure.measure import BACKGROUNDS, Measured, canvas_of, measure_all, summary
from hardsplat.train.step.intrinsics import focused_scene, load_intrinsics


def save_comparison(folder: Path, m: Measured) -> None:
    """Render and photograph, named like the view."""
    from hardsplat.report.page import (
        write_comparison,
    )  # plots and templates, which training imports in a thread

    image = m.image
    assert image is not None, "measured without pictures"
    write_comparison(folder, m.name, image, m.photo)


def _refined(gpu: Device, config: TrainConfig, gaussians: Gaussians, scene: Scene) -> list[Camera]:
    """The cameras of the held-out views where the splats show most of them."""
    from hardsplat.train.measure.held_out import (
        refine_held_out,
    )  # a session, which most measurements do without

    gradient = "analytic" if config.gradient.gradient == "stochastic" else config.gradient.gradient
    config = config.changed(rasterizer=fastest(gpu, config), gradient=gradient)
    return refine_held_out(gpu, config, gaussians, scene, scene.test)


def evaluate_run(
    result: str,
    data_dir: str | None = None,
    result_dir: str | None = None,
    device: str | None = None,
    pose_opt: bool = False,
    lpips: str | None = None,
) -> dict:
    """`hardsplat eval`: measures a run folder or a PLY on the held-out views of its scene and
    writes eval.json and comparisons.

    pose_opt: also from refined poses of those views, which a run with that setting has anyhow.
    lpips: a variant of VARIANTS in lpips.py, measured too.
    """
    ply, config = find_model(result, data_dir, device)
    if config.scene.data_dir is None:
        raise UserError(
            f"{ply}: no {SAVED_NAME} beside it says which scene it shows; add --data-dir SCENE"
        )
    distance = Lpips(lpips) if lpips else None
    out = Path(result_dir) if result_dir else home_of(ply)
    check_folder(out)
    scene = load_scene(
        config.scene.data_dir,
        config.scene.data_factor,
        config.scene.test_every,
        config.scene.mask_mode,
        config.scene.undistort,
    )
    if not scene.test:
        raise UserError(
            f"{config.scene.data_dir}: no view is held out "
            f"(--test-every {config.scene.test_every}); "
            "nothing to measure"
        )
    if config.intrinsics.intrinsics_opt:
        scene = focused_scene(scene, load_intrinsics(run_of(ply)))
    colors = CameraColors.load(run_of(ply)) if config.exposure.exposure != "none" else None
    gaussians = load_splats(ply)
    make_folder(out)
    gpu = open_device(config.run.device)
    parameters = Parameters(gpu, len(gaussians), gaussians.sh_degree)
    parameters.upload(gaussians)
    backend, lens = (
        BACKENDS[fastest(gpu, config)],
        "distorted" if any(v.camera.distortion for v in scene.views) else "pinhole",
    )
    raster = backend.rasterizer(
        gpu,
        parameters,
        *canvas_of(scene),
        replace(backend.options.of(config), lens=lens),
        sink=None,
    )
    frame = frame_data(
        gaussians.sh_degree, BACKGROUNDS[config.scene.background], config.scene.near_plane
    )
    measures, distances = [], []
    for m in measure_all(
        gpu, raster, scene.held_out, frame, config.run.quiet, fitted=True, colors=colors
    ):
        measures.append(replace(m, target=None))
        if distance and (image := m.image) is not None:
            distances.append(distance(image, m.photo))
        save_comparison(out / "renders", m)
    table = {
        **summary(measures),
        "splats": len(gaussians),
        "ply": str(ply),
        "device": gpu.name,
        "format": config.raster.hardware.format,
    }
    if pose_opt or config.poses.pose_opt:
        cameras = _refined(gpu, config, gaussians, scene)
        again = measure_all(
            gpu,
            raster,
            scene.held_out,
            frame,
            config.run.quiet,
            cameras=cameras,
            fitted=True,
            colors=colors,
        )
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
        print(
            f"{line['name']:32s} PSNR {line['psnr']:6.2f} dB  SSIM {line['ssim']:.4f}   "
            f"with colours fitted {line['fitted_psnr']:6.2f} dB  {line['fitted_ssim']:.4f}"
        )
    if lpips := table.get("lpips"):
        print(
            f"LPIPS {lpips['mean']:.4f} ({lpips['variant']}: {lpips['what']}; version "
            f"{lpips['version']})"
        )
