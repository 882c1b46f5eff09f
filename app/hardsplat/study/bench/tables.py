"""Tables of `hardsplat bench`, in Markdown, one section a subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hardsplat.report.stages import STAGES
from hardsplat.study.bench.measure import Measurement
from hardsplat.study.tables import GRADIENTS, origin, section, values_of, varying

Results = Sequence[Measurement]
Cells = Callable[[Measurement], list[str]]


def markdown(results: Results, about: dict, skipped: list[str]) -> str:
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


def _section(
    title: str, note: str, results: Results, names: list[str], head: Sequence[str], cells: Cells
) -> list[str]:
    """A section with a row for each result: settings `names`, then what `head` names."""
    lines = ([*values_of(r.options, names), *cells(r)] for r in results)
    return section(title, note, [*names, *head], lines)


def _stages(results: Results, names: list[str]) -> list[str]:
    stages = [stage for stage in STAGES if any(r.stages[stage] for r in results)]

    def cells(r: Measurement) -> list[str]:
        ms = [f"{ms:.4g}" for ms in (r.forward, r.backward, r.total)]
        ms += [f"{r.stages[s]:.4g}" if r.stages[s] else "-" for s in stages]
        fragments = " + ".join(f"{n / 1e6:.1f}" for n in r.fragments.values())
        return [*ms, fragments or "-"]

    head = ["forward", "backward", "total", *stages, "fragments [M]"]
    note = (
        "Milliseconds on the device, median over repeats, mean over views; total = forward + "
        "backward. Fragments of the forward and the backward draw."
    )
    return _section("Stages", note, results, names, head, cells)


def _memory(results: Results, names: list[str]) -> list[str]:
    purposes = [p for p in results[0].memory if any(r.memory[p] for r in results)]

    def cells(r: Measurement) -> list[str]:
        held = [*(r.memory[p] for p in purposes), sum(r.memory.values())]
        return [f"{n / 1e6:.3f}" for n in held]

    note = "Megabytes (1e6 bytes) on the device by purpose, as allocated."
    return _section("Memory", note, results, names, [*purposes, "total"], cells)


def _errors(results: Results, names: list[str]) -> list[str]:
    def cells(r: Measurement) -> list[str]:
        # the order of atomics changes the digits after those
        return [f"{r.errors[n]:.1e}" for n in GRADIENTS]

    note = (
        "Gradients against those of a float32 target and state with the same other options: "
        "relative L2, |g - r| / |r|, over all visible splats of the first view; gradients of "
        "linear scales and of opacities in 0..1, for uniform random upstream gradients."
    )
    measured = [r for r in results if r.errors]
    return _section("Gradient error", note, measured, names, GRADIENTS, cells)
