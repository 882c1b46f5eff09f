"""Depth in the loss: gradients against central differences of the float64 oracle, and what is known of photographs' depth."""

import json

import cv2
import numpy as np
import pytest

from hardsplat.camera import Camera
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gaussians import Gaussians
from hardsplat.io import colmap_binary, colmap_text
from hardsplat.io.colmap import read_model, read_tracks
from hardsplat.io.depths import known_disparities
from hardsplat.io.scene import load_scene
from hardsplat.train.depths import Depths
from hardsplat.train.photos import Photos
from hardsplat.train.poses import refined
from hardsplat.train.session import Session
from hardsplat.train.views import Views
from tests.goldens import random_scene
from tests.oracle.render import _fragments
from tests.oracle.splat import project

WIDTH, HEIGHT, SPLATS, EXTENT, WEIGHT = 48, 32, 60, 2.0, 7.0


def depth_loss(s: dict, camera: Camera, known: np.ndarray) -> float:
    """In float64: weight * mean |extent W / S - extent known| over what is known and covered."""
    inputs = {name: s[name] for name in ("means", "quats", "scales", "opacities", "sh")}
    p = project(**inputs, w2c=camera.w2c, K=camera.K, width=WIDTH, height=HEIGHT, sh_degree=2)
    S, W = np.zeros((2, HEIGHT, WIDTH))
    for i, window, _, _, alpha, T in _fragments(p, HEIGHT, WIDTH, "after"):
        S[window] += T * alpha * p.depth[i]
        W[window] += T * alpha
    counted = (known > 0) & (W > 0.1)
    return WEIGHT * np.sum(np.abs(EXTENT * W[counted] / S[counted] - known[counted])) / np.count_nonzero(known)


def gradients(device, s: dict, camera: Camera, known: np.ndarray, weight: float, **options) -> dict[str, np.ndarray]:
    """By name, of one step that moves no splat."""
    photo = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    base = dict(sh_degree=2, strategy="none", format="float32", near_plane=0.01, depth_lambda=weight, pose_opt=True, pose_warm_up=1)
    views = Views([camera], (WIDTH, HEIGHT), EXTENT, depths=[known / EXTENT] if weight else None)
    session = Session(device, TrainConfig(**base, **options), views, Photos(device, [photo], "gpu", 2), lambda batch: None, frozen=True)
    session.start(Gaussians(*(s[name] for name in ("means", "quats", "scales", "opacities", "sh"))))
    session.run(1)
    session.drain()
    seen = session.resources["seen"].download(np.uint32, SPLATS)[:, None] > 0
    out = {name: session.parameters.read(f"d_{name}", SPLATS)[0] * seen for name in ("means", "quats", "log_scales", "logit_opacities")}
    out |= {name: session.parameters.read(f"d_{name}", 1)[0] for name in ("turn", "shift")}
    session.destroy()
    return {name: values.astype(np.float64) for name, values in out.items()}


@pytest.mark.parametrize(
    "options",
    [
        {"rasterizer": "hardware", "block": "1x1", "state_format": "float32"},
        {"rasterizer": "hardware", "state_format": "float32", "segments": 2},
        {"rasterizer": "tiled"},
        {"rasterizer": "tiled", "tile_backward": "gather"},
    ],
)
def test_gradients_against_central_differences(device, options):
    """Of geometry and of the pose: what the loss of depth adds to the gradients that the image has."""
    s = random_scene(1, SPLATS, WIDTH, HEIGHT, 2)
    camera, rng = Camera(s["w2c"], s["K"], WIDTH, HEIGHT), np.random.default_rng(3)
    known = np.where(rng.random((HEIGHT, WIDTH)) < 0.3, rng.uniform(0.1, 2, (HEIGHT, WIDTH)), 0).astype(np.float16).astype(np.float64)
    with_depth, without = (gradients(device, s, camera, known, weight, **options) for weight in (WEIGHT, 0.0))
    found = {name: with_depth[name] - without[name] for name in with_depth}

    def moved(name: str, g: int, k: int, by: float) -> float:
        changed = {n: np.array(v, np.float64, copy=True) if isinstance(v, np.ndarray) else v for n, v in s.items()}
        if name in ("turn", "shift"):
            way = np.eye(3)[k] * by
            zero = np.zeros(3)
            return depth_loss(changed, refined(camera, *((way, zero) if name == "turn" else (zero, way))), known)
        if name == "log_scales":
            changed["scales"][g, k] *= np.exp(by)
        elif name == "logit_opacities":
            o = changed["opacities"][g]
            changed["opacities"][g] = 1 / (1 + np.exp(-(np.log(o / (1 - o)) + by)))
        else:
            changed[name][g, k] += by
        return depth_loss(changed, camera, known)

    for name, values in found.items():
        scale = np.abs(values).max()
        assert scale > 1e-4, name
        strongest = np.argsort(-np.abs(values).reshape(-1))[:6]
        off = 0
        for g, k in zip(*np.unravel_index(strongest, values.shape)):
            wanted = (moved(name, g, k, 1e-7) - moved(name, g, k, -1e-7)) / 2e-7
            off += abs(values[g, k] - wanted) > 2e-3 * scale
        assert off == 0, name


# -- what is known -----------------------------------------------------------------------------------------------------------------


def with_tracks(scene, folder):
    """A copy of the scene whose model says which photographs show each point: the even ones, of every second point."""
    import shutil

    shutil.copytree(scene, folder)
    _, images, points = read_model(scene / "sparse" / "0")
    ids = sorted(images)
    data = bytearray((len(points.xyz)).to_bytes(8, "little"))
    records = np.zeros(1, colmap_binary._POINT)
    for n, (xyz, rgb) in enumerate(zip(points.xyz, points.rgb)):
        track = np.array([(i, 0) for i in ids[::2]] if n % 2 else [], "<u4")
        records["id"], records["xyz"], records["rgb"], records["track"] = n + 1, xyz, rgb, len(track)
        data += records.tobytes() + track.tobytes()
    (folder / "sparse" / "0" / "points3D.bin").write_bytes(data)
    return images, points


def test_depths_of_points_that_photographs_show(scene, tmp_path):
    images, points = with_tracks(scene, tmp_path / "s")
    which, ids = read_tracks(tmp_path / "s" / "sparse" / "0")
    assert set(which % 2) == {1} and set(ids) == set(sorted(images)[::2])
    loaded = load_scene(tmp_path / "s", test_every=0)
    known, label = known_disparities(tmp_path / "s", loaded, range(len(loaded.views)))
    assert "points of the model" in label
    for i, (view, map) in enumerate(zip(loaded.views, known)):
        assert map.shape == (24, 32) and (i % 2 == 0) == bool(map.any())
        if not map.any():
            continue
        p = points.xyz[1::2] @ view.camera.w2c[:3, :3].T + view.camera.w2c[:3, 3]
        at = np.floor(p[:, :2] / p[:, 2:] * np.diag(view.camera.K)[:2] + view.camera.K[:2, 2]).astype(int)
        inside = (p[:, 2] > 0) & (at >= 0).all(axis=1) & (at < [32, 24]).all(axis=1)
        assert np.count_nonzero(map) == len(np.unique(at[inside], axis=0))
        y, x = np.argwhere(map)[0]
        assert map[y, x] == pytest.approx(1 / p[inside][(at[inside] == [x, y]).all(axis=1), 2].min())


def test_text_models_have_tracks_too(tmp_path):
    (tmp_path / "points3D.txt").write_text("# comment\n7 0 0 1 1 2 3 0.5 4 0 9 1\n\n8 0 0 2 1 2 3 0.5\n9 1 0 2 1 2 3 0.5 9 5\n")
    which, ids = colmap_text.read_tracks(tmp_path / "points3D.txt")
    assert which.tolist() == [0, 0, 2] and ids.tolist() == [4, 9, 9]


def test_depth_maps_are_fitted_to_points(scene, tmp_path):
    """Up to a scale and an offset; a file of Inria's goes before a fit; maps of nothing are left out."""
    root = tmp_path / "s"
    with_tracks(scene, root)
    loaded = load_scene(root, test_every=0)
    sparse, _ = known_disparities(root, loaded, range(len(loaded.views)))
    (root / "depths").mkdir()
    first = sparse[0].copy()
    first[first == 0] = 0.3
    np.save(root / "depths" / "view_0000.npy", (first - 0.05) * 0.25)
    cv2.imwrite(str(root / "depths" / "view_0002.png"), np.full((24, 32), 30000, np.uint16))  # flat, which fits nothing
    known, label = known_disparities(root, loaded, range(len(loaded.views)))
    assert label == f"depth maps of 1 of {len(known)} photographs"
    assert np.allclose(known[0], first, atol=1e-5) and not known[2].any()
    (root / "sparse" / "0" / "depth_params.json").write_text(json.dumps({"view_0002": {"scale": 2.0, "offset": 0.1}, "overall": 1}))
    known, _ = known_disparities(root, loaded, range(len(loaded.views)))
    assert np.allclose(known[2], 2 * 30000 / 65535 + 0.1, atol=1e-5)


def test_depths_that_cannot_be_used(scene, tmp_path):
    loaded = load_scene(scene, test_every=0)
    with pytest.raises(UserError, match="--depth-lambda needs depths: a COLMAP model with tracks, or depth maps"):
        known_disparities(scene, loaded, range(len(loaded.views)))
    root = tmp_path / "s"
    with_tracks(scene, root)
    (root / "depths").mkdir()
    for content, what in ((b"no picture", "not a usable depth map"), (None, "expected one channel")):
        path = root / "depths" / "view_0000.png"
        path.write_bytes(content) if content else cv2.imwrite(str(path), np.zeros((24, 32, 3), np.uint8))
        with pytest.raises(UserError, match=what):
            known_disparities(root, loaded, range(len(loaded.views)))
    (root / "sparse" / "0" / "depth_params.json").write_text('{"view_0000": {"scale": "x"}}')
    with pytest.raises(UserError, match="expected a scale and an offset"):
        known_disparities(root, loaded, range(len(loaded.views)))
    points = root / "sparse" / "0" / "points3D.bin"
    points.write_bytes(points.read_bytes()[:-3])
    with pytest.raises(UserError, match="truncated"):
        known_disparities(root, loaded, range(len(loaded.views)))


def test_depths_lie_where_photographs_do(device):
    photos = Photos(device, [np.zeros((8, 6, 3), np.uint8), np.zeros((4, 4, 3), np.uint8)], "gpu", 2)
    known = [np.zeros((8, 6), np.float32), np.ones((4, 4), np.float32)]
    known[0][3, 5] = 0.5
    depths = Depths(device, known, 0.1, 100, 2.0, photos)
    flat, shares = depths.buffers["disparities"].download(np.float16), depths.buffers["depth_shares"].download(np.float32)
    assert flat[3 * 6 + 5] == 1.0 and np.count_nonzero(flat[:48]) == 1 and (flat[48:64] == 2).all()
    assert shares[:2].tolist() == [1.0, 1 / 16]
    for buffer in (*depths.buffers.values(), photos.buffer):
        buffer.destroy()
