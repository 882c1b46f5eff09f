"""The hardware rasterizer against the float64 oracle on whatever device the environment names: `python -m tests.swiftshader` prints what it finds as JSON."""

import json

import numpy as np

from hardsplat.api import Renderer
from hardsplat.gpu.context import Device
from tests.drawing import BACKGROUND, PARAMETERS, compare, gaussians_of
from tests.goldens import random_scene, relative_l2, scene_of
from tests.oracle import render
from tests.stochastic import errors_by_samples

SEED, DRAWS = 3, 16
WAYS = {"waiting": {"ordering": "raster_order", "block": "2x2"}, "lists": {"ordering": "lists"}, "weights": {"gradient": "order-free"}}


def exact(device: Device, scene: dict, **options) -> list[float]:
    """[relative error of the image, of the worst gradient]"""
    with Renderer(device, format="float32", **options) as renderer:
        image, gradients = compare(renderer, scene)
    return [image, max(gradients.values())]


def rejecting(device: Device, **options) -> float:
    """Relative difference of the gradients that the rejection of finished blocks makes: fragments that it takes away must not take others' sums with them."""
    scene = random_scene(SEED, 300, 33, 25, 0, overlap=60, opacity=(0.3, 0.95))
    gaussians, camera = gaussians_of(scene)
    found = []
    for least in (1e-4, 0.0):
        with Renderer(device, format="float32", segments=4, least_transmittance=least, **options) as renderer:
            renderer.forward(gaussians, camera)
            found.append(renderer.backward(scene["weight"]))
    return max(relative_l2(found[0][name], found[1][name]) for name in PARAMETERS)


def estimated(device: Device, scene: dict) -> list[float]:
    """Relative errors of one estimate and of the mean of DRAWS, of all gradients together, each class as long as any other."""
    gaussians, camera = gaussians_of(scene)
    frame = render(**scene_of(scene), background=np.array(BACKGROUND), termination="none").backward(scene["weight"].astype(np.float64))
    lengths = {name: np.linalg.norm(frame[name]) for name in PARAMETERS}
    with Renderer(device, format="float32", gradient="order-free") as renderer:
        renderer.forward(gaussians, camera, background=BACKGROUND)
        found = [renderer.backward(scene["weight"]) for _ in range(DRAWS)]
    samples = np.array([np.concatenate([g[name].ravel() / lengths[name] for name in PARAMETERS]) for g in found])
    wanted = np.concatenate([frame[name].ravel() / lengths[name] for name in PARAMETERS])
    return [float(e) for e in errors_by_samples(samples, wanted, (1, DRAWS))]


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
        "order-free": estimated(device, scene),
        "rejected": {name: rejecting(device, **options) for name, options in WAYS.items()},
    }
    device.check_validation()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
