"""The command that makes README's table of figures."""

import json

from tools import headline


def test_the_table_has_what_a_default_run_wrote(scene, tmp_path, monkeypatch, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- headline -->\nold\n<!-- end -->\nbehind\n")
    flags = ("--max-steps", "8", "--data-factor", "1")
    monkeypatch.setattr(headline, "ROWS", (headline.Row(scene.name, "tiny", flags),))
    monkeypatch.setattr(headline, "README", readme)
    words = ["--data", str(scene.parent), "--out", str(tmp_path / "out"), "--seeds", "1"]
    assert headline.main([*words, "--readme"]) == 0
    (folder,) = (tmp_path / "out").iterdir()
    metrics = json.loads((folder / "metrics.json").read_text())
    row = capsys.readouterr().out.splitlines()[-2]
    psnr = metrics["evaluations"][-1]["psnr"]
    assert f"| {psnr:.2f} dB (one run) |" in row and ", 8 steps |" in row
    text = readme.read_text()
    assert row in text and "old" not in text and text.startswith("before")
    # nothing is trained again
    monkeypatch.setattr(headline.subprocess, "run", None)
    assert headline.main(words) == 0


def test_several_seeds_are_a_mean_with_the_outer_two():
    assert headline.spread([32.0, 31.0, 31.5], 2, "dB") == "31.50 dB, 31.00 to 32.00"
