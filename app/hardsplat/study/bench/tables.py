"""Tables of `hardsplat bench`: Markdown, one section a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hardsplat.study.bench.errors import GRADIENTS
from hardsplat.study.bench.measure import STAGES, Measurement

_OF_REDUCTION = ("reduction", "hybrid_threshold")


def varying(results: list[Measurement]) -> list[str]:
    """Options, and `splats`, in which the rows differ. A state format that always follows the
    format adds nothing of its own."""
    sizes = ["splats"] if len({r.splats for r in results}) > 1 else []
    options = [r.options for r in results]
    follows = all(o.get("state_format") == o.get("format") for o in options)
    names = dict.fromkeys(n for o in options for n in o if not (n == "state_format" and follows))
    return [*sizes, *(n for n in names if len({o.get(n) for o in options}) > 1)]


def value(result: Measurement, name: str) -> str:
    return str(result.splats if name == "splats" else result.options.get(name, "-"))


def label(result: Measurement, names: Iterable[str]) -> str:
    """What tells a row from the others, for plots."""
    named = " ".join(v for n in names if (v := value(result, n)) != "-")
    return named or result.options["rasterizer"]


def telling(
    results: list, names: list[str], what: Callable, value: Callable = value
) -> tuple[list[str], list]:
    """Those of `names` that `what` depends on in these rows, and a row for each of their
    combinations. value: of a row and a name."""

    def first(names: list[str]) -> dict[tuple, object]:
        out: dict[tuple, object] = {}
        for r in results:
            out.setdefault(tuple(value(r, n) for n in names), r)
        return out

    for name in reversed(names):
        fewer = [n for n in names if n != name]
        firsts = first(fewer)
        if all(what(r) == what(firsts[tuple(value(r, n) for n in fewer)]) for r in results):
            names = fewer
    return names, list(first(names).values())


def memory_of(result: Measurement) -> dict[str, int]:
    return result.memory


def backward_draw(result: Measurement) -> float:
    """ms."""
    return result.stages["backward draw"]


def errors_of(result: Measurement) -> list[str]:
    """Errors as printed: the order of atomics changes the digits after those."""
    angles = (1 - result.cosines[n] for n in GRADIENTS)
    return [f"{v:.1e}" for v in (*(result.errors[n] for n in GRADIENTS), *angles)]


def atomic_of(result: Measurement, results: list[Measurement]) -> Measurement | None:
    """The naive baseline: the row that differs only in its reduction, which is `atomic`."""

    def rest(r: Measurement) -> tuple:
        return r.splats, {n: v for n, v in r.options.items() if n not in _OF_REDUCTION}

    atomic = (r for r in results if r.options.get("reduction") == "atomic")
    return next((r for r in atomic if rest(r) == rest(result)), None)


def table(head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)]


def aligned(head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """A table as a terminal shows it: columns of one width, numbers to the right."""
    rows = [head, *map(list, lines)]
    columns = list(zip(*rows))
    widths = [max(map(len, column)) for column in columns]
    right = [any(map(_is_number, column[1:])) for column in columns]
    padded = (
        [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)] for row in rows
    )
    first, *others = ("  ".join(cells).rstrip() for cells in padded)
    return [first, "  ".join("-" * width for width in widths), *others]


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit()


def readable(text: str) -> str:
    """Markdown of this module as a terminal shows it: tables aligned, titles without marks."""
    out: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            rows.append(line[2:-2].split(" | "))
            continue
        if rows:
            out += aligned(rows[0], rows[2:])
            rows = []
        out.append(line.lstrip("#").lstrip() if line.startswith("#") else line)
    return "\n".join(out[:-1])


def section(title: str, note: str, head: list[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a title, a note and a table."""
    return ["", f"## {title}", "", note, "", *table(head, lines)]


def values_of(result: Measurement, names: Iterable[str]) -> list[str]:
    return [value(result, n) for n in names]


def markdown(results: list[Measurement], about: dict, skipped: list[str]) -> str:
    # what was asked for comes before what follows from it
    names = sorted(varying(results), key=lambda n: n != "splats" and n not in about["axes"])
    given = {n: v for n, v in results[0].options.items() if n not in names}
    if "format" in names and "state_format" in given:
        given["state_format"] = "as format"
    fixed = ", ".join(f"{n} {v}" for n, v in given.items())
    device, model, scene = about["device"], about["model"], about["scene"]
    size = f"{model['splats']} splats of SH degree {model['sh_degree']}"
    shown = f"{scene['width']}x{scene['height']}, views {scene['views']}"
    out = [
        f"# bench of {model['file']}",
        "",
        f"{device['name']}, {device['driver']}; {size}, {shown}, upstream {about['upstream']}, "
        f"{about['repeats']} repeats.",
        origin(about),
        "",
        f"In all rows: {fixed}{'' if 'splats' in names else f', {results[0].splats} splats'}.",
    ]
    for lines in (_stages, _sizes, _floors, _memory, _sort, _errors):
        out += lines(results, names, about)
    if skipped:
        out += ["", "## Not measured", "", *(f"- {line}" for line in skipped)]
    return "\n".join(out)


def origin(about: dict) -> str:
    """Program, commit, time and command of numbers, in a line."""
    program = f"hardsplat {about['hardsplat']}, commit {about['commit'] or 'not known'}"
    return f"{program}, {about['date']}: `{about['command']}`"


def _stages(results: list[Measurement], names: list[str], about: dict) -> list[str]:
    head = [*names, "forward", "backward", "total", *STAGES, "fragments [M]", "fragments/s [G]"]
    lines = []
    for r in results:
        ms = [f"{ms:.4g}" for ms in (r.forward, r.backward, r.total)]
        ms += [f"{r.stages[s]:.4g}" if r.stages[s] else "-" for s in STAGES]
        fragments = " + ".join(f"{n / 1e6:.1f}" for n in r.fragments.values())
        rates = " + ".join(f"{n:.3g}" for n in r.rates.values())
        lines.append([*values_of(r, names), *ms, fragments or "-", rates or "-"])
    note = (
        "Milliseconds on the device, median over repeats, mean over views; total = forward + "
        "backward, without the loss. Fragments of the forward and the backward draw."
    )
    return section("Stages", note, head, lines)


def _sizes(results: list[Measurement], names: list[str], about: dict) -> list[str]:
    bases = [(r, base) for r in results if (base := atomic_of(r, results)) and backward_draw(base)]
    if all(r is base for r, base in bases):
        return []
    names = ["splats", *(n for n in names if n != "splats")]
    lines = []
    for r, base in bases:
        ms = backward_draw(r)
        lines.append([*values_of(r, names), f"{ms:.4g}", f"{ms / backward_draw(base):.3f}"])
    note = (
        "Milliseconds of the backward draw over those of one atomic per fragment and number, "
        "all else equal."
    )
    return section("Size x reduction", note, [*names, "backward draw", "ratio to atomic"], lines)


def _floors(results: list[Measurement], names: list[str], about: dict) -> list[str]:
    stages = [s for s in STAGES if any(s in r.floors for r in results)]
    if not stages:
        return []
    head = [*names, *(f"{s}, floor" for s in stages), *(f"{s}, x floor" for s in stages)]
    lines = []
    for r in results:
        floors = [f"{r.floors[s]:.3g}" if s in r.floors else "-" for s in stages]
        times = [f"{r.stages[s] / r.floors[s]:.1f}" if r.floors.get(s) else "-" for s in stages]
        lines.append([*values_of(r, names), *floors, *times])
    note = (
        "Milliseconds that moving each stage's bytes once takes at the "
        f"{about['copy_bytes_per_second'] / 1e9:.1f} GB/s of a buffer copy measured here (read + "
        "written), and measured time over that."
    )
    return section("Stages over their floor", note, head, lines)


def _memory(results: list[Measurement], names: list[str], about: dict) -> list[str]:
    names, results = telling(results, names, memory_of)
    purposes = [p for p in results[0].memory if any(r.memory[p] for r in results)]
    lines = []
    for r in results:
        held = [*(r.memory[p] for p in purposes), sum(r.memory.values())]
        lines.append([*values_of(r, names), *(f"{n / 1e6:.3f}" for n in held)])
    note = "Megabytes (1e6 bytes) on the device by purpose, as allocated."
    return section("Memory", note, [*names, *purposes, "total"], lines)


def _sort(results: list[Measurement], names: list[str], about: dict) -> list[str]:
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


def _errors(results: list[Measurement], names: list[str], about: dict) -> list[str]:
    measured = [r for r in results if r.errors]
    if not measured:
        return []
    names, measured = telling(measured, names, errors_of)
    head = [*names, *(f"L2 {n}" for n in GRADIENTS), *(f"1 - cos {n}" for n in GRADIENTS)]
    note = (
        "Gradients against those of a float32 target and state with the same other options: "
        "relative L2, |g - r| / |r|, and 1 - cosine, over all visible splats of view(s) "
        f"{about['error_views']} together; gradients of linear scales and of opacities in 0..1, "
        "for uniform random upstream gradients (seed: position of the view)."
    )
    lines = ([*values_of(r, names), *errors_of(r)] for r in measured)
    return section("Gradient error", note, head, lines)
