"""`hardsplat fit-mesh`: from photographs with silhouettes to a textured mesh and its renders."""

from __future__ import annotations

import platform
import time
from collections import Counter
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError
from hardsplat.base.files import write_json
from hardsplat.base.lock import FolderLock
from hardsplat.base.progress import Bar
from hardsplat.base.stop import StopRequest
from hardsplat.base.version import __version__
from hardsplat.contract.footprint import by_purpose
from hardsplat.fitmesh import silhouettes
from hardsplat.fitmesh.config import MESH_GROUPS, MeshConfig
from hardsplat.fitmesh.model import Mesh, icosphere
from hardsplat.fitmesh.session import MeshSession
from hardsplat.gpu.probe import open_device
from hardsplat.io.meshes import Colored, Textured, write_mesh
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.scenes.views import View, load_images
from hardsplat.report.charts import figure, line, save
from hardsplat.report.stages import stage_medians
from hardsplat.results.folder import archive_run, check_folder, make_folder
from hardsplat.results.metrics import held_out_views
from hardsplat.results.pictures import write_comparison
from hardsplat.settings.presets import SAVED_NAME, save_settings
from hardsplat.settings.train import scene_folder
from hardsplat.step.photos import Photos
from hardsplat.step.runner import SNAPSHOT_SECONDS, BatchResult

# pixels carry the number of their triangle as a float32, which holds whole numbers up to here
MOST_TRIANGLES = 1 << 24
OF_A_MESH = (
    SAVED_NAME,
    *"metrics.json mesh.obj mesh.mtl mesh.png mesh.glb loss.png renders".split(),
)


class MeshFitter:
    """One fit: reads the scene, runs the steps, writes the result folder."""

    bar: Bar  # while it runs

    def __init__(self, config: MeshConfig):
        started = time.perf_counter()
        self.config = config
        data = scene_folder(config.data_dir)
        self.folder = config.result_dir or Path("results") / f"{data.name}_mesh"
        check_folder(self.folder)
        scene = load_scene(data, config.data_factor, config.test_every)
        for note in scene.notes:
            print("note:", note.replace("pixels are ignored", "pixels are not the object"))
        images = _silhouettes([scene.views[i] for i in scene.train], not config.quiet)
        cameras = [scene.views[i].camera for i in scene.train]
        self.held_out = scene.held_out
        self.held_out_images = _silhouettes(self.held_out, False)
        covered = [image[..., 3] > 127 for image in images]
        sphere = silhouettes.bounding_sphere(cameras, covered)
        mesh = icosphere(config.init_levels, *sphere, config.texture_size)
        make_folder(self.folder)
        self._lock = FolderLock(self.folder)
        if earlier := archive_run(self.folder, OF_A_MESH, OF_A_MESH[1:]):
            print(f"note: the earlier mesh in {self.folder} is now in {earlier}")
        save_settings(vars(config), self.folder / SAVED_NAME, MESH_GROUPS, "fit-mesh")
        self.device = open_device(config.device)
        sizes = [(v.camera.width, v.camera.height) for v in scene.views]
        photos = Photos(self.device, images, config.images, 2 * config.batch_steps)
        side, colour = config.texture_size, silhouettes.mean_colour(images)
        texture = np.full((side, side, 3), colour, np.float32)
        canvas, scale = np.max(sizes, axis=0), silhouettes.scale_of(cameras, mesh.vertices)
        size = tuple(canvas.tolist())
        self.session = MeshSession(
            self.device, config, cameras, photos, size, scale, mesh, texture, self._on_batch
        )
        names = ("step", "loss", "psnr", "iou", "seconds")
        self.curve: dict[str, list[float]] = {name: [] for name in names}
        self.stages: list[dict[str, float]] = []
        self.startup_seconds = time.perf_counter() - started

    def run(self) -> dict:
        """Returns what metrics.json holds. Raises UserError and KeyboardInterrupt after saving the
        mesh."""
        self._begun = time.perf_counter()
        try:
            stopped = self._run_steps()
            metrics = self._finish(time.perf_counter() - self._begun)
        finally:
            self._lock.release()
            self.session.destroy()
        if stopped:
            raise KeyboardInterrupt(stopped)
        return metrics

    def _run_steps(self) -> int:
        """The number of the signal that asked to stop, or 0."""
        c, session = self.config, self.session
        levels = Counter(s for s in c.subdivide_steps if s < c.max_steps)
        self._keep_safe()
        bar = Bar(total=c.max_steps, desc="mesh", unit="step", disable=c.quiet or None)
        try:
            with StopRequest() as stopping, bar as self.bar:
                while session.step < c.max_steps and not stopping.asked:
                    end = min(s for s in (*levels, c.max_steps) if s > session.step)
                    most = min(c.batch_steps, session.photos.most_steps)
                    session.run(min(most, end - session.step))
                    if levels[session.step]:  # for whose new buffers there may be no room
                        self._keep_safe()
                    for _ in range(levels[session.step]):
                        if (count := 4 * len(session.mesh.faces)) > MOST_TRIANGLES:
                            limit = f"{MOST_TRIANGLES:,} can be told apart"
                            what = f"--subdivide-steps: has {count:,} triangles, {limit}"
                            raise UserError(f"{what}; leave out the last of them")
                        session.subdivide()
                    if time.monotonic() - self._safe_at > SNAPSHOT_SECONDS:
                        self._keep_safe()
                session.runner.drain()
        except UserError as error:  # memory or device failed: most of what was fitted stays
            step, mesh, texture = self._safe
            save_mesh(self.folder, mesh, texture)
            saved = f"the mesh of step {step} is in {self.folder}"
            raise UserError(f"{error} (step {session.step}); {saved}") from None
        return stopping.asked

    def _keep_safe(self) -> None:
        """A copy in the host's memory, which a lost device cannot take."""
        self._safe = (self.session.step, self.session.download(), self.session.texture())
        self._safe_at = time.monotonic()

    def _on_batch(self, result: BatchResult) -> None:
        r = result.records
        loss, iou = r["loss"].mean(), r["iou"].mean()
        psnr = silhouettes.decibels(r["mse"].mean())
        means = {"step": result.first_step + len(r), "loss": loss, "psnr": psnr, "iou": iou}
        for name, value in {**means, "seconds": time.perf_counter() - self._begun}.items():
            self.curve[name].append(float(value))
        self.stages.append(result.stages)
        shown = {"loss": f"{loss:.4f}", "IoU": f"{iou:.4f}", "PSNR": f"{psnr:.2f}"}
        self.bar.set_postfix(shown, refresh=False)
        self.bar.update(len(r))

    def _finish(self, seconds: float) -> dict:
        session, mesh = self.session, self.session.download()
        save_mesh(self.folder, mesh, session.texture())
        views = []
        for view, photo in zip(self.held_out, self.held_out_images):
            picture = session.picture(view.camera)
            views.append({"name": view.name, **silhouettes.measured(picture, photo)})
            write_comparison(self.folder / "renders", view.name, picture[..., :3], photo[..., :3])
        stages = stage_medians(self.stages)
        held_out, measures = None, ("iou", "psnr", "psnr_object")
        if views:
            held_out = {name: float(np.mean([r[name] for r in views])) for name in measures}
        physical = self.device.physical
        machine = {"driver": physical.driver, "kind": physical.kind, "host": platform.platform()}
        metrics = {
            "hardsplat": __version__,
            "scene": str(self.config.data_dir),
            "device": {"name": self.device.name, **machine},
            "steps": session.step,
            "vertices": len(mesh.vertices),
            "triangles": len(mesh.faces),
            "texture": list(session.texture_shape[1::-1]),
            "seconds": {"startup": self.startup_seconds, "training": seconds},
            "stage_ms": stages,
            "memory_bytes": by_purpose({n: r.nbytes for n, r in session.resources.items()}),
            "held_out": held_out,
            "views": views,
            "curve": self.curve,
        }
        session.destroy()
        write_json(self.folder / "metrics.json", metrics)
        if self.curve["step"]:
            save(_curves(metrics), self.folder / "loss.png")
        reached = ""
        if held_out:
            iou, psnr, alone = held_out.values()
            quality = f"IoU {iou:.4f}, PSNR {psnr:.2f} dB ({alone:.2f} on the object alone)"
            reached = f"{quality} on {held_out_views(len(views))}; "
        done = f"{len(mesh.vertices)} vertices, {session.step} steps, {seconds:.1f} s"
        print(f"{reached}{done} on {self.device.name}; everything is in {self.folder}")
        return metrics


def _silhouettes(views: list[View], progress: bool) -> list[np.ndarray]:
    loaded = zip(load_images(views, progress), views)
    return [silhouettes.silhouetted(image, v.name) for image, v in loaded]


def save_mesh(folder: Path, mesh: Mesh, texture: np.ndarray) -> None:
    """mesh.obj with mesh.mtl and mesh.png, and mesh.glb. texture: (height, width, 3) in 0..1.
    Raises UserError."""
    # a vertex for every pair of a place in space and one in the texture
    corners = np.stack([mesh.faces, mesh.uv_faces], axis=2).reshape(-1, 2)
    pairs, corners = np.unique(corners, axis=0, return_inverse=True)
    cut = Textured(pairs[:, 0], mesh.uvs[pairs[:, 1]], corners.reshape(-1, 3))
    colored = Colored(mesh.vertices, mesh.faces, cut=cut, texture=texture)
    for name in ("mesh.obj", "mesh.glb"):
        write_mesh(folder / name, colored)


def _curves(metrics: dict):
    page, curve = figure(8, 8), metrics["curve"]
    training = dict(color="black", linewidth=1, label="training views, perturbed")
    held_out = line(0) | {"linestyle": "", "label": "held-out views"}
    titles = {"loss": "loss, mean of a batch", "iou": "IoU of the silhouettes", "psnr": "PSNR [dB]"}
    for axes, (name, title) in zip(page.subplots(3, 1, sharex=True), titles.items()):
        axes.plot(curve["step"], curve[name], **training)
        if metrics["held_out"] and name != "loss":
            axes.plot([metrics["steps"]], [metrics["held_out"][name]], **held_out)
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        if name == "loss":
            axes.set_yscale("log")
        axes.legend(loc="best")
    axes.set_xlabel("step")
    return page
