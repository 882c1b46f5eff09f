"""Panoramas of the courtyard, whose truth is known: trained from known poses, and found by sfm."""

import json
import shutil

import numpy as np
from PIL import Image

from hardsplat.cli import main
from hardsplat.io.media.video import VideoWriter
from hardsplat.io.scenes.scene import load_scene
from hardsplat.sfm.job import video
from hardsplat.sfm.job.photographs import find_photographs
from tests.helpers.compare_poses import similarity
from tests.helpers.scenes import PANORAMAS


def test_training_from_known_poses(on_device, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    how = "--data-factor 4 --max-steps 100 --test-every 6 --init-num-pts 3000 --init-extent 3.5 "
    how += "--cap-max 3000 --no-hold-back --refine-stop-iter 0 --sh-degree 0 --average-steps 0"
    assert main(["train", str(PANORAMAS), "--result-dir", str(tmp_path), *how.split()]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    # Measured: 15.4 dB.
    assert metrics["evaluations"][-1]["psnr"] > 14, metrics["evaluations"]
    said = capsys.readouterr()
    assert "9 panoramas are cut into 6 views of 41x41" in said.out + said.err
    renders = tmp_path / "renders" / "images" / "pano_000.jpg"
    assert min(p.name for p in renders.glob("*.render.png")) == "back.render.png"


def test_poses_of_a_360_degree_video(pycolmap, tmp_path, capsys):
    film = tmp_path / "film.mp4"
    writer = VideoWriter(film, 512, 256, 5)
    for path in sorted((PANORAMAS / "images").iterdir()):
        writer.write(np.asarray(Image.open(path)))
    writer.close()
    with open(film, "ab") as file:  # a box that players skip
        said = b"<GSpherical:ProjectionType>equirectangular</GSpherical:ProjectionType>"
        file.write((8 + len(said)).to_bytes(4, "big") + b"free" + said)
    assert main(["sfm", str(film), "--matching-method", "exhaustive"]) == 0
    told = capsys.readouterr().out
    truth, got = _fronts(PANORAMAS), _fronts(tmp_path / "film")
    count = len(got)  # of frames that were taken; the last ones of so short a film may be missed
    assert count >= 7 and f"{count} panoramas of all directions" in told
    assert f"{count} of {count} photographs have a pose" in told
    assert "EQUIRECTANGULAR 512x256" in told
    filmed = {name: _pixels(PANORAMAS / "images" / name) for name in truth}

    def of(name: str) -> str:
        """The panorama that a frame shows."""
        frame = _pixels(tmp_path / "film" / "images" / name)
        return min(filmed, key=lambda pano: np.abs(filmed[pano] - frame).mean())

    truth = {name: truth[of(name)] for name in got}
    here = np.array([got[name].position for name in sorted(got)])
    there = np.array([truth[name].position for name in sorted(got)])
    scale, turn, shift = similarity(here, there)
    off = np.linalg.norm(scale * here @ turn.T + shift - there, axis=1)
    turned = [truth[n].w2c[:3, :3] @ turn @ got[n].w2c[:3, :3].T for n in sorted(got)]
    angles = [np.degrees(np.arccos(min((np.trace(t) - 1) / 2, 1.0))) for t in turned]
    # Metres and degrees; measured: 0.007 and 0.15.
    assert off.max() < 0.05 and max(angles) < 0.6, (off.max(), max(angles))
    assert turn[2] @ [0, -1, 0] > 0.995  # upright


def _pixels(path):
    return np.asarray(Image.open(path).convert("L")).astype(float)


def _fronts(folder):
    views = [view for view in load_scene(folder).views if view.name.endswith("/front")]
    return {view.path.name: view.camera for view in views}


def test_which_are_panoramas(tmp_path):
    shutil.copy(PANORAMAS / "images" / "pano_000.jpg", tmp_path / "says.jpg")
    Image.new("RGB", (384, 192)).save(tmp_path / "silent.jpg")
    Image.new("RGB", (320, 240)).save(tmp_path / "plain.jpg")

    def found(panorama):
        folder = find_photographs(tmp_path, "single", panorama)
        whole = [p.name for p in folder.items if p.panorama]
        return sorted(whole), folder.left_out

    assert found("auto") == (["says.jpg"], {})
    assert found("none") == ([], {})
    whole, left_out = found("all")
    assert whole == ["says.jpg", "silent.jpg"]
    Image.new("RGB", (320, 240)).save(tmp_path / "another.jpg")
    without = find_photographs(tmp_path, "single", "none", ["s*.jpg"])
    assert without.spare == {"says.jpg": "--exclude", "silent.jpg": "--exclude"}
    assert "is 320x240, and a panorama is twice as wide as high" in left_out["plain.jpg"]


def test_videos_that_are_panoramas(tmp_path):
    film = tmp_path / "a.mp4"
    for data, wanted in (
        (b"ftyp" + b"\0" * 99, False),
        (b"<GSpherical:ProjectionType>equirectangular<", True),
        (b"sv3d\0\0\0\x20svhd\0\0proj\0\0\0\0prhd\0\0\0\0equi\0", True),
        (b"sv3d\0\0\0\x20svhd\0\0proj\0\0\0\0prhd\0\0\0\0cbmp\0", False),
        (b"sv3d" * 100_000, False),
    ):
        film.write_bytes(data)
        assert video.says_panorama(film) is wanted
    assert not video.says_panorama(tmp_path / "none.mp4")
