"""Tables of `hardsplat bench`, in Markdown, one section a subject, and plots that it alone has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hardsplat.report import charts
from hardsplat.report.stages import STAGES
from hardsplat.study.bench.measure import Measurement
from hardsplat.study.plots import SHARED, Plot
from hardsplat.study.tables import (
    GRADIENTS,
    labels_of,
    origin,
    section,
    telling,
    values_of,
    varying,
)

_OF_REDUCTION = ("reduction", "hybrid_threshold")
Results = Sequence[Measurement]
Cells = Callable[[Measurement], list[str]]
_Points = Sequence[tuple[Measurement, float, float]]  # (row, x, y)


def backward_draw(result: Measurement) -> float:
    """ms."""
    return result.stages["backward draw"]


def atomic_of(result: Measurement, results: Results) -> Measurement | None:
    """The naive baseline: the row that differs only in its reduction, which is `atomic`."""

    def rest(r: Measurement) -> dict:
        return {n: v for n, v in r.settings.items() if n not in _OF_REDUCTION}

    atomic = (r for r in results if r.options.get("reduction") == "atomic")
    return next((r for r in atomic if rest(r) == rest(result)), None)


def markdown(results: Results, about: dict, skipped: list[str]) -> str:
    # what was asked for comes before what follows from it
    names = sorted(varying(results), key=lambda n: n != "splats" and n not in about["axes"])
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
        f"{device['name']}, {device['driver']}; {size}, {shown}, upstream {about['upstream']}, "
        f"{about['repeats']} repeats.",
        origin(about),
        "",
        f"In all rows: {fixed}{'' if 'splats' in names else f', {results[0].splats:,} splats'}.",
    ]
    for lines in (_stages, _sizes, _floors, _memory, _sort, _errors):
        out += lines(results, names, about)
    if skipped:
        out += ["", "## Not measured", "", *(f"- {line}" for line in skipped)]
    return "\n".join(out)


def _section(
    title: str, note: str, results: Results, names: list[str], head: Sequence[str], cells: Cells
) -> list[str]:
    """A section with a row for each result: settings `names`, then what `head` names."""
    lines = ([*values_of(r, names), *cells(r)] for r in results)
    return section(title, note, [*names, *head], lines)


def _stages(results: Results, names: list[str], about: dict) -> list[str]:
    def cells(r: Measurement) -> list[str]:
        ms = [f"{ms:.4g}" for ms in (r.forward, r.backward, r.total)]
        ms += [f"{r.stages[s]:.4g}" if r.stages[s] else "-" for s in STAGES]
        fragments = " + ".join(f"{n / 1e6:.1f}" for n in r.fragments.values())
        rates = " + ".join(f"{n:.3g}" for n in r.rates.values())
        return [*ms, fragments or "-", rates or "-"]

    head = ["forward", "backward", "total", *STAGES, "fragments [M]", "fragments/s [G]"]
    note = (
        "Milliseconds on the device, median over repeats, mean over views; total = forward + "
        "backward, without the loss. Fragments of the forward and the backward draw."
    )
    return _section("Stages", note, results, names, head, cells)


def _sizes(results: Results, names: list[str], about: dict) -> list[str]:
    bases = [(r, base) for r in results if (base := atomic_of(r, results)) and backward_draw(base)]
    if all(r is base for r, base in bases):
        return []
    names = ["splats", *(n for n in names if n != "splats")]
    lines = (
        [*values_of(r, names), f"{ms:.4g}", f"{ms / backward_draw(base):.3f}"]
        for r, base in bases
        for ms in [backward_draw(r)]
    )
    note = (
        "Milliseconds of the backward draw over those of one atomic per fragment and number, "
        "all else equal."
    )
    return section("Size x reduction", note, [*names, "backward draw", "ratio to atomic"], lines)


def _floors(results: Results, names: list[str], about: dict) -> list[str]:
    stages = [s for s in STAGES if any(s in r.floors for r in results)]

    def cells(r: Measurement) -> list[str]:
        floors = [f"{r.floors[s]:.3g}" if s in r.floors else "-" for s in stages]
        times = [f"{r.stages[s] / r.floors[s]:.1f}" if r.floors.get(s) else "-" for s in stages]
        return floors + times

    if not stages:
        return []
    head = [*(f"{s}, floor" for s in stages), *(f"{s}, x floor" for s in stages)]
    note = (
        "Milliseconds that moving each stage's bytes once takes at the "
        f"{about['copy_bytes_per_second'] / 1e9:.1f} GB/s of a buffer copy measured here (read + "
        "written), and measured time over that."
    )
    return _section("Stages over their floor", note, results, names, head, cells)


def _memory(results: Results, names: list[str], about: dict) -> list[str]:
    names, results = telling(results, names, lambda r: r.memory)
    purposes = [p for p in results[0].memory if any(r.memory[p] for r in results)]

    def cells(r: Measurement) -> list[str]:
        held = [*(r.memory[p] for p in purposes), sum(r.memory.values())]
        return [f"{n / 1e6:.3f}" for n in held]

    note = "Megabytes (1e6 bytes) on the device by purpose, as allocated."
    return _section("Memory", note, results, names, [*purposes, "total"], cells)


def _sort(results: Results, names: list[str], about: dict) -> list[str]:
    firsts = {r.splats: r.sort for r in reversed(results)}  # it is the same for all variants
    keys, lines = ("share", "share_without_temporaries", "share_allocated"), []
    for splats, sort in sorted(firsts.items()):
        for way, pairs in sort["pairs"].items():
            ours = [f"{sort[key] / 1e6:.3f}" for key in ("bytes", "allocated")]
            tiles = [way, f"{pairs:.0f}", f"{sort['tile_bytes'][way] / 1e6:.3f}"]
            percent = ["-" if (s := sort[key][way]) is None else f"{s:.2%}" for key in keys]
            lines.append([str(splats), f"{sort['visible']:.0f}", *ours, *tiles, *percent])
    note = (
        "Ours, for the visible splats of a view: keys, values, temporaries of both, histograms "
        "(means over views, MB = 1e6 bytes). Tile path: (16x16 tile, splat) pairs of the same "
        "splats, 36 bytes each: 64-bit key and 32-bit value, unsorted and sorted (24), and CUB's "
        "temporary copies (12). rectangle: Inria's square of 3 sigma; ellipse: box of alpha >= "
        f"1/255. Published: {results[0].sort['published_share']:.2%} (Yuan & He 2025, other scenes "
        "and views). Definitions: app/hardsplat/study/bench/tiles.py."
    )
    head = ["splats", "visible", "sort [MB]", "allocated [MB]", "tiles by", "pairs"]
    head += ["tile sort [MB]", "share", "share of 24 B a pair", "allocated share"]
    return section("Memory of the sort", note, head, lines)


def _errors(results: Results, names: list[str], about: dict) -> list[str]:
    def cells(r: Measurement) -> list[str]:
        # the order of atomics changes the digits after those
        angles = (1 - r.cosines[n] for n in GRADIENTS)
        return [f"{v:.1e}" for v in (*(r.errors[n] for n in GRADIENTS), *angles)]

    names, measured = telling([r for r in results if r.errors], names, cells)
    head = [*(f"L2 {n}" for n in GRADIENTS), *(f"1 - cos {n}" for n in GRADIENTS)]
    note = (
        "Gradients against those of a float32 target and state with the same other options: "
        "relative L2, |g - r| / |r|, and 1 - cosine, over all visible splats of view(s) "
        f"{about['error_views']} together; gradients of linear scales and of opacities in 0..1, "
        "for uniform random upstream gradients (seed: position of the view)."
    )
    return _section("Gradient error", note, measured, names, head, cells)


# -- plots


def _lines(axes, names: list[str], points: _Points) -> bool:
    """A line through the points of each combination of `names` that has two of them or more."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for r, x, y in sorted(points, key=lambda point: point[1]):
        groups.setdefault(labels_of([r], names)[0], []).append((x, y))
    groups = {name: line for name, line in groups.items() if len({x for x, _ in line}) > 1}
    if not groups:
        return False
    for i, (name, line) in enumerate(groups.items()):
        axes.plot(*zip(*line), label=name, **charts.line(i))
    ticks = sorted({x for line in groups.values() for x, _ in line})
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    charts.legend(axes)
    axes.figure.set_size_inches(6.5, 5)
    return True


def threshold(axes, results: Sequence[Measurement]) -> bool:
    """The sweep of --hybrid-threshold."""
    swept = [r for r in results if "hybrid_threshold" in r.options and backward_draw(r)]
    axes.set(xlabel="hybrid threshold [contributing lanes of 32]", ylabel="backward draw [ms]")
    axes.set_title("Backward draw by threshold of the reduction")
    found = [(r, r.options["hybrid_threshold"], backward_draw(r)) for r in swept]
    return _lines(axes, [n for n in varying(results) if n != "hybrid_threshold"], found)


def sizes(axes, results: Sequence[Measurement]) -> bool:
    """Backward draw over that of naive atomics, by size of the model."""
    bases = [(r, atomic_of(r, results)) for r in results]
    axes.set(xscale="log", xlabel="splats", title="Gain of the reductions by scene size")
    axes.set_ylabel("backward draw, ratio to one atomic per fragment")
    ratios = [
        (r, r.splats, backward_draw(r) / backward_draw(base))
        for r, base in bases
        if base and base is not r and backward_draw(base)
    ]
    return _lines(axes, [n for n in varying(results) if n != "splats"], ratios)


PLOTS: dict[str, Plot] = SHARED | {"threshold": threshold, "sizes": sizes}
