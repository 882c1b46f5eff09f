"""The Python API at its edges: arguments, extreme values, reuse. What it computes is tested in test_hardware.py."""

import numpy as np
import pytest

from hardsplat.api import Camera, Gaussians, Renderer
from hardsplat.errors import OutOfMemory, UserError
from hardsplat.gpu.context import Device, ValidationError
from hardsplat.gpu.memory import Buffer
from hardsplat.gpu.recorder import Recorder
from tests.goldens import random_scene, relative_l2
from tests.oracle import render

PARAMETERS = ("means", "quats", "scales", "opacities", "sh")


@pytest.fixture
def renderer(device):
    renderer = Renderer(device, format="float32")
    yield renderer
    renderer.close()


def scene_of(n=20, size=(32, 32), sh_degree=1) -> tuple[Gaussians, Camera, np.ndarray]:
    scene = random_scene(1, n, *size, sh_degree)
    return Gaussians(*(scene[p].copy() for p in PARAMETERS)), Camera(scene["w2c"], scene["K"], *size), scene["weight"]


@pytest.mark.filterwarnings("error")
def test_opacities_and_scales_at_their_limits(renderer):
    """An opacity of exactly 1 has the gradient of its neighbours; 0 is not drawn; a scale of 0 is a flat splat."""
    gaussians, camera, weight = scene_of()
    gaussians.opacities[3:6] = 1, 0, 0.999999
    gaussians.scales[6, 1] = 0
    image, _ = renderer.forward(gaussians, camera)
    gradients = renderer.backward(weight)
    exact = render(*(getattr(gaussians, p) for p in PARAMETERS), camera.w2c, camera.K, 32, 32, 1, termination="none")
    wanted = exact.backward(weight.astype(np.float64))
    assert relative_l2(image, exact.image) < 1e-4
    for name in PARAMETERS:
        assert relative_l2(gradients[name], wanted[name]) < 1e-3, name
    assert gradients["opacities"][4] == 0 and gradients["scales"][6, 1] == 0


def test_sizes_and_degrees_may_change_between_calls(renderer):
    for size, degree, used in (((1, 1), 0, 0), ((40, 1), 3, 1), ((1, 40), 1, 1), ((33, 17), 3, 3), ((33, 17), 2, 0)):
        gaussians, camera, weight = scene_of(7, size, degree)
        image, _ = renderer.forward(gaussians, camera, sh_degree=used)
        exact = render(*(getattr(gaussians, p) for p in PARAMETERS), camera.w2c, camera.K, *size, used, termination="none")
        assert image.shape == (*size[::-1], 3) and np.abs(image - exact.image).max() < 1e-3, size
        d_sh = renderer.backward(weight)["sh"]
        assert d_sh.shape == gaussians.sh.shape and not d_sh[:, (used + 1) ** 2 :].any()


def test_a_principal_point_outside_the_image(renderer):
    gaussians, camera, _ = scene_of(60)
    K = camera.K.copy()
    K[:2, 2] = 120, -40
    image, _ = renderer.forward(gaussians, Camera(camera.w2c, K, 32, 32))
    exact = render(*(getattr(gaussians, p) for p in PARAMETERS), camera.w2c, K, 32, 32, 1, termination="none")
    assert np.abs(image - exact.image).max() < 1e-3


def test_images_larger_than_one_staging_buffer(device):
    """Also larger than a storage buffer may be."""
    renderer = Renderer(device, format="float32")
    height = device.max_buffer // (1024 * 16) + 1 if device.max_buffer < 1 << 28 else 4096
    gaussians, camera, _ = scene_of()
    tall = Camera(camera.w2c, camera.K, 1024, height)
    image, T = renderer.forward(gaussians, tall)
    small, _ = renderer.forward(gaussians, Camera(camera.w2c, camera.K, 1024, 32))
    assert np.abs(image[:32] - small).max() < 0.05 and (T[-1] == 1).all()  # where the Jacobian is clamped depends on the image's size
    renderer.close()


def test_two_renderers_and_repeated_calls(renderer, device):
    gaussians, camera, weight = scene_of()
    other = Renderer(device, format="float32", reduction="atomic")
    image, _ = renderer.forward(gaussians, camera)
    assert np.array_equal(other.forward(gaussians, camera)[0], image)
    first = renderer.backward(weight)
    assert {p: relative_l2(other.backward(weight)[p], first[p]) < 1e-4 for p in PARAMETERS} == dict.fromkeys(PARAMETERS, True)
    assert all(relative_l2(renderer.backward(weight)[p], first[p]) < 1e-5 for p in PARAMETERS)
    other.close()
    other.close()
    assert np.array_equal(other.forward(gaussians, camera)[0], image)
    other.close()


def test_times_are_of_what_was_run(renderer, device):
    assert renderer.times() == {}
    gaussians, camera, weight = scene_of()
    renderer.forward(gaussians, camera)
    assert "draw backward" not in renderer.times()
    renderer.backward(weight)
    if device.timestamp_ns:
        assert {"draw", "draw backward"} <= set(renderer.times())
    renderer.forward(gaussians, camera)
    assert "draw backward" not in renderer.times()


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(background=(1, 2)), "background .* is not three finite numbers"),
        (dict(near=0), "near 0 is not a positive distance"),
        (dict(near=float("nan")), "near nan is not a positive distance"),
        (dict(sh_degree=2), r"sh_degree 2 is not in 0\.\.1"),
        (dict(sh_degree=0.5), r"sh_degree 0.5 is not in 0\.\.1"),
    ],
)
def test_arguments_out_of_range(renderer, change, words):
    with pytest.raises(ValueError, match=words):
        renderer.forward(*scene_of()[:2], **change)


@pytest.mark.parametrize(
    "K, words",
    [
        ([[-30, 0, 16], [0, 30, 16], [0, 0, 1]], "positive focal lengths, got -30 and 30"),
        ([[30, 2, 16], [0, 30, 16], [0, 0, 1]], "without skew"),
    ],
)
def test_cameras_that_are_none(K, words):
    with pytest.raises(ValueError, match=words):
        Camera(np.eye(4), np.array(K), 32, 32)


@pytest.mark.parametrize(
    "w2c, words",
    [
        (np.diag([2.0, 2, 2, 1]), "rotation scaled by 2"),
        (np.diag([1.0, 1, -1, 1]), "reflection"),
        (np.diag([1.0, 2, 3, 1]), "stretches by 3, 2 and 1"),
        (np.eye(4) + np.eye(4)[3][:, None] * [1, 2, 3, 0], "last row is .* looks transposed"),
    ],
)
def test_poses_that_are_not_rigid(w2c, words):
    with pytest.raises(ValueError, match=words):
        Camera(w2c, np.eye(3), 32, 32)
    Camera(np.eye(4) * (1 + 4e-4), np.eye(3), np.int64(32), 32)


def test_image_sizes_are_integers():
    with pytest.raises(ValueError, match=r"camera height 32\.0 is not an integer"):
        Camera(np.eye(4), np.eye(3), 32, 32.0)


@pytest.mark.parametrize(
    "name, place, value, words",
    [
        ("opacities", 2, 1.5, r"opacities\[2\] = 1.5 is not in 0..1; .* \(1 such"),
        ("opacities", slice(1, 3), -0.1, r"opacities\[1\] = -0.1 is not in 0..1; .* \(2 such"),
        ("scales", (3, 1), -2, r"scales\[3, 1\] = -2 is negative"),
        ("means", 4, np.nan, r"means\[4, 0\] = nan is NaN or infinite \(1 such"),
        ("sh", (1, 0, 2), 1e39, r"sh\[1, 0, 2\] = inf is NaN"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_splats_that_are_none(name, place, value, words):
    arrays = {p: getattr(scene_of()[0], p).astype(np.float64) for p in PARAMETERS}
    arrays[name][place] = value
    with pytest.raises(ValueError, match=words):
        Gaussians(**arrays)
    with pytest.raises(ValueError, match=r"means has shape \(1,\), expected \(1, 3\)"):
        Gaussians(**{**arrays, "means": 3})


def test_swapped_arguments(renderer):
    gaussians, camera, _ = scene_of()
    with pytest.raises(ValueError, match="takes Gaussians, then a Camera or a sequence of them, got Camera and Gaussians"):
        renderer.forward(camera, gaussians)


def test_backward_says_what_it_needs(renderer):
    with pytest.raises(RuntimeError, match=r"needs a forward\(\)"):
        renderer.backward(np.ones((32, 32, 3)))
    renderer.forward(*scene_of()[:2])
    with pytest.raises(ValueError, match=r"d_image has shape \(3,\), expected \(32, 32, 3\)"):
        renderer.backward(np.ones(3))


def test_what_does_not_fit_leaves_the_renderer_usable(renderer, device):
    gaussians, camera, weight = scene_of()
    image, _ = renderer.forward(gaussians, camera)
    with pytest.raises(OutOfMemory, match="larger than .* allows"):
        renderer.forward(gaussians, Camera(camera.w2c, camera.K, device.max_image + 1, 1))
    with pytest.raises(RuntimeError):
        renderer.backward(weight)
    assert np.array_equal(renderer.forward(gaussians, camera)[0], image)


def test_a_renderer_closes_the_device_that_it_opened(monkeypatch):
    """The validation layer names whatever was not destroyed before its device."""
    monkeypatch.setenv("HARDSPLAT_VALIDATION", "1")
    gaussians, camera, weight = scene_of()
    with Renderer() as renderer:
        renderer.forward(gaussians, camera)
        renderer.backward(weight)
    renderer.close()
    with pytest.raises(RuntimeError, match="this Renderer was closed"):
        renderer.forward(gaussians, camera)


def test_devices_report_what_outlives_them():
    device = Device(validation="1")
    Buffer(device, 64, "keys")
    with pytest.raises(ValidationError, match="keys"):
        device.close()
    device.close()


@pytest.mark.parametrize("blending", ["fixed", "programmable"])
def test_no_hazards_between_passes(monkeypatch, blending):
    """What synchronization validation says of a frame, and that it would have found a missing barrier."""
    device = Device(validation="sync")
    gaussians, camera, weight = scene_of()
    renderer = Renderer(device, blending=blending)
    renderer.forward(gaussians, camera)
    renderer.backward(weight)
    renderer.close()
    if device.physical.kind != "CPU":
        device.close()
        pytest.skip("newer layers report at submission, and a GPU without barriers may draw garbage for ever")
    monkeypatch.setattr(Recorder, "order", lambda self, *accesses, **kind: None)
    with pytest.raises(ValidationError, match="SYNC-HAZARD-READ-AFTER-WRITE"):
        renderer.forward(gaussians, camera)
    device.close()


def test_choices_that_are_none(device):
    with pytest.raises(UserError, match="rasterizer nothing: there is no such one; choose from hardware"):
        Renderer(device, "nothing")
    with pytest.raises(UserError, match="--format nothing: there is no such target format; choose from unorm8"):
        Renderer(device, format="nothing")
    with pytest.raises(UserError, match="formats: Renderer has no such option; there are format, state_format"):
        Renderer(device, formats="float32")
