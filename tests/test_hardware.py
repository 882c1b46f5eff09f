"""The hardware rasterizer against the float64 oracle, the recordings of an independent renderer, and central differences, for every variant that runs here."""

import itertools

import numpy as np
import pytest

from hardsplat.api import Camera, Gaussians, Renderer
from hardsplat.gaussians import SH_C0
from hardsplat.variants.atomics import ATOMICS
from hardsplat.variants.blending import BLENDINGS
from hardsplat.variants.blocks import BLOCKS
from hardsplat.variants.formats import FORMATS
from hardsplat.variants.ordering import ORDERINGS
from hardsplat.variants.reductions import REDUCTIONS
from hardsplat.variants.shapes import SHAPES
from tests.drawing import BACKGROUND, PARAMETERS, clear_scene, compare, fresh_seed, gaussians_of, runnable
from tests.goldens import golden_names, load_golden, random_scene, relative_l2, scene_of
from tests.oracle import render

# Relative L2 against float64: (image, worst gradient). float32: a fragment that rounding moves across alpha = 1/255 is a step of 1/255 of a
# colour in one pixel, 1.4e-5 of these images. The others are the worst of 60 scenes (docs/RESULTS.md), doubled: the state of n splats a pixel
# is n roundings away from exact, and the step of unorm8 is the alpha cut-off itself.
TOLERANCE = {"float32": (1e-4, 1e-3), "unorm16": (1e-4, 2e-3), "float16": (1e-2, 0.18), "unorm8": (2e-2, 0.42)}


def in_range(scene: dict) -> dict:
    """The scene with colours well inside 0..1, which is all that a unorm target holds."""
    scene["sh"] *= 0.05
    scene["sh"][:, 0] = np.clip(scene["sh"][:, 0] * 10, -1, 1)
    return scene


@pytest.mark.parametrize("format", FORMATS)
def test_every_variant_agrees_with_the_oracle(device, format):
    seed = 5
    scene = in_range(random_scene(seed=seed, n=200, width=61, height=47, sh_degree=2, overlap=12))
    image_limit, gradient_limit = TOLERANCE[format]
    blendings = runnable(device, BLENDINGS)
    rows = itertools.product(runnable(device, REDUCTIONS), runnable(device, ORDERINGS), blendings, runnable(device, ATOMICS))
    for reduction, ordering, blending, atomics in rows:
        if not BLENDINGS[blending].goes_with(ORDERINGS[ordering]):
            continue  # refused
        renderer = Renderer(device, format=format, reduction=reduction, ordering=ordering, blending=blending, atomics=atomics, block="1x1")
        image, gradients = compare(renderer, scene)
        renderer.close()
        what = f"{reduction} {ordering} {blending} {atomics}, seed {seed}: image {image}, {gradients}"
        assert image <= image_limit and max(gradients.values()) <= gradient_limit, what


@pytest.mark.parametrize("format", FORMATS)
def test_a_fresh_scene_agrees_with_the_oracle(device, format):
    """Another one every time, in which rounding decides about no fragment."""
    scene = in_range(clear_scene(n=60, width=31, height=23, sh_degree=2, overlap=12, cut_off=3e-5))
    with Renderer(device, format=format) as renderer:
        image, gradients = compare(renderer, scene)
    image_limit, gradient_limit = TOLERANCE[format]
    assert image <= image_limit and max(gradients.values()) <= gradient_limit, (scene["seed"], image, gradients)


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_of_pixels_agree_with_the_oracle(device, waiting, format):
    """One fragment for several pixels, on a canvas that is no multiple of a block, also with a state format of its own."""
    seed = 5
    scene = in_range(random_scene(seed=seed, n=200, width=61, height=47, sh_degree=2, overlap=12))
    for block, reduction in itertools.product([b for b in BLOCKS if b != "1x1"], runnable(device, REDUCTIONS)):
        renderer = Renderer(device, format=format, ordering=waiting, reduction=reduction, block=block)
        image, gradients = compare(renderer, scene)
        renderer.close()
        image_limit, gradient_limit = TOLERANCE[format]
        assert image <= image_limit and max(gradients.values()) <= gradient_limit, f"{block} {reduction}, seed {seed}: {image}, {gradients}"


@pytest.mark.parametrize("segments", [1, 4])
def test_splats_that_look_like_the_background(device, segments):
    """A float16 canvas keeps what they change of it, a thousandth of a colour, where a rounded colour would be the background's own."""
    scene = random_scene(seed=7, n=200, width=61, height=47, sh_degree=0, overlap=12)
    scene["sh"][:, 0] = (0.5 + np.random.default_rng(7).uniform(-1e-3, 1e-3, scene["sh"][:, 0].shape)) / SH_C0
    gaussians, camera = gaussians_of(scene)
    white = (1.0, 1.0, 1.0)
    with Renderer(device, format="float16", blending="fixed", segments=segments) as renderer:
        image, _ = renderer.forward(gaussians, camera, background=white)
    wanted = render(**scene_of(scene), background=np.array(white), near=0.01, termination="none").image - 1
    assert relative_l2(image - 1, wanted) < 6e-3 and np.abs(wanted).max() < 2e-3


@pytest.mark.parametrize("strength", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("overlap, limit", [(4, 2e-3), (40, 4e-3)])
def test_states_of_blocks_in_halves(device, waiting, overlap, limit, strength):
    """Behind a float32 target the state's own error is left, whatever the size of d_image; limits: twice the worst of 20 scenes, and 1e-3 for the alpha cut-off (see TOLERANCE)."""
    seed = 5
    scene = in_range(random_scene(seed, 200, 61, 47, 1, overlap=overlap))
    scene["weight"] *= strength
    scene["weight"][::3, ::5] = 0  # and a pixel without a gradient has no direction
    for state, most in (("float16", limit), ("float32", 1e-3)):
        renderer = Renderer(device, format="float32", ordering=waiting, state_format=state, block="2x2")
        _, gradients = compare(renderer, scene)
        renderer.close()
        assert max(gradients.values()) <= most, f"{state}, seed {seed}: {gradients}"


@pytest.mark.parametrize("block", BLOCKS)
def test_splats_of_a_few_pixels(device, waiting, block):
    """Many quads and few fragments a splat: where subgroups mix splats, several do in each."""
    seed = 5
    scene = random_scene(seed, n=600, width=25, height=19, sh_degree=0, overlap=2)
    for reduction in runnable(device, REDUCTIONS):
        renderer = Renderer(device, format="float32", ordering=waiting, reduction=reduction, hybrid_threshold=8, block=block)
        image, gradients = compare(renderer, scene)
        renderer.close()
        assert image <= 1e-4 and max(gradients.values()) <= 1e-3, f"{reduction}, seed {seed}: {image}, {gradients}"


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("options", [dict(overlap=2), dict(overlap=12), dict(overlap=12, anisotropy=100)], ids=["small", "plain", "thin"])
def test_antialiased(device, block, options):
    seed = fresh_seed()
    scene = random_scene(seed, 300, 61, 47, 1, **options)
    gaussians, camera = gaussians_of(scene)
    with Renderer(device, format="float32", block=block, antialiased=True) as renderer:
        image, gradients = compare(renderer, scene, antialiased=True)
        compensated = renderer.forward(gaussians, camera)[0]
    with Renderer(device, format="float32", block=block) as renderer:
        assert relative_l2(compensated, renderer.forward(gaussians, camera)[0]) > 1e-3  # ten times what an image may be off: the two are different pictures
    assert image <= 1e-4 and max(gradients.values()) <= 1e-3, f"seed {seed}: {image}, {gradients}"


@pytest.mark.parametrize("name", golden_names())
def test_goldens(device, name):
    golden = load_golden(name)
    renderer = Renderer(device, format="float32")
    gaussians, camera = gaussians_of(golden)
    image, _ = renderer.forward(gaussians, camera)
    gradients = renderer.backward(golden["weight"])
    renderer.close()
    assert relative_l2(image, golden["gsplat_image"]) <= 1e-4
    errors = {p: relative_l2(gradients[p], golden[f"gsplat_d_{p}"]) for p in PARAMETERS}
    assert max(errors.values()) <= 5e-3, errors


@pytest.mark.parametrize("name", golden_names())
def test_oracle_on_goldens(device, name):
    renderer = Renderer(device, format="float32")
    image, gradients = compare(renderer, load_golden(name))
    renderer.close()
    assert image <= 1e-4 and max(gradients.values()) <= 1e-3, (image, gradients)


@pytest.mark.parametrize("sh_degree", [0, 1, 3])
def test_cameras_and_scenes(device, sh_degree):
    """Off-centre camera, non-square image, a canvas reused for smaller sets, deep overlap that finishes pixels, thin splats, a near plane that cuts."""
    renderer = Renderer(device, format="float32")
    for n, size, options in (
        (400, (64, 33), dict(overlap=80, opacity=(0.6, 0.95))),
        (40, (64, 33), dict(anisotropy=200)),
        (60, (35, 70), dict(depth=(0.5, 3.0))),
    ):
        image, gradients = compare(renderer, random_scene(5, n, *size, sh_degree, **options), near=1.0)
        assert image <= 1e-4 and max(gradients.values()) <= 1e-3, (n, size, options, image, gradients)
    renderer.close()


@pytest.mark.parametrize("antialiased", [False, True])
def test_central_differences(device, antialiased):
    """The gradients are those of the images this renderer makes: directional derivatives of a weighted image sum, in float32."""
    # splats larger than the image: no fragment is near the alpha cut-off, where the image jumps
    size, overlap = ((2, 2), 56) if antialiased else ((48, 40), 110)  # of about one pixel, so that the compensation is far from 1
    scene = clear_scene(8, *size, 1, apart=0.02, lit=0.02, overlap=overlap, anisotropy=2.0, opacity=(0.3, 0.7))  # no step swaps two of them
    rng = np.random.default_rng(seed := scene["seed"])
    gaussians, camera = gaussians_of(scene)
    renderer = Renderer(device, format="float32", antialiased=antialiased)
    frame = renderer.forward(gaussians, camera, background=BACKGROUND)
    gradients = renderer.backward(scene["weight"])
    weight = scene["weight"].astype(np.float64)
    assert np.isfinite(frame[0]).all()
    for name in PARAMETERS:
        values = getattr(gaussians, name).astype(np.float64)
        # a step roughly along the gradient: a large signal, so that float32 images suffice
        direction = gradients[name].astype(np.float64) * rng.uniform(0.5, 1.5, values.shape)
        step = 6e-3 * np.abs(values).mean() / np.abs(direction).max()
        images = []
        for sign in (1, -1, 2, -2):
            moved = {**{p: getattr(gaussians, p) for p in PARAMETERS}, name: values + sign * step * direction}
            images.append(renderer.forward(Gaussians(**moved), camera, background=BACKGROUND)[0].astype(np.float64))
        # the formula of four points, exact to the fourth order: quaternions bend images within steps that float32 resolves
        measured = (weight * (8 * (images[0] - images[1]) - (images[2] - images[3]))).sum() / (12 * step)
        expected = (gradients[name] * direction).sum()
        # in 229 fresh scenes quaternions differed by up to 0.19 %, all others by up to 0.05 %
        assert abs(measured - expected) <= 0.005 * abs(expected), (name, measured, expected, seed)
    renderer.close()


@pytest.mark.parametrize("rasterizer, options", [("hardware", {"format": "float32", "blending": "programmable"}), ("tiled", {})])
def test_finished_pixels_take_no_more(device, rasterizer, options):
    """Behind four splats of alpha 0.95 T is below 1e-4: a fifth is left out, however bright it is."""
    n = 5
    colors = np.full((n, 1, 3), 0.5)
    colors[-1] = 1e4
    gaussians = Gaussians(np.c_[np.zeros((n, 2)), np.linspace(2, 3, n)], np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 20.0), np.full(n, 0.95), (colors - 0.5) / SH_C0)
    camera = Camera(np.eye(4), np.array([[16.0, 0, 8], [0, 16, 8], [0, 0, 1]]), 16, 16)
    arrays = (*(getattr(gaussians, p) for p in PARAMETERS), camera.w2c, camera.K, 16, 16, 0)
    with Renderer(device, rasterizer, **options) as renderer:
        image = renderer.forward(gaussians, camera)[0]
    assert relative_l2(image, render(*arrays, termination="after").image) < 1e-5
    assert relative_l2(image, render(*arrays, termination="none").image) > 0.05


def test_depth_ties_break_by_index_and_frames_repeat(device):
    n = 64
    rng = np.random.default_rng(fresh_seed())
    gaussians = Gaussians(np.tile([[0.0, 0.0, 2.0]], (n, 1)), np.tile([[1.0, 0, 0, 0]], (n, 1)), np.full((n, 3), 0.3), np.full(n, 0.3), rng.normal(0, 1, (n, 1, 3)))
    camera = Camera(np.eye(4), np.array([[32.0, 0, 16], [0, 32, 16], [0, 0, 1]]), 32, 32)
    renderer = Renderer(device, format="float32")
    first = renderer.forward(gaussians, camera)[0]
    exact = render(gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities, gaussians.sh, camera.w2c, camera.K, 32, 32, 0, termination="none")
    assert relative_l2(first, exact.image) < 2e-4  # equal splats cross the alpha cut-off together
    for _ in range(3):
        assert np.array_equal(renderer.forward(gaussians, camera)[0], first)
    renderer.close()


@pytest.mark.parametrize("axes", [(2.0, 2.0), (3.0, 1.0), (1.0, 3.0)])
def test_isotropic_and_axis_aligned_splats(device, axes):
    """Covariances without off-diagonal entry, both ways round: the eigenvector must not be 0/0."""
    scale = np.array([[axes[0] * 0.1, axes[1] * 0.1, 0.1]])
    gaussians = Gaussians(np.array([[0.0, 0.0, 2.0]]), np.array([[1.0, 0, 0, 0]]), scale, np.array([0.9]), np.ones((1, 1, 3)))
    camera = Camera(np.eye(4), np.array([[40.0, 0, 16], [0, 40, 16], [0, 0, 1]]), 32, 32)
    renderer = Renderer(device, format="float32")
    image, _ = renderer.forward(gaussians, camera)
    renderer.close()
    exact = render(gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities, gaussians.sh, camera.w2c, camera.K, 32, 32, 0)
    assert relative_l2(image, exact.image) < 1e-5


def test_nothing_to_draw(device):
    camera = Camera(np.eye(4), np.array([[40.0, 0, 16], [0, 40, 16], [0, 0, 1]]), 32, 32)
    empty = Gaussians(np.zeros((0, 3)), np.zeros((0, 4)), np.zeros((0, 3)), np.zeros(0), np.zeros((0, 1, 3)))
    behind = Gaussians(np.array([[0.0, 0, -2]]), np.array([[1.0, 0, 0, 0]]), np.ones((1, 3)), np.array([0.5]), np.ones((1, 4, 3)))
    renderer = Renderer(device)
    for gaussians in (empty, behind):
        image, T = renderer.forward(gaussians, camera, background=(0.25, 0.5, 1.0))
        assert np.allclose(image, (0.25, 0.5, 1.0), atol=1e-3) and np.all(T == 1)
        assert all(not g.any() for g in renderer.backward(np.ones((32, 32, 3))).values())
    renderer.close()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("format", ["float16", "float32"])
def test_splats_that_are_not_finite_do_not_exist(device, format, bad):
    """Nor does one without a rotation: the image and the gradients of the others are those without them."""
    scene = random_scene(1, 24, 32, 32, 1)
    gaussians, camera = gaussians_of(scene)
    renderer = Renderer(device, format=format)
    kept = np.arange(24) >= 5
    few = Gaussians(*(getattr(gaussians, name)[kept] for name in PARAMETERS))
    image, _ = renderer.forward(few, camera)
    gradients = renderer.backward(scene["weight"])
    gaussians.means[0, 1] = gaussians.scales[1, 2] = gaussians.sh[2, 3, 0] = gaussians.quats[3, 1] = bad
    gaussians.quats[4] = 0
    with np.errstate(invalid="ignore"):
        assert np.array_equal(renderer.forward(gaussians, camera)[0], image)
    for name, values in renderer.backward(scene["weight"]).items():
        assert not values[~kept].any() and relative_l2(values[kept], gradients[name]) < 1e-5, name
    renderer.close()


def test_colours_beyond_the_format_stay_in_their_pixels(device):
    """A float16 target would hold infinity, and its subtraction NaN."""
    scene = random_scene(1, 24, 32, 32, 0)
    gaussians, camera = gaussians_of(scene)
    gaussians.sh[3] = 1e8
    renderer = Renderer(device, format="float16")
    assert np.isfinite(renderer.forward(gaussians, camera)[0]).all()
    assert all(np.isfinite(values).all() for values in renderer.backward(scene["weight"]).values())
    renderer.close()


@pytest.mark.parametrize("length", [100, 1000, 10000])
def test_long_thin_splats(device, length):
    """Splats a pixel wide and `length` px long, whose centres may be as far outside the image."""
    rng = np.random.default_rng(length)
    n, focal, z = 6, 1000.0, 2.0
    angle, away = rng.uniform(0, np.pi, n), rng.uniform(-length, length, n) * z / focal
    means = np.stack([np.cos(angle) * away, np.sin(angle) * away, np.full(n, z)], 1)
    quats = np.stack([np.cos(angle / 2), np.zeros(n), np.zeros(n), np.sin(angle / 2)], 1)
    scales = np.tile(np.array([length, 1, 1]) * z / focal, (n, 1))
    scene = dict(means=means, quats=quats, scales=scales, opacities=np.full(n, 0.8), sh=rng.normal(0, 1, (n, 1, 3)), sh_degree=0)
    scene |= dict(w2c=np.eye(4), K=np.array([[focal, 0, 32], [0, focal, 32], [0, 0, 1]]), width=64, height=64)
    scene = {k: v.astype(np.float32) if isinstance(v, np.ndarray) else v for k, v in scene.items()}
    scene["weight"] = rng.normal(size=(64, 64, 3)).astype(np.float32)
    for shape in runnable(device, SHAPES):
        renderer = Renderer(device, format="float32", shape=shape)
        image, gradients = compare(renderer, scene)
        renderer.close()
        assert image <= 1e-3 and max(gradients.values()) <= 3e-3, (shape, image, gradients)


def test_a_state_format_of_its_own(device, waiting):
    """float16 target, float32 state: the gradients lose the target's rounding only once."""
    scene = in_range(random_scene(5, 200, 61, 47, 0, overlap=12))
    errors = {}
    for state in ("same", "float32"):
        renderer = Renderer(device, format="float16", ordering=waiting, state_format=state, block="1x1")
        errors[state] = max(compare(renderer, scene)[1].values())
        renderer.close()
    assert errors["float32"] < errors["same"]
