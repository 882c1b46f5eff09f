"""The Python API at its edges: arguments, extreme values, reuse."""

import numpy as np
import pytest

from hardsplat.gpu.commands.recorder import Barriers
from hardsplat.gpu.device.context import Device
from hardsplat.gpu.device.instance import ValidationError
from hardsplat.model.gaussians import SH_C0
from hardsplat.raster.core.parameters import Parameters
from hardsplat.raster.core.rasterizer import Rasterizer
from hardsplat.raster.renderer import Camera, Gaussians, Renderer
from tests.helpers.drawing import PARAMETERS, exact
from tests.helpers.goldens import random_scene
from tests.helpers.tables import refuses


@pytest.fixture
def renderer(device):
    renderer = Renderer(device, format="float32")
    yield renderer
    renderer.close()


def scene_of(n=20, size=(32, 32), sh_degree=1) -> tuple[Gaussians, Camera, np.ndarray]:
    scene = random_scene(1, n, *size, sh_degree)
    gaussians = Gaussians(*(scene[p].copy() for p in PARAMETERS))
    return gaussians, Camera(scene["w2c"], scene["K"], *size), scene["weight"]


def test_sizes_and_degrees_may_change_between_calls(renderer):
    sizes = ((1, 1), 0, 0), ((40, 1), 3, 1), ((1, 40), 1, 1), ((33, 17), 3, 3), ((33, 17), 2, 0)
    for size, degree, used in sizes:
        gaussians, camera, weight = scene_of(7, size, degree)
        image, _ = renderer.forward(gaussians, camera, sh_degree=used)
        assert image.shape == (*size[::-1], 3)
        wanted = exact(gaussians, camera, used, termination="none").image
        assert np.abs(image - wanted).max() < 1e-3, size
        d_sh = renderer.backward(weight)["sh"]
        assert d_sh.shape == gaussians.sh.shape and not d_sh[:, (used + 1) ** 2 :].any()


def test_splats_that_are_kept_are_uploaded_once(renderer, monkeypatch):
    gaussians, camera, weight = scene_of()
    other, small, _ = scene_of(30, (20, 24))
    calls = [(gaussians, small)] * 3 + [(other, small)] * 2 + [(gaussians, camera)] * 2
    wanted = [renderer.forward(*call)[0] for call in calls]
    uploads, upload = [], Parameters.upload
    monkeypatch.setattr(Parameters, "upload", lambda *a: uploads.append(a) or upload(*a))
    renderer.keep(gaussians)
    for call, image in zip(calls, wanted, strict=True):
        np.testing.assert_array_equal(renderer.forward(*call)[0], image)
    assert len(uploads) == 4
    shares, d_sh = renderer.contributions(weight), renderer.backward(weight)["sh"]
    # sums are added in any order: 1.8e-6 apart
    np.testing.assert_allclose(shares, d_sh[:, 0] / np.float32(SH_C0), rtol=1e-5)


OUT_OF_RANGE = [
    (dict(background=(1, 2)), "background .* is not three finite numbers"),
    (dict(near=0), "near 0 is not a positive distance"),
    (dict(near=float("nan")), "near nan is not a positive distance"),
    (dict(sh_degree=2), r"sh_degree 2 is not in 0\.\.1"),
    (dict(sh_degree=0.5), r"sh_degree 0.5 is not in 0\.\.1"),
]


@pytest.mark.parametrize("change, words", OUT_OF_RANGE)
def test_arguments_out_of_range(renderer, change, words):
    with pytest.raises(ValueError, match=words):
        renderer.forward(*scene_of()[:2], **change)


NO_CAMERA = [
    (dict(K=[[-30, 0, 16], [0, 30, 16], [0, 0, 1]]), "positive focal lengths, got -30 and 30"),
    (dict(K=[[30, 2, 16], [0, 30, 16], [0, 0, 1]]), "without skew"),
    (dict(w2c=np.diag([2.0, 2, 2, 1])), "rotation scaled by 2"),
    (dict(w2c=np.diag([1.0, 1, -1, 1])), "reflection"),
    (dict(w2c=np.diag([1.0, 2, 3, 1])), "stretches by 3, 2 and 1"),
    (dict(w2c=np.eye(4) + np.eye(4)[3][:, None] * [1, 2, 3, 0]), "last row is .* looks transposed"),
    (dict(height=32.0), r"camera height 32\.0 is not an integer"),
]


@pytest.mark.parametrize("change, words", NO_CAMERA)
def test_cameras_that_are_none(change, words):
    good = dict(w2c=np.eye(4) * (1 + 4e-4), K=np.eye(3), width=np.int64(32), height=32)
    Camera(**good)
    with pytest.raises(ValueError, match=words):
        Camera(**good | change)


NO_SPLATS = [
    ("opacities", 2, 1.5, r"opacities\[2\] = 1.5 is not in 0..1; .* \(1 such"),
    ("opacities", slice(1, 3), -0.1, r"opacities\[1\] = -0.1 is not in 0..1; .* \(2 such"),
    ("scales", (3, 1), -2, r"scales\[3, 1\] = -2 is negative"),
    ("means", 4, np.nan, r"means\[4, 0\] = nan is NaN or infinite \(1 such"),
    ("sh", (1, 0, 2), 1e39, r"sh\[1, 0, 2\] = inf is NaN"),
]


@pytest.mark.parametrize("name, place, value, words", NO_SPLATS)
@pytest.mark.filterwarnings("error")
def test_splats_that_are_none(name, place, value, words):
    arrays = {p: getattr(scene_of()[0], p).astype(np.float64) for p in PARAMETERS}
    arrays[name][place] = value
    with pytest.raises(ValueError, match=words):
        Gaussians(**arrays)
    with pytest.raises(ValueError, match=r"means has shape \(1,\), expected \(1, 3\)"):
        Gaussians(**{**arrays, "means": 3})


def test_backward_says_what_it_needs(renderer):
    with pytest.raises(RuntimeError, match=r"needs a forward\(\)"):
        renderer.backward(np.ones((32, 32, 3)))
    renderer.forward(*scene_of()[:2])
    with pytest.raises(ValueError, match=r"d_image has shape \(3,\), expected \(32, 32, 3\)"):
        renderer.backward(np.ones(3))


def test_an_image_after_an_interrupt_between_two_sizes_of_lists(device, monkeypatch):
    """Nothing is submitted that was recorded with buffers that are gone."""
    gaussians, camera, weight = scene_of()

    def interrupted(raster):
        raster._resize_lists(2 * raster.pair_capacity, raster.checkpoint_capacity)
        raise KeyboardInterrupt

    with Renderer(device, "tiled") as renderer:
        wanted, _ = renderer.forward(gaussians, camera)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Rasterizer, "reserve_pairs", interrupted)
            renderer.forward(gaussians, camera)
        with pytest.raises(RuntimeError, match="needs a forward"):
            renderer.backward(weight)
        np.testing.assert_array_equal(renderer.forward(gaussians, camera)[0], wanted)


def test_splats_that_are_kept_after_an_interrupt_among_others(renderer, monkeypatch):
    """They are brought to the device again, over what others have left there."""
    kept, camera, _ = scene_of()
    others, upload = kept[np.arange(5)], Parameters.upload

    def interrupted(parameters, gaussians):
        upload(parameters, gaussians)
        raise KeyboardInterrupt

    renderer.keep(kept)
    wanted, _ = renderer.forward(kept, camera)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Parameters, "upload", interrupted)
        renderer.forward(others, camera)
    np.testing.assert_array_equal(renderer.forward(kept, camera)[0], wanted)


def test_a_renderer_closes_the_device_that_it_opened(monkeypatch):
    monkeypatch.setenv("HARDSPLAT_VALIDATION", "1")
    gaussians, camera, weight = scene_of()
    with Renderer() as renderer:
        renderer.forward(gaussians, camera)
        renderer.backward(weight)
    renderer.close()
    with pytest.raises(RuntimeError, match="this Renderer was closed"):
        renderer.forward(gaussians, camera)


ROWS = ("reduce-scatter", "per-splat", "atomic", "gather")
HAZARDS = [dict(blending=name) for name in ("fixed", "programmable")]
HAZARDS += [dict(rasterizer="tiled", tile_backward=name) for name in ROWS]


@pytest.mark.parametrize("options", HAZARDS, ids=lambda options: [*options.values()][-1])
def test_no_hazards_between_passes(monkeypatch, options):
    """Synchronization validation of a frame, which would have found a missing barrier."""
    device = Device(validation="sync")
    gaussians, camera, weight = scene_of(50, (40, 24))
    renderer = Renderer(device, **options)
    renderer.forward(gaussians, camera)
    renderer.backward(weight)
    renderer.close()
    if device.physical.kind != "CPU":
        device.close()
        pytest.skip("newer layers report at submission, and a GPU without barriers may not end")
    monkeypatch.setattr(Barriers, "order", lambda self, *accesses, **kind: None)
    with pytest.raises(ValidationError, match="SYNC-HAZARD"):
        renderer.forward(gaussians, camera)
    device.close()


NO_CHOICE = [
    (("nothing",), {}, "rasterizer nothing: there is no such one; choose from hardware"),
    ((), {"format": "nothing"}, "--format nothing: there is no such target format; choose from"),
    ((), {"formats": "float32"}, "formats: Renderer has no such option; there are .*format, state"),
]


@pytest.mark.parametrize("rasterizer, options, words", NO_CHOICE)
def test_choices_that_are_none(device, rasterizer, options, words):
    refuses(words, Renderer, device, *rasterizer, **options)
