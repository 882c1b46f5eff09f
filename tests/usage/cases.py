"""Every command at the smallest size, and how what it writes is read back."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import trimesh
from PIL import Image

from hardsplat.gpu.device.context import Device
from hardsplat.io.splats import load_splats
from hardsplat.raster.core.resolve import lacking
from hardsplat.study.variants import REGISTRIES, option_of
from hardsplat.tables.pictures import PICTURES
from tests.helpers.offered import Item, cover, offered

STEPS = 8
# variables of the environment that commands start without
CLEARED = ("DISPLAY", "WAYLAND_DISPLAY", "HARDSPLAT_DEVICE", "HARDSPLAT_DEBUG")


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
    triangles(folder / "mesh.glb")


def swept(folder: Path) -> None:
    """All runs of a sweep are done, and were measured."""
    runs = [json.loads(file.read_text()) for file in folder.glob("runs/*/run.json")]
    assert runs and {run["status"] for run in runs} == {"done"}, runs
    assert all(np.isfinite(run["metrics"]["evaluations"][-1]["psnr"]) for run in runs)
    page(folder / "report.html")


def trained(folder: Path, row: list[Item]) -> None:
    """A run has done its steps, with finite numbers, by the variants that its flags name."""
    metrics = json.loads((folder / "metrics.json").read_text())
    numbers = [metrics["evaluations"][-1][name] for name in ("psnr", "ssim")]
    numbers += metrics["curve"]["loss"]
    assert metrics["steps"] == STEPS and np.isfinite(numbers).all(), row
    splats(folder / "splats.ply")
    named = {item[0].removeprefix("--").replace("-", "_"): item[1] for item in row if item[1:]}
    for name, taken in metrics["variants"].items():
        assert named.get(name, "auto") in ("auto", "same", str(taken)), (name, taken, row)


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
        "RESULT --width 32 --frames 4 --output OUT",
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
        "RESULT --format float16 --views 0 --repeats 1 --result-dir OUT",
        lambda folder: finite(folder / "bench.json"),
    ),
    "fit": Case(
        f"PHOTO --max-steps {STEPS} --result-dir OUT",
        fitted,
        paired=("rasterizer", "reduction", "atomics", "format"),
    ),
    "fit-mesh": Case(
        f"SILHOUETTES --max-steps {STEPS} --texture-size 32 --result-dir OUT", fitted_mesh
    ),
}


def cover_choices(command: str, start, given: dict[str, Path], pairs: bool = True) -> None:
    """Every choice of every flag, and its pairs, see `cover`. given: by its name in CASES."""
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
    cover(flags, run, case.paired if pairs else ())


def flags_of_train() -> dict[str, list[Item]]:
    """Without those that go on from a run (test_processes.py) or find poses (`hardsplat sfm`:
    test_commands.py)."""
    return {n: items for n, items in offered("train").items() if n not in ("resume", "sfm")}


def cover_training(
    run: Callable[[list[Item]], str | None], device: Device, paired: Iterable[str] = ()
) -> None:
    """See `cover`. Of what is refused alone the device lacks something."""
    flags = flags_of_train()
    refused = cover(flags, run, paired)
    lacks = {
        (flag, name)
        for _, flag, rows in REGISTRIES
        if flag and option_of(flag) in flags
        for name, row in rows.items()
        if lacking(device, row, f"{option_of(flag)} {name}")
    }
    assert {item for row in refused if len(row) == 1 for item in row} <= lacks
    assert all(run([item]) for item in lacks)
