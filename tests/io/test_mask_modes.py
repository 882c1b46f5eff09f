"""What becomes of pixels that masks leave out, and LPIPS without its weights."""

import contextlib
import functools
import json
import sys
import types
from unittest.mock import Mock

import numpy as np
import pytest

from hardsplat.io.scenes.masks import MODES
from hardsplat.raster.core.frame import frame_data
from hardsplat.settings.train import TrainConfig
from hardsplat.train import run_training as train
from hardsplat.train.measure.command import evaluate_run
from hardsplat.train.measure.lpips import VARIANTS, Lpips
from hardsplat.train.measure.measure import Evaluator
from tests.helpers import needs
from tests.helpers.scenes import masked_scene
from tests.helpers.tables import refusal, refuses
from tests.helpers.training import open_session, settings


@pytest.fixture(scope="module")
def with_masks(scene, tmp_path_factory):
    """The tiny scene, of whose photographs the left half is masked out."""
    mask = np.zeros((24, 32), np.uint8)
    mask[:, 16:] = 255
    return masked_scene(scene, tmp_path_factory.mktemp("masked"), mask)


def test_nothing_may_stand_where_a_mask_is_black(device, with_masks):
    """Over black, black splats match as well as none; changing backgrounds remove them."""
    left = {}
    short = dict(strategy="none", opacities_lr=0.1, init_opa=0.5, max_steps=90, batch_steps=30)
    black, frame = np.zeros((24, 32, 3), np.uint8), frame_data(1, (0, 0, 0), 0.2)
    for mode in MODES:
        session = open_session(device, settings(with_masks, mask_mode=mode, **short))
        for _ in range(3):
            session.run(30)
        session.drain()
        evaluator = Evaluator(session.raster)
        evaluator.measure("", session.job.views.cameras[0], black, frame)
        T = session.raster.resources["target"].download()[:24, :12, 3].astype(np.float32)
        evaluator.destroy()
        left[mode] = float(1 - T.mean())
    # Measured 0.15; what one view masks out another may show.
    assert left["opacity"] < min(left["ignore"], left["transparent"]) - 0.08, left


def test_opacity_takes_random_backgrounds():
    assert TrainConfig.of(mask_mode="opacity").scene.background == "random"
    words = "--mask-mode opacity takes --background random, not white"
    refuses(words, TrainConfig.of, mask_mode="opacity", background="white")


@pytest.fixture
def stand_in(monkeypatch):
    """Packages without weights: LPIPS is the mean absolute difference of its inputs."""
    seen = {"made": [], "given": []}

    class Network:
        def __init__(self, **how):
            seen["made"].append(how)

        def eval(self):
            return self

        def __call__(self, a, b):
            seen["given"].append((a.array, b.array))
            return np.abs(a.array - b.array).mean()

    def tensor(array):
        return types.SimpleNamespace(array=array)

    torch = types.SimpleNamespace(from_numpy=tensor, no_grad=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "lpips", types.SimpleNamespace(LPIPS=Network))
    return seen


@pytest.mark.parametrize("name", VARIANTS)
def test_lpips_gives_networks_what_they_want(stand_in, name):
    image, photo = np.full((5, 7, 3), 1.5, np.float32), np.zeros((5, 7, 3), np.uint8)
    photo[..., 2] = 255
    distance = Lpips(name)(image, photo)
    assert stand_in["made"] == [{"net": VARIANTS[name].net, "version": "0.1", "verbose": False}]
    a, b = stand_in["given"][0]
    low = -1 if VARIANTS[name].signed else 0
    assert a.shape == b.shape == (1, 3, 5, 7) and a.dtype == b.dtype == np.float32
    assert (a == 1).all() and (b[0, :2] == low).all() and (b[0, 2] == 1).all()
    assert distance == pytest.approx((1 - low) * 2 / 3)


def test_lpips_that_cannot_be_imported(monkeypatch):
    for error, words in (
        (ModuleNotFoundError(name="lpips"), "--lpips needs lpips: pip install 'hardsplat[lpips]'"),
        (RuntimeError("no torchvision::nms"), "--lpips: lpips cannot be imported (no torchvision"),
    ):
        failing = Mock(side_effect=error)
        monkeypatch.setattr("hardsplat.train.measure.lpips.import_module", failing)
        assert refusal(Lpips, "alex").startswith(words)


def test_lpips_of_its_package(monkeypatch):
    """With random weights, which need no download."""
    try:
        lpips = needs.module("lpips", needs.EVERYTHING)
    except RuntimeError as error:
        pytest.skip(f"lpips cannot be imported ({error})")
    monkeypatch.setattr(lpips, "LPIPS", functools.partial(lpips.LPIPS, pnet_rand=True))
    photo = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    distance = Lpips("alex")
    assert distance(photo / 255, photo) == 0 < distance(1 - photo / 255, photo)


def test_eval_reports_lpips_and_fitted_colours(on_device, scene, stand_in, tmp_path):
    train(settings(scene, tmp_path, max_steps=3))
    table = evaluate_run(str(tmp_path), lpips="vgg-3dgs")
    assert table == json.loads((tmp_path / "eval/eval.json").read_text())
    assert table["lpips"]["variant"] == "vgg-3dgs"
    assert len(table["lpips"]["views"]) == len(table["views"]) == 2
    assert all(view["fitted_psnr"] >= view["psnr"] for view in table["views"])
