"""`hardsplat bench`: milliseconds of every stage, memory and gradient error of variants.

Gradients of the image are uniform in 0..1 as in Yuan & He 2025. Every view is drawn `repeats` times
once the GPU is warm (`WARM_SECONDS` in measure.py); stages are medians over repeats, then means
over views. White background, near plane 0.2. The projection's backward takes its Adam step as in
training, with learning rates of 0: the model stays.
"""

from __future__ import annotations

import itertools
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.base.files import write_json, written
from hardsplat.base.paths import CHECKOUT
from hardsplat.base.progress import Bar
from hardsplat.base.version import __version__
from hardsplat.gpu.device.context import DeviceLost
from hardsplat.gpu.probe import open_device
from hardsplat.io.scenes.scene import Scene, load_scene
from hardsplat.io.splats import load_splats
from hardsplat.raster.backends import BACKENDS, fastest
from hardsplat.report.stages import STAGES
from hardsplat.results.folder import archive_run, make_folder
from hardsplat.results.model import find_model
from hardsplat.settings.train import TrainConfig
from hardsplat.study.bench.axes import blending_of
from hardsplat.study.bench.measure import Bench, Measurement
from hardsplat.study.tables import GRADIENTS, origin, section, values_of, varying
from hardsplat.tables.gradients import REDUCTIONS


def views_of(scene: Scene, chosen: list[int]) -> list[int]:
    """Indices into the sorted photographs: those asked for, or 8 evenly spaced from the first
    on."""
    n = len(scene.views)
    if bad := [i for i in chosen if not 0 <= i < n]:
        raise UserError(f"--views {bad[0]}: the scene has {n} views, 0 to {n - 1}")
    return chosen or [i * max(n // 8, 1) for i in range(min(8, n))]


def variants(axes: Mapping[str, list], known: Iterable[str]) -> Iterator[dict]:
    """Every combination of the options `known` to a rasterizer, in the order of `axes`; a reduction
    without a threshold comes once, not once per threshold."""
    seen = []
    for values in itertools.product(*axes.values()):
        options = {n: v for n, v in zip(axes, values) if n in known}
        row = REDUCTIONS.get(options.get("reduction", ""))
        if row is not None and not row.threshold:
            options.pop("hybrid_threshold", None)
        if options not in seen:
            seen.append(options)
            yield options


def commit() -> str | None:
    """The checkout's commit, with a + where files differ from it; None outside a checkout."""
    if not (CHECKOUT / ".git").exists():
        return None
    command = "git describe --always --abbrev=40 --dirty=+ --exclude=*".split()
    try:
        described = subprocess.check_output(command, cwd=CHECKOUT, stderr=subprocess.PIPE)
        return described.decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def provenance() -> dict:
    """Program, commit, command and time of numbers."""
    program = Path(sys.argv[0])
    name = "hardsplat" if program.stem == "__main__" else program.name
    return {
        "hardsplat": __version__,
        "commit": commit(),
        "command": shlex.join([name, *sys.argv[1:]]),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


OF_A_BENCH = ("bench.json", "bench.md")  # what a measurement leaves in its folder


def bench(
    model: str | Path,
    axes: Mapping[str, list],
    data_dir: str | Path | None = None,
    data_factor: int | None = None,
    views: Sequence[int] = (),
    repeats: int = 5,
    errors: bool = False,
    rasterizer: Sequence[str] = ("hardware",),
    result_dir: str | Path | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> list[Measurement]:
    """Measures every combination of `axes`, prints Markdown tables and writes bench.json and
    bench.md into result_dir.

    - data_dir: the scene; by default the one that the model's run was trained on.
    - data_factor: images this many times smaller; by default as trained, of another scene full
      size.
    - views: by position, see views_of. repeats: draws of each view that are timed.
    - errors: gradients of the first view are compared with those of a float32 target too.

    What the device cannot run or hold is left out with a line that names the reason. Raises
    UserError for bad input, or when nothing could be measured.
    """
    if repeats < 1:
        raise UserError(f"--repeats {repeats}: at least 1 draw must be timed")
    folder = Path(result_dir) if result_dir else None
    if folder:
        make_folder(folder)
    file, config = find_model(model, data_dir)
    if (scene_dir := config.scene.data_dir) is None:
        unknown = "nothing says which scene it shows, and views are what is timed"
        raise UserError(f"{file}: {unknown}; add --data-dir SCENE")
    data_factor = data_factor or (1 if data_dir else config.scene.data_factor)
    gaussians = load_splats(file)
    scene = load_scene(scene_dir, data_factor)
    chosen = views_of(scene, list(views))
    gpu = open_device(device)
    asked = [TrainConfig.of(rasterizer=name) for name in rasterizer]
    names = dict.fromkeys(fastest(gpu, each.raster, each.gradient) for each in asked)
    job = Bench(gpu, gaussians, [scene.views[i].camera for i in chosen], repeats)
    physical = gpu.physical
    machine = {"driver": physical.driver, "kind": physical.kind, "host": platform.platform()}
    shown = {"folder": str(scene_dir), "data_factor": data_factor, "views": chosen}
    about = {
        **provenance(),
        "device": {"name": gpu.name, **machine},
        "model": {"file": str(file), "splats": len(gaussians), "sh_degree": gaussians.sh_degree},
        "scene": {**shown, "width": job.width, "height": job.height},
        "axes": [name for name, several in axes.items() if len(several) > 1],
        "repeats": repeats,
    }
    axes = {**{name: [value] for name, value in blending_of(axes).items()}, **axes}
    combinations = [
        (name, options)
        for name in names
        for options in variants(axes, ["moments", *BACKENDS[name].options.settings()])
    ]
    if folder and (earlier := archive_run(folder, OF_A_BENCH, OF_A_BENCH)):
        moved = f"note: the earlier measurement in {folder} is now in {earlier}"
        tqdm.write(moved, file=sys.stderr)
    results, skipped = [], []
    for name, options in Bar(combinations, desc="bench", unit="variant", disable=quiet):
        what = ", ".join([name, *(f"{k} {v}" for k, v in options.items())])
        lost = False
        try:
            results.append(result := job.measure(name, options))
            if errors:
                what = f"gradient error of {what}"
                result.errors = job.errors(name, options)
        except UserError as error:  # the device cannot
            skipped.append(f"{what}: {error}")
            tqdm.write(f"skipped {what}: {error}", file=sys.stderr)
            lost = isinstance(error, DeviceLost)
        if folder:  # after each: a run that is killed leaves what it has measured
            rows = [asdict(r) for r in results]
            write_json(folder / "bench.json", {"about": about, "rows": rows, "skipped": skipped})
        if lost:
            break
    if not results:
        why = f"measured none of the variants asked for; the last: {skipped[-1]}"
        raise UserError(f"{gpu.name} {why}")
    print(text := markdown(results, about, skipped))
    if folder:
        with written(path := folder / "bench.md"):
            path.write_text(text + "\n")
    return results


Results = Sequence[Measurement]


def markdown(results: Results, about: dict, skipped: list[str]) -> str:
    """Tables of measurements, one section a subject."""
    # what was asked for comes before what follows from it
    names = sorted(varying([r.options for r in results]), key=lambda n: n not in about["axes"])
    given = {n: v for n, v in results[0].options.items() if n not in names}
    if "format" in names and "state_format" in given:
        given["state_format"] = "as format"
    fixed = ", ".join(f"{n} {v}" for n, v in given.items())
    device, model, scene = about["device"], about["model"], about["scene"]
    size = f"{model['splats']:,} splats of SH degree {model['sh_degree']}"
    shown = f"{scene['width']}x{scene['height']}, views {scene['views']}"
    out = [
        f"# bench of {model['file']}",
        "",
        f"{device['name']}, {device['driver']}; {size}, {shown}, {about['repeats']} repeats.",
        origin(about),
        "",
        f"In all rows: {fixed}.",
    ]
    for lines in (_stages, _memory, _errors):
        out += lines(results, names)
    if skipped:
        out += ["", "## Not measured", "", *(f"- {line}" for line in skipped)]
    return "\n".join(out)


def _stages(results: Results, names: list[str]) -> list[str]:
    stages, lines = [stage for stage in STAGES if any(r.stages[stage] for r in results)], []
    for r in results:
        ms = [f"{ms:.4g}" for ms in (r.forward, r.backward, r.total)]
        ms += [f"{r.stages[s]:.4g}" if r.stages[s] else "-" for s in stages]
        fragments = " + ".join(f"{n / 1e6:.1f}" for n in r.fragments.values())
        lines.append([*values_of(r.options, names), *ms, fragments or "-"])
    head = ["forward", "backward", "total", *stages, "fragments [M]"]
    note = (
        "Milliseconds on the device, median over repeats, mean over views; total = forward + "
        "backward. Fragments of the forward and the backward draw."
    )
    return section("Stages", note, [*names, *head], lines)


def _memory(results: Results, names: list[str]) -> list[str]:
    purposes = [p for p in results[0].memory if any(r.memory[p] for r in results)]
    lines = []
    for r in results:
        held = [*(r.memory[p] for p in purposes), sum(r.memory.values())]
        lines.append([*values_of(r.options, names), *(f"{n / 1e6:.3f}" for n in held)])
    note = "Megabytes (1e6 bytes) on the device by purpose, as allocated."
    return section("Memory", note, [*names, *purposes, "total"], lines)


def _errors(results: Results, names: list[str]) -> list[str]:
    note = (
        "Gradients against those of a float32 target and state with the same other options: "
        "relative L2, |g - r| / |r|, over all visible splats of the first view; gradients of "
        "linear scales and of opacities in 0..1, for uniform random upstream gradients."
    )
    lines = [
        # the order of atomics changes the digits after those
        [*values_of(r.options, names), *(f"{r.errors[n]:.1e}" for n in GRADIENTS)]
        for r in results
        if r.errors
    ]
    return section("Gradient error", note, [*names, *GRADIENTS], lines)
