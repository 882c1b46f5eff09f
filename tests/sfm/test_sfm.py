"""hardsplat sfm: its parts, a model of small views end to end, bad input, interrupts."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from PIL import Image

from hardsplat.base.parallel import CORES
from hardsplat.cli import main
from hardsplat.io.media.video import VideoWriter
from hardsplat.io.scenes.scene import load_scene
from hardsplat.sfm.job import video
from hardsplat.sfm.job.config import SfmConfig
from hardsplat.sfm.job.photographs import find_photographs, listed
from hardsplat.sfm.job.state import State
from hardsplat.sfm.process import StageProgress
from hardsplat.sfm.process import work as run_worker
from hardsplat.sfm.run import sfm
from tests.helpers import heic
from tests.helpers.compare_poses import compare
from tests.helpers.scenes import COURTYARD, ROOT
from tests.helpers.tables import refuses, rows

# Of both turns around the fountain, so that they overlap.
VIEWS = [f"view_{i:04d}.jpg" for i in (*range(6), *range(20, 26))]
TAGS = {"make": 0x010F, "model": 0x0110, "orientation": 0x0112}
OWN_TAGS = {"focal_mm": 0x920A, "focal_35": 0xA405, "plane": 0xA20E, "unit": 0xA210}
OWN_TAGS["pixels"] = 0xA002


def exif(**tags) -> Image.Exif:
    """EXIF of a photograph: tags by the names of TAGS and OWN_TAGS."""
    out = Image.Exif()
    for name, value in tags.items():
        if name in TAGS:
            out[TAGS[name]] = value
        else:
            out.get_ifd(0x8769)[OWN_TAGS[name]] = value
    return out


def photograph(width=300, height=200, **tags) -> Image.Image:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "JPEG", exif=exif(**tags))
    return Image.open(file)


def test_what_counts_as_a_photograph(tmp_path):
    names = "b.JPG a/x.png ._b.jpg .cache/c.jpg sparse/0/d.png masks/b.png images_4/b.jpg sfm/e.jpg"
    for name in f"{names} notes.txt a/masks/f.png".split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / name, "PNG")
    assert listed(tmp_path) == ["a/masks/f.png", "a/x.png", "b.JPG"]
    (tmp_path / "b.HEIC").write_bytes(heic.BYTES)
    (tmp_path / "c.HEIC").write_bytes(heic.BYTES)
    (tmp_path / "old.dng").touch()
    (tmp_path / "bad.png").write_bytes(b"\x89PNG")
    found = find_photographs(tmp_path)
    assert [p.name for p in found.items] == ["a/masks/f.png", "a/x.png", "b.JPG", "c.HEIC"]
    assert found.items[2].mask == "masks/b.png"
    assert found.items[3].size == (heic.WIDTH, heic.HEIGHT)
    assert {*found.left_out} == {"old.dng", "bad.png"}
    assert "convert it to JPEG" in found.left_out["old.dng"]
    assert found.spare == {"b.HEIC": "b.JPG has its name and is taken"}


def test_frames_of_a_video(tmp_path):
    """A view moves over a picture, every second frame blurred: sharp ones are taken."""
    noise = np.random.default_rng(1).integers(0, 255, (60, 200, 3)).astype(np.uint8)
    wall = cv2.resize(noise, (800, 240), interpolation=cv2.INTER_CUBIC)
    writer, filmed = VideoWriter(tmp_path / "walk.mp4", 160, 120, 10), []
    for i in range(40):
        filmed.append(wall[60:180, 12 * i : 12 * i + 160].copy())
        writer.write(cv2.GaussianBlur(filmed[-1], (0, 0), 3) if i % 2 else filmed[-1])
    writer.close()
    seen, out = [], tmp_path / "frames"
    said = lambda done, total: seen.append(done / total)
    count = video.extract_frames(tmp_path / "walk.mp4", out, 12, said)
    names = sorted(p.name for p in out.iterdir())
    assert count == len(names) == 12 and names[0] == "frame_00001.jpg" and max(seen) <= 1
    numbers = []
    for name in names:
        picture = np.asarray(Image.open(out / name)).astype(float)
        numbers.append(int(np.argmin([np.abs(picture - f).mean() for f in filmed])))
    assert numbers == sorted(set(numbers)) and sum(n % 2 == 0 for n in numbers) >= 11, numbers
    (tmp_path / "bad.mp4").write_bytes(b"no video at all")
    words = "bad.mp4: not a readable video"
    refuses(words, video.extract_frames, tmp_path / "bad.mp4", tmp_path / "none", 12, said)


def test_bad_input_is_a_line_and_leaves_nothing(error_of, tmp_path, monkeypatch):
    # All this is seen before it is needed.
    monkeypatch.setattr("hardsplat.sfm.run.require_pycolmap", lambda: None)
    for flags, words in rows(
        """
        --data . | given twice
        --camera-model FISHEYE | --camera-model: expected one of
        --max-image-size 9 | --max-image-size: expected a whole number of at least 64
        --num-frame 9 | did you mean '--num-frames'
        """
    ):
        assert words in error_of("sfm", tmp_path, *flags.split())
    assert "no photographs given" in error_of("sfm")
    assert f"{tmp_path / 'nowhere'}: not found" in error_of("sfm", tmp_path / "nowhere")
    assert "no photographs found" in error_of("sfm", tmp_path)
    (tmp_path / "a.txt").touch()
    assert "neither a folder nor a video" in error_of("sfm", tmp_path / "a.txt")
    (tmp_path / "a.mp4").touch()
    assert "1 video; name one: hardsplat sfm" in error_of("sfm", tmp_path)
    assert "a.mp4: not a readable video" in error_of("sfm", tmp_path / "a.mp4")
    shutil.copy(COURTYARD / "images" / VIEWS[0], tmp_path / "one.jpg")
    assert "only one photograph" in error_of("sfm", tmp_path)
    (tmp_path / "one.jpg").write_bytes(b"no")
    words = "none of the 1 photographs can be used; one.jpg: not a readable image"
    assert words in error_of("sfm", tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mp4", "a.txt", "one.jpg"]


def test_files_without_an_end_are_left_alone(error_of, tmp_path):
    """Where photographs are copied, too: that would fill the disk."""
    data, out = tmp_path / "in", tmp_path / "out"
    (data / "masks").mkdir(parents=True)
    os.mkfifo(data / "pipe.jpg")
    for name in ("zero.png", "masks/one.png"):
        (data / name).symlink_to("/dev/zero")
    shutil.copy(COURTYARD / "images" / VIEWS[0], data / "one.jpg")
    left_out = find_photographs(data).left_out
    assert {*left_out} == {"pipe.jpg", "zero.png"}
    assert all("is a pipe or a device, not a file" in why for why in left_out.values())
    assert "only one photograph" in error_of("sfm", data, "--out", out)
    assert [path.name for path in out.rglob("*") if path.suffix] == ["one.jpg"]


def test_a_stage_that_ends_is_told(capsys):
    progress = StageProgress(quiet=False)
    for stage in ("features", "matches", "poses"):
        progress.begin(stage, 13)
    progress.close()  # interrupted
    said = capsys.readouterr().out
    assert said == "features   13 in 00:00\nmatches    13 in 00:00\n"
    assert [*progress.spent] == ["features", "matches"]


def test_without_pycolmap(error_of, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = 'pycolmap is not installed, which finds the poses: pip install "hardsplat[sfm]"'
    assert words in error_of("sfm", tmp_path)


def test_train_offers_it(error_of, tmp_path, monkeypatch):
    scene, walk = tmp_path / "photos", tmp_path / "walk"
    scene.mkdir()
    for name in VIEWS[:2]:
        shutil.copy(COURTYARD / "images" / name, scene)
    remedy = f"add --sfm to find them first (hardsplat sfm {scene} does that alone)"
    assert error_of("train", scene) == f"{scene}: 2 photographs without camera poses; {remedy}"
    film = tmp_path / "walk.mp4"
    film.touch()
    assert "walk.mp4: a video without camera poses; add --sfm" in error_of("train", film)
    calls = []

    def find(config):
        calls.append(config.data)
        (walk / "sparse").mkdir(parents=True)

    def trained(config, watchers, parts, *_):
        calls.append((config.scene.data_dir, config.run.result_dir))
        assert {"imports", "poses"} <= parts.read().keys()  # each under its own name

    monkeypatch.setattr("hardsplat.sfm.run.sfm", find)
    monkeypatch.setattr("hardsplat.cli.train.reading", lambda config, parts: nullcontext())
    monkeypatch.setattr("hardsplat.train.run.trainer.run_training", trained)
    assert main(["train", str(film), "--sfm"]) == 0
    assert calls == [film, (walk, Path("results/walk"))]
    # it has poses: nothing more to find
    assert main(["train", str(walk), "--sfm"]) == 0 and len(calls) == 3


@pytest.fixture(scope="module")
def reconstructed(tmp_path_factory, pycolmap):
    """A folder of photographs with positions and what sfm made of it: two devices of different
    sizes, some turned, a TIFF turned by its tag, a HEIC that shows nothing, one file damaged, one
    dark, one with a mask over its left half. Not to be changed."""
    folder = tmp_path_factory.mktemp("sfm") / "photos"
    (folder / "phone").mkdir(parents=True)
    truth = pycolmap.Reconstruction(COURTYARD / "sparse" / "0")
    for i, name in enumerate(VIEWS):
        image = Image.open(COURTYARD / "images" / name).resize((160, 120), Image.Resampling.BOX)
        tags = dict(make="A", model="B", focal_mm=4.0)
        centre = truth.find_image_with_name(name).projection_center()
        if i % 4 == 3:
            image, tags = image.transpose(Image.Transpose.ROTATE_90), tags | dict(orientation=6)
        if i % 3 == 0:
            larger = image.width * 3 // 2, image.height * 3 // 2
            image = image.resize(larger, Image.Resampling.LANCZOS)
            tags = dict(make="C", model="D", focal_35=27)
        image.save(folder / name, quality=95, exif=positioned(exif(**tags), centre))
        if i == 3:
            image.save(folder / "phone" / "a b.tif", exif=positioned(exif(**tags), centre))
    (folder / "damaged.jpg").write_bytes((folder / VIEWS[0]).read_bytes()[:4000])
    (folder / "phone" / "flat.heic").write_bytes(heic.BYTES)
    Image.new("RGB", (160, 120), (9, 9, 9)).save(folder / "phone" / "dark.png")
    (folder / "masks").mkdir()
    Image.fromarray(np.indices((120, 160))[1] >= 80).save(folder / "masks" / f"{VIEWS[1]}.png")
    return folder, sfm(SfmConfig(data=folder, quiet=True))


def positioned(tags: Image.Exif, centre) -> Image.Exif:
    """EXIF with the position of a camera of the courtyard, metres to the east, north and up."""
    import pycolmap

    here = np.array([47.37, 8.54, 410.0])
    place = pycolmap.GPSTransform().enu_to_ellipsoid(np.array(centre)[None], *here)[0]
    angles = [(int(a), 0.0, (a - int(a)) * 3600) for a in place[:2]]
    tags.get_ifd(0x8825).update({1: "N", 2: angles[0], 3: "E", 4: angles[1], 5: b"\0", 6: place[2]})
    return tags


def test_photographs_become_a_scene(pycolmap, reconstructed):
    folder, found = reconstructed
    assert sorted(found.registered) == sorted([*VIEWS, "phone/a b.tif"])
    assert "truncated" in found.missing["damaged.jpg"]
    assert "only 0 features" in found.missing["phone/dark.png"]
    assert "features: blurred" in found.missing["phone/flat.heic"]
    assert len(found.cameras) == 5 and found.points > 200 and found.error < 0.2
    truth = compare(folder, COURTYARD)
    # Measured: 0.4 and 1.0 %.
    assert truth.distances.mean() < 0.01 and truth.distances.max() < 0.02, str(truth)
    # Measured: 0.02 m and a scale of 1.000.
    assert found.alignment["by"] == "gps" and found.alignment["error"] < 0.1, found.alignment
    assert abs(truth.scale - 1) < 0.02
    scene = load_scene(folder)  # the photographs lie beside the model, in no folder of their own
    assert [v.name for v in scene.views] == sorted([*VIEWS, "phone/a b.tif"])
    assert all(folder in v.path.parents for v in scene.views)
    # Turned: stored upright, larger, and undistorted by its own camera.
    assert scene.views[4].load().shape == (240, 180, 3)
    # of the same pixels as the fourth, though its file says that viewers turn it
    views = {view.name: view.camera for view in scene.views}
    apart = views["phone/a b.tif"].position - views[VIEWS[3]].position
    assert np.linalg.norm(apart) < 0.05, apart
    assert scene.colors.std() > 20  # points have the photographs' colours
    model = pycolmap.Reconstruction(folder / "sparse" / "0")
    masked = model.find_image_with_name(VIEWS[1]).get_observation_points2D()
    assert len(masked) > 20 and min(point.xy[0] for point in masked) > 80
    names = {f"{name}.bin" for name in ("cameras", "frames", "images", "points3D", "rigs")}
    assert {p.name for p in (folder / "sparse/0").iterdir()} == names


def test_a_video_becomes_a_scene(pycolmap, tmp_path, capsys):
    writer = VideoWriter(tmp_path / "walk.mp4", 320, 240, 10)
    # both turns in the order of their angles, ten degrees apart
    for name in np.reshape(VIEWS, (2, 6)).T.flat[:8]:
        image = Image.open(COURTYARD / "images" / name)
        for _ in range(2):
            writer.write(np.asarray(image))
    writer.close()
    assert main(["sfm", str(tmp_path / "walk.mp4")]) == 0
    said = capsys.readouterr().out
    scene = tmp_path / "walk"
    how = "sequential matching and incremental mapping"
    assert f"{how} on {CORES} threads, into {scene}" in said
    # measured: 8 of each of 20 such clips, with noise of up to 3 levels
    assert len(load_scene(scene).views) == 8, said


def test_photographs_beside_frames_are_not_replaced(pycolmap, tmp_path, monkeypatch):
    scene, film = tmp_path / "walk", tmp_path / "walk.mp4"
    (scene / "images").mkdir(parents=True)
    for path in (film, scene / "images/frame_00001.jpg", scene / "images/mine.jpg"):
        path.touch()
    State(scene / "sfm").put(frames=["walk.mp4", 0, 150, False])
    monkeypatch.setattr("hardsplat.sfm.run.extract_frames", lambda *given: 1)
    refuses("has photographs that are not of walk.mp4", sfm, SfmConfig(data=film, quiet=True))
    assert (scene / "images/mine.jpg").exists()


def unlike(job, name: str):
    """Adds an image whose features match no others."""
    import pycolmap

    from hardsplat.sfm.colmap.matching import write_image

    rng, count = np.random.default_rng(len(job.names)), 60
    points = np.hstack([rng.uniform(0, 100, (count, 2)), np.ones((count, 2))])
    spots = rng.integers(0, 256, (count, 128), np.uint8)
    with pycolmap.Database.open(job.path) as database:
        write_image(database, name, 1, points.astype(np.float32), spots)
    job.names.append(name)


def pairs_of(job):
    from hardsplat.sfm.colmap.matching import choose

    return choose("exhaustive", job.path, 2)


@pytest.fixture
def unmatched(tmp_path, pycolmap):
    """A job of four photographs that match nowhere, one with a space in its name; what it says."""
    from hardsplat.sfm.colmap.job import PoseJob

    said, how = [], dict(error=1.0, seed=0, method="sequential", mapper="incremental", lens=True)
    of_files = dict(scene=tmp_path, images=tmp_path, threads=2, photographs=[])
    job = PoseJob(how | of_files, lambda *message: said.append(message))
    job.work.mkdir()
    with pycolmap.Database.open(job.path) as database:
        row = pycolmap.Camera.create_from_model_name(1, "SIMPLE_RADIAL", 120.0, 100, 100)
        database.write_camera(row, use_camera_id=True)
    for name in "a b.jpg|1|2|3".split("|"):
        unlike(job, name)
    job.compare(pairs_of(job))
    return job, said


def test_pairs_that_match_nowhere_are_compared_once(pycolmap, unmatched):
    """Where matching was stopped, and where photographs are added."""
    job, said = unmatched
    with pycolmap.Database.open(job.path) as database:
        assert database.read_num_matches()[0] == [] and database.exists_matches(1, 2)
    said.clear()
    job.compare(pairs_of(job))
    assert not said  # nothing to match
    unlike(job, "4.jpg")
    job.compare(pairs_of(job))
    assert said[0] == ("begin", "matches", 10, 6)


def test_a_frame_that_is_added_later_is_matched_with_its_neighbours(unmatched, monkeypatch):
    from hardsplat.sfm.colmap import matching

    job, alike = unmatched[0], SimpleNamespace(all_pairs=list)
    unlike(job, "15")
    (words := job.path.with_name("words")).touch()
    monkeypatch.setattr(matching, "OVERLAP", 1)
    monkeypatch.setattr(matching, "_vocabulary", lambda *given: words)
    monkeypatch.setattr(matching.pycolmap, "VocabTreePairGenerator", lambda *given: alike)
    # 1, 15, 2, 3, a b.jpg
    assert matching.choose("sequential", job.path, 2) == {(1, 4), (2, 4), (2, 3), (0, 3)}
    assert not words.exists()


def test_photographs_without_a_pose_are_compared_with_all_others(unmatched, monkeypatch):
    job, _ = unmatched
    best, wanted = SimpleNamespace(reg_image_ids=lambda: [1, 2, 3], num_reg_images=lambda: 3), []
    job.matches.pairs = np.array([[0, 1], [1, 2], [2, 3]])
    best.compute_mean_reprojection_error = lambda: 1.0
    monkeypatch.setattr("hardsplat.sfm.colmap.mapping.agreement", lambda *_: 1.0)
    monkeypatch.setattr(job, "_map", lambda attempt, start=None: [best])
    monkeypatch.setattr(job, "compare", wanted.extend)
    assert job.mapped()[0] is best and sorted(wanted) == [(0, 3), (1, 3), (2, 3)]


def test_a_model_that_matches_contradict_is_not_kept(unmatched, monkeypatch):
    """Though it holds more photographs, and others hold so many only after several attempts."""
    from hardsplat.sfm.colmap.mapping import ATTEMPTS

    def model(count: int, agreeing: float) -> SimpleNamespace:
        ids, error = lambda: [*range(1, count + 1)], lambda: 1.0
        numbers = dict(reg_image_ids=ids, num_reg_images=lambda: count, agreeing=agreeing)
        return SimpleNamespace(**numbers, compute_mean_reprojection_error=error)

    (job, _), right, last = unmatched, model(3, 0.95), [*ATTEMPTS][-1]
    job.matches.pairs = np.array([[0, 1], [1, 2], [2, 3]])
    attempt = lambda name, start=None: [right if name == last else model(4, 0.55)]
    monkeypatch.setattr("hardsplat.sfm.colmap.mapping.agreement", lambda it, *_: it.agreeing)
    monkeypatch.setattr(job, "_map", attempt)
    monkeypatch.setattr(job, "compare", lambda pairs: None)
    assert job.mapped() == (right, last)


def test_no_photograph_is_placed_by_matches_alone(unmatched, monkeypatch):
    """Nor by what chance or a likeness matched, in the attempt for photographs far apart."""
    from hardsplat.sfm.colmap import mapping

    (job, _), tried = unmatched, []
    attempt = lambda *given, **more: tried.append(given[3]) or {}
    monkeypatch.setattr(mapping.pycolmap, "incremental_mapping", attempt)
    incremental = [name for name in mapping.ATTEMPTS if name != mapping.GLOBAL]
    for name in incremental:
        assert job.mapper.run(name, lambda: None) == []
    assert not any(options.structure_less_registration_fallback for options in tried)
    fewest = {name: options.min_num_matches for name, options in zip(incremental, tried)}
    assert fewest.pop(mapping.STRONG) == 30 and {*fewest.values()} == {15}


def test_what_fails_is_in_the_log_and_not_tried_again(unmatched, monkeypatch, capsys):
    from hardsplat.sfm.colmap.mapping import ATTEMPTS

    job, said = unmatched
    said.clear()

    def overflow(mapper, attempt, *_):
        calls.append(attempt)
        return 1e308**2

    calls, job.matches.pairs = [], np.array([[0, 1]])
    monkeypatch.setattr("hardsplat.sfm.colmap.mapping.Mapper.run", overflow)
    words = "7 attempts failed, see .*log.txt; COLMAP's defaults: OverflowError"
    for _ in range(2):  # the second is another start of the same command
        refuses(words, job.mapped)
    assert calls == list(ATTEMPTS)
    logged = capsys.readouterr().err
    assert logged.count("OverflowError: (34, ") == len(ATTEMPTS) and "in overflow" in logged
    told = "COLMAP's defaults failed: OverflowError: (34, 'Numerical result out of range')"
    assert ("say", f"note: {told}; going on without") in said
    unlike(job, "4.jpg")
    job.compare(pairs_of(job))
    job._map(calls[0])
    assert len(calls) == len(ATTEMPTS) + 1  # with other matches it is worth a try


@pytest.mark.parametrize("tries", [True, False])
def test_a_worker_that_dies_is_followed_by_one_that_goes_another_way(
    tmp_path, monkeypatch, capsys, tries
):
    (tmp_path / "dies.py").write_text(
        "import os, pathlib, sys\n"
        "from hardsplat.sfm.job.state import State\n"
        f"state = State(pathlib.Path({str(tmp_path)!r}))\n"
        "if state.get('crashed'):\n"
        "    print('[\"result\", {}]', flush=True)\n"
        "else:\n"
        f"    {tries} and state.put(trying='defaults')\n"
        "    print('Check failed: a < b', file=sys.stderr, flush=True)\n"
        "    os.abort()\n"
    )
    monkeypatch.setattr("hardsplat.sfm.process.WORKER", str(tmp_path / "dies.py"))
    State(tmp_path).put(trying="a start that was interrupted")
    if tries:
        assert run_worker({}, tmp_path, StageProgress(quiet=False)) == {}
        said = capsys.readouterr().out
        assert "note: defaults: the process ended with -6: Check failed: a < b; going on wi" in said
    else:  # it dies of nothing that could be left out
        words = "ended with -6: Check failed: a < b"
        refuses(words, run_worker, {}, tmp_path, StageProgress(quiet=False))
        assert not State(tmp_path).get("crashed")


def synthetic():
    """A model of four photographs of one camera."""
    import pycolmap

    how = pycolmap.SyntheticDatasetOptions()
    how.num_rigs, how.num_cameras_per_rig, how.num_frames_per_rig, how.num_points3D = 1, 1, 4, 50
    return pycolmap.synthesize_dataset(how)


def test_colours_where_a_photograph_with_a_pose_sees_no_point(unmatched, tmp_path):
    job, model = unmatched[0], synthetic()
    for number, image in model.images.items():
        colour = (9, 9, 9) if number == 1 else (200, 100, 50)
        Image.new("RGB", (8, 6), colour).save(tmp_path / "p.png")
        (tmp_path / "p.png").rename(tmp_path / image.name)
    for index, point in enumerate(list(model.images[1].points2D)):
        if point.has_point3D():
            model.delete_observation(1, index)
    with job.pool:
        job._colour(model)
    assert model.points3D and all((*p.color,) == (200, 100, 50) for p in model.points3D.values())


@pytest.mark.parametrize(
    "params", [(1280, 500, 400, 1e300), (np.inf, 500, 400, 0), (1, 500, 400, 0)]
)
def test_cameras_of_which_nothing_is_known_end_nothing(pycolmap, params):
    """Their numbers overflow: such a model is not used, and not adjusted."""
    from hardsplat.sfm.colmap.mapping import adjusted, is_sound

    model = synthetic()
    model.update_point_3d_errors()
    assert is_sound(model)
    for camera in model.cameras.values():
        camera.model, camera.params = pycolmap.CameraModelId.SIMPLE_RADIAL, params
    model.update_point_3d_errors()
    assert not is_sound(model) and adjusted(model, 2, True) is model


def test_a_process_killed_within_an_image_leaves_none_of_it(pycolmap, tmp_path):
    from hardsplat.sfm.colmap import matching

    kill = (
        "import os, sys, numpy as np, pycolmap\n"
        "from hardsplat.sfm.colmap import matching\n"
        "camera = pycolmap.Camera.create_from_model_name(1, 'SIMPLE_RADIAL', 120.0, 100, 100)\n"
        "database = pycolmap.Database.open(sys.argv[1])\n"
        "database.write_camera(camera, use_camera_id=True)\n"
        "pycolmap.Database.write_descriptors = lambda *_, **__: os._exit(9)\n"
        "features = np.zeros((9, 4), np.float32), np.zeros((9, 128), np.uint8)\n"
        "matching.write_image(database, 'a.jpg', 1, *features)\n"
    )
    path = tmp_path / matching.NAME
    environment = os.environ | {"PYTHONPATH": str(ROOT / "app")}
    assert subprocess.run([sys.executable, "-c", kill, path], env=environment).returncode == 9
    with pycolmap.Database.open(path) as database:
        assert database.exists_camera(1) and not matching.names_in(database)


def test_what_is_done_is_not_done_again(reconstructed, tmp_path, capsys):
    folder, found = reconstructed
    scene = Path(shutil.copytree(folder, tmp_path / "again", copy_function=shutil.copy2))
    for path in (scene / "sparse/0").iterdir():
        os.utime(path)  # copies have other times
    again = sfm(SfmConfig(data=scene))
    said = capsys.readouterr().out
    assert "done before with these settings" in said and "\nfeatures " not in said
    assert again.registered == found.registered
    (scene / "sparse/0/images.bin").write_bytes(b"")  # no longer what was written here
    words = "a model that hardsplat sfm did not make; add --overw"
    refuses(words, sfm, SfmConfig(data=scene, quiet=True))


def test_photographs_without_a_common_view(pycolmap, error_of, tmp_path):
    words = "no poses found for these 4 photographs: no two of them show the same thing"
    (dark := tmp_path / "dark").mkdir()
    for i in range(4):
        Image.new("RGB", (160, 120), (9, i, 9)).save(dark / f"{i}.png")
    assert words in error_of("sfm", dark, "--quiet", "--matching-method", "retrieval")
    shutil.rmtree(dark)
    for seed in range(4):
        noise = np.random.default_rng(seed).integers(0, 255, (12, 16, 3)).astype(np.uint8)
        picture = Image.fromarray(noise).resize((160, 120), Image.Resampling.BICUBIC)
        picture.save(tmp_path / f"{seed}.png")
    assert words in error_of("sfm", tmp_path, "--quiet")
    assert not (tmp_path / "sparse").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a child alone")
def test_an_interrupt_leaves_no_process_and_no_half_model(pycolmap, tmp_path, capsys):
    few = [*VIEWS[:4], *VIEWS[6:10]]
    for name in few:
        shutil.copy(COURTYARD / "images" / name, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "app")}
    command = [sys.executable, "-m", "hardsplat", "sfm", str(tmp_path)]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    listen = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    run = subprocess.Popen(command, **pipes, preexec_fn=listen)  # noqa: PLW1509
    database = tmp_path / "sfm" / "database.db"
    end = time.monotonic() + 30
    while not database.exists() and time.monotonic() < end:
        time.sleep(0.02)
    workers = children(run.pid)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert run.returncode == 130 and err == b"hardsplat: interrupted\n"
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (tmp_path / "sparse").exists()
    (tmp_path / "sparse" / f"0.{run.pid}.part").mkdir(parents=True)  # killed while it wrote
    assert sorted(sfm(SfmConfig(data=tmp_path, quiet=True)).registered) == few
    # One more: its features and pairs alone are new.
    shutil.copy(COURTYARD / "images" / VIEWS[4], tmp_path)
    more = sfm(SfmConfig(data=tmp_path))
    assert "matches" in capsys.readouterr().out
    assert sorted(more.registered) == sorted([*few, VIEWS[4]])


def children(pid: int) -> list[int]:
    """Process ids, where /proc tells them."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def test_pictures_are_written_beside_pycolmap():
    """Pillow's libraries are loaded first: the other way round, writing PNG destroys memory."""
    script = """
import hardsplat.sfm.colmap.job, io
from PIL import Image
for format in ("PNG", "JPEG", "TIFF"):
    Image.effect_noise((400, 300), 90).save(io.BytesIO(), format)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
