"""The scene generator: files read back, agree with the pictures, and have the same bytes."""

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from hardsplat.io.scenes.colmap import read_model
from tools.make_scene import MOVED, make_scene
from tools.moving import compared

SIZE = dict(views=8, width=32, height=24, points=300, supersample=1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    out = tmp_path_factory.mktemp("scene")
    return out, make_scene(out, seed=3, **SIZE)


def _projections(out):
    """Returns the points, and for each view its picture and the points' depth and pixel."""
    cameras, images, points = read_model(out / "sparse" / "0")
    fx, fy, cx, cy = cameras[1].params
    views = []
    for image in sorted(images.values(), key=lambda image: image.name):
        picture = np.asarray(Image.open(out / "images" / image.name)).astype(float)
        R = Rotation.from_quat(np.roll(image.qvec, -1)).as_matrix()
        x, y, z = R @ points.xyz.T + np.reshape(image.tvec, (3, 1))
        views.append((picture, z, fx * x / z + cx, fy * y / z + cy))
    return points, views


def _framed(z, u, v, slack=0.0):
    return (z > 0) & (np.abs(u - 16) < 16 + slack) & (np.abs(v - 12) < 12 + slack)


def test_points_land_on_their_colour(scene):
    points, views = _projections(scene[0])
    errors, shuffled = [], []
    for picture, z, u, v in views:
        inside = _framed(z, u, v)
        pixels = picture[v[inside].astype(int), u[inside].astype(int)]
        rgb = points.rgb[inside].astype(float)
        errors.append(np.abs(pixels - rgb).mean(1))
        shuffled.append(np.abs(pixels[::-1] - rgb).mean(1))
    # Hidden points are among these, hence the median; the shuffled pairing shows what disagreement
    # looks like.
    error, chance = np.median(np.concatenate(errors)), np.median(np.concatenate(shuffled))
    assert error < 16 and error < 0.5 * chance, (error, chance)


def test_what_moves_is_where_the_masks_are(tmp_path):
    """Photographs of both kinds agree outside of the masks, and held-out ones everywhere."""
    make_scene(tmp_path, seed=3, walkers=True, **SIZE)
    moving = 0.0
    for path in sorted((tmp_path / "images").iterdir()):
        crossed, clean = (
            np.asarray(Image.open(tmp_path / folder / path.name)).astype(int)
            for folder in ("images", "clean")
        )
        mask = tmp_path / "moving" / f"{path.name}.png"
        if not mask.exists():
            assert path.name == "view_0000.jpg" and (crossed == clean).all()
            continue
        found, apart = np.asarray(Image.open(mask)) > 0, np.abs(crossed - clean).max(2)
        # JPEG moves colours by some 10 of 255, near edges by more
        assert np.quantile(apart[~found], 0.95) <= MOVED and np.median(apart[found]) > 2 * MOVED
        moving += found.mean() / (SIZE["views"] - 1)
        found[:, : SIZE["width"] // 2] = False  # a mask of a run that looked at the right half
        (tmp_path / "masks").mkdir(exist_ok=True)
        Image.fromarray(~found).save(tmp_path / "masks" / mask.name)
    assert 0.01 < moving < 0.2
    shares = compared(tmp_path / "moving", tmp_path / "masks")
    assert 0.2 < shares["found"] < 0.8 and (shares["still"], shares["right"]) == (0.0, 1.0)
