"""Photographs, scenes, undistortion, and every way a scene can contradict itself."""

import re
import shutil
import struct
import zlib
from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from hardsplat.base.errors import UserError
from hardsplat.io.media.images import (
    image_size,
    opened,
    read_grey,
    read_pixels,
    read_rgb8,
    read_upright,
    save_png,
)
from hardsplat.io.scenes.colmap import (
    CAMERA_MODELS,
    ColmapCamera,
    ColmapImage,
    ColmapPoints,
    write_model,
)
from hardsplat.io.scenes.lens import intrinsics
from hardsplat.io.scenes.masks import read_mask
from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.scenes.views import View, training
from hardsplat.sfm.job.exif import taken_of
from tests.helpers import heic
from tests.helpers.spoiling import takes_at_most
from tests.helpers.tables import refusal
from tests.oracle import lens

W, H = 64, 48
PINHOLE = ColmapCamera(1, "PINHOLE", W, H, np.array([50.0, 60, 33, 22]))
equal = np.testing.assert_array_equal


def pixels(seed=0, width=W, height=H):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def lens_of(model, *params, size=(W, H)):
    return ColmapCamera(1, model, *size, np.array(params, float))


POINTS = np.ones((4, 3))


def write_scene(root, names="abc", camera=PINHOLE, folder="images", points=POINTS, **how):
    """A scene of random photographs whose cameras look along +z. how: centres, where they stand;
    size of the photographs, if not the camera's; first, the name of the first one in the model."""
    names = [f"{name}.png" for name in names]
    centres = how.get("centres", np.arange(3.0 * len(names)).reshape(-1, 3))
    images, first = {}, how.get("first", names[0])
    for i, (name, centre) in enumerate(zip([first, *names[1:]], centres), 1):
        images[i] = ColmapImage(i, name, 1, np.eye(4)[0], -np.asarray(centre, float))
    known = ColmapPoints(points, np.zeros(points.shape, np.uint8))
    write_model(root / "sparse" / "0", {1: camera}, images, known)
    for i, name in enumerate(names):
        save_png(root / folder / name, pixels(i, *how.get("size", (camera.width, camera.height))))
    return root


def test_every_kind_of_pixel_becomes_rgb8(tmp_path):
    rgb, path, of_array = pixels(), tmp_path / "a.png", Image.fromarray
    grey, alpha = rgb[..., 0], rgb[..., 1]
    grey3, faded = np.repeat(grey[..., None], 3, axis=2), alpha[..., None] / 255.0
    index = (np.arange(W * H) % 4).astype(np.uint8).reshape(H, W)
    colors = np.array([[200, 100, 50], [1, 2, 3], [255, 0, 0], [0, 9, 255]], np.uint8)
    palette = of_array(index).convert("L")
    palette.putpalette(colors.tobytes())
    for picture, options, wanted in (
        (of_array(grey), {}, grey3),
        (of_array(np.dstack([rgb, alpha])), {}, np.rint(rgb * faded)),
        (of_array(np.dstack([grey, alpha])), {}, np.rint(grey3 * faded)),
        (of_array(grey > 127), {}, (grey3 > 127) * 255),
        (palette, {}, colors[index]),
        (palette, {"transparency": 0}, colors[index] * (index > 0)[..., None]),
    ):
        picture.save(path, **options)
        equal(read_rgb8(path), wanted)
    wide = rgb.astype(np.uint16) * 256 + rgb[::-1]  # the low byte must not matter
    for picture, wanted in ((wide[..., ::-1], rgb), (wide[..., 0], grey3)):
        cv2.imwrite(str(path), picture)
        equal(read_rgb8(path), wanted)


@pytest.mark.parametrize("grey", [False, True], ids=["rgb", "grey"])
@pytest.mark.parametrize("ending", ["png", "tif"])
def test_pictures_that_may_hold_12_bits_are_named_once_a_folder(tmp_path, caplog, ending, grey):
    dark = np.full((H, W) if grey else (H, W, 3), 4095, np.uint16)
    for i, picture in enumerate((dark, dark, dark + np.uint16(1), 0 * dark)):
        (tmp_path / f"{i == 2}").mkdir(exist_ok=True)
        cv2.imwrite(str(path := tmp_path / f"{i == 2}" / f"{i}.{ending}"), picture)
        assert (read_pixels(path) == picture.max() >> 8).all()
    (said,) = caplog.messages
    first = tmp_path / "False" / f"0.{ending}"
    assert said.startswith(f"{first}: has 16 bits and no number above 4095, so it is dark")


def smooth(width: int, height: int) -> Image.Image:
    return Image.fromarray(pixels(3, 9, 7)).resize((width, height), Image.Resampling.BICUBIC)


def exif(orientation):
    out = Image.Exif()
    out[0x0112] = orientation
    return out


JPEGS = [{"subsampling": n} for n in range(3)]
JPEGS += [{"progressive": True}, {"quality": 30, "optimize": True}, {"exif": 6}]


@pytest.mark.parametrize("options", JPEGS, ids=str)
@pytest.mark.parametrize("size", [(64, 48), (33, 17), (1, 1)])
def test_jpegs_have_the_pixels_that_pillow_gives(tmp_path, options, size):
    """Lying as the file has them: read_upright alone turns them."""
    if "exif" in options:
        options = {"exif": exif(options["exif"])}
    path = tmp_path / "a.jpg"
    smooth(*size).save(path, **options)
    assert image_size(path) == size
    got = read_pixels(path)
    assert got.flags.writeable and got.flags.c_contiguous
    equal(got, np.asarray(Image.open(path)))
    equal(got, read_rgb8(path))


KINDS = [(mode, ending) for mode in ("RGB", "L", "P", "RGBA", "I;16") for ending in ("png", "tif")]
TOPS = {3: (0, 1, 0), 4: (0, 1, 0), 5: (-1, 0, 0), 6: (-1, 0, 0), 7: (1, 0, 0), 8: (1, 0, 0)}


@pytest.mark.parametrize("mode, ending", [*KINDS, ("RGB", "webp"), ("RGBA", "webp")])
def test_pictures_lie_as_stored_and_stand_upright(tmp_path, mode, ending):
    """For every orientation that EXIF has, and some that it has not. Pillow turns TIFF alone."""
    wide, path = pixels(0, 7, 5), tmp_path / f"a.{ending}"
    stored, upright, turned = (tmp_path / f"{name}.png" for name in ("stored", "upright", "turned"))
    image = Image.fromarray(wide[..., 0].astype(np.uint16) * 257)
    if mode != "I;16":
        image = Image.fromarray(wide).convert(mode)
    image.save(stored)
    for orientation in range(10):
        image.save(path, exif=exif(orientation), lossless=True)
        image.save(turned, exif=exif(orientation))
        with Image.open(turned) as opened_again:
            ImageOps.exif_transpose(opened_again).save(upright)
        standing, lying = read_upright(path), read_pixels(path)
        equal(standing, read_pixels(upright))
        equal(lying, read_pixels(stored))
        equal(read_grey(path), read_grey(stored))
        equal(read_mask(path), read_mask(stored))
        assert image_size(path) == (7, 5)
        assert standing.shape[:2] == ((7, 5) if 5 <= orientation <= 8 else (5, 7))
        assert standing.flags.c_contiguous and lying.flags.c_contiguous
        with opened(path) as again:
            taken = taken_of(again)
        assert taken.focal is None and taken.up == TOPS.get(orientation, (0, -1, 0))


def test_heic(tmp_path):
    """It is upright for all readers, and EXIF's orientation counts no more."""
    path = tmp_path / "IMG_1.HEIC"
    path.write_bytes(heic.BYTES)
    assert image_size(path) == (heic.WIDTH, heic.HEIGHT)
    for read in (read_pixels, read_rgb8, read_upright):
        got = read(path)
        assert got.shape == (heic.HEIGHT, heic.WIDTH, 3)
        for at, color in (((8, 6), heic.GREEN), ((24, 6), heic.BLUE), ((16, 18), heic.RED)):
            assert np.abs(got[at].astype(int) - color).max() < 8
    with opened(path) as image:
        taken = taken_of(image)
    assert taken.up == (0, -1, 0)
    assert taken.focal == pytest.approx(26 * np.hypot(24, 32) / np.hypot(36, 24))

    path.write_bytes(heic.BYTES[:300])
    assert "it is HEIC or the like, damaged" in refusal(read_pixels, path)


def test_unreadable_images_name_the_file(tmp_path):
    for name, content, why in (
        ("empty.jpg", b"", "it is empty"),
        ("text.jpg", b"no image", "no format that is known here"),
    ):
        (path := tmp_path / name).write_bytes(content)
        assert f"{path}: not a readable image: {why}" in refusal(read_rgb8, path)
    words = f"{tmp_path}: not a readable image: Is a directory"
    assert refusal(read_rgb8, tmp_path) == words
    assert "a.png: image not found" in refusal(read_rgb8, tmp_path / "a.png")
    for values, why in (
        (np.ones((4, 4), np.float32), "floating-point pixels"),
        (np.full((4, 4), 70000, np.int32), "pixels of more than 16 bits"),
    ):
        Image.fromarray(values).save(tmp_path / "a.tiff")
        assert f"a.tiff: not a readable image: {why}" in refusal(read_rgb8, tmp_path / "a.tiff")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pictures_that_announce_more_than_they_can_hold(tmp_path):
    """Sixty bytes once took 4 GB."""
    path = tmp_path / "a.png"
    Image.fromarray(pixels()).save(path)
    data = bytearray(path.read_bytes())
    struct.pack_into(">II", data, 16, 1 << 14, 10_000)  # width and height
    struct.pack_into(">I", data, 29, zlib.crc32(bytes(data[12:29])))
    path.write_bytes(data)
    words = "not a readable image: it announces 16384x10000 pixels, too many for its bytes"
    with takes_at_most(1 << 20):
        assert words in refusal(read_rgb8, path)
    Image.new("1", (7000, 6000)).save(path)  # as dense as PNG gets
    assert read_rgb8(path).shape == (6000, 7000, 3)


def test_scene_is_sorted_split_and_measured(tmp_path):
    names, root = "jihgfedcba", tmp_path / "garden"
    centres = np.random.default_rng(3).normal(size=(10, 3)) + 100
    scene = load_scene(write_scene(root, names, centres=centres))
    assert scene.name == "garden"
    assert [v.name for v in scene.views] == sorted(f"{name}.png" for name in names)
    assert scene.test == [0, 8] and scene.train == [1, 2, 3, 4, 5, 6, 7, 9]
    by_name = centres[::-1]
    np.testing.assert_allclose([v.camera.position for v in scene.views], by_name)
    trained = by_name[scene.train]
    radius = np.linalg.norm(trained - trained.mean(0), axis=1).max()
    assert scene.extent == pytest.approx(1.1 * radius)
    assert scene.points.shape == (4, 3) and scene.colors.dtype == np.uint8
    equal(scene.views[0].camera.K, [[50, 0, 33], [0, 60, 22], [0, 0, 1]])
    equal(scene.views[0].load(), pixels(9))
    assert load_scene(root, test_every=3).test == [0, 3, 6, 9]
    for none in (0, -1):
        whole = load_scene(root, test_every=none)
        assert whole.test == [] and whole.train == list(range(10))


def far_away(scene) -> list[View]:
    """Its views, where its files have them: what a scene of arrays may be given."""
    moved = []
    for view in scene.views:
        w2c = view.camera.w2c.copy()
        w2c[:3, 3] -= w2c[:3, :3] @ scene.origin
        moved.append(replace(view, camera=replace(view.camera, w2c=w2c)))
    return moved


def test_a_scene_far_away_is_moved_to_the_origin(tmp_path):
    """By as much with a photograph less, so that results of both fit together."""
    centres, away = np.random.default_rng(4).uniform(-80, 80, (9, 3)), np.array([5e6, -3e5, 40])
    near = load_scene(write_scene(tmp_path / "near", "abcdefghi", centres=centres))
    assert near.origin == (0, 0, 0) and not near.notes
    root = write_scene(tmp_path / "far", "abcdefghi", centres=centres + away)
    far = load_scene(root)
    np.testing.assert_allclose(np.add(far.origin, far.views[3].camera.position), centres[3] + away)
    assert np.array(far.origin) % 1000 == pytest.approx(0) and far.extent < 1000
    assert max(np.abs(view.camera.position).max() for view in far.views) < 1000
    np.testing.assert_array_equal(far.points, near.points - far.origin)
    (note,) = far.notes
    assert "stand 5e+06 world units from the origin" in note and "5000000, -300000, 0 is" in note
    assert load_scene(root, exclude=["b*"]).origin == far.origin
    nearer = load_scene(write_scene(tmp_path / "off", "abc", centres=np.eye(3) + [3e3, 0, 0]))
    assert nearer.origin == (0, 0, 0) and "from the origin and 0.9 apart" in nearer.notes[0]
    assert nearer.notes[0].endswith("tells places 0.0002 apart: splats are sharper near it")
    with pytest.raises(UserError, match="its cameras stand 5e.06 .* tells places 0.5 apart; subtr"):
        training(far_away(far), [], "scene")


def test_scene_refusals(tmp_path):
    good = write_scene(tmp_path / "good")
    write_scene(tmp_path / "folder", folder="photos")
    write_scene(tmp_path / "point", centres=np.ones((3, 3)))
    write_scene(tmp_path / "one", centres=np.ones((1, 3)))
    write_scene(tmp_path / "two", centres=np.eye(3)[:2])
    write_scene(tmp_path / "tiny", centres=1e-20 * np.eye(3))
    write_scene(tmp_path / "beside", centres=np.eye(3)[[0, 1, 1]])
    write_scene(tmp_path / "same", centres=1e-15 * np.eye(3) + 4)
    largest = r"--data-factor 100: leaves 1x1 pixels of a.png \(64x48\); choose 6 or less"
    for name, options, words in (
        ("none", (), f"{tmp_path / 'none'}: scene folder not found"),
        (".", (), "no cameras are in it; a scene is a folder with images/ and sparse/0/, or"),
        ("good", (0,), "--data-factor 0: must be 1 or more"),
        ("good", (100,), largest),
        ("good", (7,), "choose 6 or less"),
        ("good", (1, 1), "no view is left to train on, all 3 are held out"),
        ("folder", (), "no folder images found"),
        ("folder", (2,), "neither folder images_2 nor images found"),
        ("point", (), "all 3 cameras stand at one point, which gives the scene no scale; take"),
        ("one", (), "one: has one photograph; training needs two or more, from different places"),
        ("one", (1, 0), "has one photograph"),
        ("two", (), "1 of 2 views is left to train on, .*use --test-every 0, or more photographs"),
        ("tiny", (), "its cameras are about 8e-21 world units from one another, which float32"),
        ("same", (), "all 3 cameras stand at one point"),
        ("beside", (), "all 2 training cameras stand at one point, .*use --test-every 0"),
    ):
        assert re.search(words, refusal(load_scene, tmp_path / name, *options))
    assert load_scene(good, 6).views[0].camera.height == 8

    images = good / "images"
    (images / "b.png").rename(images / "b.jpg")
    save_png(images / "B.webp", pixels())
    words = "b.png: not found, and whether B.webp or b.jpg is meant is not clear: rename it; 1 of 3"
    assert words in refusal(load_scene, good)
    (images / "B.webp").unlink()
    (images / "b.jpg").unlink()
    words = "b.png: not found; 1 of 3 photographs are missing: put them there, or leave them out:"
    assert f"{images / words} --exclude b.png" in refusal(load_scene, good)
    without = load_scene(good, test_every=0, exclude=["b.png"])
    assert [view.name for view in without.views] == ["a.png", "c.png"]
    (images / "c.png").unlink()
    assert "2 of 3 photographs are missing" in refusal(load_scene, good)
    (images / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    save_png(images / "c.png", pixels())
    assert "b.png: not a readable image" in refusal(load_scene, good)


@pytest.mark.parametrize("folder, factor", [("images", 1), ("images_2", 2), (".", 1)])
def test_photographs_that_were_converted_are_found(tmp_path, folder, factor):
    root = write_scene(tmp_path, folder=folder, size=(64 // factor, 48 // factor))
    for name in "abc":
        (root / folder / f"{name}.png").rename(root / folder / f"{name.upper()}.jpg")
    (root / "masks").mkdir()
    for name in ("A.jpg.png", "b.png"):
        save_png(root / "masks" / name, np.full((48, 64, 3), 255, np.uint8))
    scene = load_scene(root, factor)
    assert [view.name for view in scene.views] == ["a.png", "b.png", "c.png"]
    assert [view.path.name for view in scene.views] == ["A.jpg", "B.jpg", "C.jpg"]
    assert [view.mask and view.mask.name for view in scene.views] == ["A.jpg.png", "b.png", None]
    equal(scene.views[0].load()[..., :3], pixels(0, 64 // factor, 48 // factor))
    used = root / folder / "A.jpg"
    words = "3 photographs are another kind of file, or in other capitals, than the model names: "
    assert f"{words}{used} is used for a.png" in scene.notes
    # of two that would be one picture, none is
    save_png(root / folder / "c.webp", pixels())
    write_scene(tmp_path / "other", first="b.JPG")
    other = tmp_path / "other"
    (other / "images" / "a.png").unlink()
    assert "b.JPG: not found, and whether b.png is meant" in refusal(load_scene, other)
    assert "whether C.jpg or c.webp is meant is not clear" in refusal(load_scene, root, factor)


@pytest.mark.parametrize("name", "../x a/../../x /x .. ..\\x C:\\x C:x".split())
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    name += ".png" * name.endswith("x")
    message = refusal(load_scene, write_scene(tmp_path, first=name))
    assert repr(name) in message and "leads out of this folder" in message


SPELLED = {  # a name in a model -> the file's
    "sub\\a.png": "sub/a.png",
    "Gr\u00fcn.png": "Gru\u0308n.png",
    "Gru\u0308n.png": "Gr\u00fcn.png",
    "a[1].png": "a[1].png",
}


@pytest.mark.parametrize("written, stored", SPELLED.items(), ids=map(ascii, SPELLED))
def test_names_as_other_systems_write_them(tmp_path, written, stored):
    root = write_scene(tmp_path, first=written)
    (root / "images" / "a.png").rename(file := root / "images" / stored.replace("sub/", ""))
    if "/" in stored:
        (root / "images" / "sub").mkdir()
        file = file.rename(root / "images" / stored)
    save_png(root / "masks" / stored, np.full((H, W), 255, np.uint8))
    scene = load_scene(root)
    view = next(view for view in scene.views if view.mask)
    equal(view.load()[..., :3], pixels(0))
    assert view.path == file and not any("no pose" in note for note in scene.notes)
    for name in (written, stored):
        if "\\" not in name:
            left = load_scene(root, test_every=0, exclude=[name])
            assert [other.name for other in left.views] == ["b.png", "c.png"]
    file.unlink()
    assert "1 of 3 photographs are missing" in refusal(load_scene, root)


def test_a_name_is_taken_literally_before_it_is_a_pattern(tmp_path):
    names = ["a[1]", "a1", "b", "c*", "cd"]
    root = write_scene(tmp_path, names)
    for asked, left in (("a[1].png", 4), ("a[0-9].png", 4), ("c*.png", 4), ("c?.png", 3)):
        assert len(load_scene(root, test_every=0, exclude=[asked]).views) == left


def test_photographs_below_the_scene_as_the_model_names_them(tmp_path):
    """COLMAP was run on the folder above images/."""
    names = [f"images/{name}" for name in "abc"]
    root = write_scene(tmp_path, names, folder="")
    assert [view.name for view in load_scene(root).views] == [f"{name}.png" for name in names]


@pytest.mark.parametrize("folder", ["images", ""])
def test_photographs_without_a_pose_are_named(tmp_path, folder):
    root = write_scene(tmp_path, folder=folder)
    assert not any("no pose" in note for note in load_scene(root).notes)
    for name in ("d.JPG", "e.png", "f.png", "g.png", "a.jpg", "notes.txt", ".h.png"):
        shutil.copy(root / folder / "a.png", root / folder / name)
    words = "4 of 7 photographs in .* have no pose and are not trained on: d.JPG, e.png, f.png, ..."
    assert any(re.fullmatch(words, note) for note in load_scene(root).notes)


@pytest.mark.parametrize("folder", [".", "dense/0/sparse", "colmap/sparse/0"])
def test_a_model_elsewhere_is_named(tmp_path, folder):
    write_scene(tmp_path)
    (tmp_path / "sparse" / "0").rename(tmp_path / "model")
    (tmp_path / "sparse").rmdir()
    where = tmp_path / folder
    where.mkdir(parents=True, exist_ok=True)
    for path in (tmp_path / "model").iterdir():
        path.rename(where / path.name)
    words = f"there is a model in {where}: make that sparse/0, beside the photographs"
    assert words in refusal(load_scene, tmp_path)


def test_points_that_are_not_finite_are_counted(tmp_path):
    points = np.ones((4, 3))
    points[1, 2], points[3] = np.nan, np.inf
    scene = load_scene(write_scene(tmp_path, points=points))
    equal(scene.points, np.ones((2, 3)))
    words = "2 of 4 points have a NaN or infinite position and are left out"
    assert len(scene.colors) == 2 and words in scene.notes


OFF = "the principal point of 3 of 3 photographs is off the middle: camera 1 at (33, 40)"
STRANGE = "the focal lengths of 3 of 3 photographs are those of no usual lens: camera 1 has "
NUMBERS = [
    ((50, 60, 33, 40), OFF),
    ((50, 100, 32, 24), ""),
    ((2.9, 2.9, 32, 24), ""),
    ((0.8, 0.8, 32, 24), STRANGE),  # in shares of the width
    ((5e5, 5e5, 32, 24), STRANGE),  # of other pictures
    ((50, 400, 32, 24), STRANGE),  # digits are missing
]


@pytest.mark.parametrize("params, words", NUMBERS)
def test_numbers_of_no_usual_camera_are_named(tmp_path, params, words):
    notes = load_scene(write_scene(tmp_path, camera=lens_of("PINHOLE", *params))).notes
    assert [note[: len(words)] for note in notes] == [words] * bool(words)


MODEL = "its camera 1 in the model is 64x48"
OTHER_SIZES = [
    ((32, 26), 1, f"is 32x26, but {MODEL}; use the photographs that the cameras were made from"),
    ((60, 45), 1, f"is 60x45, but {MODEL}; use"),
    ((48, 64), 1, f"is 48x64, but {MODEL}; the photograph is turned by 90 degrees"),
    ((63, 48), 1, f"is 63x48, but {MODEL}; use the photographs that the cameras were made from"),
    ((34, 24), "2", f"is 34x24, but {MODEL}, so 32x24 in images_2; use"),
]


@pytest.mark.parametrize("size, factor, hint", OTHER_SIZES)
def test_sizes_that_do_not_fit_the_camera(tmp_path, size, factor, hint):
    folder = "images_2" if factor == "2" else "images"
    message = refusal(load_scene, write_scene(tmp_path, size=size, folder=folder), int(factor))
    assert str(tmp_path / folder / "a.png") in message and hint in message


@pytest.mark.parametrize(
    "size, factor, trained",
    [
        ((32, 24), 1, (32, 24)),  # Tanks and Temples as published with 3DGS
        ((32, 25), 1, (32, 25)),  # rounded
        ((32, 24), 2, (16, 12)),
        ((256, 192), 1, (256, 192)),
    ],
)
def test_cameras_of_resized_photographs_are_resized(tmp_path, size, factor, trained):
    scene = load_scene(write_scene(tmp_path, size=size), factor)
    words = "3 of 3 photographs have another size than their cameras, which are resized to fit: "
    words += f"a.png is {size[0]}x{size[1]}, its camera in the model 64x48"
    assert words in scene.notes
    for view in scene.views:
        assert view.load().shape[1::-1] == trained == (view.camera.width, view.camera.height)
        whole = np.diag([trained[0] / 64, trained[1] / 48, 1]) @ intrinsics(PINHOLE)
        equal(view.camera.K, whole)


def test_smaller_photographs_alone_are_named_with_their_flag(tmp_path):
    scene = write_scene(tmp_path, size=(16, 12), folder="images_4")
    assert "no folder images found; there is images_4: --data-factor 4" in refusal(
        load_scene, scene
    )
    assert len(load_scene(scene, 4).views) == 3


# --- undistortion ---

# f or fx, fy; cx, cy; then the distortion, strong enough to move pixels by several
LENSES = {
    "SIMPLE_RADIAL": [150, 101.3, 72.9, -0.15],
    "RADIAL": [150, 101.3, 72.9, 0.1, -0.03],
    "OPENCV": [150, 160, 101.3, 72.9, -0.2, 0.05, 0.01, -0.008],
    "FULL_OPENCV": [150, 160, 101.3, 72.9, -0.2, 0.05, 0.006, -0.004, 0.01, 0.02, -0.01, 0.005],
    "SIMPLE_FISHEYE": [120, 101.3, 72.9],
    "FISHEYE": [120, 125, 101.3, 72.9],
    "SIMPLE_RADIAL_FISHEYE": [120, 101.3, 72.9, 0.05],
    "RADIAL_FISHEYE": [120, 101.3, 72.9, 0.05, -0.02],
    "OPENCV_FISHEYE": [120, 125, 101.3, 72.9, 0.05, -0.02, 0.01, -0.003],
}
LENS_W, LENS_H = 200, 150


def rays_of(model, k, at):
    """(N, 2) x / z and y / z of rays that a lens puts at (N, 2), by Newton's method."""
    of, count = (lens.fisheye, 4) if "FISHEYE" in model else (lens.perspective, 8)
    bend, rays = of(*k, *[0] * (count - len(k))), at.copy()
    for _ in range(30):
        bent, jacobian = bend(rays)
        rays -= np.linalg.solve(jacobian, (bent - at)[..., None])[..., 0]
    assert np.abs(bend(rays)[0] - at).max() < 1e-9
    return rays


def pattern(x, y):
    """Colour along the ray (x, y, 1): smooth, steep, without symmetries that would hide a shift."""
    return 127 + 120 * np.sin(np.stack([9 * x + 2, 9 * y - 1, 7 * x + 7 * y], axis=-1))


@pytest.mark.parametrize("model", LENSES)
@pytest.mark.parametrize("factor", [1, 2])
def test_undistortion_of_an_analytic_pattern(tmp_path, model, factor):
    params = np.array(LENSES[model], float)
    focals = CAMERA_MODELS[model][1]
    f, c, k = params[[0, focals - 1]], params[focals : focals + 2], params[focals + 2 :]
    v, u = np.mgrid[0:LENS_H, 0:LENS_W].reshape(2, -1) + 0.5
    at = (np.stack([u, v], axis=1) - c) / f
    photo = pattern(*rays_of(model, k, at).T).reshape(LENS_H, LENS_W, 3)
    write_scene(tmp_path, camera=lens_of(model, *params, size=(LENS_W, LENS_H)))
    save_png(tmp_path / "images" / "a.png", np.rint(photo).astype(np.uint8))

    view = load_scene(tmp_path, factor).views[0]
    got = view.load()
    K, w, h = view.camera.K, LENS_W // factor, LENS_H // factor
    assert got.shape == (h, w, 3) and (view.camera.width, view.camera.height) == (w, h)
    v, u = np.mgrid[0:h, 0:w] + 0.5

    def difference(dx, dy):
        """From what the pinhole should see, its principal point moved by that many pixels."""
        return np.abs(got - pattern((u - K[0, 2] - dx) / K[0, 0], (v - K[1, 2] - dy) / K[1, 1]))

    right = difference(0, 0)
    assert right.mean() < 0.6  # rounding gives 0.25, the rest is interpolation
    for off in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5)):
        assert difference(*off).mean() > 4 * right.mean()
    assert right.max() < 4  # no black border


UNKNOWN = [m for m in CAMERA_MODELS if m not in (*LENSES, "EQUIRECTANGULAR") and "PIN" not in m]


@pytest.mark.parametrize("model", UNKNOWN)
def test_other_lenses_name_the_command_that_undistorts(tmp_path, model):
    camera = lens_of(model, *[30] * CAMERA_MODELS[model][2])
    message = refusal(load_scene, write_scene(tmp_path, camera=camera))
    assert f"camera 1: lens model {model} is not supported" in message
    assert "colmap image_undistorter" in message
