"""A scene whose photographs or poses are spoiled, to measure what training makes up for: `python -m
tools.spoil SCENE OUT --exposure --poses`.

Photographs: encoded values times a gain of +-30 % and a white balance of +-10 % a channel, each
photograph its own, and the vignetting of one camera (-30 % in the corners). Poses: turned by 0.5
degrees about a random axis and moved by 0.5 % of the scene's extent. Held-out photographs stay as
they are, so that renders are compared with the truth; their poses are spoiled like the others.
spoiled.json has what was done.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from hardsplat.io.scenes.colmap import read_model, write_model
from hardsplat.io.scenes.scene import load_scene

GAIN, BALANCE, VIGNETTE = 0.3, 0.1, 0.3
DEGREES, SHIFT = 0.5, 0.005  # the latter of the scene's extent


def spoiled_photograph(image: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 times factors (3,), darker by VIGNETTE in the corners."""
    height, width = image.shape[:2]
    y = (np.arange(height) + 0.5 - height / 2)[:, None]
    x = (np.arange(width) + 0.5 - width / 2)[None]
    falloff = 1 - VIGNETTE * (x**2 + y**2) / (width**2 + height**2) * 4
    return np.clip(np.round(image * factors * falloff[..., None]), 0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--images", default="images", help="folder of photographs, such as images_4"
    )
    parser.add_argument("--exposure", action="store_true")
    parser.add_argument("--poses", action="store_true")
    parser.add_argument("--test-every", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    rng, told = np.random.default_rng(flags.seed), {}
    factor = int(flags.images.removeprefix("images").removeprefix("_") or 1)
    scene = load_scene(flags.scene, factor, flags.test_every)
    cameras, images, points = read_model(flags.scene / "sparse" / "0")
    held_out = {scene.views[i].name for i in scene.test}
    (flags.out / flags.images).mkdir(parents=True, exist_ok=True)
    for image in sorted(images.values(), key=lambda image: image.name):
        source = flags.scene / flags.images / image.name
        target = flags.out / flags.images / image.name
        factors = rng.uniform(1 - GAIN, 1 + GAIN) * rng.uniform(1 - BALANCE, 1 + BALANCE, 3)
        axis, way = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        if flags.exposure and image.name not in held_out:
            photo = np.asarray(Image.open(source).convert("RGB"))
            Image.fromarray(spoiled_photograph(photo, factors)).save(
                target, quality=98, subsampling=0
            )
            told[image.name] = {"factors": factors.tolist()}
        else:
            target.unlink(missing_ok=True)
            target.symlink_to(source.resolve())
        if flags.poses:
            turned = (
                Rotation.from_rotvec(np.radians(DEGREES) * axis).as_matrix() @ image.w2c[:3, :3]
            )
            centre = -image.w2c[:3, :3].T @ image.w2c[:3, 3] + SHIFT * scene.extent * way
            x, y, z, w = Rotation.from_matrix(turned).as_quat()
            image.qvec, image.tvec = np.array([w, x, y, z]), -turned @ centre
    write_model(flags.out / "sparse" / "0", cameras, images, points)
    (flags.out / "spoiled.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
