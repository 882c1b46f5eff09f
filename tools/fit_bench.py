"""Times a step of image fits for rasterizers, reductions and sizes, and compares their results.

    python -m tools.fit_bench --result-dir DIR       all of it, on a picture made here
    python -m tools.fit_bench --result-dir DIR --parts variants --image FILE

Writes fit_bench.json after every row, then fit_bench.md and fit_bench.png. Times are the GPU's own,
of whole batches; each row starts from the same blobs, those of WARM steps of `binned`, so that the
images drawn are those of a fit on its way.
"""

from __future__ import annotations

import argparse
import platform
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from hardsplat.base.errors import UserError
from hardsplat.fit.blobs import Blobs
from hardsplat.fit.config import FitConfig
from hardsplat.fit.fitter import read_photo
from hardsplat.fit.session import FitSession
from hardsplat.gpu.probe import open_device
from hardsplat.io.media.images import over
from hardsplat.report import charts
from hardsplat.results.folder import make_folder, write_json
from hardsplat.tables.fits import FIT_RASTERS

PARTS = ("variants", "blobs", "pixels", "quality")
# steps before anything is timed; batches of which the median is taken; how long each may be
WARM, BATCHES, BATCH_SECONDS = (200, 5, 0.3)
BLOBS, WIDTH, HEIGHT = 40_960, 1024, 768
NUMBERS = (1_000, 4_000, 10_000, 40_960, 100_000, 200_000)
MEGAPIXELS = (0.25, 0.5, 0.786432, 2, 4, 8)


def picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    """(H, W, 3) uint8 with what photographs have: detail of all sizes (a 1/f spectrum), sharp
    edges, flat and striped areas."""
    rng = np.random.default_rng(seed)
    side = 1 << max(width, height).bit_length() - 1
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij"))
    least = np.maximum(frequency, 1 / side)
    spectra = (np.fft.rfft2(rng.normal(size=(side, side))) / least for _ in range(3))
    noise = np.stack([np.fft.irfft2(spectrum) for spectrum in spectra], 2)
    noise = noise / noise.std() @ (0.25 * np.eye(3) + 0.25)
    square = Image.fromarray(np.uint8(np.clip(127 + 45 * noise, 0, 255)))
    image = np.asarray(square.resize((width, height), Image.BICUBIC), np.float32)
    y, x = np.mgrid[0:height, 0:width] / height
    for _ in range(120):
        at = rng.uniform((0, 0), (width / height, 1))
        size = rng.uniform(0.01, 0.15, 2)
        turn = rng.uniform(0, np.pi)
        u = np.cos(turn) * (x - at[0]) + np.sin(turn) * (y - at[1])
        v = np.cos(turn) * (y - at[1]) - np.sin(turn) * (x - at[0])
        a, b = u / size[0], v / size[1]
        inside = a**2 + b**2 < 1 if rng.random() < 0.5 else np.maximum(abs(a), abs(b)) < 1
        stripes = 0.6 + 0.4 * np.sign(np.sin(u * rng.uniform(50, 400))) if rng.random() < 0.3 else 1
        mixed = (rng.uniform(0, 255, 3) * (stripes * np.ones_like(x))[..., None] + image) / 2
        image = np.where(inside[..., None], mixed, image)
    return np.uint8(np.clip(image, 0, 255))


class Bench:
    def __init__(self, flags):
        self.flags = flags
        self.folder = Path(flags.result_dir)
        self.device = open_device(flags.device)
        make_folder(self.folder)
        photo = read_photo(flags.image) if flags.image else None
        self.photo = None if photo is None else over(photo, np.zeros(3))
        self.rows: list[dict] = []
        self._starts: dict[tuple, tuple] = {}  # the last one only

    def image(self, width: int, height: int) -> np.ndarray:
        if self.photo is None:
            return picture(width, height)
        return np.asarray(Image.fromarray(self.photo).resize((width, height), Image.LANCZOS))

    def config(self, **changes) -> FitConfig:
        return FitConfig(max_steps=10_000, seed=0, **changes)

    def start(self, blobs: int, width: int, height: int):
        """(photograph, blobs, moments) after WARM steps."""
        key = (blobs, width, height)
        if key not in self._starts:
            photo = self.image(width, height)
            session = FitSession(self.device, self.config(rasterizer="auto"), photo, blobs)
            session.set(Blobs.scattered(blobs, photo / 255, 0))
            for _ in range(self.flags.warm // 10):
                session.run(10)
            self._starts = {key: (photo, *session.get())}
            session.destroy()
        return self._starts[key]

    def time(self, part: str, blobs: int, width: int, height: int, **changes) -> dict:
        row = {"part": part, "blobs": blobs, "width": width, "height": height, **changes}
        try:
            photo, first, moments = self.start(blobs, width, height)
            batches = []
            session = FitSession(self.device, self.config(**changes), photo, blobs, batches.append)
        except UserError as error:
            return self._keep(row | {"failed": str(error)})
        session.set(first, moments, step=self.flags.warm)
        for steps in (1, 2):
            session.run(steps)
            session.drain()
        steps = int(np.clip(BATCH_SECONDS / (batches[-1].seconds / 2), 1, 50))
        for _ in range(BATCHES if batches[-1].seconds < 4 else 1):
            session.run(steps)
        session.drain()
        timed = batches[2:]
        ms = [1e3 * b.seconds / len(b.records) for b in timed]
        stages = {n: float(np.median([b.stages[n] for b in timed])) for n in timed[0].stages}
        row |= {
            "ms": float(np.median(ms)),
            "spread": [min(ms), max(ms)],
            "stages": stages,
            "names": session.raster.rows.names,
            "memory": sum(session.memory().values()),
        }
        row["pairs"] = int(timed[-1].records["pairs"][-1])
        session.destroy()
        return self._keep(row)

    def _keep(self, row: dict) -> dict:
        self.rows.append(row)
        d = self.device
        head = {
            "device": d.name,
            "driver": d.physical.driver,
            "host": platform.platform(),
            "command": " ".join(sys.argv),
            "warm": self.flags.warm,
        }
        write_json(self.folder / "fit_bench.json", head | {"rows": self.rows})
        if "failed" in row:
            result = row["failed"]
        else:
            result = f"{row['ms']:.3f} ms" if "ms" in row else f"{row['psnr']:.3f} dB"
        shown = "part blobs width height rasterizer reduction tile_pixels subgroup_size format loss"
        shown = shown.split()
        tqdm.write(" ".join(str(row[k]) for k in shown if k in row) + "  " + result)
        return row

    def variants(self) -> None:
        f = self.flags
        size = (f.blobs, f.width, f.height)
        for name, row in FIT_RASTERS.items():
            for reduction in row.reductions:
                if reduction != "auto":
                    self.time("variants", *size, rasterizer=name, reduction=reduction)
        for pixels in (32, 64, 128):
            self.time("variants", *size, rasterizer="sorted", tile_pixels=pixels)
        for lanes in self.device.subgroup_sizes:
            if lanes != self.device.subgroup_size and lanes >= 8:
                self.time("variants", *size, rasterizer="balloted", subgroup_size=lanes)
        self.time("variants", *size, rasterizer="hardware", format="float16")
        for name in ("binned", "balloted"):
            self.time("variants", *size, rasterizer=name, loss="l1-dssim")

    def blobs(self) -> None:
        for n in self.flags.numbers:
            for name in FIT_RASTERS:
                self.time("blobs", n, self.flags.width, self.flags.height, rasterizer=name)

    def pixels(self) -> None:
        for mp in self.flags.megapixels:
            height = round(np.sqrt(mp * 1e6 * 3 / 4))
            for name in FIT_RASTERS:
                width = round(mp * 1e6 / height)
                self.time("pixels", self.flags.blobs, width, height, rasterizer=name)

    def quality(self) -> None:
        """PSNR of each after as many steps from the same scattered blobs."""
        f = self.flags
        photo = self.image(f.width, f.height)
        for name in FIT_RASTERS:
            row = dict(part="quality", blobs=f.blobs, width=f.width, height=f.height)
            row |= dict(rasterizer=name, steps=f.steps)
            spent = []
            config = replace(self.config(rasterizer=name), max_steps=f.steps)
            try:
                session = FitSession(self.device, config, photo, f.blobs, spent.append)
            except UserError as error:
                self._keep(row | {"failed": str(error)})
                continue
            session.set(Blobs.scattered(f.blobs, photo / 255, 0))
            while session.step < f.steps:
                session.run(min(50, f.steps - session.step))
            row["psnr"], row["ssim"] = session.measure()
            curve = [float(-10 * np.log10(b.records["mse"][-1])) for b in spent]
            self._keep(row | {"seconds": sum(b.seconds for b in spent), "curve": curve})
            session.destroy()

    def report(self) -> None:
        (self.folder / "fit_bench.md").write_text(tables(self.rows) + "\n")
        print(tables(self.rows))
        plot(self.rows, self.folder / "fit_bench.png")


def tables(rows: list[dict]) -> str:
    def line(*cells) -> str:
        return "| " + " | ".join(map(str, cells)) + " |"

    out, timed = [], [r for r in rows if "ms" in r]
    variants = [r for r in timed if r["part"] == "variants"]
    usual = {r["rasterizer"]: r["ms"] for r in reversed(variants)}
    if usual:
        head = ("rasterizer", "reduction", "other settings", "ms a step")
        head = line(*head, "draw", "draw backward", "over binned")
        out += ["", head, line(*["---"] * 7)]
        for r in variants:
            keys = ("tile_pixels", "subgroup_size", "format", "loss")
            other = ", ".join(f"{k} {r[k]}" for k in keys if k in r)
            backward = sum(ms for n, ms in r["stages"].items() if n.startswith("draw backward"))
            names = r["names"]
            taken = names.get("reduction") or names.get("tile_backward")
            reduction = r.get("reduction", taken)
            times = (
                f"{r['ms']:.3f}",
                f"{r['stages'].get('draw', 0):.3f}",
                f"{backward:.3f}",
                f"{r['ms'] / usual.get('binned', np.nan):.1f}",
            )
            out.append(line(r["rasterizer"], reduction, other, *times))
        if {"balloted", "sorted"} <= usual.keys():
            out += ["", f"balloted / sorted: {usual['balloted'] / usual['sorted']:.3f}"]
    for part, axis in (
        ("blobs", lambda r: r["blobs"]),
        ("pixels", lambda r: f"{r['width']}x{r['height']}"),
    ):
        chosen = [r for r in timed if r["part"] == part]
        if chosen:
            head = line(part, *FIT_RASTERS, "balloted / sorted", "balloted / binned")
            out += ["", head, line(*["---"] * (len(FIT_RASTERS) + 3))]
            for at in dict.fromkeys(axis(r) for r in chosen):
                ms = {r["rasterizer"]: r["ms"] for r in chosen if axis(r) == at}
                ratios = [
                    f"{ms['balloted'] / ms[n]:.2f}" if {"balloted", n} <= ms.keys() else ""
                    for n in ("sorted", "binned")
                ]
                times = [f"{ms[n]:.3f}" if n in ms else "" for n in FIT_RASTERS]
                out.append(line(at, *times, *ratios))
    quality = [r for r in rows if "psnr" in r]
    if quality:
        out += ["", line("rasterizer", "steps", "PSNR", "SSIM", "s on the GPU"), line(*["---"] * 5)]
        for r in quality:
            numbers = f"{r['psnr']:.3f}", f"{r['ssim']:.4f}", f"{r['seconds']:.2f}"
            out.append(line(r["rasterizer"], r["steps"], *numbers))
        psnrs = [r["psnr"] for r in quality]
        out += ["", f"largest difference: {max(psnrs) - min(psnrs):.4f} dB"]
    failed = [r for r in rows if "failed" in r]
    if failed:
        out += ["", "Not run:", ""]
        for r in failed:
            size = f"{r['blobs']} blobs, {r['width']}x{r['height']}"
            out.append(f"- {r['rasterizer']} {r.get('reduction', '')} at {size}: {r['failed']}")
    return "\n".join(out[1:])


def plot(rows: list[dict], path: Path) -> None:
    figure = charts.figure(9, 4)
    for axis, part, of, label in zip(
        figure.subplots(1, 2),
        ("blobs", "pixels"),
        (lambda r: r["blobs"], lambda r: r["width"] * r["height"] / 1e6),
        ("blobs", "megapixels"),
    ):
        for i, name in enumerate(FIT_RASTERS):
            points = [
                (of(r), r["ms"])
                for r in rows
                if r["part"] == part and r["rasterizer"] == name and "ms" in r
            ]
            if points:
                axis.loglog(*zip(*points), label=name, **charts.line(i))
        axis.set_xlabel(label)
        axis.set_ylabel("ms a step")
        axis.grid(alpha=0.3, which="both")
        if axis.lines:
            axis.legend(fontsize=7)
    charts.save(figure, path)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--result-dir", required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--image", help="photograph instead of the picture made here")
    parser.add_argument("--device")
    parser.add_argument("--blobs", type=int, default=BLOBS)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument(
        "--numbers",
        type=int,
        nargs="+",
        default=NUMBERS,
        help="of blobs, for the part of that name",
    )
    parser.add_argument("--megapixels", type=float, nargs="+", default=MEGAPIXELS)
    parser.add_argument("--steps", type=int, default=1000, help="of the part quality")
    parser.add_argument("--warm", type=int, default=WARM)
    flags = parser.parse_args(argv)
    try:
        bench = Bench(flags)
        for part in flags.parts:
            getattr(bench, part)()
        bench.report()
    except UserError as error:
        sys.exit(f"fit_bench: error: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
