"""Where random splats begin."""

import numpy as np

from hardsplat import Camera, Scene
from hardsplat.model.framing import look_at
from hardsplat.settings.scene import StartSettings
from hardsplat.train.run.first_splats import OF_DISTANCE, OF_EXTENT, initial_gaussians, random_cube

MIDDLE, AWAY = np.array([5.0, -3.0, 40.0]), 12.0
K = np.array([[20, 0, 8], [0, 20, 6], [0, 0, 1.0]])


def scene_around(alpha: int) -> Scene:
    """Cameras on a tilted ring that look at MIDDLE."""
    turns = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    ring = np.stack([np.cos(turns), np.full(12, 0.5), np.sin(turns)], 1) / np.sqrt(1.25)
    poses = [look_at(MIDDLE + AWAY * at, MIDDLE, np.array([0, 1.0, 0])) for at in ring]
    image = np.full((12, 16, 4), 200, np.uint8)
    image[:, :8, 3] = alpha
    return Scene.of_images([Camera(w2c, K, 16, 12) for w2c in poses], [image] * 12, test_every=0)


def test_random_splats_begin_where_the_cameras_look():
    """Around an object on nothing by the cameras' distance from it, elsewhere around the cameras;
    where --init-extent says it is the origin."""
    centre, reach = random_cube(StartSettings(), scene_around(0))
    np.testing.assert_allclose(centre, MIDDLE, atol=1e-6)
    assert abs(reach - OF_DISTANCE * AWAY) < 1e-6
    scene = scene_around(255)
    centre, reach = random_cube(StartSettings(), scene)
    np.testing.assert_allclose(centre, MIDDLE + [0, AWAY * 0.5 / np.sqrt(1.25), 0], atol=1e-6)
    assert reach == OF_EXTENT * scene.extent
    means = initial_gaussians(StartSettings(init_num_pts=500), scene, 0).means
    assert (np.abs(means - centre) <= reach).all() and np.ptp(means, axis=0).min() > 1.9 * reach
    centre, reach = random_cube(StartSettings(init_extent=2.5), scene)
    assert not centre.any() and reach == 2.5
