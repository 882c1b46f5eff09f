"""The catalog of shader modules has whatever a command builds: wheels need no compiler.

Sessions and rasterizers of the commands run for every row of the registries, on a device that
claims to have every feature: only compiling, building and recording are left out."""

import itertools
from concurrent.futures import Future
from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat.base.errors import UserError
from hardsplat.fit.config import FIT_FIELDS, FitConfig
from hardsplat.fit.session import FitSession
from hardsplat.fitmesh.config import MESH_FIELDS
from hardsplat.gpu import probe
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory import buffer
from hardsplat.gpu.passes import shader
from hardsplat.gpu.passes.declared import Pipeline
from hardsplat.gpu.passes.pipelines import build
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.raster.backends import BACKENDS
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.sinks import STORE, STORE_ROWS, adam
from hardsplat.raster.hardware.rows import HardwareOptions
from hardsplat.raster.pictures import FIT_SCREEN_PASS
from hardsplat.render.painter import Painter
from hardsplat.settings.option import kind
from hardsplat.settings.rasterizers import Stochastic
from hardsplat.settings.train import FIELDS, TrainConfig
from hardsplat.step.photos import Photos
from hardsplat.study.bench.measure import Bench
from hardsplat.tables.fits import FIT_RASTERS
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.hardware import BLENDINGS, ORDERINGS, QUADS
from hardsplat.tables.pictures import PICTURES
from hardsplat.train.job.facts import Views
from hardsplat.train.measure.measure import Evaluator
from hardsplat.train.session.session import Session
from hardsplat.view.gui.canvas import GUI_PASS
from tests.helpers import meshing
from tests.helpers.training import job_of
from tools import catalog

SIZE = 16
CAMERA = Camera(np.eye(4), [[SIZE, 0, 8], [0, SIZE, 8], [0, 0, 1]], SIZE, SIZE)
SPLATS = Gaussians([[0, 0, 2.0]], [[1, 0, 0, 0]], [[0.2] * 3], [0.5], np.ones((1, 1, 3)))


class Claims:
    """Capabilities that lack nothing but `lacking`; Vulkan is asked for what it was."""

    def __init__(self, real, lacking=()):
        self.real, self.lacking = real, lacking

    def __contains__(self, name):
        return name in self.real

    def missing(self, needs):
        return [name for name in needs if name in self.lacking]


class Builders:
    """In place of threads that compile and build: notes the sources asked for."""

    def __init__(self):
        self.found = set()

    def submit(self, make, *given):
        done = Future()
        if len(given) == 1:  # a module of one source
            self.found.update(given)
            done.set_result((b"", None))
        else:
            _, owner, _ = given
            self.found.update(owner.sources())
            done.set_result(Pipeline(owner, None, None, None, [], (1, 1, 1)))
        return done


@pytest.fixture(scope="module")
def shipped():
    return {shader.key(source) for source in set(catalog.sources())}


@pytest.fixture(autouse=True)
def asked(device, monkeypatch, shipped):
    """The sources of all pipelines that a test builds are in the catalog."""
    builders = Builders()
    monkeypatch.setenv("HARDSPLAT_POISON", "0")  # nothing is read
    # undone before the device is looked through
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shader, "compiler", Mock(side_effect=UserError("no GLSL compiler")))
        patch.setattr(device, "builders", builders)
        patch.setattr(device, "pipelines", {})
        patch.setattr(device, "capabilities", Claims(device.capabilities))
        patch.setattr(Recorder, "run", lambda *args, **how: None)
        patch.setattr(buffer.Buffer, "upload", lambda *args: None)
        yield builders.found
    assert not [str(each) for each in builders.found if shader.key(each) not in shipped]


def choices(f) -> tuple:
    return (False, True) if kind(f) is bool else f.metadata["choices"] or ()


def train(device, config, channels=3):
    views = Views([CAMERA], (SIZE, SIZE), 1.0)
    job = job_of(device, config, views, splats=1)
    photos = Photos(device, [np.zeros((SIZE, SIZE, channels), np.uint8)], "gpu", 2)
    session = Session(device, job, photos, lambda batch: None)
    try:
        session.start(SPLATS)
        Evaluator(session.raster).destroy()
    finally:
        session.destroy()


REFUSED = """deterministic takes
gradient stochastic finds no
the steps of --format unorm8 drown
--blending lists goes with exact gradients
 needs --gradient analytic
--background sphere does not go with --gradient stochastic""".splitlines()
# what says how files are read and runs are watched
BESIDE = "rasterizer resume mask_mode undistort init_type log quiet verbose".split()
GRADIENTS = [g for g in FIELDS["gradient"].metadata["choices"] if g != "auto"]


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("rasterizer", BACKENDS)
def test_training_finds_its_modules(device, rasterizer, gradient):
    """With every value of every option, and with all that say how the gradients become a step."""
    base = dict(rasterizer=rasterizer, gradient=gradient, strategy="none", images="gpu")
    base["sh_degree"] = 1
    named = {name: f for name, f in FIELDS.items() if name not in BESIDE}
    wanted = [{name: value} for name, f in named.items() for value in choices(f)]
    wanted = [changes for changes in wanted if changes.get("gradient", "auto") == "auto"]
    axes = {name: choices(FIELDS[name]) for name in ("strategy", "moments", "visible_adam")}
    wanted += [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    refused = set()
    for channels, changes in zip(itertools.cycle((3, 4)), wanted):
        try:
            train(device, TrainConfig.of(**base | changes), channels)
        except UserError as error:
            refused.add(str(error))
    assert all(any(words in error for words in REFUSED) for error in refused), refused


def draws(device, options, parameters, pictures=("image",), sink=STORE, name="hardware"):
    raster = BACKENDS[name](device, parameters, SIZE, SIZE, options, sink)
    recorder = Recorder(device, raster.resources)
    for picture in pictures:
        raster.record_forward(recorder, picture)
    recorder.end()
    recorder.destroy()
    raster.destroy()


@pytest.fixture
def parameters(device):
    out = Parameters(device, 8, 0, gradients="all")
    yield out
    out.destroy()


@pytest.mark.parametrize("lacking", [(), *(row.needs for row in QUADS.values() if row.needs)])
def test_draws_find_their_modules(device, parameters, lacking, monkeypatch):
    """In all combinations of rows that share a module: forward, backward, state, outlines."""
    monkeypatch.setattr(device, "capabilities", Claims(device.capabilities.real, lacking))
    stochastic = (None, Stochastic())

    def every(*names):
        rows = [[c for c in choices(FIELDS[name]) if c not in ("auto", "same")] for name in names]
        return (dict(zip(names, values)) for values in itertools.product(*rows))

    def drawn(*more, **options):
        draws(device, HardwareOptions(**options), parameters, *more)

    backward = every("reduction", "atomics", "ordering", "block")
    for options, gradient in itertools.product(backward, stochastic):
        drawn(**options, stochastic=gradient)
    for options in every("format", "state_format", "ordering", "block"):
        drawn(**options)
    for options, segments in itertools.product(every("format", "blending", "ordering"), (1, 3)):
        blending = BLENDINGS[options["blending"]]
        together = blending.goes_with(ORDERINGS[options["ordering"]])
        if (blending.ordered and segments > 1) or not together:
            continue  # refused
        if options["format"] != "unorm8" and not blending.listed:
            drawn(**options, segments=segments, stochastic=stochastic[-1])
        drawn(PICTURES, **options, segments=segments)
        drawn(PICTURES, None, **options, segments=segments)
    for options, gradient in itertools.product(every("shape", "blending"), stochastic):
        if not (gradient and BLENDINGS[options["blending"]].listed):
            drawn(**options, stochastic=gradient)


@pytest.mark.parametrize("lanes", [8, 32])  # wide subgroups list splats in another way
def test_tiles_find_their_modules(device, parameters, lanes, monkeypatch):
    monkeypatch.setattr(device, "subgroup_size", lanes)
    options, rows = BACKENDS["tiled"].options, ("tile_backward", "atomics")
    for backward, atomics in itertools.product(*(choices(FIELDS[row]) for row in rows)):
        given = options(tile_backward=backward, atomics=atomics)
        for sink in (STORE, adam(), None):
            draws(device, given, parameters, PICTURES, sink, "tiled")
        draws(device, given, parameters, ("image",), STORE_ROWS, "tiled")
    draws(device, options(stochastic=Stochastic()), parameters, PICTURES, STORE, "tiled")


@pytest.mark.parametrize("rasterizer", FIT_RASTERS)
def test_a_fit_finds_its_modules(device, rasterizer):
    photo = np.zeros((SIZE, SIZE, 3), np.uint8)
    options = {name: choices(FIT_FIELDS[name]) for name in ("atomics", "format", "loss")}
    options["reduction"] = ("auto", *FIT_RASTERS[rasterizer].reductions)
    for values in itertools.product(*options.values()):
        config = FitConfig(rasterizer=rasterizer, **dict(zip(options, values)))
        FitSession(device, config, photo, 4).destroy()
    build(device, FIT_SCREEN_PASS)


def test_meshes_find_their_modules(device):
    rng = np.random.default_rng(0)
    mesh, camera = meshing.sheet(rng)
    texture = meshing.smooth(rng, 5, 6, 3)
    photo = np.zeros((meshing.HEIGHT, meshing.WIDTH, 4), np.uint8)
    for atomics in choices(MESH_FIELDS["atomics"]):
        meshing.opened(device, mesh, camera, photo, texture, atomics=atomics).destroy()


def test_pictures_and_windows_find_their_modules(device):
    frame, pictures = frame_data(0, (0, 0, 0), 0.2), tuple(PICTURES)
    for name, format, transparent in itertools.product(BACKENDS, FORMATS, (False, True)):
        config = TrainConfig.of(rasterizer=name, format=format)
        options = BACKENDS[name].options.of(config.raster, config.gradient)
        given = device, BACKENDS[name], options, SPLATS, SIZE, SIZE, pictures, frame, transparent
        Painter(*given).destroy()
    for owner in (GUI_PASS, *probe.PASSES):
        build(device, owner)


def test_the_bench_finds_its_modules(device, monkeypatch):
    monkeypatch.setenv("HARDSPLAT_POISON", "1")  # it reads what nothing wrote: zeros
    monkeypatch.setattr(buffer, "POISON", 0)
    bench = Bench(device, SPLATS, [CAMERA], repeats=1)
    for name, moments in itertools.product(BACKENDS, choices(FIELDS["moments"])):
        bench.measure(name, {"moments": moments})
        bench.errors(name, {})


def test_every_shader_is_in_a_module():
    """Those of a stage; the others are included, or a row of a registry names them."""
    files = [path for path in shader.SHADERS.rglob("*") if path.suffix[1:] in shader.STAGES]
    stages = {path.relative_to(shader.SHADERS).as_posix() for path in files}
    assert stages == {source.path for source in catalog.sources()}
