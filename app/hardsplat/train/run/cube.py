"""Where random splats begin: the cube that a scene without points is looked for in."""

from __future__ import annotations

import numpy as np

from hardsplat.io.scenes.scene import Scene
from hardsplat.model.framing import nearest_to_axes
from hardsplat.settings.scene import StartSettings

OF_DISTANCE = 0.3225  # of the cameras, around an object: 1.3 in scenes of NeRF-synthetic
OF_EXTENT = 2.0  # of the cameras, around them, where photographs show what surrounds them
_TRANSPARENT = 0.1  # of an object's photograph, at least


def random_cube(start: StartSettings, scene: Scene) -> tuple[np.ndarray, float]:
    """Centre (3,) and half the side, world units, of the cube of random splats: that of
    --init-extent around the origin; else by the training cameras, around what they look at where
    photographs show an object on nothing, and around themselves in other scenes."""
    if start.init_extent is not None:
        return np.zeros(3), start.init_extent
    cameras = [scene.views[i].camera for i in scene.train]
    positions = np.array([camera.position for camera in cameras])
    if not _shows_an_object(scene):
        return positions.mean(axis=0), OF_EXTENT * scene.extent
    forwards = np.array([camera.w2c[2, :3] for camera in cameras])
    centre = nearest_to_axes(positions, forwards, scene.points)
    return centre, OF_DISTANCE * float(np.linalg.norm(positions - centre, axis=1).mean())


def _shows_an_object(scene: Scene) -> bool:
    """Whether the first training photograph shows one on nothing."""
    view = scene.views[scene.train[0]]
    image = view.load()
    nothing = view.mask is None or view.mask_mode != "ignore"
    return nothing and image.shape[2] == 4 and (image[..., 3] == 0).mean() > _TRANSPARENT
