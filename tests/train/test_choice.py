"""The choice of photographs and place: --exclude, blurred photographs, --region."""

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from hardsplat.cli import main
from hardsplat.io.media.borders import borders
from hardsplat.io.media.sharpness import BLURRED, blurs, detail
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.region import Region
from hardsplat.settings.presets import load_config
from hardsplat.settings.scene import SceneSettings
from hardsplat.step.begin import view_order
from hardsplat.train.features.region import region_of
from hardsplat.train.run.photographs import PhotographLoader
from hardsplat.train.run.start import print_notes
from tests.helpers.scenes import COURTYARD
from tests.helpers.tables import refuses


def test_settings_of_another_start_are_named_where_the_user_named_them(capsys):
    of = lambda **named: load_config("quick", {"data_dir": COURTYARD, **named})
    scene = load_scene(COURTYARD)
    print_notes(of(), scene)  # the preset has a number of random splats
    assert not capsys.readouterr().out
    print_notes(of(init_num_pts=5, init_opa=0.2), scene)
    words = "note: --init-num-pts: not used, since the first splats are the points of the scene\n"
    assert capsys.readouterr().out == words
    print_notes(of(init_num_pts=5, init_type="random"), scene)
    assert not capsys.readouterr().out
    print_notes(of(gradient="stochastic", strategy="none", block="1x1"), scene)
    assert "note: --gradient stochastic does not use --block\n" in capsys.readouterr().out
    bare = replace(scene, points=scene.points[:0])
    for resumed in (False, True):
        print_notes(of(resume=resumed), bare)
        assert ("has no points: starting from" in capsys.readouterr().out) is not resumed
    print_notes(of(refine_every=360), scene)
    words = "note: --refine-every: no splats are added, since densifications would begin with"
    assert words in capsys.readouterr().out
    print_notes(of(refine_every=359), scene)
    assert not capsys.readouterr().out
    print_notes(of(prune_to=0.5, prune_to_iter=100), scene)
    words = "note: --prune-to 0.5: not used, since pruning would begin at step 360 and end at 100"
    assert words in capsys.readouterr().out


def test_large_photographs_are_noted_where_no_factor_is_named(capsys, tmp_path):
    scene = load_scene(COURTYARD)
    big = replace(scene.views[1], camera=scene.views[1].camera.resized(1700, 3300))
    scene = replace(scene, views=[scene.views[0], big, *scene.views[2:]])
    config = load_config("quick", {"data_dir": COURTYARD})
    (mine := tmp_path / "mine.toml").write_text("data_factor = 1")
    print_notes(load_config(mine, {"data_dir": COURTYARD}), scene)
    for named in ({"data_factor": 1}, {"data_factor": 2}, {"resume": True}):
        print_notes(load_config("quick", {"data_dir": COURTYARD, **named}), scene)
    print_notes(config.changed(data_factor=2), scene)  # of a file
    print_notes(config.changed(data_dir=None), scene)  # no folder that is read again
    print_notes(config, scene, whole=False)
    assert capsys.readouterr().out == ""
    print_notes(config, scene)
    words = "note: photographs are trained at up to 3300 pixels a side; --data-factor 3 makes them"
    assert capsys.readouterr().out.startswith(words)


def test_photographs_are_left_out(error_of):
    whole = load_scene(COURTYARD)
    less = load_scene(COURTYARD, exclude=["view_0001.jpg", "view_000[0-2].jpg", "view_0003*"])
    assert less.excluded == tuple(f"view_000{i}.jpg" for i in range(4))
    names = [view.name for view in less.views]
    assert names == [view.name for view in whole.views if view.name not in less.excluded]
    # the others are held out as before
    held_out = [view.name for view in whole.held_out if view.name not in less.excluded]
    assert [view.name for view in less.held_out] == held_out and len(held_out) == 4
    assert less.notes[0] == "4 of 40 photographs are excluded"
    said = error_of("train", COURTYARD, "--exclude", "view_0099.jpg", "--max-steps", "1")
    assert "--exclude view_0099.jpg: no photograph has this name; there is view_00" in said
    refuses("leaves no photograph of 40", load_scene, COURTYARD, exclude=["*"])
    words = "leaves 1 photograph of 40, and two are needed"
    refuses(words, load_scene, COURTYARD, exclude=["view_00[1-3]*", "view_000[1-9]*"])


def test_black_borders_are_found():
    rng = np.random.default_rng(0)
    images = rng.integers(90, 255, (6, 24, 32, 3), dtype=np.uint8)
    assert borders(images) == {}
    for image in images:
        image[:3], image[:, -2:] = rng.integers(0, 9, 3), 4
    images[1, 3:5] = 0  # what is dark in one photograph
    assert borders(images) == {"top": 3, "right": 2}
    assert borders([*images, np.zeros((24, 32, 3), np.uint8)]) == {"top": 3, "right": 2}
    assert borders(np.zeros_like(images)) == borders([np.zeros((4, 4, 4), np.uint8)]) == {}
    for n, image in enumerate(images):  # an object on black
        image[: 3 + 2 * n], image[:, -2 - 2 * n :] = 0, 0
    assert borders(images) == {}


def test_blurred_photographs_are_found():
    rng = np.random.default_rng(4)
    walls = rng.integers(0, 255, (60, 400, 3)).astype(np.uint8)
    wall = cv2.resize(walls, (2400, 360), interpolation=cv2.INTER_CUBIC)
    wall = np.clip(wall + rng.normal(0, 6, wall.shape), 0, 255).astype(np.uint8)
    pictures = [np.ascontiguousarray(wall[:, 60 * i : 60 * i + 480]) for i in range(20)]
    assert (blurs([detail(picture) for picture in pictures]) > 0.7).all()
    shaken = np.full((1, 7), 1 / 7, np.float32)
    spoiled = {
        3: lambda p: cv2.GaussianBlur(p, (0, 0), 2),
        9: lambda p: cv2.filter2D(p, -1, shaken),
        15: lambda p: cv2.filter2D(p, -1, shaken.T),
    }
    for i, how in spoiled.items():
        pictures[i] = how(pictures[i])
    found = blurs([detail(picture) for picture in pictures])
    assert set(np.flatnonzero(found < BLURRED)) == {3, 9, 15}, found
    flat = [np.full((8, 8, 3), 9, np.uint8)] * 9
    assert (blurs([detail(picture) for picture in flat]) == 1).all()
    assert (blurs([detail(np.zeros((1, 1, 4), np.uint8))] * 9) == 1).all()


NOWHERE = {
    (1, 2, 3): "has 3 numbers; a box is x0,y0,z0,x1,y1,z1 and a sphere x,y,z,radius",
    (0, 0, 0, -1): "the radius of a sphere must be positive",
    (0, 0, 0, 1, 0, 1): "second corner must be larger along x, y and z",
    (0, 0, 50, 1, 1, 51): "no point of the scene is in it; most are in",
}


@pytest.mark.parametrize("numbers, words", NOWHERE.items())
def test_places_that_are_none(numbers, words):
    refuses(words, region_of, SceneSettings(region=numbers), load_scene(COURTYARD))


def test_places():
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, (500, 3))
    box, ball = Region.of((-1, -1, 0, 1, 1.5, 2)), Region.of((0.5, 0, 0, 1))
    low, high = [-1, -1, 0], [1, 1.5, 2]
    assert np.array_equal(box.inside(points), ((points >= low) & (points < high)).all(1))
    away = np.linalg.norm(points - [0.5, 0, 0], axis=1)
    assert np.array_equal(ball.inside(points), away < 1)
    # half-open: what lies on a border belongs to the box above it, and to no sphere
    for axis in range(3):
        ends = np.array([[0.0, 0, 1], [0, 0, 1]])
        ends[:, axis] = low[axis], high[axis]
        assert box.inside(ends).tolist() == [True, False]
        at = np.array([0.5, 0, 0]) + np.eye(3)[axis] * np.array([[-1], [1], [0.999]])
        assert ball.inside(at).tolist() == [False, False, True]
    for region in (box, ball):
        assert region.inside(region.samples()).all() and len(region.samples()) > 50
    assert region_of(SceneSettings(), load_scene(COURTYARD)) is None


def test_preferred_views_come_twice_an_epoch():
    drawn = np.array([0, 1, 2, 3, 4, 2, 4])
    order = drawn[view_order(1, 0, 70, len(drawn))]
    assert np.bincount(order).tolist() == [10, 10, 20, 10, 20]


def test_a_place_in_detail(on_device, tmp_path, monkeypatch, capsys):
    region = "-1.2,-1.2,-0.5,1.2,1.2,3"
    monkeypatch.setenv("HARDSPLAT_AUTO", "first")
    how = "--data-factor 8 --max-steps 60 --refine-start-iter 10 --refine-every 10 --cap-max 5000 "
    how += f"--refine-stop-iter 60 --no-hold-back --average-steps 0 --region {region}"
    assert main(["train", str(COURTYARD), "--result-dir", str(tmp_path), *how.split()]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    place, said = metrics["region"], capsys.readouterr().out
    points = Region.of([float(x) for x in region.split(",")]).inside(load_scene(COURTYARD).points)
    before = int(points.sum())
    assert f"{before} of 3,500 points are; " in said
    assert f"{place['splats']:,} of {place['of']:,} splats are in --region" in said
    # 12 % of the points are inside, and measured: 79 % of what grows
    grown, all_grown = place["splats"] - before, place["of"] - 3500
    assert grown > 300 and grown > 0.4 * all_grown, (grown, all_grown)
    assert 0 < place["photographs"] <= 35
    assert metrics["photographs"] == {"blurred": [], "excluded": []}
    saved = (tmp_path / "config.toml").read_text()
    assert "region = [" in saved


def test_blurred_photographs_are_named(tmp_path, capsys):
    folder = Path(shutil.copytree(COURTYARD, tmp_path / "scene"))
    path = folder / "images" / "view_0013.jpg"
    cv2.imwrite(str(path), cv2.GaussianBlur(cv2.imread(str(path)), (0, 0), 2.5))
    with closing(PhotographLoader(load_scene(folder, data_factor=2))) as photographs:
        images = [*photographs.training(quiet=True)]
        for image in images:
            image[-5:] = 0
        photographs.look_for_blur(images, quiet=False)
        assert photographs.about == {"blurred": ["view_0013.jpg"], "excluded": []}
    said = capsys.readouterr()
    assert "look blurred next to their neighbours: view_0013.jpg;" in said.out + said.err
    assert "seem to have a black border, 5 px at the bottom: splats" in said.out + said.err


def test_settings_that_do_not_fit(error_of):
    mcmc = error_of("train", COURTYARD, "--region", "0,0,0,1", "--strategy", "mcmc")
    assert "--region belongs to --strategy budget; this run has mcmc" in mcmc
    blocks = error_of("train", COURTYARD, "--region", "0,0,0,1", "--blocks", "2x1")
    assert "--region and --blocks exclude each other" in blocks
    assert "--region: expected a list of numbers" in error_of("train", COURTYARD, "--region", "a,b")
