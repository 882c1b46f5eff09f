"""Rows of COLMAP's database, by pycolmap. Names stand there without spaces, at which COLMAP would
part them: as in an address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pycolmap

NAME = "database.db"


def remove(folder: Path) -> None:
    for path in folder.glob(f"{NAME}*"):  # and its journals
        path.unlink()


def is_panorama(camera: pycolmap.Camera) -> bool:
    return camera.model == pycolmap.CameraModelId.EQUIRECTANGULAR


def write_camera(database: pycolmap.Database, camera: pycolmap.Camera) -> None:
    """A camera and the rig of that camera alone, at once or not at all."""
    rig = pycolmap.Rig()
    rig.rig_id = camera.camera_id
    rig.add_ref_sensor(camera.sensor_id)
    with pycolmap.DatabaseTransaction(database):
        database.write_camera(camera, use_camera_id=True)
        database.write_rig(rig, use_rig_id=True)


def write_image(
    database: pycolmap.Database,
    number: int,
    name: str,
    camera: int,
    keypoints: np.ndarray,
    descriptors: np.ndarray,
) -> None:
    """An image with its features, (N, 4) float32 and (N, 128) uint8, at once or not at all. Its
    frame has its number."""
    image = pycolmap.Image(name=quote(name), camera_id=camera, image_id=number)
    image.frame_id = number
    frame = pycolmap.Frame()
    frame.frame_id, frame.rig_id = number, camera
    frame.add_data_id(image.data_id)
    sift = pycolmap.FeatureDescriptors(pycolmap.FeatureExtractorType.SIFT, descriptors)
    with pycolmap.DatabaseTransaction(database):
        database.write_frame(frame, use_frame_id=True)
        database.write_image(image, use_image_id=True)
        database.write_keypoints(number, keypoints)
        database.write_descriptors(number, sift)


def ids_by_name(database: pycolmap.Database) -> dict[str, int]:
    """Ids of the images that have features."""
    return {
        unquote(image.name): image.image_id
        for image in database.read_all_images()
        if database.exists_descriptors(image.image_id)
    }
