"""Numbers of a sweep: a row has the mean and deviation over seeds; the CSV has every run."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.report.stages import STAGES, by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.study.bench.errors import GRADIENTS
from hardsplat.study.bench.tables import aligned, origin, section

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


def quality(name: str) -> Number:
    return lambda record: last[name] if (last := last_evaluation(record["metrics"])) else None


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


def memory(record: dict) -> float:
    return sum(record["metrics"]["memory_bytes"].values()) / 2**20


def gradient(kind: str, name: str) -> Number:
    """kind: errors or cosines."""
    return lambda record: (record["gradients"] or {}).get(kind, {}).get(name)


def departure(name: str) -> Number:
    """1 - cosine."""
    cosine = gradient("cosines", name)
    return lambda record: None if (found := cosine(record)) is None else 1 - found


def done(records: list[dict]) -> list[dict]:
    return [r for r in records if r["status"] == "done"]


def axes_of(records: list[dict]) -> list[str]:
    """Settings with several values among these records, the seed last."""
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
        settings, scene = dict(zip(names, values)), Path(runs[0]["settings"]["data_dir"]).name
        out.append(Point(label_of(settings) or scene, settings, runs))
    return out


def label_of(settings: dict) -> str:
    """Names of rows speak for themselves; numbers and the like need the name of the setting."""
    return " ".join(
        str(v) if isinstance(v, str) and v not in ("auto", "same", "none", "all") else f"{n}={v}"
        for n, v in settings.items()
        if v is not None
    )


COLUMNS = (  # title, number of a run, form
    ("PSNR [dB]", quality("psnr"), ".2f"),
    ("SSIM", quality("ssim"), ".4f"),
    ("splats", number("splats"), ",.0f"),
    ("training [s]", number("seconds", "training"), ".1f"),
    ("step [ms, device]", number("step_ms"), ".3g"),
    ("memory [MiB]", memory, ",.1f"),
)


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
    head = [n.replace("_", " ") for n in (*names, *(f"{n} (auto)" for n in auto))]
    head += [*(["seeds"] if several else []), *(title for title, _, _ in COLUMNS)]
    lines = []
    for p in found:
        cells = ["-" if (v := p.settings[n]) is None else str(v) for n in names]
        for n in auto:
            taken = (str(r["metrics"]["variants"].get(n, "-")) for r in p.runs)
            cells.append(", ".join(dict.fromkeys(taken)))
        cells += [str(len(p.runs))] if several else []
        lines.append([*cells, *(p.text(get, form) for _, get, form in COLUMNS)])
    return head, lines


def left_out(records: list[dict]) -> list[tuple[str, str, str]]:
    """(run, status, why) of those that are not done."""
    missing = [r for r in records if r["status"] != "done"]
    return [(label_of(r["varied"]) or r["name"], r["status"], r["error"] or "") for r in missing]


def devices(records: list[dict]) -> list[str]:
    used = [r["metrics"]["device"] for r in done(records)]
    return list(dict.fromkeys(f"{d['name']}, {d['driver']}" for d in used))


def markdown(records: list[dict], about: dict) -> str:
    first, found = records[0]["settings"], points(records)
    machines = "; ".join(devices(records)) or "no device yet"
    images = f"images {first['data_factor']} times smaller than the files"
    out = [f"# Sweep of {Path(first['data_dir']).name}", ""]
    out += [f"{machines}. {first['max_steps']} steps, {images}.", origin(about)]
    if found:
        measured = "PSNR and SSIM of held-out views after the last step"
        note = f"{measured}; ± is the standard deviation over seeds."
        out += section("Results", note, *result_table(records))
        out += _stages(found) + _errors(found)
    if lines := _not_done(records):
        out += ["", "## Not done", "", *(f"- {line}" for line in lines)]
    return "\n".join(out)


def _not_done(records: list[dict]) -> list[str]:
    return [f"{n}: {status}{': ' + why if why else ''}" for n, status, why in left_out(records)]


def outcome(records: list[dict]) -> str:
    """What a terminal shows of the end of a sweep: a table, and what is not done."""
    table = aligned(*result_table(records)) if points(records) else []
    lines = _not_done(records)
    return "\n".join([*table, *(["", "not done:", *lines] if lines else [])])


def _stages(found: list[Point]) -> list[str]:
    stages = [s for s in (*STAGES, "other") if any(p.mean(stage_ms(s)) for p in found)]
    if not stages:
        return []
    lines = ([p.label, *(p.text(stage_ms(s), ".3g") for s in stages)] for p in found)
    note = "Milliseconds of a step on the device, means over the later half of the timed steps."
    return section("Time by stage", note, ["run", *stages], lines)


def _errors(found: list[Point]) -> list[str]:
    measured = [p for p in found if p.mean(gradient("errors", GRADIENTS[0])) is not None]
    if not measured:
        return []
    columns = {f"L2 {g}": gradient("errors", g) for g in GRADIENTS}
    columns |= {f"1 - cos {g}": departure(g) for g in GRADIENTS}
    lines = ([p.label, *(p.text(get, ".1e") for get in columns.values())] for p in measured)
    note = (
        "Gradients of the trained splats on the first held-out view against those of a "
        "float32 target: relative L2, and 1 - cosine; see `hardsplat bench --errors`."
    )
    return section("Gradient error", note, ["run", *columns], lines)


def write_csv(path: Path, records: list[dict]) -> None:
    """A row a run, done or not: settings that vary, quality, seconds, bytes, milliseconds, errors.
    Raises OSError."""
    names = list(dict.fromkeys(n for r in records for n in r["varied"]))
    purposes = list(dict.fromkeys(p for r in done(records) for p in r["metrics"]["memory_bytes"]))
    columns = {
        **{name: quality(name) for name in ("psnr", "ssim")},
        "splats": number("splats"),
        "steps": number("steps"),
        "training_seconds": number("seconds", "training"),
        "startup_seconds": number("seconds", "startup"),
        "steps_per_second": number("steps_per_second"),
        "gpu_idle": number("gpu_idle"),
        "step_ms": number("step_ms"),
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
