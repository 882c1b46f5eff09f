"""Rows of COLMAP's database, by pycolmap. Names stand there without spaces, at which COLMAP would
part them: as in an address."""

from __future__ import annotations

from urllib.parse import quote, unquote

import numpy as np
import pycolmap

NAME = "database.db"


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
