"""splats.ply as others see it, by plyfile and the oracle, against the PSNR of the run."""

import json

import numpy as np
import pytest
from plyfile import PlyData

from hardsplat.base.paths import CONFIGS
from hardsplat.cli import main
from hardsplat.io.scenes.scene import load_scene
from tests.helpers.tables import argv
from tests.oracle.render import render

# dB; 2e-6 at most was measured, and 0.02 with stochastic gradients, whose images blend what lies
# behind an opaque splat too
MOST = 0.05
NEAR = 0.01  # world units, as gsplat draws
PRESETS = ["", *(f"--config {file.stem}" for file in sorted(CONFIGS.glob("*.toml")))]
OTHERS = ["--antialiased", "--exposure affine --pose-opt", "--rasterizer hardware"]


def properties(path):
    """The oracle's inputs by the layout of Kerbl et al.; nothing else of the file is read."""
    data = PlyData.read(path)["vertex"].data
    columns = lambda *names: np.stack([data[n].astype(np.float64) for n in names], axis=1)
    rest = [name for name in data.dtype.names if name.startswith("f_rest_")]
    sh = columns("f_dc_0", "f_dc_1", "f_dc_2")[:, None]
    if rest:
        bands = columns(*(f"f_rest_{i}" for i in range(len(rest)))).reshape(len(data), 3, -1)
        sh = np.concatenate([sh, bands.transpose(0, 2, 1)], axis=1)
    shapes = dict(scales=np.exp(columns("scale_0", "scale_1", "scale_2")), sh=sh)
    shapes["opacities"] = 1 / (1 + np.exp(-columns("opacity")[:, 0]))
    places = dict(means=columns("x", "y", "z"), quats=columns(*(f"rot_{i}" for i in range(4))))
    return shapes | places | {"sh_degree": round(sh.shape[1] ** 0.5) - 1}


def others_see(path, scene) -> float:
    """Mean PSNR of the held-out views, dB."""
    found, splats = [], properties(path)
    for view in load_scene(scene).held_out:
        c = view.camera
        size = dict(width=c.width, height=c.height, near=NEAR)
        image = render(**splats, w2c=c.w2c, K=c.K, **size).image
        error = np.clip(image, 0, 1) - view.load() / 255
        found.append(-10 * np.log10(np.mean(error**2)))
    return float(np.mean(found))


WORDS = "--max-steps 12 --cap-max 400 --data-factor 1 --quiet"


@pytest.mark.parametrize("flags", PRESETS + OTHERS)
def test_the_psnr_of_a_run_is_what_others_see(on_device, scene, tmp_path, flags):
    words = WORDS, "--sh-degree-interval 3 --result-dir", tmp_path
    assert main(argv("train", scene, flags, *words)) == 0
    last = json.loads((tmp_path / "metrics.json").read_text())["evaluations"][-1]
    assert last["psnr"] == pytest.approx(others_see(tmp_path / "splats.ply", scene), abs=MOST)
    if flags == "--antialiased":
        assert abs(last["psnr_antialiased"] - last["psnr"]) > 0.01


def test_what_others_see_of_a_sky_is_measured_beside_it(on_device, outdoors, tmp_path, capsys):
    words = WORDS, "--background sphere --result-dir", tmp_path
    assert main(argv("train", outdoors, *words)) == 0
    last = json.loads((tmp_path / "metrics.json").read_text())["evaluations"][-1]
    seen = last["psnr_as_splats"]
    assert seen == pytest.approx(others_see(tmp_path / "splats.ply", outdoors), abs=MOST)
    assert abs(seen - last["psnr"]) > 2 * MOST  # the sky itself is another picture
    words = f"{seen:.2f} with the sky as splats, as other viewers draw it"
    assert words in capsys.readouterr().out
    assert main(argv("eval", tmp_path)) == 0
    words = f"with the sky as splats, as other viewers draw it: PSNR {seen:.2f} dB"
    assert words in capsys.readouterr().out
