"""Exposure and colour of photographs against the float64 oracle, and in runs."""

import numpy as np
import pytest

from hardsplat import contract
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.gpu.memory.allocation import POISON
from hardsplat.gpu.memory.buffer import Buffer
from hardsplat.gpu.memory.image import Image
from hardsplat.gpu.memory.resources import allocate_filled
from hardsplat.gpu.passes.declared import filled
from hardsplat.gpu.passes.pipelines import build_all
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.scenes.masks import masked
from hardsplat.raster.core.frame import frame_data
from hardsplat.raster.core.parameters import Parameters
from hardsplat.settings.train import TrainConfig
from hardsplat.step.loss import (
    LOSS_PASSES,
    allocate_loss,
    loss_passes,
    loss_terms,
    record_loss,
    tiles,
)
from hardsplat.step.photos import pack
from hardsplat.tables import quantities
from hardsplat.tables.formats import FORMATS
from hardsplat.tables.photographs import EXPOSURES
from hardsplat.train import run_training as train
from hardsplat.train.features.exposure import CameraResponse, exposure_parts, save_exposures
from hardsplat.train.measure.measure import Asked, Evaluator
from tests.helpers.tables import refuses
from tests.helpers.training import open_session, settings
from tests.oracle import exposure as oracle
from tests.oracle.differences import central

HISTORY = contract.CONSTANTS["HISTORY"]
WIDTH, HEIGHT, CANVAS = 37, 23, (48, 32)
BACKGROUND = np.array([0.2, 0.1, 0.3])
PHOTOGRAPH, CAMERA = 2, 1  # which of 4 photographs and 3 cameras


def numbers_with(name: str, make) -> dict[str, np.ndarray]:
    """(planes, width) of each quantity of a variant."""
    return {q.name: make((q.planes(0), q.width)) for q in EXPOSURES[name].quantities}


def random_numbers(name: str, rng) -> dict[str, np.ndarray]:
    """Far enough from 0 that everything matters, dark enough that few pixels end at 1."""
    out = numbers_with(name, lambda shape: rng.normal(0, 0.15, shape))
    if name == "ppisp":
        out["exposure"] -= 0.3
        out["white_balance"] *= 5
        out["response"] *= 3
    out["vignette_falloff"] = 0.3 * out["vignette_falloff"] - 0.2  # darker edges
    return out


def exposed(name: str, image: np.ndarray, numbers: dict) -> np.ndarray:
    return getattr(oracle, name)(image, **numbers)


class Exposing:
    """The loss on one image as a variant exposes it. LAMBDA is its share of D-SSIM."""

    LAMBDA = 0.2

    def __init__(self, device, name: str, numbers: dict, cameras: int = 3):
        self.name, items = name, {"photograph": 4, "camera": 3}
        self.which = {"photograph": PHOTOGRAPH, "camera": CAMERA}
        self.parameters = Parameters(device, 1, 0, gradients="written", items=items)
        for q in EXPOSURES[name].quantities:
            # of others, which must not matter
            values = np.full((q.planes(0), items[q.of], q.width), 9.0, np.float32)
            values[:, self.which[q.of]] = numbers[q.name]
            self.parameters.write(q.name, values)
        sizes = {n: contract.itemsize(n) for n in ("camera", "frame", "loss_terms", "counts")}
        sizes["photos"] = 4 * WIDTH * HEIGHT
        self.own = {n: Buffer(device, size, n) for n, size in sizes.items()}
        history = HISTORY * contract.itemsize("history")
        self.own["history"] = Buffer(device, history, "history", host=True)
        self.own["target"] = Image(device, *CANVAS, FORMATS["float32"].vk, np.float32, "target")
        parts = exposure_parts(name, cameras, tiles(*CANVAS))
        self.own |= allocate_loss(device, *CANVAS) | allocate_filled(device, parts.buffers)
        for buffer in ("exposure_sums", "ssim_grads", "loss_sums"):
            self.own[buffer].fill(POISON)
        run = build_all(device, [*filled(loss_passes(), parts.fills), *parts.passes])
        resources = {**self.parameters.resources, **self.own}
        self.exposed, self.plain = (Recorder(device, resources) for _ in range(2))
        record_loss(self.exposed, run, *CANVAS)
        self.exposed.run(run["expose gather"], threads=(contract.CONSTANTS["GROUP"],))
        record_loss(self.plain, build_all(device, LOSS_PASSES), *CANVAS)
        for recorder in (self.exposed, self.plain):
            recorder.end()

    def _run(self, recorder: Recorder, image: np.ndarray, T: np.ndarray) -> tuple:
        """The loss's record, derivatives of SSIM, gradient by the image. T (H, W): behind it."""
        texels = np.zeros((*CANVAS[::-1], 4), np.float32)
        texels[:HEIGHT, :WIDTH, :3] = image - T[..., None] * BACKGROUND
        texels[:HEIGHT, :WIDTH, 3] = T
        self.own["target"].upload(texels)
        recorder.run_once()
        record = self.own["history"].array(contract.dtype("StepRecord"))[0]
        values = np.array([record["mse"], *record["terms"][:2]], np.float64)
        seen = self.own["ssim_grads"].download(np.float32, 9 * WIDTH * HEIGHT)
        d_image = self.own["d_image"].download()[:HEIGHT, :WIDTH, :3]
        return values, seen.astype(np.float64), d_image.astype(np.float64)

    def __call__(self, image: np.ndarray, photo: np.ndarray, wanted: np.ndarray) -> tuple:
        """How far the loss and what it sees are from those of `wanted`, the exposed image; the
        gradient by `wanted`; that by `image`, and those by the numbers. photo: (H, W, 3 or 4)
        uint8."""
        camera, frame = (np.zeros((), contract.dtype(name)) for name in ("Camera", "Frame"))
        camera["size"] = WIDTH, HEIGHT
        frame["view"], frame["camera"], frame["background"] = PHOTOGRAPH, CAMERA, BACKGROUND
        terms = loss_terms(TrainConfig.of(ssim_lambda=self.LAMBDA, l2_share=0.0).flat())
        for name, row in (("camera", camera), ("frame", frame), ("loss_terms", terms)):
            self.own[name].upload(row)
        self.own["photos"].upload(pack(photo))
        T = np.random.default_rng(1).uniform(0, 0.4, image.shape[:2])
        record, seen, d_wanted = self._run(self.plain, wanted, 0 * T)
        found, seen_found, d_found = self._run(self.exposed, image, T)
        away = (
            np.abs(found / record - 1).max(),
            np.abs(seen_found - seen).max() / np.abs(seen).max(),
        )
        d = {}
        for q in EXPOSURES[self.name].quantities:
            values = self.parameters.read(q.d, self.parameters.items(q.name, 0))
            d[q.name] = values[:, self.which[q.of]]
        return max(away), d_wanted, d_found, d

    def destroy(self) -> None:
        for part in (self.exposed, self.plain, self.parameters, *self.own.values()):
            part.destroy()


@pytest.fixture
def expose(device):
    """What Exposing finds of a variant with these numbers."""

    def run(name, numbers, image, photo, wanted, cameras=3):
        exposing = Exposing(device, name, numbers, cameras)
        found = exposing(image, photo, wanted)
        exposing.destroy()
        return found

    return run


@pytest.mark.parametrize("name, cameras", [("affine", 3), ("ppisp", 3), ("ppisp", 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_image_and_gradients_against_the_oracle(expose, name, cameras, seed):
    """The response of the only camera is the identity, and has no gradient."""
    rng = np.random.default_rng(seed)
    numbers, image = random_numbers(name, rng), rng.uniform(0.02, 0.9, (HEIGHT, WIDTH, 3))
    photo = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    if cameras == 1:
        numbers["response"] *= 0
    wanted = exposed(name, image, numbers)
    left = oracle.vignetting(image, numbers["vignette_centre"], numbers["vignette_falloff"])
    # At an end the derivative is ours, see below.
    inside = np.all((wanted > 1e-3) & (wanted < 1 - 1e-3) & (left > 1e-3), axis=-1)
    assert inside.mean() > 0.6
    photo = masked(photo, np.where(inside, np.uint8(255), np.uint8(0)))
    away, d, d_found, gradients = expose(name, numbers, image, photo, wanted, cameras)
    assert away < 1e-4
    d_wanted = np.zeros_like(d_found)
    for channel, step in enumerate(1e-6 * np.eye(3)):  # a pixel depends on itself alone
        change = exposed(name, image + step, numbers) - exposed(name, image - step, numbers)
        d_wanted[..., channel] = np.sum(d * change, axis=-1) / 2e-6
    assert np.abs(d_found - d_wanted).max() < 1e-4 * np.abs(d_wanted).max()
    for q in EXPOSURES[name].quantities:
        if q.name == "response" and cameras == 1:
            assert not gradients[q.name].any()
            continue
        loss = lambda values: np.sum(d * exposed(name, image, {**numbers, q.name: values}))
        exact = central(loss, numbers[q.name], 1e-6)
        limit = 1e-4 * np.abs(exact).max() + 1e-7
        assert np.abs(gradients[q.name] - exact).max() < limit, q.name


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_beyond_white_only_descent_passes(expose, name):
    """Brighter than white looks white: it gets darker where the photograph is, or stays."""
    white = np.ones((HEIGHT, WIDTH, 3))
    photo = np.zeros(white.shape, np.uint8)
    photo[:, WIDTH // 2 :] = 255
    away, d, d_found, _ = expose(name, numbers_with(name, np.zeros), 1.5 * white, photo, white)
    assert away < 1e-4 and (d < 0).any()
    assert not d_found[d < 0].any() and np.abs(d_found - d)[d > 0].max() < 1e-4 * d.max()


def test_colours_of_cameras_on_the_host(tmp_path):
    """As the oracle, from what a run leaves; an unknown camera changes nothing."""
    rng, path = np.random.default_rng(4), tmp_path / "exposures.json"
    numbers, image = random_numbers("ppisp", rng), rng.uniform(0, 1, (HEIGHT, WIDTH, 3))
    buffers = {name: np.stack([0 * values, values], axis=1) for name, values in numbers.items()}
    of_photograph = {"exposure": np.zeros(1), "white_balance": np.zeros((2, 4))}
    wanted = oracle.ppisp(image, **numbers | of_photograph)
    assert CameraResponse.load(tmp_path) is None
    save_exposures(path, "ppisp", buffers, ["a", "b"])
    colors = CameraResponse.load(tmp_path)
    away = lambda camera, image_of: np.abs(colors(camera, image) - image_of).max()
    assert away(1, wanted) < 1e-5 < 1e-2 < away(1, image)
    assert away(0, image) < 1e-6 and away(2, image) < 1e-6
    centreless = path.read_text().replace("vignette_centre", "centre")
    for text in (centreless, "{", '{"cameras": [{"vignette_centre": [[0]]}]}', "[" * 99999):
        path.write_text(text)
        refuses("is not what a run found", CameraResponse.load, tmp_path)


@pytest.mark.parametrize("name", ["affine", "ppisp"])
@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_a_step_moves_the_photograph_that_it_sees(device, scene, name, rasterizer):
    """Its moments alone change; all numbers keep a mean of 0, and cameras always move."""
    run = dict(exposure=name, rasterizer=rasterizer, ppisp_warm_up=1, strategy="none")
    session = open_session(device, settings(scene, **run))
    seen, before = set(), session.snapshot().buffers
    others = [q for q in quantities.QUANTITIES.values() if q.chosen]
    others = [q for q in others if q.chosen[0] != "exposure" or name not in q.chosen[1]]
    for _ in range(4):
        session.run(1)
        after = session.snapshot().buffers
        frame = session.resources["frame"].download(contract.dtype("Frame"))[0]
        seen.add(view := int(frame["view"]))
        for q in EXPOSURES[name].quantities:
            moved = np.any(after[q.moments] != before[q.moments], axis=(0, 1, 3))
            if q.centred:
                assert np.abs(after[q.name].mean(axis=1)).max() < 1e-7
            # No gradient without vignetting, and of the only camera.
            if q.name not in ("vignette_centre", "response"):
                wanted = [view] if q.of == "photograph" else [0]
                assert np.flatnonzero(moved).tolist() == wanted, q.name
            if q.of == "photograph":
                assert after[q.name][:, view].any()
        assert others and not any(after[n].any() for q in others for n in (q.name, q.moments))
        before = after
    assert len(seen) > 1


def test_checkpoints_of_other_photographs(device, scene, tmp_path):
    """One of before these quantities begins them anew; one of other photographs is refused."""
    affine = dict(exposure="affine")
    every = {}, affine, affine | {"test_every": 2}
    plain, session, fewer = (open_session(device, settings(scene, **run)) for run in every)
    session.run(2)
    state, path = session.snapshot(), tmp_path / "ckpt_2.npz"
    for q in (q for kind in quantities.ORDER[1:] for q in quantities.of(kind)):
        del state.buffers[q.name], state.buffers[q.moments]
    checkpoints.save(path, state)
    session.restore(checkpoints.load(path))
    assert not session.snapshot().buffers["affine"].any()
    refuses("knows 4 photographs, the scene has 7", session.restore, fewer.snapshot())
    plain.restore(fewer.snapshot())


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_exposures_end_and_splats_go_on(on_device, scene, tmp_path, name):
    """After their share of the steps all numbers are 0 and rest."""
    config = settings(scene, exposure=name, exposure_until=0.5, max_steps=20)
    of = [q.name for q in EXPOSURES[name].quantities]
    session = open_session(on_device, config)
    assert session.schedule.ends == dict.fromkeys(of, 10) and session.staying == set(of)
    session.run(9)
    session.expire()
    assert session.staying == set(of)
    session.run(1)
    before = session.snapshot()
    assert any(before.buffers[q].any() for q in of)
    session.expire()
    session.run(4)
    after = session.snapshot()
    assert not session.staying and not any(after.buffers[q].any() for q in of)
    assert (after.buffers["means"] != before.buffers["means"]).any()
    train(settings(scene, tmp_path, exposure=name, exposure_until=0.5, max_steps=20))
    end = checkpoints.load(checkpoints.path_of(tmp_path, 20))
    assert not any(end.buffers[q].any() for q in of)


def test_colours_fitted_on_the_gpu(device, scene):
    """Against float64, with light by halves."""
    session = open_session(device, settings(scene, max_steps=40, batch_steps=40))
    session.run(40)
    session.drain()
    evaluator = Evaluator(session.raster)
    camera, background = session.job.views.cameras[0], (0.3, 0.1, 0.2)
    frame = frame_data(1, background, 0.2)
    empty = np.zeros((camera.height, camera.width, 3), np.uint8)
    image = np.clip(evaluator.measure("", camera, empty, frame).image, 0, 1).astype(np.float64)
    rng = np.random.default_rng(3)
    photo = 0.8 * image[..., ::-1] * [1.1, 0.8, 0.9] + 0.1 + rng.normal(0, 0.02, image.shape)
    left = np.arange(camera.width) < camera.width // 2
    photo = np.where(left[:, None], photo, 0.9 * photo).clip(0, 1)
    given = np.round(255 * photo).astype(np.uint8)
    wanted, ones = given / 255, np.concatenate([image, np.ones_like(image[..., :1])], axis=2)
    for rows in (slice(None), slice(0, 9), slice(0, 0)):  # of the right half that a mask leaves
        kept = np.broadcast_to(left, photo.shape[:2]).copy()
        kept[rows] = True
        photo = masked(given, np.uint8(255) * kept)
        found = evaluator.measure("", camera, photo, frame, Asked(fitted=True, halves=True))
        summed = evaluator.measure("", camera, photo, frame, Asked(gain=True))
        one = not kept[:, ~left].any()  # half, which is both then
        fit, test = (kept, kept) if one else (kept & left, kept & ~left)
        gains = (image[fit] * wanted[fit]).sum(0) / (image[fit] ** 2).sum(0)
        assert abs(found.half_psnr - psnr_of(gains * image[test], wanted[test])) < 1e-3, rows
        colors = np.linalg.lstsq(ones[kept], wanted[kept], rcond=None)[0]
        assert abs(summed.fitted_psnr - psnr_of(ones[kept] @ colors, wanted[kept])) < 1e-3, rows
        assert summed.fitted_ssim is None
        fitted = np.clip(ones[kept] @ colors, 0, 1)
        assert abs(found.fitted_psnr - psnr_of(fitted, wanted[kept])) < 1e-3, rows
        assert found.fitted_psnr > found.psnr + 3 and 0 < found.ssim < found.fitted_ssim < 1, rows
    evaluator.destroy()


def psnr_of(image: np.ndarray, wanted: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((image - wanted) ** 2)))
