"""Photographs that do not connect: their parts, the page that shows them, and a run of such."""

import shutil
from types import SimpleNamespace

import cv2
import numpy as np

from hardsplat.sfm.colmap.outcome import Part, parts_of, reasons, write_sheet
from hardsplat.sfm.job.config import SfmConfig
from hardsplat.sfm.run import sfm
from tests.helpers.scenes import COURTYARD


def matched(pairs, alike=()):
    """Matches as the database gives them, of which parts are made."""
    return SimpleNamespace(pairs=np.array(pairs, np.int64).reshape(-1, 2), alike=dict(alike))


def test_parts():
    names, placed = list("abcdefgh"), {"a", "b", "c"}
    pairs = [(0, 1), (1, 2), (3, 4), (2, 5)]  # a-b-c-f, d-e, g, h
    alike = {(0, 1): 90, (2, 5): 30, (3, 4): 40, (1, 4): 9, (2, 3): 11}
    model, *others = parts = parts_of(names, matched(pairs, alike), placed)
    assert model.kind == "model" and model.names == list("abc")
    wanted = [("apart", "de", ("d", "c", 11)), ("attached", "f", ("f", "c", 30))]
    wanted.append(("alone", "gh", None))
    assert [(p.kind, "".join(p.names), p.link) for p in others] == wanted
    assert "d and c (11 alike) come nearest: take some between these two" in others[0].line
    assert "no pose fits; f and c (30 alike) come nearest: take some between" in others[1].line
    assert "2 photographs (g, h): match no other photograph" in others[2].line
    why = reasons(parts, dict.fromkeys(names, 900) | {"h": 3})
    assert why.keys() == set("defgh") and "only 3 features" in why["h"]
    assert "not the model; d and c (11" in why["e"] and "no pose fits" in why["f"]
    whole = parts_of(names, matched(pairs), set())  # no model at all
    found = [(p.kind, "".join(p.names)) for p in whole]
    assert found == [("apart", "abcf"), ("apart", "de"), ("alone", "gh")]
    assert parts_of(["a"], matched([]), {"a"})[0].kind == "model"


def test_a_page_of_parts(tmp_path):
    hostile = "<script>alert(1)</script>.jpg"
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    shutil.copy(COURTYARD / "images" / "view_0000.jpg", tmp_path)
    many = [f"{i}.jpg" for i in range(500)]
    parts = [Part(["view_0000.jpg", hostile], "model"), Part(many, "apart", ("broken.jpg", "x", 9))]
    write_sheet(tmp_path / "parts.html", tmp_path, parts + [Part(many, "alone")] * 30)
    page = (tmp_path / "parts.html").read_text()
    assert page.count("data:image/webp") == 1 and "<script" not in page
    assert "&lt;script&gt;" in page and "Nearest to a connection" in page
    assert len(page) < 100_000 and "<li>500 photographs" in page


def poster(folder, count):
    """Pictures of a plane of blots from several places: they match each other, and nothing else."""
    noise = np.random.default_rng(1).integers(0, 255, (30, 40, 3)).astype(np.uint8)
    wall = cv2.resize(noise, (320, 240), interpolation=cv2.INTER_CUBIC)
    for i in range(count):
        corners = np.float32([[60, 50], [260, 50], [260, 200], [60, 200]])
        moved = corners + i * np.float32([[3, 2], [-2, 4], [-4, 0], [2, -3]])
        to = np.float32([[0, 0], [160, 0], [160, 120], [0, 120]])
        picture = cv2.warpPerspective(wall, cv2.getPerspectiveTransform(moved, to), (160, 120))
        cv2.imwrite(str(folder / f"wall_{i}.png"), picture)


def test_half_that_cannot_be_placed(pycolmap, tmp_path, capsys):
    for i in (*range(4), *range(20, 24)):
        shutil.copy(COURTYARD / "images" / f"view_{i:04d}.jpg", tmp_path)
    poster(tmp_path, 5)
    found = sfm(SfmConfig(data=tmp_path))
    said = capsys.readouterr().out
    kinds = {part["kind"]: part["names"] for part in found.parts}
    assert len(kinds["model"]) == 8 and kinds["apart"] == [f"wall_{i}.png" for i in range(5)]
    page = tmp_path / "sfm" / "parts.html"
    assert f"parts, with pictures in {page}" in said and "wall_0.png, wall_1.png" in said
    assert page.read_text().count("data:image/webp") >= 13
    assert "alignment: -y is up by how photographs are held" in said
    assert found.alignment["by"] == "gravity"
    for path in tmp_path.glob("wall*"):  # all are placed then, and the page is gone
        path.unlink()
    again = sfm(SfmConfig(data=tmp_path, quiet=True, align="none"))
    assert not again.missing and not again.parts and not page.exists()
    assert "--align none" in again.alignment["note"]
