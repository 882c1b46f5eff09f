"""Every hardware variant against oracle, recordings and central differences."""

import itertools

import numpy as np
import pytest

from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.core.resolve import runnable
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.gradients import ATOMICS, REDUCTIONS
from hardsplat.tables.hardware import BLENDINGS, BLOCKS, ORDERINGS, SHAPES
from tests.helpers.drawing import PARAMETERS, agrees, clear_scene, exact, fresh_seed, splats_of
from tests.helpers.goldens import golden_names, load_golden, random_scene, relative_l2, scene_of
from tests.helpers.tables import refuses
from tests.oracle import render

# Relative L2 against float64: (image, worst gradient). float32: a fragment that rounding moves
# across alpha = 1/255 is a step of 1/255 of a colour in one pixel, 1.4e-5 of these images. The
# others are the worst of 60 scenes, doubled: the state of n splats a pixel is n roundings away from
# exact, and the step of unorm8 is the alpha cut-off itself.
TOLERANCE = {"float32": (1e-4, 1e-3), "unorm16": (1e-4, 2e-3)}
TOLERANCE |= {"float16": (1e-2, 0.18), "unorm8": (2e-2, 0.42)}


def in_range(scene: dict) -> dict:
    """The scene with colours well inside 0..1, which is all that a unorm target holds."""
    scene["sh"] *= 0.05
    scene["sh"][:, 0] = np.clip(scene["sh"][:, 0] * 10, -1, 1)
    return scene


@pytest.fixture
def check(device):
    """check(scene, limits, **options): a renderer's image and gradients are the oracle's."""

    def checked(scene, limits=(1e-4, 1e-3), near=0.01, **options):
        with Renderer(device, **{"format": "float32", **options}) as renderer:
            how = dict(near=near, antialiased=options.get("antialiased", False))
            agrees(renderer, scene, limits, options, **how)

    return checked


def ball(n=1, means=(0.0, 0.0, 2.0), scales=0.3, opacities=0.5, sh=1.0, planes=1) -> Gaussians:
    """Equal splats, but for arrays among the arguments."""
    rows = [np.broadcast_to(v, (n, 3)) for v in (means, scales)]
    quats = np.tile([1.0, 0, 0, 0], (n, 1))
    sh = np.broadcast_to(sh, (n, planes, 3))
    return Gaussians(rows[0], quats, rows[1], np.broadcast_to(opacities, n), sh)


def before(focal: float, size: int) -> Camera:
    """A camera at the origin."""
    K = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]])
    return Camera(np.eye(4), K, size, size)


SCENE = dict(n=200, width=61, height=47, overlap=12)


@pytest.mark.parametrize("format", FORMATS)
def test_every_variant_agrees_with_the_oracle(device, check, format):
    scene = in_range(random_scene(5, sh_degree=2, **SCENE))
    registries = [runnable(device, each) for each in (REDUCTIONS, ORDERINGS, BLENDINGS, ATOMICS)]
    if format != "float32":  # sums of gradients do not depend on it
        registries[-1] = registries[-1][:1]
    for rows in itertools.product(*registries):
        options = dict(zip(("reduction", "ordering", "blending", "atomics"), rows))
        if BLENDINGS[options["blending"]].goes_with(ORDERINGS[options["ordering"]]):
            check(scene, TOLERANCE[format], format=format, block="1x1", **options)


@pytest.mark.parametrize("format", FORMATS)
def test_a_fresh_scene_agrees_with_the_oracle(check, format):
    """Another one every time, in which rounding decides about no fragment."""
    scene = clear_scene(n=60, width=31, height=23, sh_degree=2, overlap=12, cut_off=3e-5)
    check(in_range(scene), TOLERANCE[format], format=format)


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_of_pixels_agree_with_the_oracle(device, check, waiting, format):
    """One fragment for several pixels, on a canvas that is no multiple of a block."""
    scene = in_range(random_scene(5, sh_degree=2, **SCENE))
    blocks = [block for block in BLOCKS if block != "1x1"]
    for block, reduction in itertools.product(blocks, runnable(device, REDUCTIONS)):
        options = dict(format=format, ordering=waiting, reduction=reduction, block=block)
        check(scene, TOLERANCE[format], **options)


@pytest.mark.parametrize("segments", [1, 4])
def test_splats_that_look_like_the_background(device, segments):
    """A float16 canvas keeps a thousandth of a colour; rounding would lose it."""
    scene = random_scene(7, sh_degree=0, **SCENE)
    noise = np.random.default_rng(7).uniform(-1e-3, 1e-3, scene["sh"][:, 0].shape)
    scene["sh"][:, 0] = (0.5 + noise) / SH_C0
    gaussians, camera = splats_of(scene)
    with Renderer(device, format="float16", blending="fixed", segments=segments) as renderer:
        image, _ = renderer.forward(gaussians, camera, background=(1.0, 1.0, 1.0))
    frame = render(**scene_of(scene), background=np.ones(3), near=0.01, termination="none")
    wanted = frame.image - 1
    assert relative_l2(image - 1, wanted) < 6e-3 and np.abs(wanted).max() < 2e-3


SIZES = {"small": dict(overlap=2), "plain": dict(overlap=12)}
SIZES["thin"] = dict(overlap=12, anisotropy=100)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("size", SIZES)
def test_antialiased(device, check, block, size):
    seed = fresh_seed()
    scene = random_scene(seed, 300, 61, 47, 1, **SIZES[size]) | {"seed": seed}
    check(scene, block=block, antialiased=True)
    images = []
    for antialiased in (False, True):
        options = dict(format="float32", block=block, antialiased=antialiased)
        with Renderer(device, **options) as renderer:
            images.append(renderer.forward(*splats_of(scene))[0])
    # ten times what an image may be off: the two are different pictures
    assert relative_l2(*images[::-1]) > 1e-3


@pytest.mark.parametrize("name", golden_names())
def test_goldens(device, check, name):
    golden = load_golden(name)
    with Renderer(device, format="float32") as renderer:
        image, _ = renderer.forward(*splats_of(golden))
        gradients = renderer.backward(golden["weight"])
    assert relative_l2(image, golden["gsplat_image"]) <= 1e-4
    for p in PARAMETERS:
        assert relative_l2(gradients[p], golden[f"gsplat_d_{p}"]) <= 5e-3, p
    check(golden)


@pytest.mark.parametrize("sh_degree", [0, 1, 3])
def test_cameras_and_scenes(check, sh_degree):
    """Off-centre, not square, overlap that finishes pixels, thin splats, a cutting near plane."""
    for n, size, options in (
        (400, (64, 33), dict(overlap=80, opacity=(0.6, 0.95))),
        (40, (64, 33), dict(anisotropy=200)),
        (60, (35, 70), dict(depth=(0.5, 3.0))),
    ):
        check(random_scene(5, n, *size, sh_degree, **options), near=1.0)


FINISHING = [("hardware", {"format": "float32", "blending": "programmable"}), ("tiled", {})]


@pytest.mark.parametrize("rasterizer, options", FINISHING)
def test_finished_pixels_take_no_more(device, rasterizer, options):
    """Behind four splats of alpha 0.95 a fifth is left out, however bright it is."""
    means, sh = np.c_[np.zeros((5, 2)), np.linspace(2, 3, 5)], np.zeros((5, 1, 3))
    sh[-1] = (1e4 - 0.5) / SH_C0
    gaussians, camera = ball(5, means, 20.0, 0.95, sh), before(16.0, 16)
    with Renderer(device, rasterizer, **options) as renderer:
        image = renderer.forward(gaussians, camera)[0]
    for termination, same in (("after", True), ("none", False)):
        error = relative_l2(image, exact(gaussians, camera, termination=termination).image)
        assert error < 1e-5 if same else error > 0.05


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("format", ["float16", "float32"])
def test_splats_that_are_not_finite_do_not_exist(device, format, bad):
    """Nor does one without a rotation: image and gradients of the others are as without them."""
    scene = random_scene(1, 24, 32, 32, 1)
    gaussians, camera = splats_of(scene)
    kept = np.arange(24) >= 5
    with Renderer(device, format=format) as renderer:
        image, _ = renderer.forward(gaussians[kept], camera)
        gradients = renderer.backward(scene["weight"])
        gaussians.means[0, 1] = gaussians.scales[1, 2] = bad
        gaussians.sh[2, 3, 0] = gaussians.quats[3, 1] = bad
        gaussians.quats[4] = 0
        with np.errstate(invalid="ignore"):
            assert np.array_equal(renderer.forward(gaussians, camera)[0], image)
        found = renderer.backward(scene["weight"])
    for name, values in found.items():
        assert not values[~kept].any() and relative_l2(values[kept], gradients[name]) < 1e-5, name


SCENES = {
    "usual": dict(n=200, overlap=12),
    "thin": dict(n=60, anisotropy=200),
    "below a pixel": dict(n=600, overlap=0.05),
    "faint": dict(n=200, overlap=12, opacity=(0.0038, 0.02)),  # an alpha of 1/255 is 0.0039
    "large": dict(n=40, overlap=40),
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_agrees_with_the_oracle(device, waiting, shape, block):
    if missing := device.capabilities.missing(SHAPES[shape].needs):
        pytest.skip(f"lacks {', '.join(missing)}")
    own = dict(format="float32", ordering=waiting, shape=shape, block=block)
    with Renderer(device, **own) as renderer:
        for name, options in SCENES.items():
            scene = random_scene(5, width=61, height=47, sh_degree=1, **options)
            # where all fragments are faint, one that rounding moves across the cut-off is 2e-2, in
            # one scene of 40
            agrees(renderer, scene, (1e-4, 5e-2 if name == "faint" else 1e-3), name)


@pytest.mark.parametrize("blending", BLENDINGS)
def test_images_of_all_shapes_are_equal(device, blending):
    """Bit by bit: the same fragments pass the alpha test in the same order."""
    own, shapes = dict(format="float32", blending=blending), runnable(device, SHAPES)
    made = {shape: Renderer(device, shape=shape, **own) for shape in shapes}
    for name, options in SCENES.items():
        seed = fresh_seed()
        given = splats_of(random_scene(seed, width=61, height=47, sh_degree=0, **options))
        frames = {shape: np.dstack(made[shape].forward(*given)) for shape in made}
        for shape, frame in frames.items():
            assert np.array_equal(frame, frames["quad"]), f"{shape}, {name}, seed {seed}"
    for renderer in made.values():
        renderer.close()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("block", BLOCKS)
def test_segments_agree_with_the_oracle(device, waiting, block, format):
    scene = in_range(random_scene(5, 200, 61, 47, 2, overlap=12))
    for segments in (2, 7) if format == "float32" else (3,):
        way = dict(format=format, ordering=waiting, block=block)
        with Renderer(device, segments=segments, **way) as renderer:
            agrees(renderer, scene, TOLERANCE[format], segments)
            assert renderer.raster.segments == segments


def test_no_more_than_fit_below_one_another_and_none_for_programmable_blending(device, monkeypatch):
    scene = random_scene(1, 20, 61, 47, 0)
    gaussians, camera = splats_of(scene)
    with Renderer(device, format="float32") as renderer:
        wanted, _ = renderer.forward(gaussians, camera)
    monkeypatch.setattr(device, "max_image", 3 * 47 + 5)
    with Renderer(device, format="float32", segments=8) as renderer:
        image, _ = renderer.forward(gaussians, camera)
        assert renderer.raster.segments == 3 and np.abs(image - wanted).max() < 1e-3
    for blending in ("programmable", "lists"):
        words = "--segments 8: canvases of depth segments are for the blending unit"
        words = f"{words}; use --blending fixed, not {blending}"
        refuses(words, Renderer, device, segments=8, blending=blending)


def test_finished_blocks_are_left_out(device, waiting):
    """At the transmittance of finished pixels nothing changes; above it the error is small."""
    scene = random_scene(5, 400, 61, 47, 1, overlap=60, opacity=(0.5, 0.9))
    gaussians, camera = splats_of(scene)
    found = {}
    for least in (0.0, 1e-4, 1e-2):
        way = dict(ordering=waiting, block="2x2", segments=8)
        with Renderer(device, format="float32", least_transmittance=least, **way) as renderer:
            renderer.forward(gaussians, camera)
            found[least] = renderer.backward(scene["weight"])
            assert "begin backward unfinished" in renderer.times()
    for name in PARAMETERS:
        assert relative_l2(found[1e-4][name], found[0.0][name]) < 1e-5, name
        assert 0 < relative_l2(found[1e-2][name], found[0.0][name]) < 2e-2, name
