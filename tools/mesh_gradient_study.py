"""Do estimates of a mesh's gradient converge? The error of their mean against central differences,
over the number of samples.

python -m tools.mesh_gradient_study --out docs/images/mesh_estimates.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hardsplat.gpu.probe import open_device
from hardsplat.report.charts import figure, line, save


def study(out: Path, samples: int, seed: int, device: str | None = None) -> dict[str, float]:
    """Writes the plot; the slopes by kind of parameter."""
    from tests.helpers.meshing import convergence, errors_by_samples

    page, slopes = figure(6.5, 4.5), {}
    axes = page.subplots()
    found = convergence(
        open_device(device),
        np.random.default_rng(seed),
        samples,
        lambda steps: tqdm(steps, unit="estimate"),
    )
    for i, (name, (estimates, exact)) in enumerate(found.items()):
        sizes, errors, slopes[name] = errors_by_samples(estimates, exact)
        axes.loglog(
            sizes,
            errors,
            **line(i),
            label=f"{name}, {exact.size} numbers: slope {slopes[name]:.3f}",
        )
        print(
            f"{name}: relative error {errors[0]:.3g} of 1, {errors[-1]:.3g} of "
            f"{sizes[-1]}, slope {slopes[name]:.3f}"
        )
    axes.loglog(
        sizes, errors[0] / np.sqrt(sizes), color="0.7", linewidth=1, label="1 / sqrt(samples)"
    )
    axes.set(
        xlabel="samples in the mean",
        ylabel="relative L2 error against central differences",
        title="Stochastic gradients of a mesh, fixed visibility",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    save(page, out)
    return slopes


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tools.mesh_gradient_study",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, default=Path("docs/images/mesh_estimates.png"), help="the plot"
    )
    parser.add_argument("--samples", type=int, default=4096, help="estimates, a power of 2")
    parser.add_argument("--seed", type=int, default=0, help="of sheet, texture and photograph")
    parser.add_argument("--device", help="Vulkan device, by index or part of its name")
    options = parser.parse_args()
    study(options.out, options.samples, options.seed, options.device)


if __name__ == "__main__":
    main()
