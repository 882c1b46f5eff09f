"""Image fits: the 2D oracle by central differences, every rasterizer and reduction against it, whole fits of small images, bad input."""

import itertools

import numpy as np
import pytest
from goldens import relative_l2
from oracle import fit2d

from app.errors import UserError
from app.fit.blobs import BlobBuffers, Blobs
from app.fit.raster import FitOptions, open_rasterizer
from app.gpu.recorder import Recorder
from app.raster.base import frame_row
from app.fit.session import canvas_row
from app.variants.atomics import ATOMICS
from app.variants.fit_rasters import FIT_RASTERS

BACKGROUND = (0.2, 0.5, 0.8)
VARIANTS = [(name, reduction) for name, row in FIT_RASTERS.items() for reduction in row.reductions if reduction != "auto"]


def fresh_seed() -> int:
    return int(np.random.SeedSequence().entropy % 2**32)


def random_blobs(seed: int, n: int, width: int, height: int, overlap=8.0, opacity=(0.1, 0.9)) -> Blobs:
    """Of all orientations and up to 5:1, some beyond the border; about `overlap` deep."""
    rng = np.random.default_rng(seed)
    scale = np.sqrt(overlap * width * height / (n * 2 * np.pi * 4))
    opacity = rng.uniform(*opacity, n)
    return Blobs.of(
        np.float32(
            [
                *(rng.uniform(-0.1, 1.1, (2, n)) * [[width], [height]]),
                *(np.log(scale) + rng.uniform(-0.8, 0.8, (2, n))),
                rng.uniform(-4, 4, n),
                *rng.uniform(-0.2, 1.2, (3, n)),
                np.log(opacity / (1 - opacity)),
            ]
        )
    )


def exact(blobs: Blobs, width, height, weight):
    frame = fit2d.draw(*(getattr(blobs, name) for name in fit2d.PARAMETERS), width, height, BACKGROUND)
    return frame, frame.backward(weight)


def drawn(device, blobs: Blobs, width: int, height: int, weight, **options) -> tuple[np.ndarray, Blobs]:
    """Image with background, and the gradients of sum(weight * image), in the fields of Blobs."""
    buffers = BlobBuffers(device, len(blobs) + 3, ("d_blobs",))  # planes are as far apart as the capacity says
    raster = open_rasterizer(device, buffers, width, height, FitOptions(**options), "store")
    resources = raster.resources
    recorders = {name: Recorder(device, resources) for name in ("begin", "forward", "backward")}
    try:
        raster.projection.record_begin(recorders["begin"], raster.pipelines)
        raster.record_forward(recorders["forward"])
        raster.record_backward(recorders["backward"])
        buffers.set(blobs)
        resources["camera"].upload(canvas_row(width, height))
        resources["frame"].upload(frame_row(0, BACKGROUND, 0.01))
        for recorder in recorders.values():
            recorder.end()
        recorders["begin"].run_once()
        recorders["forward"].run_once()
        target = resources["target"].download().astype(np.float64)
        resources["d_image"].upload(np.concatenate([weight, np.zeros_like(weight[..., :1])], 2))
        recorders["backward"].run_once()
        assert not resources["d_splats2d"].download(np.uint32, 9 * len(blobs)).any(), "left clean for the next frame"
        return target[..., :3] + target[..., 3:] * np.array(BACKGROUND), Blobs.of(buffers.read("d_blobs"))
    finally:
        for part in (*recorders.values(), raster, buffers):
            part.destroy()


def check(device, blobs, width, height, what, image_limit=1e-4, gradient_limit=1e-3, **options):
    """The limits of float32 in test_hardware.py, whose reasons hold here."""
    weight = np.random.default_rng(0).normal(size=(height, width, 3)).astype(np.float32)
    frame, gradients = exact(blobs, width, height, weight)
    image, found = drawn(device, blobs, width, height, weight, **options)
    errors = {name: relative_l2(getattr(found, name), gradients[name]) for name in fit2d.PARAMETERS}
    error = relative_l2(image, frame.image)
    assert error <= image_limit and max(errors.values()) <= gradient_limit, (what, options, error, errors)


def skip_without(device, rasterizer, reduction="auto"):
    buffers = BlobBuffers(device, 1)
    try:
        open_rasterizer(device, buffers, 8, 8, FitOptions(rasterizer, reduction), "store").destroy()
    except UserError as error:
        pytest.skip(str(error))
    finally:
        buffers.destroy()


def test_oracle_gradients_by_central_differences():
    seed = fresh_seed()
    blobs = random_blobs(seed, 12, 20, 14)
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(14, 20, 3))
    inputs = {name: np.asarray(getattr(blobs, name), np.float64) for name in fit2d.PARAMETERS}

    def loss(changed):
        return np.sum(weight * fit2d.draw(**changed, width=20, height=14, background=BACKGROUND).image)

    gradients = fit2d.draw(**inputs, width=20, height=14, background=BACKGROUND).backward(weight)
    for name, value in inputs.items():
        numeric = np.zeros_like(value)
        for at in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[at] = 1e-6
            numeric[at] = (loss({**inputs, name: value + step}) - loss({**inputs, name: value - step})) / 2e-6
        np.testing.assert_allclose(gradients[name], numeric, rtol=1e-5, atol=1e-6 * np.abs(numeric).max(), err_msg=f"{name}, seed {seed}")


@pytest.mark.parametrize("rasterizer, reduction", VARIANTS)
def test_every_variant_agrees_with_the_oracle(device, rasterizer, reduction):
    skip_without(device, rasterizer, reduction)
    seed = fresh_seed()
    check(device, random_blobs(seed, 120, 61, 47), 61, 47, seed, 1e-3, 1e-3 if rasterizer != "hardware" else 3e-3, rasterizer=rasterizer, reduction=reduction)
