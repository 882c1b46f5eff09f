"""The last adjustments of `hardsplat sfm`: points found again, lenses without distortion."""

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from tests.helpers import needs

pycolmap = needs.module("pycolmap")

from hardsplat.sfm.colmap.patches import found_again  # noqa: E402

# Cameras look at a wall 3 away, from one step to the next.
WIDTH, HEIGHT, FOCAL, SIDEWAYS = 160, 120, 130.0, (-0.6, -0.3, 0.0, 0.3, 0.6)


def poses() -> list[np.ndarray]:
    """(3, 4) world to camera, each turned a little towards the middle."""
    out = []
    for x in SIDEWAYS:
        angle = 0.2 * x
        rotation = Rotation.from_euler("y", angle).as_matrix()
        out.append(np.column_stack([rotation, rotation @ -np.array([x, 0.1 * x * x, 0])]))
    return out


def model_of(
    points: np.ndarray, seen: list[list[tuple[int, np.ndarray]]], camera
) -> "pycolmap.Reconstruction":
    """seen: for each point, (photograph, px) where that shows it."""
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(camera)
    places: list[list] = [[] for _ in SIDEWAYS]
    tracks = []
    for each in seen:
        track = pycolmap.Track()
        for i, at in each:
            track.add_element(i + 1, len(places[i]))
            places[i].append(at)
        tracks.append(track)
    for i, pose in enumerate(poses()):
        image = pycolmap.Image(f"{i}.png", np.array(places[i]).reshape(-1, 2), 1, i + 1)
        model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(pose))
    for point, track in zip(points, tracks):
        model.add_point3D(point, track, np.zeros(3, np.uint8))
    return model


def test_points_are_found_again_where_they_are(tmp_path):
    """A wall with a pattern; each point is 0.3 px off in the second of two photographs."""
    rng = np.random.default_rng(0)
    texture = cv2.GaussianBlur(rng.uniform(0, 255, (400, 600)).astype(np.float32), (0, 0), 3)
    texture = 127 + 100 * (texture - texture.mean()) / texture.std() / 2
    intrinsics = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1]])
    # Px of the texture -> the wall.
    to_wall = np.array([[0.01, 0, -3], [0, 0.01, -2], [0, 0, 3], [0, 0, 1]])
    for i, pose in enumerate(poses()):
        to_image = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]]) @ intrinsics @ pose @ to_wall
        image = cv2.warpPerspective(texture, to_image, (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC)
        picture = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
        picture.convert("RGB").save(tmp_path / f"{i}.png")
    points = rng.uniform((-0.8, -0.7, 3), (0.8, 0.7, 3), (60, 3))
    camera = pycolmap.Camera.create_from_model_name(1, "SIMPLE_PINHOLE", FOCAL, WIDTH, HEIGHT)
    exact = np.array([camera.img_from_cam(points @ pose[:, :3].T + pose[:, 3]) for pose in poses()])
    off = 0.3 * rng.normal(0, 1, (len(points), 2)) / np.sqrt(2)
    seen = [[(1, exact[1, k]), (3, exact[3, k] + off[k])] for k in range(len(points))]
    model = model_of(points, seen, camera)
    with ThreadPoolExecutor(2) as pool:
        found = found_again(model, tmp_path, 1.0, pool)
    new = [point for point in found.points3D.values() if point.track.length() > 2]
    assert len(new) > 40 and found.num_points3D() == len(points) + len(new)
    misses = []
    for point in new:
        k, there = int(np.argmin(np.linalg.norm(points - point.xyz, axis=1))), []
        for e in point.track.elements:
            place = found.images[e.image_id].points2D[e.point2D_idx].xy
            there.append(np.linalg.norm(place - exact[e.image_id - 1, k]))
        if there[0] < 1e-6:  # what is found again is what the reference shows
            misses += there[1:]
    assert len(misses) > 60 and np.median(misses) < 0.03 and max(misses) < 0.15, misses
