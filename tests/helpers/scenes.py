"""Scenes of files: tiny ones of tests/scenes, of the courtyard, and the pebble."""

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from hardsplat.model.camera import Camera

ROOT = Path(__file__).parents[2]
COURTYARD, PANORAMAS, PEBBLE = (
    ROOT / "scenes" / name for name in ("courtyard", "panoramas", "pebble")
)


def tiny(name: str, folder: Path) -> Path:
    """A copy of a folder of tests/scenes in `folder`."""
    return shutil.copytree(ROOT / "tests" / "scenes" / name, folder / name)


def masked_scene(scene: Path, folder: Path, mask: np.ndarray) -> Path:
    """A copy of a scene in `folder` whose photographs all have this mask."""
    root = Path(shutil.copytree(scene, folder / "masked"))
    (root / "masks").mkdir()
    for photograph in (root / "images").iterdir():
        Image.fromarray(mask).save(root / "masks" / f"{photograph.name}.png")
    return root


def pebble(folder: Path, views: int, side: int) -> Path:
    """So many of the pebble's views, with masks, of side x side pixels."""
    shutil.copytree(PEBBLE, folder, ignore=shutil.ignore_patterns("*.png"))
    poses = json.loads((PEBBLE / "transforms.json").read_text())
    scale = side / poses["w"]
    poses |= {name: poses[name] * scale for name in ("fl_x", "fl_y", "cx", "cy")}
    frames = [poses["frames"][i * len(poses["frames"]) // views] for i in range(views)]
    (folder / "transforms.json").write_text(
        json.dumps(poses | {"w": side, "h": side, "frames": frames})
    )
    for frame in frames:
        name = Path(frame["file_path"]).name
        for part, way in (("images", Image.Resampling.BOX), ("masks", Image.Resampling.NEAREST)):
            with Image.open(PEBBLE / part / name) as image:
                image.resize((side, side), way).save(folder / part / name)
    return folder


def around(count: int, width: int, height: int) -> list[Camera]:
    """Cameras on a spiral around the origin, from above to below, as of the pebble."""
    focal = min(width, height) / (2 * np.tan(np.radians(20)))
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    out = []
    for i in range(count):
        z = 0.92 * (1 - (2 * i + 1) / count)
        angle = np.pi * (3 - np.sqrt(5)) * i
        r = np.sqrt(1 - z * z)
        eye = 4.2 * np.array([r * np.cos(angle), r * np.sin(angle), z])
        forward = -eye / np.linalg.norm(eye)
        right = np.cross(forward, [0, 0, 1])
        right /= np.linalg.norm(right)
        w2c = np.eye(4)
        w2c[:3, :3] = np.stack([right, np.cross(forward, right), forward])
        w2c[:3, 3] = -w2c[:3, :3] @ eye
        out.append(Camera(w2c, K, width, height))
    return out
