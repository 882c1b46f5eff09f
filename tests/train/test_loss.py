"""Loss, its gradient and the metrics against the float64 oracle."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.allocation import POISON
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_all
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.io.scenes.masks import kept, masked
from hardsplat.model.camera import Camera
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import (
    LOSS_PASSES,
    METRIC_PASSES,
    allocate_loss,
    loss_passes,
    loss_terms,
    metric_bytes,
    read_metrics,
    record_loss,
    record_metrics,
    weighed,
)
from hardsplat.step.photos import pack
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.loss_terms import LOSS_TERMS, PIXELS, LossTerm, pixel_terms
from tests.helpers.drawing import fresh_seed
from tests.helpers.examples import example
from tests.helpers.goldens import random_scene
from tests.helpers.training import OneStep
from tests.oracle import loss as oracle

HISTORY = contract.CONSTANTS["HISTORY"]
CANVAS = (168, 131)  # not multiples of the tile
# (width, height): one tile, one pixel more, odd, narrower than a window in one direction or both,
# a single pixel, the whole canvas
SIZES = [(16, 32), (17, 33), (37, 29), (160, 120), (7, 40), (45, 3), (4, 5), (1, 1), CANVAS]
WEIGHTS = {"l1": 0.8, "dssim": 0.2}
# Measured over SIZES on lavapipe: loss 4e-8 (one pixel alone 3e-7), gradient 3e-7 to 1e-6; on an
# H200 up to 4.2e-6 (one pixel alone).
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-6, 1e-5


class Loss:
    """Both pipelines recorded once for one canvas, run on images of any size that it holds."""

    def __init__(self, device, width: int, height: int):
        self.device, self.width, self.height = device, width, height
        names = ("camera", "frame", "loss_terms", "counts")
        shared = {n: Buffer(device, contract.itemsize(n), n) for n in names}
        history = HISTORY * contract.itemsize("history")
        shared["history"] = Buffer(device, history, "history", host=True)
        shared["photos"] = Buffer(device, 3 * width * height * 4, "photos")
        target = width, height, FORMATS["float32"].vk, np.float32
        shared["target"] = Image(device, *target, "target")
        self.metrics = shared | allocate_all(device, metric_bytes(width, height))
        self.resources = shared | allocate_loss(device, width, height)
        self.recorders = []
        for resources, record, passes in (
            (self.resources, record_loss, LOSS_PASSES),
            (self.resources, record_loss, loss_passes(3)),
            (self.metrics, record_metrics, METRIC_PASSES),
            (self.resources, record_loss, loss_passes(terms=weighed(TrainConfig().flat()))),
        ):
            self.recorders.append(Recorder(device, resources, timed=True))
            record(self.recorders[-1], build_all(device, passes), width, height)
            self.recorders[-1].end()
        self.training, self.three_bytes, self.measuring, self.default = self.recorders

    def give(self, case, offset=0, step=0, weights=WEIGHTS) -> None:
        r = self.resources
        for name in ("history", "photos", "ssim_grads", "loss_sums"):
            r[name].fill(POISON)
        self.metrics["loss_sums"].fill(POISON)
        r["d_image"].upload(np.full((self.height, self.width, 4), np.nan))
        height, width = case.photo.shape[:2]
        names = "Camera", "Frame", "Counts", "LossTerms"
        camera, frame, counts, terms = (np.zeros((), contract.dtype(n)) for n in names)
        camera["size"], camera["photo"] = (width, height), offset
        frame["background"], frame["step"] = case.background, step
        counts["visible"], counts["splats"] = 77, 99
        for name, weight in weights.items():
            terms["weight"][pixel_terms().index(name)] = weight
        given = dict(camera=camera, frame=frame, counts=counts, loss_terms=terms)
        for name, data in given.items():
            r[name].upload(data)
        r["photos"].upload(pack(getattr(case, "rgba", case.photo)), offset=4 * offset)
        # A pixel outside the image that counts makes everything NaN.
        canvas = np.full((self.height, self.width, 4), np.nan, np.float32)
        canvas[:height, :width] = case.target
        r["target"].upload(canvas)

    def _run(self, recorder: Recorder, step: int = 0) -> tuple[np.void, np.ndarray]:
        recorder.run_once()
        history = self.resources["history"].array(contract.dtype("StepRecord"))
        return history[step % HISTORY].copy(), self.resources["d_image"].download()

    def train(self, case, **where) -> tuple[np.void, np.ndarray]:
        """The step's record and d_image of the whole canvas."""
        self.give(case, **where)
        return self._run(self.training, where.get("step", 0))

    def train_three_bytes(self, case, offset: int) -> tuple[np.void, np.ndarray]:
        """The same of a photograph without alpha, from pixel `offset` on."""
        self.give(case, offset)
        self.resources["photos"].fill(POISON)
        self.resources["photos"].upload(case.photo, offset=3 * offset)
        return self._run(self.three_bytes)

    def train_default(self, case) -> tuple[np.void, np.ndarray]:
        """The same by passes of the terms that have a weight by default."""
        self.give(case)
        return self._run(self.default)

    def measure(self, case, **where) -> tuple[float, float]:
        self.give(case, **where)
        self.measuring.run_once()
        height, width = case.photo.shape[:2]
        camera = Camera(np.eye(4), np.eye(3), width, height)
        pixels = int(kept(getattr(case, "rgba", case.photo)).sum())
        return read_metrics(self.metrics, camera, pixels)

    def agrees(self, case, limit=None, weights=WEIGHTS, **where) -> np.ndarray:
        """Asserts that the loss and its gradient are the oracle's; d_image of the image."""
        record, d_image = self.train(case, weights=weights, **where)
        value, d_expected = case.expected(weights)
        height, width = case.photo.shape[:2]
        terms = dict(zip(pixel_terms(), record["terms"].tolist()))
        assert abs(sum(w * terms[name] for name, w in weights.items()) - value) <= LOSS_TOLERANCE
        d_found, d_image[:height, :width, :3] = d_image[:height, :width, :3].copy(), 0
        assert relative(d_found, d_expected) <= (limit or GRADIENT_TOLERANCE)
        assert not d_image.any(), "outside the image and in alpha the gradient is 0"
        return d_found

    def measures(self, case, **where) -> None:
        """Asserts that the metrics are the oracle's."""
        psnr, ssim = self.measure(case, **where)
        image, photo = np.clip(case.image, 0, 1), case.photo / 255
        assert abs(psnr - oracle.psnr(image, photo, case.keep)) <= 1e-5
        assert abs(ssim - oracle.ssim(image, photo, case.keep)) <= 2e-6

    def destroy(self) -> None:
        for recorder in self.recorders:
            recorder.destroy()
        everything = (*self.resources.values(), *self.metrics.values())
        for resource in {id(r): r for r in everything}.values():
            resource.destroy()


class Case:
    """A photograph and a rendering near it, premultiplied, over a background. keep: or None."""

    keep = None

    def __init__(self, width: int, height: int, seed=0, noise=0.1, low=0.0, high=1.0):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[:height, :width, :1][:2]
        phase = x * [0.21, 0.05, 0.13] + y * [0.07, 0.17, 0.11] + rng.uniform(0, 6, 3)
        waves = 0.5 + 0.5 * np.sin(phase)
        photo = np.clip(waves + 0.1 * rng.standard_normal(waves.shape), 0, 1)
        self.photo = np.round(255 * (low + (high - low) * photo)).astype(np.uint8)
        self.background = rng.random(3).astype(np.float32)
        T = rng.random((height, width, 1)) ** 3
        color = self.photo / 255 + noise * rng.standard_normal(waves.shape) - T * self.background
        self.target = np.concatenate([color, T], axis=2).astype(np.float32)
        self.leave_kink()

    def leave_kink(self) -> None:
        """Off that of |x - y|: rounding decides there."""
        near = np.abs(self.image - self.photo / 255) < 1e-5
        self.target[..., :3] += np.where(near, 1e-4, 0)

    @property
    def image(self) -> np.ndarray:
        target = self.target.astype(np.float64)
        return target[..., :3] + target[..., 3:] * self.background.astype(np.float64)

    def expected(self, weights=WEIGHTS):
        return oracle.weighted(weights, self.image, self.photo / 255, self.keep)


class Transparent(Case):
    """A photograph with alpha (`rgba`); `photo` is what it shows over the background."""

    def __init__(self, *size, seed: int = 0, **named):
        super().__init__(*size, seed=seed, **named)
        alpha = np.random.default_rng(seed + 1).integers(0, 256, (*self.photo.shape[:2], 1))
        alpha[::3], alpha[1::3, ::2] = 255, 0
        self.rgba = np.concatenate([self.photo * alpha // 255, alpha], axis=2).astype(np.uint8)
        behind = (255 - self.rgba[..., 3:]) * self.background.astype(np.float64)
        self.photo = self.rgba[..., :3] + behind
        self.leave_kink()


class Masked(Case):
    """Only `keep` (H, W) counts: blots, single pixels and a corner are left out and far apart."""

    def __init__(self, *size, seed: int = 0, **named):
        super().__init__(*size, seed=seed, **named)
        rng = np.random.default_rng(seed + 1)
        y, x = np.mgrid[: size[1], : size[0]]
        outside = np.hypot(y - size[1] / 2, x - size[0] / 3) > min(size) / 5
        self.keep = outside & (rng.random(y.shape) > 0.02) & (x + y > 6)
        self.rgba = masked(self.photo, np.where(self.keep, 255, 0))
        self.disturb(rng)

    def disturb(self, rng) -> None:
        """Other numbers where nothing counts."""
        self.target[~self.keep] = rng.uniform(-9, 9, (int((~self.keep).sum()), 4))


def relative(actual, expected) -> float:
    actual = np.asarray(actual, np.float64)
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@pytest.fixture(scope="module")
def shared(module_device):
    loss = Loss(module_device, *CANVAS)
    yield loss
    loss.destroy()


@pytest.fixture
def loss(shared, device):
    return shared


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_loss_and_gradient(loss, size):
    loss.agrees(Case(*size, seed=sum(size)))


@pytest.mark.parametrize("size", [(37, 29), CANVAS], ids=str)
def test_transparent_photographs_show_the_background(loss, size):
    case = Transparent(*size, seed=5)
    loss.agrees(case, offset=3)
    loss.measures(case)


@pytest.mark.parametrize("size", [(37, 29), (7, 40), CANVAS], ids=str)
def test_what_a_mask_leaves_out_adds_nothing(loss, size):
    case = Masked(*size, seed=8)
    d_found = loss.agrees(case, offset=3)
    assert not d_found[~case.keep].any() and d_found[case.keep].any()
    loss.measures(case)
    (record, d_image), measured = loss.train(case, offset=3), loss.measure(case)
    case.disturb(np.random.default_rng(9))
    again, d_again = loss.train(case, offset=3)
    assert again == record and loss.measure(case) == measured
    np.testing.assert_array_equal(d_again, d_image)


def test_every_border_pixel_has_its_gradient(loss):
    case, border = Case(37, 29), np.ones((29, 37), bool)
    border[1:-1, 1:-1] = False
    d_expected = case.expected()[1]
    assert relative(loss.agrees(case)[border], d_expected[border]) <= GRADIENT_TOLERANCE


@pytest.mark.parametrize("term", pixel_terms())
@pytest.mark.parametrize("kind", [Case, Transparent, Masked])
def test_each_term_alone(loss, kind, term):
    assert term in oracle.TERMS, f"add the term to TERMS of tests/oracle/loss.py: {term}"
    loss.agrees(kind(37, 29, seed=66), weights={term: 1.0})


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_share_of_squared_errors(share):
    """In place of a share of the absolute ones; both are as steep at an error of 0.05."""
    found = loss_terms(TrainConfig.of(l2_share=share).flat())["weight"]
    weights = dict(zip(pixel_terms(), found))
    assert weights["dssim"] == np.float32(0.2)
    np.testing.assert_allclose(weights["l1"], 0.8 * (1 - share), rtol=1e-6)
    np.testing.assert_allclose(2 * 0.05 * weights["l2"], 0.8 * share, rtol=1e-6)


def test_terms_without_a_weight_are_not_computed(loss):
    case = Case(37, 29)
    (record, d_image), (found, d_found) = loss.train(case), loss.train_default(case)
    terms = record["terms"].copy()
    terms[[pixel_terms().index(name) for name in pixel_terms() if name not in WEIGHTS]] = 0
    assert (record["terms"] != terms).any() and (found["terms"] == terms).all()
    np.testing.assert_array_equal(d_found, d_image)


def test_a_term_that_compares_neighbours(device, monkeypatch, tmp_path):
    """The example of CONTRIBUTING."""
    (tmp_path / "edges.glsl").write_text(example("edges_of"))
    row = LossTerm(str(tmp_path / "edges.glsl"), PIXELS, lambda settings, extent: 0.0, "")
    monkeypatch.setitem(LOSS_TERMS, "edges", row)
    monkeypatch.setattr(device, "pipelines", {})  # which know passes by name, not by tables
    loss = Loss(device, *CANVAS)
    for kind, size in ((Masked, (37, 29)), (Case, CANVAS), (Case, (1, 1))):
        loss.agrees(kind(*size, seed=sum(size)), weights=WEIGHTS | {"edges": 0.7})
    loss.destroy()


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.02), (0.49, 0.51), (0.98, 1.0)])
def test_flat_images_where_variances_cancel(loss, low, high):
    """Measured: 1.9e-5, 3.6e-6, 1.9e-5; without SSIM_GREY 1.8e-6, 2.3e-5, 5.5e-5."""
    loss.agrees(Case(160, 120, noise=0.003, low=low, high=high), 4e-5)


def test_record_goes_to_the_step_and_photographs_start_anywhere(loss):
    case, pixels = Case(37, 29), CANVAS[0] * CANVAS[1]
    first, d_first = loss.train(case)
    assert (first["visible"], first["splats"]) == (77, 99)
    for step, at in ((5, 1), (HISTORY + 3, 37 * 29), (7 * HISTORY - 1, 2 * pixels + 13)):
        record, d_image = loss.train(case, step=step, offset=at)
        assert record == first
        np.testing.assert_array_equal(d_image, d_first)
        history = loss.resources["history"].array(np.uint32).reshape(HISTORY, -1)
        assert (np.delete(history, step % HISTORY, axis=0) == POISON).all()


@pytest.mark.parametrize("size", [s for s in SIZES if min(s) >= 6], ids=str)
def test_metrics(loss, size):
    loss.measures(Case(*size, seed=sum(size), noise=0.2), offset=17)


def test_photographs_of_three_bytes_a_pixel(loss):
    """The same bits as with four, wherever in a word a pixel begins."""
    case = Case(37, 29, seed=9)
    for offset in range(5):
        found, wanted = loss.train_three_bytes(case, offset), loss.train(case, offset=offset)
        assert found[0].tobytes() == wanted[0].tobytes()
        assert found[1][:29, :37].tobytes() == wanted[1][:29, :37].tobytes(), offset


SPLATS, EXTENT, WEIGHT = 60, 2.0, 300.0


@pytest.mark.parametrize("rasterizer", ("hardware", "tiled"))
def test_gradients_are_those_of_the_mean_smallest_scale(device, rasterizer):
    """By the logarithm of a scale that is the scale itself; discs and other axes have none."""
    s = random_scene(seed := fresh_seed(), SPLATS, 48, 32, 2)
    s["scales"][:20, 1] = 0.005 * s["scales"][:20].min(axis=1)  # discs
    own = lambda weight: dict(flat_lambda=weight, rasterizer=rasterizer)
    step, plain = (OneStep(device, s, own(w), extent=EXTENT) for w in (WEIGHT, 0.0))
    seen, scales = step.seen, np.sort(s["scales"], axis=1)
    thick = (scales[:, 0] >= 0.01 * scales[:, 1]) & seen
    assert 20 < thick.sum() <= 40, seed
    wanted = np.zeros((SPLATS, 3))
    least = np.argmin(s["scales"], axis=1)
    wanted[thick, least[thick]] = WEIGHT / EXTENT / SPLATS * scales[thick, 0]
    got = step.gradient("log_scales") - plain.gradient("log_scales")
    # measured: 1e-6 of the largest; float atomics add in any order
    assert np.abs(got - wanted).max() < 1e-4 * wanted.max(), seed
    for name in ("means", "quats", "logit_opacities"):
        both = step.gradient(name), plain.gradient(name)
        assert np.allclose(*both, rtol=1e-3, atol=1e-6), (name, seed)


def test_stochastic_gradients_have_none_of_it():
    with pytest.raises(UserError, match="--flat-lambda 0"):
        TrainConfig.of(gradient="stochastic", strategy="mcmc", flat_lambda=1.0).check_gradient()
