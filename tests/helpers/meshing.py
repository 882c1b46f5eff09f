"""Small meshes, sessions on them, and estimates of their gradients beside central differences."""

from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.fitmesh.config import MeshConfig
from hardsplat.fitmesh.model import Mesh, icosphere
from hardsplat.fitmesh.passes import record_gather
from hardsplat.fitmesh.session import MeshSession, Scale
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.model.camera import Camera
from hardsplat.raster.core.frame import camera_data
from hardsplat.step.photos import Photos
from tests.oracle import mesh as oracle
from tests.oracle.differences import central

WIDTH, HEIGHT, NEAR, PIXEL = 64, 48, 0.05, 1 / 30
SEED = 7


def ball(rng, levels=2) -> Mesh:
    mesh = icosphere(levels, (0.1, -0.05, 0.02), 0.9, 48)
    moved = mesh.vertices + rng.normal(0, 0.03, mesh.vertices.shape).astype(np.float32)
    return replace(mesh, vertices=moved)


def sheet(rng) -> tuple[Mesh, Camera]:
    """Returns a wavy sheet that fills the image and reaches beyond it, and the camera before it."""
    n = 5
    j, i = np.mgrid[0:n, 0:n] / (n - 1)
    z = 0.15 * rng.normal(size=i.shape)
    vertices = np.stack([3.0 * (i - 0.5), 2.4 * (j - 0.5), z], axis=-1).reshape(-1, 3)
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = np.r_[np.c_[a, a + 1, a + n], np.c_[a + 1, a + n + 1, a + n]].astype(np.int32)
    uvs = 0.1 + 0.8 * np.stack([i, j], axis=-1).reshape(-1, 2)
    w2c = np.eye(4)
    w2c[2, 3] = 2.0
    K = np.array([[60.0, 0, 32.3], [0, 60.0, 23.6], [0, 0, 1]])
    mesh = Mesh(vertices.astype(np.float32), faces, uvs.astype(np.float32), faces)
    return mesh, Camera(w2c, K, WIDTH, HEIGHT)


def smooth(rng, height, width, channels) -> np.ndarray:
    """Low waves in 0..1."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    a, b, c = rng.uniform([[2], [2], [0]], 6, (3, channels))
    return 0.5 + 0.4 * np.sin(a * x[..., None] + b * y[..., None] + c)


def opened(device, mesh, camera, photo=None, texture=None, size=(WIDTH, HEIGHT), **changes):
    """Returns a session with one view, by default of a black photograph. size: of the canvas."""
    config = MeshConfig(**{"batch_steps": 10, "seed": SEED, "max_steps": 1000} | changes)
    photo = np.zeros((camera.height, camera.width, 4), np.uint8) if photo is None else photo
    texture = np.ones((8, 8, 3)) if texture is None else texture
    photos = Photos(device, [photo], "auto", 100)
    scale = Scale(PIXEL, 1.0, NEAR)
    return MeshSession(device, config, [camera], photos, size, scale, mesh, texture)


def posed(session, camera, step):
    session.resources["camera"].upload(camera_data(camera))
    session.set_step(step)


def sums_of(session) -> tuple[np.ndarray, np.ndarray]:
    """mesh_sums by vertex and by texel, and 0 for the next time."""
    n = len(session.mesh.vertices)
    sums = session.resources["mesh_sums"].download(np.float32)
    sums = sums[: n + 3 * session.texture_shape[0] * session.texture_shape[1]]
    session.resources["mesh_sums"].fill(0)
    return sums[:n].astype(np.float64), sums[n:].reshape(-1, 3).astype(np.float64)


def exact_gradients(mesh, camera, photo, texture) -> list[np.ndarray]:
    """Returns central differences of the mean loss by vertices (V, 3) and by texels (X, 3)."""
    vertices = mesh.vertices.astype(np.float64)
    view = camera.w2c, camera.K
    ids, _ = oracle.rasterize(vertices, mesh.faces, *view, WIDTH, HEIGHT, NEAR)
    assert (ids > 0).all()

    def value(vertices, texture):
        weights, _ = oracle.barycentrics(vertices, mesh.faces, ids, *view)
        uv = oracle.uv_at(mesh.uvs.astype(np.float64), mesh.uv_faces, ids, weights)
        shown = oracle.picture(texture, uv, ids > 0)
        return oracle.loss(shown, photo, 1.0).sum() / ids.size

    by_texels = central(lambda moved: value(vertices, moved), texture, 1e-5).reshape(-1, 3)
    return [central(lambda moved: value(moved, texture), vertices, 1e-5), by_texels]


def gather_once(session) -> None:
    """The gradients of one step, which are left in mesh_sums."""
    recorder = Recorder(session.device, session.resources)
    triangles = session.resources["corners"].nbytes // (3 * contract.itemsize("corners"))
    record_gather(recorder, session.run_of, triangles, session.width, session.height)
    recorder.end().run_once()
    recorder.destroy()


def convergence(device, rng, samples: int, progress=lambda steps: steps):
    """By name, vertices and texels: (samples, ...) estimates, and central differences."""
    mesh, camera = sheet(rng)
    texture, photo = smooth(rng, 5, 6, 3), np.rint(255 * smooth(rng, HEIGHT, WIDTH, 4))
    photo = photo.astype(np.uint8)
    photo[..., 3] = 255
    kept = texture.astype(np.float32).astype(np.float64)
    exact = exact_gradients(mesh, camera, photo / 255.0, kept)
    a, b = 0.3, 0.003  # px, albedo: about as loud in the image
    options = dict(perturb_vertices=a, perturb_texels=b, last_perturb=1.0)
    session = opened(device, mesh, camera, photo, texture, **options)
    estimates = [np.empty((samples, *g.shape)) for g in exact]
    draws = ((oracle.VERTEX, a * PIXEL), (oracle.TEXEL, b))
    for sample in progress(range(samples)):
        posed(session, camera, sample)
        gather_once(session)
        for out, sums, (draw, size) in zip(estimates, sums_of(session), draws):
            sums = sums[:, None] if sums.ndim == 1 else sums
            out[sample] = sums * oracle.signs(SEED, sample, len(sums), draw) / (2 * size)
    session.destroy()
    return dict(zip(("vertices", "texels"), zip(estimates, exact)))
