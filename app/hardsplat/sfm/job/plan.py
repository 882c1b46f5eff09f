"""Choices that depend on how many photographs there are."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from hardsplat.sfm.job.config import SfmConfig

# px of the longer side, below which photographs are enlarged first, since they have few features
SMALL = 480
EXHAUSTIVE = 60  # most photographs of which every pair is matched
GLOBAL = 400  # most photographs that are mapped one after the other
# photographs up to which the longer side, px, and the features of each, are these; COLMAP's own
# 8192 features of largest scale are hardly other ones in larger pictures
_BY_COUNT = ((100, 1600, 8192), (300, 1600, 6144), (math.inf, 1200, 4096))
_ERROR, _OF = 4.0, 640  # px: COLMAP's largest error of a match, and the photographs it belongs to


def make_plan(config: SfmConfig, sizes: Sequence[tuple[int, int]], video: bool) -> dict[str, Any]:
    """What is done for photographs of these (width, height), px.

    image_size: px, longer side that features are found at; max_features: of a photograph; error: px
    within which a match must fit; method, mapper: as in SfmConfig, but not auto; threads: of the
    worker.
    """
    count = len(sizes)
    size, features = next((s, f) for most, s, f in _BY_COUNT if count <= most)
    method = "sequential" if video else "exhaustive" if count <= EXHAUSTIVE else "retrieval"
    mapper = "incremental" if count <= GLOBAL else "global"
    return {
        "image_size": config.max_image_size or size,
        "max_features": config.max_num_features or features,
        "error": match_error(max(max(size) for size in sizes)),
        "method": method if config.matching_method == "auto" else config.matching_method,
        "mapper": mapper if config.mapper == "auto" else config.mapper,
        "threads": config.num_threads or cores(),
    }


def searched_scale(longest: int, image_size: int) -> float:
    """What a photograph with this longer side, px, is resized by before features are found."""
    return min(2.0 if longest < SMALL else 1.0, image_size / longest)


def match_error(longest: int) -> float:
    """COLMAP's largest error of a match, px, for photographs with this longer side. Features are
    placed to a part of a pixel, so those of a small picture err by less: with 4 px, false matches
    of a 160 px picture bend its focal length by 15 %."""
    return _ERROR * min(1.0, longest / _OF) * (0.5 if longest < SMALL else 1.0)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spoken(seconds: float) -> str:
    """`40 s`, `3 min` or `1.5 h`: a length of time in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s" if seconds < 10 else f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
