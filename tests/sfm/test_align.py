"""What photographs say of where they were taken and how they were held, and models turned by it."""

import io
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image

from hardsplat.sfm.job.exif import Taken, taken_of
from tests.helpers.scenes import COURTYARD

HERE = 47.37, 8.54, 410.0


def opened(size=(8, 6), xmp=b"", gps=None, orientation=1, kind="JPEG") -> Image.Image:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    exif.get_ifd(0x8825).update(gps or {})
    Image.new("RGB", size).save(file, kind, exif=exif, **(dict(xmp=xmp) if xmp else {}))
    return Image.open(file)


POSITIONS = [  # north or south, degrees, east or west, degrees, below the sea?, metres
    (("S", (33.0, 30.0, 36.0), "W", (70, 0, 0), b"\1", 12), (-33.51, -70, -12)),
    (("N", (33.0, 30.0, 0.0), "E", (70, 0, 0)), (33.5, 70, None)),
    (("N", (0, 0, 0), "E", (0, 0, 0), b"\0", 1), None),  # a device that does not know
    (("N", (99.0, 0, 0), "E", (7, 0, 0)), None),
    (("X", (9.0, 0, 0), "E", (7, 0, 0)), None),
    (("N", (9.0, 0), "E", (7, 0, 0)), None),
    (("N", (9.0, 0, 0), "EE", (7, 0, 0)), None),
]


@pytest.mark.parametrize("gps, wanted", POSITIONS)
def test_positions(gps, wanted):
    found = taken_of(opened(gps=dict(enumerate(gps, 1)))).gps
    if wanted is None:
        assert found is None
    else:
        assert found[:2] == pytest.approx(wanted[:2]) and found[2] == wanted[2]


def test_how_it_was_held():
    tops = {1: (0, -1, 0), 3: (0, 1, 0), 6: (-1, 0, 0), 8: (1, 0, 0)}
    for orientation, top in tops.items():
        assert taken_of(opened(orientation=orientation)).up == top
    drone = b'<x drone-dji:GimbalRollDegree="+0.00" drone-dji:GimbalPitchDegree="-90.00"/>'
    down = taken_of(opened(xmp=drone))
    assert down.level and np.allclose(down.up, (0, 0, -1))  # it looks down: its back is up
    rolled = taken_of(opened(xmp=drone.replace(b"+0.00", b"45")))
    assert not rolled.level and rolled.up == (0, -1, 0)


PANO = b'<x GPano:ProjectionType="equirectangular" GPano:FullPanoWidthPixels="64" %b/>'


SHAPES = [
    ((64, 32), PANO % b"", True),
    ((64, 32), b"<GPano:ProjectionType> equirectangular </GPano:ProjectionType>", True),
    ((64, 32), PANO % b'GPano:CroppedAreaImageWidthPixels="64"', True),
    ((64, 32), PANO % b'GPano:CroppedAreaImageWidthPixels="40"', False),
    ((64, 30), PANO % b"", False),
    ((64, 32), b'<x GPano:ProjectionType="cylindrical"/>', False),
    ((64, 32), b"<!DOCTYPE x [<!ENTITY a '&b;&b;'>]>" + b"GPano:ProjectionType=" * 2000, False),
    ((64, 32), b"", False),
    ((1, 1), PANO % b"", False),
]


@pytest.mark.parametrize("size, xmp, wanted", SHAPES)
def test_panoramas_are_known_by_shape_and_metadata(size, xmp, wanted):
    assert taken_of(opened(size, xmp)).panorama is wanted


def courtyard(place=None):
    """The courtyard, whose world is in metres with +z up, moved, turned and scaled; and the true
    camera centres by name. place: (index, turn as it is) -> turn and centre of each instead."""
    import pycolmap

    found, centres = pycolmap.Reconstruction(COURTYARD / "sparse" / "0"), {}
    for number, (i, image) in enumerate(sorted(found.images.items())):
        if place:
            turn, centre = place(number, image.cam_from_world().rotation)
            shift = -np.array(turn.matrix()) @ centre
            found.frames[i].rig_from_world = pycolmap.Rigid3d(turn, shift)
        centres[image.name] = image.projection_center()
    q = np.array([0.3, -0.5, 0.2, 0.7])
    found.transform(pycolmap.Sim3d(0.2, pycolmap.Rotation3d(q / np.linalg.norm(q)), [5, -3, 2]))
    return found, centres


@pytest.fixture
def model(pycolmap):
    return courtyard()


def taken(centres, noise=0.0, **how):
    """What each photograph says: positions with noise, metres."""
    import pycolmap

    rng, out = np.random.default_rng(3), {}
    for name, centre in centres.items():
        place = (centre + noise * rng.normal(size=3))[None]
        gps = pycolmap.GPSTransform().enu_to_ellipsoid(place, *HERE)[0]
        out[name] = asdict(Taken(gps=tuple(gps), **how))
    return out


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_a_model_in_metres(model, align, noise):
    found, centres = model
    said = taken(centres, noise)
    names = sorted(said)
    said[names[0]] = asdict(Taken())  # one has none, two are wrong
    for name in names[1:3]:
        said[name] = asdict(Taken(gps=(HERE[0] + 0.01, *HERE[1:])))
    done = align(found, said)
    assert done["by"] == "gps" and "37 of 40 photographs" in done["note"], done
    where = {image.name: image.projection_center() for image in found.images.values()}
    names = names[3:]
    east = np.array([centres[name] for name in names])
    wanted = np.stack([east[:, 0], -east[:, 2], east[:, 1]], axis=1)
    got = np.array([where[name] for name in names])
    # the origin is the median of the positions; measured 2e-7 and 0.08 m
    off = np.linalg.norm((got - got.mean(0)) - (wanted - wanted.mean(0)), axis=1).max()
    assert off < 1e-6 + 1.5 * noise, off
    assert np.linalg.norm(np.median(got, axis=0)) < 1 and done["error"] < 1e-2 + 3 * noise


def up_of(model, centres):
    """The courtyard's up direction in the model's world."""
    rows = [(image.projection_center(), centres[image.name]) for image in model.images.values()]
    got, true = (np.array(column) for column in zip(*rows))
    up = np.linalg.lstsq(got - got.mean(0), true - true.mean(0), rcond=None)[0] @ [0, 0, 1]
    return up / np.linalg.norm(up)


def test_a_model_upright(model, align):
    found, centres = model
    nothing = {name: asdict(Taken()) for name in centres}
    done = align(found, nothing)
    assert done["by"] == "gravity" and "no positions in EXIF" in done["note"]
    # cameras look down by some degrees, and none is rolled: measured 0 degrees
    assert up_of(found, centres)[1] < -0.9999, up_of(found, centres)
    few = taken(dict(list(centres.items())[:3]))
    assert "only 3 photographs have positions" in align(found, nothing | few)["note"]


def test_a_model_of_photographs_straight_down(pycolmap, align):
    """Of a drone: their tops point anywhere, and their sides are level."""
    rng = np.random.default_rng(8)

    def place(i, turn):
        c, s = np.cos(i), np.sin(i)
        down = pycolmap.Rotation3d(np.array([[c, s, 0], [s, -c, 0], [0, 0, -1]]))
        shake = pycolmap.Rotation3d(0.05 * rng.normal(size=3))
        return down * shake, np.array([i % 7, i // 7, 20.0])

    found, centres = courtyard(place)
    assert align(found, {name: asdict(Taken()) for name in centres})["by"] == "gravity"
    heights = [image.projection_center()[1] for image in found.images.values()]
    middle = np.mean([point.xyz[1] for point in found.points3D.values()])
    # the grid is level, and above what it shows; measured: 0.01 of 1.35
    assert np.ptp(heights) < 0.1 and np.mean(heights) < middle, np.ptp(heights)


def test_positions_that_do_not_fit_are_not_used(model, align):
    found, centres = model
    rng = np.random.default_rng(0)
    anywhere = taken({name: 4000 * rng.normal(size=3) for name in centres})
    done = align(found, anywhere)
    assert done["by"] == "gravity" and "do not fit the model" in done["note"]
    still = taken(centres, noise=15.0)  # a phone that hardly moves
    note = align(found, still)["note"]
    assert "too close" in note or "do not fit" in note, note
    for number, name in enumerate(sorted(centres)):  # held at any angle
        turn = 2 * np.pi * number / 7
        still[name] = asdict(Taken(up=(np.sin(turn), np.cos(turn), 0.0)))
    before = up_of(found, centres)
    done = align(found, still)
    assert done["by"] == "none" and "held level" in done["note"]
    assert np.array_equal(up_of(found, centres), before)


def test_positions_on_a_line(align):
    """A walk straight on: scale and heading by positions, the up direction by how it was held."""
    found, centres = courtyard(lambda i, turn: (turn, np.array([0.3 * i, 2.0 * i, 1.6])))
    done = align(found, taken(centres))
    assert done["by"] == "gps" and "lie on a line" in done["note"]
    where = {image.name: image.projection_center() for image in found.images.values()}
    steps = np.diff([where[name] for name in sorted(where)], axis=0)
    assert np.allclose(steps, [0.3, 0, 2.0], atol=1e-3), steps[:3]  # x is east, z north
