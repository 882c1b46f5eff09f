"""Verified matches and the poses of a model."""

import numpy as np
import pytest

PHOTOGRAPHS = 8


@pytest.fixture
def found(pycolmap, tmp_path):
    """A model of eight photographs, and the database that it is from."""
    how = pycolmap.SyntheticDatasetOptions()
    how.num_rigs, how.num_cameras_per_rig, how.num_points3D = 1, 1, 60
    how.num_frames_per_rig = PHOTOGRAPHS
    with pycolmap.Database.open(path := tmp_path / "database.db") as database:
        return pycolmap.synthesize_dataset(how, database), path


def turn(model, number):
    """Turns a photograph around its axis by 23 degrees."""
    import pycolmap

    pose = model.frames[number].rig_from_world
    turned = pycolmap.Rotation3d(np.array([0, 0, np.sin(0.2), np.cos(0.2)]))
    model.frames[number].rig_from_world = pycolmap.Rigid3d(turned, np.zeros(3)) * pose


def leave(path, number, count):
    """Leaves a photograph so many matches with each other one."""
    import pycolmap

    with pycolmap.Database.open(path) as database:
        for other in {*range(1, PHOTOGRAPHS + 1)} - {number}:
            geometry = database.read_two_view_geometry(number, other)
            geometry.inlier_matches = geometry.inlier_matches[:count]
            database.update_two_view_geometry(number, other, geometry)


def test_matches_fit_right_poses_alone(pycolmap, found):
    from hardsplat.sfm.colmap.agreement import agreement

    model, path = found
    assert agreement(model, path, 1.0) == 1
    # a photograph is in seven pairs of 28
    turn(model, 1)
    assert 0.7 < agreement(model, path, 1.0) < 0.8
    for frame in model.frames.values():  # a mirror fits as well, but all lies behind the cameras
        pose = frame.rig_from_world
        frame.rig_from_world = pycolmap.Rigid3d(pose.rotation, -pose.translation)
    assert agreement(model, path, 1.0) < 0.2


def test_pairs_of_few_matches_say_little(found):
    from hardsplat.sfm.colmap.agreement import agreement

    model, path = found
    turn(model, 1)
    leave(path, 1, 15)
    assert agreement(model, path, 1.0) > 0.97


def test_a_photograph_that_matches_contradict_loses_its_pose(found):
    from hardsplat.sfm.colmap.agreement import drop_contradicted

    model, path = found
    everyone = {*model.reg_image_ids()}
    turn(model, 1)
    drop_contradicted(model, path, 1.0)
    assert {*model.reg_image_ids()} == everyone  # too much of the whole is wrong
    leave(path, 1, 40)
    drop_contradicted(model, path, 1.0)
    assert {*model.reg_image_ids()} == everyone - {1}


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
