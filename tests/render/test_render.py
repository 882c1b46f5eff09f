"""Pictures of splats against the oracle; camera paths; stills and videos; bad input."""

import json
import re

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image, ImageSequence
from scipy.spatial.transform import Rotation

from hardsplat.cli import main
from hardsplat.io.camera_path import read_camera_path
from hardsplat.io.media.images import read_pixels, to_uint8
from hardsplat.io.media.video import frames
from hardsplat.io.scenes.scene import load_scene
from hardsplat.model.framing import look_at, scene_bounds
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.render.painter import Painter
from hardsplat.render.paths import along, orbit
from hardsplat.tables.pictures import PICTURES
from tests.helpers.drawing import fresh_seed, splats_of
from tests.helpers.goldens import random_scene, relative_l2, scene_of
from tests.helpers.splat_files import points_of, result_of
from tests.helpers.tables import refusal, rows
from tests.oracle import pictures, project

BACKGROUND, SIZE, NEAR = (0.2, 0.5, 0.8), (61, 47), 0.01
DRAWS = [("hardware", {"format": "float32", "blending": "fixed"})]
DRAWS += [("hardware", {"format": "float32", "blending": "programmable"}), ("tiled", {})]
DRAWS += [("hardware", {"format": "float32", "blending": "fixed", "segments": 3})]


def fresh() -> tuple[Gaussians, Camera]:
    return splats_of(random_scene(fresh_seed(), 120, *SIZE, 1, overlap=10))


@pytest.fixture
def paint(device):
    """paint(gaussians, size, modes, way, transparent) -> a Painter; way: of DRAWS."""
    made = []

    def make(gaussians, size=SIZE, modes=tuple(PICTURES), way=DRAWS[0], transparent=False):
        backend = BACKENDS[way[0]]
        options = backend.options(**way[1])
        frame = frame_data(gaussians.sh_degree, BACKGROUND, NEAR)
        made.append(Painter(device, backend, options, gaussians, *size, modes, frame, transparent))
        return made[-1]

    yield make
    for painter in made:
        painter.destroy()


@pytest.mark.parametrize("way", DRAWS, ids=str)
def test_pictures_agree_with_the_oracle(device, paint, way):
    scene = random_scene(5, 120, *SIZE, 1, overlap=10)
    gaussians, camera = splats_of(scene)
    painter = paint(gaussians, way=way)
    p = project(**scene_of(scene), near=NEAR)
    depth, weight = pictures.depth(p, *SIZE[::-1])
    off = np.where(weight > 0.01, painter.values("depth", camera) - depth, 0)
    assert np.abs(off).max() < 1e-3 and weight.max() > 0.5
    if way[1].get("blending") != "fixed":
        for name in ("median", "surface"):
            exact, drawn = getattr(pictures, name)(p, *SIZE[::-1]), painter.values(name, camera)
            # rounding moves half of the light behind another splat
            assert (np.abs(drawn - exact) > 1e-3).mean() < 5e-3 and (exact > 0).mean() > 0.3
    # A fragment at the cut-off is a step of 1/255.
    assert np.abs(painter.values("alpha", camera) - weight).max() < 5e-3
    counted, exact = painter.values("count", camera), pictures.count(p, *SIZE[::-1])
    assert exact.max() > 8 and np.abs(counted - exact).max() <= 1
    assert (counted != exact).mean() < 5e-3
    shown = painter.draw("outlines", camera)[..., :3] / 255
    lines = np.clip(pictures.outlines(p, *SIZE[::-1], BACKGROUND), 0, 1)
    assert relative_l2(shown, lines) < 5e-3  # 8 bits: 1/255/sqrt(12) of colours around 0.5


@pytest.mark.parametrize("way", [("hardware", {"format": "float16"}), ("tiled", {})], ids=str)
def test_the_image_is_that_of_the_api(device, paint, way):
    gaussians, camera = fresh()
    painter = paint(gaussians, way=way)
    painter.draw("outlines", camera)
    shown = painter.draw("image", camera)
    with Renderer(device, way[0], **way[1]) as renderer:
        image, T = renderer.forward(gaussians, camera, background=BACKGROUND, near=NEAR)
    difference = np.abs(shown[..., :3].astype(int) - to_uint8(image))
    assert difference.max() <= 1 and difference.mean() < 1e-3  # 1: ties of rounding
    assert (shown[..., 3] == 255).all()
    assert np.abs(painter.values("alpha", camera) - (1 - T)).max() == 0


def test_numbers_take_their_colours_from_the_palette(paint):
    gaussians, camera = fresh()
    painter = paint(gaussians, modes=("depth", "count", "alpha"))
    for picture, span in (("depth", (2.5, 4.0)), ("count", (0.0, 12.0)), ("alpha", (0.0, 1.0))):
        painter.span(picture, *span)
        shown = painter.draw(picture, camera)[..., :3] / 255
        values = painter.values(picture, camera, drawn=True)
        weight = painter.values("alpha", camera) if picture == "depth" else np.ones_like(values)
        place = np.clip((values - span[0]) / (span[1] - span[0]), 0, 1)
        index = np.floor(place * 255 + 0.5).astype(int)
        colors = colormaps[PICTURES[picture].palette](index)[..., :3]
        wanted = weight[..., None] * colors + (1 - weight[..., None]) * BACKGROUND
        # A value between two colours of the palette may take either.
        assert np.quantile(np.abs(shown - wanted), 0.999) < 0.03, picture
        assert len(np.unique(shown.reshape(-1, 3), axis=0)) > 8


def ring_of_cameras(up, centre, n=7, radius=3.0, height=1.2) -> list[Camera]:
    rng = np.random.default_rng(n)
    e1 = np.cross(up, [0.3, 0.5, 0.7])
    e1 /= np.linalg.norm(e1)
    angles = rng.uniform(0, 2 * np.pi, n)
    circle = np.outer(np.cos(angles), e1) + np.outer(np.sin(angles), np.cross(up, e1))
    K = np.array([[50, 0, 32], [0, 50, 24], [0, 0, 1]])
    at = centre + height * up + radius * circle
    return [Camera(look_at(p, centre, up), K, 64, 48) for p in at]


def splats(n=200, at=(0, 0, 0), size=1.0) -> Gaussians:
    rng = np.random.default_rng(n)
    means, colors = rng.normal(size=(n, 3)) * size + at, rng.integers(0, 256, (n, 3))
    return Gaussians.from_points(means, colors, 1, opacity=0.5)


def axes_of(w2c):
    return -np.einsum("nji,nj->ni", w2c[:, :3, :3], w2c[:, :3, 3]), w2c[:, 2, :3], w2c[:, 1, :3]


def test_orbit_goes_where_the_cameras_are():
    up, centre = np.array([1.0, 2, 2]) / 3, np.array([4.0, -2, 7])
    cameras = ring_of_cameras(up, centre, 400)
    setting = scene_bounds(splats(at=(90, 0, 0)), cameras)
    np.testing.assert_allclose(setting.centre, centre, atol=1e-6)
    assert setting.up @ up > 0.999  # of 400 cameras at random places
    positions, forwards, downs = axes_of(orbit(scene_bounds(splats(), cameras, up), 36, 1.0))
    steps = np.linalg.norm(np.diff(positions, axis=0, append=positions[:1]), axis=1)
    for found, wanted in (
        ((positions - centre) @ up, 1.2),
        (np.linalg.norm(positions - centre - 1.2 * up, axis=1), 3.0),
        (positions[0], cameras[0].position),
        (np.einsum("ni,ni->n", forwards, centre - positions), np.hypot(3, 1.2)),
        (steps, steps[0]),  # also from the last to the first
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * min(1, steps[0]))
    assert (downs @ up < -0.9).all()


def keyframes(n, rng) -> list[dict]:
    c2w = np.tile(np.eye(4), (n, 1, 1))
    c2w[:, :3, :3] = Rotation.random(n, random_state=int(rng.integers(1000))).as_matrix()
    c2w[:, :3, 3] = rng.normal(size=(n, 3))
    at = [{"fov": 40 + 5 * i, "time": float(i + 0.3 * (i % 2))} for i in range(n)]
    return [{"c2w": m.tolist()} | key for m, key in zip(c2w, at)]


def saved(tmp_path, top) -> str:
    (tmp_path / "path.json").write_text(json.dumps(top))
    return str(tmp_path / "path.json")


@pytest.mark.parametrize("n, loop", [(1, False), (2, False), (5, False), (2, True), (5, True)])
def test_keyframes_are_passed_smoothly(tmp_path, n, loop):
    keys = keyframes(n, np.random.default_rng(fresh_seed()))
    for key in keys[1::2]:  # both ways to say it
        key["w2c"] = np.linalg.inv(key.pop("c2w")).tolist()
    path = read_camera_path(saved(tmp_path, {"keyframes": keys, "loop": loop, "fps": 25}))
    times = [k["time"] for k in keys]
    end = times[-1] + (np.mean(np.diff(times)) if loop and n > 1 else 0)
    steps = 1000
    w2c, focal = along(path, steps + (not loop))
    assert len(w2c) == steps + (not loop) and path.fps == 25
    for key, time in zip(keys, times):
        i = round((time - times[0]) / max(end - times[0], 1e-9) * steps) % len(w2c)
        exact = np.linalg.inv(key["c2w"]) if "c2w" in key else np.array(key["w2c"])
        assert np.abs(w2c[i] - exact).max() < 0.05
        assert abs(2 * np.degrees(np.arctan(0.5 / focal[i, 0])) - key["fov"]) < 0.2
    positions, _, _ = axes_of(w2c)
    speed = np.diff(np.concatenate([positions, positions[:2]]) if loop else positions, axis=0)
    length = np.linalg.norm(speed, axis=1).max()
    if n > 1:  # no corner
        assert np.linalg.norm(np.diff(speed, axis=0), axis=1).max() < 0.05 * length


POSE = np.eye(4).tolist()
KEY = {"c2w": POSE, "fov": 50}
BAD_KEYS = [  # a list of key frames
    ([], "the camera path is empty"),
    ([3], "no list of objects"),
    ([{"fov": 50}], "keyframe 0: has no c2w or w2c"),
    ([{"c2w": POSE}], "keyframe 0: has neither fov nor fx and fy"),
    ([{"c2w": POSE, "fx": 5, "fy": 5}], "are in pixels; add width and height"),
    ([KEY | {"fov": 180}], "fov is 180, expected a number of 0.1 to 179"),
    ([KEY | {"fov": float("nan")}], "fov is nan"),
    ([{"c2w": [[float("nan")] * 4] * 4, "fov": 50}], "NaN or infinite"),
    ([{"w2c": np.diag([1, 1, -1, 1]).tolist(), "fov": 50}], "reflection"),
    ([{"c2w": "here", "fov": 50}], "c2w is not a 4x4 matrix of numbers"),
    ([KEY | {"time": t} for t in (0, 1, 1)], "keyframe 2: time 1 is not after that of the one be"),
    ([KEY | {"time": "now"}], "time is now, expected a number"),
]
BAD_PATHS = [({"keyframes": keys}, words) for keys, words in BAD_KEYS]
BAD_PATHS += [
    ({"keyframes": [KEY], "width": 0, "height": 5}, "width is 0, expected a number of 1 to"),
    ({"keyframes": [KEY], "fps": "fast"}, "fps is fast"),
    ({"camera_type": "equirectangular", "camera_path": [KEY]}, "is not supported"),
]


@pytest.mark.parametrize("top, words", BAD_PATHS)
def test_camera_paths_that_are_none(tmp_path, top, words):
    assert words in refusal(read_camera_path, saved(tmp_path, top))


def test_pictures_of_numbers_say_their_range(result, tmp_path, capsys):
    """In the picture, and in a line; without --legend the picture alone is what it was."""
    options = "--frames 1 --width 320 --mode depth image --range 1 9".split()
    for argv, folder in (((), "with"), (("--no-legend",), "without")):
        run(result, *options, "--output", tmp_path / folder, *argv)
    said = capsys.readouterr().out
    assert said.count("\ncolours: depth from 1 to 9\n") == 2
    for mode, differs in (("depth", True), ("image", False)):
        a, b = (read_pixels(tmp_path / f / f"frame_00000.{mode}.png") for f in ("with", "without"))
        assert np.array_equal(a, b) != differs
        assert np.array_equal(a[:, 240:], b[:, 240:])  # the right side is free
    run(result, "--path", "held-out", "--mode", "count", "--output", tmp_path / "c")
    words = r"\ncolours: count from 0 to [\d.]+ \(--range LOW HIGH chooses others\)\n"
    assert re.search(words, capsys.readouterr().out)


def frames_of(path) -> list[np.ndarray]:
    if path.suffix == ".mp4":
        return [image for _, image in frames(path)]
    with Image.open(path) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


@pytest.fixture
def result(scene, tmp_path, on_device):
    return result_of(tmp_path / "result", points_of(scene), data_dir=scene, background="white")


def run(*argv) -> None:
    assert main(["render", *map(str, argv), "--quiet"]) == 0


def test_stills_of_held_out_views(result, scene, device, error_of):
    run(result, "--path", "held-out")
    out = sorted((result / "held-out").iterdir())
    opened = load_scene(scene)
    assert [p.name for p in out] == [f"{opened.views[i].name}.png" for i in opened.test]
    first = f"{opened.views[opened.test[0]].name}.png: exists; add --overwrite to replace it"
    assert first in error_of("render", result, "--path held-out")
    with Renderer(device) as renderer:
        camera = opened.views[opened.test[1]].camera
        image, _ = renderer.forward(points_of(scene), camera, background=(1, 1, 1))
    assert np.abs(read_pixels(out[1]).astype(int) - to_uint8(image)).max() <= 1


def test_videos_along_paths(result, tmp_path, error_of):
    options = "--frames 5 --width 40 --mode image outlines --sh-degree 0".split()
    run(result, *options, "--output", tmp_path / "new/o.mp4")
    found = {p.name: len(frames_of(p)) for p in (tmp_path / "new").iterdir()}
    assert found == {"o_image.mp4": 5, "o_outlines.mp4": 5}
    words = [*options, "--output", tmp_path / "new/o.mp4"]
    assert "o_image.mp4: exists; add --overwrite" in error_of("render", result, *words)
    run(result, *words, "--overwrite")
    options = "--path spiral --frames 4 --width 31 --height 23 --rasterizer tiled".split()
    run(result, *options, "--output", tmp_path / "s.gif")
    assert [f.shape for f in frames_of(tmp_path / "s.gif")] == [(23, 31, 3)] * 4
    keys = keyframes(3, np.random.default_rng(1))
    path = saved(tmp_path, {"keyframes": keys, "width": 32, "height": 24, "fps": 5})
    run(result, "--path", path, "--output", tmp_path / "k.webp", "--mode", "depth")
    assert len(frames_of(tmp_path / "k.webp")) == 11  # 2 s at 5 a second, both ends


def test_ctrl_c_in_the_command(result, tmp_path, monkeypatch, capfd):
    draw, drawn = Painter.draw, []

    def interrupted(self, *given):
        drawn.append(given)
        if len(drawn) > 3:
            raise KeyboardInterrupt
        return draw(self, *given)

    monkeypatch.setattr(Painter, "draw", interrupted)
    film = tmp_path / "o.mp4"
    assert main(["render", str(result), "--width", "32", "--output", str(film)]) == 130
    assert len(frames_of(film)) == 3
    assert "stopped: 3 of 120 frames are in" in capfd.readouterr().err


BAD_ARGUMENTS = rows(
    """
    --mode normals | choose from image, depth, alpha, count, outlines, median, surface
    --output film.avi | film.avi: expected an ending of .mp4, .gif, .webp, or a folder for PNG
    --output /dev/null/new/film.mp4 | film.mp4: cannot be written: /dev/null is a file
    --output film.mp4 --background transparent | --background transparent is for stills
    --output film.mp4 --depth-raw | --depth-raw is for stills
    --background greenish | --background greenish: expected a colour by name or as #rrggbb
    --mode depth --format unorm8 | unorm8 cannot hold --mode depth; use float32 or float16
    --mode count --format float16 | --format float16 cannot hold --mode count; use float32
    --range 1 2 | --range 1 2: expected a --mode with a palette
    --range 2 1 --mode depth | --range 2 1: expected LOW below HIGH
    --range 1 2 --mode depth count | expected one --mode with a palette, not depth and count
    --frames 0 | --frames 0: expected a number of 1 to
    --width -4 | --width -4: expected a number of 1 to
    --fov 190 | --fov 190.0: expected a number of 0.1 to 179
    --sh-degree 3 | --sh-degree 3: expected a degree of 0 to 1
    --width 60000 --height 60000 | lower --width
    --moed image | unknown flag '--moed'; did you mean '--mode'?
    """
)


@pytest.mark.parametrize("argv, words", BAD_ARGUMENTS)
def test_bad_input(result, error_of, argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Painter, "draw", lambda *given: pytest.fail("too late"))
    assert words in error_of("render", result, argv, "--quiet")


def test_models_that_are_none(result, error_of, tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK")
    (tmp_path / "b.npz").write_bytes(b"junk that numpy takes for a pickle")
    (tmp_path / "alone.ply").write_bytes((result / "splats.ply").read_bytes())
    for name, words in rows(
        """
        none.ply | none.ply: not found
        . | give a result folder
        a.npz | a.npz: not an .npz, or cut short
        b.npz | b.npz: not an .npz, or cut short
        alone.ply | add --data-dir SCENE, or use --path orbit
        """
    ):
        assert words in error_of("render", tmp_path / name, "--path spiral")
