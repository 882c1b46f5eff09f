"""Verified matches and the poses of a model."""

import numpy as np
import pytest


@pytest.fixture
def found(pycolmap, tmp_path):
    """A model of eight photographs, and the database that it is from."""
    how = pycolmap.SyntheticDatasetOptions()
    how.num_rigs, how.num_cameras_per_rig, how.num_frames_per_rig, how.num_points3D = 1, 1, 8, 60
    with pycolmap.Database.open(path := tmp_path / "database.db") as database:
        return pycolmap.synthesize_dataset(how, database), path


def test_matches_fit_right_poses_alone(pycolmap, found):
    from hardsplat.sfm.colmap.agreement import agreement

    model, path = found
    assert agreement(model, path, 1.0) == 1
    # a photograph is in seven pairs of 28
    pose = model.frames[1].rig_from_world
    turned = pycolmap.Rotation3d(np.array([0, 0, np.sin(0.2), np.cos(0.2)]))
    model.frames[1].rig_from_world = pycolmap.Rigid3d(turned, np.zeros(3)) * pose
    assert 0.7 < agreement(model, path, 1.0) < 0.8
    for frame in model.frames.values():  # a mirror fits as well, but all lies behind the cameras
        pose = frame.rig_from_world
        frame.rig_from_world = pycolmap.Rigid3d(pose.rotation, -pose.translation)
    assert agreement(model, path, 1.0) < 0.2


def test_wrong_poses_are_told():
    from hardsplat.sfm.colmap.outcome import Outcome
    from hardsplat.sfm.run import _summary

    def said(agreement: float) -> str:
        note = {"note": ""}
        some = [f"{i}" for i in range(20)]
        found = Outcome(some, {}, 9, 0.3, 2.4, [], "", [], note, [], agreement)
        return "\n".join(_summary(found, None))

    assert "note: 42% of the matches contradict these poses" in said(0.58)
    assert "contradict" not in said(0.88)
