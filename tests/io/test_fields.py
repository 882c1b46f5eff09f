"""Lenses that no pinhole shows whole: what is cut away, what stays, and what is said."""

import cv2
import numpy as np
import pytest

from hardsplat.io.media.images import save_png
from hardsplat.io.scenes.colmap import ColmapCamera
from hardsplat.io.scenes.lens import Lens, _maps, intrinsics
from hardsplat.io.scenes.masks import kept
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.camera import is_regular, pixels_of
from tests.helpers.tables import refusal
from tests.io.test_images import write_scene

W, H = 160, 120


def fisheye(degrees: float, *k: float) -> ColmapCamera:
    """Degrees that the width of the picture shows."""
    f = 0.5 * W / np.radians(0.5 * degrees)
    return of("OPENCV_FISHEYE", f, f, 80, 60, *k, *[0] * (4 - len(k)))


def of(model: str, *params: float) -> ColmapCamera:
    return ColmapCamera(1, model, W, H, np.array(params, float))


def lens_of(camera: ColmapCamera) -> Lens:
    found = Lens.of(camera, intrinsics(camera), W, H)
    assert found
    return found


WHOLE = {
    "fisheye of 110 degrees": fisheye(110),
    "barrel": of("SIMPLE_RADIAL", 118, 80, 60, -0.2),
    "pincushion": of("SIMPLE_RADIAL", 118, 80, 60, 0.3),
    "tangential": of("OPENCV", 118, 118, 80, 60, -0.2, 0.05, 0.01, -0.008),
    "rational": of("FULL_OPENCV", 118, 118, 80, 60, 0.3, 0, 0, 0, 0, 0.6, 0, 0),
}
CUT = {
    **{f"fisheye of {n} degrees": fisheye(n) for n in (145, 160, 170, 178, 180, 190, 220, 300)},
    "fisheye that folds": of("OPENCV_FISHEYE", 100, 100, 80, 60, -0.5, 0.1, 0, 0),
    "folds in the corners": of("SIMPLE_RADIAL", 118, 80, 60, -0.3),
    "folds": of("SIMPLE_RADIAL", 118, 80, 60, -0.6),
    "folds by its second number": of("RADIAL", 118, 80, 60, 0.1, -0.6),
    "folds on one side": of("RADIAL", 118, 150, 60, -0.1, 0),
    "tangential that folds": of("OPENCV", 118, 118, 80, 60, 0, 0, 0.5, 0.2),
    "pole in the picture": of("FULL_OPENCV", 118, 118, 80, 60, 0, 0, 0, 0, 0, -2.5, 0, 0),
}
# strong lenses whose map OpenCV does not invert, which `distort` asks of it
DIVERGES = CUT["tangential that folds"], CUT["pole in the picture"]
NOTHING = {
    "folds next to its axis": of("SIMPLE_RADIAL", 118, 80, 60, -9),
    "axis outside, folds": of("RADIAL", 118, 200, 60, -0.1, 0),
}


def shown(lens) -> np.ndarray:
    """(H, W) bool: the pixels of the photograph whose ray the pinhole image has, by OpenCV."""
    K, coefficients, _ = lens._opencv()
    at = np.stack(np.meshgrid(np.arange(W), np.arange(H)), axis=-1).astype(np.float64)
    undistort = cv2.fisheye.undistortPoints if lens.fisheye else cv2.undistortPoints
    rays = undistort(at.reshape(-1, 1, 2), K, coefficients).reshape(H, W, 2)
    x, y = np.moveaxis(rays * np.diag(lens.pinhole_K())[:2] + lens.pinhole_K()[:2, 2], 2, 0)
    return (x >= 0) & (x < W) & (y >= 0) & (y < H)


@pytest.mark.parametrize("camera", [*WHOLE.values(), *CUT.values()], ids=[*WHOLE, *CUT])
def test_a_pinhole_sees_each_place_once(camera):
    """OpenCV's map, which the photograph goes through, is the one that was looked at."""
    lens = lens_of(camera)
    K, maps = lens.pinhole_K(), np.stack(_maps(lens), axis=-1).astype(float)
    assert 0 < K[0, 2] < W and 0 < K[1, 2] < H and is_regular(maps)
    y, x = np.mgrid[:H, :W] + 0.5
    rays = (np.stack([x, y], axis=-1) - K[:2, 2]) / np.diag(K)[:2]
    assert np.abs(pixels_of(lens.camera, rays) - 0.5 - maps).max() < 1e-3
    assert np.linalg.norm(rays, axis=-1).max() < np.tan(np.radians(70.1))
    if any(camera is other for other in DIVERGES):
        return
    share = float((shown(lens) & (lens.seen() > 0)).mean())
    assert share == pytest.approx(lens.left, abs=0.02) if lens.left < 1 else share > 0.6


def test_what_is_left_of_a_lens():
    assert all(lens_of(camera).left == 1 for camera in WHOLE.values())
    assert all(lens_of(camera).field.whole for camera in WHOLE.values())
    left = {name: lens_of(camera).left for name, camera in CUT.items()}
    assert all(0.1 < share < 0.95 for share in left.values()), left
    # of a lens that folds where 1 + 3 k r^2 is 0: a circle
    seen = lens_of(CUT["folds"]).seen() > 0
    r = 118 * np.sqrt(1 / 1.8) * 2 / 3
    y, x = np.mgrid[:H, :W] + 0.5
    far = np.hypot(x - 80, y - 60)
    assert seen[far < r - 1].all() and not seen[far > r + 1].any()


@pytest.mark.parametrize("camera", NOTHING.values(), ids=NOTHING)
def test_of_some_lenses_nothing_is_left(tmp_path, camera):
    words = "its distortion cannot be undone over the whole 160x120 image; train with --no-undisto"
    assert words in refusal(load_scene, write_scene(tmp_path, camera=camera))


@pytest.mark.parametrize("name", ["folds", "fisheye of 190 degrees"])
def test_what_is_cut_and_what_is_ignored_is_said(tmp_path, name):
    root = write_scene(tmp_path, camera=CUT[name])
    why = "folds back within" if name == "folds" else "sees 89 degrees from its axis and more"
    cut, drawn = load_scene(root), load_scene(root, undistort=False)
    note = next(note for note in cut.notes if why in note)
    lens = cut.views[0].lens
    assert f"{1 - lens.left:.0%} of its photographs, their rim, are cut away" in note
    assert "--no-undistort" in note and cut.views[0].load().shape == (H, W, 3)
    seen = lens.seen() > 0
    note = next(note for note in drawn.notes if why in note)
    assert f"{1 - seen.mean():.0%} of its photographs, their rim, cannot be drawn" in note
    np.testing.assert_array_equal(kept(drawn.views[0].load()), seen)
    mask = np.zeros((H, W), np.uint8)
    mask[:, :70] = 255
    save_png(root / "masks" / "a.png", mask)
    both = load_scene(root, undistort=False).views[0].load()
    np.testing.assert_array_equal(kept(both), seen & (mask > 0))
    half = load_scene(root, 2, undistort=False).views[0].load()
    assert kept(half).mean() == pytest.approx((seen & (mask > 0)).mean(), abs=0.02)
