"""`hardsplat mesh`: posed photographs with silhouettes in; a textured mesh, measurements and
renders out."""

from __future__ import annotations

import math
import platform
import shlex
import time
from collections import Counter
from pathlib import Path

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.base.version import __version__
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_images, load_scene
from hardsplat.mesh.config import MESH_GROUPS, MeshConfig
from hardsplat.mesh.files import check_triangles, load_mesh, save_mesh
from hardsplat.mesh.model import Mesh
from hardsplat.mesh.session import MeshSession, Scale
from hardsplat.mesh.start import bounding_sphere, icosphere
from hardsplat.model.camera import Camera
from hardsplat.report.charts import figure, line, save
from hardsplat.report.page import write_comparison
from hardsplat.results.folder import archive_run, check_folder, make_folder, write_json
from hardsplat.settings.presets import SAVED_NAME, save_config
from hardsplat.settings.train import scene_folder
from hardsplat.train.run.keeping import SNAPSHOT_SECONDS
from hardsplat.train.step.batch import BatchResult
from hardsplat.train.step.photos import Photos
from hardsplat.train.watchers.log import stage_medians, stage_table

OF_A_MESH = (
    SAVED_NAME,
    "metrics.json",
    "mesh.obj",
    "mesh.mtl",
    "mesh.ply",
    "texture.png",
    "loss.png",
    "renders",
)
_IGNORED = np.array([contract.CONSTANTS["IGNORED"]], "<u4").view(np.uint8)


def silhouetted(image: np.ndarray, name: str) -> np.ndarray:
    """(H, W, 4) uint8, premultiplied, of an image of View.load(): what a mask leaves out, or is
    transparent, is not the object. UserError without either."""
    if image.shape[2] == 3:
        raise UserError(
            f"{name}: has no silhouette; put a mask beside it "
            f"(masks/{Path(name).stem}.png, white on the object) or use transparent PNGs"
        )
    out = image.copy()
    out[(image == _IGNORED).all(axis=2)] = 0
    return out


def scale_of(cameras: list[Camera], vertices: np.ndarray) -> Scale:
    """Of a mesh in front of its cameras. Raises UserError where no camera sees it."""
    low, high = vertices.min(axis=0).astype(np.float64), vertices.max(axis=0).astype(np.float64)
    centre, radius = (low + high) / 2, float(np.linalg.norm(high - low) / 2)
    depths = np.array([(c.w2c[:3] @ np.append(centre, 1))[2] for c in cameras])
    if not (depths > 0).any():
        raise UserError(
            "the first mesh lies behind every camera; it must have the scene's position and size"
        )
    focal = np.array([math.sqrt(c.K[0, 0] * c.K[1, 1]) for c in cameras])
    ahead = depths > 0
    return Scale(
        float(np.median(depths[ahead] / focal[ahead])),
        radius,
        0.01 * float(np.median(depths[ahead])),
    )


def measured(picture: np.ndarray, photo: np.ndarray) -> dict[str, float]:
    """IoU of the silhouettes, PSNR over the whole picture on black, and over the photograph's
    object alone. picture: (H, W, 4) float; photo: uint8."""
    wanted = photo.astype(np.float64) / 255
    inside, covered = wanted[..., 3] > 0.5, picture[..., 3] > 0.5
    error = ((np.clip(picture[..., :3], 0, 1) - wanted[..., :3]) ** 2).mean(axis=2)
    either = (inside | covered).sum()
    return {
        "iou": float((inside & covered).sum() / max(either, 1)),
        "psnr": _db(error.mean()),
        "psnr_object": _db(error[inside].mean() if inside.any() else 0.0),
    }


def _db(mse: float) -> float:
    return -10 * math.log10(max(float(mse), 1e-10))


class MeshRun:
    """One fit: reads the scene, runs the steps, writes the result folder."""

    bar: Bar  # while it runs

    def __init__(self, config: MeshConfig):
        started = time.perf_counter()
        self.config = config
        self.folder = (
            config.result_dir or Path("results") / f"{scene_folder(config.data_dir).name}_mesh"
        )
        check_folder(self.folder)
        self.scene: Scene = load_scene(
            scene_folder(config.data_dir), config.data_factor, config.test_every
        )
        for note in self.scene.notes:
            print(
                "note: "
                f"{note.replace('black pixels are ignored', 'black pixels are not the object')}"
            )
        self.views = [self.scene.views[i] for i in self.scene.train]
        cameras = [v.camera for v in self.views]
        images = [
            silhouetted(image, v.name)
            for image, v in zip(load_images(self.views, not config.quiet), self.views)
        ]
        self.held_out = self.scene.held_out
        self.held_out_images = [
            silhouetted(image, v.name)
            for image, v in zip(load_images(self.held_out, False), self.held_out)
        ]
        mesh, texture = self._first_mesh(cameras, images)
        make_folder(self.folder)
        self._lock = FolderLock(self.folder)
        if earlier := archive_run(self.folder, OF_A_MESH, OF_A_MESH[1:]):
            print(f"note: the earlier mesh in {self.folder} is now in {earlier}")
        save_config(config, self.folder / SAVED_NAME, MESH_GROUPS, "mesh")
        self.device = open_device(config.device)
        canvas = (
            max(v.camera.width for v in self.scene.views),
            max(v.camera.height for v in self.scene.views),
        )
        photos = Photos(self.device, images, config.images, 2 * config.batch_steps)
        if texture is None:
            texture = np.full(
                (config.texture_size, config.texture_size, 3), _mean_colour(images), np.float32
            )
        self.session = MeshSession(
            self.device,
            config,
            cameras,
            photos,
            canvas,
            scale_of(cameras, mesh.vertices),
            mesh,
            texture,
            self._on_batch,
        )
        self.curve: dict[str, list[float]] = {
            name: [] for name in ("step", "loss", "psnr", "iou", "seconds")
        }
        self.stages: list[dict[str, float]] = []
        self.startup_seconds = time.perf_counter() - started

    def _first_mesh(
        self, cameras: list[Camera], images: list[np.ndarray]
    ) -> tuple[Mesh, np.ndarray | None]:
        """And its texture, where it has one."""
        c = self.config
        if c.init != "icosphere":
            mesh, texture, notes = load_mesh(Path(c.init).expanduser(), c.texture_size)
            for note in notes:
                print(f"note: {note}")
            return mesh, texture
        sphere = bounding_sphere(cameras, [image[..., 3] > 127 for image in images])
        return icosphere(c.init_levels, *sphere, c.texture_size), None

    def run(self) -> dict:
        try:
            return self._run()
        finally:
            self._lock.release()

    def _run(self) -> dict:
        c, session = self.config, self.session
        levels = Counter(s for s in c.subdivide_steps if s < c.max_steps)
        self._begun = time.perf_counter()
        self._keep_safe()
        try:
            with (
                StopRequest() as stopping,
                Bar(
                    total=c.max_steps, desc="mesh", unit="step", disable=c.quiet or None
                ) as self.bar,
            ):
                while session.step < c.max_steps and not stopping.asked:
                    ends = [s for s in (*levels, c.max_steps) if s > session.step]
                    session.run(min(c.batch_steps, min(ends) - session.step))
                    if levels[session.step]:  # for whose new buffers there may be no room
                        self._keep_safe()
                    for _ in range(levels[session.step]):
                        check_triangles(
                            4 * len(session.mesh.faces),
                            "--subdivide-steps",
                            "leave out the last of them",
                        )
                        session.subdivide()
                    if time.monotonic() - self._safe_at > SNAPSHOT_SECONDS:
                        self._keep_safe()
                session.drain()
        except UserError as error:  # memory or device gave out: most of what was fitted stays
            step, mesh, texture = self._safe
            save_mesh(self.folder, mesh, texture)
            raise UserError(
                f"{error} (step {session.step}); the mesh of step {step} is saved: go on "
                f"from it with --init {shlex.quote(str(self.folder / 'mesh.obj'))}"
            ) from None
        metrics = self._finish(time.perf_counter() - self._begun)
        if stopping.asked:
            raise KeyboardInterrupt(stopping.asked)
        return metrics

    def _keep_safe(self) -> None:
        """A copy in the host's memory, which a lost device cannot take."""
        self._safe = (self.session.step, self.session.download(), self.session.texture())
        self._safe_at = time.monotonic()

    def _on_batch(self, result: BatchResult) -> None:
        r = result.records
        means = {
            "step": result.first_step + len(r),
            "loss": r["loss"].mean(),
            "psnr": _db(r["mse"].mean()),
            "iou": r["iou"].mean(),
        }
        for name, value in {**means, "seconds": time.perf_counter() - self._begun}.items():
            self.curve[name].append(float(value))
        self.stages.append(result.stages)
        self.bar.set_postfix(
            {
                "loss": f"{means['loss']:.4f}",
                "IoU": f"{means['iou']:.4f}",
                "PSNR": f"{means['psnr']:.2f}",
            },
            refresh=False,
        )
        self.bar.update(len(r))

    def _finish(self, seconds: float) -> dict:
        session, mesh = self.session, self.session.download()
        save_mesh(self.folder, mesh, session.texture())
        views = []
        for view, photo in zip(self.held_out, self.held_out_images):
            picture = session.picture(view.camera)
            views.append({"name": view.name, **measured(picture, photo)})
            write_comparison(self.folder / "renders", view.name, picture[..., :3], photo[..., :3])
        stages = stage_medians(self.stages)
        held_out = (
            {
                name: float(np.mean([r[name] for r in views]))
                for name in ("iou", "psnr", "psnr_object")
            }
            if views
            else None
        )
        metrics = {
            "hardsplat": __version__,
            "scene": str(self.config.data_dir),
            "device": {
                "name": self.device.name,
                "driver": self.device.physical.driver,
                "kind": self.device.physical.kind,
                "host": platform.platform(),
            },
            "steps": session.step,
            "vertices": len(mesh.vertices),
            "triangles": len(mesh.faces),
            "texture": list(session.texture_shape[1::-1]),
            "seconds": {"startup": self.startup_seconds, "training": seconds},
            "stage_ms": stages,
            "memory_bytes": session.memory(),
            "held_out": held_out,
            "views": views,
            "curve": self.curve,
        }
        session.destroy()
        write_json(self.folder / "metrics.json", metrics)
        if self.curve["step"]:
            save(_curves(metrics), self.folder / "loss.png")
        if self.config.profile:
            print(stage_table(stages))
        said = (
            (
                f"IoU {{iou:.4f}}, PSNR {{psnr:.2f}} dB ({{psnr_object:.2f}} on the object "
                f"alone) on {len(views)} held-out views; "
            ).format(**held_out)
            if held_out
            else ""
        )
        print(
            f"{said}{len(mesh.vertices)} vertices, {session.step} steps, {seconds:.1f} s "
            f"on {self.device.name}; everything is in {self.folder}"
        )
        return metrics


def fit_mesh(config: MeshConfig) -> dict:
    """`hardsplat mesh`: returns what metrics.json holds."""
    return MeshRun(config).run()


def _mean_colour(images: list[np.ndarray]) -> np.ndarray:
    """(3,) in 0..1 of what the silhouettes hold."""
    sums = np.sum([image.reshape(-1, 4).sum(axis=0, dtype=np.float64) for image in images], axis=0)
    return sums[:3] / max(sums[3], 1.0)


def _curves(metrics: dict):
    """Loss, IoU and PSNR by step."""
    page = figure(8, 8)
    for axes, (name, title) in zip(
        page.subplots(3, 1, sharex=True),
        {
            "loss": "loss, mean of a batch",
            "iou": "IoU of the silhouettes",
            "psnr": "PSNR [dB]",
        }.items(),
    ):
        axes.plot(
            metrics["curve"]["step"],
            metrics["curve"][name],
            color="black",
            linewidth=1,
            label="training views, perturbed",
        )
        if metrics["held_out"] and name != "loss":
            axes.plot(
                [metrics["steps"]],
                [metrics["held_out"][name]],
                **line(0) | {"linestyle": ""},
                label="held-out views",
            )
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        if name == "loss":
            axes.set_yscale("log")
        axes.legend(loc="best")
    axes.set_xlabel("step")
    return page
