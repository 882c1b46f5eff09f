"""Times hardsplat.torch from PyTorch.

    python -m tools.torch_bench SPLATS SCENE [--splats N...] [--sizes 1297x840...]

SPLATS is a file of a trained scene, of which N splats are taken, larger or smaller so that they
cover as much. On CUDA where PyTorch has it, else on the CPU. Steps follow each other without
waiting; a line of JSON has medians of four rounds over eight views, in ms: forward alone, forward
and backward, and what the host takes of each until it has given its work away.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from hardsplat import load_scene, load_splats
from hardsplat.model.camera import Camera
from hardsplat.model.gaussians import Gaussians
from hardsplat.torch import engines, rasterization, shared

VIEWS, ROUNDS = 8, 4
WHERE = "cuda" if torch.cuda.is_available() else "cpu"
# how tensors are kept, where cameras are, what the loss is of
WAYS = [("shared", "cpu", "image"), ("shared", WHERE, "image"), ("plain", WHERE, "image")]
WAYS += [
    ("plain", WHERE, "image and alpha"),
    ("plain", WHERE, "RGB+ED"),
    ("plain", WHERE, "4 views"),
]


def resampled(g: Gaussians, n: int) -> list[np.ndarray]:
    """n of the splats, or some of them again beside themselves."""
    rng, scale = np.random.default_rng(0), np.float32(np.sqrt(len(g) / n))
    again = rng.integers(0, len(g), max(n - len(g), 0))
    rows = np.concatenate([rng.permutation(len(g))[:n], again])
    aside = (np.arange(n) >= len(g))[:, None] * rng.normal(size=(n, 3)) * g.scales[rows]
    means = (g.means[rows] + aside).astype(np.float32)
    return [means, g.quats[rows], scale * g.scales[rows], g.opacities[rows], g.sh[rows]]


def timed(step: Callable[[int], object]) -> tuple[float, float]:
    """Milliseconds of a step, and of the host's part."""
    finish = torch.cuda.synchronize if WHERE == "cuda" else lambda: None
    rounds = []
    for _ in range(ROUNDS + 1):  # the first grows buffers
        begun = time.perf_counter()
        for view in range(VIEWS):
            step(view)
        given = time.perf_counter()
        finish()
        rounds.append((time.perf_counter() - begun, given - begun))
    whole, host = 1e3 * np.median(rounds[1:], axis=0) / VIEWS
    return round(float(whole), 3), round(float(host), 3)


def measured(
    arrays: list[np.ndarray], cameras: list[Camera], width: int, height: int
) -> Iterator[dict]:
    w2cs = torch.tensor(np.stack([c.w2c for c in cameras]), dtype=torch.float32)
    K = np.stack([c.K for c in cameras])
    K[:, :2] *= width / cameras[0].width
    K[:, 1, 2] = height / 2
    Ks, degree = torch.tensor(K, dtype=torch.float32), int(arrays[4].shape[1] ** 0.5) - 1
    weight, of_rest = (torch.randn(height, width, n, device=WHERE) for n in (3, 1))
    for kept, where, what in WAYS:
        given = [torch.tensor(a, device=WHERE) for a in arrays]
        given = [(shared(t) if kept == "shared" else t).detach().requires_grad_() for t in given]
        mode, together = "RGB+ED" if what == "RGB+ED" else "RGB", 4 if what == "4 views" else 1
        # chosen beforehand: indices of tensors on a GPU have the host wait
        chosen = [[(view + i) % len(cameras) for i in range(together)] for view in range(VIEWS)]
        pairs = [(w2cs[each].to(where), Ks[each].to(where)) for each in chosen]

        def draw(view: int) -> tuple:
            pair = pairs[view]
            return rasterization(*given, *pair, width, height, sh_degree=degree, render_mode=mode)

        def forward(view: int) -> None:
            with torch.no_grad():
                draw(view)

        def step(view: int) -> None:
            image, alpha, _ = draw(view)
            loss = (image[..., :3] * weight).sum()
            if what in ("image and alpha", "RGB+ED"):
                loss = loss + ((alpha if mode == "RGB" else image[..., 3:]) * of_rest).sum()
            loss.backward()
            for t in given:
                t.grad = None

        found = dict(zip(("forward", "forward_host"), timed(forward)))
        found |= dict(zip(("step", "step_host"), timed(step)))
        yield {"tensors": kept, "cameras": where, "of": what, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("scene")
    parser.add_argument("--splats", type=int, nargs="+", default=[500_000, 2_000_000, 100_000])
    parser.add_argument("--sizes", nargs="+", default=["1297x840", "800x533"])
    args = parser.parse_args()
    model, views = load_splats(args.model), load_scene(args.scene).views
    chosen = np.linspace(0, len(views) - 1, VIEWS).astype(int)
    cameras = [views[i].camera for i in chosen]
    for n in args.splats:
        arrays = resampled(model, n)
        for size in args.sizes:
            for row in measured(arrays, cameras, *map(int, size.split("x"))):
                print(json.dumps({"splats": n, "size": size, **row}), flush=True)
    engines.close()


if __name__ == "__main__":
    main()
