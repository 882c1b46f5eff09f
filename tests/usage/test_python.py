"""Python's face: every public name is called with every keyword that it has, at the smallest size.

A keyword that is added fails `test_every_keyword_was_given` until a call here has it.
"""

import inspect
from collections import defaultdict
from importlib import import_module

import numpy as np
import pytest

import hardsplat
from hardsplat.fit.config import FIT_FIELDS
from hardsplat.model.sky import Sky
from hardsplat.settings.run import BlockSettings
from hardsplat.settings.train import TrainConfig, chosen_settings
from tests.usage.cases import STEPS

# packages that are functions too: where the function is
HOMES = {"export": "export.page", "fit": "fit.api", "mesh": "mesh.build", "train": "train.api"}
RETURNED = {"Result": "train.api", "Fitted": "fit.api"}  # classes without a public name
APART = ("UserError", "__version__", "Server")  # raised, text, and a watcher, see tests/serve
GIVEN: dict[str, set[str]] = defaultdict(set)  # public name -> keywords that it was called with
# choices that bring all settings in: others are not looked at with the defaults
SWITCHES = {owner.flag: True for owner in TrainConfig.owners() if owner.values == (True,)}
CHOICES = (
    {"rasterizer": "tiled", **SWITCHES},
    {"rasterizer": "hardware", "strategy": "adaptive", "exposure": "affine"},
    {"strategy": "mcmc", "exposure": "ppisp"},
    {"gradient": "stochastic", "strategy": "none"},
)


def function(name: str):
    """The callable of a public name, or of a method of one, as `Renderer.forward`."""
    name, _, method = name.partition(".")
    homes = HOMES | RETURNED
    home = import_module(f"hardsplat.{homes[name]}") if name in homes else hardsplat
    found = getattr(home, name)
    return getattr(found, method) if method else found


def call(name: str, /, *given, **named):
    """Calls it by its public name, and notes the keywords."""
    bound = inspect.signature(function(name)).bind(*given, **named)
    several = [p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    for word, value in bound.arguments.items():
        GIVEN[name].update(value if word in several else [word])
    owner, _, method = name.partition(".")
    public = function(owner) if owner in RETURNED else getattr(hardsplat, owner)
    return (getattr(public, method) if method else public)(*given, **named)


def plain(member: object) -> bool:
    """Whether a member of a class is a method."""
    return inspect.isfunction(member) or inspect.ismethod(member)


def keywords() -> dict[str, set[str]]:
    """Public name, or method of one -> its keywords."""
    found = {}
    for name in (*hardsplat.__all__, *RETURNED):
        if name in APART:
            continue
        parts = {} if name in RETURNED else {name: function(name)}
        if inspect.isclass(function(name)):
            members = inspect.getmembers(function(name), plain)
            parts |= {f"{name}.{m}": f for m, f in members if not m.startswith("_")}
        for each, called in parts.items():
            parameters = inspect.signature(called).parameters.values()
            found[each] = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    found["train"] -= BlockSettings.options().keys() | {"config"}  # another name of preset
    return found


@pytest.fixture(scope="module")
def result(opened, small, tmp_path_factory):
    """A training from Python."""
    folder, seen = tmp_path_factory.mktemp("python") / "result", []
    own = {"max_steps": STEPS, "result_dir": folder, "quiet": True}
    made = call("train", small, seen.append, preset="quick", watchers=[], **own)
    again = call("load_result", made.folder)
    assert seen and made.psnr == again.psnr and str(made) == str(again)
    assert len(made.gaussians) == made.metrics["splats"] and not made.antialiased
    assert "<iframe" in call("Result.show", made, height=99)._repr_html_()
    assert call("Result.plot", made)._repr_svg_().startswith("<")
    return made.folder


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: " ".join(map(str, choice.values())))
def test_settings(start, small, tmp_path, choice):
    named = chosen_settings(TrainConfig.of(**choice).flat())
    own = {"max_steps": STEPS, "result_dir": tmp_path / "run", "quiet": True}
    del named["data_dir"]
    made = call("train", small, **named | own)
    assert made.metrics["steps"] == STEPS and np.isfinite(made.psnr)


def test_files(start, result, small, tmp_path):
    path = result / "splats.ply"
    common = {"up": "y", "overwrite": True}
    drawn = {"data_dir": small, "device": None}
    call("export", result, tmp_path / "a.html", max_splats=99, sh_degree=1, min_opacity=0.01,
         title="a", **common, **drawn)  # fmt: skip
    call("lod", result, tmp_path / "lod", data_dir=small, title="a", quiet=True, **common)
    call("mesh", result, tmp_path / "a.ply", depth="surface", voxel="auto", max_depth=9.0,
         triangles=500, pieces=9, texture_size=0, watertight=True, quiet=True,
         **common, **drawn)  # fmt: skip
    call("convert", path, tmp_path / "a.spz", sh_degree=1, crop=("sphere", "0", "0", "0", "9"),
         min_opacity=0.01, max_splats=99, morton=True, quiet=True, device=None, measured=True,
         edit=None, **common)  # fmt: skip
    assert len(call("load_splats", tmp_path / "a.spz")) <= 99
    gaussians = call("load_splats", path)
    call("save_splats", tmp_path / "b.ply", gaussians, antialiased=True)
    assert call("is_antialiased", tmp_path / "b.ply")


def test_a_fit(start, small, tmp_path):
    photo = next((small / "images").iterdir())
    own = {"max_steps": STEPS, "quiet": True, "result_dir": tmp_path / "fit"}
    named = {name: f.default for name, f in FIT_FIELDS.items()} | own
    made = call("fit", photo, **named)
    assert np.isfinite(made.psnr) and made.image.shape == (24, 32, 3)


def test_scenes_and_renderers(start, small, opened):
    folder = call("load_scene", small, data_factor=1, test_every=3, mask_mode="ignore",
                  undistort=True, exclude=["view_0001*"])  # fmt: skip
    images, cameras = [v.load() for v in folder.views], [v.camera for v in folder.views]
    names = [v.name for v in folder.views]
    made = call("Scene.of_images", cameras, images, folder.points, folder.colors, names,
                test_every=3, name="a")  # fmt: skip

    again = call("Scene", "b", made.views, made.points, made.colors, made.train, made.test,
                 made.extent, notes=(), excluded=(),
                 origin=(0.0, 0.0, 0.0))  # fmt: skip
    first = again.views[0].camera
    camera = call("Camera", first.w2c, first.K, 32, 24, distortion=None)
    call("Camera.pixels", camera, points=made.points)
    call("Camera.projected", camera, points=made.points)
    assert call("Camera.resized", camera, width=16, height=12).width == 16
    splats = call("Gaussians.from_points", made.points, made.colors, sh_degree=1, opacity=0.5)
    same = call("Gaussians.from_planes", planes=call("Gaussians.planes", splats, sh_degree=1))
    parts = (same.means, same.quats, same.scales, same.opacities, same.sh)
    more = dict(extra={}, sky=Sky.of_colors(np.ones((2, 2, 3))), check=True)
    both = call("Gaussians.concatenate", parts=[call("Gaussians", *parts, **more)])
    for name in ("hardware", "tiled"):
        renderer = call("Renderer", device=opened, rasterizer=name)
        call("Renderer.keep", renderer, gaussians=both)
        image, _ = call("Renderer.forward", renderer, both, camera, sh_degree=1,
                        background=(1.0, 1.0, 1.0), near=0.1)  # fmt: skip
        gradients = call("Renderer.backward", renderer, np.ones_like(image))
        assert all(np.isfinite(values).all() for values in (image, *gradients.values()))
        shares = call("Renderer.contributions", renderer, weights=np.ones_like(image))
        assert shares.shape == (len(both), 3) and shares.max() > 0
        assert call("Renderer.times", renderer)
        call("Renderer.close", renderer)


def test_every_keyword_was_given(result):
    """Of this module, which therefore runs whole."""
    missing = {name: words - GIVEN[name] for name, words in keywords().items()}
    assert not {n: words for n, words in missing.items() if words}, "give them in calls above"
