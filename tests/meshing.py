"""Small meshes, sessions on them, and the estimates of their gradients beside central differences: for tests and tools/mesh_gradient_study.py."""

from dataclasses import replace

import numpy as np

from hardsplat import contract
from hardsplat.camera import Camera
from hardsplat.gpu.recorder import Recorder
from hardsplat.mesh.config import MeshConfig
from hardsplat.mesh.model import Mesh
from hardsplat.mesh.passes import record_gather
from hardsplat.mesh.session import MeshSession, Scale
from hardsplat.mesh.start import icosphere
from hardsplat.raster.frame import camera_data
from hardsplat.train.photos import Photos
from tests.oracle import mesh as oracle

WIDTH, HEIGHT, NEAR, PIXEL = 64, 48, 0.05, 1 / 30
SEED = 7


def ball(rng, levels=2) -> Mesh:
    mesh = icosphere(levels, (0.1, -0.05, 0.02), 0.9, 48)
    return replace(mesh, vertices=mesh.vertices + rng.normal(0, 0.03, mesh.vertices.shape).astype(np.float32))


def sheet(rng) -> tuple[Mesh, Camera]:
    """A wavy sheet that fills the image and reaches beyond it, so that nothing appears or disappears; the camera before it."""
    n = 5
    j, i = np.mgrid[0:n, 0:n] / (n - 1)
    vertices = np.stack([3.0 * (i - 0.5), 2.4 * (j - 0.5), 0.15 * rng.normal(size=i.shape)], axis=-1).reshape(-1, 3)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = np.concatenate([np.stack([corner, corner + 1, corner + n], 1), np.stack([corner + 1, corner + n + 1, corner + n], 1)])
    uvs = 0.1 + 0.8 * np.stack([i, j], axis=-1).reshape(-1, 2)
    w2c = np.eye(4)
    w2c[2, 3] = 2.0
    K = np.array([[60.0, 0, 32.3], [0, 60.0, 23.6], [0, 0, 1]])
    return Mesh(vertices.astype(np.float32), faces.astype(np.int32), uvs.astype(np.float32), faces.astype(np.int32)), Camera(w2c, K, WIDTH, HEIGHT)


def smooth(rng, height, width, channels) -> np.ndarray:
    """Low waves in 0..1."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [0.5 + 0.4 * np.sin(rng.uniform(2, 6) * x + rng.uniform(2, 6) * y + rng.uniform(0, 6)) for _ in range(channels)]
    return np.stack(waves, axis=-1)


def opened(device, mesh, views, photos, texture, **changes) -> MeshSession:
    config = MeshConfig(**{"batch_steps": 10, "seed": SEED, "max_steps": 1000} | changes)
    return MeshSession(device, config, views, Photos(device, photos, "auto", 100), (WIDTH, HEIGHT), Scale(PIXEL, 1.0, NEAR), mesh, texture)


def posed(session, camera, step):
    session.resources["camera"].upload(camera_data(camera))
    session.set_step(step)


def sums_of(session) -> tuple[np.ndarray, np.ndarray]:
    """mesh_sums by vertex and by texel, and 0 for the next time."""
    n = len(session.mesh.vertices)
    sums = session.resources["mesh_sums"].download(np.float32)[: n + 3 * session.texture_shape[0] * session.texture_shape[1]]
    session.resources["mesh_sums"].fill(0)
    return sums[:n].astype(np.float64), sums[n:].reshape(-1, 3).astype(np.float64)


def exact_gradients(mesh, camera, photo, texture) -> tuple[np.ndarray, np.ndarray]:
    """Central differences of the mean loss where every pixel keeps its triangle: of vertices (V, 3) and of texels (X, 3)."""
    vertices = mesh.vertices.astype(np.float64)
    ids, _ = oracle.rasterize(vertices, mesh.faces, camera.w2c, camera.K, WIDTH, HEIGHT, NEAR)
    assert (ids > 0).all()

    def value(vertices, texture):
        weights, _ = oracle.barycentrics(vertices, mesh.faces, ids, camera.w2c, camera.K)
        uv = oracle.uv_at(mesh.uvs.astype(np.float64), mesh.uv_faces, ids, weights)
        return oracle.loss(oracle.picture(texture, uv, ids > 0), photo, 1.0, True).sum() / ids.size

    d_vertices, d_texture, h = np.zeros(vertices.shape), np.zeros(texture.shape), 1e-5
    for d, values, evaluate in ((d_vertices, vertices, lambda v: value(v, texture)), (d_texture, texture, lambda t: value(vertices, t))):
        for i in np.ndindex(*d.shape):
            moved = values.copy()
            moved[i] += h
            above = evaluate(moved)
            moved[i] -= 2 * h
            d[i] = (above - evaluate(moved)) / (2 * h)
    return d_vertices, d_texture.reshape(-1, 3)


def gather_once(session) -> None:
    """The gradients of one step, which are left in mesh_sums."""
    recorder = Recorder(session.device, session.resources)
    record_gather(recorder, session.run_of, session.resources["corners"].nbytes // (3 * contract.itemsize("corners")), session.width, session.height)
    recorder.end().run_once()
    recorder.destroy()


def convergence(device, rng, samples: int, progress=lambda steps: steps):
    """By name, vertices and texels of a sheet: (samples, ...) estimates, and the central differences they should have as their mean."""
    mesh, camera = sheet(rng)
    texture, photo = smooth(rng, 5, 6, 3), np.rint(255 * smooth(rng, HEIGHT, WIDTH, 4)).astype(np.uint8)
    photo[..., 3] = 255
    exact = exact_gradients(mesh, camera, photo / 255.0, texture.astype(np.float32).astype(np.float64))
    sizes = (0.3, 0.003)  # px, albedo: about as loud in the image
    session = opened(device, mesh, [camera], [photo], texture, perturb_vertices=sizes[0], perturb_texels=sizes[1], last_perturb=1.0)
    estimates = [np.empty((samples, *g.shape)) for g in exact]
    for sample in progress(range(samples)):
        posed(session, camera, sample)
        gather_once(session)
        for out, sums, draw, size in zip(estimates, sums_of(session), (oracle.VERTEX, oracle.TEXEL), (sizes[0] * PIXEL, sizes[1])):
            sums = sums[:, None] if sums.ndim == 1 else sums
            out[sample] = sums * oracle.signs(SEED, sample, len(sums), draw) / (2 * size)
    session.destroy()
    return dict(zip(("vertices", "texels"), zip(estimates, exact)))


def errors_by_samples(found, wanted) -> tuple[np.ndarray, np.ndarray, float]:
    """Sizes 1, 2, 4 ... of means, their relative L2 errors (root mean square over disjoint means), and the slope of one over the other, log-log."""
    sizes, errors = 2 ** np.arange(int(np.log2(len(found))) + 1), []
    for n in sizes:
        means = found.reshape(len(found) // n, n, *wanted.shape).mean(axis=1)
        errors.append(np.sqrt(((means - wanted) ** 2).sum(axis=(1, 2)).mean()) / np.linalg.norm(wanted))
    return sizes, np.array(errors), float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
