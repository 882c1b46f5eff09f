"""Numbers of a sweep: a row has the mean and deviation over seeds; the CSV has every run."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hardsplat.report.stages import STAGES, by_stage
from hardsplat.results.metrics import last_evaluation
from hardsplat.study.tables import label_of, origin, section, values_of


@dataclass(frozen=True)
class Point:
    """Done runs of one combination of settings, with any seeds. label: what tells it from the
    others."""

    label: str
    settings: dict
    runs: list[dict]

    @cached_property
    def numbers(self) -> list[dict[str, Any]]:
        """Of each run."""
        return list(map(numbers_of, self.runs))

    def values(self, name: str) -> list[float]:
        """Of the runs that have the number."""
        return [v for each in self.numbers if (v := each.get(name)) is not None]

    def mean(self, name: str) -> float:
        """Over the runs that have the number; 0 where none has."""
        return float(np.mean(self.values(name) or [0]))

    def text(self, name: str, form: str) -> str:
        """Mean, and of several runs the standard deviation (of a sample)."""
        if not (values := self.values(name)):
            return "-"
        spread = f" ± {np.std(values, ddof=1):{form}}" if len(set(values)) > 1 else ""
        return format(np.mean(values), form) + spread


def numbers_of(record: dict) -> dict[str, Any]:
    """Numbers of a done run, None where it has none, in the order of the CSV. below: dB by which
    its end is below the best of its measurements."""
    m = record["metrics"]
    last = last_evaluation(m) or {}
    best = max(e["psnr"] for e in m["evaluations"]) - last["psnr"] if last else None
    stages, seconds = by_stage(m["stage_ms"]), m["seconds"]
    return {
        **{name: last.get(name) for name in ("psnr", "ssim", "fitted_psnr")},
        "below": best,
        **{name: m[name] for name in ("splats", "steps")},
        "training_seconds": seconds["training"],
        "startup_seconds": seconds["startup"],
        "seconds": record["seconds"],
        **{name: m[name] for name in ("steps_per_second", "gpu_idle", "step_ms")},
        "memory": sum(m["memory_bytes"].values()) / 2**20,
        **{f"ms {s}": stages.get(s) for s in (*STAGES, "other")},
        **{f"bytes {purpose}": n for purpose, n in m["memory_bytes"].items()},
        "device": m["device"]["name"],
        "driver": m["device"]["driver"],
    }


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


COLUMNS = {  # by title: number of a run, form
    "PSNR [dB]": ("psnr", ".2f"),
    "colours fitted [dB]": ("fitted_psnr", ".2f"),
    "SSIM": ("ssim", ".4f"),
    "below its best [dB]": ("below", ".2f"),
    "steps": ("steps", ",.0f"),
    "splats": ("splats", ",.0f"),
    "training [s]": ("training_seconds", ".1f"),
    "in all [s]": ("seconds", ".1f"),
    "step [ms, device]": ("step_ms", ".3g"),
    "memory [MiB]": ("memory", ",.1f"),
}


def chosen(records: list[dict]) -> list[str]:
    """Variants in which runs differ without an axis of the sweep: `auto` took another row."""
    variants = [r["metrics"]["variants"] for r in done(records)]
    names = dict.fromkeys(n for v in variants for n in v if n not in axes_of(records))
    several = [n for n in names if len({v[n] for v in variants if n in v}) > 1]
    return [n for n in several if n != "state_format"]  # which follows the format


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
        cells = values_of(p.settings, names)
        for n in auto:
            taken = (str(r["metrics"]["variants"].get(n, "-")) for r in p.runs)
            cells.append(", ".join(dict.fromkeys(taken)))
        cells += [str(len(p.runs))] * several
        lines.append([*cells, *(p.text(*column) for column in columns.values())])
    return head, lines


def scene_table(records: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of PSNR by scene: each combination of other settings, the best mean over scenes
    first, those that lack a scene last. No rows of one scene."""
    scenes = list(by_scene(records))
    rows: dict[str, dict[str, float]] = {}
    for p in points(records) if len(scenes) > 1 else ():
        others = {n: v for n, v in p.settings.items() if n != "scene"}
        if p.values("psnr"):
            rows.setdefault(label_of(others), {})[scene_of(p.runs[0])] = p.mean("psnr")
    order = sorted(rows.items(), key=lambda r: (-len(r[1]), -np.mean([*r[1].values()])))
    lines = [
        [label, *(f"{own[s]:.2f}" if s in own else "-" for s in scenes)]
        + [f"{np.mean([*own.values()]):.3f}"]
        for label, own in order
    ]
    return ["run", *scenes, "mean"], lines


def left_out(records: list[dict]) -> list[tuple[str, str]]:
    """(run, its status and why) of those that are not done."""
    missing = [r for r in records if r["status"] != "done"]
    whys = (": ".join(filter(None, (r["status"], r["error"]))) for r in missing)
    return [(label_of(r["varied"]) or r["name"], why) for r, why in zip(missing, whys)]


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
        out += _decisions(found)
    if missing := left_out(records):
        out += ["", "## Not done", "", *(f"- {name}: {why}" for name, why in missing)]
    return "\n".join(out)


def _decisions(found: Sequence[Point]) -> list[str]:
    """What the first run of each row decided, and why."""
    lines = [f"- {p.label}: {line}" for p in found for line in p.runs[0]["metrics"]["decisions"]]
    return ["", "## Decisions", "", *lines] if lines else []


def write_csv(path: Path, records: list[dict]) -> None:
    """A row a run, done or not: settings that vary, quality, seconds, bytes, milliseconds. Raises
    OSError."""
    rows = [
        {"run": r["folder"], "status": r["status"], "error": r["error"], **r["varied"]}
        | (numbers_of(r) if r["status"] == "done" else {})
        for r in records
    ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        out.writeheader()
        out.writerows(rows)
