"""Markdown and plots of what tools/gradient_study.py measured."""

from __future__ import annotations

import json
from pathlib import Path

from hardsplat.base.errors import UserError

CLASSES = ("means", "quats", "scales", "opacities", "sh")
KEYS = ("target", "state", "blending", "block")
# told apart in grey by line and marker
LINE = {"unorm8": "--", "unorm16": "-.", "float16": "-", "unorm16 of 0..4": ":"}
MARK = {"1x1": "o", "2x2": "s"}


def names(row: dict) -> list[str]:
    wider = f" of 0..{row['range']:.0f}" if row.get("range", 1) != 1 else ""
    return [row["format"] + wider, row["state_format"], row["blending"], row["block"]]


def table(head, lines) -> str:
    return (
        "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))
        + "\n"
    )


def report(folder: Path) -> str:
    """Tables of the JSON files in `folder`, also as report.md there, beside gradients_*.png."""
    found = {
        part: json.loads(path.read_text())
        for part in ("oracle", "model", "train")
        if (path := folder / f"{part}.json").is_file()
    }
    if not found:
        raise UserError(f"{folder}: nothing to report; run oracle, model or train first")
    text = []
    for part in [part for part in ("oracle", "model") if part in found]:
        result = found[part]
        for case in dict.fromkeys(row["case"] for row in result["rows"]):
            rows = [row for row in result["rows"] if row["case"] == case]
            lines = [
                [
                    *names(r),
                    *(f"{r['l2'][c]:.1e}" for c in CLASSES),
                    f"{min(r['cosine'].values()):.5f}",
                ]
                for r in rows
            ]
            text += [
                f"**{part}, {case}** ({result['about']})\n",
                table([*KEYS, *CLASSES, "smallest cosine"], lines),
            ]
        plot(folder / f"gradients_{part}.png", part, result)
    if emulated := found.get("oracle", {}).get("emulated"):
        lines = [
            [kind, *(f"{errors[kind]['means']:.1e}" for errors in emulated.values())]
            for kind in next(iter(emulated.values()))
        ]
        text += [
            "**rounding of the blended colour alone, emulated in float64; error of means**\n",
            table(["rounding", *emulated], lines),
        ]
    if "train" in found:
        lines = [
            [*names(r), f"{r['psnr']:.2f}", f"{r['ssim']:.4f}", str(r["splats"])]
            for r in found["train"]["rows"]
        ]
        text += [
            f"**train** ({found['train']['about']})\n",
            table([*KEYS, "PSNR [dB]", "SSIM", "splats"], lines),
        ]
    (folder / "report.md").write_text("\n".join(text))
    return "\n".join(text)


def plot(path: Path, part: str, result: dict) -> None:
    """Error of means over depth, a panel a blending (oracle); or over parameter classes, a panel an
    upstream (model)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    deep = part == "oracle"
    cases = list(dict.fromkeys(r["case"] for r in result["rows"]))
    panels = list(dict.fromkeys(r["blending"] for r in result["rows"])) if deep else cases
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(4.6 * len(panels) + 1.4, 4.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, panel in zip(axes[0], panels):
        curves = {}
        for row in result["rows"]:
            target, state, blending, block = names(row)
            # the state that goes with the target
            own = state == ("float16" if block == "2x2" else row["format"])
            if (
                own
                and target in LINE
                and (blending == panel if deep else row["case"] == panel and blending == "fixed")
            ):
                curves.setdefault((target, block), []).extend(
                    [row["l2"]["means"]] if deep else [row["l2"][c] for c in CLASSES]
                )
        for (target, block), values in curves.items():
            axis.semilogy(
                cases if deep else CLASSES,
                values,
                LINE[target],
                marker=MARK[block],
                color="tab:blue" if block == "2x2" else "black",
                label=f"{target}, {block}",
            )
        axis.set_title(f"{panel} blending" if deep else f"{panel} upstream, fixed blending")
        axis.set_xlabel("splats over a pixel" if deep else "parameter class")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel(
        f"relative L2 error of {'the gradient of means' if deep else 'gradients'} [1]"
    )
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside right upper",
        fontsize=8,
        title="target, block",
    )
    figure.suptitle(f"Against {'float64' if deep else 'float32'}: {result['about']}", fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
