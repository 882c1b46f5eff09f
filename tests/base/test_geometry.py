"""Distances between points, and quaternions of rotations, against SciPy's."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from hardsplat.model.camera import quaternions
from hardsplat.model.gaussians import Gaussians

RNG = np.random.default_rng(0)
NEAR = RNG.normal(size=(1_000, 3))
POINTS = {
    "two": NEAR[:2],
    "three": NEAR[:3],
    "dense and sparse": np.concatenate([NEAR * [1, 1, 0.02], 20 * NEAR + 300]),
    "far from the origin": NEAR + [5e5, 5e6, 100],
    "some very far away": np.concatenate([NEAR, [[1e25, 0, 0], [1e30, 1, 1]]]),
    "doubled": np.repeat(NEAR[:50], 3, axis=0),
    "all alike": np.ones((100, 3)),
    "a lattice": np.mgrid[:9, :9, :9].reshape(3, -1).T,
    "a line": np.linspace(0, 1, 500)[:, None] * [1, 0, 0],
    "more than a thread takes": RNG.normal(size=(70_000, 3)),
}


@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
def test_first_splats_are_as_large_as_their_neighbours_are_near(points):
    found = Gaussians.from_points(points, np.zeros(points.shape, np.uint8), 0).scales
    away = cKDTree(points).query(points, k=min(4, len(points)))[0][:, 1:]
    wanted = np.sqrt(np.maximum((away**2).mean(axis=1), 1e-7))
    np.testing.assert_allclose(found, np.repeat(wanted[:, None], 3, axis=1), rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_first_splats_are_alike_in_all_units(factor):
    points, colors = RNG.normal(size=(2000, 3)), np.zeros((2000, 3), np.uint8)
    points[:20] = points[20]
    found = Gaussians.from_points(factor * points, colors, 0).scales
    alike = Gaussians.from_points(points, colors, 0).scales
    spaced = alike[:, 0] > 0.01
    np.testing.assert_allclose(found[spaced], factor * alike[spaced], rtol=1e-4)
    assert found.min() <= max(factor, 1) * alike.min()  # what has its neighbours at one place


def test_a_lone_point_and_points_that_are_none():
    assert (Gaussians.from_points(np.ones((1, 3)), np.zeros((1, 3)), 0).scales == 1).all()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="holds NaN or infinite numbers"):
            Gaussians.from_points(np.full((9, 3), bad), np.zeros((9, 3)), 0)


def test_quaternions():
    """Also of turns by half a circle, where three components or w are 0."""
    turns = np.concatenate([np.pi * np.eye(3), np.zeros((1, 3)), [[np.pi - 1e-9, 0, 0]]])
    others = Rotation.random(500, random_state=0).as_matrix()
    matrices = np.concatenate([others, Rotation.from_rotvec(turns).as_matrix()])
    found = quaternions(matrices)
    wanted = Rotation.from_matrix(matrices).as_quat(scalar_first=True)
    off = np.minimum(abs(found - wanted).max(axis=1), abs(found + wanted).max(axis=1))
    assert off.max() < 1e-15
