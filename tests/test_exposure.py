"""Exposure and colour of photographs: images and gradients against the float64 oracle, and what a run does with them."""

import json

import numpy as np
import pytest

from hardsplat import contract, trained
from hardsplat.config import TrainConfig
from hardsplat.errors import UserError
from hardsplat.gpu.image import Image
from hardsplat.gpu.memory import POISON, Buffer
from hardsplat.gpu.pipelines import build_all
from hardsplat.gpu.recorder import Recorder
from hardsplat.io.formats import checkpoint as checkpoints
from hardsplat.io.masks import masked
from hardsplat.presets import load_config
from hardsplat.raster.parameters import Parameters
from hardsplat.train.camera_colors import CameraColors
from hardsplat.train.exposure import exposure_passes, record_exposure_gradients, save_exposures
from hardsplat.train.loss import LOSS_PASSES, allocate_loss, loss_passes, loss_terms, record_loss
from hardsplat.train.photos import pack
from hardsplat.variants.exposures import EXPOSURES
from hardsplat.variants.formats import FORMATS
from tests.oracle import exposure as oracle
from tests.training import open_session, same_state, settings

HISTORY = contract.CONSTANTS["HISTORY"]
WIDTH, HEIGHT, CANVAS = 37, 23, (48, 32)
BACKGROUND = np.array([0.2, 0.1, 0.3])
PHOTOGRAPH, CAMERA = 2, 1  # which of 4 photographs and 3 cameras


def random_numbers(name: str, rng) -> dict[str, np.ndarray]:
    """(planes, width) of each quantity of a variant: far enough from 0 that everything matters, dark enough that few pixels end at 1."""
    out = {q.name: rng.normal(0, 0.15, (q.planes(0), q.width)) for q in EXPOSURES[name].quantities}
    if name == "ppisp":
        out["exposure"] -= 0.3
        out["white_balance"] *= 5
        out["response"] *= 3
    out["vignette_falloff"] = 0.3 * out["vignette_falloff"] - 0.2  # darker edges
    return out


def exposed(name: str, image: np.ndarray, numbers: dict) -> np.ndarray:
    return getattr(oracle, name)(image, **numbers)


def central(f, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a number by each of `at`."""
    out = np.zeros(at.size)
    for i in range(at.size):
        sides = [at.copy().reshape(-1) for _ in range(2)]
        sides[0][i] += step
        sides[1][i] -= step
        out[i] = (f(sides[0].reshape(at.shape)) - f(sides[1].reshape(at.shape))) / (2 * step)
    return out.reshape(at.shape)


class Exposing:
    """The loss on one image as a variant exposes it. LAMBDA is its share of D-SSIM."""

    LAMBDA = 0.2

    def __init__(self, device, name: str, numbers: dict, cameras: int = 3):
        self.name = name
        self.parameters = Parameters(device, 1, 0, gradients="written", items={"photograph": 4, "camera": 3})
        for q in EXPOSURES[name].quantities:
            n, which = (4, PHOTOGRAPH) if q.of == "photograph" else (3, CAMERA)
            values = np.full((q.planes(0), n, q.width), 9.0, np.float32)  # of others, which must not matter
            values[:, which] = numbers[q.name]
            self.parameters.write(q.name, values)
        self.own = {n: Buffer(device, contract.itemsize(n), n) for n in ("camera", "frame", "loss_terms", "counts")}
        self.own |= {"photos": Buffer(device, 4 * WIDTH * HEIGHT, "photos"), "history": Buffer(device, HISTORY * contract.itemsize("history"), "history", host=True)}
        self.own |= {"target": Image(device, *CANVAS, FORMATS["float32"].vk, np.float32, "target"), **allocate_loss(device, *CANVAS, exposed=True)}
        for buffer in ("exposure_sums", "ssim_grads", "loss_sums"):
            self.own[buffer].fill(POISON)
        losses = loss_passes(exposure=name, cameras=cameras)
        run = build_all(device, [*losses, *exposure_passes(name, cameras)])
        self.exposed, self.plain = (Recorder(device, {**self.parameters.all, **self.own}) for _ in range(2))
        record_loss(self.exposed, run, *CANVAS)
        record_exposure_gradients(self.exposed, run)
        record_loss(self.plain, build_all(device, LOSS_PASSES), *CANVAS)
        for recorder in (self.exposed, self.plain):
            recorder.end()

    def _run(self, recorder: Recorder, image: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The record of the loss, the derivatives of SSIM, and the gradient by the image. T: (H, W) what is left of the background."""
        texels = np.zeros((*CANVAS[::-1], 4), np.float32)
        texels[:HEIGHT, :WIDTH, :3], texels[:HEIGHT, :WIDTH, 3] = image - T[..., None] * BACKGROUND, T
        self.own["target"].upload(texels)
        recorder.run_once()
        record = self.own["history"].array(contract.dtype("StepRecord"))[0]
        values = np.array([record["mse"], *record["terms"][:2]], np.float64)
        return values, self.own["ssim_grads"].download(np.float32, 9 * WIDTH * HEIGHT).astype(np.float64), self.own["d_image"].download()[:HEIGHT, :WIDTH, :3].astype(np.float64)

    def __call__(self, image: np.ndarray, photo: np.ndarray, wanted: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, dict]:
        """How far the loss and what it sees are from those of `wanted`, the exposed image; the gradient by `wanted`; that by `image`, and those by the numbers.

        photo: (H, W, 3 or 4) uint8."""
        camera, frame = np.zeros((), contract.dtype("Camera")), np.zeros((), contract.dtype("Frame"))
        camera["size"] = WIDTH, HEIGHT
        frame["view"], frame["camera"], frame["background"] = PHOTOGRAPH, CAMERA, BACKGROUND
        for name, row in (("camera", camera), ("frame", frame), ("loss_terms", loss_terms(TrainConfig(ssim_lambda=self.LAMBDA, l2_share=0.0)))):
            self.own[name].upload(row)
        self.own["photos"].upload(pack(photo))
        record, seen, d_wanted = self._run(self.plain, wanted, np.zeros(image.shape[:2]))
        found, seen_found, d_found = self._run(self.exposed, image, np.random.default_rng(1).uniform(0, 0.4, image.shape[:2]))
        away = max(np.abs(found / record - 1).max(), np.abs(seen_found - seen).max() / np.abs(seen).max())
        which = {"photograph": PHOTOGRAPH, "camera": CAMERA}
        gradients = {q.name: self.parameters.read(q.d, self.parameters.items(q.name, 0))[:, which[q.of]] for q in EXPOSURES[self.name].quantities}
        return float(away), d_wanted, d_found, gradients

    def destroy(self) -> None:
        for part in (self.exposed, self.plain, self.parameters, *self.own.values()):
            part.destroy()


@pytest.mark.parametrize("name, cameras", [("affine", 3), ("ppisp", 3), ("ppisp", 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_image_and_gradients_against_the_oracle(device, name, cameras, seed):
    """The response of the only camera is the identity, and has no gradient."""
    rng = np.random.default_rng(seed)
    numbers, image, photo = random_numbers(name, rng), rng.uniform(0.02, 0.9, (HEIGHT, WIDTH, 3)), rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    if cameras == 1:
        numbers["response"] *= 0
    wanted = exposed(name, image, numbers)
    left = oracle.vignetting(image, numbers["vignette_centre"], numbers["vignette_falloff"])
    inside = np.all((wanted > 1e-3) & (wanted < 1 - 1e-3) & (left > 1e-3), axis=-1)  # at an end the derivative is ours, see below
    assert inside.mean() > 0.6, seed
    photo = masked(photo, np.where(inside, np.uint8(255), np.uint8(0)))
    exposing = Exposing(device, name, numbers, cameras)
    away, d, d_found, gradients = exposing(image, photo, wanted)
    exposing.destroy()
    assert away < 1e-4, seed
    per_channel = []
    for channel in range(3):  # a pixel depends on itself alone
        step = np.zeros(3)
        step[channel] = 1e-6
        per_channel.append(np.sum(d * (exposed(name, image + step, numbers) - exposed(name, image - step, numbers)), axis=-1) / 2e-6)
    d_wanted = np.stack(per_channel, axis=-1)
    assert np.abs(d_found - d_wanted).max() < 1e-4 * np.abs(d_wanted).max(), seed
    for q in EXPOSURES[name].quantities:
        if q.name == "response" and cameras == 1:
            assert not gradients[q.name].any()
            continue
        central_d = central(lambda values: np.sum(d * exposed(name, image, {**numbers, q.name: values})), numbers[q.name])
        assert np.abs(gradients[q.name] - central_d).max() < 1e-4 * np.abs(central_d).max() + 1e-7, (seed, q.name)


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_nothing_changes_where_all_numbers_are_0(device, name):
    rng = np.random.default_rng(3)
    image, photo = rng.uniform(0, 1, (HEIGHT, WIDTH, 3)), rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    exposing = Exposing(device, name, {q.name: np.zeros((q.planes(0), q.width)) for q in EXPOSURES[name].quantities})
    away, d, d_found, _ = exposing(image, photo, image)
    exposing.destroy()
    assert away < 1e-4 and np.abs(d_found - d).max() < 1e-4 * np.abs(d).max()


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_beyond_white_only_descent_passes(device, name):
    """A pixel brighter than white looks like white; it gets darker where the photograph is, and is otherwise left alone."""
    numbers = {q.name: np.zeros((q.planes(0), q.width)) for q in EXPOSURES[name].quantities}
    image, photo = np.full((HEIGHT, WIDTH, 3), 1.5), np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    photo[:, WIDTH // 2 :] = 255
    exposing = Exposing(device, name, numbers)
    away, d, d_found, _ = exposing(image, photo, np.ones_like(image))
    exposing.destroy()
    assert away < 1e-4 and (d < 0).any()
    assert not d_found[d < 0].any() and np.abs(d_found - d)[d > 0].max() < 1e-4 * d.max()


def test_colours_of_cameras_on_the_host(tmp_path):
    """Vignetting and response as the oracle has them, from what a run leaves; a camera that it does not know changes nothing."""
    rng = np.random.default_rng(4)
    numbers, image = random_numbers("ppisp", rng), rng.uniform(0, 1, (HEIGHT, WIDTH, 3))
    buffers = {name: np.stack([0 * values, values], axis=1) for name, values in numbers.items()}
    wanted = oracle.ppisp(image, **{**numbers, "exposure": np.zeros(1), "white_balance": np.zeros((2, 4))})
    assert not CameraColors.load(tmp_path).planes
    save_exposures(tmp_path / "exposures.json", "ppisp", buffers, ["a", "b"])
    colors = CameraColors.load(tmp_path)
    assert np.abs(colors(image, 1) - wanted).max() < 1e-5 < 1e-2 < np.abs(colors(image, 1) - image).max()
    assert np.abs(colors(image, 0) - image).max() < 1e-6 and np.abs(colors(image, 2) - image).max() < 1e-6
    for text in ("{", '{"cameras": [{"vignette_centre": [[0]]}]}', "[" * 99999):
        (tmp_path / "exposures.json").write_text(text)
        with pytest.raises(UserError, match="is not what a run learnt"):
            CameraColors.load(tmp_path)


# -- in a run ----------------------------------------------------------------------------------------------------------------------


def numbers_of(session) -> dict[str, np.ndarray]:
    return {q.name: session.snapshot().buffers[q.name] for q in EXPOSURES[session.config.exposure].quantities}


@pytest.mark.parametrize("name", ["affine", "ppisp"])
@pytest.mark.parametrize("rasterizer", ["hardware", "tiled"])
def test_a_step_moves_the_photograph_that_it_sees(device, scene, name, rasterizer):
    """Its moments are the only ones that change; all numbers together keep a mean of 0, and cameras move with every step."""
    session = open_session(device, settings(scene, exposure=name, rasterizer=rasterizer, ppisp_warm_up=1, strategy="none"))
    seen, before = set(), session.snapshot().buffers
    for _ in range(4):
        session.run(1)
        after = session.snapshot().buffers
        view = int(session.resources["frame"].download(contract.dtype("Frame"))[0]["view"])
        seen.add(view)
        for q in EXPOSURES[name].quantities:
            moved = np.flatnonzero(np.any(after[q.moments] != before[q.moments], axis=(0, 1, 3)))
            if q.centred:
                assert np.abs(after[q.name].mean(axis=1)).max() < 1e-7
            if q.name not in ("vignette_centre", "response"):  # no gradient without vignetting, and of the only camera
                assert moved.tolist() == ([view] if q.of == "photograph" else [0]), q.name
            if q.of == "photograph":
                assert after[q.name][:, view].any()
        resting = [q for q in trained.QUANTITIES.values() if q.chosen and (q.chosen[0] != "exposure" or name not in q.chosen[1])]
        assert resting and not any(after[q.name].any() or after[q.moments].any() for q in resting)
        before = after
    assert len(seen) > 1
    session.destroy()


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_gains_of_photographs_are_found(device, scene, name):
    """Photographs of one scene, some brighter and some darker: what is learnt goes with their gains."""
    rates = dict(ppisp_lr=0.05, ppisp_lr_final=0.05, ppisp_warm_up=1, affine_lr=0.02)
    session = open_session(device, settings(scene, exposure=name, max_steps=100, strategy="none", batch_steps=50, **rates))
    raw = session.photos.buffer.download(np.uint8)
    starts = session.photos._starts
    gains = np.array([0.6, 0.9, 0.75, 0.6, 0.9, 0.75, 0.6, 0.9])[: len(starts) - 1]
    for i, gain in enumerate(gains):
        part = raw[3 * starts[i] : 3 * starts[i + 1]]
        part[:] = np.round(part * gain)
    session.photos.buffer.upload(raw)
    for _ in range(2):
        session.run(50)
    buffers = session.snapshot().buffers
    if name == "affine":
        learnt = np.log2(1 + np.mean([buffers["affine"][k, :, k] for k in range(3)], axis=0) + buffers["affine"][:, :, 3].mean(axis=0))
    else:
        learnt = buffers["exposure"][0, :, 0]
    session.destroy()
    assert np.corrcoef(learnt, np.log2(gains))[0, 1] > 0.8, learnt


@pytest.mark.parametrize("name", ["affine", "ppisp"])
def test_deterministic_and_resumed_exactly(device, scene, tmp_path, name):
    config = settings(scene, exposure=name, rasterizer="tiled", deterministic=True, ppisp_warm_up=3)
    runs = [open_session(device, config) for _ in range(2)]
    for session in runs:
        session.run(4)
    path = checkpoints.path_of(tmp_path, 4)
    checkpoints.save(path, runs[0].snapshot())
    runs[1].start(runs[1].gaussians())  # other numbers
    runs[1].restore(checkpoints.load(path))
    assert same_state(*(session.snapshot() for session in runs))
    for session in runs:
        session.run(4)
        assert any(v.any() for v in numbers_of(session).values())
    assert same_state(*(session.snapshot() for session in runs))
    for session in runs:
        session.destroy()


def test_what_was_learnt_is_saved(device, scene, tmp_path):
    session = open_session(device, settings(scene, exposure="ppisp", ppisp_warm_up=1))
    session.run(3)
    session.drain()
    names = [f"{i}.jpg" for i in range(session.items["photograph"])]
    save_exposures(tmp_path / "exposures.json", "ppisp", session.snapshot().buffers, names)
    table, buffers = json.loads((tmp_path / "exposures.json").read_text()), session.snapshot().buffers
    session.destroy()
    assert list(table["photographs"]) == names and len(table["cameras"]) == 1
    assert np.allclose(table["photographs"]["2.jpg"]["white_balance"], buffers["white_balance"][:, 2])
    assert np.allclose(table["cameras"][0]["response"], buffers["response"][:, 0])
    with pytest.raises(UserError, match="cannot write"):
        save_exposures(tmp_path, "none", {}, [])


def test_stochastic_gradients_have_none_of_exposures():
    with pytest.raises(UserError, match="--exposure none or --gradient analytic"):
        load_config(overrides={"exposure": "ppisp", "gradient": "stochastic", "strategy": "none"})
    assert TrainConfig().exposure == "none"


def test_checkpoints_of_other_photographs(device, scene, tmp_path):
    """One made before these quantities were there begins them anew; one of other photographs is refused where their numbers are trained."""
    session = open_session(device, settings(scene, exposure="affine"))
    session.run(2)
    state, path = session.snapshot(), tmp_path / "ckpt_2.npz"
    for q in (q for kind in trained.ORDER[1:] for q in trained.of(kind)):
        del state.buffers[q.name], state.buffers[q.moments]
    checkpoints.save(path, state)
    session.restore(checkpoints.load(path))
    assert not session.snapshot().buffers["affine"].any()
    session.destroy()
    fewer = open_session(device, settings(scene, exposure="affine", test_every=2))
    state = fewer.snapshot()
    other = open_session(device, settings(scene, exposure="affine"))
    with pytest.raises(UserError, match="knows 4 photographs, the scene has 7"):
        other.restore(state)
    plain = open_session(device, settings(scene))
    plain.restore(state)
    for session in (fewer, other, plain):
        session.destroy()
