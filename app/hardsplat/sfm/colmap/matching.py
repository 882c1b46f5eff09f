"""COLMAP's database: features, and pairs of photographs that COLMAP chooses, matches and verifies.

Names stand there without spaces, at which COLMAP would part them: as in an address. The photograph
with the index i has the number i + 1.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pycolmap

NAME = "database.db"
BLOCK = 144  # pairs that an interruption may cost
SIMILAR = 24  # photographs that each is matched with, those most alike
OVERLAP = 8  # following frames that each of a video is matched with, and so many more alike
PROBES = 256  # features of largest scale that represent a photograph: they are few and repeat well
_PER_WORD, _DIMENSIONS, _ROUNDS = 100, 64, 10  # of the vocabulary: features, embedding, iterations
_POLL = 0.5  # s


def write_image(
    database: pycolmap.Database, name: str, camera: int, keypoints: np.ndarray, spots: np.ndarray
) -> None:
    """The next image with its features, (N, 4) float32 and descriptors (N, 128) uint8, at once or
    not at all."""
    number = database.num_images() + 1
    image = pycolmap.Image(name=quote(name), camera_id=camera, image_id=number)
    sift = pycolmap.FeatureDescriptors(pycolmap.FeatureExtractorType.SIFT, spots)
    with pycolmap.DatabaseTransaction(database):
        database.write_image(image, use_image_id=True)
        database.write_keypoints(number, keypoints)
        database.write_descriptors(number, sift)


def names_in(database: pycolmap.Database) -> list[str]:
    """Of the photographs that are there, by index."""
    images = sorted(database.read_all_images(), key=lambda image: image.image_id)
    return [unquote(image.name) for image in images]


def choose(method: str, path: Path, threads: int) -> set[tuple[int, int]]:
    """Pairs of indices to match, the smaller first. method: as in SfmConfig, but not auto."""
    with pycolmap.Database.open(path) as database:
        count = database.num_images()
        if method == "exhaustive" or database.num_keypoints() < PROBES:  # too few for words
            return set(combinations(range(count), 2))
        names = names_in(database)
        order = sorted(range(count), key=names.__getitem__)  # some may have been added later
        near = range(1, OVERLAP + 1) if method == "sequential" else ()
        vocabulary = _vocabulary(database, path, threads)
        how = dict(vocab_tree_path=vocabulary, num_threads=threads)
        options = pycolmap.VocabTreePairingOptions(how | dict(num_images=SIMILAR + len(near)))
        options.max_num_features = PROBES
        alike = pycolmap.VocabTreePairGenerator(options, database).all_pairs()
    vocabulary.unlink()
    found = {(min(pair) - 1, max(pair) - 1) for pair in alike}
    both = (pair for step in near for pair in zip(order, order[step:]))
    return found | {(min(pair), max(pair)) for pair in both}


def _vocabulary(database: pycolmap.Database, path: Path, threads: int) -> Path:
    """A vocabulary of the photographs' own features, so that none needs to be downloaded."""
    numbers = range(1, database.num_images() + 1)
    first = [database.read_descriptors(number).data[:PROBES] for number in numbers]
    features = np.concatenate(first).astype(np.float32)
    words = max(1, len(features) // _PER_WORD)
    how = dict(num_visual_words=words, num_iterations=_ROUNDS, num_threads=threads)
    vocabulary = pycolmap.VisualIndex.create(128, _DIMENSIONS)
    described = pycolmap.FeatureDescriptorsFloat(pycolmap.FeatureExtractorType.SIFT, features)
    vocabulary.build(pycolmap.VisualIndex.BuildOptions(how), described)
    vocabulary.write(path := path.with_name("vocabulary.bin"))
    return path


def match(
    path: Path, pairs: Collection[tuple[str, str]], error: float, threads: int, seed: int
) -> Iterator[int]:
    """Matches pairs of names with COLMAP's defaults; yields how many are done now and then. error:
    px within which a match must fit the geometry of its pair."""
    listed = path.with_name("pairs.txt")
    listed.write_text("".join(f"{quote(a)} {quote(b)}\n" for a, b in pairs), encoding="utf-8")
    verified = dict(ransac=dict(max_error=error, random_seed=seed))
    opened = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with ThreadPoolExecutor(1) as pool, closing(opened) as rows:
        count = "SELECT COUNT(*) FROM two_view_geometries"
        before = rows.execute(count).fetchone()[0]
        running = pool.submit(
            pycolmap.match_image_pairs,
            path,
            pycolmap.FeatureMatchingOptions(dict(num_threads=threads)),
            pycolmap.ImportedPairingOptions(match_list_path=listed, block_size=BLOCK),
            pycolmap.TwoViewGeometryOptions(verified),
            pycolmap.Device.cpu,
        )
        while wait([running], _POLL).not_done:
            yield rows.execute(count).fetchone()[0] - before
        running.result()


@dataclass
class Matches:
    """pairs: (P, 2) indices of photographs with verified matches. alike: how many features look
    alike, verified or not, by pair, the smaller first."""

    pairs: np.ndarray
    alike: dict[tuple[int, int], int]


def read_matches(database: pycolmap.Database) -> Matches:
    def between(number: int) -> tuple[int, int]:
        a, b = sorted(pycolmap.pair_id_to_image_pair(number))
        return a - 1, b - 1

    counts = zip(*database.read_two_view_geometry_num_inliers())
    pairs = np.array([between(number) for number, count in counts if count], np.int64)
    alike = {between(number): int(count) for number, count in zip(*database.read_num_matches())}
    return Matches(pairs.reshape(-1, 2), alike)
