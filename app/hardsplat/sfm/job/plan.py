"""Choices that depend on how many photographs there are, and how long the work will take."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from hardsplat.io.media.panorama import face_side
from hardsplat.sfm.job.config import SfmConfig

# px of the longer side, below which photographs are enlarged first and more features are taken
SMALL = 480
EXHAUSTIVE = 60  # most photographs of which every pair is matched
GLOBAL = 400  # most photographs that are mapped one after the other
# photographs up to which the longer side, px, and the features of each, are these; features cost by
# area, matches by the square of features
_BY_COUNT = ((100, 1600, 4096), (300, 1200, 3072), (math.inf, 1000, 2048))
# of a photograph, in retrieval: the most similar ones, and others spread over similar ones
NEIGHBOURS, SPREAD = 14, 8
OVERLAP = 8  # sequential: following frames that each is matched with

# Seconds on one core (docs/results/capture.md), from which the expected time is made.
# a megapixel, a megapixel searched, a feature times a feature, a pair
_DECODE, _SIFT, _MATCH, _RANSAC = 0.02, 0.55, 3.1e-9, 0.012
_SCORE = 3e-4  # a pair, in retrieval
_PATCHES = 0.35  # a small photograph, whose points are found again by their patches
# a photograph, a photograph times a photograph, a photograph; a run, all on two cores
_INCREMENTAL, _ALL_AGAIN, _GLOBAL, _START = 0.12, 1e-3, 0.4, 3.0


@dataclass(frozen=True)
class Plan:
    """What is done. image_size: px, longer side that features are found at; max_features: of a
    photograph; pairs: about how many are matched.

    method, mapper: as in SfmConfig, but not auto. threads: of the worker. seconds: expected, by
    stage.
    """

    image_size: int
    max_features: int
    method: str
    mapper: str
    pairs: int
    threads: int
    seconds: dict[str, float]


def make_plan(config: SfmConfig, sizes: Sequence[tuple[int, int]], video: bool) -> Plan:
    """The plan for photographs of these (width, height), px."""
    count = len(sizes)
    size, features = next((s, f) for most, s, f in _BY_COUNT if count <= most)
    size, features = config.max_image_size or size, config.max_num_features or features
    method = config.matching_method
    if method == "auto":
        method = "sequential" if video else "exhaustive" if count <= EXHAUSTIVE else "retrieval"
    mapper = config.mapper
    if mapper == "auto":
        mapper = "incremental" if count <= GLOBAL else "global"
    threads = config.num_threads or cores()
    pairs = expected_pairs(method, count)
    read = sum(w * h for w, h in sizes) / 1e6
    searched = sum(w * h * searched_scale(w, h, size) ** 2 for w, h in sizes) / 1e6
    each = min(features, 1e6 * searched / count / 100)  # about a feature in 100 px
    patches = _PATCHES / threads if max(max(size) for size in sizes) < SMALL else 0
    score = _SCORE * count**2 / 2 if method != "exhaustive" else 0
    mapped = _GLOBAL if mapper == "global" else _INCREMENTAL + _ALL_AGAIN * count + patches
    seconds = {
        "features": (_DECODE * read + _SIFT * searched) / threads,
        "matches": (pairs * (_MATCH * each**2 + _RANSAC) + score) / threads,
        "poses": _START + count * mapped,
    }
    return Plan(size, features, method, mapper, pairs, threads, seconds)


def searched_scale(width: int, height: int, image_size: int) -> float:
    """What a photograph is resized by before features are found in it."""
    longest = max(width, height)
    if longest > image_size:
        return image_size / longest
    return 2.0 if longest < SMALL and 2 * longest <= image_size else 1.0


def face_size(width: int, image_size: int) -> int:
    """px of the faces of a panorama in which features are found."""
    return max(1, min(face_side(width), image_size // 2))


def match_error(width: int, height: int, image_size: int, panorama: bool = False) -> float:
    """Pixels of a photograph within which a match must fit the geometry of its pair.

    COLMAP's 4 px belong to photographs of some 3000 px. Features are placed to a part of a pixel of
    the picture they were found in, so small pictures have a smaller limit. With 4 px, false matches
    of a 160 px picture bend its focal length by 15 %.
    """
    longest = face_side(width) if panorama else max(width, height)
    searched = face_size(width, image_size) if panorama else min(longest, image_size)
    return min(max(searched / 320, 0.5), 2.5) * longest / searched


def expected_pairs(method: str, count: int) -> int:
    every = count * (count - 1) // 2
    if method == "exhaustive":
        return every
    each = 0.75 * (NEIGHBOURS + SPREAD)
    return min(every, int(count * (each if method == "retrieval" else OVERLAP + each / 2)))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spoken(seconds: float) -> str:
    """`40 s`, `3 min` or `1.5 h`: a length of time in words, as precise as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s" if seconds < 10 else f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
