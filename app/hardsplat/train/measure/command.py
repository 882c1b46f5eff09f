"""`hardsplat eval`: PSNR and SSIM of a result on the held-out views of its scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import write_json
from hardsplat.gpu.probe import open_device
from hardsplat.io.model import load_model
from hardsplat.io.splats import load_splats
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.raster.core.parameters import Parameters
from hardsplat.results.edited import scene_of
from hardsplat.results.folder import archive_run, check_folder, make_folder, run_of
from hardsplat.results.metrics import held_out_views
from hardsplat.results.model import find_model, home_of
from hardsplat.results.pictures import write_comparison
from hardsplat.settings.presets import SAVED_NAME
from hardsplat.settings.scene import SceneSettings
from hardsplat.train.features.exposure import CameraResponse
from hardsplat.train.features.intrinsics import load_intrinsics
from hardsplat.train.features.poses import focused_scene
from hardsplat.train.job.facts import canvas_of, training_views
from hardsplat.train.measure.lpips import Lpips
from hardsplat.train.measure.measure import (
    Asked,
    Evaluator,
    as_splats,
    evaluation_frame,
    measure_all,
    summary,
)

NAME = "eval"  # of the folder beside what was measured
WRITTEN = ("eval.json", "renders")


def evaluate_run(
    result: str,
    data_dir: str | None = None,
    result_dir: str | None = None,
    device: str | None = None,
    pose_opt: bool = False,
    lpips: str | None = None,
    split: SceneSettings | None = None,
) -> dict:
    """`hardsplat eval`: measures a run folder or a PLY on the held-out views of its scene and
    writes eval.json and comparisons into `result_dir`, by default eval beside the splats. What is
    there already is moved to earlier_1, or the next number.

    pose_opt: also from refined poses of those views, which a run with that setting has anyhow.
    lpips: a variant of VARIANTS in lpips.py, measured too. split: which views are held out, and
    their size and masks, by default as trained.
    """
    ply, config = find_model(result, device=device)
    trained, folder = config.scene.data_dir, run_of(ply)
    if data_dir:
        config = config.changed(data_dir=Path(data_dir))
    c = config.scene
    if split:
        c = replace(split, background=c.background, near_plane=c.near_plane)
    if c.data_dir is None:
        raise UserError(
            f"{ply}: no {SAVED_NAME} in its folder names the scene it shows; add --data-dir SCENE"
        )
    distance = Lpips(lpips) if lpips else None
    out = Path(result_dir) if result_dir else home_of(ply) / NAME
    check_folder(out)
    scene = scene_of(ply, c, c.undistort)
    if not scene.test:
        raise UserError(
            f"{c.data_dir}: no view is held out (--test-every {c.test_every}); nothing to measure"
        )
    if config.intrinsics.intrinsics_opt:
        scene = focused_scene(scene, load_intrinsics(folder))
    colors = CameraResponse.load(folder) if config.exposure.corrected else None
    gaussians = load_model(ply)
    if data_dir and trained and trained.resolve() != Path(data_dir).resolve():
        print(f"note: the run was trained on {trained}, and is measured on {data_dir}")
    make_folder(out)
    if earlier := archive_run(out, WRITTEN, WRITTEN):
        print(f"note: the earlier measurements in {out} are now in {earlier}")
    gpu = open_device(config.run.device)
    parameters = Parameters.of(gpu, gaussians)
    rasterizer, lens = fastest(gpu, config.raster, config.gradient), training_views(scene).lens
    backend = BACKENDS[rasterizer]
    options = replace(backend.options.of(config.raster, config.gradient), lens=lens)
    canvas = canvas_of([view.camera for view in scene.views])
    filters = (False, True) if options.antialiased else (False,)
    rasters = [
        backend(gpu, parameters, *canvas, replace(options, antialiased=each), sink=None)
        for each in filters
    ]
    evaluators = [Evaluator(raster) for raster in rasters]
    frame, quiet = evaluation_frame(c, gaussians.sh_degree), config.run.quiet
    asked = Asked(fitted=True, colors=colors)
    measures, distances = [], []
    for m in measure_all(evaluators, scene.held_out, frame, quiet, asked):
        measures.append(replace(m, target=None))
        image = m.image
        assert image is not None, "measured without pictures"
        if distance:
            distances.append(distance(image, m.photo))
        write_comparison(out / "renders", m.name, image, m.photo)
    table = {
        **summary(measures),
        "splats": len(gaussians),
        "ply": str(ply),
        "scene": str(c.data_dir),
        "device": gpu.name,
        "format": config.raster.hardware.format,
    }
    if pose_opt or config.poses.pose_opt:
        # a session, which most measurements do without
        from hardsplat.train.measure.refining import refine_held_out, refining_job

        views = scene.held_out
        job = refining_job(gpu, config, rasterizer, views, scene.extent, gaussians)
        cameras = refine_held_out(gpu, job, views, gaussians)
        moved = replace(asked, cameras=cameras)
        table["refined"] = summary(measure_all(evaluators, views, frame, quiet, moved))
    for evaluator in evaluators:
        evaluator.destroy()
    for raster in rasters:
        raster.destroy()
    parameters.destroy()
    if gaussians.sky:  # whose splats other programs draw
        plain = replace(options, antialiased=False)
        draws = lambda parameters: backend(gpu, parameters, *canvas, plain, sink=None)  # noqa: E731
        table |= as_splats(gpu, load_splats(ply), draws, scene.held_out, c)
    if distance:
        table["lpips"] = {"mean": float(np.mean(distances)), "views": distances, **distance.named}
    write_json(out / "eval.json", table)
    _print(table)
    print(f"written: {out / 'eval.json'}, renders and their photographs in {out / 'renders'}")
    return table


def _print(table: dict) -> None:
    name = f"mean of {held_out_views(len(table['views']))}"
    lines = [*table["views"], {**table, "name": name}]
    lines += [{**table["refined"], "name": "mean with refined poses"}] if "refined" in table else []
    for line in lines:
        print(
            f"{line['name']:32s} PSNR {line['psnr']:6.2f} dB  SSIM {line['ssim']:.4f}   "
            f"with colours fitted {line['fitted_psnr']:6.2f} dB  {line['fitted_ssim']:.4f}",
            end="",
        )
        if "psnr_antialiased" in line:
            both = f"{line['psnr_antialiased']:6.2f} dB  {line['ssim_antialiased']:.4f}"
            print(f"   with the 2D filter {both}", end="")
        print()
    if "psnr_as_splats" in table:
        both = f"PSNR {table['psnr_as_splats']:.2f} dB, SSIM {table['ssim_as_splats']:.4f}"
        print(f"with the sky as splats, as other viewers draw it: {both}")
    if d := table.get("lpips"):
        what = f"{d['variant']}: {d['what']}; version {d['version']}"
        print(f"LPIPS {d['mean']:.4f} ({what})")
