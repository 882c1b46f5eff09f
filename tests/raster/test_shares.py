"""Cameras between photographs, shares of images that splats have, and what hides the view."""

import numpy as np

from hardsplat.model.between import BEYOND, along, beyond, neighbours
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster import shares as module
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.shares import HIDES, HIDES_BEYOND, TIMES, hiding, small_rasterizer
from tests.oracle.render import render


def turned(position, angle: float = 0.0) -> Camera:
    """angle: about +y, degrees."""
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    w2c = np.eye(4)
    w2c[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
    w2c[:3, 3] = -w2c[:3, :3] @ position
    return Camera(w2c, np.array([[500.0, 0, 320], [0, 500.0, 240], [0, 0, 1]]), 640, 480)


def test_neighbours_join_cameras_that_look_alike_by_the_shortest_lines():
    places = [(0, 0, 0), (5, 0, 0), (1, 0, 0), (5, 2, 0), (1, 1, 0)]
    cameras = [turned(place) for place in places]
    pairs = {tuple(sorted(pair)) for pair in neighbours(cameras)}
    assert pairs == {(0, 2), (2, 4), (1, 2), (1, 3)}
    # backwards, between all others, and beside itself
    cameras += [turned((2, 0, 0), 180), turned((2, 2, 0), 180 + 59)]
    pairs = {tuple(sorted(pair)) for pair in neighbours(cameras)}
    assert pairs == {(0, 2), (2, 4), (1, 2), (1, 3), (5, 6)}
    assert neighbours([turned((0, 0, 0)), turned((1, 0, 0), 61)]) == []
    assert neighbours(cameras[:1]) == neighbours([]) == []
    # two at one place
    pairs = {tuple(sorted(pair)) for pair in neighbours([cameras[i] for i in (0, 1, 0)])}
    assert (0, 2) in pairs and len(pairs) == 2
    assert neighbours([cameras[0]] * 2) == [(0, 1)]


def test_cameras_between_two_photographs():
    first, second = turned((0, 0, 0)), turned((4, 0, 8), 40)
    found = along(first, second)
    places = np.array([camera.position for camera in found])
    np.testing.assert_allclose(places, [(1, 0, 2), (2, 0, 4), (3, 0, 6)], atol=1e-12)
    np.testing.assert_allclose(found[1].w2c[:3, :3], turned((0, 0, 0), 20).w2c[:3, :3], atol=1e-12)
    assert {(c.width, c.height) for c in found} == {(640, 480)}
    np.testing.assert_array_equal(found[0].K, first.K)
    before = along(first, second, BEYOND)
    np.testing.assert_allclose([c.position for c in before], [(-2, 0, -4), (-4, 0, -8)], atol=1e-12)
    np.testing.assert_allclose(before[1].w2c[:3, :3], turned((0, 0, 0), -40).w2c[:3, :3], atol=1e-9)


def test_cameras_beyond_the_last_of_a_row():
    """It has one neighbour, and no other camera stands there."""
    cameras = [turned((x, 0, 0)) for x in (0, 4, 1, 7)]
    pairs = [(1, 3), (1, 2), (0, 2)]
    places = lambda *given: [camera.position[0] for camera in beyond(*given)]
    assert places(cameras, pairs, 9) == [8.5, 10, -0.5, -1]
    assert places(cameras, pairs, 1) == [8.5, 10] and beyond(cameras, [], 9) == []
    # a camera that looks the other way stands nearer to one of these places
    assert places([*cameras, turned((11, 0, 0), 180)], pairs, 9) == [8.5, -0.5, -1]


def shares_by_oracle(means, quats, scales, opacities, camera: Camera) -> np.ndarray:
    """(N,) the mean of T alpha of each splat."""
    found = []
    for i in range(len(means)):
        sh = np.full((len(means), 1, 3), -0.5 / 0.28209479177387814)  # black, but for one
        sh[i] *= -1
        size = camera.width, camera.height
        image = render(means, quats, scales, opacities, sh, camera.w2c, camera.K, *size, 0).image
        found.append(image[..., 0].mean())
    return np.array(found)


def test_shares_of_images_are_those_of_the_oracle(device, monkeypatch):
    """Splats on a wall, between two photographs, beside them and beyond them, of which images of
    another size are drawn as of the first."""
    monkeypatch.setattr(module, "WIDTH", 24)
    rng = np.random.default_rng(3)
    wall = np.column_stack([rng.uniform(-3, 3, (20, 2)), rng.uniform(4, 6, 20)])
    near = [(0, 0, 0.2), (2, 0.1, 0.3), (0.45, 0.1, 0.4), (-1, 0, 0.3), (0, 0, -2)]
    means = np.concatenate([wall, near])
    scales = np.full((25, 3), 0.3)
    scales[20:] = 0.05
    quats, opacities = rng.normal(size=(25, 4)), rng.uniform(0.2, 0.9, 25)
    K = np.array([[40.0, 0, 24], [0, 40.0, 18], [0, 0, 1]])
    cameras = [Camera(turned((x, 0, 0)).w2c, K, 48, 36) for x in (-1, 1)]
    cameras.append(cameras[0].resized(96, 72))
    given = Gaussians(means, quats, scales, opacities, np.zeros((25, 1, 3)))
    splats = Parameters(device, 30, 0)
    try:
        splats.upload(given)
        raster = small_rasterizer(device, splats, cameras[0], deterministic=True)
        try:
            found, again = (hiding(raster, 25, cameras, 0.01) for _ in range(2))
        finally:
            raster.destroy()
    finally:
        splats.destroy()
    pairs = neighbours(cameras)
    inside = [c for a, b in pairs for c in along(cameras[a], cameras[b])]
    outside = beyond(cameras, pairs, 9)
    assert {tuple(c.position.round(9)) for c in outside} >= {(2, 0, 0), (3, 0, 0)}
    small = [camera.resized(24, 18) for camera in (*cameras, *inside, *outside)]
    g = [np.asarray(x, np.float64) for x in (given.means, given.quats, given.scales)]
    shares = [shares_by_oracle(*g, given.opacities.astype(float), camera) for camera in small]
    shown, hidden = TIMES * sum(shares[:3]), np.max(shares[3:9], axis=0)
    farther = np.max(shares[9:], axis=0) / np.maximum(shown, HIDES_BEYOND)
    wanted = np.maximum(hidden / np.maximum(shown, HIDES), farther)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    assert (wanted >= 1)[20:22].all() and (farther >= 1)[21]
    assert not (wanted >= 1)[:20].any() and not (wanted >= 1)[23:].any()
    np.testing.assert_array_equal(found, again)
