"""The float64 reference against central differences, closed forms and gsplat's recordings."""

import numpy as np
import pytest

from tests.helpers.drawing import PARAMETERS
from tests.helpers.goldens import golden_names, load_golden, random_scene, relative_l2, scene_of
from tests.oracle import l1_dssim, project, render, ssim
from tests.oracle.differences import central

# Central differences in float64 with this step: rounding leaves about 1e-16 |loss| / 1e-7, i.e.
# 1e-8 to 1e-7 of a gradient's size. The step is this small because a fragment that crosses the
# alpha cut-off within it makes the loss jump; the fixed seeds have none.
STEP = 1e-7
DIFFERENCE_TOLERANCE = 2e-6


def float64_scene(seed, n=10, width=20, height=16, sh_degree=1, **options):
    scene = random_scene(seed, n, width, height, sh_degree, **options)
    return {k: np.float64(v) if isinstance(v, np.ndarray) else v for k, v in scene.items()}


def check_gradients(scene, parameters=PARAMETERS, **options):
    """Every element of every parameter, for a random weight of each pixel's colour and T."""
    weight = scene["weight"]
    weight_T = np.random.default_rng(7).standard_normal(weight.shape[:2])
    inputs = scene_of(scene)

    def loss(**changed):
        frame = render(**inputs | changed, **options)
        return np.sum(weight * frame.image) + np.sum(weight_T * frame.T)

    gradients = render(**inputs, **options).backward(weight, weight_T)
    for name in parameters:
        numeric = central(lambda value: loss(**{name: value}), inputs[name], STEP)
        assert np.linalg.norm(numeric) > 0, name
        assert relative_l2(gradients[name], numeric) < DIFFERENCE_TOLERANCE, name


TERMINATIONS = ("after", "before", "none")
CASES = {  # of the scene, of the renderer
    **{f"random {t}": (dict(seed=1 + (t == "none")), dict(termination=t)) for t in TERMINATIONS},
    **{f"degree {d}": (dict(seed=3, n=6, sh_degree=d), {}) for d in (0, 2, 3)},
    "thin": (dict(seed=5, anisotropy=300.0, overlap=20.0), {}),
    # Gradients by the means are 1e2 times steeper and curved over 1e-2 units, still far above
    # the step.
    "near plane": (dict(seed=9, n=5, depth=(0.011, 0.05)), {}),
    "antialiased": (dict(seed=11), dict(antialiased=True)),
    "antialiased small": (dict(seed=11, overlap=1.0), dict(antialiased=True)),
    "antialiased thin": (dict(seed=11, anisotropy=300.0, overlap=20.0), dict(antialiased=True)),
}


@pytest.mark.parametrize("scene, options", CASES.values(), ids=CASES)
def test_gradients_are_central_differences(scene, options):
    scene = float64_scene(**scene)
    seen = render(**scene_of(scene), **options).projection
    assert not options.get("antialiased") or seen.compensation[seen.visible].min() < 0.95
    parameters = ("means", "sh") if scene["sh_degree"] != 1 else PARAMETERS
    check_gradients(scene, parameters, background=(0.2, 0.7, 0.4), **options)


def test_gradients_where_the_jacobian_is_clamped():
    scene = float64_scene(6, n=4)
    # far outside the field of view (the image spans |x/z| < 0.6) but large enough to reach into the
    # image
    cam = np.array([[2.6, 0.1, 2.5], [-2.9, 0.2, 2.6], [0.1, 2.5, 2.7], [0.2, -2.6, 2.8]])
    w2c = scene["w2c"]
    scene["means"] = (cam - w2c[:3, 3]) @ w2c[:3, :3]
    scene["scales"] = np.full((4, 3), 1.5) * [1, 0.8, 0.6]
    slopes = np.abs(cam[:, :2] / cam[:, 2:])
    # Off-centre by 0.15 at most, plus the margin of 0.3.
    limit = 0.5 * np.array([20, 16]) / scene["K"][[0, 1], [0, 1]] * 1.5
    assert ((slopes > limit).sum(axis=1) == 1).all()
    assert render(**scene_of(scene)).projection.visible.all()
    check_gradients(scene)


def stack(opacities, pixels=1):
    """Splats one behind the other on the first pixel; front red, then green and blue."""
    n = len(opacities)
    colors = np.eye(3)[[0] + [1 + k % 2 for k in range(n - 1)]]
    splats = dict(means=np.column_stack([np.zeros((n, 2)), 2.0 + np.arange(n)]))
    splats |= dict(quats=np.tile([1.0, 0, 0, 0], (n, 1)), scales=np.full((n, 3), 0.1))
    splats |= dict(opacities=np.array(opacities), sh=(colors[:, None] - 0.5) / 0.28209479177387814)
    K = np.array([[10.0, 0, 0.5], [0, 10.0, 0.5], [0, 0, 1]])
    return splats | dict(w2c=np.eye(4), K=K, width=pixels, height=1, sh_degree=0)


# five splats of alpha 0.95 leave T = 1, 0.05, 2.5e-3, 1.25e-4, 6.25e-6, 3.125e-7: the fourth
# crosses 1e-4
@pytest.mark.parametrize("termination, blended", [("none", 5), ("after", 4), ("before", 3)])
def test_termination(termination, blended):
    frame = render(**stack([0.95] * 5), termination=termination, background=(1, 1, 1))
    T = 0.05 ** np.arange(6)
    expected = np.full(3, T[blended])
    for k in range(blended):
        expected[0 if k == 0 else 1 + (k - 1) % 2] += 0.95 * T[k]
    np.testing.assert_allclose(frame.T[0, 0], T[blended], rtol=1e-12)  # rounding
    np.testing.assert_allclose(frame.image[0, 0], expected, rtol=1e-12)
    # the fifth finds T < 1e-4 and gets no gradient, even if it was blended
    gradients = frame.backward(np.ones((1, 1, 3)))
    assert (gradients["opacities"] != 0).tolist() == [k < min(blended, 4) for k in range(5)]


def test_alpha_clamp_passes_gradient():
    """At opacity 0.995 alpha is 0.99, and its gradient is d_image c (1 - ...) / (1 - 0.99)."""
    frame = render(**stack([0.995, 0.5]))
    np.testing.assert_allclose(frame.T[0, 0], 0.01 * 0.5, rtol=1e-12)  # rounding
    gradients = frame.backward(np.array([[[1.0, 1.0, 0.0]]]))
    # The division by 1 - 0.99 costs two digits.
    np.testing.assert_allclose(gradients["opacities"], [1 - 0.5, 0.01], rtol=1e-11)


def test_projection_of_a_hand_computed_splat():
    scene = stack([0.9])
    scene["scales"] = np.array([[0.2, 0.1, 0.3]])
    # 90 degrees about z: the axes x and y change places.
    scene["quats"] = np.array([[3.0, 0, 0, 3.0]])
    p = project(**scene)
    np.testing.assert_allclose(p.mean2d, [[0.5, 0.5]])
    squares = (0.1 * 10 / 2) ** 2, (0.2 * 10 / 2) ** 2
    cov2d = [[squares[0] + 0.3, 0, squares[1] + 0.3]]
    np.testing.assert_allclose(p.cov2d, cov2d, atol=1e-15)  # rounding
    np.testing.assert_allclose(p.extent[0, 1], np.sqrt(1.3 * 2 * np.log(255 * 0.9)))
    assert p.depth[0] == 2.0 and p.visible[0]
    np.testing.assert_array_equal(p.visible, project(**scene, near=2.0).visible)
    assert not project(**scene, near=2.0001).visible[0]


def test_jacobian_clamp_of_an_off_centre_camera():
    # Focal length 10, principal point 0.5: the tangent of half the field of view is 0.2.
    scene = stack([0.9], pixels=4)
    for x, limit in ((6.0, (4 - 0.5) / 10 + 0.3 * 0.2), (-6.0, 0.5 / 10 + 0.3 * 0.2)):
        scene["means"][0, 0] = x
        p = project(**scene)
        np.testing.assert_allclose(p.mean2d[0, 0], 10 * x / 2 + 0.5)
        np.testing.assert_allclose(p.cov2d[0, 0], (0.1 * 10 / 2) ** 2 * (1 + limit**2) + 0.3)


def windowed_ssim(a, b, padding):
    """SSIM straight from its definition, pixel by pixel, on padded images."""
    grid = np.arange(-5, 6)
    window = np.exp(-(grid[:, None] ** 2 + grid[None, :] ** 2) / (2 * 1.5**2))
    window = (window / window.sum())[..., None]
    height, width, _ = a.shape
    a, b = (np.pad(image, ((5, 5), (5, 5), (0, 0)), mode=padding) for image in (a, b))
    mean = lambda values: (window * values).sum((0, 1))
    values = []
    for y, x in np.ndindex(height, width):
        p, q = a[y : y + 11, x : x + 11], b[y : y + 11, x : x + 11]
        mu_p, mu_q = mean(p), mean(q)
        variances = mean((p - mu_p) ** 2) + mean((q - mu_q) ** 2)
        above = (2 * mu_p * mu_q + 1e-4) * (2 * mean((p - mu_p) * (q - mu_q)) + 9e-4)
        values.append(above / ((mu_p**2 + mu_q**2 + 1e-4) * (variances + 9e-4)))
    return np.mean(values)


def test_ssim_is_its_definition():
    rng = np.random.default_rng(13)
    a = rng.uniform(0, 1, (12, 17, 3))
    b = np.clip(a + rng.normal(0, 0.2, a.shape), 0, 1)
    # E[x^2] - E[x]^2 loses a few digits against E[(x - E[x])^2]
    np.testing.assert_allclose(ssim(a, b), windowed_ssim(a, b, "reflect"), rtol=1e-11)
    loss, _ = l1_dssim(a, b)
    wanted = 0.8 * np.abs(a - b).mean() + 0.2 * (1 - windowed_ssim(a, b, "constant"))
    np.testing.assert_allclose(loss, wanted, rtol=1e-11)


@pytest.mark.parametrize("name", golden_names())
def test_goldens(name):
    golden = load_golden(name)
    frame = render(**scene_of(golden), termination="before")
    gradients = frame.backward(golden["weight"])
    # The recordings are float32: 5e-6 in the image and 1.3e-5 in the gradients is the worst
    # measured, on bonsai_crop and random_thin.
    assert relative_l2(frame.image, golden["gsplat_image"]) < 2e-5
    for name in PARAMETERS:
        assert relative_l2(gradients[name], golden[f"gsplat_d_{name}"]) < 5e-5, name
