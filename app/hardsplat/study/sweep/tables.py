"""Numbers of a sweep: a row has the mean and deviation over seeds; the CSV has every run."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.report.stages import STAGES, by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.study.tables import GRADIENTS, aligned, label_of, origin, section, values_of

Number = Callable[[dict], Any]  # of a record: a number, or None


@dataclass(frozen=True)
class Point:
    """Done runs of one combination of settings, with any seeds. label: what tells it from the
    others."""

    label: str
    settings: dict
    runs: list[dict]

    def values(self, get: Number) -> list[float]:
        """Numbers of the runs that have one."""
        return [v for r in self.runs if (v := get(r)) is not None]

    def mean(self, get: Number) -> float | None:
        """Over the runs that have the number."""
        values = self.values(get)
        return float(np.mean(values)) if values else None

    def text(self, get: Number, form: str) -> str:
        """Mean, and of several runs the standard deviation (of a sample)."""
        if not (values := self.values(get)):
            return "-"
        spread = f" ± {np.std(values, ddof=1):{form}}" if len(set(values)) > 1 else ""
        return format(np.mean(values), form) + spread

    def means(self, get: Callable[[dict], Mapping[str, float]]) -> dict[str, float]:
        """Means of each of the numbers that `get` finds, over all runs."""
        found = [get(r) for r in self.runs]
        return {n: float(np.mean([f.get(n, 0.0) for f in found])) for f in found for n in f}

    @property
    def stages(self) -> dict[str, float]:
        """ms by stage."""
        return self.means(lambda record: by_stage(record["metrics"]["stage_ms"]))

    @property
    def memory(self) -> dict[str, float]:
        """Bytes by purpose."""
        return self.means(number("memory_bytes"))

    @property
    def errors(self) -> dict[str, float]:
        """Relative L2 by gradient."""
        return self.means(lambda record: (record["gradients"] or {}).get("errors", {}))


def quality(name: str) -> Number:
    return lambda record: (last_evaluation(record["metrics"]) or {}).get(name)


def number(*path: str) -> Number:
    """A number of metrics.json."""

    def get(record: dict):
        value = record["metrics"]
        for name in path:
            value = value.get(name) if value else None
        return value

    return get


def stage_ms(stage: str) -> Number:
    return lambda record: by_stage(record["metrics"]["stage_ms"]).get(stage)


def below_best(record: dict) -> float | None:
    """dB by which the end of a run is below the best of its measurements."""
    last = last_evaluation(record["metrics"])
    return max(e["psnr"] for e in record["metrics"]["evaluations"]) - last["psnr"] if last else None


def gradient(kind: str, name: str) -> Number:
    """kind: errors or cosines."""
    return lambda record: (record["gradients"] or {}).get(kind, {}).get(name)


def departure(name: str) -> Number:
    """1 - cosine."""
    cosine = gradient("cosines", name)
    return lambda record: None if (found := cosine(record)) is None else 1 - found


def done(records: Iterable[dict]) -> list[dict]:
    return [r for r in records if r["status"] == "done"]


def axes_of(records: list[dict]) -> list[str]:
    """Names and settings with several values among these records, the seed last."""
    names = dict.fromkeys(n for r in records for n in r["varied"])
    several = [n for n in names if len({r["varied"].get(n) for r in records}) > 1]
    return sorted(several, key=lambda n: n == "seed")


def points(records: list[dict]) -> list[Point]:
    names = [n for n in axes_of(records) if n != "seed"]
    groups: dict[tuple, list[dict]] = {}
    for r in done(records):
        groups.setdefault(tuple(r["varied"].get(n) for n in names), []).append(r)
    out = []
    for values, runs in groups.items():
        settings = dict(zip(names, values))
        out.append(Point(label_of(settings) or scene_of(runs[0]), settings, runs))
    return out


def scene_of(record: dict) -> str:
    """The scene by its name in a plan, or else its folder."""
    return record["varied"].get("scene") or Path(record["settings"]["data_dir"]).name


def by_scene(records: list[dict]) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for r in records:
        found.setdefault(scene_of(r), []).append(r)
    return found


COLUMNS: dict[str, tuple[Number, str]] = {  # by title: number of a run, form
    "PSNR [dB]": (quality("psnr"), ".2f"),
    "colours fitted [dB]": (quality("fitted_psnr"), ".2f"),
    "SSIM": (quality("ssim"), ".4f"),
    "below its best [dB]": (below_best, ".2f"),
    "steps": (number("steps"), ",.0f"),
    "splats": (number("splats"), ",.0f"),
    "training [s]": (number("seconds", "training"), ".1f"),
    "in all [s]": (lambda record: record["seconds"], ".1f"),
    "step [ms, device]": (number("step_ms"), ".3g"),
    "memory [MiB]": (lambda r: sum(r["metrics"]["memory_bytes"].values()) / 2**20, ",.1f"),
}


def chosen(records: list[dict]) -> list[str]:
    """Variants in which runs differ without an axis of the sweep: `auto` took another row."""
    variants = [r["metrics"]["variants"] for r in done(records)]
    names = dict.fromkeys(n for v in variants for n in v if n not in axes_of(records))
    follows = all(v.get("state_format") == v.get("format") for v in variants)
    several = [n for n in names if len({v[n] for v in variants if n in v}) > 1]
    return [n for n in several if not (n == "state_format" and follows)]


def result_table(records: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Head and rows."""
    found = points(records)
    names = [n for n in axes_of(records) if n != "seed"]
    several, auto = any(len(p.runs) > 1 for p in found), chosen(records)
    columns = {t: own for t, own in COLUMNS.items() if any(p.values(own[0]) for p in found)}
    head = [n.replace("_", " ") for n in (*names, *(f"{n} (auto)" for n in auto))]
    head += [*["seeds"] * several, *columns]
    lines = []
    for p in found:
        cells = values_of(p, names)
        for n in auto:
            taken = (str(r["metrics"]["variants"].get(n, "-")) for r in p.runs)
            cells.append(", ".join(dict.fromkeys(taken)))
        cells += [str(len(p.runs))] * several
        lines.append([*cells, *(p.text(get, form) for get, form in columns.values())])
    return head, lines


def scene_table(records: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of PSNR by scene: each combination of other settings, the best mean over scenes
    first, those that lack a scene last. No rows of one scene."""
    scenes, psnr = list(by_scene(records)), quality("psnr")
    rows: dict[str, dict[str, float]] = {}
    for p in points(records) if len(scenes) > 1 else ():
        others = {n: v for n, v in p.settings.items() if n != "scene"}
        if (mean := p.mean(psnr)) is not None:
            rows.setdefault(label_of(others), {})[scene_of(p.runs[0])] = mean
    order = sorted(rows.items(), key=lambda r: (-len(r[1]), -np.mean([*r[1].values()])))
    lines = [
        [label, *(f"{own[s]:.2f}" if s in own else "-" for s in scenes)]
        + [f"{np.mean([*own.values()]):.3f}"]
        for label, own in order
    ]
    return ["run", *scenes, "mean"], lines


def left_out(records: list[dict]) -> list[tuple[str, str, str]]:
    """(run, status, why) of those that are not done."""
    missing = [r for r in records if r["status"] != "done"]
    return [(label_of(r["varied"]) or r["name"], r["status"], r["error"] or "") for r in missing]


def devices(records: list[dict]) -> list[str]:
    used = [r["metrics"]["device"] for r in done(records)]
    return list(dict.fromkeys(f"{d['name']}, {d['driver']}" for d in used))


def title_of(records: list[dict]) -> str:
    return f"Sweep of {', '.join(by_scene(records))}"


def common_settings(records: list[dict]) -> dict[str, Any]:
    """Those that all records have alike."""
    first = records[0]["settings"]
    same = {n: v for n, v in first.items() if all(r["settings"].get(n) == v for r in records)}
    return same | ({"data_dir": Path(first["data_dir"]).name} if "data_dir" in same else {})


def markdown(records: list[dict], about: dict) -> str:
    common, found = common_settings(records), points(records)
    machines = "; ".join(devices(records)) or "no device yet"
    steps = f" {common['max_steps']} steps." if "max_steps" in common else ""
    factor = common.get("data_factor", 0)
    images = f" Images {factor} times smaller than the files." if factor else ""
    out = [f"# {title_of(records)}", "", f"{machines}.{steps}{images}", origin(about)]
    if found:
        measured = "PSNR and SSIM of held-out views after the last step"
        note = f"{measured}; ± is the standard deviation over seeds."
        out += section("Results", note, *result_table(records))
        out += section("By scene", "PSNR [dB], means over seeds.", *scene_table(records))
        out += _stages(found) + _errors(found) + _decisions(found)
    if lines := _not_done(records):
        out += ["", "## Not done", "", *(f"- {line}" for line in lines)]
    return "\n".join(out)


def _not_done(records: list[dict]) -> list[str]:
    return [f"{n}: {status}{': ' + why if why else ''}" for n, status, why in left_out(records)]


def outcome(records: list[dict]) -> str:
    """What a terminal shows of the end of a sweep: tables, and what is not done."""
    tables = [result_table(records), scene_table(records)] if points(records) else []
    parts = ["\n".join(aligned(*table)) for table in tables if table[1]]
    if lines := _not_done(records):
        parts.append("\n".join(["not done:", *lines]))
    return "\n\n".join(parts)


def _stages(found: Sequence[Point]) -> list[str]:
    stages = [s for s in (*STAGES, "other") if any(p.stages.get(s) for p in found)]
    lines = ([p.label, *(p.text(stage_ms(s), ".3g") for s in stages)] for p in found if stages)
    note = "Milliseconds of a step on the device, means over the later half of the timed steps."
    return section("Time by stage", note, ["run", *stages], lines)


def _errors(found: Sequence[Point]) -> list[str]:
    columns = {f"L2 {g}": gradient("errors", g) for g in GRADIENTS}
    columns |= {f"1 - cos {g}": departure(g) for g in GRADIENTS}
    lines = (
        [p.label, *(p.text(get, ".1e") for get in columns.values())] for p in found if p.errors
    )
    note = (
        "Gradients of the trained splats on the first held-out view against those of a "
        "float32 target: relative L2, and 1 - cosine; see `hardsplat bench --errors`."
    )
    return section("Gradient error", note, ["run", *columns], lines)


def _decisions(found: Sequence[Point]) -> list[str]:
    """What the first run of each row decided, and why."""
    lines = [f"- {p.label}: {line}" for p in found for line in p.runs[0]["metrics"]["decisions"]]
    return ["", "## Decisions", "", *lines] if lines else []


def write_csv(path: Path, records: list[dict]) -> None:
    """A row a run, done or not: settings that vary, quality, seconds, bytes, milliseconds, errors.
    Raises OSError."""
    names = list(dict.fromkeys(n for r in records for n in r["varied"]))
    purposes = list(dict.fromkeys(p for r in done(records) for p in r["metrics"]["memory_bytes"]))
    columns = {
        **{name: quality(name) for name in ("psnr", "ssim", "fitted_psnr")},
        **{name: number(name) for name in ("splats", "steps")},
        "training_seconds": number("seconds", "training"),
        "startup_seconds": number("seconds", "startup"),
        **{name: number(name) for name in ("steps_per_second", "gpu_idle", "step_ms")},
        **{f"ms {s}": stage_ms(s) for s in (*STAGES, "other")},
        **{f"bytes {p}": number("memory_bytes", p) for p in purposes},
        **{f"{kind} {g}": gradient(kind, g) for kind in ("errors", "cosines") for g in GRADIENTS},
        "device": number("device", "name"),
        "driver": number("device", "driver"),
    }
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["run", "status", *names, *columns, "error"])
        for r in records:
            numbers = [get(r) if r["status"] == "done" else None for get in columns.values()]
            varied = [r["varied"].get(n) for n in names]
            out.writerow([r["folder"], r["status"], *varied, *numbers, r["error"]])
