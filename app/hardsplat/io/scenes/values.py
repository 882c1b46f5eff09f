"""Values of the files that describe scenes and camera paths, checked one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardsplat.base.errors import UserError, reason
from hardsplat.base.files import json_of

LARGEST = float(np.finfo(np.float32).max)  # what the GPU can hold
LARGEST_SIDE = 1_000_000  # pixels
# OpenGL camera (+x right, +y up, looking along -z) to OpenCV (+x right, +y down, looking along +z):
# turn both of these axes of the camera.
OPENGL_TO_OPENCV = np.diag([1.0, -1.0, -1.0])


def file_bytes(path: Path) -> bytes:
    """The whole file; UserError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def json_in(path: Path):
    """What a JSON file holds; UserError when it cannot be read."""
    try:
        return json_of(file_bytes(path).decode("utf-8-sig"))
    except ValueError as error:  # bad JSON or bad UTF-8
        raise UserError(f"{path}: not valid JSON: {reason(error, 120)}") from error


def number_in(
    where: str, values: dict, key: str, low: float = -LARGEST, high: float = LARGEST
) -> float:
    """A number of low to high. Raises UserError, with its name, where it is something else."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        wanted = "a finite number" if high == LARGEST else f"a number of {low:g} to {high:g}"
        raise UserError(f"{where}: {key} is {str(value)[:40]}, expected {wanted}")
    return float(value)


def optional_number(
    where: str, values: dict, key: str, default: float | None = None
) -> float | None:
    """number_in, or the default where there is none."""
    return default if values.get(key) is None else number_in(where, values, key)


def array_in(where: str, values: dict, key: str, named: str = "") -> np.ndarray:
    """float64 of any shape; empty where it is something else. Raises UserError, with its name,
    where it is missing."""
    try:
        return np.array(values[key], np.float64)
    except KeyError:
        raise UserError(f"{where}: has no {named or key}") from None
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)
