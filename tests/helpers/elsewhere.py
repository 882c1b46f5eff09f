"""Both rasterizers against the float64 oracle on whatever device the environment names, and what
the doctor says of it:
`python -m tests.helpers.elsewhere` prints what it finds as JSON. `found` runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hardsplat.gpu.device.context import Device
from hardsplat.gpu.probe import open_device
from hardsplat.raster.core.resolve import runnable
from hardsplat.raster.renderer import Renderer
from hardsplat.study import doctor
from hardsplat.tables.gradients import TILE_BACKWARDS
from tests.helpers.drawing import PARAMETERS, compare, splats_of
from tests.helpers.goldens import random_scene, relative_l2

ROOT, SEED = Path(__file__).parents[2], 3
SMALL, DEEP = (60, 33, 25, 1, 8), (300, 70, 52, 1, 60)  # splats, size, SH degree, overlap
DRAWS = {
    "blocks": dict(ordering="raster_order", block="2x2"),
    "segments": dict(ordering="raster_order", block="2x2", segments=3),
    "pixels": dict(block="1x1", blending="programmable", reduction="quad"),
    "lists": dict(ordering="lists", segments=3),
    "image from lists": dict(blending="lists"),
}
WAYS = {"waiting": {"ordering": "raster_order", "block": "2x2"}, "lists": {"ordering": "lists"}}


def exact(device: Device, scene: dict, **options) -> list[float]:
    """[relative error of the image, of the worst gradient]"""
    with Renderer(device, **options) as renderer:
        image, gradients = compare(renderer, scene)
    return [image, max(gradients.values())]


def rejecting(device: Device, **options) -> float:
    """Relative difference of gradients by the rejection of finished blocks: none is due."""
    scene = random_scene(SEED, 300, 33, 25, 0, overlap=60, opacity=(0.3, 0.95))
    gaussians, camera = splats_of(scene)
    found = []
    for least in (1e-4, 0.0):
        how = dict(segments=4, least_transmittance=least, **options)
        with Renderer(device, format="float32", **how) as renderer:
            renderer.forward(gaussians, camera)
            found.append(renderer.backward(scene["weight"]))
    return max(relative_l2(found[0][name], found[1][name]) for name in PARAMETERS)


def found(environment: dict[str, str], *words: str) -> dict:
    """What a process finds with these variables. words: of `main`."""
    own = os.environ | environment | {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.helpers.elsewhere", *words]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main(words: list[str]) -> None:
    """words: "tiles" for the tiled rasterizer alone, on a deeper scene."""
    alone = "tiles" in words
    verdict = "" if alone else doctor.report()[0].splitlines()[0]
    device = open_device()
    scene = random_scene(SEED, *(DEEP if alone else SMALL))
    out = {"device": device.name, "lanes": device.subgroup_size, "verdict": verdict}
    out["pushes"] = "push_descriptor" in device.capabilities
    out["tiles"] = {
        name: exact(device, scene, rasterizer="tiled", tile_backward=name)
        for name in runnable(device, TILE_BACKWARDS)
    }
    if not alone:
        drawn = {name: exact(device, scene, format="float32", **DRAWS[name]) for name in DRAWS}
        out |= {"draws": drawn, "rejected": {n: rejecting(device, **WAYS[n]) for n in WAYS}}
    device.check_validation()
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1:])
