"""Panoramas of the courtyard, whose truth is known: trained from known poses, and found by sfm."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from hardsplat.cli import main
from hardsplat.io.scenes.scene import load_scene
from hardsplat.sfm.job import video
from hardsplat.sfm.job.config import SfmConfig
from hardsplat.sfm.job.photographs import find_photographs
from hardsplat.sfm.run import sfm
from tests.sfm.test_align import needs_pycolmap
from tools.make_panoramas import make_panoramas


@pytest.fixture(scope="module")
def panoramas(tmp_path_factory):
    """Nine of 512x256 px, with transforms.json. Not to be changed."""
    folder = tmp_path_factory.mktemp("panoramas")
    make_panoramas(folder, 9, 512, samples=1, texel=0.2, ring=27)
    return folder


def test_training_from_known_poses(on_device, panoramas, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    how = "--data-factor 4 --max-steps 100 --test-every 6 --init-num-pts 3000 --init-extent 3.5 "
    how += "--cap-max 3000 --overfit-check 0 --refine-stop-iter 0 --sh-degree 0 --average-steps 0"
    assert main(["train", str(panoramas), "--result-dir", str(tmp_path), *how.split()]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    # Measured: 15.4 dB.
    assert metrics["evaluations"][-1]["psnr"] > 14, metrics["evaluations"]
    said = capsys.readouterr()
    assert "9 panoramas are cut into 6 views of 41x41" in said.out + said.err
    renders = tmp_path / "renders" / "images" / "pano_000.jpg"
    assert min(p.name for p in renders.glob("*.render.png")) == "back.render.png"


@needs_pycolmap
def test_poses_of_panoramas(panoramas, tmp_path, capsys):
    shutil.copytree(panoramas / "images", tmp_path / "images")
    found = sfm(SfmConfig(data=tmp_path))
    assert "9 panoramas of all directions" in capsys.readouterr().out
    assert not found.missing and "EQUIRECTANGULAR 512x256" in found.cameras[0]
    truth, got = (_fronts(folder) for folder in (panoramas, tmp_path))
    assert truth.keys() == got.keys()
    here = np.array([got[name].position for name in sorted(got)])
    there = np.array([truth[name].position for name in sorted(got)])
    scale, turn, shift = _similarity(here, there)
    off = np.linalg.norm(scale * here @ turn.T + shift - there, axis=1)
    turned = [truth[n].w2c[:3, :3] @ turn @ got[n].w2c[:3, :3].T for n in sorted(got)]
    angles = [np.degrees(np.arccos(min((np.trace(t) - 1) / 2, 1.0))) for t in turned]
    # Metres and degrees; measured: 0.007 and 0.15.
    assert off.max() < 0.05 and max(angles) < 0.6, (off.max(), max(angles))
    assert turn[2] @ [0, -1, 0] > 0.995  # upright


def _fronts(folder):
    views = [view for view in load_scene(folder).views if view.name.endswith("/front")]
    return {view.path.name: view.camera for view in views}


def _similarity(here, there):
    """Scale, turn and shift that take points to others (Umeyama 1991)."""
    a, b = here - here.mean(0), there - there.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    turn, scale = (u * signs) @ vt, (s * signs).sum() / (a**2).sum()
    return scale, turn, there.mean(0) - scale * turn @ here.mean(0)


def test_which_are_panoramas(panoramas, tmp_path):
    shutil.copy(panoramas / "images" / "pano_000.jpg", tmp_path / "says.jpg")
    Image.new("RGB", (384, 192)).save(tmp_path / "silent.jpg")
    Image.new("RGB", (320, 240)).save(tmp_path / "plain.jpg")

    def found(panorama):
        folder = find_photographs(tmp_path, "single", panorama)
        whole = [p.name for p in folder.items if folder.cameras[p.camera].panorama]
        return sorted(whole), folder.left_out

    assert found("auto") == (["says.jpg"], {})
    assert found("none") == ([], {})
    whole, left_out = found("all")
    assert whole == ["says.jpg", "silent.jpg"]
    Image.new("RGB", (320, 240)).save(tmp_path / "another.jpg")
    without = find_photographs(tmp_path, "single", "none", ["s*.jpg"])
    assert without.left_out == {"says.jpg": "--exclude", "silent.jpg": "--exclude"}
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
