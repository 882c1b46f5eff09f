"""The table of a suite: means over seeds with their spread, by scene and preset."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

COLUMNS = (
    "scene",
    "preset",
    "seeds",
    "psnr",
    "psnr_spread",
    "ssim",
    "ssim_spread",
    "fitted_psnr",
    "below_best",
    "steps",
    "splats",
    "training_s",
    "wall_s",
    "until_s",
    "step_ms",
    "memory_mib",
)


def seconds_until(evaluations: Sequence[dict], target: float) -> float | None:
    """Seconds of training until held-out PSNR reached the target, in dB: between two measurements
    on a straight line; None where it never did."""
    before = None
    for e in evaluations:
        if e["psnr"] >= target:
            if before is None or e["psnr"] == before["psnr"]:
                return e["training_seconds"]
            share = (target - before["psnr"]) / (e["psnr"] - before["psnr"])
            return before["training_seconds"] + share * (
                e["training_seconds"] - before["training_seconds"]
            )
        before = e
    return None


def rows(results: Sequence[dict], targets: dict[str, float]) -> list[dict]:
    """One row for each scene and preset, in the order of the results. spread: half the difference
    of the largest and the smallest. below_best: dB by which the end of a run is below the best of
    its measurements, at most."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for r in results:
        if "error" not in r:
            groups.setdefault((r["scene"], r["preset"]), []).append(r)
    out = []
    for (scene, preset), runs in groups.items():
        runs = list({r["seed"]: r for r in runs}.values())
        psnr, ssim = (np.array([r[name] for r in runs]) for name in ("psnr", "ssim"))
        until = (
            [seconds_until(r["evaluations"], targets[scene]) for r in runs]
            if scene in targets
            else []
        )
        numbers = {
            "psnr": psnr.mean(),
            "psnr_spread": np.ptp(psnr) / 2,
            "ssim": ssim.mean(),
            "ssim_spread": np.ptp(ssim) / 2,
            "fitted_psnr": np.mean([r["fitted_psnr"] for r in runs]),
            "below_best": max(r["best"] - r["psnr"] for r in runs),
            "steps": np.mean([r["steps"] for r in runs]),
        }
        numbers |= {
            "splats": np.mean([r["splats"] for r in runs]),
            "training_s": np.mean([r["training_seconds"] for r in runs]),
        }
        numbers |= {
            "wall_s": np.mean([r["wall_seconds"] for r in runs]),
            "until_s": np.mean(until) if until and None not in until else None,
        }
        numbers |= {
            "step_ms": np.mean([r["step_ms"] for r in runs]),
            "memory_mib": np.mean([r["memory_bytes"] for r in runs]) / 2**20,
        }
        out.append(
            {
                "scene": scene,
                "preset": preset,
                "seeds": len(runs),
                **{k: None if v is None else float(v) for k, v in numbers.items()},
            }
        )
    return out


def markdown(table: Sequence[dict]) -> str:
    """The rows as a table for people: scene by scene, best PSNR first."""
    lines = [
        "| scene | preset | seeds | PSNR, dB | fitted, dB | SSIM | below its best, dB | steps | "
        "splats | training, s | wall, s | to target, s |",
        "|---" * 12 + "|",
    ]
    scenes = list(dict.fromkeys(r["scene"] for r in table))
    for r in sorted(table, key=lambda r: (scenes.index(r["scene"]), -r["psnr"])):
        spread = (
            (f" ± {r['psnr_spread']:.2f}", f" ± {r['ssim_spread']:.4f}")
            if r["seeds"] > 1
            else ("", "")
        )
        until = "" if r["until_s"] is None else f"{r['until_s']:.1f}"
        lines.append(
            f"| {r['scene']} | {r['preset']} | {r['seeds']} | {r['psnr']:.2f}{spread[0]} "
            f"| {r['fitted_psnr']:.2f} | {r['ssim']:.4f}{spread[1]} | {r['below_best']:.2f} "
            f"| {r['steps']:.0f} | {r['splats'] / 1000:.0f} k "
            f"| {r['training_s']:.1f} | {r['wall_s']:.1f} | {until} |"
        )
    return "\n".join(lines) + "\n"


def matrix(table: Sequence[dict], against: str | None = None) -> str:
    """PSNR of every preset by scene, or its difference from the preset `against`, with seconds;
    presets in the order of the mean over all scenes."""
    scenes = list(dict.fromkeys(r["scene"] for r in table))
    by = {(r["scene"], r["preset"]): r for r in table}
    base = {s: by[s, against]["psnr"] if against and (s, against) in by else 0.0 for s in scenes}
    lines = []
    for preset in dict.fromkeys(r["preset"] for r in table):
        found = {s: by[s, preset] for s in scenes if (s, preset) in by}
        gains = [r["psnr"] - base[s] for s, r in found.items()]
        cells = [
            f"{found[s]['psnr'] - base[s]:+.2f} ({found[s]['training_s']:.1f} s)"
            if s in found
            else ""
            for s in scenes
        ]
        lines.append(
            (
                len(found) == len(scenes),
                float(np.mean(gains)),
                f"| {preset} | {' | '.join(cells)} | {np.mean(gains):+.3f} |",
            )
        )
    head = [f"| preset | {' | '.join(scenes)} | mean |", "|---" * (len(scenes) + 2) + "|"]
    return "\n".join([*head, *(line for *_, line in sorted(lines, reverse=True))]) + "\n"


def decisions(results: Sequence[dict]) -> str:
    """What the first run of each scene and preset decided, and why."""
    first: dict[tuple[str, str], list[str]] = {}
    for r in results:
        if "error" not in r:
            first.setdefault((r["preset"], r["scene"]), r.get("decisions", []))
    return "\n".join(f"{p}, {s}: {line}" for (p, s), said in first.items() for line in said) + "\n"


def write_csv(table: Sequence[dict], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(table)
