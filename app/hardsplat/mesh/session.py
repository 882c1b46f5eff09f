"""A mesh on the GPU: buffers, the pre-recorded step, batches in flight, subdivision, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hardsplat import contract
from hardsplat.contract.footprint import by_purpose
from hardsplat.gpu.commands.recorder import Recorder, Recordings
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import DepthImage, Image
from hardsplat.gpu.memory.resources import allocate_all, buffer_in
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.mesh.config import MeshConfig
from hardsplat.mesh.model import Mesh
from hardsplat.mesh.passes import mesh_passes, record_adam, record_gather, record_show
from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data
from hardsplat.raster.core.resolve import resolve
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.reductions import ATOMICS
from hardsplat.train.step.batch import HISTORY, Batches, BatchResult
from hardsplat.train.step.photos import Photos
from hardsplat.train.step.schedule import (
    FIT_SCHEDULE_PASSES,
    adam_settings,
    rate_plan,
    record_begin,
    record_end,
    step_settings,
    view_order,
)

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

    _batches: Batches

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
        self.device = device
        self.config = config
        self.views = views
        self.photos = photos
        self.scale = scale
        self.width, self.height = canvas
        self.texture_shape, self.step = texture.shape, 0
        self.mesh, self._recorded = mesh, Recordings(device, {})
        self._own: dict[str, Buffer] = {}
        self._shared: dict[str, Buffer | Image] = {"photos": photos.buffer}
        try:
            self._allocate_shared(texture, on_batch)
            atomics = resolve(device, "float atomics", ATOMICS, config.atomics, "--atomics")
            self.run_of = build_all(
                device, [*FIT_SCHEDULE_PASSES, *mesh_passes(atomics, config.loss, *canvas)]
            )
            self.set_step(0)
            self._allocate(np.zeros((2, len(mesh.vertices), 3), np.float32))
        except BaseException:
            self.destroy()
            raise

    def _allocate_shared(
        self, texture: np.ndarray, on_batch: Callable[[BatchResult], None]
    ) -> None:
        """What does not depend on the mesh."""
        device, shared, size = self.device, self._shared, (self.width, self.height)
        texels = texture.shape[0] * texture.shape[1]
        groups = -(-self.width // TILE) * -(-self.height // TILE)
        numbers = dict(mesh=1, frame=1, camera=1, views=len(self.views))
        numbers |= dict(texels=texels, adam_texels=2 * texels, mesh_losses=groups)
        settings = gpu_settings(self.config, self.scale)
        sizes = {name: n * contract.itemsize(name) for name, n in numbers.items()}
        sizes |= {name: v.nbytes for name, v in settings.items()}
        shared |= allocate_all(device, sizes)
        for name, values in settings.items():
            shared[name].upload(values)
        for name in ("schedule", "mesh_history"):
            shared[name] = Buffer(device, HISTORY * contract.itemsize(name), name, host=True)
        for name in ("ids", "ids_minus", "target"):
            shared[name] = Image(device, *size, FORMATS["float32"].vk, np.float32, name)
        shared["depth"] = DepthImage(device, *size, "depth")
        shared["views"].upload(np.stack([camera_data(v) for v in self.views]))
        shared["texels"].upload(texture.astype(np.float32))
        buffer_in(shared, "adam_texels").fill(0)
        self._batches = Batches(device, buffer_in(shared, "mesh_history"), on_batch)

    # -- running -----------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Queues a batch of steps. Waits only for the batch before the last."""
        self._batches.wait_for_turn()
        schedule = buffer_in(self._shared, "schedule").array(np.uint32).reshape(-1, 2)
        order = view_order(self.config.seed, self.step, steps, len(self.views))
        for step, view in enumerate(order, self.step):
            schedule[step % HISTORY] = view, self.photos.place(step, int(view))
        self._batches.submit(self.step, steps)
        self.step += steps

    def drain(self) -> None:
        """Waits for all batches in flight."""
        self._batches.drain()

    def subdivide(self) -> None:
        """Splits every triangle in four. A vertex sees a quarter of the pixels afterwards, so
        moments shrink with its gradients."""
        mesh = self.download()
        numbers = self._own["adam_vertices"].download(np.float32, 6 * len(mesh.vertices))
        first, second = numbers.reshape(2, -1, 3)
        self.mesh, along = mesh.subdivided(self.config.subdivision == "loop")
        self._allocate(np.stack([along @ first / 4, along @ second / 16]).astype(np.float32))

    # -- state -------------------------------------------------------------------------------------

    def download(self) -> Mesh:
        """The mesh as it is now, after all that was queued."""
        self.drain()
        vertices = self._own["vertices"].download(np.float32, 3 * len(self.mesh.vertices))
        return replace(self.mesh, vertices=vertices.reshape(-1, 3))

    def texture(self) -> np.ndarray:
        """(height, width, 3) float32 in 0..1."""
        self.drain()
        size = int(np.prod(self.texture_shape))
        texels = buffer_in(self._shared, "texels").download(np.float32, size)
        return texels.reshape(self.texture_shape)

    def picture(self, camera: Camera) -> np.ndarray:
        """(H, W, 4) float32: colour over black, and coverage 0 or 1. The camera must fit the
        canvas."""
        self.drain()
        self._shared["camera"].upload(camera_data(camera))
        self._show.run_once()
        return self._shared["target"].download()[: camera.height, : camera.width]

    def set_step(self, step: int) -> None:
        """The next step's number; nothing may be in flight."""
        frame = np.zeros((), contract.dtype("Frame"))
        frame["step"], frame["near_plane"], frame["seed"] = step, self.scale.near, self.config.seed
        self._shared["frame"].upload(frame)
        self.step = step

    def _allocate(self, moments: np.ndarray) -> None:
        """What depends on the mesh's size, and the commands for it."""
        self._release()
        mesh, texels = self.mesh, self.texture_shape[0] * self.texture_shape[1]
        starts, neighbours = mesh.neighbours()
        count = len(mesh.vertices)
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
        for name, values in filled.items():
            self._own[name].upload(values)
        self._shared["mesh"].upload(mesh_data(self.config, self.scale, count, self.texture_shape))
        self.resources = {**self._shared, **self._own}
        size = (self.width, self.height)
        triangles = len(mesh.faces)

        def step(recorder: Recorder) -> None:
            record_begin(recorder, self.run_of)
            record_gather(recorder, self.run_of, triangles, *size)
            record_adam(recorder, self.run_of, count, texels)
            record_end(recorder, self.run_of)

        self._recorded = recorded = Recordings(self.device, self.resources)
        self._batches.record(recorded, step)
        self._show = recorded(lambda r: record_show(r, self.run_of, triangles, *size))

    def _release(self) -> None:
        self.device.wait_idle()
        self._recorded.destroy()
        for buffer in self._own.values():
            buffer.destroy()
        self._own = {}

    def destroy(self) -> None:
        """Frees everything, the photographs too."""
        if hasattr(self, "_batches"):
            self.drain()
            self._batches.destroy()
        self._release()
        for resource in self._shared.values():
            resource.destroy()

    def memory(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        return by_purpose({name: r.nbytes for name, r in self.resources.items()})


def gpu_settings(config: MeshConfig, scale: Scale) -> dict[str, np.ndarray]:
    """What is uploaded once, by buffer. Rates are in the order of the contract's RATE_
    constants and fall alike."""
    c, betas = config, (config.adam_beta1, config.adam_beta2)
    first = (c.vertices_lr * scale.radius, c.texels_lr, 1.0)
    rates = [rate_plan(rate, c.last_lr * rate, c.max_steps) for rate in first]
    plans = np.array(rates, contract.dtype("RatePlan"))
    return {
        "step_settings": step_settings(c.seed, *betas, near_plane=scale.near),
        "adam_settings": adam_settings(*betas, c.adam_eps),
        "rate_plans": plans,
        "rates": np.zeros(len(plans), np.float32),
    }


def mesh_data(
    config: MeshConfig, scale: Scale, vertices: int, texture_shape: tuple[int, ...]
) -> np.ndarray:
    """The contract's Mesh struct."""
    data = np.zeros((), contract.dtype("Mesh"))
    data["vertices"], data["texture"] = vertices, texture_shape[1::-1]
    data["vertex_step"] = config.perturb_vertices * scale.pixel
    data["texel_step"] = config.perturb_texels
    data["last_share"] = config.last_perturb
    data["max_steps"] = config.max_steps
    data["alpha_weight"] = config.alpha_weight
    data["smoothing"] = config.smoothing
    return data
