"""COLMAP's database: features, and pairs that COLMAP matches and verifies. Names stand there
without spaces, at which COLMAP would part them: as in an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pycolmap

NAME = "database.db"
_CONFIG = pycolmap.TwoViewGeometryConfiguration
_STILL = _CONFIG.PANORAMIC, _CONFIG.PLANAR_OR_PANORAMIC
TILE = 12  # photographs that are matched with as many others at once: what an interruption may cost


def write_image(
    database: pycolmap.Database,
    number: int,
    name: str,
    camera: int,
    keypoints: np.ndarray,
    descriptors: np.ndarray,
) -> None:
    """An image with its features, (N, 4) float32 and (N, 128) uint8, at once or not at all."""
    image = pycolmap.Image(name=quote(name), camera_id=camera, image_id=number)
    sift = pycolmap.FeatureDescriptors(pycolmap.FeatureExtractorType.SIFT, descriptors)
    with pycolmap.DatabaseTransaction(database):
        database.write_image(image, use_image_id=True)
        database.write_keypoints(number, keypoints)
        database.write_descriptors(number, sift)


def ids_by_name(database: pycolmap.Database) -> dict[str, int]:
    return {unquote(image.name): image.image_id for image in database.read_all_images()}


def match_pairs(
    path: Path,
    pairs: Sequence[tuple[str, str]],
    error: float,
    threads: int,
    seed: int,
    progress: Callable[[int], None],
) -> None:
    """Matches pairs of names with COLMAP's defaults, in blocks, in each of which COLMAP makes an
    index of every photograph: those that follow each other should have few.

    error: px within which a match must fit the geometry of its pair. progress(done) is called after
    each block.
    """
    matching, verification = pycolmap.FeatureMatchingOptions(), pycolmap.TwoViewGeometryOptions()
    matching.num_threads = threads
    verification.ransac.max_error, verification.ransac.random_seed = error, seed
    pairing = pycolmap.ImportedPairingOptions()
    pairing.match_list_path = path.with_name("pairs.txt")
    for first in range(0, len(pairs), TILE**2):
        block = pairs[first : first + TILE**2]
        lines = "".join(f"{quote(a)} {quote(b)}\n" for a, b in block)
        pairing.match_list_path.write_text(lines, encoding="utf-8")
        pycolmap.match_image_pairs(path, matching, pairing, verification, pycolmap.Device.cpu)
        progress(first + len(block))


@dataclass
class Matches:
    """Verified matches. pairs: (P, 2) indices of photographs. still: pairs, as tuples, that may
    have been taken from one point: a plane or a turn explains all of their matches. alike: how many
    features look alike, verified or not, by pair, the smaller first."""

    pairs: np.ndarray
    still: set[tuple[int, int]] = field(default_factory=set)
    alike: dict[tuple[int, int], int] = field(default_factory=dict)


def read_matches(database: pycolmap.Database, ids: Sequence[int]) -> Matches:
    """Matches of the images with these ids."""
    index = {image: i for i, image in enumerate(ids)}

    def between(number: int) -> tuple[int, int] | None:
        a, b = (index.get(image) for image in pycolmap.pair_id_to_image_pair(number))
        return None if a is None or b is None else (min(a, b), max(a, b))

    found = [
        (pair, geometry.config)
        for number, geometry in zip(*database.read_two_view_geometries())
        if len(geometry.inlier_matches) and (pair := between(number))
    ]
    alike = {between(number): int(count) for number, count in zip(*database.read_num_matches())}
    return Matches(
        np.array([pair for pair, _ in found], np.int64).reshape(-1, 2),
        {pair for pair, config in found if config in _STILL},
        {pair: count for pair, count in alike.items() if pair and count},
    )
