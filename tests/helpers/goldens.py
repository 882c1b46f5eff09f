"""Scenes of an independent renderer, from $HARDSPLAT_SHARED/golden, and generated ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import needs

SHARED = Path(os.environ.get("HARDSPLAT_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SCENE_KEYS = ("means", "quats", "scales", "opacities", "sh", "w2c", "K")
SCENE_KEYS += ("width", "height", "sh_degree")
# It stands for the goldens where there are none, so that the skip is seen.
NONE_RECORDED = "none_recorded"


def golden_names() -> list[str]:
    """Returns names of the recorded scenes, or one that `load_golden` skips."""
    return sorted(path.stem for path in (SHARED / "golden").glob("*.npz")) or [NONE_RECORDED]


def load_golden(name: str) -> dict:
    """Inputs, `weight` (H, W, 3), `gsplat_image` and `gsplat_d_*` of one recording, for the loss
    sum(weight * image). Skips the test where the recording is absent."""
    path = SHARED / "golden" / f"{name}.npz"
    if not path.exists():
        pytest.skip(needs.lacking("no golden recordings", needs.SHARED))
    with np.load(path) as data:
        return {key: data[key] if data[key].ndim else data[key].item() for key in data.files}


def scene_of(golden: dict) -> dict:
    """Just the renderer's inputs: render(**scene_of(golden))."""
    return {key: golden[key] for key in SCENE_KEYS}


def relative_l2(a, b) -> float:
    """|a - b| / |b| over all elements; b is the reference."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape, f"shapes differ: {a.shape} and {b.shape}"
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def random_scene(seed, n, width, height, sh_degree, overlap=8.0, anisotropy=3.0, **ranges) -> dict:
    """A scene with the keys of a golden's inputs plus `weight` (H, W, 3), the same for the same
    arguments; nearly all splats are visible. overlap: about how many splats cover a pixel;
    anisotropy: largest over smallest axis; opacity, depth: ranges."""
    ranges = {"opacity": (0.1, 0.9), "depth": (2.0, 6.0)} | ranges
    assert len(ranges) == 2, f"no such range: {ranges}"
    rng = np.random.default_rng(seed)
    focal = 0.9 * max(width, height) * np.array([1.0, 1.05])
    center = np.array([0.5 * width, 0.5 * height]) * rng.uniform(0.85, 1.15, 2)
    rotation, _ = np.linalg.qr(np.eye(3) + 0.3 * rng.standard_normal((3, 3)))
    rotation *= np.sign(np.diag(rotation))  # columns near +x, +y, +z: a moderate turn
    rotation[:, 2] *= np.linalg.det(rotation)
    translation = rng.uniform(-0.5, 0.5, 3)

    z = rng.uniform(*ranges["depth"], n)
    pixels = rng.uniform(0, 1, (n, 2)) * [width, height]
    cam = np.column_stack([(pixels - center) / focal * z[:, None], z])
    # a splat reaches about 3 standard deviations: n pi (3 sigma)^2 = overlap W H
    sigma = np.sqrt(overlap * width * height / (n * np.pi * 9))
    scales = (sigma * z / focal.mean())[:, None] * anisotropy ** rng.uniform(-0.5, 0.5, (n, 3))
    sh = rng.normal(0, 0.15, (n, (sh_degree + 1) ** 2, 3))
    sh[:, 0] = rng.normal(0.3, 0.8, (n, 3))

    w2c, K = np.eye(4), np.diag([*focal, 1.0])
    w2c[:3, :3], w2c[:3, 3], K[:2, 2] = rotation, translation, center
    arrays = {
        "means": (cam - translation) @ rotation,
        "quats": rng.standard_normal((n, 4)) * rng.uniform(0.3, 2, (n, 1)),  # any length
        "scales": scales,
        "opacities": rng.uniform(*ranges["opacity"], n),
        "sh": sh,
        "w2c": w2c,
        "K": K,
        "weight": rng.standard_normal((height, width, 3)),
    }
    out = {key: value.astype(np.float32) for key, value in arrays.items()}
    return out | {"width": width, "height": height, "sh_degree": sh_degree}
