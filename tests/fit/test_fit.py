"""Image fits: the 2D oracle by central differences, every rasterizer against it, whole fits."""

import itertools
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hardsplat import contract
from hardsplat.base.errors import UserError
from hardsplat.cli import main
from hardsplat.fit.blobs import BlobBuffers, Blobs, grown
from hardsplat.fit.config import FitConfig
from hardsplat.fit.raster import STORE, open_rasterizer
from hardsplat.fit.session import FitSession
from hardsplat.gpu.commands.recorder import Recorder
from hardsplat.raster.core import resolve
from hardsplat.raster.core.frame import frame_data
from hardsplat.tables.fits import FIT_RASTERS
from tests.helpers.drawing import fresh_seed
from tests.helpers.goldens import relative_l2
from tests.oracle import fit2d
from tests.oracle.adam import adam_step
from tests.oracle.render import _fragments

BACKGROUND = (0.2, 0.5, 0.8)
rasterizers = pytest.mark.parametrize("rasterizer", FIT_RASTERS)


def random_blobs(seed: int, n: int, width: int, height: int, overlap=8.0, opacity=(0.1, 0.9)):
    """Of all orientations and up to 5:1, some beyond the border; about `overlap` deep."""
    rng = np.random.default_rng(seed)
    scale = np.sqrt(overlap * width * height / (n * 2 * np.pi * 4))
    opacity = rng.uniform(*opacity, n)
    means = rng.uniform(-0.1, 1.1, (2, n)) * [[width], [height]]
    scales = np.log(scale) + rng.uniform(-0.8, 0.8, (2, n))
    angles, colors = rng.uniform(-4, 4, (1, n)), rng.uniform(-0.2, 1.2, (3, n))
    planes = [means, scales, angles, colors, np.log(opacity / (1 - opacity))[None]]
    return Blobs.of(np.float32(np.concatenate(planes)))


def inputs_of(blobs: Blobs) -> dict:
    """The float64 arguments of fit2d.draw."""
    return {name: np.asarray(getattr(blobs, name), np.float64) for name in fit2d.PARAMETERS}


def clear_blobs(n: int, width: int, height: int) -> tuple[Blobs, int]:
    """The first from a fresh seed that rounding moves not across alpha = 1/255; the seed."""
    for seed in itertools.count(fresh_seed()):
        blobs = random_blobs(seed, n, width, height)
        splats = fit2d.draw(**inputs_of(blobs), width=width, height=height).splats
        parts = _fragments(splats, height, width, "none")
        if min(np.abs(255 * splats.opacity[i] * g - 1).min() for i, _, _, g, _, _ in parts) > 1e-5:
            return blobs, seed


def noise(width: int, height: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(height, width, 3)).astype(np.float32)


def drawn(device, blobs: Blobs, weight, **options) -> tuple[np.ndarray, Blobs]:
    """Image, and gradients of sum(weight * image), as Blobs. Skips where nothing draws."""
    height, width = weight.shape[:2]
    buffers = BlobBuffers(device, len(blobs) + 3, ("d_blobs",))  # planes are a capacity apart
    try:
        raster = open_rasterizer(device, buffers, width, height, FitConfig(**options), STORE)
    except UserError as error:
        buffers.destroy()
        pytest.skip(str(error))

    def run(*records) -> None:
        recorders = [Recorder(device, raster.resources) for _ in records]
        for recorder, record in zip(recorders, records):
            record(recorder)
            recorder.end().run_once()
        for recorder in recorders:
            recorder.destroy()

    begin = lambda r: raster.projection.record_begin(r, raster.pipelines)
    try:
        buffers.set(blobs)
        raster.resources["camera"].upload(contract.struct("Camera", size=(width, height)))
        raster.resources["frame"].upload(frame_data(0, BACKGROUND, 0.01))
        run(begin, raster.record_forward)
        if raster.reserve_pairs():
            run(begin, raster.record_forward)
        target = raster.resources["target"].download().astype(np.float64)
        d_image = np.concatenate([weight, np.zeros_like(weight[..., :1])], 2)
        raster.resources["d_image"].upload(d_image)
        run(raster.record_backward)
        sums = raster.resources["d_splats2d"].download(np.uint32, 9 * len(blobs))
        assert not sums.any(), "left clean for the next frame"
        image = target[..., :3] + target[..., 3:] * np.array(BACKGROUND)
        return image, Blobs.of(buffers.read("d_blobs"))
    finally:
        raster.destroy()
        buffers.destroy()


def check(device, blobs, width, height, what, limits=(1e-5, 1e-4), **options):
    """limits: of image and gradients. Measured: 1e-7 and 1e-6; tenfold in deep pixels."""
    weight = noise(width, height)
    frame = fit2d.draw(**inputs_of(blobs), width=width, height=height, background=BACKGROUND)
    image, found = drawn(device, blobs, weight, **options)
    exact = frame.backward(weight)
    errors = {name: relative_l2(getattr(found, name), exact[name]) for name in fit2d.PARAMETERS}
    error = relative_l2(image, frame.image)
    assert error <= limits[0] and max(errors.values()) <= limits[1], (what, options, error, errors)


@pytest.mark.parametrize(
    "rasterizer, reduction",
    [(r, by) for r, row in FIT_RASTERS.items() for by in row.reductions if by != "auto"],
)
def test_every_variant_agrees_with_the_oracle(device, rasterizer, reduction):
    blobs, seed = clear_blobs(120, 61, 47)
    check(device, blobs, 61, 47, seed, rasterizer=rasterizer, reduction=reduction)


@rasterizers
def test_every_rasterizer_on_other_canvases(device, rasterizer):
    """Smaller than a tile, no multiple of one, one pixel; with deep overlap that finishes pixels;
    with more blobs over a tile than the list of `sorted` holds, so faint that no pixel is finished
    by its first piece; long and thin ones. Fixed scenes, for the rounding of deep ones is not
    always the same."""
    thin = random_blobs(5, 20, 64, 48)
    thin.log_scales[:] = np.log([40.0, 0.5])
    for what, blobs, size in (
        ("one pixel", random_blobs(1, 5, 1, 1), (1, 1)),
        ("narrow", random_blobs(1, 60, 3, 40), (3, 40)),
        ("finished pixels", random_blobs(1, 150, 33, 21, 60, (0.6, 0.95)), (33, 21)),
        ("a list in pieces", random_blobs(3, 1500, 9, 7, 150, (0.008, 0.03)), (9, 7)),
        ("several digits of tiles", random_blobs(1, 150, 320, 272, 2), (320, 272)),
        ("thin", thin, (64, 48)),
    ):
        # Fixed-function blending alone draws on in finished pixels: up to T = 1e-4 of a colour.
        loose = (rasterizer, what) == ("hardware", "finished pixels")
        limits = (1e-4, 1e-3) if loose else (1e-5, 1e-4)
        check(device, blobs, *size, what, limits, rasterizer=rasterizer)


@rasterizers
def test_who_draws_nothing_changes_nothing(device, rasterizer):
    """Rows not finite, too faint or outside get no gradient, and leave others as they are."""
    blobs, weight = random_blobs(1, 60, 40, 30), noise(40, 30)
    image, gradients = drawn(device, blobs, weight, rasterizer=rasterizer)
    bad, nan, inf = random_blobs(2, 9, 40, 30).planes, np.nan, np.inf
    bad[range(9), range(9)] = nan, inf, nan, 80.0, inf, nan, -inf, nan, nan
    hidden = random_blobs(3, 2, 40, 30).planes
    hidden[8, 0], hidden[0, 1] = -9, 4000
    mixed = np.concatenate([bad, blobs.planes[:, :30], hidden, blobs.planes[:, 30:]], 1)
    again, found = drawn(device, Blobs.of(mixed), weight, rasterizer=rasterizer)
    assert relative_l2(again, image) < 1e-6
    others = np.r_[9:39, 41:71]
    assert not found.planes[:, np.setdiff1d(np.arange(71), others)].any()
    assert relative_l2(found.planes[:, others], gradients.planes) < 1e-5


def photograph(width: int, height: int) -> np.ndarray:
    """(H, W, 3) uint8: waves, and a square with sharp edges."""
    y, x = np.mgrid[0:height, 0:width] / height
    rng = np.random.default_rng(0)
    xy, image = np.stack([x, y]), np.empty((height, width, 3))
    for channel in range(3):
        phase = 2 * np.pi * np.tensordot(rng.normal(size=2), xy, 1) + rng.uniform(0, 6)
        image[..., channel] = 0.5 + 0.4 * np.sin(phase)
    image[height // 4 : height // 2, width // 4 : width // 2] = rng.random(3)
    return np.uint8(255 * image)


def test_steps_are_those_of_the_oracle(device):
    """One step of Adam from zero moments moves every number by its rate against the sign of the
    gradient, and the record has the loss; ten steps of the oracle's gradients through the oracle's
    Adam end where the GPU does."""
    photo, blobs, batches = photograph(24, 18), random_blobs(8, 20, 24, 18), []
    config = FitConfig(max_steps=10, background="white")
    session = FitSession(device, config, photo, len(blobs), batches.append)
    session.set(blobs)
    rates = {"means": config.means_lr * np.sqrt(24 * 18 / 20)}
    names = dict(log_scales="scales", angles="angles", colors="colors", logit_opacities="opacities")
    rates |= {name: getattr(config, f"{rate}_lr") for name, rate in names.items()}
    first, found = inputs_of(blobs), []
    for steps in (1, 9):
        session.run(steps)
        session.runner.drain()
        found.append(session.get())
    records = np.concatenate([batch.records for batch in batches])
    values, moments = dict(first), dict.fromkeys(first, (0.0, 0.0))
    for step in range(10):
        frame = fit2d.draw(**values, width=24, height=18, background=(1, 1, 1))
        mse, d_image = fit2d.squared_error(frame.image, photo / 255)
        exact = 1e-4 if step == 0 else 2e-3
        np.testing.assert_allclose(records["mse"][step], mse, rtol=exact)
        if step == 0:
            l1 = np.abs(frame.image - photo / 255).mean()
            np.testing.assert_allclose(records["terms"][0, 0], l1, rtol=1e-4)
        for name, d in frame.backward(d_image).items():
            rate = rates[name] * config.final_lr ** (step / 10)
            now = adam_step(values[name], d, *moments[name], step + 1, rate)
            values[name], *moments[name] = now
            if step == 0:
                sure, after = np.abs(d) > 1e-2 * np.abs(d).max(), getattr(found[0][0], name)
                limit = 1e-3 * rate + 2e-6 * np.abs(values[name]).max()
                np.testing.assert_allclose(after[sure], values[name][sure], atol=limit)
        if step == 0:
            m = Blobs(*(moments[name][0] for name in fit2d.PARAMETERS)).planes
            assert relative_l2(found[0][1][:9], m) < 1e-3
    after = inputs_of(found[1][0])
    for name in values:  # where rounding makes the gradient, it makes the step too
        assert relative_l2(after[name] - first[name], values[name] - first[name]) < 0.02, name
    session.destroy()


def test_a_measurement_needs_no_batch(device):
    """Memory that no batch has written says nothing of the camera."""
    photo, blobs = photograph(24, 18), random_blobs(8, 20, 24, 18)
    session = FitSession(device, FitConfig(background="white"), photo, len(blobs))
    session.set(blobs)
    frame = fit2d.draw(**inputs_of(blobs), width=24, height=18, background=(1, 1, 1))
    mse = np.mean((np.clip(frame.image, 0, 1) - photo / 255) ** 2)
    assert session.measure()[0] == pytest.approx(-10 * np.log10(mse), abs=1e-3)
    session.destroy()


def test_densification():
    rng = np.random.default_rng(0)
    photo = photograph(40, 30) / 255
    image = photo.copy()
    image[5:10, 20:30] = 1 - photo[5:10, 20:30]
    blobs = random_blobs(1, 50, 40, 30)
    blobs.logit_opacities[7], blobs.means[9] = -20, np.nan  # faded, and broken
    moments = np.tile(np.arange(50, dtype=np.float32), (18, 1))
    after, kept = grown(blobs, moments, image, photo, 80, rng)
    assert len(after) == 80 and kept.shape == (18, 80) and not kept[:, :32].any()
    np.testing.assert_array_equal(kept[0, 32:], np.delete(np.arange(50), [7, 9]))
    np.testing.assert_array_equal(after.planes[:, 32:], np.delete(blobs.planes, [7, 9], 1))
    new = after.means[:32]
    assert ((new >= [20, 5]) & (new <= [30, 10])).all(), "where the error is"
    x, y = new.astype(int).T
    np.testing.assert_allclose(after.colors[:32], photo[y, x], atol=1e-6)
    same, _ = grown(blobs, moments, photo, photo, 80, rng)
    assert len(same) == 80 and np.isfinite(same.planes[:, :32]).all()


@pytest.fixture
def fitted(on_device, monkeypatch, tmp_path):
    """The command in an empty folder; its exit code."""
    monkeypatch.chdir(tmp_path)
    return lambda flags: main(["fit", *flags.split()])


def saved(name: str, width: int, height: int, **options) -> None:
    Image.fromarray(photograph(width, height)).save(name, **options)


def test_the_command(fitted, capsys):
    """Everything that a fit leaves, of an image with odd sides, with blobs that are added."""
    saved("photo.jpg", 45, 31, quality=95)
    flags = "--max-steps 40 --densify --densify_every 5 --blobs 90"
    assert fitted(f"photo.jpg --result-dir out {flags}") == 0
    out = Path("out")
    pictures = {"reconstruction.png", "difference.png", "psnr.png"}
    assert {f.name for f in out.iterdir()} == pictures | {"blobs.npz", "metrics.json"}
    metrics = json.loads((out / "metrics.json").read_text())
    assert [metrics[key] for key in ("size", "blobs", "steps")] == [[45, 31], 90, 40]
    assert metrics["curve"]["step"][-1] == 40
    names = (out / "reconstruction.png", "photo.jpg")
    image, photo = (np.asarray(Image.open(name), float) / 255 for name in names)
    psnr = -10 * np.log10(np.mean((image - photo) ** 2))
    assert image.shape == photo.shape and abs(metrics["psnr"] - psnr) < 0.05
    assert metrics["psnr"] > metrics["curve"]["psnr"][0] + 3
    with np.load(out / "blobs.npz") as file:  # in units that redraw the picture
        logits = np.log(file["opacities"] / (1 - file["opacities"]))
        shapes = file["means"], np.log(file["scales"]), file["angles"]
        frame = fit2d.draw(*shapes, file["colors"], logits, *file["size"])
    assert np.abs(np.clip(frame.image, 0, 1) - image).max() < 0.02
    said = capsys.readouterr()
    assert f"{metrics['psnr']:.2f} dB" in said.out + said.err


def test_a_picture_that_is_met_exactly_leaves_json(fitted):
    """Which has no word for infinity."""
    Image.new("RGB", (1, 1)).save("black.png")
    assert fitted("black.png --max-steps 4 --result-dir out") == 0
    wrong = lambda name: pytest.fail(name)
    assert json.loads(Path("out/metrics.json").read_text(), parse_constant=wrong)["psnr"] == 120


def test_every_rasterizer_fits_alike(device, fitted):
    """In several batches, between which lists take their size. Measured: 2e-5 dB apart."""
    found = {}
    saved("photo.png", 32, 24)
    for name in resolve.runnable(device, FIT_RASTERS, "rasterizer"):
        assert (
            fitted(f"photo.png --rasterizer {name} --max-steps 16 --quiet --result-dir {name}") == 0
        )
        metrics = json.loads(Path(name, "metrics.json").read_text())
        assert metrics["rasterizer"] == name and metrics["steps"] == 16
        found[name] = metrics["psnr"]
    assert len(found) > 1 and np.ptp(list(found.values())) < 1e-4, found


BAD = {
    "missing.png": "missing.png: image not found",
    "empty.png": "empty.png: not a readable image",
    "text.png": "text.png: not a readable image",
    "float.tiff": "floating-point pixels",
    "ok.png --rasterizer magic": "--rasterizer: expected one of auto, binned",
    "ok.png --reduction quad --rasterizer balloted": "balloted has reduce-scatter",
    "ok.png --blobs -1": "--blobs: expected a whole number of at least 0",
    "ok.png --blobs 16777216": "do not fit",
    "ok.png --iterations 3": "did you mean '--max-steps'",
    "": "IMAGE",
}


@pytest.mark.parametrize("flags, what", BAD.items())
def test_bad_input_is_one_line(device, fitted, error_of, flags, what):
    if "16777216" in flags and device.max_buffer > 1 << 30:
        pytest.skip("it may well fit here")
    Path("empty.png").touch()
    Path("text.png").write_text("a picture")
    Image.fromarray(np.ones((4, 4), np.float32)).save("float.tiff")
    saved("ok.png", 8, 8)
    assert what in error_of("fit", flags)


@rasterizers
def test_nothing_is_left_where_memory_gives_out(device, leaves_nothing, rasterizer):
    """Whichever buffer it is that does not fit, those before it are freed."""
    if rasterizer not in resolve.runnable(device, FIT_RASTERS, "rasterizer"):
        pytest.skip(f"{device.name} has no {rasterizer}")
    photo, config = photograph(24, 16), FitConfig(rasterizer=rasterizer)
    assert leaves_nothing(lambda: FitSession(device, config, photo, 20), 4) > 12


def test_ctrl_c_writes_what_there_is_and_says_so_in_the_exit_code(fitted, monkeypatch):
    run = FitSession.run

    def interrupted(session, steps):
        run(session, steps)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FitSession, "run", interrupted)
    saved("a.png", 8, 8)
    assert fitted("a.png --blobs 8 --max-steps 900 --quiet --result-dir out") == 130
    assert Path("out/blobs.npz").is_file() and json.loads(Path("out/metrics.json").read_text())
