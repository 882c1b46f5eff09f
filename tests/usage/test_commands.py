"""Every command but `train` with every choice of every flag: on one small result, at the smallest
size, and what it writes is read back."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from hardsplat.cli import COMMANDS, main
from hardsplat.io.formats import writable
from hardsplat.io.splats import load_splats
from hardsplat.tables.pictures import PICTURES
from tests.helpers.offered import Item, cover, offered
from tests.helpers.sweeping import in_this_process
from tools.make_mesh_scene import make_mesh_scene

STEPS = 8


def finite(path: Path, *needed: str) -> None:
    """A JSON file has these names, and no number that is not finite."""

    def wrong(name: str) -> float:
        raise AssertionError(f"{path} holds {name}")

    values = json.loads(path.read_text(), parse_constant=wrong)
    assert values and set(needed) <= set(values), (path, needed)


def splats(path: Path) -> None:
    found = load_splats(path)
    values = found.means, found.quats, found.scales, found.opacities, found.sh
    assert len(found) and all(np.isfinite(each).all() for each in values), path


def pictures(folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.suffix in (".png", ".jpg")]
    assert files, folder
    for file in files:
        with Image.open(file) as picture:
            picture.load()


def page(path: Path) -> None:
    assert path.read_text().lower().startswith("<!doctype html"), path


def triangles(path: Path) -> None:
    found = trimesh.load(path, force="mesh")
    assert len(found.faces) and np.isfinite(found.vertices).all(), path


def drawn(folder: Path) -> None:
    pictures(folder)
    for file in folder.rglob("*.npy"):
        assert np.isfinite(np.load(file)).all(), file


def measured(folder: Path) -> None:
    finite(folder / "eval.json")
    pictures(folder / "renders")


def fitted(folder: Path) -> None:
    finite(folder / "metrics.json", "psnr", "curve")
    pictures(folder)
    with np.load(folder / "blobs.npz") as blobs:
        assert all(np.isfinite(blobs[name]).all() for name in blobs)


def fitted_mesh(folder: Path) -> None:
    finite(folder / "metrics.json")
    triangles(folder / "mesh.ply")


def swept(folder: Path) -> None:
    """All runs of a sweep are done, and were measured."""
    runs = [json.loads(file.read_text()) for file in folder.glob("runs/*/run.json")]
    assert runs and {run["status"] for run in runs} == {"done"}, runs
    assert all(np.isfinite(run["metrics"]["evaluations"][-1]["psnr"]) for run in runs)
    page(folder / "report.html")


def levels(folder: Path) -> None:
    splats(folder / "lod-meta.json")
    page(folder / "index.html")


@dataclass(frozen=True)
class Case:
    """words: of the command; SCENE, RESULT, PHOTO, SILHOUETTES and PHOTOGRAPHS stand for what there
    is, OUT for what it writes, which `check` reads. more: see offered. paired: see cover. without:
    flags that another test has."""

    words: str
    check: Callable[[Path], None]
    more: dict[str, Iterable[str]] = field(default_factory=dict)
    paired: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


CASES = {
    "plan": Case(
        f"SCENE --max-steps {STEPS} --result-dir OUT",
        lambda folder: finite(folder / "plan.json"),
        without=("resume",),
    ),
    "eval": Case("RESULT/splats.ply --data-dir SCENE --result-dir OUT", measured),
    "compare": Case("RESULT RESULT/splats.ply --data-dir SCENE OUT.html", page),
    "render": Case(
        "RESULT --width 32 --output OUT",
        drawn,
        {"mode": PICTURES, "path": ("held-out", "train", "orbit", "spiral")},
        ("mode", "format", "rasterizer"),
    ),
    "export": Case("RESULT OUT.html", page),
    "lod": Case("RESULT OUT", levels),
    "convert": Case("RESULT/splats.ply OUT.ply", splats),
    "edit": Case("RESULT/splats.ply --crop box -9 -9 -9 9 9 9 --output OUT.ply", splats),
    "clean": Case("RESULT --output OUT.ply", splats),
    "mesh": Case("RESULT OUT.ply", triangles),
    "bench": Case(
        "RESULT --views 0 --repeats 1 --result-dir OUT",
        lambda folder: finite(folder / "bench.json"),
    ),
    "fit": Case(
        f"PHOTO --max-steps {STEPS} --frames 0 --result-dir OUT",
        fitted,
        paired=("rasterizer", "reduction", "atomics", "format"),
    ),
    "fit-mesh": Case(
        f"SILHOUETTES --max-steps {STEPS} --texture-size 32 --result-dir OUT", fitted_mesh
    ),
    # a cluster is that of tests/study
    "sweep": Case(
        f"SCENE --max-steps {STEPS} --format float16 --result-dir OUT", swept, without=("executor",)
    ),
}
APART = {"train", "view", "sfm", "doctor"}  # test_train.py and test_processes.py


def test_every_command_is_here():
    assert CASES.keys() | APART == COMMANDS.keys() and not CASES.keys() & APART


@pytest.fixture(scope="module")
def given(opened, small, tmp_path_factory):
    """What there is, by its name in CASES."""
    folder = tmp_path_factory.mktemp("given")
    how = ("--max-steps", STEPS, "--quiet", "--result-dir", folder / "result")
    assert main(["train", *map(str, (small, *how))]) == 0
    make_mesh_scene(folder / "pebble", views=6, width=32, height=24, supersample=1)
    photo = next((small / "images").iterdir())
    here = {"SCENE": small, "RESULT": folder / "result", "PHOTO": photo}
    return here | {"SILHOUETTES": folder / "pebble"}


RUNS = [("first", command) for command in CASES]
# the others draw nothing, or what training draws
RUNS += [
    ("swiftshader", name) for name in "eval compare render clean mesh bench fit fit-mesh".split()
]


@pytest.mark.parametrize("driver, command", RUNS, indirect=["driver"], scope="module")
def test_every_choice(start, given, command, without_reports, monkeypatch):
    monkeypatch.setattr("hardsplat.study.bench.measure.WARM_SECONDS", 0.0)
    in_this_process(monkeypatch)
    case, numbers = CASES[command], count()

    def run(row: list[Item]) -> str | None:
        own = given | {"OUT": Path(f"out{next(numbers)}")}
        words, path = case.words, own["OUT"]
        for name, what in own.items():
            words = words.replace(name, str(what))
        if (why := start(command, *words.split(), row=row)) is None:
            case.check(next(Path(word) for word in words.split() if word.startswith(str(path))))
        return why

    flags = offered(command, **case.more)
    flags = {name: items for name, items in flags.items() if name not in case.without}
    cover(flags, run, case.paired)


@pytest.mark.parametrize("axis", ["rasterizer", "format", "strategy"])
def test_all_of_an_axis(start, small, without_reports, monkeypatch, axis):
    made = in_this_process(monkeypatch)
    how = ("--max-steps", STEPS, f"--{axis}", "all", "--result-dir", "all")
    assert start("sweep", small, *how) is None
    swept(Path("all"))
    records = [json.loads((folder / "run.json").read_text()) for folder in made]
    choices = {item[1] for item in offered("sweep")[axis]} - {"auto"}
    assert {record["settings"][axis] for record in records} == choices


def test_every_choice_of_poses(start, small, tmp_path):
    """The photographs are too small for poses, which is what every choice comes to."""
    without = start("sfm", small / "images", "--out", "small")
    assert without and "no poses found" in without
    numbers = count()

    def run(row: list[Item]) -> str | None:
        own = f"small{next(numbers)}"
        why = start("sfm", small / "images", "--out", own, row=row)
        return None if why and why.replace(own, "small") == without else why

    cover(offered("sfm"), run)


@pytest.mark.parametrize("suffix", writable())
def test_every_format(start, given, suffix):
    """Written, and read again, as a file of ours."""
    path = Path(f"other{suffix}")
    assert start("convert", given["RESULT"], path) is None
    splats(path)
    assert start("convert", path, "back.ply") is None
    splats(Path("back.ply"))
    assert len(load_splats(Path("back.ply"))) == len(load_splats(path))
