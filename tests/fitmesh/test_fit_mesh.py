"""Meshes: rasterized IDs and UVs, the estimator, Adam, subdivision, files, on_device, refusals."""

import json
import shutil

import numpy as np
import pytest
import trimesh

from hardsplat import contract
from hardsplat.cli import main
from hardsplat.fitmesh.config import MeshConfig
from hardsplat.fitmesh.fit import MeshFitter, save_mesh
from hardsplat.fitmesh.session import MeshSession
from hardsplat.gpu.device.context import DeviceLost
from tests.helpers import meshing
from tests.helpers.drawing import fresh_seed
from tests.helpers.scenes import around, pebble
from tests.helpers.tables import argv
from tests.helpers.training import one_photograph_fits
from tests.oracle import mesh as oracle
from tests.oracle.adam import adam_step
from tests.oracle.differences import errors_by_samples

CAMERAS = around(5, meshing.WIDTH, meshing.HEIGHT)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return pebble(tmp_path_factory.mktemp("pebble") / "pebble", views=10, side=48)


def small(data_dir, result_dir, **changes) -> MeshConfig:
    options = dict(max_steps=1, quiet=True, texture_size=32, init_levels=2) | changes
    return MeshConfig(data_dir=data_dir, result_dir=result_dir, **options)


def hardsplat_mesh(*words) -> int:
    """Runs the command; strings may hold several words."""
    return main(["fit-mesh", *argv(*words)])


def painted(rng):
    """Returns a ball, a camera, a texture and a photograph, all random."""
    mesh, texture = meshing.ball(rng), rng.random((24, 40, 3))
    photo = rng.integers(0, 256, (meshing.HEIGHT, meshing.WIDTH, 4)).astype(np.uint8)
    return mesh, CAMERAS[2], texture, photo


def test_ids_and_uvs_are_those_of_a_plain_rasterizer(device):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera = meshing.ball(rng), CAMERAS[rng.integers(5)]
    session = meshing.opened(device, mesh, camera)
    session.picture(camera)
    found = session.resources["ids"].download()
    session.destroy()
    vertices = mesh.vertices.astype(np.float64)
    size = meshing.WIDTH, meshing.HEIGHT, meshing.NEAR
    ids, edge = oracle.rasterize(vertices, mesh.faces, camera.w2c, camera.K, *size)
    same = found[..., 3] == ids
    # The rasterizer snaps corners to 1/256 px: a pixel that close to an edge may fall on either
    # side of it; triangles are 3 px or larger.
    what = f"seed {seed}: {(~same).sum()} pixels have another triangle"
    assert (edge[~same] < 0.01).all() and same.mean() > 0.98, what
    assert (ids > 0).mean() > 0.1 and (ids == 0).any()
    weights, depth = oracle.barycentrics(vertices, mesh.faces, ids, camera.w2c, camera.K)
    at = same & (ids > 0)
    uv = oracle.uv_at(mesh.uvs.astype(np.float64), mesh.uv_faces, ids, weights)
    assert np.abs(found[..., 2] - depth)[at].max() < 1e-2, f"seed {seed}"
    off = np.abs(found[..., :2] - uv)[at]
    assert off.max() < 5e-3 and off.mean() < 5e-4, f"seed {seed}"


@pytest.mark.parametrize("atomics", ["auto", "cas"])
def test_each_pixel_adds_once_to_what_it_saw(device, atomics):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera, texture, photo = painted(rng)
    options = dict(atomics=atomics, perturb_vertices=1.5, alpha_weight=0.7)
    session = meshing.opened(device, mesh, camera, photo, texture, **options)
    meshing.posed(session, camera, step := int(rng.integers(500)))
    meshing.gather_once(session)
    read = session.resources
    plus, minus = (read[name].download().astype(np.float64) for name in ("ids", "ids_minus"))
    of_vertices, of_texels = meshing.sums_of(session)
    record = read["mesh_history"].array(contract.dtype("MeshRecord"))[step].copy()
    session.destroy()
    size, n = 0.15 * 0.3 ** (step / 1000), len(mesh.vertices)
    scene = photo / 255.0, texture, mesh.faces
    wanted = oracle.gathered(plus, minus, *scene, size, meshing.SEED, step, n, 0.7)
    # Else the perturbation is too small to test.
    assert (plus[..., 3] != minus[..., 3]).sum() > 20
    for found, exact in zip((of_vertices, of_texels), wanted):
        assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max(), f"seed {seed}"
    inside, covered = photo[..., 3] > 127, plus[..., 3] > 0
    assert abs(record["iou"] - (inside & covered).sum() / (inside | covered).sum()) < 1e-6


def test_the_estimates_converge_to_the_gradient(device):
    """The error of the mean of n unbiased estimates falls as 1 / sqrt(n)."""
    samples = 512
    rng = np.random.default_rng(seed := fresh_seed())
    for name, (found, wanted) in meshing.convergence(device, rng, samples).items():
        errors, slope = errors_by_samples(found, wanted, 2 ** np.arange(10))
        what = f"seed {seed}: error of {name} falls as n^{slope:.3f}: {np.round(errors, 3)}"
        assert -0.6 < slope < -0.4, what
        seen = found.std(axis=0) > 0
        assert np.abs(wanted[~seen]).max(initial=0) < 1e-9, f"seed {seed}: {name} are missed"
        z = (found.mean(axis=0) - wanted)[seen] / (found.std(axis=0)[seen] / np.sqrt(samples))
        # 1 for an unbiased estimator, 0.6 to 1.4 by chance (they are not independent); twice or
        # half the right size would give 9 and more.
        assert (z**2).mean() < 2.2, f"seed {seed}: {name} are {z.std():.2f} standard errors off"


def test_adam_and_smoothing(device):
    rng = np.random.default_rng(seed := fresh_seed())
    mesh, camera, texture, photo = painted(rng)
    session = meshing.opened(device, mesh, camera, photo, texture, last_lr=1.0, last_perturb=1.0)
    meshing.posed(session, camera, 0)
    meshing.gather_once(session)
    of_vertices, of_texels = meshing.sums_of(session)
    session.run(1)
    vertices, found_texture = session.download().vertices, session.texture()
    session.run(1)
    assert not session.resources["mesh_sums"].download(np.float32)[: len(mesh.vertices)].any()
    session.destroy()

    def stepped(values, gradient, lr):
        zero = np.zeros_like(values)
        betas = dict(beta1=0.9, beta2=0.99, eps=1e-15)
        return adam_step(values, gradient, zero, zero, 1, lr=lr, **betas)[0]

    before = mesh.vertices.astype(np.float64)
    signs = oracle.signs(meshing.SEED, 0, len(before), oracle.VERTEX)
    moved = stepped(before, of_vertices[:, None] * signs / (2 * 0.5 * meshing.PIXEL), 4e-3)
    starts, neighbours = mesh.neighbours()
    L = np.eye(len(before))
    for v in range(len(before)):
        near = neighbours[starts[v] : starts[v + 1]]
        L[v, near] = -1 / len(near)
    moved -= 0.02 * L.T @ L @ before
    assert np.abs(vertices - moved).max() < 1e-5, f"seed {seed}"
    flat = texture.reshape(-1, 3)
    gradient = of_texels * oracle.signs(meshing.SEED, 0, len(flat), oracle.TEXEL) / (2 * 0.15)
    kept = (of_texels == 0).all(axis=1, keepdims=True)
    wanted = np.where(kept, flat, np.clip(stepped(flat, gradient, 0.02), 0, 1))
    assert np.abs(found_texture.reshape(-1, 3) - wanted).max() < 1e-5, f"seed {seed}"


def test_files_come_back(tmp_path):
    rng = np.random.default_rng(2)
    mesh, texture = meshing.ball(rng), rng.random((48, 48, 3))
    save_mesh(tmp_path, mesh, texture)
    found = trimesh.load(tmp_path / "mesh.obj", process=False, force="mesh")
    image = np.asarray(found.visual.material.image.convert("RGB")) / 255
    assert np.abs(image - texture).max() < 0.003
    assert np.allclose(found.vertices[found.faces], mesh.vertices[mesh.faces], atol=1e-6)
    uvs = found.visual.uv[found.faces]
    assert np.allclose(uvs * [1, -1] + [0, 1], mesh.uvs[mesh.uv_faces], atol=1e-6)
    assert len(trimesh.load(tmp_path / "mesh.glb", force="mesh").faces) == len(mesh.faces)


def test_a_short_fit_improves(scene, tmp_path, on_device, capsys):
    common = argv(scene, "--quiet --init-levels 2 --texture-size 64 --test-every 5 --result-dir")
    assert hardsplat_mesh(*common, tmp_path / "first", "--max-steps 1") == 0
    assert hardsplat_mesh(*common, tmp_path / "fit", "--max-steps 400 --subdivide-steps 250") == 0
    again = argv("--max-steps 2 --result-dir", tmp_path / "again", "--config")
    assert hardsplat_mesh(*again, tmp_path / "fit/config.toml") == 0
    folders = (tmp_path / name / "metrics.json" for name in ("first", "fit", "again"))
    first, fit, repeated = (json.loads(file.read_text()) for file in folders)
    assert fit["held_out"]["iou"] > first["held_out"]["iou"] + 0.02
    assert fit["held_out"]["psnr"] > first["held_out"]["psnr"] + 2
    assert fit["triangles"] == 4 * first["triangles"] == 4 * repeated["triangles"]
    assert fit["steps"] == 400 == fit["curve"]["step"][-1]
    files = "config.toml metrics.json loss.png mesh.obj mesh.mtl mesh.png mesh.glb renders"
    assert {p.name for p in (tmp_path / "fit").iterdir()} == {*files.split()}
    assert len(list((tmp_path / "fit/renders").rglob("*.png"))) == 2 * len(fit["views"]) == 4
    assert "IoU" in capsys.readouterr().out


def test_batches_have_room_for_their_photographs(scene, tmp_path, on_device, monkeypatch):
    """Of two that fit, each batch has one."""
    batches = one_photograph_fits(monkeypatch)
    MeshFitter(small(scene, tmp_path, max_steps=12)).run()
    assert batches == [1] * 12


def test_nothing_is_left_where_memory_gives_out(device, leaves_nothing):
    sheet = meshing.sheet(np.random.default_rng(0))
    assert leaves_nothing(lambda: meshing.opened(device, *sheet)) > 20


@pytest.mark.parametrize("seconds, step", [(0, 10), (3600, 5)])
def test_a_lost_device_leaves_the_newest_mesh(
    scene, tmp_path, on_device, module_device, monkeypatch, capsys, seconds, step
):
    """After a subdivision too."""
    run, out = MeshSession.run, tmp_path / "out"

    def lost(self, steps):
        if self.step == 10:
            monkeypatch.setattr(MeshSession, "download", lost)
            raise DeviceLost("the GPU stopped answering")
        run(self, steps)

    monkeypatch.setattr("hardsplat.fitmesh.fit.SNAPSHOT_SECONDS", seconds)
    monkeypatch.setattr(MeshSession, "run", lost)
    words = "--quiet --init-levels 1 --texture-size 32 --batch-steps 5 --subdivide-steps 5"
    assert hardsplat_mesh(scene, words, "--result-dir", out) == 2
    saved = f"the mesh of step {step} is in {out}"
    error = f"hardsplat: error: the GPU stopped answering (step 10); {saved}\n"
    assert capsys.readouterr().err == error
    assert len(trimesh.load(out / "mesh.glb", force="mesh").faces) == (320 if step == 10 else 80)
    assert (out / "mesh.png").is_file()
    module_device.wait_idle()


def test_scenes_and_settings_that_cannot_be(scene, tmp_path, error_of):
    bare = tmp_path / "bare"
    pebble(bare, views=3, side=16)
    shutil.rmtree(bare / "masks")
    out = argv("--quiet --result-dir", tmp_path / "out")
    for words, message in (
        ([], "no scene given"),
        ([tmp_path / "nowhere"], "scene folder not found"),
        ([scene, "--texture-size 4"], "--texture-size: expected a whole number of at least 16"),
        ([scene, "--textur-size 64"], "'--textur-size'; did you mean '--texture-size'?"),
        ([bare, *out], "has no silhouette; add a mask"),
    ):
        assert message in error_of("fit-mesh", *words)
