"""Meshes: rasterized IDs and UVs, the stochastic estimator, its Adam step, subdivision, files, fits, and what is refused."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from hardsplat import contract
from hardsplat.cli import main
from hardsplat.errors import UserError
from hardsplat.gpu.context import DeviceLost
from hardsplat.io.colmap import ColmapCamera, ColmapImage, ColmapPoints, write_model
from hardsplat.io.scene import load_scene
from hardsplat.mesh.checks import checked
from hardsplat.mesh.config import MeshConfig
from hardsplat.mesh.files import load_mesh, save_mesh
from hardsplat.mesh.fit import MeshRun, fit_mesh, measured
from hardsplat.mesh.session import MeshSession, Scale
from hardsplat.mesh.start import bounding_sphere, icosphere
from hardsplat.train.photos import Photos
from tests.drawing import fresh_seed
from tests.meshing import HEIGHT, NEAR, PIXEL, SEED, WIDTH, ball, convergence, errors_by_samples, gather_once, opened, posed, sheet, sums_of
from tests.oracle import mesh as oracle
from tests.oracle.adam import adam_step
from tools.make_mesh_scene import cameras, make_mesh_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pebble") / "pebble"
    make_mesh_scene(folder, views=10, width=48, height=48, supersample=1)
    return folder


# ---- rasterization


def test_ids_and_uvs_are_those_of_a_plain_rasterizer(device):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera = ball(rng), cameras(5, WIDTH, HEIGHT)[int(rng.integers(5))]
    session = opened(device, mesh, [camera], [np.zeros((HEIGHT, WIDTH, 4), np.uint8)], np.zeros((8, 8, 3)))
    session.picture(camera)
    found = session.resources["ids"].download()
    session.destroy()
    vertices = mesh.vertices.astype(np.float64)
    ids, edge = oracle.rasterize(vertices, mesh.faces, camera.w2c, camera.K, WIDTH, HEIGHT, NEAR)
    same = found[..., 3] == ids
    # The rasterizer snaps corners to 1/256 px: a pixel that close to an edge may fall on either side of it; triangles are 3 px or larger.
    assert (edge[~same] < 0.01).all() and same.mean() > 0.98, f"seed {seed}: {(~same).sum()} pixels have another triangle"
    assert (ids > 0).mean() > 0.1 and (ids == 0).any()
    weights, depth = oracle.barycentrics(vertices, mesh.faces, ids, camera.w2c, camera.K)
    at = same & (ids > 0)
    uv = oracle.uv_at(mesh.uvs.astype(np.float64), mesh.uv_faces, ids, weights)
    assert np.abs(found[..., 2] - depth)[at].max() < 1e-2, f"seed {seed}"
    assert np.abs(found[..., :2] - uv)[at].max() < 5e-3 and np.abs(found[..., :2] - uv)[at].mean() < 5e-4, f"seed {seed}"


def test_what_is_nearer_than_the_near_plane_is_cut_off(device):
    mesh, camera = sheet(np.random.default_rng(0))
    session = opened(device, mesh, [camera], [np.zeros((HEIGHT, WIDTH, 4), np.uint8)], np.ones((8, 8, 3)))
    whole = session.picture(camera)[..., 3]
    session.scale = Scale(PIXEL, 1.0, 4.0)
    session.set_step(0)
    cut = session.picture(camera)[..., 3]
    session.destroy()
    assert whole.min() == 1 and cut.max() == 0


def test_a_small_view_on_a_large_canvas(device):
    """Views of several sizes share a canvas: the upper left corner has the picture that a canvas of their own would have."""
    rng = np.random.default_rng(3)
    mesh, texture = ball(rng), rng.random((16, 16, 3))
    small = cameras(5, 40, 30)[1]
    own = MeshSession(device, MeshConfig(), [small], Photos(device, [np.zeros((30, 40, 4), np.uint8)], "auto", 100), (40, 30), Scale(PIXEL, 1.0, NEAR), mesh, texture)
    shared = opened(device, mesh, [small], [np.zeros((30, 40, 4), np.uint8)], texture)
    a, b = own.picture(small), shared.picture(small)
    own.destroy()
    shared.destroy()
    # Snapping to 1/256 px may round differently, by where a corner lies in NDC.
    assert a.shape == b.shape == (30, 40, 4) and (np.abs(a - b).max(axis=-1) > 0.05).mean() < 0.01


# ---- the estimator


@pytest.mark.parametrize("loss", ["l2", "l1"])
@pytest.mark.parametrize("atomics", ["auto", "cas"])
def test_each_pixel_adds_once_to_what_it_saw(device, loss, atomics):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera, texture = ball(rng), cameras(5, WIDTH, HEIGHT)[2], rng.random((24, 40, 3))
    photo = rng.integers(0, 256, (HEIGHT, WIDTH, 4)).astype(np.uint8)
    session = opened(device, mesh, [camera], [photo], texture, loss=loss, atomics=atomics, perturb_vertices=1.5, alpha_weight=0.7)
    posed(session, camera, step := int(rng.integers(500)))
    gather_once(session)
    plus, minus = (session.resources[name].download().astype(np.float64) for name in ("ids", "ids_minus"))
    of_vertices, of_texels = sums_of(session)
    record = session.resources["mesh_history"].array(contract.dtype("MeshRecord"))[step].copy()
    session.destroy()
    left = 0.3 ** (step / 1000)
    args = (photo / 255.0, texture, mesh.faces, 0.15 * left, SEED, step, len(mesh.vertices), 0.7, loss == "l2")
    wanted = oracle.gathered(plus, minus, *args)
    assert (plus[..., 3] != minus[..., 3]).sum() > 20, "no pixel sees another triangle: the perturbation is too small to test"
    for found, exact in zip((of_vertices, of_texels), wanted):
        assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max(), f"seed {seed}"
    inside, covered = photo[..., 3] > 127, plus[..., 3] > 0
    assert abs(record["iou"] - (inside & covered).sum() / (inside | covered).sum()) < 1e-6


def test_the_estimates_converge_to_the_gradient(device):
    """Unbiased: the error of the mean of n estimates falls as 1 / sqrt(n), and is what the spread of the estimates explains."""
    samples = 512
    for name, (found, wanted) in convergence(device, np.random.default_rng(seed := fresh_seed()), samples).items():
        _, errors, slope = errors_by_samples(found, wanted)
        assert -0.6 < slope < -0.4, f"seed {seed}: error of {name} falls as n^{slope:.3f}: {np.round(errors, 3)}"
        seen = found.std(axis=0) > 0
        assert np.abs(wanted[~seen]).max(initial=0) < 1e-9, f"seed {seed}: {name} with a gradient are never touched"
        z = (found.mean(axis=0) - wanted)[seen] / (found.std(axis=0)[seen] / np.sqrt(samples))
        # 1 for an unbiased estimator, 0.6 to 1.4 by chance (they are not independent); twice or half the right size would give 9 and more.
        assert (z**2).mean() < 2.2, f"seed {seed}: {name} are {np.sqrt((z**2).mean()):.2f} standard errors off"


def test_adam_and_smoothing(device):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera, texture = ball(rng), cameras(5, WIDTH, HEIGHT)[2], rng.random((24, 40, 3))
    photo = rng.integers(0, 256, (HEIGHT, WIDTH, 4)).astype(np.uint8)
    session = opened(device, mesh, [camera], [photo], texture, last_lr=1.0, last_perturb=1.0)
    posed(session, camera, 0)
    gather_once(session)
    of_vertices, of_texels = sums_of(session)
    session.run(1)
    vertices, found_texture = session.download().vertices, session.texture()
    session.run(1)
    assert not session.resources["mesh_sums"].download(np.float32)[: len(mesh.vertices)].any()
    session.destroy()

    before = mesh.vertices.astype(np.float64)
    gradient = of_vertices[:, None] * oracle.signs(SEED, 0, len(before), oracle.VERTEX) / (2 * 0.5 * PIXEL)
    moved = adam_step(before, gradient, np.zeros_like(before), np.zeros_like(before), 1, lr=4e-3, beta1=0.9, beta2=0.99, eps=1e-15)[0]
    starts, neighbours = mesh.neighbours()
    L = np.eye(len(before))
    for v in range(len(before)):
        near = neighbours[starts[v] : starts[v + 1]]
        L[v, near] = -1 / len(near)
    moved -= 0.02 * L.T @ L @ before
    assert np.abs(vertices - moved).max() < 1e-5, f"seed {seed}"
    gradient = of_texels * oracle.signs(SEED, 0, texture.size // 3, oracle.TEXEL) / (2 * 0.15)
    flat = texture.reshape(-1, 3)
    stepped = adam_step(flat, gradient, np.zeros_like(flat), np.zeros_like(flat), 1, lr=0.02, beta1=0.9, beta2=0.99, eps=1e-15)[0]
    wanted = np.where((of_texels != 0).any(axis=1, keepdims=True), np.clip(stepped, 0, 1), flat)
    assert np.abs(found_texture.reshape(-1, 3) - wanted).max() < 1e-5, f"seed {seed}"


# ---- subdivision


def test_loop_subdivision_is_that_of_trimesh():
    import trimesh

    rng = np.random.default_rng(seed := fresh_seed())
    whole = ball(rng, 1)
    kept = (whole.faces != 0).all(axis=1)
    for mesh in (whole, checked(whole.vertices, whole.faces[kept], whole.uvs, whole.uv_faces[kept])[0]):  # closed, and with a border
        fine, along = mesh.subdivided(smooth=True)
        wanted, faces = trimesh.remesh.subdivide_loop(mesh.vertices.astype(np.float64), mesh.faces, 1)
        assert len(fine.faces) == len(faces) == 4 * len(mesh.faces)
        for ours, theirs in ((fine.vertices, wanted), (fine.vertices[fine.faces].mean(axis=1), wanted[faces].mean(axis=1))):
            distance, partner = cKDTree(theirs).query(ours)
            assert distance.max() < 1e-5 and len(set(partner)) == len(ours) == len(theirs), f"seed {seed}"
        assert np.allclose(along.sum(axis=1), 1) and along.shape == (len(fine.vertices), len(mesh.vertices))


def test_midpoints_leave_the_surface_and_its_texture_alone():
    mesh = ball(np.random.default_rng(1))
    fine, _ = mesh.subdivided(smooth=False)
    for positions, indices, coarse, coarse_indices in ((fine.vertices, fine.faces, mesh.vertices, mesh.faces), (fine.uvs, fine.uv_faces, mesh.uvs, mesh.uv_faces)):
        quarters = positions[indices].reshape(len(mesh.faces), 4, 3, -1)
        assert np.allclose(quarters.mean(axis=(1, 2)), coarse[coarse_indices].mean(axis=1), atol=1e-6)
        at_corners, whole = quarters[:, :3], coarse[coarse_indices][:, None]
        assert np.allclose(at_corners[:, :, 1] - at_corners[:, :, 0], (whole[:, :, 1] - whole[:, :, 0]) / 2, atol=1e-6)
    checked(fine.vertices, fine.faces, fine.uvs, fine.uv_faces)


# ---- files and what is refused


def test_files_come_back(tmp_path):
    rng = np.random.default_rng(2)
    mesh, texture = ball(rng), rng.random((48, 48, 3))
    save_mesh(tmp_path, mesh, texture)
    for name in ("mesh.obj", "mesh.ply"):
        found, image, notes = load_mesh(tmp_path / name, 48)
        assert np.abs(image - texture).max() < 0.003
        assert not notes and len(found.vertices) == len(mesh.vertices)
        assert np.allclose(found.vertices[found.faces], mesh.vertices[mesh.faces], atol=1e-6)
        assert np.allclose(found.uvs[found.uv_faces], mesh.uvs[mesh.uv_faces], atol=1e-6)
    from plyfile import PlyData

    vertices = PlyData.read(tmp_path / "mesh.ply")["vertex"]
    at = 48 * np.stack([1 - vertices["t"], vertices["s"]], axis=1)
    clear = (np.abs(at - np.rint(at)) > 1e-3).all(axis=1)  # not between two texels
    assert np.abs(vertices["red"] / 255 - texture[*at.astype(int).T, 0])[clear].max() < 0.003 and clear.mean() > 0.5


def test_texture_coordinates_are_made_where_there_are_none(tmp_path):
    sphere = icosphere(2, (0, 0, 0), 1.0, 64)
    vertices, faces = sphere.vertices, sphere.faces
    (tmp_path / "bare.obj").write_text("".join([*("v {} {} {}\n".format(*v) for v in vertices), *("f {} {} {}\n".format(*f) for f in faces + 1)]))
    mesh, texture, notes = load_mesh(tmp_path / "bare.obj", size := int(np.random.default_rng(fresh_seed()).integers(52, 300)))
    assert texture is None and len(notes) == 1 and "texture coordinates are made anew" in notes[0]
    assert np.allclose(mesh.vertices[mesh.faces], vertices[faces], atol=1e-6) and mesh.uvs.min() >= 0 and mesh.uvs.max() <= 1
    weights = np.random.default_rng(fresh_seed()).dirichlet([0.3, 0.3, 0.3], (len(faces), 200))
    texels, _ = oracle.taps((mesh.uvs[mesh.uv_faces][:, None] * weights[..., None]).sum(axis=2), (size, size))
    pairs = np.unique(np.stack([np.repeat(np.arange(len(faces)), 800), texels.ravel()], axis=1), axis=0)
    assert len(np.unique(pairs[:, 1])) == len(pairs), "a texel is seen through two triangles"
    with pytest.raises(UserError, match="320 triangles have no room in a texture of 51x51 texels: raise --texture-size to 52"):
        load_mesh(tmp_path / "bare.obj", 51)


FAN = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]], float)


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (FAN, [[0, 1, 2], [0, 1, 3], [0, 1, 4]], "mesh: not a manifold: 1 of 7 edges have more than two triangles; repair it first"),
        (np.where(FAN == -1, np.nan, FAN), [[0, 1, 2]], "mesh: 1 of 5 vertices have a NaN or infinite coordinate"),
        (FAN * 1e39, [[0, 1, 2]], "mesh: coordinates are beyond what 32-bit floats hold"),
        (FAN, [], "mesh: has no triangles"),
        (FAN, [[0, 1, 5]], "mesh: a triangle names vertex 5 of 5"),
        (FAN, [[0, 1, -1]], "mesh: a triangle names vertex -1 of 5"),
        (FAN, [[0, 2, 4], [1, 1, 3]], "mesh: none of its 2 triangles has an area"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_line(vertices, faces, message):
    with pytest.raises(UserError) as error:
        checked(vertices, faces)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_what_can_be_repaired_is():
    twice = np.concatenate([FAN, FAN])  # every vertex twice: a seam of the file, none of the surface
    mesh, notes = checked(twice, [[0, 1, 2], [5, 8, 6], [0, 2, 4], [9, 9, 1]], np.random.default_rng(0).random((12, 2)), np.arange(12).reshape(4, 3))
    assert len(mesh.vertices) == 4 and len(mesh.faces) == 2 and len(mesh.uvs) == 6
    assert notes == ["mesh: 2 triangles without an area are left out"]
    _, notes = checked(FAN, [[0, 1, 2]], [[0, 0], [3, 0], [0, 3]], [[0, 1, 2]])
    assert "texture coordinates are made anew" in notes[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.stl", "", "a mesh is an .obj or .ply file"),
        ("a.obj", "", "a.obj: "),
        ("a.obj", "v 0 0 0\nv 1 0 0\n", "a.obj: "),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "a.obj: "),
        ("a.obj", "v 0 0 zero\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "a.obj: "),
        ("a.obj", "v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "a.obj: "),
        ("a.ply", "ply\nformat ascii 1.0\nelement vertex 3\n", "a.ply: "),
        ("a.ply", "\x00\x01\x02", "a.ply: "),
        (None, "", "mesh not found"),
    ],
)
def test_damaged_files_say_so_in_a_line(tmp_path, name, content, message):
    path = tmp_path / (name or "none.obj")
    if name:
        path.write_text(content)
    with pytest.raises(UserError) as error:
        load_mesh(path)
    assert message in str(error.value) and "\n" not in str(error.value)


# ---- fits


def test_the_first_sphere_is_where_the_silhouettes_say():
    views = cameras(8, 64, 64)
    centre, radius = np.array([0.2, -0.1, 0.15]), 0.7
    y, x = np.mgrid[0:64, 0:64] + 0.5
    coverages = []
    for view in views:
        rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(view.K).T
        rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
        at = view.w2c[:3] @ np.append(centre, 1)
        coverages.append(((at - (rays @ at)[..., None] * rays) ** 2).sum(-1) < radius**2)
    found, size = bounding_sphere(views, coverages)
    assert np.linalg.norm(found - centre) < 0.03 and abs(size - radius) < 0.05
    with pytest.raises(UserError, match="fewer than two directions"):
        bounding_sphere(views[:1], coverages[:1])


def test_a_short_fit_improves(scene, tmp_path, session_device, monkeypatch, capsys):
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    common = ["mesh", str(scene), "--quiet", "--init-levels", "2", "--texture-size", "64", "--test-every", "5"]
    assert main([*common, "--result-dir", str(tmp_path / "first"), "--max-steps", "1"]) == 0
    assert main([*common, "--result-dir", str(tmp_path / "fit"), "--max-steps", "400", "--subdivide-steps", "250"]) == 0
    first, fit = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("first", "fit"))
    assert fit["held_out"]["iou"] > first["held_out"]["iou"] + 0.02
    assert fit["held_out"]["psnr"] > first["held_out"]["psnr"] + 2
    assert fit["triangles"] == 4 * first["triangles"] and fit["steps"] == 400 and fit["curve"]["step"][-1] == 400
    assert {p.name for p in (tmp_path / "fit").iterdir()} == {"config.toml", "metrics.json", "loss.png", "mesh.obj", "mesh.mtl", "mesh.ply", "texture.png", "renders"}
    assert len(list((tmp_path / "fit" / "renders").rglob("*.png"))) == 2 * len(fit["views"]) == 4
    again = ["mesh", "--config", str(tmp_path / "fit" / "config.toml"), "--init", str(tmp_path / "fit" / "mesh.obj"), "--max-steps", "1"]
    assert main([*again, "--result-dir", str(tmp_path / "again"), "--vertices-lr", "1e-9", "--texels-lr", "0", "--smoothing", "0"]) == 0
    kept = json.loads((tmp_path / "again" / "metrics.json").read_text())
    assert kept["triangles"] == fit["triangles"] and abs(kept["held_out"]["iou"] - fit["held_out"]["iou"]) < 1e-3
    assert abs(kept["held_out"]["psnr"] - fit["held_out"]["psnr"]) < 0.1
    assert "IoU" in capsys.readouterr().out


def test_transparent_photographs_are_silhouettes_too(tmp_path, session_device, monkeypatch):
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    make_mesh_scene(tmp_path / "scene", views=6, width=32, height=32, supersample=2, silhouettes="alpha")
    metrics = fit_mesh(MeshConfig(data_dir=tmp_path / "scene", result_dir=tmp_path / "out", max_steps=10, quiet=True, texture_size=32, init_levels=2, test_every=3))
    assert metrics["held_out"]["iou"] > 0.6


def test_a_colmap_scene_with_masks(scene, tmp_path, session_device, monkeypatch):
    """The same photographs, masks and cameras as a COLMAP model start from the same sphere."""
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    views = load_scene(scene).views
    model = tmp_path / "colmap"
    for name in ("images", "masks"):
        shutil.copytree(scene / name, model / name)
    K, images = views[0].camera.K, {}
    for i, view in enumerate(views, 1):
        qvec = np.roll(Rotation.from_matrix(view.camera.w2c[:3, :3]).as_quat(), 1)
        images[i] = ColmapImage(i, view.path.name, 1, qvec, view.camera.w2c[:3, 3])
    lens = ColmapCamera(1, "PINHOLE", 48, 48, np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]]))
    write_model(model / "sparse" / "0", {1: lens}, images, ColmapPoints(np.zeros((1, 3)), np.zeros((1, 3), np.uint8), np.zeros(1)))
    a, b = (fit_mesh(MeshConfig(data_dir=s, result_dir=tmp_path / s.name, max_steps=1, quiet=True, texture_size=32, init_levels=2)) for s in (scene, model))
    assert a["held_out"]["iou"] == pytest.approx(b["held_out"]["iou"], abs=5e-3) and len(a["views"]) == len(b["views"]) == 2


def test_nothing_is_left_where_memory_gives_out(device, leaves_nothing):
    mesh, camera = sheet(np.random.default_rng(0))
    photo, texture = np.zeros((HEIGHT, WIDTH, 4), np.uint8), np.zeros((8, 8, 3))
    assert leaves_nothing(lambda: opened(device, mesh, [camera], [photo], texture)) > 20


def test_an_interrupted_fit_leaves_its_mesh(scene, tmp_path, session_device, monkeypatch):
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    run = MeshSession.run
    monkeypatch.setattr(MeshSession, "run", lambda self, steps: (run(self, steps), os.kill(os.getpid(), signal.SIGINT)))
    assert main(["mesh", str(scene), "--quiet", "--init-levels", "1", "--texture-size", "32", "--batch-steps", "5", "--result-dir", str(tmp_path / "out")]) == 130
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["steps"] == 5 and load_mesh(tmp_path / "out" / "mesh.obj")[0].faces.shape == (80, 3)


@pytest.mark.parametrize("seconds, step", [(0, 10), (3600, 5)])
def test_a_lost_device_leaves_the_newest_mesh(scene, tmp_path, session_device, monkeypatch, capsys, seconds, step):
    """After a subdivision too; from it a fit can go on."""
    run = MeshSession.run

    def lost(self, steps):
        if self.step == 10:
            monkeypatch.setattr(MeshSession, "download", lost)
            raise DeviceLost("the GPU stopped answering")
        run(self, steps)

    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    monkeypatch.setattr("hardsplat.mesh.fit.SNAPSHOT_SECONDS", seconds)
    monkeypatch.setattr(MeshSession, "run", lost)
    out = tmp_path / "out"
    words = ["--init-levels", "1", "--texture-size", "32", "--batch-steps", "5", "--subdivide-steps", "5"]
    assert main(["mesh", str(scene), "--quiet", *words, "--result-dir", str(out)]) == 2
    error = f"the GPU stopped answering (step 10); the mesh of step {step} is saved: go on from it with --init {out / 'mesh.obj'}"
    assert capsys.readouterr().err == f"hardsplat: error: {error}\n"
    assert len(load_mesh(out / "mesh.obj")[0].faces) == (320 if step == 10 else 80) and (out / "texture.png").is_file()
    session_device.wait_idle()


def test_scenes_and_settings_that_cannot_be(scene, tmp_path, capsys):
    def refused(*words) -> str:
        assert main(["mesh", *words]) == 2
        error = capsys.readouterr().err.strip().splitlines()
        return error[-1]

    assert "no scene given" in refused()
    assert "scene folder not found" in refused(str(tmp_path / "nowhere"))
    assert "--texture-size: expected a whole number of at least 16" in refused(str(scene), "--texture-size", "4")
    assert "unknown flag '--textur-size'; did you mean '--texture-size'?" in refused(str(scene), "--textur-size", "64")
    bare = tmp_path / "bare"
    make_mesh_scene(bare, views=3, width=16, height=16, supersample=1)
    for mask in (bare / "masks").iterdir():
        mask.unlink()
    (bare / "masks").rmdir()
    assert "has no silhouette; put a mask beside it" in refused(str(bare), "--quiet", "--result-dir", str(tmp_path / "out"))
    behind = tmp_path / "far.obj"
    behind.write_text("v 0 0 0\nv 0 0 0\nv 1 1 1\nf 1 2 3\n")
    assert "none of its 1 triangles has an area" in refused(str(scene), "--quiet", "--init", str(behind), "--result-dir", str(tmp_path / "out"))


def test_an_earlier_mesh_is_set_aside_and_the_folder_is_one_fits_at_a_time(scene, tmp_path, session_device, monkeypatch, capsys):
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    config = MeshConfig(data_dir=scene, result_dir=tmp_path, max_steps=1, quiet=True, texture_size=32, init_levels=2)
    fit_mesh(config)
    before = (tmp_path / "mesh.ply").read_bytes()
    run = MeshRun(config)
    assert (tmp_path / "earlier_1/mesh.ply").read_bytes() == before and f"is now in {tmp_path / 'earlier_1'}" in capsys.readouterr().out
    with pytest.raises(UserError, match="is in use by process"):
        MeshRun(config)
    run.run()
    assert (tmp_path / "mesh.ply").is_file() and not (tmp_path / ".lock").exists()


def test_subdivision_ends_where_triangles_cannot_be_told_apart(scene, tmp_path, session_device, monkeypatch):
    monkeypatch.setattr("hardsplat.mesh.fit.open_device", lambda wanted: session_device)
    monkeypatch.setattr("hardsplat.mesh.files.MOST_TRIANGLES", 1000)
    config = MeshConfig(data_dir=scene, result_dir=tmp_path, max_steps=4, quiet=True, texture_size=32, init_levels=2, subdivide_steps=(2,))
    with pytest.raises(UserError, match="--subdivide-steps: has 1280 triangles, 1000 can be told apart; leave out the last of them .step 2.; the mesh of step 2 is saved"):
        fit_mesh(config)


def test_measures():
    photo = np.zeros((4, 4, 4), np.uint8)
    photo[:2] = 255
    shown = np.zeros((4, 4, 4))
    shown[:, :2] = 1
    m = measured(shown, photo)
    assert m["iou"] == pytest.approx(1 / 3) and m["psnr"] == pytest.approx(-10 * np.log10(0.5)) and m["psnr_object"] == pytest.approx(-10 * np.log10(0.5))
