"""Which photographs are matched with which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pycolmap

SIMILAR, RETURNS = 24, 12  # photographs that each is matched with: retrieval; where a video returns
OVERLAP = 8  # sequential: following frames that each is matched with, and 2, 4, ... 512 after it
PROBES = 256  # features of largest scale that represent a photograph: they are few and repeat well
_PER_WORD, _DIMENSIONS, _ROUNDS = 100, 64, 10  # of the vocabulary: features, embedding, iterations


def choose(method: str, path: Path, ids: Sequence[int], threads: int) -> set[tuple[int, int]]:
    """Pairs of indices of the images with these ids in a database. method: as in SfmConfig, but not
    auto."""
    count = len(ids)
    if method == "exhaustive":
        return set(combinations(range(count), 2))
    vocabulary = path.with_name("vocabulary.bin")
    with pycolmap.Database.open(path) as database:
        _write_vocabulary(vocabulary, database, ids, threads)
        found, near = [], set()
        if method == "sequential":
            near = {(i, i + step) for step in range(1, OVERLAP + 1) for i in range(count - step)}
            sequence = pycolmap.SequentialPairingOptions()
            sequence.loop_detection, sequence.loop_detection_period = True, 1
            sequence.loop_detection_min_index_distance = OVERLAP
            sequence.loop_detection_num_images = RETURNS
            sequence.loop_detection_max_num_features = PROBES
            sequence.vocab_tree_path, sequence.num_threads = vocabulary, threads
            found = pycolmap.SequentialPairGenerator(sequence, database).all_pairs()
        else:
            pairing = pycolmap.VocabTreePairingOptions()
            pairing.num_images, pairing.max_num_features = SIMILAR, PROBES
            pairing.vocab_tree_path, pairing.num_threads = vocabulary, threads
            found = pycolmap.VocabTreePairGenerator(pairing, database).all_pairs()
    vocabulary.unlink()
    index = {image: i for i, image in enumerate(ids)}
    both = (sorted((index[a], index[b])) for a, b in found)
    return near | {(a, b) for a, b in both}


def _write_vocabulary(
    path: Path, database: pycolmap.Database, ids: Sequence[int], threads: int
) -> None:
    """A vocabulary of the photographs' own features, so that none needs to be downloaded."""
    first = [database.read_descriptors(i).data[:PROBES] for i in ids]
    features = np.concatenate(first).astype(np.float32)
    sift = pycolmap.FeatureExtractorType.SIFT
    options = pycolmap.VisualIndex.BuildOptions()
    options.num_visual_words = max(1, len(features) // _PER_WORD)
    options.num_iterations, options.num_threads = _ROUNDS, threads
    vocabulary = pycolmap.VisualIndex.create(128, _DIMENSIONS)
    vocabulary.build(options, pycolmap.FeatureDescriptorsFloat(sift, features))
    vocabulary.write(path)
