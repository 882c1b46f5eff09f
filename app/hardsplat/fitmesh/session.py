"""A mesh on the GPU: buffers, the pre-recorded step, batches in flight, subdivision, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hardsplat import contract
from hardsplat.base.errors import undone
from hardsplat.fitmesh.config import MeshConfig
from hardsplat.fitmesh.model import Mesh
from hardsplat.fitmesh.passes import mesh_passes, record_adam, record_gather, record_show
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.memory.resources import Owned, allocate_all, buffer_in
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data
from hardsplat.raster.core.resolve import resolve
from hardsplat.step import begin
from hardsplat.step.photos import Photos
from hardsplat.step.runner import BatchResult, StepRunner
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import ATOMICS

BETA1, BETA2 = 0.9, 0.99  # Adam's decays
TILE = contract.CONSTANTS["TILE"]


@dataclass(frozen=True)
class Scale:
    """Sizes in world units. pixel: what a pixel covers at the object. radius: of the object. near:
    nearest that is drawn."""

    pixel: float
    radius: float
    near: float


class MeshSession:
    """The session of one fit. views, photos: what is fitted; it owns the photos. canvas: width and
    height that hold every view. texture: (height, width, 3) in 0..1 to begin with.

    Raises UserError for what the device cannot run, OutOfMemory where it does not fit; then nothing
    stays allocated.
    """

    def __init__(
        self,
        device: Device,
        config: MeshConfig,
        views: list[Camera],
        photos: Photos,
        canvas: tuple[int, int],
        scale: Scale,
        mesh: Mesh,
        texture: np.ndarray,
        on_batch: Callable[[BatchResult], None] = lambda result: None,
    ):
        self.device, self.config, self.scale = device, config, scale
        self.views, self.photos, self.mesh = views, photos, mesh
        self.width, self.height = canvas
        self.texture_shape, self.texels = texture.shape, texture.shape[0] * texture.shape[1]
        # what the size of the mesh decides, and what it does not; destroyed in this order
        self._sized, self._fixed = Owned(), Owned([photos.buffer])
        with undone(self._fixed.destroy), undone(self._sized.destroy):
            filled = gpu_settings(config, scale)
            filled["views"] = np.stack([camera_data(v) for v in views])
            filled["texels"] = texture.astype(np.float32)
            runner = StepRunner(device, filled, on_batch, history="mesh_history")
            self.runner = self._fixed.add(runner)
            self._shared = self._allocate_shared()
            atomics = resolve(device, "float atomics", ATOMICS, config.atomics, "atomics")
            passes = mesh_passes(ATOMICS[atomics], *canvas)
            self.run_of = build_all(device, [*begin.FIT_SCHEDULE_PASSES, *passes])
            self.set_step(0)
            self._allocate(np.zeros((2, len(mesh.vertices), 3)))

    def _allocate_shared(self) -> dict[str, Buffer | Image]:
        """What does not depend on the mesh."""
        device, width, height, own = self.device, self.width, self.height, self._fixed
        groups = -(-width // TILE) * -(-height // TILE)
        numbers = dict(mesh=1, frame=1, camera=1, adam_texels=2 * self.texels, mesh_losses=groups)
        sizes = {name: n * contract.itemsize(name) for name, n in numbers.items()}
        made: dict[str, Buffer | Image] = {**allocate_all(device, sizes)}
        own.add_all(made.values())
        for name in ("ids", "ids_minus", "target"):
            image = Image(device, width, height, FORMATS["float32"].vk, np.float32, name)
            made[name] = own.add(image)
        made["depth"] = own.add(DepthImage(device, width, height, "depth"))
        buffer_in(made, "adam_texels").fill(0)
        return {**self.runner.buffers, **made, "photos": self.photos.buffer}

    # -- running -----------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Steps that were queued."""
        return self.runner.step

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        order = begin.view_order(self.config.seed, self.step, steps, len(self.views))
        self.runner.run(order, self.photos.place)

    def subdivide(self) -> None:
        """Splits every triangle in four. A vertex sees a quarter of the pixels afterwards, so
        moments shrink with its gradients."""
        mesh = self.download()
        numbers = self._own["adam_vertices"].download(np.float32, 6 * len(mesh.vertices))
        first, second = numbers.reshape(2, -1, 3)
        self.mesh, along = mesh.subdivided(smooth=True)
        self._allocate(np.stack([along @ first / 4, along @ second / 16]))

    # -- state -------------------------------------------------------------------------------------

    def download(self) -> Mesh:
        """The mesh as it is now, after all that was queued."""
        self.runner.drain()
        vertices = self._own["vertices"].download(np.float32, 3 * len(self.mesh.vertices))
        return replace(self.mesh, vertices=vertices.reshape(-1, 3))

    def texture(self) -> np.ndarray:
        """(height, width, 3) float32 in 0..1."""
        self.runner.drain()
        texels = buffer_in(self._shared, "texels").download(np.float32, 3 * self.texels)
        return texels.reshape(self.texture_shape)

    def picture(self, camera: Camera) -> np.ndarray:
        """(H, W, 4) float32: colour over black, and coverage 0 or 1. The camera must fit the
        canvas."""
        self.runner.drain()
        self._shared["camera"].upload(camera_data(camera))
        self._show.run_once()
        return self._shared["target"].download()[: camera.height, : camera.width]

    def set_step(self, step: int) -> None:
        """The next step's number; nothing may be in flight."""
        near, seed = self.scale.near, self.config.seed
        frame = contract.struct("Frame", step=step, near_plane=near, seed=seed)
        self._shared["frame"].upload(frame)
        self.runner.step = step

    def _allocate(self, moments: np.ndarray) -> None:
        """What depends on the mesh's size, and the commands for it. moments: (2, V, 3)."""
        self._release()
        mesh, texels, width, height = self.mesh, self.texels, self.width, self.height
        starts, neighbours = mesh.neighbours()
        count, triangles = len(mesh.vertices), len(mesh.faces)
        filled = {
            "vertices": mesh.vertices.astype(np.float32),
            "uvs": mesh.uvs.astype(np.float32),
            "corners": np.stack([mesh.faces, mesh.uv_faces], axis=2).astype(np.uint32),
            "neighbours": np.concatenate([starts + count + 1, neighbours]).astype(np.uint32),
            "adam_vertices": moments.astype(np.float32),
            "bends": np.zeros((count, 3), np.float32),
            "mesh_sums": np.zeros(count + 3 * texels, np.float32),
        }
        sizes = {name: values.nbytes for name, values in filled.items()}
        self._own = allocate_all(self.device, sizes)
        self._sized.add_all(self._own.values())
        for name, values in filled.items():
            self._own[name].upload(values)
        self._shared["mesh"].upload(mesh_data(self.config, self.scale, count, self.texture_shape))
        self.resources = {**self._shared, **self._own}

        def step(recorder: Recorder) -> None:
            begin.record_begin(recorder, self.run_of)
            record_gather(recorder, self.run_of, triangles, width, height)
            record_adam(recorder, self.run_of, count, texels)
            begin.record_end(recorder, self.run_of)

        recorded = self._sized.add(Recordings(self.device, self.resources))
        self.runner.record(self.resources, step)
        self._show = recorded(lambda r: record_show(r, self.run_of, triangles, width, height))

    def _release(self) -> None:
        self.device.wait_idle()
        self._sized.destroy()

    def destroy(self) -> None:
        """Frees everything, the photographs too."""
        self.runner.settle()
        self._sized.destroy()
        self._fixed.destroy()


def gpu_settings(c: MeshConfig, scale: Scale) -> dict[str, np.ndarray]:
    """What is uploaded once, by buffer."""
    started = contract.struct(
        "StepSettings",
        seed=c.seed,
        beta1=BETA1,
        beta2=BETA2,
        near_plane=scale.near,
        sh_degree_interval=1,
    )
    first = (c.vertices_lr * scale.radius, c.texels_lr, 1.0)
    return {
        "step_settings": started,
        "adam_settings": begin.adam_settings(BETA1, BETA2),
        **begin.falling(first, c.last_lr, c.max_steps),
    }


def mesh_data(c: MeshConfig, scale: Scale, vertices: int, shape: tuple[int, ...]) -> np.ndarray:
    """The contract's Mesh struct. shape: of the texture, (height, width, 3)."""
    data = contract.struct("Mesh", vertices=vertices, texture=shape[1::-1], max_steps=c.max_steps)
    data["vertex_step"] = c.perturb_vertices * scale.pixel
    data["texel_step"], data["last_share"] = c.perturb_texels, c.last_perturb
    data["alpha_weight"], data["smoothing"] = c.alpha_weight, c.smoothing
    return data
