"""The table of steps timed by several checkouts."""

from pathlib import Path

import pytest

from hardsplat.io.scenes.scene import load_scene
from hardsplat.io.splats import save_splats
from tests.helpers.training import settings, splats_of
from tools.step_bench import main, measured, table


def trained(step_ms: float, draw_ms: float) -> dict:
    """metrics.json of a training, as far as the table reads it."""
    at = [(100, 7.0), (1100, 7.0 + step_ms)]  # steps and seconds: a second is a ms a step
    evaluations = [{"step": s, "training_seconds": t, "psnr": 30.0 + s / 1e4} for s, t in at]
    return {"evaluations": evaluations, "stage_ms": {"draw": draw_ms}}


def test_differences_are_those_of_a_round():
    """The machine is 1 ms slower in the second round, and the difference stays what it is."""
    main = [measured(trained(*each)) for each in [(2.0, 0.1), (3.0, 0.1), (2.5, 0.4)]]
    other = [measured(trained(*each)) for each in [(1.9, 0.1), (2.8, 0.2), (2.5, 0.3)]]
    lines = table({"main": main, "other": other}).splitlines()
    assert "| step, ms | 2.500 (2.000 to 3.000) | 2.500 (1.900 to 2.800) |" in lines
    assert "| against the first, us |  | -100 (-200 to 0) |" in lines
    assert "| PSNR, dB | 30.11 (30.11 to 30.11) | 30.11 (30.11 to 30.11) |" in lines
    assert "| draw, us | 100.0 | 200.0 |" in lines


@pytest.mark.usefixtures("device")
def test_checkouts_are_trained(scene, tmp_path, capsys):
    config, model = settings(scene), tmp_path / "model.ply"
    save_splats(model, splats_of(config, load_scene(scene)))
    tree = Path(__file__).parents[2]
    main([str(scene), str(model), f"main={tree}", "--steps", "20", "--rounds", "1"])
    assert capsys.readouterr().out.startswith("1 rounds: median")
