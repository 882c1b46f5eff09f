"""Pairs of the canonical tile path against a count tile by tile, and the share of the sort."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.study.bench.tiles import covariances, rectangle

WIDTH, HEIGHT = 150, 90  # neither a multiple of 16


@pytest.fixture
def splats():
    """(200,) Splat2D structs, isotropic to needle-shaped, on and around the image, their
    opacities, and their covariances (200, 2, 2)."""
    rng = np.random.default_rng()
    n = 200
    sizes = np.exp(rng.uniform(np.log(0.5), np.log(40), (n, 2)))
    angle = rng.uniform(0, np.pi, n)
    R = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], 1).reshape(n, 2, 2)
    cov = R @ (sizes[:, :, None] ** 2 * np.eye(2)) @ R.transpose(0, 2, 1)
    splats2d = np.zeros(n, contract.dtype("Splat2D"))
    splats2d["mean"] = rng.uniform([-40, -40], [WIDTH + 40, HEIGHT + 40], (n, 2))
    opacities = rng.uniform(1 / 255, 1, n).astype(np.float32)
    xx, xy, yy = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    splats2d["conic"] = np.stack([yy / (xx * yy - xy * xy), -xy / yy, 1 / yy], 1)
    return splats2d, opacities, cov


def tiles():
    return [(x, y) for y in range(-(-HEIGHT // 16)) for x in range(-(-WIDTH // 16))]


def test_rectangle_is_that_of_the_canonical_code(splats):
    """A tile is in when it has a column and a row of pixels at mean - r .. mean + r, where the
    upper end reaches into a tile by a whole pixel."""
    splats2d, opacities, _ = splats
    found = rectangle(splats2d, opacities, WIDTH, HEIGHT)
    for splat, cov, count in zip(splats2d, covariances(splats2d), found):
        variance = np.linalg.eigvalsh([[cov[0], cov[1]], [cov[1], cov[2]]])[1]
        if (cov[0] - cov[2]) ** 2 / 4 + cov[1] ** 2 < 0.1:  # its floor under the root
            variance = (cov[0] + cov[2]) / 2 + np.sqrt(0.1)
        r = np.ceil(3 * np.sqrt(variance))
        low, high = (splat["mean"].astype(float) - 0.5 + reach for reach in (-r, r))
        corners = 16 * np.array(tiles())
        assert count == ((low < corners + 16) & (corners + 1 <= high)).all(axis=1).sum()
