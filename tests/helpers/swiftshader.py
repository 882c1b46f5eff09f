"""The hardware rasterizer against the float64 oracle on whatever device the environment names:
`python -m tests.helpers.swiftshader` prints what it finds as JSON."""

import json

from hardsplat.gpu.device.context import Device
from hardsplat.raster.renderer import Renderer
from tests.helpers.drawing import PARAMETERS, compare, splats_of
from tests.helpers.goldens import random_scene, relative_l2

SEED = 3
WAYS = {"waiting": {"ordering": "raster_order", "block": "2x2"}, "lists": {"ordering": "lists"}}


def exact(device: Device, scene: dict, **options) -> list[float]:
    """[relative error of the image, of the worst gradient]"""
    with Renderer(device, format="float32", **options) as renderer:
        image, gradients = compare(renderer, scene)
    return [image, max(gradients.values())]


def rejecting(device: Device, **options) -> float:
    """Relative difference of the gradients that the rejection of finished blocks makes: fragments
    that it takes away must not take others' sums with them."""
    scene = random_scene(SEED, 300, 33, 25, 0, overlap=60, opacity=(0.3, 0.95))
    gaussians, camera = splats_of(scene)
    found = []
    for least in (1e-4, 0.0):
        how = dict(segments=4, least_transmittance=least, **options)
        with Renderer(device, format="float32", **how) as renderer:
            renderer.forward(gaussians, camera)
            found.append(renderer.backward(scene["weight"]))
    return max(relative_l2(found[0][name], found[1][name]) for name in PARAMETERS)


def main() -> None:
    device = Device()
    scene = random_scene(SEED, 60, 33, 25, 1, overlap=8)
    found = {
        "device": device.name,
        "pushes": "push_descriptor" in device.capabilities,
        "blocks": exact(device, scene, ordering="raster_order", block="2x2"),
        "segments": exact(device, scene, ordering="raster_order", block="2x2", segments=3),
        "pixels": exact(device, scene, block="1x1", blending="programmable", reduction="quad"),
        "lists": exact(device, scene, ordering="lists", segments=3),
        "image from lists": exact(device, scene, blending="lists"),
        "rejected": {name: rejecting(device, **options) for name, options in WAYS.items()},
    }
    device.check_validation()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
