"""The command that makes README's table of figures."""

import json

import pytest

from tools import headline


def test_the_table_has_what_runs_wrote(scene, tmp_path, monkeypatch, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- headline -->\nold\n<!-- end -->\nbehind\n")
    flags = ("--max-steps", "8", "--data-factor", "1")
    monkeypatch.setattr(headline, "ROWS", (headline.Row(scene.name, flags),))
    monkeypatch.setattr(headline, "README", readme)
    words = ["--data", str(scene.parent), "--out", str(tmp_path / "out"), "--commit", "abc"]
    assert headline.main([*words, "--seeds", "1", "--readme"]) == 0
    (folder,) = (tmp_path / "out/abc").iterdir()
    metrics = json.loads((folder / "metrics.json").read_text())
    *_, row, _, caption, _ = capsys.readouterr().out.splitlines()
    psnr, peak = metrics["evaluations"][-1]["psnr"], metrics["memory_peak"]
    most = f"{(peak['driver'] or peak['allocated']) / 2**20:.0f} MiB"
    assert f"| {psnr:.2f} dB |" in row and ", 8 steps, one run |" in row and most in row
    views = len(metrics["evaluations"][-1]["views"])
    assert f"32x24 JPEG, {9 - views} photographs, {views} held out |" in row
    assert metrics["device"]["name"] in caption and "commit abc, 20" in caption
    text = readme.read_text()
    assert row in text and caption in text and "old" not in text
    assert text.startswith("before") and text.endswith("<!-- end -->\nbehind\n")
    # nothing is trained again, and no run is left out
    other = folder.with_name(folder.name.removesuffix("1") + "7")
    other.mkdir()
    (other / "config.toml").write_bytes((folder / "config.toml").read_bytes())
    metrics["evaluations"][-1]["psnr"] = psnr + 2
    (other / "metrics.json").write_text(json.dumps(metrics))
    unfinished = folder.with_name(folder.name + "0")
    unfinished.mkdir()
    (unfinished / "metrics.json").write_text(json.dumps(metrics | {"steps": 3}))
    monkeypatch.setattr(headline.subprocess, "run", None)
    assert headline.main([*words, "--seeds", "1"]) == 0
    said = capsys.readouterr().out
    assert f", 2 runs | {psnr + 1:.2f} dB, {psnr:.2f} to {psnr + 2:.2f} |" in said
    with pytest.raises(TypeError):  # an unfinished one is made again
        headline.main([*words, "--seeds", "10"])
