"""Depth in the loss: gradients against the oracle, and what is known of depth."""

import io
import json
import shutil
import struct

import cv2
import numpy as np
import pytest

from hardsplat.io.scenes.colmap import read_model, read_tracks, write_model
from hardsplat.io.scenes.depths import known_disparities
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.camera import Camera
from hardsplat.train.features.depth import LAST, depth_settings
from hardsplat.train.features.poses import refined
from hardsplat.train.job.validation import whole_steps
from tests.helpers.goldens import random_scene
from tests.helpers.tables import refuses
from tests.helpers.training import OneStep
from tests.oracle.render import _fragments
from tests.oracle.splat import project

WIDTH, HEIGHT, SPLATS, EXTENT, WEIGHT = 48, 32, 60, 2.0, 7.0
PARAMETERS = ("means", "quats", "scales", "opacities", "sh")
GEOMETRY = ("means", "quats", "log_scales", "logit_opacities")


def depth_loss(s: dict, camera: Camera, known: np.ndarray) -> float:
    """In float64: weight * mean |extent W / S - extent known| over what is known and covered."""
    splats = {name: s[name] for name in PARAMETERS}
    view = dict(w2c=camera.w2c, K=camera.K, width=WIDTH, height=HEIGHT)
    p = project(**splats, **view, sh_degree=2)
    S, W = np.zeros((2, HEIGHT, WIDTH))
    for i, window, _, _, alpha, T in _fragments(p, HEIGHT, WIDTH, "after"):
        S[window] += T * alpha * p.depth[i]
        W[window] += T * alpha
    at = (known > 0) & (W > 0.1)
    return WEIGHT * np.abs(EXTENT * W[at] / S[at] - known[at]).sum() / np.count_nonzero(known)


def gradients(device, s: dict, known, weight: float, step=0, **options) -> dict:
    """By name, of one step after `step` that moves no splat."""
    own = dict(depth_lambda=weight, pose_opt=True, pose_warm_up=1)
    depths = [known / EXTENT] if weight else None
    made = OneStep(device, s, own | options, step=step, extent=EXTENT, depths=depths)
    return {name: made.gradient(name) for name in (*GEOMETRY, "turn", "shift")}


def moved(s: dict, camera: Camera, name: str, g: int, k: int, by: float) -> tuple[dict, Camera]:
    """Splats and camera, of which one trained number is another."""
    s = {n: np.array(v, np.float64) if isinstance(v, np.ndarray) else v for n, v in s.items()}
    way = np.eye(3)[k % 3] * by
    if name in ("turn", "shift"):
        return s, refined(camera, *((way, 0 * way) if name == "turn" else (0 * way, way)))
    if name == "log_scales":
        s["scales"][g, k] *= np.exp(by)
    elif name == "logit_opacities":
        o = s["opacities"][g]
        s["opacities"][g] = 1 / (1 + np.exp(-(np.log(o / (1 - o)) + by)))
    else:
        s[name][g, k] += by
    return s, camera


OPTIONS = [
    {"rasterizer": "hardware", "block": "1x1", "state_format": "float32"},
    {"rasterizer": "hardware", "state_format": "float32", "segments": 2},
    {"rasterizer": "tiled"},
    {"rasterizer": "tiled", "tile_backward": "gather"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_against_central_differences(device, options):
    """What the loss of depth adds to gradients of geometry and pose."""
    s = random_scene(1, SPLATS, WIDTH, HEIGHT, 2)
    camera, rng = Camera(s["w2c"], s["K"], WIDTH, HEIGHT), np.random.default_rng(3)
    size = HEIGHT, WIDTH
    known = np.where(rng.random(size) < 0.3, rng.uniform(0.1, 2, size), 0).astype(np.float16)
    known = known.astype(np.float64)
    found, base = (gradients(device, s, known, w, **options) for w in (WEIGHT, 0.0))
    for name, values in ((name, found[name] - base[name]) for name in found):
        scale = np.abs(values).max()
        assert scale > 1e-4, name
        strongest = np.argsort(-np.abs(values).reshape(-1))[:6]
        for g, k in zip(*np.unravel_index(strongest, values.shape)):
            a, b = (depth_loss(*moved(s, camera, name, g, k, by), known) for by in (1e-7, -1e-7))
            assert abs(values[g, k] - (a - b) / 2e-7) <= 2e-3 * scale, name


def test_the_weight_of_depth_decays_to_a_hundredth(device):
    """By the same share in each step."""
    s = random_scene(1, SPLATS, WIDTH, HEIGHT, 2)
    known = np.full((HEIGHT, WIDTH), 0.5)
    run, strength = dict(rasterizer="tiled", max_steps=100), []
    for step in (0, 50, 99):
        found, base = (gradients(device, s, known, w, step, **run) for w in (WEIGHT, 0.0))
        strength.append(np.linalg.norm(found["means"] - base["means"]))
    assert strength[1] / strength[0] == pytest.approx(LAST**0.5, rel=0.03)
    assert strength[2] / strength[0] == pytest.approx(LAST**0.99, rel=0.06)


@pytest.fixture
def tracked(scene, tmp_path):
    """A scene whose model says which photographs (the even ones) show every second point."""
    return tracked_from(scene, tmp_path / "s")


def tracked_from(scene, folder, away=(0, 0, 0)):
    """In a folder, its cameras and points moved by that."""
    shutil.copytree(scene, folder)
    cameras, images, points = read_model(scene / "sparse" / "0")
    for image in images.values():
        image.tvec = image.tvec - image.w2c[:3, :3] @ away
    points.xyz = points.xyz + away
    write_model(folder / "sparse/0", cameras, images, points)
    data = bytearray((len(points.xyz)).to_bytes(8, "little"))
    for n, (xyz, rgb) in enumerate(zip(points.xyz, points.rgb)):
        track = [(i, 0) for i in sorted(images)[::2]] if n % 2 else []
        data += struct.pack("<Q3d3BdQ", n + 1, *xyz, *rgb, 0.0, len(track))
        data += np.array(track, "<u4").tobytes()
    (folder / "sparse/0/points3D.bin").write_bytes(data)
    return folder


def known_of(root):
    loaded = load_scene(root, test_every=0)
    return loaded, *known_disparities(root, loaded, range(len(loaded.views)))


def test_depths_of_points_that_photographs_show(tracked):
    model = tracked / "sparse/0"
    _, images, points = read_model(model)
    which, ids = read_tracks(model)
    assert set(which % 2) == {1} and set(ids) == set(sorted(images)[::2])
    loaded, known, label = known_of(tracked)
    assert "points of the model" in label
    for i, (view, map) in enumerate(zip(loaded.views, known)):
        assert map.shape == (24, 32) and (i % 2 == 0) == bool(map.any())
        if not map.any():
            continue
        w2c, K = view.camera.w2c, view.camera.K
        p = points.xyz[1::2] @ w2c[:3, :3].T + w2c[:3, 3]
        at = np.floor(p[:, :2] / p[:, 2:] * np.diag(K)[:2] + K[:2, 2]).astype(int)
        inside = (p[:, 2] > 0) & (at >= 0).all(axis=1) & (at < [32, 24]).all(axis=1)
        p, at = p[inside], at[inside]
        assert np.count_nonzero(map) == len(np.unique(at, axis=0))
        y, x = np.argwhere(map)[0]
        assert map[y, x] == pytest.approx(1 / p[(at == [x, y]).all(axis=1), 2].min())


def test_depths_of_a_scene_that_is_moved_to_the_origin(scene, tracked, tmp_path):
    moved, far, _ = known_of(tracked_from(scene, tmp_path / "far", [5e6, -2e6, 0]))
    assert moved.origin[:2] == (5e6, -2e6)
    np.testing.assert_allclose(far, known_of(tracked)[1], rtol=1e-5)


def test_depth_maps_are_fitted_to_points(tracked):
    """By scale and offset; Inria's file goes before a fit; maps of nothing are left out."""
    depths = tracked / "depths"
    _, sparse, _ = known_of(tracked)
    depths.mkdir()
    first = sparse[0].copy()
    first[first == 0] = 0.3
    photograph = next((tracked / "images").glob("view_0000.*"))
    photograph.rename(photograph.with_stem("View_0000"))  # since the model was made
    np.save(depths / "View_0000.npy", (first - 0.05) * 0.25)
    flat = np.full((24, 32), 30000, np.uint16)  # which fits nothing
    cv2.imwrite(str(depths / "view_0002.png"), flat)
    _, known, label = known_of(tracked)
    assert label == f"depth maps of 1 of {len(known)} photographs"
    assert np.allclose(known[0], first, atol=1e-5) and not known[2].any()
    given = {"view_0002": {"scale": 2.0, "offset": 0.1}, "overall": 1}
    (tracked / "sparse/0/depth_params.json").write_text(json.dumps(given))
    assert np.allclose(known_of(tracked)[1][2], 2 * 30000 / 65535 + 0.1, atol=1e-5)


def test_depths_that_cannot_be_used(scene, tracked):
    words = "--depth-lambda needs depths: a COLMAP model with tracks, or depth maps"
    refuses(words, known_of, scene)
    path, points = tracked / "depths/view_0000.png", tracked / "sparse/0/points3D.bin"
    path.parent.mkdir()
    given = tracked / "sparse/0/depth_params.json"
    flat = cv2.imencode(".png", np.zeros((24, 32, 3), np.uint8))[1].tobytes()
    head = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(head, shape)
    huge, head = tracked / "depths/view_0001.npy", head.getvalue()
    for file, content, words in (
        (path, b"no picture", "not a readable image"),
        (path, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\x7f" * 64, "not a readable image"),
        (path, flat, "expected one channel"),
        (huge, head, "not a usable depth map .*mmap length is greater than file size"),
        (given, b'{"view_0000": {"scale": "x"}}', "expected a scale and an offset"),
        (given, b'{"view_0000": {"scale": 1e300, "offset": 0}}', "an offset is not finite"),
    ):
        file.write_bytes(content)
        refuses(words, known_of, tracked)
        file.unlink()
    cv2.imwrite(str(path), np.full((24, 32), 30000, np.uint16))  # flat, which fits no points
    words = "none of the depth maps .*, could be used: each needs 10 points of a COLMAP model"
    shutil.copy(scene / "sparse/0/points3D.bin", points)
    refuses(words, known_of, tracked)
    points.write_bytes(points.read_bytes()[:-3])
    loaded = load_scene(scene, test_every=0)
    refuses("truncated", known_disparities, tracked, loaded, range(len(loaded.views)))


@pytest.mark.parametrize("settled", [3_000, 12_000])
def test_the_weight_falls_to_its_end_where_a_run_settles(settled):
    """As rates do: it goes on from where it was, and ends as it would have ended."""

    def weight(settings, step):  # as shaders/photographs/depth_loss.comp has it
        first, last, until = (settings[name].astype(float) for name in ("weight", "last", "until"))
        return float(first * np.exp(step / until * np.log(last / first)))

    steps, end = 18_000, whole_steps(settled)
    before = depth_settings(WEIGHT, steps, EXTENT)
    after = depth_settings(WEIGHT, steps, EXTENT, (settled, end))
    assert weight(before, 0) == pytest.approx(WEIGHT)
    assert weight(after, settled) == pytest.approx(weight(before, settled), rel=1e-5)
    assert weight(after, end) == pytest.approx(LAST * WEIGHT, rel=1e-5)
    assert weight(after, end - 1) > weight(after, end)
