"""The scene generator: files read back, agree with the pictures, and have the same bytes."""

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from hardsplat.io.scenes.colmap import read_model
from tools.make_scene import make_scene

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
