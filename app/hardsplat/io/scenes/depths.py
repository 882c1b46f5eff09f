"""What is known of the depth of photographs: points of the model that a photograph shows, or depth
maps in SCENE/depths.

A depth map is a 16-bit PNG or a .npy named like its photograph, of inverse depth up to a scale and
an offset, larger where nearer, as Depth Anything and others estimate it. Scale and offset come from
sparse/0/depth_params.json (Kerbl et al. 2023, their code), or else make the map agree with the
points that its photograph shows, as there: medians go to medians, mean distances from them to mean
distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import check_listed
from hardsplat.io.media.images import read_grey
from hardsplat.io.scenes.colmap import model_folder, read_seen
from hardsplat.io.scenes.masks import fitted, read_kept
from hardsplat.io.scenes.scene import Scene
from hardsplat.io.scenes.source import composed
from hardsplat.io.scenes.values import LARGEST, json_in
from hardsplat.io.scenes.views import View

FOLDER, PARAMETERS = "depths", "depth_params.json"
FEWEST = 10  # points that a depth map is fitted to
# times the median of all scales, or a part of it, at which a map is left out (Kerbl et al. 2023,
# their code)
_MOST = 5.0


def known_disparities(
    root: Path, scene: Scene, indices: Sequence[int]
) -> tuple[list[np.ndarray], str]:
    """(H, W) float32 of each of these views: one over depth, 1 / world units, 0 where it is not
    known; and where that is from, in words.

    Raises UserError where nothing is known of any photograph, or a file is damaged.
    """
    views = [scene.views[i] for i in indices]
    points, seen = read_seen(root, scene.origin)
    found = [_sparse(view, points[seen.get(view.group, [])]) for view in views]
    label = f"depths of {sum(int((m > 0).sum()) for m in found)} points of the model"
    if (root / FOLDER).is_dir():
        found = _dense(root, views, found)
        label = f"depth maps of {sum(bool(m.any()) for m in found)} of {len(found)} photographs"
    if not any(m.any() for m in found):
        maps = f"depth maps in {root / FOLDER}, named like the photographs"
        needs = f"a COLMAP model with tracks, or {maps}"
        if (root / FOLDER).is_dir():
            fitted_to = f"{FEWEST} points of a COLMAP model with tracks, or sparse/0/{PARAMETERS}"
            needs = f"none of the {maps}, could be used: each needs {fitted_to}"
        raise UserError(f"{root}: --depth-lambda needs depths: {needs}")
    for view, known in zip(views, found):
        if view.mask:
            known[read_kept(view.mask, view.camera.width, view.camera.height, view.lens) < 255] = 0
    return found, label


def _sparse(view: View, points: np.ndarray) -> np.ndarray:
    """One over the depth of each point at its pixel, of the nearest where several share one."""
    out = np.zeros((view.camera.height, view.camera.width), np.float32)
    _, (x, y), depths = view.camera.pixels(points)
    np.maximum.at(out, (y, x), (1 / depths).astype(np.float32))
    return out


def _dense(root: Path, views: Sequence[View], sparse: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Maps in world units; zeros for photographs that have none, or one that fits nothing."""
    parameters = _parameters(root)
    check_listed(root / FOLDER)
    files = sorted((root / FOLDER).rglob("*"))
    of_map = lambda path: path.suffix.lower() in (".png", ".npy") and path.is_file()  # noqa: E731
    there = {composed(path.stem): path for path in filter(of_map, files)}
    maps: list[np.ndarray] = []
    scales: list[float] = []
    for view, points in zip(views, sparse):
        names = () if view.is_part else (Path(view.name).stem, view.path.stem)  # none of a face
        path = next((there[n] for n in map(composed, names) if n in there), None)
        scale = offset = 0.0
        raw = np.zeros(points.shape, np.float32)
        if path is not None:
            raw = fitted(read_depth(path), view.camera.width, view.camera.height, view.lens)
            scale, offset = parameters.get(Path(view.name).stem) or _fit(raw, points)
        maps.append(np.maximum(raw * np.float32(scale) + np.float32(offset), 0) * (scale > 0))
        scales.append(scale)
    positive = [scale for scale in scales if scale > 0]
    middle = float(np.median(positive)) if positive else 0.0
    usual = [middle / _MOST <= scale <= middle * _MOST for scale in scales]
    return [m if fits else np.zeros_like(m) for m, fits in zip(maps, usual)]


def _fit(raw: np.ndarray, points: np.ndarray) -> tuple[float, float]:
    """Scale and offset that take a map to the points; (0, 0) where there are too few, or the map is
    flat there."""
    known = points > 0
    wanted, found = points[known].astype(np.float64), raw[known].astype(np.float64)
    spread = np.mean(np.abs(found - np.median(found))) if len(found) >= FEWEST else 0.0
    if spread <= 0:
        return 0.0, 0.0
    scale = float(np.mean(np.abs(wanted - np.median(wanted))) / spread)
    return scale, float(np.median(wanted) - scale * np.median(found))


def read_depth(path: Path) -> np.ndarray:
    """(H, W) float32 of a depth map. Raises UserError where it is something else."""
    unusable = f"{path}: not a usable depth map"
    try:
        if path.suffix.lower() == ".npy":  # mapped, so that its shape is compared with its size
            raw = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            raw = read_grey(path)
    except UserError:
        raise
    except Exception as error:  # parsers raise almost anything on damaged files
        raise UserError(f"{unusable} ({reason(error, 80)})") from None
    if raw.ndim != 2 or not raw.size or raw.dtype.kind not in "uf":
        raise UserError(f"{unusable}: expected one channel of 16 bits, or an array (H, W)")
    out = raw.astype(np.float32) / (np.iinfo(raw.dtype).max if raw.dtype.kind == "u" else 1)
    if not np.isfinite(out).all():
        raise UserError(f"{path}: has a NaN or infinite depth")
    return out


def _parameters(root: Path) -> dict[str, tuple[float, float]]:
    """Scale and offset by the stem of a photograph's name, of Inria's file; empty where there is
    none."""
    path = (model_folder(root) or root / "sparse" / "0") / PARAMETERS
    if not path.is_file():
        return {}
    try:
        table = {name: v for name, v in json_in(path).items() if isinstance(v, dict)}
        out = {name: (float(v["scale"]), float(v["offset"])) for name, v in table.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        what = "expected a scale and an offset for each photograph"
        raise UserError(f"{path}: {what} ({str(error)[:80]})") from None
    if not (np.abs(list(out.values())) <= LARGEST).all():
        raise UserError(f"{path}: a scale or an offset is not finite")
    return out
