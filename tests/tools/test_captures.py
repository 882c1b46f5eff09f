"""What `python -m tools.captures` makes of its words and its rows."""

import json

import pytest

from hardsplat.train.job import validation
from hardsplat.train.strategies import budget
from tools.captures import constants, main, pairs


def test_constants_are_others_for_a_while():
    before = validation.GAIN, budget.MOST
    values = pairs(["GAIN=0.3", "train.strategies.budget:MOST=7", 'background="white"'])
    assert values.pop("background") == "white"
    with pytest.raises(ZeroDivisionError), constants(values):
        assert (validation.GAIN, budget.MOST) == (0.3, 7)
        raise ZeroDivisionError
    assert before == (validation.GAIN, budget.MOST)


def test_names_are_compared_on_captures_that_both_have(tmp_path, capsys):
    rows = [
        ("default", "a", 30, 0.9, 4),
        ("default", "a", 32, 0.9, 6),
        ("default", "b", 20, 0.8, 5),
    ]
    rows += [("other", "a", 31.5, 0.95, 4), ("other", "c", 40, 1, 1)]
    names = ("name", "capture", "psnr", "ssim", "training")
    out = tmp_path / "rows.jsonl"
    out.write_text("\n".join(json.dumps(dict(zip(names, row))) for row in rows))
    assert main(["--out", str(out), "--against", "default"]) == 0
    said = capsys.readouterr().out
    assert said == "other: +0.500 dB, SSIM +0.0500, -1.0 s; a +0.50\n"
