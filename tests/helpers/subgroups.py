"""Tiles against the float64 oracle on whatever device the environment names: `python -m
tests.helpers.subgroups` prints lanes of a subgroup and relative errors by row as JSON."""

import json

from hardsplat.gpu.probe import open_device
from hardsplat.raster.renderer import Renderer
from hardsplat.tables.tiles import TILE_BACKWARDS
from tests.helpers.drawing import compare, runnable
from tests.helpers.goldens import random_scene


def main() -> None:
    device = open_device()
    scene, found = random_scene(3, 300, 70, 52, 1, overlap=60), {}
    for name in runnable(device, TILE_BACKWARDS):
        with Renderer(device, "tiled", tile_backward=name) as renderer:
            image, gradients = compare(renderer, scene)
        found[name] = image, max(gradients.values())
    device.check_validation()
    print(json.dumps({"name": device.name, "lanes": device.subgroup_size, "rows": found}))


if __name__ == "__main__":
    main()
